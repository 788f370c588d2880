"""The fields of a server's form, as a person fills them in."""

from __future__ import annotations

from typing import Any

import pytest

from discovery_cli.form_fields import FormField, InvalidInputError
from tests.rows import rows


def field(name: str = "field", *, required: bool = False, **schema: Any) -> FormField:
    return FormField(name, schema, required)


TITLED = [{"const": "a", "title": "First"}, {"const": "b", "title": "Second"}]


@pytest.mark.requirement("QST-50")
@rows(
    ("schema", "text", "value"),
    [
        pytest.param({"type": "string"}, " Ada ", "Ada", id="text"),
        pytest.param({"type": "integer"}, "7", 7, id="whole number"),
        pytest.param({"type": "number"}, "7.5", 7.5, id="number"),
        pytest.param({"type": "boolean"}, "Yes", True, id="yes"),
        pytest.param({"type": "boolean"}, "n", False, id="no"),
        pytest.param({"enum": ["red", "blue"]}, "blue", "blue", id="a choice"),
        pytest.param({"enum": ["red", "blue"]}, "1", "red", id="a choice by its number"),
        pytest.param({"enum": ["1", "2"]}, "2", "2", id="a choice that is a number"),
        pytest.param({"oneOf": TITLED}, "2", "b", id="a titled choice"),
        pytest.param(
            {"type": "array", "items": {"anyOf": TITLED}}, "1, b", ["a", "b"], id="several"
        ),
        pytest.param({"type": "array", "items": {}}, "x, y", ["x", "y"], id="several texts"),
        pytest.param({"format": "email"}, "a@b.c", "a@b.c", id="email"),
        pytest.param({"format": "date"}, "2026-11-22", "2026-11-22", id="date"),
        pytest.param({"type": "integer", "default": 30}, "", 30, id="the default"),
        pytest.param({"type": "string"}, "", None, id="left out"),
    ],
)
def test_an_input_is_read_by_its_schema(schema: Any, text: str, value: object) -> None:
    parsed = field(**schema).parsed(text)

    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.requirement("QST-50")
@rows(
    ("schema", "text"),
    [
        pytest.param({"type": "integer"}, "7.5", id="no whole number"),
        pytest.param({"type": "integer", "minimum": 3}, "2", id="too small"),
        pytest.param({"type": "number", "maximum": 3}, "4", id="too large"),
        pytest.param({"type": "number"}, "nan", id="no number"),
        pytest.param({"type": "boolean"}, "perhaps", id="neither"),
        pytest.param({"enum": ["red"]}, "2", id="no choice"),
        pytest.param({"type": "string", "minLength": 3}, "ab", id="too short"),
        pytest.param({"type": "string", "maxLength": 3}, "abcd", id="too long"),
        pytest.param({"format": "email"}, "ab", id="no email"),
        pytest.param({"format": "uri"}, "no address", id="no address"),
        pytest.param({"format": "date"}, "22.11.2026", id="no date"),
        pytest.param({"format": "date-time"}, "noon", id="no time"),
        pytest.param({"type": "array", "items": {"enum": ["a"]}, "minItems": 2}, "a", id="few"),
    ],
)
def test_an_input_that_does_not_fit_is_asked_for_again(schema: Any, text: str) -> None:
    with pytest.raises(InvalidInputError):
        field(**schema).parsed(text)


@pytest.mark.requirement("QST-50")
@rows(
    ("schema", "value", "problem"),
    [
        pytest.param({"type": "string"}, 7, "must be text, not 7", id="no text"),
        pytest.param({"type": "string"}, None, "must be text, not null", id="null"),
        pytest.param({"type": "integer"}, "7", 'must be a whole number, not "7"', id="text"),
        pytest.param({"type": "integer"}, True, "must be a whole number, not true", id="boolean"),
        pytest.param({"type": "integer"}, 7.5, "must be a whole number, not 7.5", id="fraction"),
        pytest.param({"type": "number", "maximum": 3}, 4, "must be 3 or less, not 4", id="large"),
        pytest.param(
            {"type": "boolean"}, "yes", 'must be y or n (true or false), not "yes"', id="word"
        ),
        pytest.param(
            {"enum": ["red", "blue"]}, 1, "must be text, not 1", id="the number of a choice"
        ),
        pytest.param(
            {"oneOf": TITLED}, "First", 'must be "a" or "b", not "First"', id="the title of one"
        ),
        pytest.param(
            {"type": "array", "items": {"enum": ["a", "b"]}},
            ["a", "c"],
            'must be "a" or "b", not ["a", "c"]',
            id="one of several",
        ),
        pytest.param({"type": "array"}, "a", 'must be a list, not "a"', id="no list"),
        pytest.param(
            {"type": "array", "maxItems": 1},
            ["a", "b"],
            'must have at most 1 of them, not ["a", "b"]',
            id="too many",
        ),
        pytest.param(
            {"format": "date"},
            "today",
            'must be a date like 2026-11-23, not "today"',
            id="no date",
        ),
        pytest.param(
            {"format": "password", "minLength": 9},
            "s3cret",
            "must have 9 characters or more",
            id="a secret is not repeated",
        ),
    ],
)
def test_a_value_of_json_that_does_not_fit_is_refused_with_what_is_expected(
    schema: Any, value: Any, problem: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        field(**schema).check(value)

    assert str(caught.value) == problem


@pytest.mark.requirement("QST-50")
def test_a_required_field_without_a_default_is_not_left_out() -> None:
    with pytest.raises(InvalidInputError):
        field(required=True, type="string").parsed(" ")

    assert field(required=True, type="string", default="x").parsed("") == "x"


@pytest.mark.requirement("QST-50")
@rows(
    ("one", "is_secret"),
    [
        pytest.param(field("api_key"), True, id="by its name"),
        pytest.param(field("x", title="Your password"), True, id="by its title"),
        pytest.param(field("x", format="password"), True, id="by its format"),
        pytest.param(field("x", writeOnly=True), True, id="write-only"),
        pytest.param(field("email", format="email"), False, id="no secret"),
    ],
)
def test_a_secret_is_not_shown(one: FormField, is_secret: bool) -> None:
    assert one.is_secret is is_secret
