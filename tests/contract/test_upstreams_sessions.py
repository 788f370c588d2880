"""Sessions with servers: how they are opened, shared, limited, and replaced."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

from discovery_engine import Engine, ServerState
from discovery_engine.errors import (
    FailureKind,
    RateLimitedError,
    UnavailableError,
    UpstreamTimeoutError,
)
from discovery_engine.events import ToolsChanged
from tests.engines import Folder, entry, heard
from tests.server_entries import (
    Entry,
    behind,
    call,
    configure,
    engine_of,
    fault,
    outcome,
    pid_of,
    report_of,
)
from tests.servers.programs import descendants, eventually, http_servers, is_running
from tests.servers.scripted import (
    EVENTS,
    Asked,
    Reply,
    events,
    reply_to,
    result_of,
    scripted_http,
    scripted_program,
    usual,
)

pytestmark = pytest.mark.anyio

STARTED = 'echo started >>"$STARTS"; '


def counted(entry: Entry, file: Path) -> tuple[Entry, Callable[[], int]]:
    """The same server, and how often it was started."""
    server = behind(STARTED + 'exec "$0" "$@"', {**entry, "env": {"STARTS": str(file)}})
    return server, lambda: len(file.read_text("utf-8").split()) if file.exists() else 0


def handshake(version: str) -> Entry:
    result = result_of("initialize", {}, version=version)
    return {"jsonrpc": "2.0", "id": "ID", "result": result}


def refusal(message: str, data: object = None) -> Entry:
    error = {"code": -32602, "message": message, "data": data}
    return {"jsonrpc": "2.0", "id": "ID", "error": error}


HI = {"type": "text", "text": '{"text": "hi"}'}
NO_OBJECT = {"protocolVersion": "2025-06-18", "capabilities": []}
NAMED = "Bad Request: Unsupported protocol version (supported versions: 2025-06-18, 2024-11-05)"


def names_its_version(asked: Asked) -> Reply:
    if asked.method == "POST" and asked.version and asked.version != "2025-06-18":
        return Reply(400, NAMED.encode(), {"content-type": "text/plain"})
    return usual(asked)


def delivered() -> list[object]:
    """The answers that something still refers to."""
    gc.collect()
    return [one for one in gc.get_objects() if type(one) is list and one == [HI]]


@pytest.mark.requirement("UPS-1")
async def test_tools_are_called_over_each_transport_in_each_era(folder: Folder) -> None:
    with ExitStack() as stack:
        urls = stack.enter_context(http_servers("modern", "legacy", "events", "sse", "sse_hangs"))
        naming = stack.enter_context(scripted_http(names_its_version))
        supported = {"supported": ["2024-11-05", "2025-06-18"]}
        scripts = {
            "oldest": handshake("2024-10-07"),
            "no-object": {**handshake("2025-06-18"), "result": NO_OBJECT},
            "names-in-data": [refusal("no", supported), handshake("2025-06-18")],
            "names-in-words": [refusal(NAMED), handshake("2025-06-18")],
        }
        servers: dict[str, Entry] = {
            "modern": fault(era="modern"),
            "legacy": fault(era="legacy"),
            "http-modern": {"url": urls["modern"]},
            "http-legacy": {"url": urls["legacy"]},
            "http-events": {"url": urls["events"]},
            "http-names": {"url": naming},
            "sse": {"url": urls["sse"], "transport": "sse"},
            "auto": {"url": urls["sse_hangs"]},
            **{name: entry(scripted_program(initialize=lines)) for name, lines in scripts.items()},
        }
        async with engine_of(folder.path, servers) as engine:
            answers = {name: await outcome(engine, name, text="hi") for name in servers}
            await eventually(lambda: not delivered())  # the log lets go of them once written

    wrong = {
        name: answer
        for name, answer in answers.items()
        if answer not in ('{"text": "hi"}', "{'text': 'hi'}", "null")  # a script's is always null
    }
    assert wrong == {}


@pytest.mark.requirement("UPS-2")
async def test_a_server_starts_when_it_is_called_and_callers_share_the_start(
    folder: Folder,
) -> None:
    server, starts = counted(fault(), folder.path / "starts")
    pids: set[int] = set()

    async def ask() -> None:
        pids.add(await pid_of(engine, "s"))

    async with engine_of(folder.path, {"s": server}) as engine:
        before = starts()
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(ask)

    assert (before, starts(), len(pids)) == (0, 1, 1)


@pytest.mark.requirement("UPS-2")
async def test_an_idle_session_is_closed_and_opened_again_when_needed(folder: Folder) -> None:
    options = {"idleTimeout": 0.05}

    async with engine_of(folder.path, {"s": fault()}, server=options) as engine:
        first = await pid_of(engine, "s")
        await eventually(lambda: engine.view.server("s").state is ServerState.IDLE)
        await eventually(lambda: not is_running(first))
        second = await pid_of(engine, "s")

    assert first != second


@pytest.mark.requirement("UPS-3")
async def test_no_more_servers_start_at_once_than_allowed(folder: Folder) -> None:
    servers = {f"s{number}": fault("hang_start") for number in range(3)}
    before = descendants()

    async with (
        engine_of(folder.path, servers, server={"maxConnecting": 2}) as engine,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(engine.refresh)
        await eventually(lambda: len(descendants() - before) == 3)  # and the reaper
        await anyio.wait_all_tasks_blocked()
        reports = await engine.health()
        started = len(descendants() - before)
        tasks.cancel_scope.cancel()

    assert started == 3
    assert sum(report.starting_for is None for report in reports) == 1


@pytest.mark.requirement("UPS-4")
async def test_what_a_server_speaks_is_remembered_and_corrected(folder: Folder) -> None:
    era = folder.path / "era"
    exits, starts = counted(fault("exit_on_unknown"), folder.path / "starts")
    changing = behind('exec "$0" "$@" $(cat "$ERA")', fault(era=""))
    changing["args"].pop()
    servers = {
        "exits": exits,
        "silent": fault("silent_on_discover"),
        "changing": {**changing, "env": {"ERA": str(era)}},
    }
    counts: list[int] = []
    answers: list[str] = []

    for spoken in ("legacy", "modern"):
        era.write_text(spoken, "utf-8")
        async with engine_of(folder.path, servers) as engine:
            await engine.refresh()
            answers += [await call(engine, name, text="hi") for name in servers]
        counts.append(starts())

    assert answers == ['{"text": "hi"}'] * 6
    assert counts == [2, 3]  # the first time it exited when it was asked


@pytest.mark.requirement("UPS-8")
async def test_a_changed_command_is_started_anew_while_calls_finish(folder: Folder) -> None:
    old = fault("awaits_file")
    gate, begun = folder.path / "gate", anyio.Event()
    results: list[Any] = []

    async def on_progress(*_: object) -> None:
        begun.set()

    async def work() -> None:
        given = {"text": str(gate)}
        results.append(await engine.execute("s", "echo", given, on_progress=on_progress))

    async with engine_of(folder.path, {"s": old}) as engine:
        await engine.refresh()
        old_pid = (await report_of(engine, "s")).stats.pid
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work)
            await begun.wait()
            configure(folder.path, {"s": {**old, "timeouts": {"call": 50}}})
            await engine.reload()
            kept = (await report_of(engine, "s")).stats.pid
            configure(folder.path, {"s": fault()})
            await engine.reload()
            new_pid = await pid_of(engine, "s")
            both = is_running(old_pid), is_running(new_pid)
            gate.touch()
        await eventually(lambda: not is_running(old_pid))

    assert kept == old_pid
    assert both == (True, True)
    assert results[0].get("isError") is not True


@pytest.mark.requirement("UPS-9")
async def test_clients_share_a_session_unless_each_is_to_have_its_own(folder: Folder) -> None:
    servers = {"shared": fault(), "split": fault(session="per_client")}

    async with engine_of(folder.path, servers) as engine:
        await engine.refresh()
        listing = {name: (await report_of(engine, name)).stats.pid for name in servers}
        pids = {
            name: [await pid_of(engine, name, client) for client in ("alice", "bob", "alice")]
            for name in servers
        }
        engine.close_client("alice")
        await eventually(lambda: not is_running(pids["split"][0]))
        bob = await pid_of(engine, "split", "bob")

    assert set(pids["shared"]) == {listing["shared"]}
    assert pids["split"][0] == pids["split"][2] == listing["split"]
    assert pids["split"][1] == bob != pids["split"][0]


@pytest.mark.requirement("UPS-68")
async def test_a_client_without_room_for_a_session_is_refused_and_no_other(folder: Folder) -> None:
    few = fault(session="per_client", limits={"sessions": 3})
    servers = {"few": few, "more": fault(session="per_client"), "shared": fault()}

    async def refused(server: str, client: str) -> UnavailableError:
        with pytest.raises(UnavailableError) as caught:
            await pid_of(engine, server, client)
        return caught.value

    async with engine_of(folder.path, servers, server={"maxOwnSessions": 4}) as engine:
        pids = [await pid_of(engine, "few", f"client {number}") for number in range(3)]
        errors = [await refused("few", f"client {number}") for number in range(3, 30)]
        again = [await pid_of(engine, "few", f"client {number}") for number in range(3)]
        await pid_of(engine, "more", "client 0")
        beyond_all = await refused("more", "client 1")
        await pid_of(engine, "shared", "client 1")
        report = await report_of(engine, "few")

    assert len(set(pids)) == 3
    assert again == pids
    assert errors[-1].kind is FailureKind.BUSY
    assert "3 clients have a session of their own with it" in errors[-1].message
    assert "limits.sessions" in errors[-1].hint
    assert errors[-1].retry_after
    assert "server.maxOwnSessions" in beyond_all.hint
    assert report.state is ServerState.READY


@pytest.mark.requirement("UPS-90")
async def test_of_64_callers_the_server_sees_as_many_as_are_allowed(folder: Folder) -> None:
    effects = folder.path / "effects"
    limits = {"callsPerMinute": 1, "burst": 7}
    server = fault("obeys", program="wire_server.py", env={"EFFECTS": str(effects)}, limits=limits)
    outcomes: list[Any] = []

    async def ask(engine: Engine) -> None:
        outcomes.append(await outcome(engine, "s", text="hi"))

    async with engine_of(folder.path, {"s": server}) as engine:
        await outcome(engine, "s", text=["does not fit, and is not counted"])
        async with anyio.create_task_group() as tasks:
            for _ in range(64):
                tasks.start_soon(ask, engine)

    refused = [error for error in outcomes if isinstance(error, RateLimitedError)]
    assert len(effects.read_text("utf-8").splitlines()) == 7
    assert len(refused) == 57
    assert "at most 1 call a minute; nothing was sent" in refused[0].message
    assert 0 < (refused[0].retry_after or 0) <= 60


@pytest.mark.requirement("UPS-1", "UPS-15", "UPS-43")
async def test_a_remote_session_is_followed_resumed_and_ended(folder: Folder) -> None:
    requests: list[Asked] = []
    changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}

    def answer(asked: Asked) -> Reply | None:
        requests.append(asked)
        if asked.rpc_method == "tools/call":
            if asked.message["params"]["arguments"]["text"] == "late":
                return None
            return Reply(200, b"id: 7\nretry: 10\ndata:\n\n", {"content-type": EVENTS})
        if asked.method != "GET":
            return usual(asked, session="s-1")
        if asked.headers.get("last-event-id") == "7":
            [asking] = [one for one in requests if one.rpc_method == "tools/call"]
            return events(reply_to(asking, {"content": [{"type": "text", "text": "resumed"}]}))
        return events(changed) if count("GET") == 1 else Reply(405)

    def count(name: str) -> int:
        return len([one for one in requests if name in (one.rpc_method, one.method)])

    with scripted_http(answer) as url:
        async with engine_of(folder.path, {"far": {"url": url, "timeouts": {"call": 2}}}) as engine:
            with engine.subscribe() as published:
                resumed = await outcome(engine, "far", text="hi")
                await heard(published, ToolsChanged, "far")
            late = await outcome(engine, "far", text="late")
            await eventually(lambda: count("notifications/cancelled"))

    assert resumed == "resumed"
    assert isinstance(late, UpstreamTimeoutError)
    assert count("DELETE") == count("notifications/cancelled") == 1
    opened = {(one.method, one.version) for one in requests if one.headers.get("mcp-session-id")}
    assert opened == {(method, "2025-06-18") for method in ("GET", "POST", "DELETE")}
