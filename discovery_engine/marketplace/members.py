"""The members of a foreign JSON object: text, flags, lists and objects, each bounded.

A member may be spelled in camelCase or, as before September 2025, in snake_case. One of another
type than expected counts as missing where it is only shown; `MalformedOfferError` is raised where
it would decide what runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.marketplace import bounds

_UNSAFE = re.compile("[\0\r\n]")
_DATE = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
)


class MalformedOfferError(ValueError):
    """An offer that cannot be read as it was meant, and is refused as a whole."""


class MalformedEntryError(ValueError):
    """A document that is not an entry at all."""


def member(document: JSONObject, name: str) -> JSONValue:
    """A member by its camelCase name, or the same in snake_case; None if there is none."""
    if name in document:
        return document[name]
    return document.get(_snake_case(name))


def shown_text(document: JSONObject, name: str, most: int = bounds.TEXT) -> str:
    """A text to show, cut; empty if there is none."""
    value = member(document, name)
    return value[:most].strip() if isinstance(value, str) else ""


def date(document: JSONObject, name: str) -> str:
    """A moment as ISO 8601; empty if there is none."""
    text = shown_text(document, name, 40)
    return text if _DATE.fullmatch(text) else ""


def web_address(document: JSONObject, name: str) -> str:
    """An address of the web to show; empty for any other scheme."""
    text = shown_text(document, name, bounds.ADDRESS)
    is_web = text.lower().startswith(("https://", "http://")) and not re.search(r"\s", text)
    return text if is_web else ""


def value_text(document: JSONObject, name: str) -> str:
    """A text that decides what runs: whole, on one line; numbers and booleans as JSON has them.

    Raises:
        MalformedOfferError: If it is of another type, too long or on several lines.
    """
    value = member(document, name)
    if value is None:
        return ""
    return as_value(value, name)


def as_value(value: JSONValue, name: str) -> str:
    """The same of a value by itself."""
    match value:
        case bool():
            text = "true" if value else "false"
        case int() | float():
            text = str(value)
        case str():
            text = value
        case _:
            raise MalformedOfferError(f"{name!r} is not text")
    if len(text) > bounds.VALUE:
        raise MalformedOfferError(f"{name!r} has {len(text):,} characters")
    if _UNSAFE.search(text):
        raise MalformedOfferError(f"{name!r} has a line end or a NUL in it")
    return text


def as_object(value: JSONValue) -> JSONObject:
    """The value, if it is an object.

    Raises:
        MalformedOfferError: If it is none.
    """
    if not isinstance(value, dict):
        raise MalformedOfferError("what should be an object is none")
    return value


def flag(document: JSONObject, name: str) -> bool:
    """A boolean; false if there is none.

    Raises:
        MalformedOfferError: If it is none.
    """
    value = member(document, name)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise MalformedOfferError(f"{name!r} is neither true nor false")


def objects(document: JSONObject, name: str, most: int = bounds.INPUTS) -> Iterator[JSONObject]:
    """The objects of a list; none if there is no list.

    Raises:
        MalformedOfferError: If one is no object, or there are more than `most`.
    """
    items = member(document, name)
    if items is None:
        return
    if not isinstance(items, list):
        raise MalformedOfferError(f"{name!r} is not a list")
    if len(items) > most:
        raise MalformedOfferError(f"{name!r} has {len(items):,} members, of which {most} are read")
    yield from map(as_object, items)


def named_objects(document: JSONObject, name: str) -> Iterator[tuple[str, JSONObject]]:
    """The members of an object of objects, in their order.

    Raises:
        MalformedOfferError: As `objects`.
    """
    members = member(document, name)
    if members is None:
        return
    if not isinstance(members, dict) or len(members) > bounds.INPUTS:
        raise MalformedOfferError(f"{name!r} is not an object of at most {bounds.INPUTS} members")
    for key, value in members.items():
        yield key, as_object(value)


def texts(document: JSONObject, name: str, most: int) -> tuple[str, ...]:
    """The texts of a list to show; what is none is left out."""
    items = member(document, name)
    if not isinstance(items, list):
        return ()
    return tuple(item[: bounds.NAME] for item in items[:most] if isinstance(item, str))


def child(document: JSONObject, name: str) -> JSONObject:
    """An object; empty if there is none."""
    value = member(document, name)
    return value if isinstance(value, dict) else {}


def _snake_case(name: str) -> str:
    return re.sub("([A-Z])", lambda upper: f"_{upper[1].lower()}", name)
