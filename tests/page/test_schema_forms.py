"""Forms that are made from JSON Schemas, as pure functions in a browser: specs/page.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from playwright.sync_api import Browser

import discovery_server

FORMS = Path(discovery_server.__file__).parent / "page" / "static" / "forms"
LOAD = """async (sources) => {
    const loaded = {};
    for (const [name, source] of sources) {
        let text = source;
        for (const [other, { address }] of Object.entries(loaded))
            text = text.replaceAll(`"./${other}"`, JSON.stringify(address));
        const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
        loaded[name] = { address, module: await import(address) };
    }
    window.check = loaded["schema_check.js"].module;
    window.field = loaded["schema_field.js"].module;
}"""
FILL = Path(__file__).with_name("fill_form.js").read_text("utf-8")


@pytest.fixture
def ask(chromium: Browser) -> Iterator[Callable[..., Any]]:
    page = chromium.new_page()
    page.goto("about:blank")
    sources = [
        [name, (FORMS / name).read_text("utf-8")] for name in ("schema_check.js", "schema_field.js")
    ]
    page.evaluate(LOAD, sources)
    yield page.evaluate
    page.close()


TWO = {"oneOf": [{"type": "string"}, {"type": "string", "format": "date"}]}
DATES = {"type": "object", "properties": {"a": TWO}, "required": ["a"]}
FIXED = {
    "type": "object",
    "properties": {"a": {"const": "x"}, "b": {"type": "null"}},
    "required": ["a", "b"],
}
NAMES = st.sampled_from(["a", "b", "constructor", "__proto__", "with space"])
COUNTS = st.integers(0, 3)


def options(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=keywords)


def joined(*parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.tuples(*parts).map(
        lambda found: {key: one for part in found for key, one in part.items()}
    )


def typed(name: str, **keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return joined(st.just({"type": name}), options(**keywords))


VALUES = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.sampled_from(["a", "ab"]))
LEAVES = st.one_of(
    typed(
        "string",
        minLength=COUNTS,
        maxLength=st.integers(2, 12),
        pattern=st.sampled_from(["^a", "b$", "[0-9]"]),
    ),
    typed("string", format=st.sampled_from(["date", "email", "uri", "date-time"])),
    typed("string", contentEncoding=st.just("base64")),
    typed("integer", minimum=st.integers(-3, 3), maximum=st.integers(1, 20), multipleOf=st.just(2)),
    typed("number", exclusiveMinimum=st.integers(-3, 3), exclusiveMaximum=st.integers(3, 9)),
    typed("boolean", default=st.booleans()),
    typed("null"),
    st.builds(lambda values: {"enum": values}, st.lists(VALUES, min_size=1, max_size=4)),
    st.builds(lambda value: {"const": value}, VALUES),
    st.just({"type": ["string", "null"]}),
    st.just({"type": ["integer", "boolean"]}),
    st.just({"$ref": "#/$defs/point"}),
    st.just({"$ref": "#/$defs/tree"}),
)


def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = joined(
        typed(
            "array",
            minItems=st.integers(0, 2),
            maxItems=st.integers(2, 4),
            uniqueItems=st.booleans(),
        ),
        st.builds(lambda item: {"items": item}, inner),
    )
    branches = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        lists,
        objects(inner),
        st.builds(lambda some: {"anyOf": some}, branches),
        st.builds(lambda some: {"oneOf": some}, branches),
        st.builds(lambda some: {"anyOf": [*some, {"type": "null"}], "default": None}, branches),
        st.builds(lambda some: {"allOf": some}, st.lists(objects(LEAVES), min_size=1, max_size=2)),
    )


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def made(properties: dict[str, Any], required: list[str], others: Any) -> dict[str, Any]:
        needed = [name for name in required if name in properties]
        closed = {} if others is None else {"additionalProperties": others}
        return {"type": "object", "properties": properties, "required": needed, **closed}

    return st.builds(
        made,
        st.dictionaries(NAMES, inner, max_size=4),
        st.lists(NAMES, unique=True, max_size=3),
        st.sampled_from([None, False, {"type": "string"}]),
    )


DEFINED = {
    "point": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
    "tree": {
        "type": "object",
        "properties": {"of": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
    },
}
SCHEMAS = objects(st.recursive(LEAVES, larger, max_leaves=6)).map(
    lambda schema: {**schema, "$defs": DEFINED}
)


@pytest.mark.requirement("PAGE-25")
def test_what_a_form_takes_for_right_fits_the_schema_and_what_it_takes_for_wrong_does_not(
    ask: Callable[..., Any],
) -> None:
    seen: set[str] = set()

    @settings(
        max_examples=200, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(schema=SCHEMAS, choices=st.lists(st.integers(0, 11), min_size=1, max_size=12))
    @example(schema=DATES, choices=[0])
    @example(schema=FIXED, choices=[0])
    def fill(schema: Any, choices: list[int]) -> None:
        found = ask(FILL, [schema, choices])
        seen.update(found["kinds"])
        if "raw" in found["kinds"] or found["isUnfinished"]:
            return
        value = json.loads(found["value"])
        errors = [error.message for error in Draft202012Validator(schema).iter_errors(value)]
        if not found["mistakes"]:
            assert errors == []
        elif not any("such as" in one["message"] for one in found["mistakes"]):  # of a format
            assert errors

    fill()
    assert seen >= {"text", "number", "choice", "const", "list", "group", "variants", "null"}
