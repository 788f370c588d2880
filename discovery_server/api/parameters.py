"""The parameters of a request: read from its query or body, checked, and mistakes described.

    parameter `since` must be a number

The words for mistakes come from the types of the route; those of the checker differ between its
versions, and need knowledge of it.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct
from msgspec.structs import fields
from starlette.requests import ClientDisconnect

from discovery_engine._util.json import JSONObject
from discovery_server.api.route import ApiRoute, RequestError
from discovery_server.http.paths import API_PATH

if TYPE_CHECKING:
    from starlette.requests import Request

DESCRIPTION = f"{API_PATH}/openapi.json"

_LONGEST_BODY = 128 << 10  # bytes
_DEEPEST = 64  # lists and maps; deeper than arguments of real tools
_WORDS = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "text",
}
_KINDS: Mapping[type, str] = {
    bool: "boolean", dict: "object", float: "number", int: "integer", list: "array", str: "string"
}  # fmt: skip
_LIMITS = {
    "minimum": ">= {}",
    "maximum": "<= {}",
    "minLength": "of at least {} characters",
    "maxLength": "of at most {} characters",
    "minItems": "of at least {}",
    "maxItems": "of at most {}",
}


async def parameters(request: Request, route: ApiRoute) -> Struct:
    """Return those of a request, as its route describes them.

    Raises:
        RequestError: If they are not as described.
    """
    if route.has_body:
        values = await _body(request)
        is_strict = True
    else:
        values, is_strict = _query(request, route.asked), False
    try:
        return msgspec.convert(values, route.asked, strict=is_strict)
    except msgspec.ValidationError as error:
        raise _mistake(route, values, error) from None


async def _body(request: Request) -> Any:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > _LONGEST_BODY:
                text = f"a body may have at most {_LONGEST_BODY:,} bytes"
                raise RequestError(413, text, hint="send less, or in several requests")
            parts.append(part)
    except ClientDisconnect:  # no client is left to read the answer
        raise RequestError(400, "the body is incomplete", hint="send it again") from None
    if not size:
        return {}
    if kind != "application/json":
        text = f"the body was sent as {kind!r}" if kind else "the kind of the body is not named"
        raise RequestError(415, text, hint="send JSON, with `Content-Type: application/json`")
    try:
        value = msgspec.json.decode(b"".join(parts))
    except (ValueError, RecursionError):
        hint = 'send a JSON object such as {"name": "value"}'
        raise RequestError(400, "the body is not JSON, or nests too deeply", hint=hint) from None
    if _is_deep(value):
        text = f"the body nests deeper than {_DEEPEST} lists and maps"
        raise RequestError(400, text, hint="send it flatter")
    return value


def _is_deep(value: Any) -> bool:
    """Return whether a value nests so deeply that code which looks into it could fail."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for node in level
            if isinstance(node, dict | list)
            for inner in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return False
    return any(isinstance(node, dict | list) for node in level)


def _query(request: Request, struct: type[Struct]) -> Mapping[str, Any]:
    """The parameters of the query; those that may be repeated as lists."""
    query = request.query_params
    many = _repeated(struct)
    parameters: dict[str, Any] = {}
    for name in query:
        values = query.getlist(name)
        if name not in many and len(values) > 1:
            text = f"the parameter {name!r} is there more than once"
            raise RequestError(400, text, hint="send it once")
        parameters[name] = values if name in many else values[0]
    return parameters


def _repeated(struct: type[Struct]) -> frozenset[str]:
    hints = get_type_hints(struct)
    return frozenset(name for name, hint in hints.items() if tuple in _origins(hint))


def _origins(hint: Any) -> set[Any]:
    if isinstance(hint, types.UnionType):
        return {origin for member in get_args(hint) for origin in _origins(member)}
    return {get_origin(hint)}


def _mistake(route: ApiRoute, text: Any, error: msgspec.ValidationError) -> RequestError:
    noun = "field" if route.has_body else "parameter"
    names = ", ".join(field.encode_name for field in fields(route.asked))
    listing = f"{noun}s: {names}" if names else f"it takes no {noun}s"
    hint = f"{listing}; GET {DESCRIPTION} describes {route.name}"
    return RequestError(422, _text(route, noun, text) or _own_words(error), hint=hint)


def _own_words(error: msgspec.ValidationError) -> str:
    """Return the text of the check of several fields together, beginning in lower case."""
    text = str(error)
    return text[:1].lower() + text[1:]


def _text(route: ApiRoute, noun: str, value: Any) -> str:
    """The first field that does not fit by itself; empty if each of them does."""
    if not isinstance(value, dict):
        return f"the body must be an object, not {_kind(value)}"
    fields_by_name = {field.encode_name: field for field in fields(route.asked)}
    if unknown := next((name for name in value if name not in fields_by_name), None):
        return f"there is no {noun} `{unknown}`"
    for name, field in fields_by_name.items():
        if name not in value:
            if field.required:
                return f"{noun} `{name}` is missing"
            continue
        try:
            msgspec.convert(value[name], field.type, strict=route.has_body)
        except msgspec.ValidationError:
            words = _words_of(field.type, is_query=not route.has_body)
            # A query is text throughout, so that it is text says nothing.
            kind = _kind(value[name])
            is_of_kind = not route.has_body or kind in words
            return f"{noun} `{name}` must be {words}" + ("" if is_of_kind else f", not {kind}")
    return ""


def _kind(value: Any) -> str:
    return _WORDS[_KINDS.get(type(value), "null")]


def _words_of(wanted: Any, *, is_query: bool) -> str:
    schema = msgspec.json.schema(wanted)
    definitions: Mapping[str, JSONObject] = schema.get("$defs", {})

    def words(part: JSONObject) -> str:
        if "$ref" in part:
            return words(definitions[part["$ref"].rpartition("/")[2]])
        if "anyOf" in part:
            kinds = (
                words(option) for option in part["anyOf"] if not (is_query and _is_null(option))
            )
            return " or ".join(kinds)
        if "enum" in part:
            return f"one of {', '.join(map(str, part['enum']))}"
        items = part.get("items")
        if items and is_query:  # it is repeated for each
            return words(items)
        limits = (text.format(part[key]) for key, text in _LIMITS.items() if key in part)
        text = " ".join([_WORDS.get(part.get("type", ""), "any value"), " and ".join(limits)])
        return text.strip() + (f", each of them {words(items)}" if items else "")

    return words(schema)


def _is_null(schema: JSONObject) -> bool:
    return schema.get("type") == "null"
