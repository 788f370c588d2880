"""A result of a tool, cut to a number of tokens where it stays valid.

Text ends behind a line or a word; JSON, as structured content or as a text, stays JSON; binary
content is replaced by a line that names it. What was cut is reported, never silent. Counted is
what a model reads: the text blocks, the structured content, and all other blocks as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue, parse_json
from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine._util.text import one_line
from discovery_engine.agent.budget import UNITS, end_within, estimated_tokens
from discovery_engine.rpc.json_codec import encode_finite
from discovery_engine.tools.limits import shortened

STRUCTURED = "structuredContent"

_MOST_PRICE = 54 / UNITS  # tokens of the costliest character
_CONTAINERS = 1000  # of a small result; with more it is counted in full
_BLOCK = 4  # tokens that a block takes at least
_WORD = 60  # characters of a type in a placeholder


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
            return _sliced(self.path, self.shown)
        return f"keys({self.path})" if self.unit == "members" else self.path


Note: TypeAlias = Callable[[Sequence[Cut]], str]
"""The line that says what was cut, and how to read on."""


class CutResult(Struct, frozen=True):
    result: JSONObject
    cuts: tuple[Cut, ...]


class _Portion(Struct, frozen=True):
    """One block of the content, or the structured content."""

    path: str
    value: JSONValue
    text: str
    """The text whose tokens are counted."""


def is_small(result: JSONObject, tokens: int) -> bool:
    """Return whether a result surely takes at most `tokens`; quick, so False proves nothing."""
    left = int(tokens / _MOST_PRICE)
    rest: list[JSONValue] = [result.get("content"), result.get(STRUCTURED)]
    for _ in range(_CONTAINERS):
        if not rest:
            return True
        match rest.pop():
            case str() as text:
                left -= len(text) + 3
            case dict() as members:
                left -= sum(map(len, members)) + 4 * len(members) + 2
                if left < 0:
                    return False
                rest += members.values()
            case list() as items:
                left -= len(items) + 2
                if left < 0:
                    return False
                rest += items
            case plain:
                left -= len(str(plain))
        if left < 0:
            return False
    return False


def result_tokens(result: JSONObject) -> int:
    """Estimate the tokens of a result that a model has to read."""
    return sum(estimated_tokens(part.text) for part in _parts(result))


def exceeds(result: JSONObject, tokens: int) -> bool:
    left = tokens
    for part in _parts(result):
        if end_within(part.text, left) < len(part.text):
            return True
        left -= estimated_tokens(part.text)
    return False


def cut_result(result: JSONObject, tokens: int, note: Note, *, reserve: int) -> CutResult:
    """A result that takes more than `tokens`, cut, with the `note` as its last block.

    The note has `reserve` tokens of these; it must not take more.
    """
    parts = list(_parts(result))
    space = goal = tokens - reserve
    while True:
        excerpt, cuts = _cut_parts(result, parts, max(space, 0))
        excess = result_tokens(excerpt) - goal
        if excess <= 0 or space <= 0:
            break
        space -= max(excess, space // 50, 1)
    line = {"type": "text", "text": note(cuts)}
    return CutResult({**excerpt, "content": [*excerpt["content"], line]}, tuple(cuts))


def document(text: str) -> JSONValue:
    """The object or list that a text holds as JSON; None if it holds none."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return parse_json(text)
    except ValueError:
        return None


def head_and_tail(text: str, length: int, *, marker: str, tail: int) -> str:
    """At most about `length` characters: the beginning, a marker, and the last ones."""
    if len(text) <= length:
        return text
    head = length - tail - len(marker)
    return text[:head] + marker + text[-tail:] if head > 0 else text[:length] + marker.rstrip()


def _parts(result: JSONObject) -> Iterator[_Portion]:
    for at, block in enumerate(result["content"]):
        yield _Portion(f"content[{at}]", block, _counted(block))
    structured = result.get(STRUCTURED)
    if structured is not None:
        yield _Portion(STRUCTURED, structured, json_text(structured))


def _counted(block: JSONObject) -> str:
    text: str = block["text"] if block["type"] == "text" else json_text(block)
    return text


