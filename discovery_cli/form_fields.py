"""The fields of a server's form: their prompts, and how typed text becomes a value."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import date, datetime
from urllib.parse import urlsplit

from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.text import one_line
from discovery_engine.secrets.secret_names import NameKind

_YES, _NO = ("y", "yes", "true", "1"), ("n", "no", "false", "0")
_KINDS = {"integer": "whole number", "number": "number"}
_LABEL = 80  # characters
_MAX_ERROR_VALUES_LENGTH = 200  # characters of values in an error


class InvalidInputError(ValueError):
    """A value is invalid for its field; the text begins with a verb, as in `must be text`."""


class FormField(Struct, frozen=True):
    """A member of `requestedSchema.properties`."""

    name: str
    schema: JSONObject
    is_required: bool

    @property
    def is_secret(self) -> bool:
        """True if the terminal must not show the input."""
        schema = self.schema
        is_marked = schema.get("format") == "password" or schema.get("writeOnly") is True
        names = (self.name, str(schema.get("title", "")))
        return is_marked or NameKind.SECRET in map(NameKind.of, names)

    @property
    def label(self) -> str:
        """The title, with the type, whether it is optional, and the default, in one line."""
        title = one_line(str(self.schema.get("title") or self.name))[:_LABEL]
        expected = self._expected
        default = "" if self.default is None else f", default {_shown(self.default)}"
        return f"{title} ({expected}{'' if self.is_required else ', optional'}{default})"

    @property
    def description(self) -> str:
        return one_line(str(self.schema.get("description") or ""))

    @property
    def default(self) -> JSONValue:
        return self.schema.get("default")

    @property
    def choices(self) -> Mapping[str, str]:
        """The titles of the allowed values, by value; empty if any value is allowed."""
        items = self.schema.get("items")
        return _choices(items if self.is_list and isinstance(items, dict) else self.schema)

    @property
    def is_list(self) -> bool:
        return self.schema.get("type") == "array"

    def parsed(self, text: str) -> JSONValue:
        """Return the value of a typed text; for an empty one the default, or None.

        Raises:
            InvalidInputError: If the value is invalid, or is required and missing.
        """
        text = text.strip()
        if not text:
            if self.default is None and self.is_required:
                raise InvalidInputError("needs a value")
            return self.default
        value = self._read(text)
        self._check(value)
        return value

    def check(self, value: JSONValue) -> None:
        """Check a value that was given as JSON.

        Raises:
            InvalidInputError: If it is invalid; quotes the value unless it is a secret.
        """
        try:
            self._check(value)
        except InvalidInputError as error:
            ending = (
                "" if self.is_secret else f", not {json.dumps(value)[:_MAX_ERROR_VALUES_LENGTH]}"
            )
            raise InvalidInputError(f"{error}{ending}") from error

    @property
    def _expected(self) -> str:
        if self.choices:
            return "several, with commas" if self.is_list else "one of these"
        kind = self.schema.get("type")
        if kind == "boolean":
            return "y or n"
        form = self.schema.get("format")
        return str(form) if form in _FORMATS else _KINDS.get(str(kind), "text")

    def _read(self, text: str) -> JSONValue:
        """Return a typed text as a value of the field's type, unchecked."""
        if self.is_list:
            texts = [part.strip() for part in text.split(",") if part.strip()]
            return [self._chosen(part) if self.choices else part for part in texts]
        if self.choices:
            return self._chosen(text)
        match self.schema.get("type"):
            case "boolean" if text.lower() in (*_YES, *_NO):
                return text.lower() in _YES
            case "integer":
                return _number(text, int)
            case "number":
                return _number(text, float)
        return text

    def _chosen(self, text: str) -> str:
        """Return a choice by its value or its number; any other text unchanged."""
        values = list(self.choices)
        is_number = text not in values and text.isdecimal() and 0 < int(text) <= len(values)
        return values[int(text) - 1] if is_number else text

    def _check(self, value: JSONValue) -> None:
        if self.is_list:
            if not isinstance(value, list):
                raise InvalidInputError("must be a list")
            self._check_count(value)
            for element in value:
                self._check_choice(element)
        elif self.choices:
            self._check_choice(value)
        else:
            self._check_type(value)

    def _check_choice(self, value: JSONValue) -> None:
        if not isinstance(value, str):
            raise InvalidInputError("must be text")
        if self.choices and value not in self.choices:
            choices = " or ".join(json.dumps(choice, ensure_ascii=False) for choice in self.choices)
            raise InvalidInputError(f"must be {one_line(choices)[:_MAX_ERROR_VALUES_LENGTH]}")

    def _check_count(self, values: list[JSONValue]) -> None:
        least, most = self.schema.get("minItems"), self.schema.get("maxItems")
        if isinstance(least, int) and len(values) < least:
            raise InvalidInputError(f"must have at least {least} of them")
        if isinstance(most, int) and len(values) > most:
            raise InvalidInputError(f"must have at most {most} of them")

    def _check_type(self, value: JSONValue) -> None:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        match self.schema.get("type"):
            case "boolean":
                if not isinstance(value, bool):
                    raise InvalidInputError("must be y or n (true or false)")
            case "integer":
                if not is_number or value != value // 1:
                    raise InvalidInputError("must be a whole number")
                self._check_range(value)
            case "number":
                if not is_number:
                    raise InvalidInputError("must be a number")
                self._check_range(value)
            case _:
                if not isinstance(value, str):
                    raise InvalidInputError("must be text")
                self._check_text(value)

    def _check_range(self, value: float) -> None:
        least, most = self.schema.get("minimum"), self.schema.get("maximum")
        if isinstance(least, int | float) and value < least:
            raise InvalidInputError(f"must be {least} or more")
        if isinstance(most, int | float) and value > most:
            raise InvalidInputError(f"must be {most} or less")

    def _check_text(self, text: str) -> None:
        least, most = self.schema.get("minLength"), self.schema.get("maxLength")
        if isinstance(least, int) and len(text) < least:
            raise InvalidInputError(f"must have {least} characters or more")
        if isinstance(most, int) and len(text) > most:
            raise InvalidInputError(f"must have {most} characters or less")
        form = self.schema.get("format")
        if isinstance(form, str) and form in _FORMATS and not _FORMATS[form][0](text):
            raise InvalidInputError(f"must be {_FORMATS[form][1]}")


