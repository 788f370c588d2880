"""JSON values cut to a number of tokens, such that what remains is valid JSON.

    {"items": [1, 2, 3, …], "next": "abc"}   ->   {"items": [1, 2], "next": "abc"}

A list keeps its first items, whole. An object shares its tokens among its members, so that a small
one behind a large one is kept (`next` above). Text keeps its beginning. Of several that are too
long each gets the same. Only what remains is priced, so the work grows with the tokens and not
with the value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from discovery_engine._util.json import JSONValue
from discovery_engine.agent.token_estimate import end_within, estimated_tokens
from discovery_engine.rpc.json_codec import encode_finite

_DEPTH = 32  # levels that are looked into; what is cut below them is left out whole
_ROUNDS = 4  # of dividing what small members leave over
_LEAST = 16  # tokens of a value that is cut; with fewer it is left out
_EMPTY = 2  # tokens of a list or a text without content
_MEMBER = 4  # tokens of the smallest member of an object
_ESCAPE = 6  # characters of the longest escape within JSON text
_BOUNDARY = 5  # a line is ended within the last fifth of a text, a word within the last 25th
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TAIL = re.compile(r"\[(\d+):\]$")


class Cut(Struct, frozen=True):
    """One value that was shortened."""

    path: str
    """Where it is in the whole, as a JMESPath expression."""
    shown: int
    total: int
    unit: str
    """The unit of `shown` and `total`: `items`, `members`, `characters` or `bytes`."""

    @property
    def rest(self) -> str:
        """The path of what is missing; of text it is the path of the text itself."""
        if self.unit == "items":
            return sliced(self.path, self.shown)
        return f"keys({self.path})" if self.unit == "members" else self.path


class Pruned(Struct, frozen=True):
    value: JSONValue
    cuts: tuple[Cut, ...]


OMITTED = object()
"""In place of a value for which there was no space at all."""


def json_text(value: JSONValue) -> str:
    """The value as compact JSON."""
    return encode_finite(value)[:-1].decode()


def prune(value: JSONValue, tokens: int, path: str) -> Pruned:
    """`value`, whose JSON text takes at most `tokens`; as a last resort it is null."""
    space = tokens
    while space > 0:
        cutter = _Cutter()
        excerpt = cutter.fitted(value, space, path, 0)
        if excerpt is OMITTED:
            break
        excess = estimated_tokens(json_text(excerpt)) - tokens
        if excess <= 0:
            return Pruned(excerpt, tuple(cutter.cuts))
        # Marks that meet cost a little more than they cost apart.
        space -= max(excess, space // 50, 1)
    return Pruned(None, (Cut(path, 0, len(encode_finite(value)) - 1, "bytes"),))


def member_path(path: str, key: str) -> str:
    step = key if _PLAIN.fullmatch(key) else json_text(key)
    return f"{path}.{step}" if path else step


def sliced(path: str, start: int) -> str:
    """The path of the items from `start` on of the list at `path`."""
    tail = _TAIL.search(path)
    if tail is None:
        return f"{path}[{start}:]" if path != "@" else f"[{start}:]"
    # A slice of a slice would be a slice of each item.
    return f"{path[: tail.start()]}[{int(tail[1]) + start}:]"


def text_end(text: str, tokens: int, start: int = 0) -> int:
    """The end of the longest part of `text` from `start` on within `tokens`.

    It is behind a line or a word if one ends shortly before.
    """
    end = end_within(text, tokens, start)
    if end == len(text):
        return end
    length = end - start
    line = text.rfind("\n", end - length // _BOUNDARY, end) + 1
    word = text.rfind(" ", end - length // _BOUNDARY**2, end) + 1
    return line or word or end


def allot(texts: Sequence[str], tokens: int) -> list[int | None]:
    """Tokens for each of `texts`; None for one that is so short that it stays whole."""
    whole: dict[int, int] = {}
    waiting, left, level = list(range(len(texts))), tokens, -1
    for _ in range(_ROUNDS):
        if not waiting or left // len(waiting) <= level:
            break
        level = left // len(waiting)
        short = [at for at in waiting if end_within(texts[at], level) == len(texts[at])]
        whole |= {at: estimated_tokens(texts[at]) for at in short}
        left = tokens - sum(whole.values())
        waiting = [at for at in waiting if at not in whole]
    share = max(left, 0) // len(waiting) if waiting else 0
    return [None if at in whole else share for at in range(len(texts))]


class _Cutter:
    def __init__(self) -> None:
        self.cuts: list[Cut] = []

    def fitted(self, value: JSONValue, space: int, path: str, depth: int) -> JSONValue:
        """`value` or its beginning, in about `space` tokens; `OMITTED` if there is no space."""
        text = json_text(value)
        if end_within(text, space) == len(text):
            return value
        if space < _LEAST or depth > _DEPTH:
            return OMITTED
        match value:
            case str():
                return self._text(value, text, space, path)
            case list():
                return self._items(value, space, path, depth)
            case dict():
                return self._members(value, space, path, depth)
        return OMITTED

    def _text(self, value: str, text: str, space: int, path: str) -> JSONValue:
        end = text_end(text, space - 2)
        excerpt = _decoded(text[:end])
        self.cuts.append(Cut(path, len(excerpt), len(value), "characters"))
        return excerpt

    def _items(self, items: list[JSONValue], space: int, path: str, depth: int) -> JSONValue:
        excerpt, left = [], space - 1
        for item in items:
            text = json_text(item)
            if end_within(text, left) < len(text):
                break
            excerpt.append(item)
            left -= estimated_tokens(f"{text},")
        if excerpt:
            self.cuts.append(Cut(path, len(excerpt), len(items), "items"))
            return excerpt
        # Not even the first fits: its beginning is worth more than nothing.
        first = self.fitted(items[0], space - 2, f"{path}[0]", depth + 1)
        sample = [] if first is OMITTED else [first]
        if len(items) > len(sample):
            self.cuts.append(Cut(path, len(sample), len(items), "items"))
        return sample

    def _emptied(self, value: JSONValue, path: str) -> JSONValue:
        """Nothing of the same type, as a schema may require the member."""
        if not isinstance(value, str | list) or not value:
            return OMITTED
        unit = "characters" if isinstance(value, str) else "items"
        self.cuts.append(Cut(path, 0, len(value), unit))
        return "" if isinstance(value, str) else []

    def _members(
        self, members: Mapping[str, JSONValue], space: int, path: str, depth: int
    ) -> JSONValue:
        names = list(members)[: max(space // _MEMBER, 1)]
        texts = [json_text({name: members[name]}) for name in names]
        excerpt = {}
        for name, share in zip(names, allot(texts, space - 1), strict=True):
            value = members[name]
            if share is not None:
                room_of_value = share - estimated_tokens(f"{json_text(name)}:,")
                value = self.fitted(value, room_of_value, member_path(path, name), depth + 1)
                if value is OMITTED and room_of_value > _EMPTY:
                    value = self._emptied(members[name], member_path(path, name))
            if value is not OMITTED:
                excerpt[name] = value
        if len(excerpt) < len(members):
            self.cuts.append(Cut(path or "@", len(excerpt), len(members), "members"))
        return excerpt


def _decoded(text: str) -> str:
    """The text whose JSON begins with `text`, without an escape that is cut in the middle."""
    for end in range(len(text), max(len(text) - _ESCAPE, 0), -1):
        try:
            return msgspec.json.decode(f'{text[:end]}"', type=str)
        except msgspec.DecodeError:
            continue
    return ""
