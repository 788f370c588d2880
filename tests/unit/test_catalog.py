from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine.catalog import Catalog, Entry, ServerPart
from discovery_engine.rules.rule import WITHHELD, Verdict
from discovery_engine.tools.model import AppliedOverride, ServerName, ToolName
from tests.factories import make_catalog, make_entry, make_part, make_tool
from tests.rows import rows

REASONS = ["default", "rule", *sorted(WITHHELD)]

NAMES = st.sampled_from("abc")
ENTRIES = st.builds(make_entry, NAMES, enabled=st.booleans(), description=NAMES)
CATALOGS = st.dictionaries(NAMES, st.lists(ENTRIES, max_size=3), max_size=3).map(
    lambda servers: make_catalog(
        *(
            make_part(
                server,
                *{
                    e.tool.name: replace(e, tool=replace(e.tool, server=ServerName(server)))
                    for e in entries
                }.values(),
            )
            for server, entries in servers.items()
        )
    )
)


@given(st.lists(st.builds(Verdict, st.booleans(), reason=st.sampled_from(REASONS))))
def test_what_a_part_counts_is_what_its_entries_are(verdicts: list[Verdict]) -> None:
    entries = (Entry(make_tool(str(n), "a"), verdict) for n, verdict in enumerate(verdicts))
    part = make_part("a", *entries)

    held = [entry for entry in part.entries if entry.is_withheld]
    assert part.visible_count == len(part.visible)
    assert part.held_back(WITHHELD) == len(held)
    assert sum(part.held_back({reason}) for reason in WITHHELD) == len(held)


def owned(**said: Any) -> ServerPart:
    tool = replace(make_tool("x", "a"), overridden=AppliedOverride(by=(0,), **said))
    return make_part("a", Entry(tool, Verdict()))


DIFFERENT = [
    pytest.param(make_part("a"), id="nothing"),
    pytest.param(make_part("a", "x"), id="a tool"),
    pytest.param(make_part("a", "x", "y"), id="another tool"),
    pytest.param(make_part("a", make_entry("x", "a", prefix="a_")), id="another name"),
    pytest.param(make_part("a", make_entry("x", "a", description="y")), id="another definition"),
    pytest.param(owned(name=ToolName("y")), id="another name of the owner's"),
    pytest.param(owned(description="y"), id="another description of the owner's"),
    pytest.param(owned(pinned={"z": 0}), id="an argument that the owner gives"),
]


@rows("part", DIFFERENT)
def test_a_digest_is_that_of_what_the_tools_are(part: ServerPart) -> None:
    others = [other for [other] in (param.values for param in DIFFERENT) if other is not part]

    assert part.digest not in [other.digest for other in others]
    judged = tuple(Entry(entry.tool, Verdict(enabled=False)) for entry in part.entries)
    assert part.digest == replace(part, entries=judged, listed_at=5.0).digest


@given(CATALOGS, CATALOGS)
def test_a_diff_tells_the_whole_way_from_one_catalog_to_the_other(
    before: Catalog, after: Catalog
) -> None:
    diff = before.diff(after)

    old, new = ({e.key: e for e in catalog} for catalog in (before, after))
    assert set(diff.added) == new.keys() - old.keys()
    assert set(diff.removed) == old.keys() - new.keys()
    assert set(diff.changed) == {k for k in old.keys() & new.keys() if old[k] != new[k]}
    back = after.diff(before)
    assert (back.added, back.removed, back.changed) == (diff.removed, diff.added, diff.changed)


@given(CATALOGS)
def test_nothing_differs_from_itself(catalog: Catalog) -> None:
    assert not catalog.diff(catalog)
    assert not catalog.diff(make_catalog(*catalog.parts.values()))
