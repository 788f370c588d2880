"""What the patterns of wordings are made of: whom they speak of, what they ask for, and how.

Every gap in a pattern is bounded, so that reading takes time in proportion to the text. Patterns
are written for the readings of `plain`: lower case, Latin letters, single spaces.
"""
# ruff: noqa: E501 - a pattern is easier to read on one line

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

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
FOREIGN = r"(?:\b(?:(?:current |full |whole |entire |complete )?(?:conversation|chat)(?! (?:id|model|room|completion|message))|system prompt|environment (?:file|variables)|printenv|\benv\b|(?:access|session|bearer|auth) token|authorization header|the user'?s? (?:\w+ )?(?:messages?|prompts?|passwords?|history|location|name|address|email|files|data|identity|secrets?|keys?)|(?:files|notes|messages|mails|data) of other users|shell history|bash history|host ?name of|home directory|browser (?:history|cookies|tabs)|clipboard|ssh keys?|tool results?|other tools' (?:results?|output))|/\.bash_history)"
ELSEWHERE = r"\b(?:in|into|to|as|inside|with|via) (?:the |its |our )?(?:field |argument |parameter |header )?[`'](?!\w*(?:messages?|conversation|chat|history|prompt|token|key|auth|secret|password|credential|header|env|transcript|context|cookie|location|user|name|email|address|file|path|body|text_to)\w*[`'])\w+[`']"
ADDRESS = r"(?:https?://|[\w.+-]{1,64}@[\w-]{1,64}\.\w|\+\d{6})"

NO_WORDS = ""
"""Of languages that do not put spaces between words."""

# What may stand between two words of one sentence: a dot ends it only before a space.
_WITHIN = r"(?:[^.!?]|[.!?](?=\w))"


class Said(NamedTuple):
    """One thing to say, in any of these patterns; none of them fits where none of the words is."""

    words: frozenset[str]
    patterns: tuple[str, ...]


class Phrase(Struct, frozen=True, dict=True):
    kind: FindingKind
    severity: Severity
    message: str
    said: Said

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Compiled when it is first needed: all of them take longer than reading a hundred tools."""
        return re.compile("|".join(self.said.patterns).replace("[^.!?]", _WITHIN), re.MULTILINE)


def said(words: str, *patterns: str) -> Said:
    return Said(frozenset(words.split()), patterns)


def phrases(
    severity: Severity, table: Mapping[FindingKind, Mapping[str, Said]]
) -> tuple[Phrase, ...]:
    """One phrase for each message."""
    return tuple(
        Phrase(kind, severity, message, one)
        for kind, messages in table.items()
        for message, one in messages.items()
    )
