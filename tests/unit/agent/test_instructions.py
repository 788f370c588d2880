from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.agent.budget import estimated_tokens
from discovery_engine.agent.instructions import render_instructions
from discovery_engine.config.serve_settings import ServeSettings
from tests.factories import make_server
from tests.unit.server.fakes import make_view


@pytest.mark.requirement("MET-22")
@given(st.integers(min_value=1, max_value=60), st.integers(min_value=0, max_value=300))
def test_instructions_stay_within_the_cap(count: int, length: int) -> None:
    servers = [make_server(f"server-{i:02}", description="word " * length) for i in range(count)]
    view = make_view(servers=servers, server=ServeSettings(instructions_tokens=150))

    assert estimated_tokens(render_instructions(view)) <= 150
