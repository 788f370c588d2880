from __future__ import annotations

import pytest
from msgspec.structs import replace

from discovery_engine.agent.tool_text import Detail, tool_items, tool_text
from discovery_engine.tools.model import AppliedOverride
from tests.factories import make_entry
from tests.rows import rows
from tests.unit.server.fakes import object_schema


@pytest.mark.requirement("BUD-7")
@rows("richest", Detail)
def test_kept_texts_are_those_of_the_tool_as_it_is_now(richest: Detail) -> None:
    schema = object_schema(("p",), p={"type": "string"})
    first = make_entry("x", description="First.", tags=["a"], inputSchema=schema)
    changed = [
        make_entry("x", description="Second.", tags=["a"], inputSchema=schema),
        make_entry("x", description="First.", tags=["b"], inputSchema=schema),
        make_entry("x", description="First.", tags=["a"]),
        replace(first, tool=replace(first.tool, overridden=AppliedOverride(description="Third."))),
    ]

    for entry, note in [(first, ""), *((other, "") for other in changed), (first, "(off)")] * 2:
        [item] = tool_items([entry], [note], richest)

        texts = [variant.text for variant in item.variants]
        assert texts == [
            tool_text(entry, detail, name="x", note=note) for detail in Detail if detail <= richest
        ]
