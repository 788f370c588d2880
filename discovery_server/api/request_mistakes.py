"""Describes mistakes in a request's parameters, in words that need no knowledge of the checker.

    parameter `since` must be a number

The words come from the types of the route; those of the checker differ between its versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import fields

from discovery_engine._util.json import JSONObject
from discovery_server.api.route import ApiRoute, RequestError

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


def mistake(
    route: ApiRoute, given: Any, error: msgspec.ValidationError, described_at: str
) -> RequestError:
    """The refusal of a request whose parameters are not those of its route."""
    noun = "field" if route.has_body else "parameter"
    names = ", ".join(field.encode_name for field in fields(route.asked))
    listing = f"{noun}s: {names}" if names else f"it takes no {noun}s"
    hint = f"{listing}; GET {described_at} describes {route.name}"
    return RequestError(422, _text(route, noun, given) or _own_words(error), hint=hint)


def _own_words(error: msgspec.ValidationError) -> str:
    """Return the text of the check of several fields together, beginning in lower case."""
    text = str(error)
    return text[:1].lower() + text[1:]


def _text(route: ApiRoute, noun: str, given: Any) -> str:
    """The first field that does not fit by itself; empty if each of them does."""
    if not isinstance(given, dict):
        return f"the body must be an object, not {_kind(given)}"
    fields_by_name = {field.encode_name: field for field in fields(route.asked)}
    if unknown := next((name for name in given if name not in fields_by_name), None):
        return f"there is no {noun} `{unknown}`"
    for name, field in fields_by_name.items():
        if name not in given:
            if field.required:
                return f"{noun} `{name}` is missing"
            continue
        try:
            msgspec.convert(given[name], field.type, strict=route.has_body)
        except msgspec.ValidationError:
            words = _words_of(field.type, is_query=not route.has_body)
            # A query is text throughout, so that it is text says nothing.
            kind = _kind(given[name])
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
