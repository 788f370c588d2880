"""How a server fares: since when, why, and whether somebody has to do something."""

from __future__ import annotations

import pytest

from discovery_engine.catalog import Failure, ServerPart
from discovery_engine.engine.health import health
from discovery_engine.upstream.state import ServerState, SessionStats, StateInfo
from discovery_engine.view.status import ServerReport
from tests.factories import (
    make_part,
    make_settings,
)
from tests.rows import rows
from tests.unit.cli.backends import view_of

NOW = 1000.0
GONE = Failure("SERVER_CONNECTION_ERROR", "gone", "start it", 990.0, began=900.0, stderr="Bye")


def condition(
    state: ServerState, *, seconds: float = 0.0, next_try: float | None = None
) -> StateInfo:
    return StateInfo(state, seconds=seconds, next_try=next_try, stats=SessionStats(calls=3))


def one(part: ServerPart, now: StateInfo | None = None) -> ServerReport:
    view = view_of(make_settings("github"), part)
    if now:
        live = {part.server: StateInfo(now.state, "seen")}
        view = view_of(make_settings("github"), part, live=live)
    [found] = health(view, {part.server: now} if now else {}, now=NOW)
    return found


@pytest.mark.requirement("HEA-2")
@rows(
    ("part", "now", "since"),
    [
        pytest.param(make_part(listed_at=None), None, None, id="never asked"),
        pytest.param(make_part(listed_at=500.0), None, 500.0, id="known since it was listed"),
        pytest.param(make_part(failure=GONE), None, 900.0, id="since the first failure in a row"),
        pytest.param(
            make_part(),
            condition(ServerState.READY, seconds=30.0),
            970.0,
            id="since it was seen to be",
        ),
        pytest.param(
            make_part(failure=GONE),
            condition(ServerState.FAILING, seconds=30.0),
            900.0,
            id="seen and known",
        ),
        pytest.param(
            make_part(failure=GONE),
            condition(ServerState.READY, seconds=30.0),
            900.0,
            id="degraded since it could not be listed",
        ),
    ],
)
def test_a_status_has_its_beginning(
    part: ServerPart, now: StateInfo | None, since: float | None
) -> None:
    assert one(part, now).since == since
