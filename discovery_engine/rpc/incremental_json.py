"""An incremental JSON parser: a generator, so that other tasks run between its steps.

    reading = parse_incrementally(text, clean)    # a generator; a step takes under a millisecond

The C scanner of `json` parses every value that fits into a window of the text. Only arrays and
objects larger than a window are split here, into as many items at a time as fit. A value that
ends at the end of a window is not trusted: a number may continue behind it.

Parsing 9 MB in one go holds the event loop for 90 ms. In steps it takes a tenth longer in total,
and no step takes more than a millisecond.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

from discovery_engine._util.json import JSONObject, JSONValue, parse_finite, refuse_constant
from discovery_engine._util.lazy_pattern import lazy_pattern

Clean: TypeAlias = Callable[[Any, str], Any]
"""Sanitizes a value; gets the text it was parsed from."""

T = TypeVar("T")
ParseSteps: TypeAlias = Generator[None, None, T]

WINDOW = 16 * 1024  # characters: a tenth of a millisecond, or a whole one if all items are tiny

_MAX_DEPTH = 200  # levels, each larger than a window; results are limited to half of it

_BLANK = lazy_pattern(r"[ \t\n\r]*")
_COMMA = lazy_pattern(r"[ \t\n\r]*,[ \t\n\r]*")
_COLON = lazy_pattern(r"[ \t\n\r]*:[ \t\n\r]*")
_EXPONENT = 2  # characters that may continue a number without being one: 1e+
_OPENING = ('"', "[", "{")
_CLOSING = '"]}'
_SCAN: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder(
    parse_constant=refuse_constant, parse_float=parse_finite
).scan_once  # type: ignore[attr-defined] # public, and not known to the stubs


def parse_incrementally(text: str, clean: Clean, *, window: int = WINDOW) -> ParseSteps[JSONValue]:
    """Parse a text; the generator returns the value.

    Raises:
        ValueError: If it is not JSON, or nests too deeply.
    """
    parser = _ValueParser(text, clean, window)
    value, end = yield from parser.value(parser.skip_blanks(0), depth=0)
    if (end := parser.skip_blanks(end)) != len(text):
        raise json.JSONDecodeError("Extra data", text, end)
    return value


class _ValueParser:
    """Each method takes the position to parse from and returns the position behind the value."""

    def __init__(self, text: str, clean: Clean, window: int) -> None:
        self._text = text
        self._clean = clean
        self._window = window

    def skip_blanks(self, at: int) -> int:
        return _end(_BLANK.match(self._text, at))

    def value(self, at: int, *, depth: int) -> ParseSteps[tuple[JSONValue, int]]:
        yield
        window = self._text[at : at + self._window]
        if (scan := _scanned(window, 0, is_cut=self._is_cut_at(at))) is not None:
            value, length = scan
            return self._clean(value, window[:length]), at + length
        if depth > _MAX_DEPTH:
            raise ValueError("it nests too deeply")
        if self._is_cut_at(at) and window[0] == "[":
            return (yield from self._array(at + 1, depth=depth))
        if self._is_cut_at(at) and window[0] == "{":
            return (yield from self._object(at + 1, depth=depth))
        return self._scalar(at)

    def _array(self, at: int, *, depth: int) -> ParseSteps[tuple[list[JSONValue], int]]:
        items: list[JSONValue] = []
        at = self.skip_blanks(at)
        if self._text.startswith("]", at):
            return items, at + 1
        while True:
            some, at = self._elements(at)
            items += some
            if some:
                yield
            else:  # the next item alone is larger than a window, so split it
                item, at = yield from self.value(at, depth=depth + 1)
                items.append(item)
            if (comma := _COMMA.match(self._text, at)) is None:
                return items, self._closed(at, "]")
            at = comma.end()

    def _object(self, at: int, *, depth: int) -> ParseSteps[tuple[JSONObject, int]]:
        items: JSONObject = {}
        at = self.skip_blanks(at)
        if self._text.startswith("}", at):
            return items, at + 1
        while True:
            some, at = self._members(at)
            items |= some
            if some:
                yield
            else:
                key, at = self._key(at)
                items[key], at = yield from self.value(at, depth=depth + 1)
            if (comma := _COMMA.match(self._text, at)) is None:
                return items, self._closed(at, "}")
            at = comma.end()

    def _elements(self, at: int) -> tuple[list[JSONValue], int]:
        """The elements that fit into a window; none if the first one does not."""
        window, is_cut = self._text[at : at + self._window], self._is_cut_at(at)
        first = _scanned(window, 0, is_cut=is_cut)
        elements, end = (first and _scan_many(window, "[]", first[1])) or ([], 0)
        place = _behind_comma(window, end) if elements else 0
        while place is not None and (item := _scanned(window, place, is_cut=is_cut)):
            elements.append(item[0])
            end = item[1]
            place = _behind_comma(window, end)
        return self._clean(elements, window[:end]), at + end

    def _members(self, at: int) -> tuple[JSONObject, int]:
        """The members that fit into a window; none if the first one does not."""
        window, is_cut = self._text[at : at + self._window], self._is_cut_at(at)
        first = _member(window, 0, is_cut=is_cut)
        members, end = (first and _scan_many(window, "{}", first[2])) or ({}, 0)
        place = _behind_comma(window, end) if members else 0
        while place is not None and (member := _member(window, place, is_cut=is_cut)):
            key, members[key], end = member
            place = _behind_comma(window, end)
        return self._clean(members, window[:end]), at + end

    def _key(self, at: int) -> tuple[str, int]:
        if not self._text.startswith('"', at):
            raise json.JSONDecodeError(
                "Expecting property name enclosed in double quotes", self._text, at
            )
        key, end = self._scalar(at)
        end = self.skip_blanks(end)
        if (colon := _COLON.match(self._text, end)) is None:
            raise json.JSONDecodeError("Expecting ':' delimiter", self._text, end)
        return key, colon.end()

    def _scalar(self, at: int) -> tuple[JSONValue, int]:
        """Parse a string, number or literal of any length, or raise why it is not JSON."""
        try:
            value, end = _SCAN(self._text, at)
        except StopIteration:
            raise json.JSONDecodeError("Expecting value", self._text, at) from None
        return self._clean(value, self._text[at:end]), end

    def _closed(self, at: int, bracket: str) -> int:
        at = self.skip_blanks(at)
        if not self._text.startswith(bracket, at):
            raise json.JSONDecodeError("Expecting ',' delimiter", self._text, at)
        return at + 1

    def _is_cut_at(self, at: int) -> bool:
        return at + self._window < len(self._text)


def _scanned(window: str, at: int, *, is_cut: bool) -> tuple[JSONValue, int] | None:
    """A value and its end; None if it is invalid or may be cut by the end of the window."""
    try:
        value, end = _SCAN(window, at)
    except (StopIteration, json.JSONDecodeError):
        return None
    may_go_on = is_cut and end >= len(window) - _EXPONENT and window[end - 1] not in _CLOSING
    return None if may_go_on else (value, end)


def _member(window: str, at: int, *, is_cut: bool) -> tuple[str, JSONValue, int] | None:
    if not window.startswith('"', at) or (key := _scanned(window, at, is_cut=is_cut)) is None:
        return None
    if (colon := _COLON.match(window, key[1])) is None:
        return None
    value = _scanned(window, colon.end(), is_cut=is_cut)
    return value and (key[0], *value)


def _scan_many(window: str, brackets: str, first: int) -> tuple[Any, int] | None:
    """Many items by one call of the scanner; `first` is where the first of them ends."""
    # One call of the C scanner for all items of a window is much faster than one for each. Their
    # end is guessed: the last comma with the same characters around it as the first one. If that
    # comma lies within an item, the text before it is no whole array or object, the scanner fails,
    # and the caller goes on item by item.
    if (behind := _behind_comma(window, first)) is None:
        return None
    left = first - (window[first - 1] in _CLOSING)
    end = window.rfind(window[left : behind + window.startswith(_OPENING, behind)]) + first - left
    try:
        items, length = _SCAN(brackets[0] + window[:end] + brackets[1], 0)
    except (StopIteration, json.JSONDecodeError):
        return None
    return (items, end) if length == end + 2 else None


def _behind_comma(window: str, at: int) -> int | None:
    comma = _COMMA.match(window, at)
    return comma.end() if comma else None


def _end(match: re.Match[str] | None) -> int:
    return match.end() if match else 0
