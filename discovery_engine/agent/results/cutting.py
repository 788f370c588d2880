"""A result of a tool, cut to a number of tokens where it stays valid.

Text ends behind a line or a word; JSON, as structured content or as a text, stays JSON; binary
content is replaced by a line that names it. What was cut is reported, never silent. Counted is
what a model reads: the text blocks, the structured content, and all other blocks as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue, parse_json
from discovery_engine._util.text import one_line
from discovery_engine.agent.json_cutting import Cut, allot, json_text, prune, text_end
from discovery_engine.agent.token_estimate import UNITS, end_within, estimated_tokens
from discovery_engine.tools.limits import shortened

STRUCTURED = "structuredContent"

_MOST_PRICE = 54 / UNITS  # tokens of the costliest character
_CONTAINERS = 1000  # of a small result; with more it is counted in full
_BLOCK = 4  # tokens that a block takes at least
_WORD = 60  # characters of a type in a placeholder

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
    for part, share in zip(portions, allot([part.text for part in portions], space), strict=True):
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
