"""What the log of a gateway has of calls and of servers."""

from __future__ import annotations

import logging

import pytest

from discovery_engine.events import (
    Event,
    ServerConnected,
    ServerFailed,
    ServerStateChanged,
    ToolCalled,
)
from discovery_engine.tools.model import ServerName, ToolName
from discovery_server.event_log import EventLog

GIT = ServerName("git")
DIED = ServerFailed(GIT, "SERVER_CONNECTION_ERROR", "server 'git' is unavailable: it exited")
FAILING = ServerStateChanged(GIT, "failing", "token s3cret")
READY = ServerStateChanged(GIT, "ready", "")
LISTED = ServerConnected(GIT, 3, 1)
CALLED = ToolCalled(GIT, ToolName("x\nINFO forged"), "ok", 0.5, "client-1234", 3, 4)


def log(*events: Event, caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Level and words of what is logged of events, from `debug` on."""
    caplog.set_level(logging.DEBUG, "discovery_server.event_log")
    event_log = EventLog(lambda _: "it exited with \u2022\u2022\u2022\u2022", clock=lambda: 1000.0)
    event_log.log(*events)
    return [(record.levelname, record.getMessage()) for record in caplog.records]


@pytest.mark.requirement("SRV-5")
def test_a_failure_is_one_warning_until_the_server_recovers_and_calls_are_a_line_each(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events = FAILING, DIED, DIED, FAILING, READY, LISTED, DIED, LISTED, CALLED, CALLED
    told = log(*events, caplog=caplog)
    call = r'Call of "git:x\nINFO forged" for client-1: ok, 0.500 s, 3 characters in, 4 out'

    assert [line for line in told if line[0] != "DEBUG"] == [
        ("WARNING", "git: failing: it exited with \u2022\u2022\u2022\u2022"),
        ("INFO", "git: recovered"),
        ("WARNING", f"git: {DIED.code}: {DIED.message}"),
        ("INFO", "git: recovered"),
        ("INFO", f"{call}\n{call}"),
    ]
    assert ("DEBUG", "git: 4 tools, 1 of them unusable") in told


@pytest.mark.requirement("SRV-5")
def test_a_server_that_flaps_cannot_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "discovery_server.event_log")
    now = [1000.0]
    event_log = EventLog(lambda _: "", clock=lambda: now[0])

    for _ in range(100):
        event_log.log(FAILING, READY)
    within = len(caplog.records)
    now[0] += 601.0
    event_log.log(FAILING)

    assert within == 10
    assert caplog.messages[within:] == ["git: 190 more changes of state", "git: failing"]
