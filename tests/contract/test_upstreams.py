"""Upstreams: what the page specs/upstreams.md promises, on real child processes in both eras."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace

import anyio
import pytest

from discovery_engine.config.settings import ServerSettings, StdioTransport, Timeouts
from discovery_engine.errors import (
    DiscoveryError,
    FailureKind,
    NeedsAuthError,
    NeedsConfigError,
    OutcomeUnknownError,
    UnavailableError,
    UpstreamProtocolError,
    UpstreamTimeoutError,
)
from discovery_engine.events import EventBus, ServerConnecting, ServerDiscovering, ToolsChanged
from discovery_engine.tools import ServerName
from discovery_engine.upstream import Phase, connection_fingerprint
from discovery_engine.upstream.sessions import Upstreams
from tests.servers.programs import (
    Eras,
    descendants,
    eventually,
    fault_server,
    http_server,
    is_running,
    remote_server,
    text_of,
    upstreams,
)

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])


@pytest.fixture(autouse=True)
def _nothing_left_running() -> Iterator[None]:
    before = descendants()
    yield
    assert {pid for pid in descendants() - before if is_running(pid)} == set()


async def call(opened: Upstreams, server: ServerSettings, tool: str = "echo", **arguments) -> str:
    with anyio.fail_after(20):
        return text_of(await opened.call(server, tool, arguments))


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
        before = opened.states()
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
        await eventually(lambda: len(descendants() - before) == 2)
        await anyio.wait_all_tasks_blocked()
        started = len(descendants() - before)
        tasks.cancel_scope.cancel()

    assert started == 2


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
        with anyio.fail_after(20):
            if server.transport.args[3] == "modern_liar":
                answer = await call(opened, server, text="hi")
                assert answer == "called in the old way"
            else:
                assert len((await opened.list_tools(server)).tools) == 3

    assert eras[connection_fingerprint(server)] != wrong


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


@pytest.mark.requirement("UPS-6")
async def test_a_server_that_is_silent_when_asked_what_it_speaks_is_initialized() -> None:
    server = fault_server("silent_on_discover", era="legacy", timeouts=Timeouts(connect=10))

    async with upstreams() as opened:
        listing = await opened.list_tools(server)

    assert listing.instructions == "legacy instructions"


@pytest.mark.requirement("UPS-7")
async def test_an_idle_session_is_closed_and_opened_again_when_needed() -> None:
    server = fault_server()

    async with upstreams(idle_timeout=0.05) as opened:
        first = await call(opened, server, "pid")
        await eventually(lambda: not opened.states() and not is_running(int(first)))
        second = await call(opened, server, "pid")

    assert first != second


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
async def test_changed_settings_get_a_new_session_while_old_calls_finish() -> None:
    old = fault_server("hang_call", timeouts=Timeouts(call=1))
    new = fault_server("ok")
    failures: list[DiscoveryError] = []

    async def hang() -> None:
        try:
            await call(opened, old, "hang")
        except UpstreamTimeoutError as error:
            failures.append(error)

    async with upstreams() as opened:
        async with anyio.create_task_group() as tasks:
            old_pid = int(await pid_of(opened, old))
            tasks.start_soon(hang)
            await eventually(lambda: opened.states()[old.name].users == 1)
            new_pid = int(await call(opened, new, "pid"))
            both = is_running(old_pid), is_running(new_pid)
        await eventually(lambda: not is_running(old_pid))

    assert both == (True, True)
    assert len(failures) == 1  # its own timeout, not a lost session


async def pid_of(opened: Upstreams, server: ServerSettings) -> int:
    await opened.list_tools(server)
    pid = opened.states()[server.name].pid
    assert pid is not None
    return pid


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
                text_of(await opened.call(server, "pid", {}, client=client))
                for client in ("alice", "bob", "alice")
            }
            for server in (shared, split)
        }

    assert [len(found) for found in pids.values()] == [1, 2]


@pytest.mark.requirement("UPS-10")
async def test_auto_falls_back_to_sse_and_remembers_it() -> None:
    with http_server("sse") as url:
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

    assert caught.value.reason == "it answers HTTP 404 Not Found"


def program(command: str, *args: str, **fields) -> ServerSettings:
    return ServerSettings(ServerName("broken"), StdioTransport(command, args, **fields))


@pytest.mark.parametrize(
    ("server", "kind", "said"),
    [
        pytest.param(program("no-such-program"), "not_found", "not on the PATH", id="missing"),
        pytest.param(program("./no/such"), "not_found", "no program './no/such'", id="no-file"),
        pytest.param(program("uvx", env={"PATH": "/nowhere"}), "not_found", "(/nowhere)", id="uvx"),
        pytest.param(program(__file__), "permission", "may not be executed", id="not-executable"),
        pytest.param(program("sh", cwd="/no/such"), "not_found", "'/no/such'", id="no-directory"),
        pytest.param(program("sh", "a\0b"), "other", "null byte", id="nul"),
        pytest.param(fault_server("crash_start"), "exited", "exited with status 3", id="crash"),
        pytest.param(program("sh", "-c", "kill -9 $$"), "exited", "by SIGKILL", id="killed"),
        pytest.param(
            fault_server("hang_start", timeouts=Timeouts(connect=0.5)),
            "timeout",
            "within 0.5 s",
            id="hang",
        ),
        pytest.param(fault_server("strange_greeting"), "not_mcp", "not one of MCP", id="strange"),
        pytest.param(program("cat"), "not_mcp", "refused the handshake", id="echoes"),
    ],
)
@pytest.mark.requirement("UPS-11")
async def test_a_program_that_cannot_be_connected_is_explained(
    server: ServerSettings, kind: str, said: str
) -> None:
    async with upstreams() as opened:
        with anyio.fail_after(20), pytest.raises(UnavailableError) as caught:
            await opened.list_tools(server)
        states = opened.states()

    assert caught.value.kind == FailureKind(kind)
    assert said in caught.value.reason
    assert states == {}


@pytest.mark.parametrize(
    ("mode", "kind", "said"),
    [
        pytest.param("status_401", "auth", "HTTP 401", id="401"),
        pytest.param("status_403", "auth", "HTTP 403", id="403"),
        pytest.param("status_404", "http", "HTTP 404", id="404"),
        pytest.param("status_500", "http", "HTTP 500", id="500"),
        pytest.param("html", "not_mcp", "answers with text/html", id="html"),
        pytest.param("not_json", "not_mcp", "refused the handshake", id="not-json"),
        pytest.param("hang", "timeout", "within 1 s", id="hang"),
    ],
)
@pytest.mark.requirement("UPS-11")
async def test_an_address_that_cannot_be_connected_is_explained(
    mode: str, kind: str, said: str
) -> None:
    with http_server(mode) as url:
        server = remote_server(url, kind="http", timeouts=Timeouts(connect=1))

        async with upstreams() as opened:
            with anyio.fail_after(20), pytest.raises(UnavailableError) as caught:
                await opened.list_tools(server)

    assert caught.value.kind == FailureKind(kind)
    assert said in caught.value.reason
    assert isinstance(caught.value, NeedsAuthError) == (kind == "auth")


@pytest.mark.parametrize(
    ("mode", "kind", "said"),
    [
        pytest.param("status_401", "auth", "HTTP 401", id="401"),
        pytest.param("modern", "http", "HTTP 405", id="not-sse"),
        pytest.param("sse_elsewhere", "not_mcp", "an endpoint of its own", id="elsewhere"),
        pytest.param("sse_silent", "timeout", "within 1 s", id="silent"),
    ],
)
@pytest.mark.requirement("UPS-11")
async def test_an_event_stream_that_cannot_be_connected_is_explained(
    mode: str, kind: str, said: str
) -> None:
    with http_server(mode) as url:
        server = remote_server(url, kind="sse", timeouts=Timeouts(connect=1))

        async with upstreams() as opened:
            with anyio.fail_after(20), pytest.raises(UnavailableError) as caught:
                await opened.list_tools(server)

    assert caught.value.kind == FailureKind(kind)
    assert said in caught.value.reason


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        pytest.param("http://127.0.0.1:9/mcp", "refused", id="refused"),
        pytest.param("http://no-such-host.invalid/mcp", "dns", id="dns"),
        pytest.param("ftp://127.0.0.1/mcp", "other", id="not-http"),
    ],
)
@pytest.mark.requirement("UPS-11")
async def test_an_address_that_nobody_answers_at_is_explained(url: str, kind: str) -> None:
    async with upstreams() as opened:
        with anyio.fail_after(20), pytest.raises(UnavailableError) as caught:
            await opened.list_tools(remote_server(url))

    assert caught.value.kind == FailureKind(kind)


@pytest.mark.requirement("UPS-11")
async def test_tls_to_a_server_without_it_is_explained() -> None:
    with http_server("modern") as url:
        async with upstreams() as opened:
            with anyio.fail_after(20), pytest.raises(UnavailableError) as caught:
                await opened.list_tools(remote_server(url.replace("http:", "https:")))

    assert caught.value.kind == FailureKind.TLS


@pytest.mark.requirement("UPS-11")
async def test_the_last_words_of_a_crashed_program_are_kept() -> None:
    async with upstreams() as opened:
        with anyio.fail_after(20), pytest.raises(UnavailableError) as caught:
            await opened.list_tools(fault_server("crash_start"))

    assert caught.value.stderr == "reading the settings\nno licence found"


@pytest.mark.parametrize(
    ("server", "field"),
    [
        pytest.param(fault_server(env={"TOKEN": "${NO_TOKEN}"}), "env.TOKEN", id="env"),
        pytest.param(program("sh", "-c", "${NO_TOKEN}"), "args.1", id="argument"),
        pytest.param(program("${NO_TOKEN}"), "command", id="command"),
        pytest.param(program("sh", cwd="${NO_TOKEN}"), "cwd", id="cwd"),
        pytest.param(remote_server("http://${NO_TOKEN}/"), "url", id="url"),
        pytest.param(
            remote_server("http://h/", headers={"X-Key": "${NO_TOKEN}"}),
            "headers.X-Key",
            id="header",
        ),
        pytest.param(program("${oops"), "command", id="malformed"),
    ],
)
@pytest.mark.requirement("UPS-12")
async def test_a_reference_without_a_value_is_named_by_its_field(
    server: ServerSettings, field: str
) -> None:
    async with upstreams(environ={}) as opened:
        with anyio.fail_after(20), pytest.raises(NeedsConfigError) as caught:
            await opened.list_tools(server)

    assert caught.value.field == field


@pytest.mark.requirement("UPS-12")
async def test_references_are_resolved_for_the_child_alone() -> None:
    server = fault_server(env={"TOKEN": "${SECRET}"})

    async with upstreams(environ={"SECRET": "s3cret"}) as opened:
        environment = json.loads(await call(opened, server, "environment"))

    assert environment["TOKEN"] == "s3cret"
    assert "SECRET" not in environment


async def test_an_entry_that_was_not_loaded_is_told_as_such() -> None:
    async with upstreams() as opened:
        with pytest.raises(UnavailableError) as caught:
            await opened.list_tools(ServerSettings(ServerName("ghost"), None))

    assert caught.value.kind == FailureKind.NEEDS_CONFIG


@pytest.mark.requirement("UPS-13")
async def test_a_dead_and_a_hanging_server_delay_nobody() -> None:
    dead, hanging = (
        fault_server("crash_start", name="dead"),
        fault_server("hang_start", name="hung"),
    )

    async with upstreams() as opened, anyio.create_task_group() as tasks:
        tasks.start_soon(opened.list_tools, hanging)
        with anyio.fail_after(10):
            with pytest.raises(UnavailableError):
                await opened.list_tools(dead)
            listing = await opened.list_tools(fault_server())
            phase = opened.states()[hanging.name].phase
        tasks.cancel_scope.cancel()

    assert len(listing.tools) == 3
    assert phase is Phase.CONNECTING


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        pytest.param("crash_call", "exited with status 7", id="crash"),
        pytest.param("partial_call", "exited with status 0", id="half-an-answer"),
        pytest.param("orphan_call", "exited with status 5", id="child-holds-the-pipes"),
    ],
)
@ERAS
@pytest.mark.requirement("UPS-14")
async def test_a_call_that_was_under_way_when_the_server_died_has_an_unknown_outcome(
    mode: str, said: str, era: str
) -> None:
    server = fault_server(mode, era=era)

    async with upstreams() as opened:
        first = await pid_of(opened, server)
        with anyio.fail_after(10), pytest.raises(OutcomeUnknownError) as caught:
            await call(opened, server)
        second = await pid_of(opened, server)

    assert said in caught.value.message
    assert first != second


@pytest.mark.parametrize("mode", ["reset_call", "cut_events", "fail_call"])
@pytest.mark.requirement("UPS-14")
async def test_a_call_whose_answer_breaks_off_has_an_unknown_outcome(mode: str) -> None:
    with http_server(mode) as url:
        async with upstreams() as opened:
            await opened.list_tools(remote_server(url))
            with anyio.fail_after(10), pytest.raises(OutcomeUnknownError):
                await call(opened, remote_server(url))
            listing = await opened.list_tools(remote_server(url))

    assert len(listing.tools) == 1


@pytest.mark.parametrize("mode", ["sse_ends", "sse_fails"])
@pytest.mark.requirement("UPS-14")
async def test_a_call_that_the_old_sse_transport_loses_has_an_unknown_outcome(mode: str) -> None:
    with http_server(mode) as url:
        async with upstreams() as opened:
            with anyio.fail_after(10), pytest.raises(OutcomeUnknownError):
                await call(opened, remote_server(url, kind="sse"))


@pytest.mark.requirement("UPS-14")
async def test_the_death_of_a_server_is_noticed_before_the_next_call() -> None:
    server = fault_server("die_after")

    async with upstreams() as opened:
        first = await call(opened, server)
        await eventually(lambda: not opened.states())
        second = await call(opened, server)

    assert first != second


async def test_a_call_that_was_turned_away_is_told_as_that() -> None:
    with http_server("unavailable_call") as url:
        async with upstreams() as opened:
            with anyio.fail_after(10), pytest.raises(UnavailableError) as caught:
                await call(opened, remote_server(url))

    assert caught.value.kind == FailureKind.HTTP


async def test_a_server_that_is_gone_before_a_call_is_refused_not_unknown() -> None:
    async with upstreams() as opened:
        with http_server("modern") as url:
            await opened.list_tools(remote_server(url))
        with anyio.fail_after(10), pytest.raises(UnavailableError) as caught:
            await call(opened, remote_server(url))

    assert caught.value.kind == FailureKind.REFUSED


@ERAS
@pytest.mark.requirement("UPS-15")
async def test_a_call_that_takes_too_long_is_cancelled_and_the_session_goes_on(era: str) -> None:
    server = fault_server("hang_call", era=era, timeouts=Timeouts(call=0.3))

    async with upstreams() as opened:
        pid = await pid_of(opened, server)
        with anyio.fail_after(10), pytest.raises(UpstreamTimeoutError):
            await call(opened, server, "hang")
        cancelled = json.loads(await call(opened, server, "cancelled"))
        pid_after = opened.states()[server.name].pid

    assert len(cancelled) == 1
    assert pid == pid_after


@pytest.mark.requirement("UPS-15")
async def test_a_call_over_http_that_takes_too_long_is_given_up() -> None:
    with http_server("hang_call") as url:
        server = remote_server(url, timeouts=Timeouts(call=0.3))

        async with upstreams() as opened:
            with anyio.fail_after(10), pytest.raises(UpstreamTimeoutError):
                await call(opened, server)
            listing = await opened.list_tools(server)

    assert len(listing.tools) == 1


@ERAS
@pytest.mark.requirement("UPS-16")
async def test_a_caller_who_goes_away_cancels_the_call_and_nothing_else(era: str) -> None:
    server = fault_server("hang_call", era=era)

    async with upstreams() as opened:
        await opened.list_tools(server)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, opened, server, "hang")
            await eventually(lambda: opened.states()[server.name].users == 1)
            await anyio.wait_all_tasks_blocked()
            other = await call(opened, server, "other")
            tasks.cancel_scope.cancel()
        cancelled = json.loads(await call(opened, server, "cancelled"))

    assert other == "other"
    assert len(cancelled) == 1


@pytest.mark.requirement("UPS-16")
async def test_a_caller_who_goes_away_does_not_stop_the_start_for_the_others() -> None:
    server = fault_server()

    async with upstreams() as opened:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(opened.list_tools, server)
            await eventually(lambda: server.name in opened.states())
            tasks.cancel_scope.cancel()
        listing = await opened.list_tools(server)

    assert len(listing.tools) == 3


@pytest.mark.parametrize("mode", ["forgetful", "forgetful_400"])
@pytest.mark.requirement("UPS-17")
async def test_a_call_turned_away_for_a_forgotten_session_is_made_in_a_new_one(mode: str) -> None:
    with http_server(mode) as url:
        async with upstreams() as opened:
            answer = await call(opened, remote_server(url), text="hi")

    assert json.loads(answer) == {"text": "hi"}


@pytest.mark.requirement("UPS-20")
async def test_a_program_sees_none_of_our_environment_but_what_is_harmless_or_declared() -> None:
    canaries = {f"CANARY_{i}": "secret" for i in range(50)}
    ours = os.environ | canaries | {"LD_PRELOAD": "", "PYTHONPATH": "/x", "USER": "() { :; }"}
    server = fault_server(env={"DECLARED": "yes"})

    async with upstreams(environ=ours) as opened:
        environment = json.loads(await call(opened, server, "environment"))

    assert environment.pop("DECLARED") == "yes"
    assert "PATH" in environment
    assert {"USER", "LD_PRELOAD", "PYTHONPATH"}.isdisjoint(environment)
    assert canaries.keys().isdisjoint(environment)


@pytest.mark.parametrize(
    "command", ["x; touch M", "$(touch M)", "`touch M`", "true && touch M", "true\ntouch M"]
)
@pytest.mark.requirement("UPS-21")
async def test_no_shell_reads_a_command(command: str, tmp_path) -> None:
    server = program(command, cwd=str(tmp_path))

    async with upstreams() as opened:
        with pytest.raises(UnavailableError):
            await opened.list_tools(server)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.requirement("UPS-21")
async def test_arguments_and_the_working_directory_arrive_as_they_are(tmp_path) -> None:
    server = fault_server()
    assert isinstance(server.transport, StdioTransport)
    server = replace(server, transport=replace(server.transport, cwd=str(tmp_path)))

    async with upstreams() as opened:
        where = await call(opened, server, "cwd")

    assert where == str(tmp_path)


@pytest.mark.requirement("UPS-22")
async def test_stubborn_programs_are_ended_together() -> None:
    servers = [fault_server("stubborn", name=f"stubborn{i}") for i in range(5)]

    async with upstreams() as opened:
        pids = [await pid_of(opened, server) for server in servers]
        leaving = anyio.current_time()

    assert anyio.current_time() - leaving < 4.5  # one after the other they would take 15 s
    assert not any(is_running(pid) for pid in pids)


@pytest.mark.requirement("UPS-22")
async def test_what_a_program_started_is_ended_with_it() -> None:
    starts_a_child = "import subprocess, sys; subprocess.call([sys.executable, *sys.argv[1:]])"
    inner = fault_server("stubborn").transport
    server = program(sys.executable, "-I", "-c", starts_a_child, *inner.args)
    before = descendants()

    async with upstreams() as opened:
        await opened.list_tools(server)
        started = descendants() - before

    assert len(started) == 2
    await eventually(lambda: not any(is_running(pid) for pid in started))


@pytest.mark.requirement("UPS-23")
async def test_a_program_may_write_as_many_complaints_as_it_likes() -> None:
    server = fault_server("stderr_flood")

    async with upstreams() as opened:
        await opened.list_tools(server)
        answer = await call(opened, server, text="hi")
        stderr = opened.states()[server.name].stderr

    assert json.loads(answer) == {"text": "hi"}
    assert len(stderr.splitlines()) == 20


@ERAS
@pytest.mark.requirement("UPS-30")
async def test_what_is_not_a_message_is_counted_and_skipped(era: str) -> None:
    server = fault_server("noise", era=era)

    async with upstreams() as opened:
        await opened.list_tools(server)
        answer = await call(opened, server, text="hi")
        state = opened.states()[server.name]

    assert json.loads(answer) == {"text": "hi"}
    assert state.garbage > 10
    assert state.samples[0] == "Welcome to the noisy server!"
    assert len(state.samples) == 3


@pytest.mark.parametrize("mode", ["bad_utf8", "surrogate"])
@pytest.mark.requirement("UPS-31")
async def test_text_that_is_not_unicode_is_mended(mode: str) -> None:
    server = fault_server(mode)

    async with upstreams() as opened:
        answer = await call(opened, server)
        sent_back = await call(opened, server, text="\ud83d")

    assert "\ufffd" in answer
    assert sent_back


@pytest.mark.requirement("UPS-31")
async def test_text_that_is_not_unicode_is_mended_over_http() -> None:
    with http_server("surrogate") as url:
        async with upstreams() as opened:
            answer = await call(opened, remote_server(url), text="\ud83d")

    assert answer == "half \ufffd a pair"


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        pytest.param("huge", "longer than 8 MiB", id="huge"),
        pytest.param("huge_id_last", "longer than 8 MiB", id="huge-id-last"),
        pytest.param("deep", "too deeply", id="deep"),
        pytest.param("nested", "100 levels", id="nested"),
        pytest.param("nan", "NaN", id="nan"),
    ],
)
@pytest.mark.requirement("UPS-32")
async def test_an_answer_that_cannot_be_read_fails_its_own_call_at_once(
    mode: str, said: str
) -> None:
    server = fault_server(mode, timeouts=Timeouts(call=15))

    async with upstreams() as opened:
        with anyio.fail_after(10), pytest.raises(UpstreamProtocolError) as caught:
            await call(opened, server, "huge")
        listing = await opened.list_tools(server)

    assert said in caught.value.message
    assert len(listing.tools) == 3


@ERAS
@pytest.mark.requirement("UPS-40")
async def test_a_malformed_tool_costs_itself_alone(era: str) -> None:
    async with upstreams() as opened:
        listing = await opened.list_tools(fault_server("bad_tools", era=era))

    assert [tool["name"] for tool in listing.tools] == ["first", "last"]
    assert listing.tools[1]["vendor"] == {"kept": True}
    assert {tool.name: tool.reason for tool in listing.dropped} == {
        "no_schema": "it has no inputSchema",
        "schema_of_text": "its inputSchema is not an object",
        "schema_of_array": "its inputSchema has type 'array', not 'object'",
        "odd_properties": "the properties of its inputSchema are not an object",
        "#6": "its name is not a non-empty string",
        "#7": "its name is not a non-empty string",
        "#8": "it is not an object",
        "odd_description": "its description is not a string",
        "too_big": "it is larger than 64 KiB",
        "first": "an earlier tool has the same name",
    }


@pytest.mark.parametrize(
    ("mode", "count", "cut"),
    [
        pytest.param("ten_pages", 10, "", id="whole"),
        pytest.param("cursor_loop", 2, "its cursor 'again' repeats", id="loop"),
        pytest.param("endless_pages", 1000, "it has more than 1000 pages", id="endless"),
        pytest.param("listing_fails", 3, "page 2 failed: no such page", id="fails"),
        pytest.param("listing_hangs", 3, "no further page came within 5 s", id="hangs"),
    ],
)
@pytest.mark.requirement("UPS-41")
async def test_pages_are_read_to_the_end_and_kept_if_there_is_none(
    mode: str, count: int, cut: str
) -> None:
    server = fault_server(mode, timeouts=Timeouts(list=1 if mode == "listing_hangs" else 30))

    async with upstreams() as opened:
        with anyio.fail_after(30):
            listing = await opened.list_tools(server)

    assert len(listing.tools) == count
    assert listing.cut == cut.replace("5 s", "1 s")


@pytest.mark.requirement("UPS-41")
async def test_a_list_that_never_begins_is_an_error() -> None:
    with http_server("hang_call") as url:
        assert url
    server = fault_server("listing_nonsense")

    async with upstreams() as opened:
        with anyio.fail_after(10), pytest.raises(UpstreamProtocolError) as caught:
            await opened.list_tools(server)

    assert "no list of tools" in caught.value.message


@pytest.mark.requirement("UPS-42")
async def test_a_server_may_say_how_long_its_list_holds() -> None:
    async with upstreams() as opened:
        listing = await opened.list_tools(fault_server("ttl"))

    assert listing.ttl == 5.0


@ERAS
@pytest.mark.requirement("UPS-43")
async def test_a_storm_of_changes_is_told_once_until_the_tools_are_listed_again(era: str) -> None:
    server, events = fault_server("list_changed", era=era), EventBus()
    told: list[object] = []

    async def storm() -> None:
        await opened.list_tools(server)
        await opened.call(server, "change", {})
        await eventually(lambda: told.count(ToolsChanged(server.name)) > before)

    async with upstreams(events=events) as opened:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_collect, events, told)
            await anyio.wait_all_tasks_blocked()
            for before in range(2):
                await storm()
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()

    assert told == [
        ServerConnecting(server.name),
        *[ServerDiscovering(server.name), ToolsChanged(server.name)] * 2,
    ]


async def _collect(events: EventBus, told: list[object]) -> None:
    with events.subscribe() as news:
        async for event in news:
            told.append(event)


@pytest.mark.requirement("UPS-44")
async def test_a_server_that_knows_no_tools_has_none() -> None:
    async with upstreams() as opened:
        listing = await opened.list_tools(fault_server("no_tools"))

    assert listing.tools == ()


@ERAS
@pytest.mark.requirement("UPS-50")
async def test_a_result_arrives_whole_even_if_the_tool_failed(era: str) -> None:
    async with upstreams() as opened:
        result = await opened.call(fault_server("tool_error", era=era), "echo", {})

    assert result == {
        "content": [{"type": "text", "text": "it did not work"}],
        "isError": True,
        "_meta": {"vendor": 1},
    }


@pytest.mark.requirement("UPS-50")
async def test_a_wish_for_more_input_arrives_as_it_is() -> None:
    async with upstreams() as opened:
        result = await opened.call(fault_server("input_required"), "echo", {})

    assert result["resultType"] == "input_required"
    assert result["inputRequests"]["q"]["method"] == "elicitation/create"


@pytest.mark.parametrize(
    ("mode", "code", "said"),
    [("refuses_call", -32602, "Invalid arguments"), ("odd_error", 0, "it gave no message")],
)
@pytest.mark.requirement("UPS-51")
async def test_a_refused_call_tells_why(mode: str, code: int, said: str) -> None:
    async with upstreams() as opened:
        with anyio.fail_after(10), pytest.raises(UpstreamProtocolError) as caught:
            await call(opened, fault_server(mode))

    assert (caught.value.rpc_code, said in caught.value.message) == (code, True)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.requirement("UPS-51")
async def test_arguments_that_json_cannot_express_are_not_sent(value: float) -> None:
    with http_server("modern") as url:
        async with upstreams() as opened:
            for server in (fault_server(), remote_server(url)):
                with anyio.fail_after(10), pytest.raises(UpstreamProtocolError):
                    await call(opened, server, text=value)
                assert json.loads(await call(opened, server, text="ok")) == {"text": "ok"}


@ERAS
@pytest.mark.requirement("UPS-52")
async def test_progress_is_passed_on(era: str) -> None:
    told: list[tuple] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        told.append((done, total, message))

    async with upstreams() as opened:
        server = fault_server("progress", era=era)
        await opened.call(server, "echo", {}, on_progress=on_progress)

    assert told == [(1.0, 3.0, "step 1"), (2.0, 3.0, "step 2"), (3.0, 3.0, "step 3")]


@pytest.mark.requirement("UPS-52")
async def test_progress_is_passed_on_over_http() -> None:
    told: list[tuple] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        told.append((done, total, message))

    with http_server("events") as url:
        async with upstreams() as opened:
            await opened.call(remote_server(url), "echo", {}, on_progress=on_progress)

    assert told == [(1.0, None, "half way")]


@pytest.mark.requirement("UPS-53")
async def test_what_a_server_asks_of_us_is_answered_or_refused_never_left_hanging() -> None:
    async with upstreams() as opened:
        answers = json.loads(await call(opened, fault_server("asks_back", era="legacy")))

    assert answers[0]["result"] == {}
    assert all("not supported" in answer["error"]["message"] for answer in answers[1:])
    assert len(answers) == 4


@pytest.mark.requirement("UPS-53")
async def test_a_flood_of_requests_does_not_hold_up_the_answer() -> None:
    server = fault_server("floods_requests", era="legacy")

    async with upstreams() as opened:
        first = await call(opened, server)
        second = await call(opened, server)

    assert (first, second) == ("flooded", "flooded")


@pytest.mark.parametrize("lists_first", [True, False])
@pytest.mark.requirement("UPS-54")
async def test_arguments_are_copied_to_headers_where_a_tool_wants_it(lists_first: bool) -> None:
    with http_server("mirrors") as url:
        server = remote_server(url)

        async with upstreams() as opened:
            if lists_first:
                await opened.list_tools(server)
            answer = await call(opened, server, text="ünïcode")

    assert json.loads(answer) == {"text": "ünïcode"}


@pytest.mark.requirement("UPS-54")
async def test_a_tool_that_wants_an_impossible_header_is_dropped_alone() -> None:
    with http_server("bad_mirror") as url:
        async with upstreams() as opened:
            listing = await opened.list_tools(remote_server(url))

    assert [tool["name"] for tool in listing.tools] == ["echo"]
    assert [tool.name for tool in listing.dropped] == ["odd"]
