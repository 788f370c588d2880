"""What the patterns of wordings are made of: whom they speak of, what they ask for, and how.

Every gap in a pattern is bounded, so that reading takes time in proportion to the text. Patterns
are written for the readings of `plain`: lower case, Latin letters, single spaces.
"""
# ruff: noqa: E501 - a pattern is easier to read on one line

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from discovery_engine.scanner.findings import FindingKind, Severity

USER = r"(?:the |your |any ?|other )?(?:user|users|human|humans|anyone|anybody|them|person|owner)\b"
RULES = (
    r"(?:instructions?|prompts?|guidance|guidelines|rules|polic(?:y|ies)|directives?|orders"
    r"|restrictions|everything|safety \w+)\b"
)
EARLIER = (
    r"(?:previous|prior|earlier|above|preceding|existing|original|former|all|any|your|the user'?s?)"
)
NOT = r"(?:do not|don't|never|must not|should not|shall not|may not|without|no need to|not to)"
PATHS = (
    r"(?:\.ssh\b(?!/[\w.-]*\.pub)|\bid_(?:rsa|ed25519|ecdsa|dsa)\b(?!\.pub)|\.aws/credentials"
    r"|(?<![\w*])\.env\b|/etc/(?:passwd|shadow)|\bmcp\.json\b|claude_desktop_config|\.kube/config"
    r"|\.npmrc\b|\.netrc\b|\.docker/config|\.pgpass\b|/proc/self/environ|\bkeychain\b"
    r"|\.git-credentials)"
)
SECRETS = (
    r"(?:api[ _-]?keys?|(?:access |auth |bearer |session |refresh |\w+_)tokens?|passwords?"
    r"|secrets?"
    r"|credentials?|private keys?|seed phrase|recovery phrase|(?:session )?cookies"
    r"|environment variables|env vars|one-time codes?)"
)
GIVE = (
    r"(?:include|pass|send|append|put|attach|post|upload|forward|submit|supply|hand|paste|insert"
    r"|add|provide|return|copy|email|mail|share|transmit|export|leak|exfiltrate|dump|write"
    r"|encode|be sent)"
)
TAKE = r"(?:read|open|cat|extract|collect|gather|grab|retrieve|fetch|get|steal|load|use|harvest)"
IMPERATIVE = r"(?:^|[.;:,>!]\s*|\b(?:and|then|must|to|should|please|also|you|silently|secretly|have to|first) )"
DROP = r"(?:ignor(?:e|ing)|disregard(?:ing)?|forget(?:ting)?|overrid(?:e|ing)|set(?:ting)? aside|put aside|drop|abandon|dismiss|suspend|disobey|violate|break|circumvent|unlearn|bypass|neglect|overlook)"
BOUNDS = r"(?:instructions?|guidance|guidelines|rules|polic(?:y|ies)|directives?|orders|restrictions|training|guardrails|safeguards|safety|alignment|system prompt|constraints|limitations)"
LEARN = r"(?:learn|know|aware|notice|hear|find out|be told|be informed|be shown|discover|suspect|understand|realise|realize|see)"
PERSON = r"(?:(?:the |your |end )?(?:end )?(?:user|human|person|customer|owner)|anyone|anybody)"
PERSONAL = r"(?:(?:chat|conversation)(?: history| log| transcript| context)?|(?:system )?prompts?|messages?|history|api[ _-]?keys?|passwords?|secrets?|credentials|tokens?|private keys?|environment variables|cookies|mailbox|inbox|personal data)"
SLOT = r"(?:[`'\"]\w+[`'\"]|\w+) (?:parameter|argument|field|input|value|query|header)"
# What a tool has no business with, and a place for it that is not named after it.
FOREIGN = r"(?:(?:current |full |whole |entire |complete )?(?:conversation|chat)(?! (?:id|model|room|completion|message))|system prompt|environment (?:file|variables)|printenv|\benv\b|(?:access|session|bearer|auth) token|authorization header|the user'?s? (?:\w+ )?(?:messages?|prompts?|passwords?|history|location|name|address|email|files|data|identity|secrets?|keys?)|(?:files|notes|messages|mails|data) of other users|shell history|bash history|/\.bash_history|host ?name of|home directory|browser (?:history|cookies|tabs)|clipboard|ssh keys?|tool results?|other tools' (?:results?|output))"
ELSEWHERE = r"(?:in|into|to|as|inside|with|via) (?:the |its |our )?(?:field |argument |parameter |header )?[`'](?!\w*(?:messages?|conversation|chat|history|prompt|token|key|auth|secret|password|credential|header|env|transcript|context|cookie|location|user|name|email|address|file|path|body|text_to)\w*[`'])\w+[`']"
ADDRESS = r"(?:https?://|[\w.+-]{1,64}@[\w-]{1,64}\.\w|\+\d{6})"

# What may stand between two words of one sentence: a dot ends it only before a space.
_WITHIN = r"(?:[^.!?]|[.!?](?=\w))"


class Phrase(Struct, frozen=True):
    kind: FindingKind
    severity: Severity
    message: str
    pattern: re.Pattern[str]


def phrases(
    kind: FindingKind, severity: Severity, table: Mapping[str, tuple[str, ...]]
) -> list[Phrase]:
    """One phrase for each message, which any of its patterns makes."""
    return [
        Phrase(kind, severity, message, _compiled(patterns)) for message, patterns in table.items()
    ]


def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(patterns).replace("[^.!?]", _WITHIN), re.MULTILINE)
