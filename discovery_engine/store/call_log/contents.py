"""Redaction of what the call log keeps: known secrets, and what looks like one.

    GUESSING.encoded([{"text": "token=s3cr3tK9"}], ["token=s3cr3tK9"])    ['{"text":"token=••••"}']

It runs in the thread that writes. Most texts hold nothing: they are looked through together, and
only if there may be something, each one alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import msgspec

from discovery_engine._util.json import JSONValue
from discovery_engine.secrets.known_secrets import KNOWN_SECRETS
from discovery_engine.secrets.quick_search import quick_search
from discovery_engine.secrets.references import REDACTED
from discovery_engine.secrets.secret_names import NameKind, is_harmless
from discovery_engine.store.call_log.excerpt import CutText

_SEPARATOR = "\n"

# What is looked for in texts. A quote may be escaped, for many servers return JSON as a text.
_WORDS = (
    r"token|secret|passw(?:or)?d|passphrase|pwd|api[-_ ]?key|credential"
    r"|(?:access|private|account|signing|encryption|master)[-_ ]?key"
)
_KEYS = r"(?:[spr]k|gh[opsu]|github_pat|glpat|hf|npm|pypi|xox[a-z])[-_]"
_EQUALS = r"[\"'\\]{0,4}[ \t]{0,3}[=:][ \t]{0,3}[\"'\\]{0,4}"
_NAMED_SECRET = re.compile(
    rf"(?P<before>(?P<name>[\w.-]{{0,40}}(?:{_WORDS})[\w.-]{{0,20}}){_EQUALS})"
    r"(?P<value>[^\s\"'\\,;&<>{}\[\]()]{3,})",
    re.IGNORECASE,
)
_WITH_PREFIX = re.compile(
    r"(?P<before>[?&](?:key|sig|signature|code|auth)=)[^\s\"'\\&#<>]{6,}"
    r"|(?P<header>(?:authorization|cookie)[\"'\\]{0,4}\s{0,3}[=:,]\s{0,3}[\"'\\]{0,4})"
    r"[^\"'\\\r\n]+"
    r"|(?P<scheme>\b(?:bearer|basic)\s{1,3})[\w.~+/=-]{8,}"
    r"|(?P<address>://)[^\s/?#\"'<>@]{1,200}(?=@)",
    re.IGNORECASE,
)
_LIKE_KEY = re.compile(
    rf"(?<![A-Za-z0-9])(?:{_KEYS}[\w.+/=-]{{8,}}|eyJ[\w-]{{8,}}|AKIA[0-9A-Z]{{16}})(?:\.[\w-]+){{0,2}}"
)
# Whatever one of these finds has a match of this one, in the syntax of Rust. Without counted
# repetitions, whose automaton is too large to keep: searching took three times as long.
_ANY = (
    rf"(?i:(?:{_WORDS})[A-Za-z0-9_.\-\x80-\u{{10ffff}}]*[\"'\\\s]*[=:]"
    r"|[?&](?:key|sig|signature|code|auth)="
    r"|(?:authorization|cookie)[\"'\\\s]*[=:,]"
    r"|(?:bearer|basic)\s+\S\S\S\S\S\S\S\S"
    r"|://[^\s/?#\"'<>@]+@)"
    rf"|{_KEYS}|eyJ|AKIA"
)


class Contents:
    """Turns excerpts into the JSON texts that are stored."""

    def __init__(self, *, guesses: bool) -> None:
        """`guesses` tells whether what looks like a secret is hidden, too, beside known ones."""
        self._guesses = guesses
        self._suspicious = _ANY if guesses else ""

    def encoded(self, values: Sequence[JSONValue], texts: Sequence[str]) -> list[str | None]:
        """The JSON of each excerpt, without secrets; `texts` are those in them. None for None."""
        if KNOWN_SECRETS.may_redact(_SEPARATOR.join(texts), also=self._suspicious):
            values = [_with_texts(value, self.redact) for value in values]
        return [None if value is None else _encoded(value) for value in values]

    def redact(self, text: str) -> str:
        """A text without secrets."""
        text = KNOWN_SECRETS.redact(text)
        if not (self._guesses and self._may_look_like_secret(text)):
            return text
        text = _WITH_PREFIX.sub(lambda match: f"{match[match.lastgroup or 0]}{REDACTED}", text)
        return _LIKE_KEY.sub(_without_key, _NAMED_SECRET.sub(_without_value, text))

    @cached_property
    def _may_look_like_secret(self) -> Callable[[str], bool]:
        return quick_search(_ANY)


def _encoded(value: JSONValue) -> str:
    try:
        return _ENCODER.encode(value).decode()
    except (ValueError, OverflowError):  # half a surrogate pair
        mended = _with_texts(value, lambda text: text.encode("utf-8", "replace").decode())
        return _ENCODER.encode(mended).decode()


def _with_texts(value: JSONValue, change: Callable[[str], str]) -> JSONValue:
    match value:
        case str():
            return change(value)
        case CutText():
            return value.shown(change(value.text))
        case dict():
            return {change(name): _with_texts(member, change) for name, member in value.items()}
        case list():
            return [_with_texts(element, change) for element in value]
    return value


def _without_value(match: re.Match[str]) -> str:
    value = match["value"]
    if NameKind.of(match["name"]) is not NameKind.SECRET or is_harmless(value):
        return match[0]
    return match["before"] + REDACTED


def _without_key(match: re.Match[str]) -> str:
    # `sk_learn_model` is the name of something.
    return REDACTED if any(map(str.isdigit, match[0])) or match[0].isupper() else match[0]


def _unknown(value: Any) -> Any:
    if isinstance(value, CutText):
        return value.shown(value.text)
    raise TypeError(value)


_ENCODER = msgspec.json.Encoder(enc_hook=_unknown)

GUESSING = Contents(guesses=True)
KNOWN_ONLY = Contents(guesses=False)
