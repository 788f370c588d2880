"""How one server fares: what is known and what is seen of it make one word."""

from __future__ import annotations

from typing import Any

import pytest

from discovery_engine.catalog import Failure, ServerPart
from discovery_engine.diagnostics import Origin
from discovery_engine.errors import (
    ConfigurationError,
    DiscoveryError,
    ServerDisabledError,
    UntrustedServerError,
)
from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.state import ServerState, StateInfo
from discovery_engine.view.status import ConfiguredServer
from tests.factories import (
    make_entry,
    make_part,
    make_problem,
    make_server,
)
from tests.rows import rows

BROKEN = make_problem(Origin("f"), "command", "is empty")
OFF = Verdict(enabled=False, reason="server")
UNTRUSTED = Verdict(enabled=False, tags=("write",), reason="untrusted")
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
        pytest.param(
            GITHUB,
            {"problem": BROKEN},
            ServerState.NEEDS_CONFIG,
            id="broken entry",
        ),
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


@pytest.mark.requirement("HEA-2")
@rows(
    ("code", "live", "status", "reason"),
    [
        pytest.param(None, StateInfo(ServerState.READY), ServerState.READY, "", id="open"),
        pytest.param(None, StateInfo(ServerState.IDLE), ServerState.IDLE, "", id="closed"),
        pytest.param(
            None,
            StateInfo(ServerState.IDLE, "it babbled"),
            ServerState.IDLE,
            "it babbled",
            id="ended for what it did",
        ),
        pytest.param(
            None,
            StateInfo(ServerState.CRASH_LOOPING, "it died"),
            ServerState.CRASH_LOOPING,
            "it died",
            id="listed, and dying since",
        ),
        pytest.param(
            "OTHER", StateInfo(ServerState.STARTING), ServerState.FAILING, "gone", id="tried again"
        ),
        pytest.param(
            "OTHER",
            StateInfo(ServerState.READY),
            ServerState.DEGRADED,
            "gone",
            id="open, but not listed",
        ),
        pytest.param(
            "OTHER", StateInfo(ServerState.IDLE), ServerState.FAILING, "gone", id="not tried since"
        ),
        pytest.param(
            "OTHER",
            StateInfo(ServerState.FAILING, "it died"),
            ServerState.FAILING,
            "it died",
            id="the newer reason",
        ),
        pytest.param(
            "SERVER_NEEDS_AUTH",
            StateInfo(ServerState.FAILING, "401"),
            ServerState.NEEDS_AUTH,
            "gone",
            id="the more exact word",
        ),
    ],
)
def test_what_is_known_and_what_is_seen_make_one_status(
    code: str | None, live: StateInfo, status: ServerState, reason: str
) -> None:
    failure = Failure(code, "gone", "", 1.0) if code else None
    found = make_server_view(make_part("github", failure=failure), live=live).info

    assert (found.state, found.reason) == (status, reason)


def test_the_last_lines_of_stderr_of_a_server_that_fails_are_reported() -> None:
    failure = Failure("OTHER", "gone", "", 1.0, stderr="No license")
    summary = make_server_view(make_part("github", failure=failure)).report

    assert summary.stderr == "No license"


def test_the_newest_of_the_last_lines_of_stderr_count() -> None:
    failure = Failure("OTHER", "gone", "", 1.0, stderr="No license")
    live = StateInfo(ServerState.CRASH_LOOPING, "it died", "Disk full")

    summary = make_server_view(make_part("github", failure=failure), live=live).report

    assert summary.stderr == "Disk full"


def test_tools_are_counted_and_so_are_the_enabled_ones() -> None:
    summary = make_server_view(GITHUB).report

    assert (summary.tool_count, summary.enabled_count) == (2, 1)


def test_without_a_description_the_first_line_of_the_instructions_serves() -> None:
    part = make_part("github", instructions="Tells the time.\nMore.")

    assert make_server_view(part).report.description == "Tells the time."


def test_of_a_server_that_must_not_be_started_nothing_is_reported_but_why() -> None:
    part = make_part("github", verdict=UNTRUSTED, instructions="Tells the time.")
    server = make_server_view(part, description="Issues")

    summary = server.report

    assert (summary.state, summary.description, summary.tags) == (ServerState.UNTRUSTED, "", ())
    with pytest.raises(UntrustedServerError):
        server.require_enabled()


def test_a_rule_that_switches_it_off_is_named() -> None:
    rule = Rule(patterns=("git*",), enabled=False, origin=Origin("discovery.yaml", 3, 5))
    off = make_part("github", verdict=Verdict(enabled=False, reason="rule", rule=0))

    with pytest.raises(ServerDisabledError, match="a rule of the owner") as caught:
        make_server_view(off, rules=(rule,)).require_enabled()

    assert "discovery.yaml:3:5" in caught.value.detail
    assert "discovery.yaml" not in str(caught.value)


@rows(
    ("part", "live", "code"),
    [
        pytest.param(GITHUB, None, None, id="known"),
        pytest.param(NEW, None, "SERVER_STARTING", id="never asked"),
        pytest.param(
            NEW, StateInfo(ServerState.STARTING), "SERVER_STARTING", id="asked for the first time"
        ),
        pytest.param(GITHUB, StateInfo(ServerState.STARTING), None, id="asked once more"),
        pytest.param(GITHUB, StateInfo(ServerState.FAILING), "SERVER_CONNECTION_ERROR", id="down"),
        pytest.param(GITHUB, StateInfo(ServerState.DEGRADED), None, id="up, if not well"),
    ],
)
def test_an_answer_that_cannot_speak_for_it_is_told_so(
    part: ServerPart, live: StateInfo | None, code: str | None
) -> None:
    outage = make_server_view(part, live=live).outage

    assert (outage.code if outage else None) == code


@rows(
    ("verdict", "fields", "error"),
    [
        pytest.param(Verdict(), {"problem": BROKEN}, ConfigurationError, id="broken entry"),
        pytest.param(OFF, {"enabled": False}, ServerDisabledError, id="switched off"),
        pytest.param(UNTRUSTED, {}, UntrustedServerError, id="not approved"),
    ],
)
def test_a_server_that_must_not_be_connected_is_refused_with_the_reason(
    verdict: Verdict, fields: dict[str, Any], error: type[DiscoveryError]
) -> None:
    server = make_server_view(make_part("github", verdict=verdict), **fields)

    assert not server.is_connectable
    with pytest.raises(error):
        server.require_connectable()


def test_any_other_server_may_be_connected() -> None:
    server = make_server_view(NEW)

    assert server.is_connectable
    server.require_connectable()
