"""A view: what is answered from one world, and what it says it cannot speak for."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.catalog import ServerPart
from discovery_engine.config.settings import Settings
from discovery_engine.errors import (
    DiscoveryError,
    Origin,
)
from discovery_engine.rules.rule import Rule
from discovery_engine.search.searcher import build_searcher
from discovery_engine.view.view import View
from tests.factories import make_catalog, make_entry, make_part, make_settings

RULE = Rule(patterns=("*delete*",), enabled=False, origin=Origin("discovery.yaml", 3, 5))


def make_view(*parts: ServerPart, settings: Settings | None = None, **fields: Any) -> View:
    names = [part.server for part in parts]
    settings = settings or make_settings(*names, tool_rules=(RULE,))
    catalog = make_catalog(*parts)
    return View(settings, catalog, partial(build_searcher, catalog, settings.search), **fields)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.booleans())), st.text()
)
def test_what_is_found_can_be_inspected_and_what_is_hidden_is_reported_nowhere(
    tools: list[tuple[str, str, bool]], query: str
) -> None:
    unique = {(server, f"tool_{name}"): enabled for server, name, enabled in tools}
    parts = [
        make_part(
            server, *(make_entry(n, s, enabled=e) for (s, n), e in unique.items() if s == server)
        )
        for server in {s for s, _ in unique}
    ]
    view = make_view(*parts)

    for hit in view.search(f"{query} tool", limit=100).hits:
        assert view.details(hit.entry.tool.server, hit.entry.tool.name) == hit.entry
    for entry in view.catalog:
        if not entry.is_visible:
            with pytest.raises(DiscoveryError):
                view.details(entry.tool.server, entry.tool.name)
