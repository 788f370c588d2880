from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine.catalog import Catalog, CatalogDiff, Entry, Failure, ServerPart
from discovery_engine.rules.rule import WITHHELD, Verdict
from discovery_engine.tools.model import AppliedOverride, ServerName, ToolKey, ToolName
from tests.factories import make_catalog, make_entry, make_part, make_tool
from tests.rows import rows

A, B = ServerName("a"), ServerName("b")
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


def key(text: str) -> ToolKey:
    server, _, tool = text.partition(":")
    return ToolKey(ServerName(server), ToolName(tool))


def keys(catalog: Catalog) -> list[str]:
    return [str(entry.key) for entry in catalog]


def test_entries_come_by_server_and_name_whatever_order_they_were_given_in() -> None:
    catalog = make_catalog(make_part("b", "y", "x"), make_part("a", "z"))

    assert keys(catalog) == ["a:z", "b:x", "b:y"]
    assert len(catalog) == 3


def test_a_tool_is_found_by_its_server_and_name() -> None:
    catalog = make_catalog(make_part("a", "x"), make_part("b", "x"))

    found = catalog.get(B, ToolName("x"))

    assert found
    assert found.key == key("b:x")
    assert catalog.get(A, ToolName("y")) is None
    assert catalog.get(ServerName("c"), ToolName("x")) is None


def test_a_name_may_be_several_servers_tools() -> None:
    catalog = make_catalog(make_part("b", "x"), make_part("a", "x", "y"), make_part("c"))

    assert [entry.key for entry in catalog.named(ToolName("x"))] == [key("a:x"), key("b:x")]
    assert catalog.named(ToolName("z")) == ()


def test_new_parts_replace_what_was_known_of_their_servers() -> None:
    before = make_catalog(make_part("a", "old"), make_part("b", "kept"), revision=4)

    after = before.with_parts([make_part("a", "new"), make_part("c", "more")])

    assert keys(after) == ["a:new", "b:kept", "c:more"]
    assert after.revision == 5
    assert after.parts[B] is before.parts[B]
    assert keys(before) == ["a:old", "b:kept"]


def test_only_the_servers_that_are_named_are_kept() -> None:
    before = make_catalog(make_part("a", "x"), make_part("b", "y"), revision=4)

    after = before.only([B, ServerName("unknown")])

    assert keys(after) == ["b:y"]
    assert after.revision == 5


def test_the_parts_of_a_catalog_cannot_be_changed() -> None:
    catalog = make_catalog(make_part("a", "x"))

    with pytest.raises(TypeError):
        catalog.parts[B] = make_part("b")  # type: ignore[index]


@rows(
    ("listed_at", "failed", "is_stale"),
    [
        pytest.param(1.0, True, True, id="known, then failed"),
        pytest.param(1.0, False, False, id="known"),
        pytest.param(None, True, False, id="never known: nothing to be stale"),
    ],
)
def test_a_part_is_stale_if_it_is_older_than_its_servers_failure(
    listed_at: float | None, failed: bool, is_stale: bool
) -> None:
    failure = Failure("CODE", "message", "hint", at=2.0) if failed else None

    assert make_part("a", "x", listed_at=listed_at, failure=failure).is_stale is is_stale


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


def test_a_digest_that_is_known_is_not_made_again() -> None:
    part = make_part("a", "x").with_digest(b"known")

    assert part.digest == b"known"
    assert part == make_part("a", "x")
    assert replace(part, entries=()).digest == make_part("a").digest


def test_a_diff_names_what_came_went_and_changed() -> None:
    before = make_catalog(
        make_part("a", "same", "gone", make_entry("reworded", "a"), make_entry("verdict", "a")),
        make_part("b", "x"),
    )
    after = make_catalog(
        make_part(
            "a",
            "same",
            "new",
            make_entry("reworded", "a", description="Another."),
            make_entry("verdict", "a", enabled=False),
        ),
        make_part("c", "x"),
    )

    assert before.diff(after) == CatalogDiff(
        added=(key("a:new"), key("c:x")),
        removed=(key("a:gone"), key("b:x")),
        changed=(key("a:reworded"), key("a:verdict")),
        has_visible=True,
    )


def test_what_is_not_about_a_tool_is_no_difference() -> None:
    before = make_catalog(make_part("a", "x"), revision=1)
    after = make_catalog(make_part("a", "x", listed_at=2000.0, instructions="new"), revision=2)

    assert not before.diff(after)


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