def _cut_parts(
    result: JSONObject, parts: Sequence[_Portion], space: int
) -> tuple[JSONObject, list[Cut]]:
    count = max(space // _BLOCK, 1)
    blocks = [part for part in parts if part.path != STRUCTURED]
    portions = [*blocks[:count], *parts[len(blocks) :]]
    content: list[JSONValue] = []
    excerpt, cuts = dict(result), list[Cut]()
    for part, share in zip(portions, _allot([part.text for part in portions], space), strict=True):
        if share is None:
            value = part.value
        elif part.path == STRUCTURED:
            pruned = prune(part.value, share, STRUCTURED)
            # Not null, where the protocol and schemas want an object.
            is_gone = pruned.value is None and isinstance(part.value, dict)
            value, cuts = {} if is_gone else pruned.value, [*cuts, *pruned.cuts]
        else:
            value, block_cuts = _cut_block(part, share)
            cuts += block_cuts
        if part.path == STRUCTURED:
            excerpt[STRUCTURED] = value
        else:
            content.append(value)
    if len(blocks) > count:
        cuts.append(Cut("content", count, len(blocks), "items"))
    return excerpt | {"content": content}, cuts


def _cut_block(part: _Portion, share: int) -> tuple[JSONValue, Sequence[Cut]]:
    block: JSONObject = part.value
    kind = block["type"]
    if kind == "text":
        excerpt, cuts = _cut_text(block["text"], share, f"{part.path}.text")
        return {**block, "text": excerpt}, cuts
    resource = block["resource"] if kind == "resource" else {}
    if "text" in resource:
        text = resource["text"]
        frame = {**block, "resource": {**resource, "text": ""}}
        left = share - estimated_tokens(json_text(frame))
        excerpt, cuts = _cut_text(text, left, f"{part.path}.resource.text")
        if (
            excerpt != text
        ):  # otherwise what is too long is its frame, or the text once JSON escapes it
            return {**block, "resource": {**resource, "text": excerpt}}, cuts
    name, cut = kind, Cut(part.path, 0, len(part.text.encode()), "bytes")
    if resource.get("blob"):
        name = resource.get("mimeType", "block")
        cut = Cut(f"{part.path}.resource.blob", 0, len(resource["blob"]), "characters")
    elif kind in ("image", "audio") and block["data"]:
        name = block["mimeType"]
        cut = Cut(f"{part.path}.data", 0, len(block["data"]), "characters")
    return _placeholder(name, cut), [cut]


def _cut_text(text: str, share: int, path: str) -> tuple[str, Sequence[Cut]]:
    value = document(text)
    if value is not None:
        pruned = prune(value, share, f"{path.removesuffix('.text')}.json")
        return json_text(pruned.value), pruned.cuts
    end = text_end(text, max(share, 0))
    return text[:end], [Cut(path, end, len(text), "characters")]


def _placeholder(kind: str, cut: Cut) -> JSONValue:
    """A line in place of a block that is not shown."""
    name = one_line(shortened(kind, _WORD))
    return {"type": "text", "text": f"[{name}: {cut.total:,} {cut.unit}, not shown]"}


def with_documents(result: JSONObject) -> JSONObject:
    """A result in which each text block and resource with JSON has it as `json`, for paths."""
    # Results of steps are kept together, by names that may be any.
    content = result.get("content")
    blocks = content if isinstance(content, list) else ()
    return {**result, "content": [_with_document(block) for block in blocks]}


def _with_document(block: JSONValue) -> JSONValue:
    match block:
        case {"type": "text", "text": str(text)}:
            return _documented(block, text)
        case {"type": "resource", "resource": {"text": str(text)} as resource}:
            return {**block, "resource": _documented(resource, text)}
    return block


def _documented(holder: Mapping[str, JSONValue], text: str) -> JSONValue:
    value = document(text)
    return dict(holder) if value is None else {**holder, "json": value}


#     {"items": [1, 2, 3, …], "next": "abc"}   ->   {"items": [1, 2], "next": "abc"}
#
# A list keeps its first items, whole. An object shares its tokens among its members, so that a
# small one behind a large one is kept (`next` above). Text keeps its beginning. Of several that are
# too long each gets the same. Only what remains is priced, so the work grows with the tokens and
# not with the value.

_DEPTH = 32  # levels that are looked into; what is cut below them is left out whole
_ROUNDS = 4  # of dividing what small members leave over
_MIN_CUT_TOKENS = 16  # tokens of a value that is cut; with fewer it is left out
_EMPTY = 2  # tokens of a list or a text without content
_MEMBER = 4  # tokens of the smallest member of an object
_ESCAPE = 6  # characters of the longest escape within JSON text
_BOUNDARY = 5  # a line is ended within the last fifth of a text, a word within the last 25th
_PLAIN = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_TAIL = lazy_pattern(r"\[(\d+):\]$")


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


def _sliced(path: str, start: int) -> str:
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


def _allot(texts: Sequence[str], tokens: int) -> list[int | None]:
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
        if space < _MIN_CUT_TOKENS or depth > _DEPTH:
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
        for name, share in zip(names, _allot(texts, space - 1), strict=True):
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
