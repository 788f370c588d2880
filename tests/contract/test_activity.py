"""What was called, and how long it took: the call log and the metrics of an engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import anyio
import pytest

from discovery_engine import (
    CallbackClient,
    DiscoveryError,
    Engine,
    LogFilter,
    load_settings,
    open_engine,
    sync,
)
from tests.engines import Folder, good, program
from tests.servers.programs import fault_server

TRACE = "0af7651916cd43dd8448eb211c80319c"
SECRET = "ntn_4f9QzK2mXv8LrT6w"
LONG = "word " * 600
"""No run of one letter: tests of the same process may have made that a secret."""

pytestmark = pytest.mark.anyio


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    folder.write(good())
    return folder


def everything(data: Path) -> bytes:
    """Every byte of the log."""
    return b"".join(file.read_bytes() for file in data.glob("calls.*"))


async def say(engine: Engine, *texts: str, server: str = "good") -> None:
    for text in texts:
        await engine.execute(server, "echo", {"text": text})


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


def kinds_of(entries: Iterable[Any], *kinds: str) -> list[tuple[str, str, str]]:
    return [(one.kind, one.tool, one.outcome) for one in entries if one.kind in kinds]


async def answered(method: str, _: dict[str, Any]) -> dict[str, Any]:
    if method == "elicitation/create":
        return {"action": "accept", "content": {"name": "Ann Secretive"}}
    if method == "roots/list":
        return {"roots": []}
    return {"role": "assistant", "model": "m", "content": {"type": "text", "text": "a sample"}}


@pytest.mark.requirement("LOG-1")
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


@pytest.mark.requirement("LOG-1")
async def test_progress_and_notifications_of_a_server_are_entries(folder: Folder) -> None:
    folder.write(fault_server("progress", name="steps"), fault_server("list_changed", name="news"))
    told: list[float] = []

    async def on_progress(done: float, _: float | None, __: str | None) -> None:
        told.append(done)

    async with folder.open() as engine:
        await engine.execute("steps", "echo", {}, on_progress=on_progress)
        await engine.execute("news", "echo", {})
        await eventually_logged(engine, "notification", 51)
        entries = await engine.call_log.entries(limit=1000)

    assert told == [1, 2, 3]
    progress = [one for one in entries if one.kind == "progress"]
    assert [one.result["progress"] for one in progress] == [1, 2, 3]
    assert {one.tool for one in progress} == {"echo"}
    [logged] = [one for one in entries if one.tool == "notifications/message"]
    assert (logged.server, logged.result) == ("steps", "warning: steps: all done, password=••••")
    notified = [one for one in kinds_of(entries, "notification") if one[1] != logged.tool]
    assert notified == [("notification", "notifications/tools/list_changed", "")] * 50


async def eventually_logged(engine: Engine, kind: Any, count: int) -> None:
    """Return once there are so many entries of a kind."""
    with anyio.fail_after(60):
        async for _ in engine.call_log.follow(LogFilter(kinds=(kind,)), after=0):
            count -= 1
            if not count:
                return


@pytest.mark.requirement("LOG-1")
async def test_lines_of_stderr_are_entries_without_secrets_and_bounded(folder: Folder) -> None:
    script = (
        "import os, sys\n"
        "os.write(2, b'Traceback:\\n  in main\\nKeyError\\n')\n"
        "print('starting with', sys.argv[-1], file=sys.stderr)\n"
        "for n in range(500): print('line', n, file=sys.stderr)\n"
    )
    folder.write(program("noisy", sys.executable, "-I", "-c", script, "--token", SECRET))
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
def test_an_untrusted_configuration_cannot_have_more_kept(tmp_path: Path) -> None:
    file = tmp_path / "discovery.yaml"
    file.write_text("log: {calls: full, keepDays: 300, maxMib: 9000}\n", "utf-8")
    file.chmod(0o666)  # others may have written it

    log = load_settings(file).log

    assert (log.calls, log.keep_days, log.max_mib) == ("redacted", 30, 64)


@pytest.mark.requirement("LOG-3")
async def test_no_secret_is_in_any_byte_of_the_file(folder: Folder) -> None:
    folder.write(good(env={"SERVICE_TOKEN": SECRET}))
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
        await say(engine, *texts)
        with pytest.raises(DiscoveryError):
            await engine.execute("good", "echo", {"apiKey": {"value": "y1y1y1"}, "text": 7})
        entries = await engine.call_log.entries()

        modes = {file.stat().st_mode & 0o077 for file in folder.data.glob("calls.*")}

    written = everything(folder.data).decode("utf-8", "replace")
    assert modes == {0}
    for trace in (
        SECRET[:9],
        SECRET[-9:],
        "hunter22x",
        "abc123def",
        "s3cretpw",
        "abcdefgh12345678",
        "y1y1y1",
    ):
        assert trace not in written
    assert "16C7e42F" not in written
    assert entries[0].arguments == {"text": "known •••• in a text"}
    assert "more characters" in entries[1].arguments["text"]


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


def damage(path: Path) -> None:
    path.write_bytes(b"this is no database at all, and never was" * 100)


def forbid(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("harm", [damage, forbid])
@pytest.mark.requirement("LOG-6")
async def test_a_file_that_cannot_be_used_costs_the_log_only(
    folder: Folder, harm: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    folder.data.mkdir()
    harm(folder.data / "calls.db")
    async with folder.open() as engine:
        if harm is damage:
            with pytest.raises(DiscoveryError) as refused:
                await engine.call_log.entries()
            assert refused.value.code == "CALL_LOG_ERROR"
        result = await engine.execute("good", "echo", {"text": "hello"})
        await engine.call_log.flush()
        await engine.execute("good", "echo", {"text": "again"})

    assert result["content"][0]["text"] == '{"text": "hello"}'
    warnings = [line for line in caplog.messages if "call log" in line]
    assert len(warnings) == 1
    if harm is damage:
        assert (folder.data / "calls.db.damaged").exists()
        async with folder.open() as engine:
            assert len(await engine.call_log.entries()) == 2


WRITER = """
import sys

