"""Brings results and definitions into the shapes of the protocol, as strict clients want them.

    await received("tools/call", {"content": "done"})     as every caller gets it
    sent("tools/list", result, "2025-06-18")              as a client of that revision gets it

Strict clients refuse a whole list, and a whole result, for one member of a wrong type. So a member
that may be absent is left out if it is not valid, and so is an item of a list; content becomes
blocks: text as it is, anything else as JSON. What is valid passes as it is, after one quick check.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any, Union, get_args, get_origin
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Struct, UnsetType

from discovery_engine._util.json import JSONObject, JSONValue, says
from discovery_engine.rpc.client import server_meta
from discovery_engine.rpc.protocol import CHANGES, LATEST_MODERN
from discovery_engine.rpc.shapes import (
    BLOCKS,
    MOST_VALUES,
    ArgumentsSchema,
    AudioContent,
    CompletionValues,
    EmbeddedResource,
    ImageContent,
    PromptMessage,
    PropertySchema,
    ResourceContents,
    ResourceLink,
    Shape,
    TextContent,
    Uri,
    shapes_of,
)

_CALL = "tools/call"
_MANY = 1_000  # items: a longer list is checked in a thread, and if as many are faulty it is a text
_NOTED = 20  # changes
_PATH = 120  # characters
_INCOMPLETE = ("input_required", "task")
_LISTS = ("content", "contents", "messages")
_OF_CALLS = ("_meta", "content", "isError", "resultType", "structuredContent")
_OF_BLOCKS = ("type", "annotations", "_meta")
_OF_TEXT = (PromptMessage, ResourceContents)  # and blocks: a text alone can be made into one
_FALSE = ("", "0", "false", "no")
_NO_MESSAGE = "The tool failed and gave no message."
_BY_TYPE: Mapping[str, type[Struct]] = {
    "text": TextContent,
    "image": ImageContent,
    "audio": AudioContent,
    "resource": EmbeddedResource,
    "resource_link": ResourceLink,
}
_IMAGES = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
}
"""Their types by how they begin in base64."""


async def received(method: str, result: JSONObject, *, uri: str = "") -> JSONObject:
    """A server's result of `method`, valid in the latest revision.

    It has nothing in `_meta` that only this program may say; what was changed is noted there.

    Args:
        method: That was requested.
        result: The server's own.
        uri: Of the resource that was read.
    """
    if "_meta" in result:
        result = _with_meta(result, server_meta(result["_meta"]))
    if result.get("resultType") in _INCOMPLETE:
        return {name: value for name, value in result.items() if value is not None}
    if not is_long(result) and _is_valid(method, result):
        return result
    # `lint` asks what would be changed, and needs no loop.
    import anyio.to_thread  # noqa: PLC0415

    return await anyio.to_thread.run_sync(_valid, method, result, LATEST_MODERN, uri)


def sent(method: str, result: JSONObject, version: str) -> JSONObject:
    """A result of `method` as it leaves for a client of a revision."""
    is_known = method in shapes_of(version) and result.get("resultType") not in _INCOMPLETE
    return _valid(method, result, version) if is_known else result


def changes_of(method: str, result: JSONObject, version: str) -> Mapping[str, str]:
    """Return what `sent` changes in a result, by place: `removed`, `rewritten` and the like."""
    if _is_valid(method, result, version):
        return {}
    return dict(_changes(result, _Repair(method, version).result(result)))


def is_long(result: JSONObject) -> bool:
    """Return whether checking a result may take more than a millisecond."""
    for name in _LISTS:  # a loop, because a generator takes five times as long, for each result
        items = result.get(name)
        if isinstance(items, list) and len(items) > _MANY:
            return True
    return False


def _is_valid(method: str, result: JSONObject, version: str = LATEST_MODERN) -> bool:
    if not _fits(result, shapes_of(version)[method]):
        return False
    return method != _CALL or result.get("isError") is not True or not _is_silent(result)


def _valid(method: str, result: JSONObject, version: str, uri: str = "") -> JSONObject:
    """A result with a note of what was changed in it; the same one if it is valid."""
    if _is_valid(method, result, version):
        return result
    valid_result = _Repair(method, version, uri).result(result)
    meta = valid_result.get("_meta") or {}
    noted = meta.get(CHANGES) or {}
    changes = dict(islice(_changes(result, valid_result), _NOTED))
    return (
        _with_meta(valid_result, {**meta, CHANGES: {**noted, **changes}})
        if changes
        else valid_result
    )


def _with_meta(result: JSONObject, meta: JSONObject) -> JSONObject:
    """A result with this `_meta`, or without any if it is empty."""
    if meta is result.get("_meta"):
        return result
    rest = {name: value for name, value in result.items() if name != "_meta"}
    return {**rest, "_meta": meta} if meta else rest


class _Repair:
    """Repairs one result; a value that has no valid form is UNSET."""

    def __init__(self, method: str, version: str, uri: str = "") -> None:
        self._method = method
        self._version = version
        self._shape = shapes_of(version)[method]
        self._blocks = BLOCKS[version]
        self._uri = uri

    def result(self, result: JSONObject) -> JSONObject:
        prepare = _RESULTS.get(self._method)
        valid_result: JSONObject = self._object(prepare(result) if prepare else result, self._shape)
        if self._method == _CALL:
            structured = result.get("structuredContent")
            if structured is not None and "structuredContent" not in valid_result:
                texts = [
                    block["text"] for block in valid_result["content"] if block["type"] == "text"
                ]
                if not says(texts, structured):
                    valid_result["content"] = [
                        *valid_result["content"],
                        _text(_written(structured)),
                    ]
            if _is_silent(valid_result):
                valid_result["content"] = [_text(_NO_MESSAGE)]
        return valid_result

    def value(self, value: JSONValue, shape: Shape) -> JSONValue:
        """A value in its shape; the same one if it is valid."""
        if _fits(value, shape):
            return value
        if shape == self._blocks:
            return self._block(value)
        if shape == Uri:
            return f"resource:{quote(value, safe='')}" if isinstance(value, str) else UNSET
        base = get_args(shape)[0] if hasattr(shape, "__metadata__") else shape  # Annotated
        kind = _kind(base)
        candidate: JSONValue = UNSET
        if kind is list:
            candidate = self._list(value, *get_args(base))
        elif kind is dict:
            candidate = self._dict(value, *get_args(base))
        elif kind is bytes:
            candidate = _base64(value)
        elif kind is int and isinstance(value, float) and value.is_integer():
            candidate = int(value)
        elif isinstance(kind, type) and issubclass(kind, Struct):
            prepare = _OBJECTS.get(kind)
            candidate = self._object(prepare(self, value) if prepare else value, base)
        return candidate if candidate is UNSET or _fits(candidate, shape) else UNSET

    def _object(self, value: JSONValue, shape: Shape) -> JSONValue:
        if not isinstance(value, dict):
            return UNSET
        members = dict(value)
        for name, of in _members(shape):
            if name not in members:
                continue
            if (valid := self.value(members[name], of)) is not UNSET:
                members[name] = valid
            elif name in _LISTS:
                members[name] = []
            else:
                del members[name]
        return members

    def _list(self, value: JSONValue, shape: Shape) -> JSONValue:
        """The items that are valid; in place of a list, one item is a list of it."""
        items = value if isinstance(value, list) else [value]
        is_text = shape == self._blocks or _kind(shape) in _OF_TEXT
        if is_text and len(items) > _MANY:
            faulty = (item for item in items if not _fits(item, shape))
            if len(list(islice(faulty, _MANY))) == _MANY:
                items = [_written(items)]  # as blocks, numbers take a hundred times their memory
        valid_items = [valid for item in items if (valid := self.value(item, shape)) is not UNSET]
        return valid_items if valid_items or isinstance(value, list) else UNSET

    def _dict(self, value: JSONValue, name: Shape, shape: Shape) -> JSONValue:
        if not isinstance(value, dict):
            return UNSET
        return {
            key: valid
            for key, item in value.items()
            if _fits(key, name) and (valid := self.value(item, shape)) is not UNSET
        }

    def _block(self, value: JSONValue) -> JSONValue:
        """A block of content: its own kind if it can be one, else a text."""
        if not isinstance(value, dict):
            return UNSET if value is None else _text(_written(value))
        kind = _BY_TYPE.get(value["type"]) if isinstance(value.get("type"), str) else None
        if value.get("type") in (None, "text") and value.get("text") is not None:
            value = {**value, "type": "text", "text": _written(value["text"])}
            kind = TextContent
        if kind is not None and (block := self.value(value, kind)) is not UNSET:
            return block if kind in get_args(self._blocks) else _text(self._line(block))
        if all(item is None for name, item in value.items() if name not in _OF_BLOCKS):
            return UNSET
        return _text(_written(value))

    def _line(self, block: JSONObject) -> str:
        """Return a text in place of a block that the revision of the client does not have."""
        if block["type"] == "resource_link":
            return f"{block['name']} <{block['uri']}>"
        return f"[{block['type']} {block['mimeType']}: clients of {self._version} cannot take it]"

    def contents(self, value: JSONValue) -> JSONValue:
        """Return the contents of a resource, as far as they can be told."""
        if value is None:
            return UNSET
        contents = dict(value) if isinstance(value, dict) else {"text": value}
        if not isinstance(contents.get("uri"), str):
            contents["uri"] = self._uri or "resource:unnamed"
        if contents.get("text") is None and _base64(contents.get("blob")) is UNSET:
            rest = {
                k: v for k, v in contents.items() if k not in ("uri", "mimeType", "_meta", "text")
            }
            contents["text"] = rest if any(v is not None for v in rest.values()) else None
        if contents.get("text") is not None:
            contents["text"] = _written(contents["text"])
        return contents


@cache
def _members(shape: Shape) -> tuple[tuple[str, Shape], ...]:
    """The members of an object and their shapes."""
    return tuple(
        (field.encode_name, _present(field.type)) for field in msgspec.structs.fields(shape)
    )


def _present(shape: Shape) -> Shape:
    """Return the shape that a member has if it is not absent."""
    kinds = tuple(kind for kind in get_args(shape) if kind is not UnsetType)
    return Union[kinds] if UnsetType in get_args(shape) else shape  # noqa: UP007 - of a tuple


def _fits(value: JSONValue, shape: Shape) -> bool:
    if not isinstance(shape, type):
        value, shape = {"value": value}, _holder(shape)
    try:
        msgspec.convert(value, shape)
    except msgspec.ValidationError:
        return False
    return True


def _kind(shape: Shape) -> Any:
    """A shape without its parameters."""
    origin: Any = get_origin(shape)
    return origin or shape


@cache
def _holder(shape: Shape) -> type[Struct]:
    """A class with one member: msgspec analyses a class once, and other types each time."""
    return msgspec.defstruct("Holder", [("value", shape)])


def _is_silent(result: JSONObject) -> bool:
    """Return whether a failed result has no message: many clients show only its content."""
    if result.get("isError") is not True or result.get("structuredContent") is not None:
        return False
    return all(block["type"] == "text" and not block["text"].strip() for block in result["content"])


def _text(text: str) -> JSONObject:
    return {"type": "text", "text": text}


def _written(value: JSONValue) -> str:
    """Text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _base64(value: JSONValue) -> JSONValue:
    """Base64 without line breaks and in the usual alphabet, as clients decode it."""
    if not isinstance(value, str):
        return UNSET
    text = "".join(value.split()).translate(_USUAL).rstrip("=")
    text += "=" * (-len(text) % 4)
    return text if _fits(text, bytes) else UNSET


