"""What a database keeps apart is what gateways keep apart, although by another code."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine.catalog import Catalog, ServerPart
from discovery_engine.config.settings import Settings
from discovery_engine.registry.published_slices import Audience, PublishedSlices, merged
from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.runtime.searcher_source import SearcherSource
from discovery_engine.runtime.visible_views import VisibleViews
from discovery_engine.tools.offering import OfferingKind
from discovery_engine.view.view import View
from tests.factories import make_entry, make_offering_entry, make_part, make_server, make_settings

PRINCIPALS = ("team:a", "team:b", "user:c")
NAMES = ("pay", "read", "list")
SERVERS = ("docs", "mail", "payroll")

reserved = st.lists(st.sampled_from(PRINCIPALS), unique=True, max_size=2).map(tuple)
patterns = st.lists(
    st.sampled_from(["*", "pay*", "!pay*", "docs:*", "re*", "file:///*"]), max_size=2
).map(tuple)
rules = st.lists(
    st.builds(
        Rule,
        patterns,
        st.lists(st.sampled_from([*SERVERS, "pay*"]), max_size=1).map(tuple),
        enabled=st.none(),
        tags=st.just(("t",)),
        visible_to=reserved,
    ),
    max_size=3,
).map(tuple)


@st.composite
def parts(draw: st.DrawFn) -> ServerPart:
    server = draw(st.sampled_from(SERVERS))
    enabled = st.booleans()
    tools = [
        make_entry(n, server, enabled=draw(enabled)) for n in draw(st.sets(st.sampled_from(NAMES)))
    ]
    others = [
        make_offering_entry(f"file:///{name}", server, kind=kind, enabled=draw(enabled))
        for kind in OfferingKind
        for name in sorted(draw(st.sets(st.sampled_from(NAMES))))
    ]
    instructions = draw(st.sampled_from(["", "Use pay.", "Be kind."]))
    return make_part(server, *tools, offerings=tuple(others), instructions=instructions)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Settings, list[ServerPart]]:
    found = draw(st.lists(parts(), unique_by=lambda part: part.server, min_size=1))
    servers = [make_server(part.server, visible_to=draw(reserved), tags=("x",)) for part in found]
    settings = make_settings(
        *servers,
        server_rules=draw(rules),
        tool_rules=draw(rules),
        resource_rules=draw(rules),
        prompt_rules=draw(rules),
    )
    return settings, found


def admits(audience: Audience, principals: frozenset[str]) -> bool:
    """As the policy of the database has it."""
    return all(not principals.isdisjoint(one) for one in audience)


def published(
    settings: Settings, found: Iterable[ServerPart], principals: frozenset[str]
) -> dict[str, ServerPart]:
    cut = PublishedSlices(settings)
    seen = {
        part.server: [one.part for one in cut.of(part) if admits(one.audience, principals)]
        for part in found
    }
    return {server: merged(slices) for server, slices in seen.items() if slices}


def names(part: ServerPart) -> list[str]:
    entries = [entry.tool.name for entry in part.entries if entry.is_visible]
    return [*entries, *(one.offering.identifier for one in part.offerings if one.is_visible)]


@pytest.mark.requirement("SCP-22")
@given(worlds(), st.sets(st.sampled_from(PRINCIPALS)).map(frozenset))
def test_both_walls_keep_the_same_apart(
    world: tuple[Settings, list[ServerPart]], principals: frozenset[str]
) -> None:
    settings, found = world
    catalog = Catalog.of(found, revision=1)
    whole = View(settings, catalog, SearcherSource(catalog, settings))
    shown = VisibleViews(lambda: whole).view(principals)
    expected = {s.name: shown.catalog.part(s.name) for s in shown.settings.servers}
    seen = published(settings, found, principals)

    assert {server: names(part) for server, part in seen.items()} == {
        server: names(part) for server, part in expected.items()
    }
    for server, part in seen.items():
        assert part.instructions in ("", expected[server].instructions)


def test_a_published_server_has_nothing_that_is_its_owners_alone() -> None:
    part = make_part("docs", make_entry("read", "docs", tags=("t",)), instructions="Be kind.")
    part = replace(part, verdict=Verdict(True, ("x",), "rule", 3, "secret"))
    [whole] = PublishedSlices(make_settings("docs")).of(part)

    assert whole.audience == ()
    assert whole.part.verdict == Verdict(tags=("x",))
    assert whole.part.entries[0].verdict == Verdict(tags=("t",))
    assert whole.part.instructions == "Be kind."
