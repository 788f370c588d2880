"""The clauses of a request that say what is asked for, without conditions and what is negated.

when the build fails, restart it              restart it
do not list them, delete the old ones         delete the old ones
si el servicio se detiene, borra el archivo   borra el archivo
do not delete the branch                      nothing is asked for
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

_MOST = 16  # clauses; the rest is one
_PUNCTUATION = r"[,;:](?!\d)|[\uff0c\u3001\uff1b\uff1a]|\s[-\u2013\u2014]\s"
_ENDS = " .!\u3002\uff01"
_SUBJECT = r"(?:i|we|you|they)\b"
_AUXILIARY = (
    r"(?:is|are|was|were|am|do|does|did|will|would|can|could|should|shall|may|might|must|has|have"
    r"|had)\b"
)


class _Marks(NamedTuple):
    """Of a language, what shows that a clause asks for nothing."""

    condition: str
    """At the beginning; nothing where the last verb decides, which is in no condition."""
    negation: str
    """At the beginning."""
    final_negation: str = ""
    conjunction: str = ""
    """What separates clauses beside punctuation."""


_MARKS = {
    "en": _Marks(
        r"(?:(?:and|so|also|please|ok|hey)\s)?"
        r"(?:(?:if|whenever|wherever|once|unless|until|while|after|before"
        r"|as (?:soon|long) as|in case|because|since|although|though|assuming|provided"
        r"|given that|instead of|rather than|without|for (?:each|every|any))\b"
        rf"|(?:when|where)\b(?!['\u2019]?s\b|\s+{_AUXILIARY}))",
        r"(?:(?:please|pls|and|so|also|then|(?:can|could|would|will) you|(?:we|you) (?:should|must)"
        r"|(?:i|we) (?:want|need) you to)\s+)*"
        r"(?:(?:do not|don['\u2019]?t|never|no need to)\s"
        rf"(?!{_SUBJECT}|(?:forget|hesitate|fail|neglect) to\b)"
        r"|(?<=you )not\s|(?<=you to )not\s|(?<=should )not\s|(?<=must )not\s|no$)",
        conjunction=r"\s(?:but|then|instead)\s",
    ),
    "de": _Marks(
        "(?:wenn|falls|sobald|nachdem|bevor|solange|sofern|w\u00e4hrend|weil|statt|anstatt|ohne)\\b",
        r"(?:bitte\s+)?(?:nicht|keine?n?)\s",
        r"^(?!(?:warum|wieso|weshalb|was|wer|wie|wo|wann|welche)\b).*\bnicht(?: +\S+)?$",
        conjunction=r"\s(?:sondern|aber)\s",
    ),
    "nl": _Marks(
        "(?:als|wanneer|zodra|indien|nadat|voordat|terwijl|omdat|zolang|in plaats van|zonder)\\b",
        r"(?:niet|geen)\s",
        r"^(?!(?:waarom|wat|wie|waar|wanneer|hoe|welke?)\b).*\bniet(?: +\S+)?$",
        conjunction=r"\s(?:maar)\s",
    ),
    "es": _Marks(
        "(?:si|cuando|en cuanto|tan pronto como|despu\u00e9s de|antes de|mientras|una vez que"
        "|cada vez que|siempre que|aunque|porque|en vez de|en lugar de|sin)\\b",
        r"(?:por favor\s+)?(?:no|nunca)(?:\s|$)",
        conjunction=r"\s(?:sino|pero)\s",
    ),
    "fr": _Marks(
        "(?:si|s['\u2019]il|quand|lorsque|d\u00e8s que|apr\u00e8s|avant|pendant que|tant que"
        "|chaque fois que|une fois|au lieu de|plut\u00f4t que|sans)\\b|lorsqu['\u2019]",
        r"(?:ne\s|n['\u2019])",
        conjunction=r"\s(?:mais)\s",
    ),
    "it": _Marks(
        "(?:se|quando|(?:non )?appena|dopo|prima di|mentre|ogni volta che|finch\u00e9|una volta"
        "|invece di|anzich\u00e9|senza)\\b",
        r"(?:per favore\s+)?(?:non\s|no$)",
        conjunction=r"\s(?:ma|bens\u00ec)\s",
    ),
    "pt": _Marks(
        "(?:se|quando|assim que|logo que|depois de|antes de|enquanto|sempre que|caso|em vez de"
        "|ao inv\u00e9s de|sem)\\b",
        r"(?:por favor\s+)?n[\u00e3a]o(?:\s|$)",
        conjunction=r"\s(?:mas)\s",
    ),
    "ru": _Marks(
        "(?:если|когда|как только|после|перед|пока|прежде чем|вместо|без|в случае)\\b",
        r"(?:пожалуйста\s+)?(?:не\s|нельзя\s|нет$)",
        conjunction=r"\s(?:\u0430|но)\s",
    ),
    "zh": _Marks(
        "如果|若|假如|要是|当|當|一旦|每当|每當|除非",
        "[请請]?(?:不要|不用|不必|勿|[无無]需|[别別](?![名人的墅]))",
        conjunction="而是",
    ),
    "ja": _Marks("", "", "(?:ないで(?:ください|下さい|ね|くれ)?|ずに|ではなく)$"),
    "ko": _Marks("", "", r"지 ?(?:마|말)\S*(?: ?(?:줘|주세요|주십시오))?$"),
}


class _Grammar(NamedTuple):
    """Of a language, compiled."""

    separator: re.Pattern[str]
    condition: re.Pattern[str]
    negation: re.Pattern[str]


_NOTHING = r"(?!)"


def _compiled(marks: _Marks) -> _Grammar:
    separators = "|".join(filter(None, (_PUNCTUATION, marks.conjunction)))
    begins = f"^(?:{marks.negation})" if marks.negation else ""
    negations = "|".join(filter(None, (begins, marks.final_negation))) or _NOTHING
    return _Grammar(
        re.compile(separators, re.IGNORECASE),
        re.compile(marks.condition or _NOTHING, re.IGNORECASE),
        re.compile(negations, re.IGNORECASE),
    )


@cache
def _grammar(code: str) -> _Grammar | None:
    return _compiled(_MARKS[code]) if code in _MARKS else None


def asking_clauses(text: str, code: str) -> str:
    """What is left of a sentence in a language; nothing if all of it is negated."""
    grammar = _grammar(code)
    if not grammar:
        return text
    clauses = [clause.strip(_ENDS) for clause in grammar.separator.split(text, maxsplit=_MOST)]
    affirmed = [clause for clause in clauses if not grammar.negation.search(clause)]
    asking = [clause for clause in affirmed if not grammar.condition.match(clause)]
    if len(asking) == len(clauses):
        return text
    return ", ".join(filter(None, asking)) or (text if len(affirmed) == len(clauses) else "")
