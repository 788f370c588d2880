"""Lists and calls: what arrives, what is sent again, and servers that keep failing."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from typing import Any

import anyio
import pytest

from discovery_engine import ServerState
from discovery_engine.errors import (
    FailureKind,
    OutcomeUnknownError,
    UnavailableError,
    UpstreamProtocolError,
    UpstreamTimeoutError,
)
from discovery_engine.events import ToolsChanged
from tests.engines import Folder
from tests.server_entries import Entry, call, configure, engine_of, fault, outcome, report_of, until
from tests.servers.programs import http_servers, is_running
from tests.servers.scripted import Asked, Reply, events, scripted_http, usual

pytestmark = pytest.mark.anyio

TEXT = {"content-type": "text/plain"}


def error(code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}


LOST = {
    "404": Reply(404),
    "400-rpc": Reply(400, error(-32000, "Bad Request: No valid session ID provided")),
    "400-text": Reply(400, b"Invalid session ID", TEXT),
    "410": Reply(410, {"error": "Session expired"}),
    "200-rpc": Reply(200, error(-32001, "Session not found")),
    "200-http": Reply(200, error(404, "Session does not exist")),
    "200-other-id": Reply(200, {**error(-32600, "Session expired"), "id": "server-error"}),
    "uninitialized": Reply(200, error(-32002, "Server not initialized")),
    "early": Reply(200, error(-32602, "Received request before initialization was complete")),
    "200-word": Reply(200, {"error": "Session not found"}),
    "event": events(error(-32001, "Session not found")),
}
NOT_LOST = {
    "of-the-tool": Reply(200, error(-32000, "Browser session not found")),
    "of-an-argument": Reply(200, error(-32602, "Session not found")),
    "500": Reply(500, b"Session not found", TEXT),
}


@pytest.mark.requirement("UPS-14")
async def test_a_call_is_sent_again_only_if_its_server_had_forgotten_the_session(
    folder: Folder,
) -> None:
    sessions: Counter[str] = Counter()
    calls: Counter[str] = Counter()

    def answer(asked: Asked) -> Reply:
        """Forgets the first session of each path when a tool is called."""
        name = asked.path.strip("/")
        if asked.rpc_method == "initialize":
            sessions[name] += 1
            return usual(asked, session=f"sid-{sessions[name]}")
        if asked.rpc_method != "tools/call":
            return usual(asked)
        calls[name] += 1
        is_first = asked.headers["mcp-session-id"] == "sid-1"
        return (LOST | NOT_LOST)[name] if is_first else usual(asked)

    with scripted_http(answer) as url:
        servers = {name: {"url": f"{url}/{name}", "transport": "http"} for name in LOST | NOT_LOST}
        async with engine_of(folder.path, servers) as engine:
            outcomes = {name: await outcome(engine, name, text="hi") for name in servers}

    again = {name for name, result in outcomes.items() if "hi" in str(result) and calls[name] == 2}
    assert again == LOST.keys()


@pytest.mark.requirement("UPS-14")
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_call_that_its_server_began_is_not_repeated(folder: Folder, era: str) -> None:
    effects = folder.path / "effects"
    env = {"EFFECTS": str(effects)}
    server = fault("obeys", program="wire_server.py", era=era, env=env)

    async with engine_of(folder.path, {"s": server}) as engine:
        await engine.refresh()
    async with engine_of(folder.path, {"s": server}) as engine:  # what it speaks is not yet proven
        failed = await outcome(engine, "s", "fail")
        died = await outcome(engine, "s", "crash")

    assert isinstance(failed, UpstreamProtocolError)
    assert isinstance(died, OutcomeUnknownError)
    assert effects.read_text("utf-8").splitlines() == ["{}", "{}"]


@pytest.mark.requirement("UPS-15")
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_call_is_cancelled_at_its_server_when_its_time_is_up_or_its_caller_gone(
    folder: Folder, era: str
) -> None:
    server = fault("hang_call", era=era, timeouts={"call": 0.5})

    async with engine_of(folder.path, {"s": server}) as engine:
        pid = await pid_of_listing(engine)
        late = await outcome(engine, "s", "hang")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(outcome, engine, "s", "hang")
            await until(engine, "s", lambda report: report.stats and report.stats.users == 1)
            other = await call(engine, "s", "echo")
            tasks.cancel_scope.cancel()
        cancelled = json.loads(await call(engine, "s", "cancelled"))
        same = await pid_of_listing(engine)

    assert isinstance(late, UpstreamTimeoutError)
    assert other == "echo"
    assert len(cancelled) == 2
    assert pid == same


async def pid_of_listing(engine: Any) -> int | None:
    await engine.refresh()
    stats = (await report_of(engine, "s")).stats
    return stats.pid if stats else None


@pytest.mark.requirement("UPS-15")
async def test_a_call_that_reports_its_progress_gets_more_time(folder: Folder) -> None:
    gate = folder.path / "gate"

    async def on_progress(progress: float, *_: object) -> None:
        if progress == 50:  # the program has slept between them for longer than a call may take
            gate.touch()

    async with engine_of(folder.path, {"s": fault("awaits_file", timeouts={"call": 2})}) as engine:
        result = await engine.execute("s", "echo", {"text": str(gate)}, on_progress=on_progress)

    assert result["content"][0]["text"] == "done"


async def keep(outcomes: list[Any], engine: Any) -> None:
    outcomes.append(await outcome(engine, "s"))


@pytest.mark.requirement("UPS-40")
async def test_pages_are_read_to_the_end_and_kept_if_there_is_none(folder: Folder) -> None:
    counts = {
        "ten_pages": 10,
        "cursor_loop": 1,
        "endless_pages": 1000,
        "listing_fails": 3,
        "listing_hangs": 3,
        "listing_large": 1,
        "no_tools": 0,
    }
    timeouts = {mode: {"list": 2 if mode.startswith("listing") else 100} for mode in counts}
    servers = {mode: fault(mode, timeouts=timeouts[mode]) for mode in counts}

    async with engine_of(folder.path, servers) as engine:
        await engine.refresh()
        listed = {report.name: report.tool_count for report in await engine.health()}

    assert listed == counts


@pytest.mark.requirement("UPS-43")
async def test_a_storm_of_changes_is_one_event_until_the_tools_are_listed_again(
    folder: Folder,
) -> None:
    async with engine_of(folder.path, {"s": fault("list_changed")}) as engine:
        counts = []
        for _ in range(2):
            await engine.refresh()
            with engine.subscribe(ToolsChanged) as changes:
                await call(engine, "s")
                await anext(changes)
                await anyio.wait_all_tasks_blocked()
                counts.append(1 + len(changes.drain()))

    assert counts == [1, 1]


@pytest.mark.requirement("UPS-50")
async def test_results_and_refusals_arrive_unchanged_with_progress(folder: Folder) -> None:
    told: list[tuple[object, ...]] = []

    async def on_progress(*progress: object) -> None:
        told.append(progress)

    async def raising(*_: object) -> None:
        raise ValueError("a fault of the caller")

    modes = ("tool_error", "refuses_call", "progress")
    with http_servers("events", "modern") as urls:
        remote = {mode: {"url": url} for mode, url in urls.items()}
        async with engine_of(folder.path, {m: fault(m) for m in modes} | remote) as engine:
            failed = await engine.execute("tool_error", "echo", {})
            refused = await outcome(engine, "refuses_call")
            await engine.execute("progress", "echo", {}, on_progress=on_progress)
            await engine.execute("events", "echo", {}, on_progress=on_progress)
            despite = await engine.execute("progress", "echo", {}, on_progress=raising)
            for name in ("progress", "modern"):
                unsent = await outcome(engine, name, other=float("nan"))
                assert isinstance(unsent, UpstreamProtocolError)

    assert failed == {
        "content": [{"type": "text", "text": "it did not work"}],
        "isError": True,
        "_meta": {"vendor": 1},
    }
    assert (refused.rpc_code, "Invalid arguments" in refused.message) == (-32602, True)
    assert told == [(float(n), 3.0, f"step {n}") for n in (1, 2, 3)] + [(1.0, None, "half way")]
    assert despite["content"][0]["text"] == "done"


@pytest.mark.requirement("UPS-50")
async def test_arguments_are_copied_to_headers_where_a_tool_requires_it(folder: Folder) -> None:
    with http_servers("mirrors", "bad_mirror") as urls:
        async with engine_of(folder.path, {m: {"url": url} for m, url in urls.items()}) as engine:
            answer = await call(engine, "mirrors", text="ünïcode")
            tools = [entry.tool.name for entry in (await engine.list_tools("bad_mirror")).entries]
            dropped = [tool.name for tool in (await report_of(engine, "bad_mirror")).dropped]

    assert json.loads(answer) == {"text": "ünïcode"}
    assert (tools, dropped) == (["echo"], ["odd"])


@pytest.mark.requirement("UPS-60")
async def test_a_server_that_failed_twice_is_not_tried_until_its_time_or_a_refresh(
    folder: Folder,
) -> None:
    starts = folder.path / "starts"
    script = 'echo started >>"$0"; exec cat'  # which refuses the handshake
    failing: Entry = {"command": "/bin/sh", "args": ["-c", script, str(starts)]}
    with http_servers("status_401") as urls:
        servers = {"s": failing, "locked": {"url": urls["status_401"]}}
        async with engine_of(folder.path, servers) as engine:
            error = await outcome(engine, "s")
            with anyio.fail_after(100):
                while "next try in" not in error.reason:
                    before = starts.read_text("utf-8")
                    error = await outcome(engine, "s")
            refused = starts.read_text("utf-8")
            locked = [await outcome(engine, "locked") for _ in range(3)]
            await engine.refresh(["s"])
            refreshed = starts.read_text("utf-8")
            configure(folder.path, {"s": fault()})
            await engine.reload()
            mended = await outcome(engine, "s", text="hi")

    assert error.kind is FailureKind.NOT_MCP
    assert "refused the handshake" in error.reason
    assert error.retry_after
    assert refused == before
    assert len(refreshed) > len(refused)
    assert {error.kind for error in locked} == {FailureKind.AUTH}
    assert mended == '{"text": "hi"}'


@pytest.mark.requirement("UPS-60")
async def test_a_program_that_exits_five_times_is_crash_looping_and_a_failing_tool_is_not(
    folder: Folder,
) -> None:
    servers = {"dies": fault("crash_call"), "fails": fault("tool_error"), "no": fault("odd_error")}

    async with engine_of(folder.path, servers) as engine:
        for _ in range(5):
            await engine.refresh()
            for name in servers:
                await outcome(engine, name)
        await until(engine, "dies", lambda report: report.state is ServerState.CRASH_LOOPING)
        refused = await outcome(engine, "dies")
        dying = await report_of(engine, "dies")
        others = [(await report_of(engine, name)).state for name in ("fails", "no")]

    assert 60 < (refused.retry_after or 0) <= 150  # two minutes, and up to a quarter of jitter
    assert dying.next_try is not None
    assert "status 7" in dying.reason
    assert dying.stderr == "about to crash" or (dying.stats and dying.stats.stderr)
    assert others == [ServerState.READY] * 2


@pytest.mark.requirement("UPS-65")
async def test_beyond_its_calls_and_its_queue_a_server_is_busy_and_its_neighbours_are_not(
    folder: Folder,
) -> None:
    limits = {"calls": 2, "queue": 3}
    patient = {"call": 1000}  # nobody waits for a place in the queue
    servers = {"s": fault("hang_call", limits=limits, timeouts=patient), "neighbour": fault()}

    async with engine_of(folder.path, servers) as engine:
        pid = await pid_of_listing(engine)
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(partial(outcome, engine, "s", "hang"))
            await until(engine, "s", lambda report: report.stats and report.stats.queued == 3)
            refused = await outcome(engine, "s")
            answer = await call(engine, "neighbour", text="hi")
            configure(folder.path, {**servers, "s": fault("hang_call", limits={"calls": 6})})
            await engine.reload()
            wider = await outcome(engine, "s")
            same = (await report_of(engine, "s")).stats.pid
            tasks.cancel_scope.cancel()

    assert isinstance(refused, UnavailableError)
    assert (refused.kind, refused.retry_after) == (FailureKind.BUSY, 1.0)
    assert answer == '{"text": "hi"}'
    assert wider == "echo"
    assert pid == same
    assert not is_running(pid or 0)
