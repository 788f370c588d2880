"""How one server fares: what is known and what is seen of it make one word."""

from __future__ import annotations

from typing import Any

import pytest

from discovery_engine.catalog import Failure, ServerPart
from discovery_engine.errors import Origin
from discovery_engine.rules.rule import Rule
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.state import ServerState, StateInfo
from discovery_engine.view.status import ConfiguredServer
from tests.factories import make_entry, make_part, make_problem, make_server
from tests.rows import rows

BROKEN = make_problem(Origin("f"), "command", "is empty")
NEW = ServerPart(ServerName("github"))
GITHUB = make_part("github", "create_issue", make_entry("delete_repository", enabled=False))


def make_server_view(
    part: ServerPart, *, live: StateInfo | None = None, rules: tuple[Rule, ...] = (), **fields: Any
) -> ConfiguredServer:
    return ConfiguredServer(make_server(part.server, **fields), part, rules, live)


@rows(
    ("part", "fields", "status"),
    [
        pytest.param(GITHUB, {}, ServerState.IDLE, id="known"),
        pytest.param(NEW, {}, ServerState.PENDING, id="new"),
        pytest.param(GITHUB, {"enabled": False}, ServerState.DISABLED, id="switched off"),
        pytest.param(GITHUB, {"problem": BROKEN}, ServerState.NEEDS_CONFIG, id="broken entry"),
        pytest.param(
            make_part("github", failure=Failure("SERVER_NEEDS_AUTH", "401", "", 1.0)),
            {},
            ServerState.NEEDS_AUTH,
            id="login",
        ),
        pytest.param(
            make_part("github", failure=Failure("SERVER_NEEDS_CONFIG", "TOKEN", "", 1.0)),
            {},
            ServerState.NEEDS_CONFIG,
            id="unset reference",
        ),
        pytest.param(
            make_part("github", failure=Failure("OTHER", "gone", "", 1.0)),
            {},
            ServerState.FAILING,
            id="failing",
        ),
    ],
)
def test_the_status_follows_from_what_is_known(
    part: ServerPart, fields: dict[str, Any], status: ServerState
) -> None:
    assert make_server_view(part, **fields).info.state is status