def fields_of(schema: JSONValue) -> list[FormField]:
    """Return the fields of a `requestedSchema`, in its order; invalid ones are left out."""
    if not isinstance(schema, dict) or not isinstance(schema.get("properties"), dict):
        return []
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    return [
        FormField(name, field_schema, name in needed)
        for name, field_schema in schema["properties"].items()
        if isinstance(field_schema, dict)
    ]


def _choices(schema: JSONObject) -> Mapping[str, str]:
    for key in ("oneOf", "anyOf"):
        if isinstance(options := schema.get(key), list):
            titled = [pair for pair in options if isinstance(pair, dict) and "const" in pair]
            return {str(pair["const"]): str(pair.get("title", pair["const"])) for pair in titled}
    values = schema.get("enum")
    if not isinstance(values, list):
        return {}
    names = schema.get("enumNames")
    titles = names if isinstance(names, list) and len(names) == len(values) else values
    return {str(value): str(title) for value, title in zip(values, titles, strict=True)}


def _number(text: str, kind: Callable[[str], float]) -> float | str:
    """Return a finite number; the text itself if it is none."""
    try:
        value = kind(text)
    except ValueError:
        return text
    return value if abs(value) < float("inf") else text


def _shown(value: JSONValue) -> str:
    if isinstance(value, bool):
        return "y" if value else "n"
    if isinstance(value, list):
        return ", ".join(one_line(str(element)) for element in value)
    return one_line(str(value))


def _is_email(text: str) -> bool:
    name, _, host = text.rpartition("@")
    return bool(name) and bool(host) and " " not in text


def _is_uri(text: str) -> bool:
    try:
        return bool(urlsplit(text).scheme) and " " not in text
    except ValueError:
        return False


def _is_date(text: str) -> bool:
    return _is_parsed(date.fromisoformat, text)


def _is_moment(text: str) -> bool:
    return _is_parsed(datetime.fromisoformat, text)


def _is_parsed(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


_FORMATS: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "email": (_is_email, "an email address like ann@example.org"),
    "uri": (_is_uri, "an address like https://example.org"),
    "date": (_is_date, "a date like 2026-11-23"),
    "date-time": (_is_moment, "a time like 2026-11-23T10:00:00Z"),
}
