"""Invisible characters: which of them have a reason to be there, and what they spell."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from discovery_engine._util.text import unseen
from discovery_engine.scanner.findings import Severity

_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_JOINING = re.compile("[\u0600-\u08ff\u0900-\u0dff\u0e80-\u0fff\u1000-\u109f\u1780-\u18af]")
_DIRECTIONS = frozenset("\u200e\u200f\u061c\u202a\u202b\u202c\u2066\u2067\u2068\u2069")
_JOINERS = frozenset("\u200c\u200d")
_HARMLESS = frozenset("\ufeff\xad\ufe0e\ufe0f\u200b")
"""Left behind by editors and hyphenators: odd alone, suspicious in number."""
_FLAG = re.compile("\U0001f3f4$")
_TAGS = re.compile("[\U000e0061-\U000e007a\U000e0030-\U000e0039]{3,6}\U000e007f")
_BLANK_RUN = re.compile("[\u115f\u1160\u2800\u3164\uffa0]{3,}")
_BITS = 16  # hidden characters of two kinds: two letters written in zeros and ones
_FEW = 2


class Hidden(Struct, frozen=True):
    severity: Severity
    start: int
    end: int
    message: str
    says: str = ""
    """What the characters spell, if they spell anything."""


def hidden_in(text: str) -> Iterator[Hidden]:
    """What is hidden in a text: the worst of it, first."""
    runs = [run for run in unseen(text) if not _has_reason(text, run)]
    if runs:
        characters = "".join(run[0] for run in runs)
        worst = max(runs, key=len_of)
        says = spelled(characters)
        severity = _severity(characters, says)
        yield Hidden(severity, worst.start(), worst.end(), _message(characters, says), says)
    if found := _BLANK_RUN.search(text):
        message = f"{len(found[0])} blank letters in a row"
        yield Hidden(Severity.WARNING, found.start(), found.end(), message)


def len_of(run: re.Match[str]) -> int:
    return run.end() - run.start()


def spelled(characters: str) -> str:
    """The text that tags, variation selectors or two kinds of hidden characters spell."""
    for read in (_from_tags, _from_selectors, _from_bits):
        if (text := read(characters)) and text.isprintable():
            return text
    return ""


def _has_reason(text: str, run: re.Match[str]) -> bool:
    before, after = text[max(0, run.start() - 1) : run.start()], text[run.end() : run.end() + 1]
    characters = set(run[0])
    if characters <= _JOINERS:
        return bool(_JOINING.match(before) and _JOINING.match(after))
    if characters <= _DIRECTIONS:
        return bool(_RIGHT_TO_LEFT.search(text))
    if run[0] == "\ufeff" and not before:
        return True
    return bool(_FLAG.match(before) and _TAGS.fullmatch(run[0]))


def _severity(characters: str, says: str) -> Severity:
    if says:
        return Severity.DANGER
    if len(characters) <= _FEW and set(characters) <= _HARMLESS:
        return Severity.NOTICE
    overrides = any(c in "\x1b\x9b\x9d\u202d\u202e" or c >= "\U000e0000" for c in characters)
    return Severity.DANGER if overrides else Severity.WARNING


def _message(characters: str, says: str) -> str:
    if says:
        return f"hidden characters spell {says[:100]!r}"
    if any(c in "\x1b\x9b\x9d" for c in characters):
        return "it holds control sequences for terminals"
    if any(c in "\u202d\u202e" for c in characters):
        return "it turns the direction of the text round"
    count = len(characters)
    return f"{count} hidden character{'' if count == 1 else 's'}"


def _from_tags(characters: str) -> str:
    points = [ord(c) - 0xE0000 for c in characters if "\U000e0020" <= c <= "\U000e007e"]
    return "".join(map(chr, points)) if len(points) > _FEW else ""


def _from_selectors(characters: str) -> str:
    octets = [value for c in characters if (value := _octet(c)) is not None]
    if len(octets) <= _FEW:
        return ""
    return bytes(octets).decode("utf-8", "ignore")


def _octet(character: str) -> int | None:
    if "\ufe00" <= character <= "\ufe0f":
        return ord(character) - 0xFE00
    if "\U000e0100" <= character <= "\U000e01ef":
        return ord(character) - 0xE0100 + 16
    return None


def _from_bits(characters: str) -> str:
    kinds = sorted(set(characters))
    if len(kinds) != 2 or len(characters) < _BITS or len(characters) % 8:  # noqa: PLR2004 - zeros and ones
        return ""
    bits = "".join("01"[kinds.index(c)] for c in characters)
    octets = bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits), 8))
    return octets.decode("utf-8", "ignore") if all(32 <= o < 127 for o in octets) else ""  # noqa: PLR2004 - ASCII
