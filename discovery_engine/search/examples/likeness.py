"""How alike two definitions of a tool are, from digests of their words.

The shipped pack keeps digests, not the texts of the servers' authors.
"""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from discovery_engine.tools.model import Tool

_SEPARATORS = re.compile(r"[\W_]+")
_WORDS = re.compile(r"[^\W_]+")  # not the tokenizer of search: with that one the pack would change
_MAX_COMPARED_LENGTH = 1_000  # characters of a description; what it does stands at its beginning
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "a all an and any are as at be by can for from get if in into is it its of on or returns"
        " that the this to use used which will with you your",
    )
)  # words that any two descriptions share
_WORD = 0xFFFF  # of two descriptions of 25 words each, one pair in a hundred has an equal digest
_HEX = 4  # digits of a word


class Likeness(NamedTuple):
    """The likeness of two definitions."""

    parameters: float
    """From 0 to 1, as the others."""
    description: float
    shared: int
    """How many parameters and words both have."""

    @property
    def mean(self) -> float:
        return (self.parameters + self.description) / 2


class Signature(Struct, frozen=True):
    """The parts of a definition that are compared."""

    parameters: frozenset[int]
    """Digests of the names of its parameters, however they are spelled."""
    description: frozenset[int]
    """Digests of the words at the beginning of its description."""

    @classmethod
    def of(cls, tool: Tool) -> Signature:
        """Make the signature of the server's definition; the owner's overrides do not count."""
        properties = tool.upstream_schema.get("properties")
        names = properties if isinstance(properties, dict) else ()
        text = tool.definition.get("description")
        text = text[:_MAX_COMPARED_LENGTH] if isinstance(text, str) else ""
        return cls(
            _digests(map(plain_name, names)), _digests({*_WORDS.findall(text.casefold())} - _COMMON)
        )

    @classmethod
    def from_text(cls, parameters: str, description: str) -> Signature:
        """Read the texts that `to_text` returned."""
        return cls(_numbers(parameters), _numbers(description))

    def to_text(self) -> tuple[str, str]:
        return _text(self.parameters), _text(self.description)

    def likeness(self, other: Signature) -> Likeness:
        parameters = self.parameters & other.parameters
        description = self.description & other.description
        return Likeness(
            _dice(parameters, self.parameters, other.parameters),
            _dice(description, self.description, other.description),
            len(parameters) + len(description),
        )


def plain_name(name: str) -> str:
    """A name however it is spelled: `getUser`, `get_user` and `get-user` are one."""
    return _SEPARATORS.sub("", name.casefold()) or name


def _dice(shared: frozenset[int], ours: frozenset[int], theirs: frozenset[int]) -> float:
    return 2 * len(shared) / (len(ours) + len(theirs)) if ours or theirs else 1.0


def _digests(texts: Iterable[str]) -> frozenset[int]:
    return frozenset(zlib.crc32(text.encode("utf-8", "replace")) & _WORD for text in texts)


def _text(numbers: Iterable[int]) -> str:
    return "".join(f"{number:0{_HEX}x}" for number in sorted(numbers))


def _numbers(text: str) -> frozenset[int]:
    return frozenset(int(text[at : at + _HEX], 16) for at in range(0, len(text), _HEX))
