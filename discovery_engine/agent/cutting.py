"""Truncates the result of a tool to a number of tokens so that it remains valid.

Text ends after a line or a word; JSON, in structured content or in text, remains JSON; binary
content is replaced by a line that describes it. Every cut is reported. The tokens are those that a
model reads: of text blocks, of the structured content, and of all other blocks as JSON.
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
_CONTAINERS = 1000  # containers, at most, of a small result; beyond them it is counted in full
_BLOCK = 4  # tokens of the smallest block
_WORD = 60  # characters of a type in a placeholder


class Cut(Struct, frozen=True):
    """A report on one truncated value."""

    path: str
    """The place of the value in the whole result, as a JMESPath expression."""
    shown: int
    total: int
    unit: str
    """The unit of `shown` and `total`: `items`, `members`, `characters` or `bytes`."""

    @property
    def rest(self) -> str:
        """The JMESPath expression of the missing part; for text, of the whole text."""
        if self.unit == "items":
            return _sliced(self.path, self.shown)
        return f"keys({self.path})" if self.unit == "members" else self.path


Note: TypeAlias = Callable[[Sequence[Cut]], str]
"""Returns a line that says what was cut and how to read the rest."""


class CutResult(Struct, frozen=True):
    """A truncated result and the reports on its cuts."""

    result: JSONObject
    cuts: tuple[Cut, ...]


class _Portion(Struct, frozen=True):
    """One block of the content, or the structured content."""

    path: str
    value: JSONValue
    text: str
    """The text that is counted."""


def is_small(result: JSONObject, tokens: int) -> bool:
    """Return True if a result certainly has at most `tokens`; a fast check that may miss some."""
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
    """Estimate the number of tokens that a model reads of a result."""
    return sum(estimated_tokens(part.text) for part in _parts(result))


def exceeds(result: JSONObject, tokens: int) -> bool:
    left = tokens
    for part in _parts(result):
        if end_within(part.text, left) < len(part.text):
            return True
        left -= estimated_tokens(part.text)
    return False


def cut_result(result: JSONObject, tokens: int, note: Note, *, reserve: int) -> CutResult:
    """Truncate a result to `tokens`, and append the text of `note` as its last block.

    `reserve` of the tokens are for the note, which must not exceed them.
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
    """Parse a text that is a JSON object or list; None if it is not."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return parse_json(text)
    except ValueError:
        return None


def head_and_tail(text: str, length: int, *, marker: str, tail: int) -> str:
    """Shorten a text to about `length` characters: its head, a marker, and `tail` characters."""
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
            # `{}` instead of null, because the protocol and schemas require an object.
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
        # Otherwise what is too long is its frame, or the text once JSON escapes it.
        if excerpt != text:
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
    """Return a text block that replaces an omitted one."""
    name = one_line(shortened(kind, _WORD))
    return {"type": "text", "text": f"[{name}: {cut.total:,} {cut.unit}, not shown]"}


def with_documents(result: JSONObject) -> JSONObject:
    """Add the parsed JSON of text blocks and resources as `json`, which paths can address."""
    # The results of steps are stored in one object, where `content` may be the name of a step.
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
# A list keeps its first items whole. An object distributes its tokens among its members, so that a
# small member after a large one is kept (`next` above); members that are too long get equal shares.
# Text keeps its beginning. Only the kept parts are counted, so the work depends on the tokens and
# not on the size of the value.

_DEPTH = 32  # levels; a value below them is kept whole or left out
_ROUNDS = 4  # rounds of distributing the tokens that small members leave
_MIN_CUT_TOKENS = 16  # tokens of a truncated value; below that it is left out
_EMPTY = 2  # tokens of a list or a text without content
_MEMBER = 4  # tokens of the smallest member of an object
_ESCAPE = 6  # characters of the longest escape within JSON text
_BOUNDARY = 5  # cuts at a line within the last fifth of a text, or a word within the last 25th
_PLAIN = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_TAIL = lazy_pattern(r"\[(\d+):\]$")


class Pruned(Struct, frozen=True):
    """A truncated JSON value and the reports on its cuts."""

    value: JSONValue
    cuts: tuple[Cut, ...]


OMITTED = object()
"""Marks a value for which there was no space."""


def json_text(value: JSONValue) -> str:
    """Return a value as compact JSON."""
    return encode_finite(value)[:-1].decode()


def prune(value: JSONValue, tokens: int, path: str) -> Pruned:
    """Truncate a value so that its JSON has at most `tokens`; null if even that is impossible."""
    space = tokens
    while space > 0:
        cutter = _Cutter()
        excerpt = cutter.fitted(value, space, path, 0)
        if excerpt is OMITTED:
            break
        excess = estimated_tokens(json_text(excerpt)) - tokens
        if excess <= 0:
            return Pruned(excerpt, tuple(cutter.cuts))
        # Adjacent punctuation costs slightly more than its parts, so retry with less space.
        space -= max(excess, space // 50, 1)
    return Pruned(None, (Cut(path, 0, len(encode_finite(value)) - 1, "bytes"),))


def member_path(path: str, key: str) -> str:
    step = key if _PLAIN.fullmatch(key) else json_text(key)
    return f"{path}.{step}" if path else step


def _sliced(path: str, start: int) -> str:
    """Return the path of the items of a list from `start` on."""
    tail = _TAIL.search(path)
    if tail is None:
        return f"{path}[{start}:]" if path != "@" else f"[{start}:]"
    # In JMESPath, slicing a slice would slice each item.
    return f"{path[: tail.start()]}[{int(tail[1]) + start}:]"


def text_end(text: str, tokens: int, start: int = 0) -> int:
    """Return the end of the longest part of a text from `start` within `tokens`.

    It is moved back to the end of a line or a word if there is one shortly before.
    """
    end = end_within(text, tokens, start)
    if end == len(text):
        return end
    length = end - start
    line = text.rfind("\n", end - length // _BOUNDARY, end) + 1
    word = text.rfind(" ", end - length // _BOUNDARY**2, end) + 1
    return line or word or end


def _allot(texts: Sequence[str], tokens: int) -> list[int | None]:
    """Distribute tokens among texts; None for a text that is short enough to be kept whole."""
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
    """Truncates a JSON value recursively, and collects the cuts."""

    def __init__(self) -> None:
        self.cuts: list[Cut] = []

    def fitted(self, value: JSONValue, space: int, path: str, depth: int) -> JSONValue:
        """Return a value or its beginning in about `space` tokens; `OMITTED` if nothing fits."""
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
        # The first item does not fit; its beginning is more useful than nothing.
        first = self.fitted(items[0], space - 2, f"{path}[0]", depth + 1)
        sample = [] if first is OMITTED else [first]
        if len(items) > len(sample):
            self.cuts.append(Cut(path, len(sample), len(items), "items"))
        return sample

    def _emptied(self, value: JSONValue, path: str) -> JSONValue:
        """Return an empty string or list, as a schema may require the member; else `OMITTED`."""
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
    """Decode the beginning of a JSON string, without an incomplete escape at its end."""
    for end in range(len(text), max(len(text) - _ESCAPE, 0), -1):
        try:
            return msgspec.json.decode(f'{text[:end]}"', type=str)
        except msgspec.DecodeError:
            continue
    return ""