from discovery_engine.sync import open_engine

with open_engine("discovery.yaml", data_dir="data") as engine:
    for number in range(30):
        engine.execute("good", "echo", {"text": f"{sys.argv[1]} {number}"})
"""


@pytest.mark.requirement("LOG-8")
def test_several_processes_write_at_once_and_nothing_is_lost(folder: Folder) -> None:
    command = [sys.executable, "-c", WRITER]
    writers = [subprocess.Popen([*command, name], cwd=folder.path) for name in "abc"]
    assert [writer.wait(100) for writer in writers] == [0, 0, 0]
    with sync.open_engine(folder.config, data_dir=folder.data) as engine:
        entries = engine.call_log.entries(limit=1000)
        [metrics] = engine.metrics()

    texts = [entry.arguments["text"] for entry in entries if entry.kind == "call"]
    for name in "abc":
        own = [text for text in texts if text.startswith(name)]
        assert own == [f"{name} {number}" for number in range(30)]
    assert metrics.total.calls == 90


@pytest.mark.requirement("LOG-8")
async def test_readers_see_the_entries_of_their_own_configuration(
    folder: Folder, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = Folder(tmp_path / "other")
    other.write(good("another"))
    async with folder.open() as engine:
        await say(engine, "hello")
    async with open_engine(other.config, data_dir=folder.data) as engine:
        await say(engine, "in the folder of the first", server="another")
        own = [entry.server for entry in await engine.call_log.entries()]

    assert own == ["another"]


@pytest.mark.requirement("LOG-20")
async def test_entries_are_read_in_pages_filtered_and_cleared(folder: Folder) -> None:
    folder.write(good(), good("other"))
    async with folder.open() as engine:
        await say(engine, "a confidential line", "No. 1", "No. 2")
        await say(engine, "No. 3", server="other")
        with pytest.raises(DiscoveryError):
            await engine.execute("good", "echo", {"text": 7})
        log = engine.call_log
        calls = LogFilter(kinds=("call",))
        last = await log.entries(calls, limit=2)
        before = await log.entries(calls, limit=2, before=last[0].id)

        async def found(**chosen: Any) -> list[Any]:
            entries = await log.entries(LogFilter(kinds=("call",), **chosen))
            return [entry.arguments["text"] for entry in entries]

        filtered = [
            await found(servers=("other",)),
            await found(statuses=("error",)),
            await found(statuses=("INVALID_ARGUMENTS",)),
            await found(tools=("good:echo",), text="no. 1"),
            await found(since=last[0].at, statuses=("ok",)),
            await found(text="%' OR 1=1 --"),
        ]
        exported = await log.export(form="ndjson")
        cleared = await log.clear()
        left = await log.entries()

    texts = [entry.arguments["text"] for entry in (*before, *last)]
    assert texts == ["No. 1", "No. 2", "No. 3", 7]
    assert filtered == [["No. 3"], [7], [7], ["No. 1"], ["No. 3"], []]
    assert "a confidential line" in exported
    assert cleared >= 5
    assert left == ()
    assert b"confidential" not in everything(folder.data)


@pytest.mark.requirement("LOG-20")
async def test_a_follower_gets_what_another_process_writes(folder: Folder) -> None:
    async with folder.open() as engine, folder.open() as other:
        await say(engine, "before")
        [*_, newest] = await engine.call_log.entries()
        texts: list[str] = []
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:

                async def follow() -> None:
                    calls = LogFilter(kinds=("call",))
                    async for entry in engine.call_log.follow(calls, after=newest.id):
                        texts.append(entry.arguments["text"])
                        if len(texts) == 2:
                            tasks.cancel_scope.cancel()

                tasks.start_soon(follow)
                await say(other, "one", "two")

    assert texts == ["one", "two"]


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
        await engine.reset_errors("good")
        [reset] = await engine.metrics("good")
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
    assert (reset.total.calls, reset.total.errors) == (4, 0)
    assert cleared == reset


@pytest.mark.requirement("MTR-1")
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
