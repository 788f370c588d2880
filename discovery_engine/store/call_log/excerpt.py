"""Bounded copies of arguments and answers, made before anything waits in a queue.

    excerpt({"user": "ann", "password": "x", "text": "long…"}, limit=2048, masks=True)

A copy costs no more than its limit, however long the original is, and shares nothing that its
owner could still change.
"""

from __future__ import annotations

import re
from functools import lru_cache

from discovery_engine._util.json import JSONValue
from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine.secrets.redactor import SHORTEST_BEGINNING
from discovery_engine.secrets.references import REDACTED
from discovery_engine.secrets.secret_names import NameKind, looks_like_key

_COUNTED = 1000  # values
_DEEPEST = 20  # levels
_PLAIN = 4  # characters that a number or a word of JSON counts for
_NAME = 100  # characters of a member's name
_LONGEST_OTHER = 1000  # characters of what is no JSON; only programs pass such values
_WHAT_IS_CUT = "…"
# A longer whole number is written as text: few readers of JSON take it.
_JSON_INTEGER_LIMIT = 1 << 63
_WEAK = lazy_pattern(r"(?:.*[-_. ])?(?:key|pat|sid|sig|signature|session)s?", re.IGNORECASE)
_STRONG_KEY = lazy_pattern(
    r".*(?:api|access|private|account|shared|signing|encryption|master|secret)[-_. ]?keys?",
    re.IGNORECASE,
)


class CutText:
    """The beginning of a text, with some characters more, by which a divided secret is found."""

    __slots__ = ("omitted", "text")

    def __init__(self, text: str, omitted: int) -> None:
        self.text = text
        self.omitted = omitted

    def shown(self, redacted: str) -> str:
        """The beginning alone, from its redacted text, with a label of the cut."""
        return f"{redacted[:-SHORTEST_BEGINNING]}… [{self.omitted:,} more characters]"


class Excerpt:
    """Copies values until the limit is reached, and collects the texts that may hold secrets."""

    __slots__ = ("_is_whole", "_limit", "_masks", "_others", "_rest", "texts", "weight")

    def __init__(self, limit: int, *, masks: bool) -> None:
        """`limit` in characters; with `masks` the values of members named as secrets are hidden."""
        self._limit = self._rest = limit
        self._masks = masks
        self._is_whole = True
        self._others = 0
        """Characters that the limit counts and `size_of` does not: those of names."""
        self.texts: list[str] = []
        """All that were copied."""
        self.weight = 0
        """Characters that were copied."""

    def copy(self, value: JSONValue) -> tuple[JSONValue, int]:
        """A copy of one value, up to the limit; and the characters in the value, as `size_of`."""
        self._rest, self._others, self._is_whole = self._limit, 0, True
        copied = self.of(value, 0)
        rest = self._rest
        self.weight += self._limit - max(rest, 0)
        if rest > 0 and self._is_whole:  # then they were counted already: 1 µs less
            return copied, self._limit - rest - self._others
        return copied, size_of(value)

    def of(self, value: JSONValue, depth: int) -> JSONValue:
        """A copy of a value."""
        kind = type(value)
        if kind is str:
            return self._text(value)
        if kind is dict:
            return self._members(value, depth)
        if kind is list or kind is tuple:
            return self._items(value, depth)
        if value is None or kind is bool or kind is float:
            return self._plain(value)
        if kind is int and -_JSON_INTEGER_LIMIT <= value < _JSON_INTEGER_LIMIT:
            return self._plain(value)
        self._is_whole = False
        return self._text(str(value)[:_LONGEST_OTHER])

    def _plain(self, value: JSONValue) -> JSONValue:
        self._rest -= _PLAIN
        self._others += _PLAIN - len(str(value))
        return value

    def _text(self, text: str) -> str | CutText:
        rest = self._rest
        self._rest = rest - len(text)
        if self._rest >= 0:
            self.texts.append(text)
            return text
        rest = max(rest, 0)
        cut = CutText(text[: rest + SHORTEST_BEGINNING], len(text) - rest)
        self.texts.append(cut.text)
        return cut

    def _members(self, value: dict[str, JSONValue], depth: int) -> JSONValue:
        copy: dict[str, JSONValue] = {}
        texts, masks = self.texts, self._masks
        for key, member in value.items():
            name = key if type(key) is str else str(key)  # a program's own
            rest = self._rest
            if rest <= 0 or depth > _DEEPEST:
                copy[_WHAT_IS_CUT] = f"{len(value) - len(copy)} more"
                self._is_whole = False
                break
            length = len(name)
            if length > _NAME:
                name, length = name[:_NAME] + _WHAT_IS_CUT, _NAME + 1
            self._others += length
            rest -= length
            texts.append(name)
            if masks and _strength(name) and is_secret_member(name, member):
                self._rest, self._is_whole = rest, False
                copy[name] = REDACTED
            elif type(member) is str and len(member) <= rest:  # most members
                self._rest = rest - len(member)
                texts.append(member)
                copy[name] = member
            else:
                self._rest = rest
                copy[name] = self.of(member, depth + 1)
        return copy

    def _items(self, value: list[JSONValue], depth: int) -> JSONValue:
        copy: list[JSONValue] = []
        for item in value:
            if self._rest <= 0 or depth > _DEEPEST:
                copy.append(f"{_WHAT_IS_CUT} {len(value) - len(copy)} more")
                self._is_whole = False
                break
            copy.append(self.of(item, depth + 1))
        return copy


def size_of(value: JSONValue) -> int:
    """The characters in a value without the names of members, counted in its first values."""
    # Encoding it would be exact, but takes 10 ms for a result of 8 MiB.
    characters, rest = 0, [value]
    for _ in range(_COUNTED):
        if not rest:
            break
        node = rest.pop()
        kind = type(node)  # `match` takes three times as long, in each call
        if kind is str:
            characters += len(node)
        elif kind is dict:
            rest += node.values()
        elif kind is list:
            rest += node
        else:
            characters += len(str(node))
    return characters


def is_secret_member(name: str, value: JSONValue) -> bool:
    """Return whether the value of a member is hidden because of the member's name.

    `key`, `session` and the like name ordinary things as well; their values are hidden if they have
    the form of a key.
    """
    strength = _strength(name)
    if not strength or value is None or type(value) is bool or value in ("", [], {}):
        return False
    if strength == 1:
        return type(value) is str and looks_like_key(value)
    # `input_tokens: 512` is a count, and `pin: 1234` is not.
    return not (type(value) in (int, float) and "token" in name.lower())


@lru_cache(maxsize=2048)
def _strength(name: str) -> int:
    if NameKind.of(name) is not NameKind.SECRET:
        return 0
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return 1 if _WEAK.fullmatch(words) and not _STRONG_KEY.fullmatch(words) else 2
