"""What is wrong with the parameters of a request, in words that need no knowledge of the checker.

Expected `float | null`, got `str` - at `$.since`
parameter `since` must be a number
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct

from discovery_server.api.route import ApiRoute, RequestError

_TYPE = re.compile(r"Expected `([^`]+)`(.*?)(?:, got `([^`]+)`)?(?: - at `\$\.?(.*)`)?", re.DOTALL)
_FIELD = re.compile(
    r"Object (missing required|contains unknown) field `(.*)`(?: - at .*)?", re.DOTALL
)
_CHOICE = re.compile(r"Invalid enum value (.*) - at `\$\.?(.*)`", re.DOTALL)
_WORDS = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "null": "null",
    "object": "an object",
    "str": "text",
}


def mistake(route: ApiRoute, error: msgspec.ValidationError, described_at: str) -> RequestError:
    """The refusal of a request whose parameters are not those of its route."""
    noun = "field" if route.has_body else "parameter"
    names = ", ".join(msgspec.json.schema(route.asked)["$defs"][route.asked.__name__]["properties"])
    known = f"{noun}s: {names}" if names else f"it takes no {noun}s"
    hint = f"{known}; GET {described_at} describes {route.name}"
    return RequestError(422, _text(str(error), noun, route), hint=hint)


def _text(error: str, noun: str, route: ApiRoute) -> str:
    if found := _FIELD.fullmatch(error):
        is_missing = found[1].startswith("missing")
        return (
            f"{noun} `{found[2]}` is missing" if is_missing else f"there is no {noun} `{found[2]}`"
        )
    if found := _CHOICE.fullmatch(error):
        choices = ", ".join(_choices(route.asked, found[2])) or "a value of its description"
        return f"{noun} `{found[2]}` must be one of {choices}, not {found[1]}"
    if found := _TYPE.fullmatch(error):
        wanted, limit, given, place = found.groups()
        about = f"{noun} `{place}`" if place else "the body"
        # A query is text throughout, so that it is text says nothing.
        but = f", not {_words(given)}" if given and route.has_body else ""
        return f"{about} must be {_words(wanted, is_query=not route.has_body)}{limit}{but}"
    return error[:1].lower() + error[1:]


def _words(types: str, *, is_query: bool = False) -> str:
    """The names of types of the checker in plain words; a query has no null."""
    names = [name for name in types.split(" | ") if not (is_query and name == "null")]
    return " or ".join(_WORDS.get(name, name) for name in names)


def _choices(asked: type[Struct], place: str) -> list[str]:
    """The values of a parameter that has only some."""
    schema = msgspec.json.schema(asked)["$defs"][asked.__name__]
    return _enum(schema["properties"].get(re.split(r"[.\[]", place)[0], {}))


def _enum(schema: dict[str, Any]) -> list[str]:
    parts = [*schema.get("anyOf", ()), schema.get("items", {})]
    own = [str(value) for value in schema.get("enum", ())]
    return own or next((found for part in parts if part and (found := _enum(part))), [])
