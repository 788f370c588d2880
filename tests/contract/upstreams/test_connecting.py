"""Opening, sharing, remembering and closing sessions, in both eras."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine.config.settings import ServerSettings, StdioTransport, Timeouts
from discovery_engine.errors import (
    FailureKind,
    RegistryError,
    UnavailableError,
)
from discovery_engine.rpc.client import CallbackClient
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.connection import connection_fingerprint
from tests.kinds import thinned
from tests.servers.programs import (
    Eras,
    call,
    descendants,
    eventually,
    fault_server,
    http_server,
    is_running,
    pid_of,
    program,
    remote_server,
    text_of,
    upstreams,
)
from tests.servers.scripted import Asked, Reply, scripted_http

ALICE = CallbackClient(id="alice")
BOB = CallbackClient(id="bob")

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])


@ERAS
@pytest.mark.requirement("UPS-1")
async def test_tools_are_listed_and_called_in_either_era(era: str) -> None:
    server = fault_server(era=era)

    async with upstreams() as opened:
        listing = await opened.list_tools(server)
        answer = await call(opened, server, text="hi")

    assert [tool["name"] for tool in listing.tools] == ["echo", "pid", "environment"]
    assert listing.instructions == f"{era} instructions"
    assert listing.connection == connection_fingerprint(server)
    assert (listing.ttl, listing.cut, listing.dropped) == (None, "", ())
    assert json.loads(answer) == {"text": "hi"}


@pytest.mark.parametrize("mode", ["legacy", "modern", "events"])
@pytest.mark.requirement("UPS-1")
async def test_http_servers_are_listed_and_called_in_either_era(mode: str) -> None:
    with http_server(mode) as url:
        server = remote_server(url)

        async with upstreams() as opened:
            listing = await opened.list_tools(server)
            answer = await call(opened, server, text="hé")

    assert [tool["name"] for tool in listing.tools] == ["echo"]
    assert "hé" in answer or "h\\u00e9" in answer


@pytest.mark.requirement("UPS-1")
async def test_servers_of_the_old_sse_transport_are_listed_and_called() -> None:
    with http_server("sse") as url:
        server = remote_server(url, kind="sse")

        async with upstreams() as opened:
            listing = await opened.list_tools(server)
            answer = await call(opened, server, text="hi")

    assert [tool["name"] for tool in listing.tools] == ["echo"]
    assert json.loads(answer) == {"text": "hi"}


@pytest.mark.requirement("UPS-2")
async def test_nothing_is_started_before_it_is_needed_and_callers_share_the_start() -> None:
    server = fault_server()
    pids: list[str] = []

    async def ask() -> None:
        pids.append(await call(opened, server, "pid"))

    async with upstreams() as opened:
        before = opened.sessions()
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(ask)

    assert before == {}
    assert len(pids) == 10
    assert len(set(pids)) == 1


@pytest.mark.requirement("UPS-3")
async def test_no_more_servers_start_at_once_than_allowed() -> None:
    servers = [fault_server("hang_start", name=f"slow{i}") for i in range(3)]

    async with upstreams(max_connecting=2) as opened, anyio.create_task_group() as tasks:
        before = descendants()
        for server in servers:
            tasks.start_soon(opened.list_tools, server)
        await eventually(lambda: len(descendants() - before) == 3)  # and the reaper
        await anyio.wait_all_tasks_blocked()
        started = len(descendants() - before)
        tasks.cancel_scope.cancel()

    assert started == 3


@ERAS
@pytest.mark.requirement("UPS-4")
async def test_what_a_server_speaks_is_remembered(era: str) -> None:
    server, eras = fault_server(era=era), Eras()
    connection = connection_fingerprint(server)

    async with upstreams(eras=eras) as opened:
        await opened.list_tools(server)
    remembered = eras[connection]
    async with upstreams(eras=eras) as opened:
        answer = await call(opened, server, text="again")
        listing = await opened.list_tools(server)

    assert (remembered["discover"] is None) == (era == "legacy")
    assert json.loads(answer) == {"text": "again"}
    assert listing.instructions == f"{era} instructions"


MODERN = {"carrier": "stdio", "discover": {
    "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "instructions": "old",
    "ttlMs": 0, "cacheScope": "private", "resultType": "complete",
}}  # fmt: skip
LEGACY = {"carrier": "stdio", "discover": None}


@pytest.mark.parametrize(
    ("server", "wrong"),
    [
        pytest.param(fault_server(era="modern"), LEGACY, id="now-modern"),
        pytest.param(fault_server("modern_liar", era="legacy"), MODERN, id="now-legacy"),
        pytest.param(fault_server("exit_on_unknown", era="legacy"), MODERN, id="now-exits"),
        pytest.param(fault_server(), {"carrier": "stdio", "discover": {}}, id="unusable"),
        pytest.param(fault_server(), {"what": "is this"}, id="unreadable"),
    ],
)
@pytest.mark.requirement("UPS-4")
async def test_a_wrong_memory_is_replaced_by_asking_once_more(
    server: ServerSettings, wrong: dict
) -> None:
    eras = Eras({connection_fingerprint(server): wrong})

    async with upstreams(eras=eras) as opened:
        with anyio.fail_after(60):
            if server.transport.args[3] == "modern_liar":
                answer = await call(opened, server, text="hi")
                assert answer == "called in the old way"
            else:
                assert len((await opened.list_tools(server)).tools) == 3

    assert eras[connection_fingerprint(server)] != wrong


@pytest.mark.requirement("UPS-11")
async def test_a_program_that_talked_until_the_time_was_up_is_not_started_again(tmp_path) -> None:
    script = r"echo started >>starts; echo 'Welcome to the shop'; cat >/dev/null"
    server = program("sh", "-c", script, cwd=str(tmp_path), connect=2)
    eras = Eras({connection_fingerprint(server): LEGACY})

    async with upstreams(eras=eras) as opened:
        with anyio.fail_after(60), pytest.raises(UnavailableError) as caught:
            await opened.list_tools(server)

    assert caught.value.kind == FailureKind.NOT_MCP
    assert (tmp_path / "starts").read_text() == "started\n"
    assert not eras.get(connection_fingerprint(server))


@pytest.mark.requirement("UPS-4")
async def test_instructions_that_were_only_remembered_are_renewed_with_the_list() -> None:
    server = fault_server(era="modern")
    eras = Eras({connection_fingerprint(server): MODERN})

    async with upstreams(eras=eras) as opened:
        listing = await opened.list_tools(server)

    assert listing.instructions == "modern instructions"
    remembered = eras[connection_fingerprint(server)]["discover"]
    assert remembered["instructions"] == "modern instructions"


@pytest.mark.requirement("UPS-5")
async def test_a_server_that_exits_on_an_unknown_message_is_started_again_in_the_old_way() -> None:
    server, eras = fault_server("exit_on_unknown", era="legacy"), Eras()

    async with upstreams(eras=eras) as opened:
        listing = await opened.list_tools(server)

    assert len(listing.tools) == 3
    assert eras[connection_fingerprint(server)] == LEGACY


@pytest.mark.thorough
@pytest.mark.requirement("UPS-6")
async def test_a_server_that_is_silent_when_asked_what_it_speaks_is_initialized() -> None:
    # Of these seven seconds the silence takes three; the rest is for a busy machine.
    server = fault_server("silent_on_discover", era="legacy", timeouts=Timeouts(connect=7))

    async with upstreams() as opened:
        listing = await opened.list_tools(server)

    assert listing.instructions == "legacy instructions"


@pytest.mark.thorough
@pytest.mark.requirement("UPS-6")
async def test_a_slow_starter_that_refuses_to_be_initialized_is_spoken_to_in_the_new_way() -> None:
    server, eras = fault_server(era="modern"), Eras()
    assert isinstance(server.transport, StdioTransport)
    slowly = ("-c", 'sleep 3.5; exec "$0" "$@"', server.transport.command, *server.transport.args)

    async with upstreams(eras=eras) as opened:
        listing = await opened.list_tools(program("sh", *slowly))

    assert listing.instructions == "modern instructions"
    assert eras[listing.connection]["discover"] is not None


@pytest.mark.requirement("UPS-7")
async def test_an_idle_session_is_closed_and_opened_again_when_needed() -> None:
    server = fault_server()

    async with upstreams(idle_timeout=0.05) as opened:
        first = await call(opened, server, "pid")
        await eventually(lambda: not opened.sessions() and not is_running(int(first)))
        second = await call(opened, server, "pid")

    assert first != second


@pytest.mark.requirement("UPS-7")
async def test_an_idle_session_is_closed_after_its_time_and_not_much_later() -> None:
    async with upstreams(idle_timeout=1.0) as opened:
        pid = int(await call(opened, fault_server(), "pid"))
        used_again = int(await call(opened, fault_server(), "pid"))
        await eventually(lambda: not opened.sessions() and not is_running(pid), within=30)

    assert used_again == pid


@pytest.mark.requirement("UPS-7")
async def test_a_closed_server_is_started_again_when_needed() -> None:
    server = fault_server()

    async with upstreams() as opened:
        first = await call(opened, server, "pid")
        await opened.close(server.name)
        second = await call(opened, server, "pid")
        await opened.close(ServerName("unknown"))

    assert first != second


@pytest.mark.requirement("UPS-8")
async def test_changed_settings_get_a_new_session_while_old_calls_finish(tmp_path: Path) -> None:
    old, new = fault_server("awaits_file"), fault_server("ok")
    gate, begun = anyio.Path(tmp_path / "gate"), anyio.Event()
    results: list[JSONObject] = []

    async def on_progress(*_: object) -> None:
        begun.set()

    async def work() -> None:
        given = {"text": str(gate)}
        results.append(await opened.call(old, "echo", given, on_progress=on_progress))

    async with upstreams() as opened:
        async with anyio.create_task_group() as tasks:
            old_pid = int(await pid_of(opened, old))
            tasks.start_soon(work)
            await begun.wait()
            new_pid = int(await call(opened, new, "pid"))
            both = is_running(old_pid), is_running(new_pid)
            await gate.touch()
        await eventually(lambda: not is_running(old_pid))

    assert both == (True, True)
    assert results[0].get("isError") is not True


@pytest.mark.requirement("UPS-8")
async def test_settings_that_do_not_concern_the_connection_keep_the_session() -> None:
    server = fault_server()

    async with upstreams() as opened:
        first = await call(opened, server, "pid")
        second = await call(opened, replace(server, timeouts=Timeouts(call=5)), "pid")

    assert first == second


@pytest.mark.requirement("UPS-9")
async def test_clients_share_a_session_unless_each_is_to_have_its_own() -> None:
    shared, split = fault_server(), fault_server(name="split", session="per_client")

    async with upstreams() as opened:
        pids = {
            server.name: {
                text_of(await opened.call(server, "pid", {}, caller=CallbackClient(id=client)))
                for client in ("alice", "bob", "alice")
            }
            for server in (shared, split)
        }

    assert [len(found) for found in pids.values()] == [1, 2]


@pytest.mark.requirement("UPS-80")
@pytest.mark.parametrize("session", ["shared", "per_client"])
async def test_the_session_that_listed_makes_the_first_call(session: str) -> None:
    server = fault_server(session=session)

    async with upstreams() as opened:
        await opened.list_tools(server)
        listed_by = {opened.states()[server.name].stats.pid}
        first = int(text_of(await opened.call(server, "pid", {}, caller=ALICE)))
        await opened.list_tools(server)
        counters = opened.states()[server.name].stats

    assert listed_by == {first}
    assert counters.restarts == 0


@pytest.mark.requirement("UPS-80")
async def test_a_session_that_lists_while_it_starts_is_handed_to_the_client_who_calls() -> None:
    server = fault_server(session="per_client")

    async with upstreams() as opened, anyio.create_task_group() as tasks:
        tasks.start_soon(opened.list_tools, server)
        tasks.start_soon(partial(opened.call, server, "pid", {}, caller=ALICE))
        await opened.call(server, "pid", {}, caller=ALICE)
        counters = opened.states()[server.name].stats

    assert counters.restarts == 0


@pytest.mark.requirement("UPS-9")
async def test_a_session_that_was_shared_is_handed_to_no_single_client() -> None:
    server = fault_server()

    async with upstreams() as opened:
        shared = text_of(await opened.call(server, "pid", {}, caller=ALICE))
        own = replace(server, session="per_client")
        alone = text_of(await opened.call(own, "pid", {}, caller=BOB))
        without_a_name = text_of(await opened.call(own, "pid", {}))

    assert len({shared, alone, without_a_name}) == 3


@pytest.mark.requirement("UPS-80")
@pytest.mark.parametrize("session", ["shared", "per_client"])
async def test_an_address_is_greeted_once_for_a_listing_and_a_call(session: str) -> None:
    with http_server("counts_sessions") as url:
        server = remote_server(url, session=session)

        async with upstreams() as opened:
            await opened.list_tools(server)
            greeted = text_of(await opened.call(server, "echo", {}, caller=ALICE))
            of_others = text_of(await opened.call(server, "echo", {}, caller=BOB))

    assert greeted == "1"
    assert of_others == ("1" if session == "shared" else "2")


@pytest.mark.parametrize("mode", thinned(["sse", "sse_hangs"]))
@pytest.mark.requirement("UPS-10")
async def test_auto_falls_back_to_sse_and_remembers_it(mode: str) -> None:
    with http_server(mode) as url:
        server, eras = remote_server(url), Eras()

        async with upstreams(eras=eras) as opened:
            await opened.list_tools(server)
        remembered = dict(eras)
        async with upstreams(eras=eras) as opened:
            answer = await call(opened, server, text="hi")

    assert remembered == {connection_fingerprint(server): {"carrier": "sse", "discover": None}}
    assert json.loads(answer) == {"text": "hi"}


@pytest.mark.requirement("UPS-10")
async def test_a_server_that_is_neither_tells_what_streamable_http_said() -> None:
    with http_server("status_404") as url:
        async with upstreams() as opened:
            with pytest.raises(UnavailableError) as caught:
                await opened.list_tools(remote_server(url))

    assert caught.value.reason.startswith("it answers HTTP 404")


@pytest.mark.requirement("UPS-10")
async def test_the_reason_is_that_of_the_transport_that_got_furthest() -> None:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "not allowed"}}
    endpoint = {"content-type": "text/event-stream"}
    inside = b"event: endpoint\ndata: http://0.0.0.0:8000/messages?s=k3y\n\n"
    page = Reply(200, b"<html>", {"content-type": "text/html"})
    announced = 'announces the endpoint "http://0.0.0.0:8000", which is not used'
    servers = {
        "endpoint": (Reply(405), Reply(200, inside, endpoint), announced),
        "rpc-error": (Reply(405, error), Reply(200, inside, endpoint), announced),
        "refused": (Reply(200, error), Reply(405), "refused the handshake with error -32000"),
        "page": (Reply(404), page, "HTTP 404"),
    }
    wrong: list[str] = []

    def answer(asked: Asked) -> Reply:
        posted, got, _ = servers[asked.path.strip("/")]
        return posted if asked.method == "POST" else got

    with scripted_http(answer) as url:
        async with upstreams() as opened:
            for name, (_, _, said) in servers.items():
                with pytest.raises(UnavailableError) as caught:
                    await opened.list_tools(remote_server(f"{url}/{name}", name=name))
                if said not in caught.value.reason or "k3y" in str(caught.value):
                    wrong.append(f"{name}: {caught.value}")

    assert wrong == []


class Forgetful(Eras):
    """A memory that is broken."""

    def load_era(self, connection: str) -> JSONObject | None:
        raise RegistryError("the disk is gone")

    def save_era(self, connection: str, era: JSONObject | None) -> None:
        raise RegistryError("the disk is gone")


@pytest.mark.requirement("UPS-4")
async def test_a_memory_that_cannot_be_read_is_done_without() -> None:
    async with upstreams(eras=Forgetful()) as opened:
        listing = await opened.list_tools(fault_server())

    assert len(listing.tools) == 3


@pytest.mark.requirement("UPS-4")
async def test_a_memory_is_not_doubted_because_nobody_answers() -> None:
    eras = Eras()

    async with upstreams(eras=eras) as opened:
        with http_server("modern") as url:
            await opened.list_tools(remote_server(url))
    remembered = dict(eras)
    async with upstreams(eras=eras) as opened:
        for ask in (opened.list_tools(remote_server(url)), call(opened, remote_server(url))):
            with anyio.fail_after(60), pytest.raises(UnavailableError) as caught:
                await ask

    assert caught.value.kind == FailureKind.REFUSED
    assert eras == remembered