def _tool_result(result: JSONObject) -> JSONObject:
    """A result of a tool that has content; whether it failed is true or false."""
    tool_result = dict(result)
    if tool_result.get("content") is None:
        others = {k: v for k, v in tool_result.items() if k not in _OF_CALLS and v is not None}
        said = tool_result.get("structuredContent")
        said = others or None if said is None else said
        tool_result["content"] = [] if said is None else _written(said)
    failed = tool_result.get("isError")
    if failed is not None and not isinstance(failed, bool):
        is_word = isinstance(failed, str)
        tool_result["isError"] = failed.strip().lower() not in _FALSE if is_word else bool(failed)
    return tool_result


def _prompt_result(result: JSONObject) -> JSONObject:
    """A prompt whose messages have one block each."""
    member = result.get("messages")
    messages = member if isinstance(member, list) else [] if member is None else [member]
    return {**result, "messages": [part for message in messages for part in _messages(message)]}


def _messages(message: JSONValue) -> Iterator[JSONValue]:
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list) and len(content) <= _MANY:
        yield from ({**message, "content": block} for block in content)
    else:
        yield message


def _resource_result(result: JSONObject) -> JSONObject:
    """A resource that contains something, if anything was sent."""
    if result.get("contents") is not None:
        return result
    rest = {k: v for k, v in result.items() if k not in ("_meta", "resultType") and v is not None}
    return {**result, "contents": [_written(rest)] if rest else []}


