from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine.agent.instructions import render_instructions
from discovery_engine.agent.token_estimate import estimated_tokens
from discovery_engine.config.serve_settings import ServeSettings
from tests.factories import make_server
from tests.unit.server.fakes import ISSUES, make_view


@pytest.mark.requirement("REG-21")
def test_agents_read_that_decisions_were_lost_without_a_path() -> None:
    view = replace(make_view(ISSUES), lost_at=60.0)

    listed = view.list_tools(ISSUES.server)
    told = [render_instructions(view), *(one.message for one in listed.notices)]

    assert view.general_notices()[0].kind == view.search("issue").notices[0].kind == "lost"
    for text in told[:2]:
        assert "earlier decisions of the owner were lost (noticed 1970-01-01 00:01 UTC)" in text
        assert "`discovery review`" in text
        assert "registry" not in text
    assert "lost" not in render_instructions(make_view(ISSUES))


@pytest.mark.requirement("MET-22")
@given(st.integers(min_value=1, max_value=60), st.integers(min_value=0, max_value=300))
def test_instructions_stay_within_the_cap(count: int, length: int) -> None:
    servers = [make_server(f"server-{i:02}", description="word " * length) for i in range(count)]
    view = make_view(servers=servers, server=ServeSettings(instructions_tokens=150))

    assert estimated_tokens(render_instructions(view)) <= 150
