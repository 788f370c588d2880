"""What was called, and how long it took: the call log and the metrics of an engine."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine import sync
from discovery_engine._util.json import JSONObject
from discovery_engine.call_log.call_log import CallLog
from discovery_engine.call_log.log_database import LogDatabase, Retention
from discovery_engine.call_log.log_entry import EntryKind, LogEntry, LogFilter
from discovery_engine.call_log.log_reader import LogReader
from discovery_engine.call_log.log_tables import CallLogError, Loss
from discovery_engine.call_log.tally import Tally
from discovery_engine.call_log.timeline import timeline
from discovery_engine.config.loading.loader import load_settings
from discovery_engine.config.settings import (
    LogSettings,
    ServerSettings,
    Settings,
    StdioTransport,
)
from discovery_engine.doctor.checks import Check
from discovery_engine.doctor.setup import check_setup
from discovery_engine.errors import DiscoveryError
from discovery_engine.rpc.client import CallbackClient
from discovery_engine.tools.model import ServerName
from tests.engines import Folder, good
from tests.rows import rows
from tests.servers.programs import fault_server

TRACE = "0af7651916cd43dd8448eb211c80319c"
NOW = 1_700_000_000.0
SECRET = "ntn_4f9QzK2mXv8LrT6w"

pytestmark = pytest.mark.anyio


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    folder.write(good())
    return folder


def everything(data: Path) -> bytes:
    """Every byte of the log."""
    return b"".join(file.read_bytes() for file in data.glob("calls.*"))


LONG = "word " * 600
"""No run of one letter: tests of the same process may have made that a secret."""


def log_in(folder: Path, **settings: Any) -> CallLog:
    given = Settings(log=LogSettings(**settings))
    return CallLog(folder, "here", lambda: given, clock=lambda: NOW)


def called(server: str = "git", tool: str = "log", **fields: Any) -> LogEntry:
    return LogEntry(NOW, "call", server, tool, "ok", 0.25, **fields)


@pytest.mark.requirement("LOG-1")
async def test_each_call_is_an_entry_with_who_called_and_how_it_ended(folder: Folder) -> None:
    client = CallbackClient(
        id="0123456789abcdef", meta={"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
    )
    async with folder.open() as engine:
        await engine.execute("good", "echo", {"text": "hello"}, caller=client, by="agent")
        with pytest.raises(DiscoveryError):
            await engine.execute("good", "echo", {"text": 7})
        with pytest.raises(DiscoveryError):
            await engine.execute("good", "no_such_tool", {})
        entries = await engine.call_log.entries()

    first, second, third = entries
    assert (first.kind, first.server, first.tool, first.outcome) == ("call", "good", "echo", "ok")
    assert (first.client, first.by, first.trace_id) == ("01234567", "agent", TRACE)
    assert first.arguments == {"text": "hello"}
    assert first.result["content"][0]["text"] == '{"text": "hello"}'
    assert first.argument_size == 5
    assert first.seconds > first.queue_seconds >= 0
    assert (second.outcome, second.by) == ("INVALID_ARGUMENTS", "program")
    assert second.result["error"]["code"] == "INVALID_ARGUMENTS"
    assert (third.outcome, third.tool) == ("TOOL_NOT_FOUND", "no_such_tool")


@pytest.mark.requirement("LOG-1")
async def test_a_call_that_waits_for_others_has_the_time_of_waiting(folder: Folder) -> None:
    folder.write(good())
    content = json.loads(folder.config.read_text("utf-8"))
    content["servers"]["good"]["limits"] = {"calls": 1}
    folder.config.write_text(json.dumps(content), "utf-8")
    async with folder.open() as engine:
        await engine.execute("good", "echo", {"text": "first"})
        async with anyio.create_task_group() as tasks:
            for number in range(4):
                tasks.start_soon(engine.execute, "good", "echo", {"text": str(number)})
        waited = [entry.queue_seconds for entry in await engine.call_log.entries()]

    assert sum(seconds > 0 for seconds in waited) == 3
    assert all(
        entry.queue_seconds <= entry.seconds for entry in LogReader(folder.data, None).entries()
    )


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("off", None),
        ("metadata", (None, None)),
        ("redacted", ({"text": LONG[:2044] + "… [956 more characters]"}, "cut")),
        ("full", ({"text": LONG}, "whole")),
    ],
)
@pytest.mark.requirement("LOG-2")
async def test_the_mode_decides_what_is_kept_of_a_call(
    folder: Folder, mode: str, expected: Any
) -> None:
    folder.write(good(), log={"calls": mode})
    async with folder.open() as engine:
        await engine.execute("good", "echo", {"text": LONG})
        entries = await engine.call_log.entries()

    if expected is None:
        assert entries == ()
        assert not (folder.data / "calls.db").exists()
        return
    [entry] = entries
    assert (entry.outcome, entry.argument_size) == ("ok", 3000)
    assert entry.arguments == expected[0]
    if expected[1] is None:
        assert entry.result is None
    else:
        assert ("more characters" in json.dumps(entry.result)) == (expected[1] == "cut")


@pytest.mark.requirement("LOG-2")
async def test_nothing_is_written_where_nothing_may_be_stored(folder: Folder) -> None:
    folder.write(good(), cache={"enabled": False})
    async with folder.open() as engine:
        await engine.execute("good", "echo", {"text": "hello"})

    assert not (folder.data / "calls.db").exists()


@pytest.mark.requirement("LOG-2")
def test_an_untrusted_configuration_cannot_have_more_kept(tmp_path: Path) -> None:
    file = tmp_path / "discovery.yaml"
    file.write_text("log: {calls: full, keepDays: 300, maxMib: 9000}\n", "utf-8")
    file.chmod(0o666)  # others may have written it

    log = load_settings(file).log

    assert (log.calls, log.keep_days, log.max_mib) == ("redacted", 30, 64)


@pytest.mark.requirement("LOG-3")
@pytest.mark.requirement("LOG-4")
async def test_no_secret_is_in_any_byte_of_the_file(folder: Folder) -> None:
    server = good()
    assert server.transport
    env = {"SERVICE_TOKEN": SECRET}
    folder.write(replace(server, transport=replace(server.transport, env=env)))
    texts = [
        f"known {SECRET} in a text",
        "x" * (2044 - 12) + SECRET,  # the cut divides it
        "password=hunter22x and more",
        '{"api_key": "abc123def"}',
        "see https://bob:s3cretpw@example.com/x",
        "Authorization: Bearer abcdefgh12345678",
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    ]
    async with folder.open() as engine:
        for text in texts:
            await engine.execute("good", "echo", {"text": text})
        entries = await engine.call_log.entries()

    written = everything(folder.data).decode("utf-8", "replace")
    for trace in (
        SECRET[:9],
        SECRET[-9:],
        "hunter22x",
        "abc123def",
        "s3cretpw",
        "abcdefgh12345678",
    ):
        assert trace not in written
    assert "16C7e42F" not in written
    assert entries[0].arguments == {"text": "known •••• in a text"}
    assert "more characters" in entries[1].arguments["text"]


@pytest.mark.requirement("LOG-3")
async def test_members_named_as_secrets_are_hidden_and_others_stay(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.record(
        called(),
        {
            "password": "x1",
            "apiKey": {"value": "y1"},
            "pin": 1234,
            "key": "PROJ-7",
            "input_tokens": 512,
            "nested": [{"client_secret": "z1", "path": "/tmp/a"}],
        },
    )
    [entry] = await log.entries()
    log.close()

    assert entry.arguments == {
        "password": "••••",
        "apiKey": "••••",
        "pin": "••••",
        "key": "PROJ-7",
        "input_tokens": 512,
        "nested": [{"client_secret": "••••", "path": "/tmp/a"}],
    }


@pytest.mark.requirement("LOG-4")
async def test_a_cut_is_labelled_and_leaves_valid_json(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.record(called(), {"items": [f"item {n}" for n in range(1000)], "rest": 1})
    log.record(called(), {f"name{n}": "value" for n in range(1000)})
    log.record(called(), {"text": "é" * 5000})
    items, members, text = [entry.arguments for entry in await log.entries()]
    log.close()

    assert items["items"][-1] == f"… {1000 - len(items['items']) + 1} more"
    assert members["…"] == f"{1000 - len(members) + 1} more"
    assert text["text"].endswith("more characters]")


@pytest.mark.thorough
@pytest.mark.requirement("LOG-5")
async def test_what_comes_while_too_much_waits_is_dropped_and_counted(tmp_path: Path) -> None:
    def kept() -> int:
        return sum(1 for _ in LogReader(tmp_path, "here").all())

    log = log_in(tmp_path)
    held = held_lock(tmp_path)
    log.record(called())
    for _ in range(30_000):
        log.record(called())
    dropped = log.dropped
    held.close()
    with anyio.fail_after(120):
        while kept() + log.dropped < 30_001:
            await log.flush()
    log.close()

    assert dropped > 0
    assert kept() + log.dropped == 30_001


def held_lock(folder: Path) -> Any:
    """Another process's turn to write, until it is closed."""
    from discovery_engine._util.file_lock import lock_file

    folder.mkdir(exist_ok=True)
    file = (folder / "calls.lock").open("w")
    lock_file(file.fileno())
    return file