def _message(_: _Repair, value: JSONValue) -> JSONValue:
    is_message = isinstance(value, dict) and "content" in value
    message = value if is_message else {"content": value}
    return message if message.get("role") in ("user", "assistant") else {**message, "role": "user"}


def _completion(_: _Repair, value: JSONValue) -> JSONValue:
    completion = dict(value) if isinstance(value, dict) else {"values": value}
    member = completion.get("values")
    values = member if isinstance(member, list) else [] if member is None else [member]
    if len(values) > MOST_VALUES:
        completion["hasMore"] = True
    first_values = islice((entry for entry in values if entry is not None), MOST_VALUES)
    return {**completion, "values": list(map(_written, first_values))}


def _image(_: _Repair, value: JSONValue) -> JSONValue:
    data = value.get("data")
    if isinstance(value.get("mimeType"), str) or not isinstance(data, str):
        return value
    kinds = (kind for start, kind in _IMAGES.items() if data.startswith(start))
    return {**value, "mimeType": next(kinds, None)}


def _link(_: _Repair, value: JSONValue) -> JSONValue:
    return value if isinstance(value.get("name"), str) else {**value, "name": value.get("uri")}


def _property(_: _Repair, value: JSONValue) -> JSONValue:
    """The schema of a property; older revisions know no `true` and no `false`."""
    return value if isinstance(value, dict) else {"not": {}} if value is False else {}


