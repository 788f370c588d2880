"""Events of what others do: entries of the log, requests of agents, notifications of servers."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.call_log.call_log import CallLog
from discovery_engine.config.settings import Settings
from discovery_engine.events import EventBus, ServerNotification
from discovery_engine.redaction.known_secrets import KNOWN_SECRETS
from discovery_engine.runtime.server_record import ServerRecorder
from discovery_engine.tools.model import ServerName
from discovery_server.api import feed_sources
from discovery_server.api.feed_sources import follow_requests
from tests.contract.test_events import hosted, received, until
from tests.engines import Folder, good
from tests.rows import rows
from tests.servers.programs import fault_server

pytestmark = pytest.mark.anyio

SERVER = ServerName("maps")


@pytest.mark.requirement("API-39")
async def test_entries_of_the_log_are_events_without_what_was_sent_and_answered(
    folder: Folder,
) -> None:
    async with hosted(folder) as host:
        await host.engine.execute("good", "echo", {"text": "before"})
        await host.engine.call_log.flush()
        async with host.connect() as socket:
            await received(socket)
            await host.engine.execute("good", "echo", {"text": "s3cr3t-argument"})
            entry = await until(socket, "log_entry")
            while entry["kind"] != "call":
                entry = await until(socket, "log_entry")
            [logged] = (await host.engine.call_log.entries())[-1:]

    assert (entry["server"], entry["tool"], entry["outcome"]) == ("good", "echo", "ok")
    assert entry["id"] == logged.id
    assert {"arguments", "result"}.isdisjoint(entry)
    assert "s3cr3t" not in json.dumps(entry)


@pytest.mark.thorough
@pytest.mark.requirement("API-39")
async def test_what_another_process_writes_is_an_event_too_and_many_entries_are_counted(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_sources, "_MOST_ENTRIES", 3)
    async with hosted(folder) as host, host.connect() as socket:
        await received(socket)
        await host.engine.execute("good", "echo", {"text": "x"})
        await until(socket, "log_entry")
        async with folder.open() as elsewhere:
            await elsewhere.refresh()
            for _ in range(30):
                await elsewhere.execute("good", "echo", {"text": "x"})
        skipped = (await until(socket, "log_entries_skipped"))["count"]

    assert skipped > 0


@pytest.mark.thorough
@pytest.mark.requirement("API-39")
async def test_requests_of_agents_are_events_when_they_are_made_and_decided(
    folder: Folder,
) -> None:
    folder.write(good())
    looks = [anyio.Event(), anyio.Event(), anyio.Event()]
    goes_on = [anyio.Event(), anyio.Event(), anyio.Event()]
    announced: list[JSONObject] = []
    number = iter(range(3))

    async def wanted() -> None:
        at = next(number)
        looks[at].set()
        await goes_on[at].wait()

    async with folder.open() as engine, folder.open() as elsewhere:
        before = await elsewhere.requests.submit("activate", "good", client="cli")
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(follow_requests, engine, announced.append, wanted)
                goes_on[0].set()
                await looks[1].wait()
                entry = {"command": "x", "env": {"A": "s3cr3t"}}
                made = await elsewhere.requests.submit("install", "files", entry, client="cli")
                await elsewhere.requests.decline(before.id, reason="s3cr3t reason")
                goes_on[1].set()
                await looks[2].wait()
                tasks.cancel_scope.cancel()

    assert announced == [
        {
            "type": "request_decided",
            "id": before.id,
            "action": "activate",
            "name": "good",
            "client": "cli",
            "state": "declined",
        },
        {
            "type": "request_made",
            "id": made.id,
            "action": "install",
            "name": "files",
            "client": "cli",
            "state": "waiting",
        },
    ]


@pytest.mark.requirement("API-39")
async def test_changed_lists_of_servers_are_events_of_bounded_number(folder: Folder) -> None:
    server = fault_server("list_changed", name="good")
    async with hosted(folder, server) as host, host.connect() as socket:
        await received(socket)
        await host.engine.execute("good", "echo", {"text": "x"})
        seen = []
        while True:
            frame = await received(socket)
            seen += [one for one in frame["events"] if one["type"] == "server_notification"]
            if any(one["type"] == "tool_called" for one in frame["events"]):
                break

    assert 0 < len(seen) <= 50
    assert {one["method"] for one in seen} == {"notifications/tools/list_changed"}
    assert {one["server"] for one in seen} == {"good"}


@pytest.mark.requirement("API-39")
@rows(
    "data",
    [
        "s3cr3t-of-maps",
        {"a": ["s3cr3t-of-maps"]},
        "x" * 100_000 + "s3cr3t-of-maps",
        "\x1b[31m\u202e",
    ],
)
def test_log_messages_of_servers_are_redacted_cleaned_and_cut(tmp_path: Path, data: object) -> None:
    KNOWN_SECRETS.add(["s3cr3t-of-maps"], ["s3cr3t-of-maps"])
    events = EventBus()
    recorder = ServerRecorder(CallLog(tmp_path, "test", Settings), events)
    with events.subscribe(ServerNotification) as subscription:
        for method in (
            "notifications/message",
            "notifications/progress",
            "notifications/cancelled",
        ):
            recorder.record_message(
                SERVER, method, {"level": "error", "logger": "db", "data": data}
            )
        [event] = subscription.drain()

    assert isinstance(event, ServerNotification)
    assert (event.server, event.level, event.logger) == (SERVER, "error", "maps/db")
    assert len(event.text) <= 1001
    assert "s3cr3t" not in event.text
    assert "\x1b" not in event.text


@pytest.mark.thorough
@pytest.mark.requirement("API-39")
def test_without_anybody_who_follows_nothing_is_made_of_a_message(tmp_path: Path) -> None:
    recorder = ServerRecorder(CallLog(tmp_path, "test", Settings), EventBus())
    deep: object = "x"
    for _ in range(100_000):  # would not be read without an error
        deep = [deep]

    recorder.record_message(SERVER, "notifications/message", {"data": deep})