def damage(path: Path) -> None:
    path.write_bytes(b"this is no database at all, and never was" * 100)


def forbid(path: Path) -> None:
    path.mkdir()


def remove(folder: Path) -> None:
    for file in folder.glob("calls.db*"):
        file.unlink()


@pytest.mark.parametrize("harm", [damage, forbid])
@pytest.mark.requirement("LOG-6")
async def test_a_file_that_cannot_be_used_costs_the_log_only(
    folder: Folder, harm: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    folder.data.mkdir()
    harm(folder.data / "calls.db")
    async with folder.open() as engine:
        result = await engine.execute("good", "echo", {"text": "hello"})
        await engine.call_log.flush()
        await engine.execute("good", "echo", {"text": "again"})

    assert result["content"][0]["text"] == '{"text": "hello"}'
    warnings = [line for line in caplog.messages if "call log" in line]
    assert len(warnings) == 1
    if harm is damage:
        assert (folder.data / "calls.db.damaged").exists()
        assert len(LogReader(folder.data, None).entries()) == 2


@pytest.mark.requirement("LOG-6")
async def test_a_damaged_file_is_an_error_to_readers(tmp_path: Path) -> None:
    damage(tmp_path / "calls.db")

    with pytest.raises(CallLogError) as raised:
        await log_in(tmp_path).entries()

    assert raised.value.code == "CALL_LOG_ERROR"
    assert "sets a damaged file aside" in raised.value.hint


@pytest.mark.requirement("LOG-7")
async def test_the_last_entries_are_written_when_the_engine_closes(folder: Folder) -> None:
    async with folder.open() as engine:
        await engine.execute("good", "echo", {"text": "hello"})

    [entry] = LogReader(folder.data, None).entries()
    assert entry.tool == "echo"


WRITER = """
import sys
import time
from pathlib import Path
from discovery_engine.call_log.call_log import CallLog
from discovery_engine.call_log.log_entry import LogEntry
from discovery_engine.config.settings import Settings

settings = Settings()
log = CallLog(Path(sys.argv[1]), "here", lambda: settings)
for number in range(500):
    log.record(LogEntry(time.time(), "call", sys.argv[2], "t", "ok", 0.1), {"number": number})
    if number % 50 == 0:
        assert log._writer.flush(30)
log._writer.close(30)
"""


@pytest.mark.requirement("LOG-8")
def test_several_processes_write_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    processes = [subprocess.Popen([*command, name]) for name in ("a", "b", "c")]
    assert [process.wait(100) for process in processes] == [0, 0, 0]

    entries = list(LogReader(tmp_path, "here").all())
    for name in ("a", "b", "c"):
        numbers = [entry.arguments["number"] for entry in entries if entry.server == name]
        assert numbers == list(range(500))
    metrics = LogReader(tmp_path, "here").metrics()
    assert [one.total.calls for one in metrics] == [500, 500, 500]


@pytest.mark.requirement("LOG-9")
def test_entries_that_are_too_old_or_too_many_are_deleted_in_steps(tmp_path: Path) -> None:
    from discovery_engine.call_log.log_database import LogDatabase

    database = LogDatabase(tmp_path, "here")
    now = NOW
    day = 86_400.0
    for age in (40, 20):
        rows = [
            (
                now - age * day,
                "call",
                "s",
                "t",
                "ok",
                0.1,
                0.0,
                1,
                1,
                "",
                "",
                "agent",
                "",
                "{}",
                None,
            )
            for _ in range(700)
        ]
        database.write(rows, {}, now=now)
    assert database.prune(Retention(), at_most=500, now=now)
    assert not database.prune(Retention(), at_most=500, now=now)
    assert len(list(LogReader(tmp_path, "here").all())) == 700

    big = [
        (now, "call", "s", "t", "ok", 0.1, 0.0, 1, 1, "", "", "agent", "", f'"{"x" * 2000}"', None)
        for _ in range(3000)
    ]
    database.write(big, {}, now=now)
    steps = 1
    while database.prune(Retention(mib=2), at_most=500, now=now):
        steps += 1
    while database.shrink():
        pass
    database.close()
    assert steps > 3
    kept = len(list(LogReader(tmp_path, "here").all()))
    assert 100 < kept < 1500
    assert (tmp_path / "calls.db").stat().st_size <= 3 * 1024 * 1024


@pytest.mark.requirement("LOG-10")
async def test_readers_see_the_entries_of_their_own_configuration(
    folder: Folder, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = Folder(tmp_path / "other")
    other.write(good("another"))
    async with folder.open() as engine:
        await engine.execute("good", "echo", {"text": "hello"})
    async with other.open() as engine:
        await engine.execute("another", "echo", {"text": "hello"})
    async with sharing(folder, other) as engine:
        await engine.execute("another", "echo", {"text": "in the folder of the first"})
        own = [entry.server for entry in await engine.call_log.entries()]

    assert own == ["another"]
    assert len(LogReader(folder.data, None).entries()) == 2


def sharing(folder: Folder, other: Folder) -> Any:
    from discovery_engine.engine import open_engine

    return open_engine(other.config, data_dir=folder.data)


@pytest.mark.requirement("MTR-1")
async def test_metrics_count_calls_of_servers_and_tools(folder: Folder) -> None:
    async with folder.open() as engine:
        for text in ("one", "two"):
            await engine.execute("good", "echo", {"text": text})
        await engine.execute("good", "pid", {})
        with pytest.raises(DiscoveryError):
            await engine.execute("good", "echo", {"text": 7})
        with pytest.raises(DiscoveryError):
            await engine.execute("nowhere", "at-all-1", {})
        [unknown, server] = await engine.metrics()
        await engine.call_log.clear()
        [cleared] = await engine.metrics("good")

    assert (unknown.total.server, unknown.tools[0].tool, unknown.total.errors) == ("", "", 1)
    assert (server.total.calls, server.total.errors) == (4, 1)
    assert [(one.tool, one.calls, one.errors) for one in server.tools] == [
        ("echo", 3, 1),
        ("pid", 1, 0),
    ]
    echo = server.tools[0]
    assert echo.p50_seconds is not None
    assert echo.p95_seconds is not None
    assert 0 < echo.p50_seconds <= echo.p95_seconds
    assert echo.since is not None
    assert echo.last_called_at is not None
    assert echo.since <= echo.last_called_at
    assert cleared == server


@pytest.mark.requirement("MTR-2")
async def test_a_cancelled_call_is_no_error_and_a_task_counts_at_its_end(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    for outcome in ("cancelled", "task", "ok", "tool_error"):
        log.record(replace(called(), outcome=outcome))
    [server] = await log.metrics()
    log.close()

    assert (server.total.calls, server.total.errors) == (3, 1)


@pytest.mark.requirement("MTR-3")
async def test_errors_can_be_reset(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    for server in ("a", "b"):
        log.record(replace(called(server), outcome="tool_error", at=NOW - 60))
    await log.reset_errors("a")
    reset, other = await log.metrics()
    await log.reset_errors()
    *_, last = await log.metrics()
    log.close()

    assert (reset.total.errors, reset.total.calls) == (0, 1)
    assert (other.total.errors, last.total.errors) == (1, 0)
    assert reset.total.errors_since != reset.total.since


@pytest.mark.requirement("LOG-20")
async def test_entries_are_read_in_pages_and_filtered(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    for number in range(30):
        server = "git" if number % 2 else "files"
        outcome = "ok" if number % 3 else "UPSTREAM_TIMEOUT"
        entry = replace(called(server), outcome=outcome, at=NOW + number)
        log.record(entry, {"number": f"No. {number}"})
    last = await log.entries(limit=10)
    before = await log.entries(limit=10, before=last[0].id)

    async def numbers(**chosen: Any) -> list[float]:
        return [entry.at - NOW for entry in await log.entries(LogFilter(**chosen))]

    assert [entry.at - NOW for entry in (*before, *last)] == [float(n) for n in range(10, 30)]
    assert await numbers(servers=("git",), statuses=("error",)) == [3, 9, 15, 21, 27]
    assert await numbers(statuses=("UPSTREAM_TIMEOUT",), since=NOW + 24, until=NOW + 27) == [24, 27]
    assert await numbers(tools=("git:log",), text="no. 1", statuses=("ok",)) == [1, 11, 13, 17, 19]
    assert await numbers(kinds=("stderr",)) == []
    assert await numbers(text="%' OR 1=1 --") == []
    log.close()


@pytest.mark.requirement("LOG-20")
async def test_a_follower_gets_what_another_process_writes(tmp_path: Path) -> None:
    mine, other = log_in(tmp_path), log_in(tmp_path)
    mine.record(called(tool="before"))
    await mine.flush()
    following = mine.follow(after=mine.reader.last_id())
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            found: list[LogEntry] = []

            async def follow() -> None:
                async for entry in following:
                    found.append(entry)
                    if len(found) == 2:
                        tasks.cancel_scope.cancel()

            tasks.start_soon(follow)
            other.record(called(tool="one"))
            await other.flush()
            other.record(called(tool="two"))
            await other.flush()
    mine.close()
    other.close()

    assert [entry.tool for entry in found] == ["one", "two"]


@pytest.mark.requirement("LOG-20")
async def test_nothing_is_left_of_cleared_entries(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    for number in range(50):
        log.record(called(), {"text": f"a confidential line {number}"})
    cleared = await log.clear()
    log.close()

    written = everything(tmp_path)
    assert cleared == 50
    assert b"confidential" not in written


@pytest.mark.requirement("LOG-20")
def test_the_engine_without_async_has_the_log_and_the_metrics(folder: Folder) -> None:
    with sync.open_engine(folder.config, data_dir=folder.data) as engine:
        engine.execute("good", "echo", {"text": "hello"})
        [entry] = engine.call_log.entries()
        [server] = engine.metrics()
        form = json.loads(engine.call_log.export(form="ndjson"))
        engine.reset_errors()
        cleared = engine.call_log.clear()

    assert (entry.tool, server.total.calls, form["tool"], cleared) == ("echo", 1, "echo", 1)


def kinds_of(entries: Iterable[LogEntry], *kinds: str) -> list[tuple[str, str, str]]:
    return [(one.kind, one.tool, one.outcome) for one in entries if one.kind in kinds]


async def answered(method: str, _: JSONObject) -> JSONObject:
    if method == "elicitation/create":
        return {"action": "accept", "content": {"name": "Ann Secretive"}}
    if method == "roots/list":
        return {"roots": []}
    return {"role": "assistant", "model": "m", "content": {"type": "text", "text": "a sample"}}


@pytest.mark.requirement("LOG-14")
async def test_questions_of_a_server_and_its_pings_are_entries(folder: Folder) -> None:
    folder.write(fault_server("asks_back", name="fault"))
    client = CallbackClient(
        answered, id="c1", capabilities={"elicitation": {"form": {}}, "sampling": {}, "roots": {}}
    )
    async with folder.open() as engine:
        await engine.execute("fault", "echo", {}, caller=client, by="agent")
        entries = await engine.call_log.entries()

    assert sorted(kinds_of(entries, "question", "ping")) == [
        ("ping", "ping", "ok"),
        ("question", "elicitation/create", "ok"),
        ("question", "roots/list", "ok"),
        ("question", "sampling/createMessage", "ok"),
    ]
    elicited = next(one for one in entries if one.tool == "elicitation/create")
    assert elicited.result == {"action": "accept", "content": {"name": "••••"}}
    assert (elicited.client, elicited.by) == ("c1", "agent")


@pytest.mark.requirement("LOG-14")
async def test_progress_and_notifications_of_a_server_are_entries(folder: Folder) -> None:
    folder.write(fault_server("progress", name="steps"), fault_server("list_changed", name="news"))
    told: list[float] = []

    async def on_progress(done: float, _: float | None, __: str | None) -> None:
        told.append(done)

    async with folder.open() as engine:
        await engine.execute("steps", "echo", {}, on_progress=on_progress)
        await engine.execute("news", "echo", {})
        await eventually_logged(engine.call_log, "notification", 51)
        entries = await engine.call_log.entries(limit=1000)

    assert told == [1, 2, 3]
    progress = [one for one in entries if one.kind == "progress"]
    assert [one.result["progress"] for one in progress] == [1, 2, 3]
    assert {one.tool for one in progress} == {"echo"}
    [logged] = [one for one in entries if one.tool == "notifications/message"]
    assert (logged.server, logged.result) == ("steps", "warning: steps: all done, password=••••")
    notified = [one for one in kinds_of(entries, "notification") if one[1] != logged.tool]
    assert notified == [("notification", "notifications/tools/list_changed", "")] * 50


async def eventually_logged(log: CallLog, kind: EntryKind, count: int) -> None:
    """Return once there are so many entries of a kind."""
    with anyio.fail_after(60):
        async for _ in log.follow(LogFilter(kinds=(kind,)), after=0):
            count -= 1
            if not count:
                return


@pytest.mark.requirement("LOG-14")
async def test_lines_of_stderr_are_entries_without_secrets_and_bounded(folder: Folder) -> None:
    script = (
        "import os, sys\n"
        "os.write(2, b'Traceback:\\n  in main\\nKeyError\\n')\n"
        "print('starting with', os.environ['SERVICE_TOKEN'], file=sys.stderr)\n"
        "for n in range(500): print('line', n, file=sys.stderr)\n"
    )
    server = ServerSettings(
        ServerName("noisy"),
        StdioTransport(sys.executable, ("-I", "-c", script), {"SERVICE_TOKEN": SECRET}),
    )
    folder.write(server)
    async with folder.open() as engine:
        await engine.refresh()
        texts: list[str] = []
        with anyio.fail_after(60):
            async for entry in engine.call_log.follow(LogFilter(kinds=("stderr",)), after=0):
                texts.append(str(entry.result))
                if "line 45" in texts[-1]:
                    break
        entries = await engine.call_log.entries(LogFilter(kinds=("stderr",)), limit=1000)

    assert texts[0].startswith("Traceback:\n  in main\nKeyError")
    assert "\n".join(texts).splitlines()[3] == "starting with ••••"
    assert sum(len(str(one.result).splitlines()) for one in entries) == 50
    assert SECRET.encode() not in everything(folder.data)


FULL = """
import json, logging, resource, sys, time
from pathlib import Path
from discovery_engine.call_log.log_database import LogDatabase, Retention
from discovery_engine.call_log.log_entry import LogEntry
from discovery_engine.call_log.log_reader import LogReader
from discovery_engine.call_log.log_writer import LogWriter, PendingEntry

logging.basicConfig(format="%(message)s")
folder = Path(sys.argv[1])
writer = LogWriter(LogDatabase(folder, "here"), Retention, retry=0.0)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]

def record(text):
    entry = LogEntry(time.time(), "call", "s", "t", "ok", 0.1)
    writer.add(PendingEntry(entry, result=text, texts=[text]))
    assert writer.flush(30)

record("before")
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
for number in range(100):
    record("x" * 10_000)
full = writer.dropped
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
record("after")
record("at the end")
writer.close(30)
reader = LogReader(folder, "here")
losses = reader.losses()
kept = [entry.result for entry in reader.all()]
print(json.dumps([full, writer.dropped, sum(one.entries for one in losses), kept[0], kept[-1],
    losses[-1].reason, len(kept)]))
"""


@pytest.mark.requirement("LOG-6")
def test_a_full_disk_costs_entries_which_are_counted(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )

    full, dropped, lost, first, last, reason, kept = json.loads(done.stdout)
    assert 0 < full == dropped == lost
    assert (first, last) == ("before", "at the end")
    assert kept == 103 - dropped
    assert "cannot be used" in reason
    assert len(done.stderr.splitlines()) == 1  # one warning, however many were lost


@pytest.mark.requirement("LOG-6")
async def test_doctor_reports_a_log_that_cannot_be_used_and_entries_that_were_lost(
    folder: Folder, tmp_path: Path
) -> None:
    async def checked() -> Check:
        async with folder.open() as engine:
            view, servers = engine.view, await engine.health()
            found = await check_setup(view, servers, environ={}, now=NOW, data_dir=folder.data)
        return next(one for one in found if one.subject == "call log")

    assert "nothing was called" in (await checked()).message
    log = log_in(folder.data)
    log.record(called())
    log.close()
    assert (await checked()).level == "good"
    database = LogDatabase(folder.data, "here")
    database.write([], {}, [Loss(NOW - 60, 7, "the disk is full")], now=NOW)
    database.close()
    lossy = await checked()
    assert (lossy.code, lossy.level) == ("CALL_LOG_LOSSES", "note")
    assert "7 entries could not be written: the disk is full" in lossy.message
    damage(folder.data / "calls.db")
    assert (await checked()).code == "CALL_LOG_ERROR"


@pytest.mark.requirement("LOG-6")
def test_a_log_of_a_newer_version_is_left_as_it_is(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "calls.db") as newer:
        newer.execute("PRAGMA user_version = 99")
        newer.execute("CREATE TABLE entries (other)")
    log = log_in(tmp_path)
    log.record(called())
    log.close()

    with sqlite3.connect(tmp_path / "calls.db") as kept:
        assert kept.execute("PRAGMA user_version").fetchone() == (99,)
    assert log.dropped == 1


@pytest.mark.requirement("LOG-6")
async def test_a_file_that_is_removed_while_it_is_written_is_begun_anew(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.record(called(tool="first"))
    await log.flush()
    remove(tmp_path)
    log.record(called(tool="second"))
    entries = await log.entries()
    log.close()

    assert [entry.tool for entry in entries] == ["second"]


@rows(
    "value",
    [
        {"nul": "a\0b", "surrogate": "\ud83d", "nan": float("nan"), "big": 10**30},
        {"bytes": b"raw", "set": {1, 2}, 7: "a key that is no text"},
        {"deep": [[[[[[[[[[[[[[[[[[[[[[[["end"]]]]]]]]]]]]]]]]]]]]]]]]},
        "text alone",
        [1, 2.5, None, True],
    ],
)
@pytest.mark.requirement("LOG-4")
async def test_whatever_a_program_passes_is_kept_as_valid_json(tmp_path: Path, value: Any) -> None:
    log = log_in(tmp_path)
    log.record(called(), value, value)
    [entry] = await log.entries()
    exported = await log.export(form="ndjson")
    csv = await log.export(form="csv")
    log.close()

    assert entry.arguments is not None
    assert json.loads(exported)["id"] == entry.id
    assert len(csv.splitlines()) >= 2
    assert log.dropped == 0


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.record(called())
    assert log._writer.flush(30)
    modes = {file.name: file.stat().st_mode & 0o077 for file in tmp_path.glob("calls.*")}
    log.close()

    assert set(modes.values()) == {0}
    assert {"calls.db", "calls.db-wal", "calls.lock"} <= modes.keys()


@pytest.mark.requirement("LOG-3")
async def test_what_the_owner_gives_to_arguments_by_references_is_not_in_the_log(
    folder: Folder,
) -> None:
    given = {"arguments": {"text": "with ${API_TOKEN}"}}
    folder.write(good(), overrides=[{"pattern": "good:echo", **given}])
    environ = {"PATH": os.environ["PATH"], "API_TOKEN": SECRET}
    async with folder.open(environ=environ) as engine:
        result = await engine.execute("good", "echo", {})
        [entry] = await engine.call_log.entries()

    assert SECRET in result["content"][0]["text"]  # the server repeats it
    assert entry.arguments == {}
    assert SECRET.encode() not in everything(folder.data)


@pytest.mark.requirement("LOG-9")
def test_the_log_stays_within_its_size_while_it_is_written(tmp_path: Path) -> None:
    settings = Settings(log=LogSettings(max_mib=1))
    log = CallLog(tmp_path, "here", lambda: settings, clock=lambda: NOW)
    for number in range(4_000):
        log.record(called(), {"text": f"{number} {LONG[:1500]}"})
        if number % 200 == 0:
            assert log._writer.flush(60)
    assert log._writer.flush(60)
    log.record(called(), {"text": "the last"})  # what is left of pruning is done beside it
    assert log._writer.flush(60)
    log.close()

    kept = list(LogReader(tmp_path, "here").all())
    assert kept[-1].arguments == {"text": "the last"}
    assert 100 < len(kept) < 2_500
    [metrics] = LogReader(tmp_path, "here").metrics()
    assert metrics.total.calls == 4_001 - log.dropped
    assert (tmp_path / "calls.db").stat().st_size < 4 * 1024 * 1024


@pytest.mark.requirement("MTR-1")
def test_tools_that_were_not_called_for_a_year_are_forgotten(tmp_path: Path) -> None:
    database = LogDatabase(tmp_path, "here")
    for tool, at in (("old", NOW - 400 * 86_400.0), ("new", NOW - 86_400.0)):
        tally = Tally()
        tally.count("ok", 0.1, 0.0, at)
        database.write([], {("git", tool): tally}, now=NOW)
    database.forget_tools(now=NOW)
    database.close()

    [server] = LogReader(tmp_path, "here").metrics()
    assert [tool.tool for tool in server.tools] == ["new"]


@pytest.mark.requirement("LOG-6")
async def test_an_entry_that_cannot_be_stored_costs_no_other_one(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.record(called(tool="first"))
    log.record(replace(called(tool="half a \ud83d pair"), client="\udc00"))
    log.record(called(tool=7))  # type: ignore[arg-type]
    log.record(called(tool="last"), result={"text": "\ud83d"})
    entries = await log.entries()
    log.close()

    assert [one.tool for one in entries] == ["first", "half a ? pair", "last"]
    assert log.dropped == 1


def tally_of(*calls: tuple[str, float]) -> Tally:
    tally = Tally()
    for outcome, seconds in calls:
        tally.count(outcome, seconds, 0.0, NOW)
    return tally


MOMENTS = st.lists(st.tuples(st.floats(-50.0, 250.0), st.sampled_from(["ok", "tool_error"])))


@given(MOMENTS, st.floats(0.7, 100.0))
@pytest.mark.requirement("MTR-20")
def test_every_call_within_a_timeline_is_in_exactly_one_span(
    moments: list[tuple[float, str]], step: float
) -> None:
    counts = [(at, tally_of((outcome, 0.1))) for at, outcome in moments]

    found = timeline(counts, since=0.0, until=200.0, step=step)

    within = [(at, outcome) for at, outcome in moments if 0.0 <= at < 200.0]
    assert sum(span.calls for span in found.spans) == found.total.calls == len(within)
    errors = sum(outcome == "tool_error" for _, outcome in within)
    assert sum(span.errors for span in found.spans) == found.total.errors == errors
    ends = [span.at for span in found.spans[1:]] + [math.inf]
    for span, end in zip(found.spans, ends, strict=True):
        # A call may lie at the seam of two spans within the rounding of a float.
        inner = [at for at, _ in within if span.at + 1e-9 < at < end - 1e-9]
        outer = [at for at, _ in within if span.at - 1e-9 <= at <= end + 1e-9]
        assert len(inner) <= span.calls <= len(outer)


@pytest.mark.requirement("MTR-20")
def test_a_timeline_has_a_span_for_every_step_and_says_so_if_there_are_too_many() -> None:
    found = timeline([(119.0, tally_of(("ok", 2.0)))], since=0.0, until=150.0, step=60.0)

    assert [(span.at, span.calls) for span in found.spans] == [(0.0, 0), (60.0, 1), (120.0, 0)]
    assert found.spans[0].p50_seconds is None
    assert found.spans[1].p50_seconds == pytest.approx(2.0, rel=0.07)
    for until, step in ((86_401.0, 60.0), (0.0, 60.0), (10.0, 0.0)):
        with pytest.raises(ValueError, match="1 to 1,440 spans"):
            timeline([], since=0.0, until=until, step=step)


@pytest.mark.requirement("MTR-20")
def test_a_file_without_counts_by_the_minute_gets_them_and_old_ones_are_deleted(
    tmp_path: Path,
) -> None:
    log = log_in(tmp_path)
    log.record(LogEntry(NOW - 9 * 86_400, "call", "s", "t", "ok", 0.1))
    log.close()
    with closing(sqlite3.connect(tmp_path / "calls.db")) as db, db:
        db.execute("DROP TABLE minute_counts")
    reader = LogReader(tmp_path, None)
    assert reader.timeline(NOW - 3600, NOW + 60, 60).total.calls == 0

    again = log_in(tmp_path)
    again.record(LogEntry(NOW - 9 * 86_400, "call", "s", "t", "ok", 0.1))
    again.record(LogEntry(NOW, "call", "s", "t", "ok", 0.1))
    again.close()
    database = LogDatabase(tmp_path, "here")
    assert reader.timeline(NOW - 864_000, NOW + 60, 3600).total.calls == 2
    database.prune(Retention(), at_most=10, now=NOW)
    database.close()
    assert reader.timeline(NOW - 864_000, NOW + 60, 3600).total.calls == 1


@pytest.mark.requirement("MTR-20")
async def test_the_timeline_has_calls_of_the_server_that_is_asked_for(folder: Folder) -> None:
    folder.write(good(), good("other"))
    async with folder.open() as engine:
        await engine.refresh()
        await engine.execute("good", "echo", {"text": "hello"})
        await engine.execute("other", "echo", {"text": "hello"})
        now = engine.call_log.now()
        every = await engine.call_log.timeline(since=now - 600, until=now + 600, step=60)
        one = await engine.call_log.timeline(since=now - 600, until=now + 600, server="good")

        await engine.call_log.clear()
        kept = await engine.call_log.timeline(since=now - 600, until=now + 600)

        recent = await engine.call_log.recent_timeline(600, step=120, server="good")
        with pytest.raises(ValueError, match="positive"):
            await engine.call_log.recent_timeline(600, step=0)

    assert (recent.total.calls, len(recent.spans)) == (1, 5)
    assert all(span.at % 120 == 0 for span in recent.spans)
    assert (every.total.calls, one.total.calls, kept.total.calls) == (2, 1, 2)
    assert len(every.spans) == len(one.spans) == 20


SECONDS = st.lists(st.floats(0.0, 800.0), min_size=1, max_size=60)


@given(SECONDS, SECONDS)
@example([1.4001], [1.5999])
@example([0.0], [141.0, 161.0, 161.0])
@pytest.mark.requirement("MTR-1")
def test_quantiles_are_close_and_two_tallies_add_up(one: list[float], other: list[float]) -> None:
    first, second, both = Tally(), Tally(), Tally()
    for tally, durations in ((first, one), (second, other), (both, one + other)):
        for seconds in durations:
            tally.count("ok", seconds, 0.0, NOW)
    first.add(second)

    assert (first.buckets, first.calls) == (both.buckets, both.calls)
    ordered = sorted(one + other)
    for share in (0.5, 0.95):
        exact = ordered[max(0, math.ceil(share * len(ordered)) - 1)]
        found = both.quantile(share)
        assert found is not None
        assert exact * 0.93 - 1e-4 <= found <= exact * 1.07 + 1e-4