def _arguments(_: _Repair, value: JSONValue) -> JSONValue:
    return {**value, "type": "object"} if isinstance(value, dict) else {"type": "object"}


_RESULTS: Mapping[str, Callable[[JSONObject], JSONObject]] = {
    _CALL: _tool_result,
    "prompts/get": _prompt_result,
    "resources/read": _resource_result,
    "completion/complete": lambda result: {"completion": {}, **result},
}
_OBJECTS: Mapping[Any, Callable[[_Repair, JSONValue], JSONValue]] = {
    ArgumentsSchema: _arguments,
    CompletionValues: _completion,
    ImageContent: _image,
    PromptMessage: _message,
    PropertySchema: _property,
    ResourceContents: _Repair.contents,
    ResourceLink: _link,
}
_USUAL = str.maketrans("-_", "+/")


def _changes(before: JSONValue, after: JSONValue, place: str = "") -> Iterator[tuple[str, str]]:
    """The places at which two values differ, and how; what did not change is the same object."""
    if before is after:
        return
    match before, after:
        case dict(), dict() if before.get("type") == after.get("type"):
            yield from _changed_members(before, after, place)
        case list(), list() if len(before) == len(after):
            for at, (old, new) in enumerate(zip(before, after, strict=True)):
                yield from _changes(old, new, f"{place}[{at}]")
        case list(), list():
            yield place, f"{len(before)} items became {len(after)}"
        case _ if before != after:
            yield place, "rewritten"


def _changed_members(
    before: JSONObject, after: JSONObject, place: str
) -> Iterator[tuple[str, str]]:
    for name in {**before, **after}:
        at = f"{place}.{name}".removeprefix(".")[:_PATH]
        if name not in after:
            yield at, "removed"
        elif name not in before:
            yield at, "added"
        else:
            yield from _changes(before[name], after[name], at)
