"""The catalog as a value: order, fingerprints, differences (specs/catalog.md)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine.catalog import Catalog
from discovery_engine.rules.rule import Verdict
from discovery_engine.tools.model import ServerName, Tool
from tests.factories import make_catalog, make_definition, make_entry, make_part

GITHUB = ServerName("github")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
FIELDS = st.dictionaries(st.sampled_from(["title", "annotations", "vendor", "x-new"]), JSON)


def fingerprint(definition: dict[str, object]) -> str:
    return Tool.from_mcp(GITHUB, definition).fingerprint


def keys(catalog: Catalog) -> list[str]:
    return [str(entry.key) for entry in catalog]


@pytest.mark.requirement("CAT-3")
@given(st.permutations(["b", "a", "c"]), st.permutations(["y", "x"]))
def test_tools_stand_by_server_and_name(servers: list[str], tools: list[str]) -> None:
    catalog = make_catalog(*(make_part(server, *tools) for server in servers))

    assert keys(catalog) == ["a:x", "a:y", "b:x", "b:y", "c:x", "c:y"]


@pytest.mark.requirement("CAT-4")
@given(FIELDS, FIELDS)
def test_a_fingerprint_distinguishes_definitions_by_any_field(
    one: dict[str, object], other: dict[str, object]
) -> None:
    a, b = make_definition(**one), make_definition(**other)

    is_same = json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)

    assert (fingerprint(a) == fingerprint(b)) is is_same


@pytest.mark.requirement("CAT-4")
@given(FIELDS)
def test_a_fingerprint_minds_no_order_of_keys(fields: dict[str, object]) -> None:
    definition = make_definition(**fields)

    assert fingerprint(definition) == fingerprint(dict(reversed(definition.items())))


@pytest.mark.requirement("CAT-5")
def test_a_difference_names_what_came_went_and_changed() -> None:
    retagged = make_entry("retagged", tags=["old"])
    before = make_catalog(make_part("github", "same", "gone", make_entry("text"), retagged))
    after = make_catalog(
        make_part(
            "github",
            "same",
            "new",
            make_entry("text", description="another"),
            replace(retagged, verdict=Verdict(tags=("new",))),
        )
    )

    diff = before.diff(after)

    assert list(map(str, diff.added)) == ["github:new"]
    assert list(map(str, diff.removed)) == ["github:gone"]
    assert list(map(str, diff.changed)) == ["github:retagged", "github:text"]
    assert not before.diff(before)
