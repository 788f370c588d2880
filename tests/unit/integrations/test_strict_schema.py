"""Which schemas OpenAI's API takes as strict ones."""

from __future__ import annotations

from typing import Any

import pytest

from discovery_engine.integrations.adapter import takes_strict
from tests.rows import rows

TEXT = {"type": "string", "description": "Its text"}


def an_object(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


@pytest.mark.requirement("FRM-130")
@rows(
    ("schema", "is_strict"),
    [
        pytest.param(an_object(), True, id="no arguments"),
        pytest.param(an_object("a", a=TEXT), True, id="all are required"),
        pytest.param(an_object("a", a=TEXT, b=TEXT), False, id="one is not"),
        pytest.param(an_object("a", a={}), False, id="anything"),
        pytest.param(an_object("a", a=True), False, id="true"),
        pytest.param(an_object("a", a={"type": "string", "pattern": "x"}), False, id="a pattern"),
        pytest.param(an_object("a", a={"type": "array", "items": TEXT}), True, id="a list"),
        pytest.param(an_object("a", a={"type": "array"}), False, id="a list of anything"),
        pytest.param(an_object("a", a=an_object("b", b=TEXT)), True, id="an object within"),
        pytest.param(an_object("a", a=an_object(b=TEXT)), False, id="an optional one within"),
        pytest.param({**an_object(), "additionalProperties": True}, False, id="open"),
        pytest.param({**an_object(), "additionalProperties": False}, True, id="closed"),
        pytest.param({**an_object(), "$defs": {}}, False, id="definitions"),
        pytest.param({"type": "object"}, True, id="nothing is said"),
        pytest.param("string", False, id="no schema"),
    ],
)
def test_only_what_is_strict_as_it_stands_is_strict(schema: Any, is_strict: bool) -> None:
    assert takes_strict(schema) is is_strict


@pytest.mark.requirement("FRM-130")
def test_a_schema_deeper_than_the_api_takes_is_not_strict() -> None:
    schema: dict[str, Any] = TEXT
    for _ in range(6):
        schema = an_object("a", a=schema)

    assert not takes_strict(schema)
