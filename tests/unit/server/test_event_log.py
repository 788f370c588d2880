"""What the log of a gateway has of calls and of servers."""

from __future__ import annotations

import logging
from typing import cast

import anyio
import pytest

from discovery_engine.engine import Engine
from discovery_engine.events import (
    Event,
    EventBus,
    ServerConnected,
    ServerConnecting,
    ServerFailed,
    ServerStateChanged,
    ToolCalled,
)
from discovery_engine.tools.model import ServerName, ToolName
from discovery_server.event_log import EventLog, logged
from tests.contract.conftest import folder
from tests.engines import Folder, broken, good
from tests.servers.programs import text_of

__all__ = ["folder"]

GIT = ServerName("git")
DIED = ServerFailed(GIT, "SERVER_CONNECTION_ERROR", "server 'git' is unavailable: it exited")
FAILING = ServerStateChanged(GIT, "failing", "token s3cret")
READY = ServerStateChanged(GIT, "ready", "")
LISTED = ServerConnected(GIT, 3, 1)


class Publishing:
    """What the log needs of an engine."""

    def __init__(self, bus: EventBus) -> None:
        self.subscribe = bus.subscribe


def log(*events: Event, caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Level and words of what is logged of events, from `debug` on."""
    caplog.set_level(logging.DEBUG, "discovery_server.event_log")
    event_log = EventLog(lambda _: "it exited with \u2022\u2022\u2022\u2022", clock=lambda: 1000.0)
    for event in events:
        event_log.log(event)
    return [(record.levelname, record.getMessage()) for record in caplog.records]


@pytest.mark.requirement("SRV-40")
def test_a_call_is_one_line_with_its_outcome(caplog: pytest.LogCaptureFixture) -> None:
    told = log(
        ToolCalled(GIT, ToolName("log"), "ok", 0.25, "0123456789abcdef", 34, 1200),
        ToolCalled(GIT, ToolName("a b\nc"), "TOOL_DISABLED", 0.0),
        ToolCalled(ServerName(""), ToolName("x"), "TOOL_NOT_FOUND", 0.0),
        caplog=caplog,
    )

    assert told == [
        ("INFO", "Call of git:log for 01234567: ok, 0.250 s, 34 characters in, 1200 out"),
        ("INFO", r'Call of "git:a b\nc": TOOL_DISABLED, 0.000 s, 0 characters in, 0 out'),
        ("INFO", "Call of ?:x: TOOL_NOT_FOUND, 0.000 s, 0 characters in, 0 out"),
    ]


@pytest.mark.requirement("SRV-41")
def test_a_failure_is_one_warning_until_the_server_recovers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told = log(FAILING, DIED, DIED, FAILING, READY, LISTED, DIED, LISTED, caplog=caplog)

    hidden = "it exited with \u2022\u2022\u2022\u2022"
    assert [line for line in told if line[0] != "DEBUG"] == [
        ("WARNING", f"git: failing: {hidden}"),
        ("INFO", "git: recovered"),
        ("WARNING", f"git: {DIED.code}: {DIED.message}"),
        ("INFO", "git: recovered"),
    ]
    assert ("DEBUG", "git: 4 tools, 1 of them unusable") in told


@pytest.mark.requirement("SRV-41")
def test_a_server_that_only_connects_has_not_recovered_from_a_list_that_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told = log(DIED, ServerConnecting(GIT), READY, DIED, caplog=caplog)

    assert [level for level, _ in told] == ["WARNING", "DEBUG"]


@pytest.mark.requirement("SRV-41")
def test_a_server_that_flaps_cannot_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "discovery_server.event_log")
    now = [1000.0]
    event_log = EventLog(lambda _: "", clock=lambda: now[0])

    for _ in range(100):
        event_log.log(FAILING)
        event_log.log(READY)
    within = len(caplog.records)
    now[0] += 601.0
    event_log.log(FAILING)

    assert within == 10
    assert caplog.messages[within:] == ["git: 190 more changes of state", "git: failing"]


@pytest.mark.anyio
@pytest.mark.requirement("SRV-40")
async def test_the_log_has_every_call_and_none_of_what_was_said(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "discovery_server.event_log")
    rules = [{"pattern": "pid", "enabled": False}]
    folder.write(good(), broken(good("dead")), toolRules=rules)

    with anyio.fail_after(60):
        async with folder.open() as engine, logged(engine):
            await engine.refresh()
            result = await engine.execute("good", "echo", {"text": "s3cret"})
            for tool in ("pid", "nope"):
                with pytest.raises(Exception, match=tool):
                    await engine.execute("good", tool, {})

    assert "s3cret" in text_of(result)
    lines = caplog.messages
    calls = [line.partition(",")[0] for line in lines if line.startswith("Call")]
    assert calls == [
        "Call of good:echo: ok",
        "Call of good:pid: TOOL_DISABLED",
        "Call of good:nope: TOOL_NOT_FOUND",
    ]
    assert len([line for line in lines if line.startswith("dead: failing: ")]) == 1
    assert "s3cret" not in "".join(lines)


@pytest.mark.anyio
async def test_no_call_wakes_the_log_below_its_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "discovery_server.event_log")
    bus = EventBus()
    async with logged(cast("Engine", Publishing(bus))):
        wanted = [bus.wants(kind) for kind in (ToolCalled, ServerStateChanged)]

    assert wanted == [False, True]
