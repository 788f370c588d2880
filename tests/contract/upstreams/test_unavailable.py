"""Servers that cannot be connected: each is explained, and none holds up another."""

from __future__ import annotations

import json

import anyio
import pytest

from discovery_engine.config.settings import ServerSettings, Timeouts
from discovery_engine.errors import (
    FailureKind,
    NeedsAuthError,
    NeedsConfigError,
    UnavailableError,
)
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.state import ServerState
from tests.rows import rows
from tests.servers.programs import (
    call,
    fault_server,
    http_server,
    program,
    remote_server,
    upstreams,
)

pytestmark = pytest.mark.anyio


@pytest.mark.thorough
@rows(
    ("server", "kind", "said"),
    [
        pytest.param(program("no-such-program"), "not_found", "not on the PATH", id="missing"),
        pytest.param(
            program("./no/such"), "not_found", "no program 'such' at the path", id="no-file"
        ),
        pytest.param(
            program("uvx", env={"PATH": "/nowhere"}),
            "not_found",
            "'uvx' is not on the PATH",
            id="uvx",
        ),
        pytest.param(program(__file__), "permission", "may not be executed", id="not-executable"),
        pytest.param(
            program("sh", cwd="/no/such"),
            "not_found",
            "working directory does not exist",
            id="no-directory",
        ),
        pytest.param(program("sh", "a\0b"), "needs_config", "zero character", id="nul"),
        pytest.param(fault_server("crash_start"), "exited", "exited with status 3", id="crash"),
        pytest.param(program("sh", "-c", "kill -9 $$"), "exited", "by SIGKILL", id="killed"),
        pytest.param(
            fault_server("hang_start", timeouts=Timeouts(connect=0.5)),
            "timeout",
            "within 0.5 s",
            id="hang",
        ),
        pytest.param(
            program(
                "sh",
                "-c",
                r"printf 'Welcome to \033[31mthe shop\n'; cat >/dev/null",
                connect=2,
            ),
            "not_mcp",
            "within 2 s; it wrote a line to stdout that is not MCP"
            ' (it wrote "Welcome to the shop")',
            id="talks",
        ),
        pytest.param(
            program("sh", "-c", "echo Welcome; printf 'Password: '; cat >/dev/null", connect=2),
            "not_mcp",
            "within 2 s; it wrote a line without an end to stdout that is not MCP"
            ' (it wrote "Password:")',
            id="asks",
        ),
        pytest.param(
            program("sh", "-c", "echo 'usage: shop'; exit 2"),
            "exited",
            "status 2 before the handshake was done; it wrote a line to stdout that is not MCP"
            ' (it wrote "usage: shop")',
            id="explains-its-usage",
        ),
        pytest.param(fault_server("handshake_error"), "not_mcp", "not one of MCP", id="strange"),
        pytest.param(program("cat"), "not_mcp", "refused the handshake", id="echoes"),
    ],
)
@pytest.mark.requirement("UPS-11")
async def test_a_program_that_cannot_be_connected_is_explained(
    server: ServerSettings, kind: str, said: str
) -> None:
    async with upstreams() as opened:
        with anyio.fail_after(60), pytest.raises(UnavailableError) as caught:
            await opened.list_tools(server)
        states = opened.sessions()

    assert caught.value.kind == FailureKind(kind)
    assert said in f"{caught.value.reason} ({caught.value.detail})"
    assert states == {}


@pytest.mark.thorough
@rows(
    ("mode", "kind", "said"),
    [
        pytest.param("status_401", "auth", "HTTP 401", id="401"),
        pytest.param("status_403", "auth", "HTTP 403", id="403"),
        pytest.param("status_404", "http", "HTTP 404", id="404"),
        pytest.param("status_500", "http", "HTTP 500", id="500"),
        pytest.param("html", "not_mcp", "answers with text/html", id="html"),
        pytest.param("not_json", "not_mcp", "it cannot be read", id="not-json"),
        pytest.param("hang", "timeout", "within 1 s", id="hang"),
    ],
)
@pytest.mark.requirement("UPS-11")
async def test_an_address_that_cannot_be_connected_is_explained(
    mode: str, kind: str, said: str
) -> None:
    with http_server(mode) as url:
        server = remote_server(url, kind="http", timeouts=patience(kind))

        async with upstreams() as opened:
            with anyio.fail_after(60), pytest.raises(UnavailableError) as caught:
                await opened.list_tools(server)

    assert caught.value.kind == FailureKind(kind)
    assert said in caught.value.reason
    assert isinstance(caught.value, NeedsAuthError) == (kind == "auth")


ELSEWHERE = 'a redirect to "https://new.example:8443", which is not followed'


@pytest.mark.thorough
@rows(
    ("redirect", "said"),
    [
        pytest.param("301 https://me:k3y@new.example:8443/k3y?k3y#k3y", ELSEWHERE, id="301"),
        pytest.param("302 //new.example/k3y", '"http://new.example"', id="302-no-scheme"),
        pytest.param("303 https://NEW.example/k3y", '"https://new.example"', id="303"),
        pytest.param("307 http://169.254.169.254/k3y", '"http://169.254.169.254"', id="metadata"),
        pytest.param("308 http://[fd00::1]:81/k3y", '"http://[fd00::1]:81"', id="308-ipv6"),
        pytest.param("307 file:///etc/k3y", "leads to no HTTP address", id="file"),
        pytest.param("307 http://h:k3y/", "leads to no HTTP address", id="no-port"),
        pytest.param("307 http://[k3y/", "leads to no HTTP address", id="no-host"),
        pytest.param("307 ", "HTTP 307, a redirect", id="to-nowhere"),
        pytest.param("301 /k3y", "of its own, which is not followed: the request", id="own-path"),
        pytest.param("308 /k3y", "a redirect after 5 others", id="circle"),
        pytest.param("sse 301 https://new.example:8443/k3y", ELSEWHERE, id="sse"),
        pytest.param("sse 308 /k3y", "which is not followed: its event stream", id="sse-own-path"),
    ],
)
@pytest.mark.requirement("UPS-72")
async def test_a_redirect_is_explained_by_the_host_it_leads_to(redirect: str, said: str) -> None:
    kind = "sse" if redirect.startswith("sse") else "auto"
    redirect = redirect.removeprefix("sse ")
    with http_server(f"redirect {redirect}") as url:
        async with upstreams() as opened:
            with anyio.fail_after(60), pytest.raises(UnavailableError) as caught:
                await opened.list_tools(remote_server(url, kind=kind))

    told = f"{caught.value} {caught.value.hint}"
    assert caught.value.kind is FailureKind.HTTP
    assert said in told
    assert f"HTTP {redirect[:3]}" in told
    assert "`url` of server 'remote'" in told
    assert "k3y" not in told


@rows(
    ("mode", "kind", "said"),
    [
        pytest.param("status_401", "auth", "HTTP 401", id="401"),
        pytest.param("modern", "http", "HTTP 405", id="not-sse"),
        pytest.param("sse_elsewhere", "not_mcp", "which is not used", id="elsewhere"),
        pytest.param("sse_silent", "timeout", "within 1 s", id="silent"),
    ],
)
@pytest.mark.requirement("UPS-11")
async def test_an_event_stream_that_cannot_be_connected_is_explained(
    mode: str, kind: str, said: str
) -> None:
    with http_server(mode) as url:
        server = remote_server(url, kind="sse", timeouts=patience(kind))

        async with upstreams() as opened:
            with anyio.fail_after(60), pytest.raises(UnavailableError) as caught:
                await opened.list_tools(server)

    assert caught.value.kind == FailureKind(kind)
    assert said in caught.value.reason


@rows(
    ("url", "kind", "said"),
    [
        pytest.param(
            "http://u:secret@127.0.0.1:9/mcp?key=secret",
            "refused",
            "connection refused by 127.0.0.1:9",
            id="refused",
        ),
        pytest.param(
            "http://no-such-host.invalid/mcp",
            "dns",
            "host 'no-such-host.invalid' cannot be resolved",
            id="dns",
        ),
    ],
)
@pytest.mark.requirement("UPS-11")
async def test_an_address_that_nobody_answers_at_is_explained(
    url: str, kind: str, said: str
) -> None:
    async with upstreams() as opened:
        with anyio.fail_after(60), pytest.raises(UnavailableError) as caught:
            await opened.list_tools(remote_server(url))

    assert caught.value.kind == FailureKind(kind)
    assert ": ".join(filter(None, (caught.value.reason, caught.value.detail))) == said


@pytest.mark.requirement("UPS-11")
async def test_tls_to_a_server_without_it_is_explained() -> None:
    with http_server("modern") as url:
        async with upstreams() as opened:
            with anyio.fail_after(60), pytest.raises(UnavailableError) as caught:
                await opened.list_tools(remote_server(url.replace("http:", "https:")))

    assert caught.value.kind == FailureKind.TLS
    assert "has an unexpected TLS response" in caught.value.reason


@pytest.mark.requirement("UPS-11")
async def test_the_last_words_of_a_crashed_program_are_kept() -> None:
    async with upstreams() as opened:
        with anyio.fail_after(60), pytest.raises(UnavailableError) as caught:
            await opened.list_tools(fault_server("crash_start"))

    assert caught.value.stderr == "reading the settings\nno licence found"


@rows(
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
        with anyio.fail_after(60), pytest.raises(NeedsConfigError) as caught:
            await opened.list_tools(server)

    assert [one.field for one in caught.value.missing] == [field]


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
        with anyio.fail_after(60):
            with pytest.raises(UnavailableError):
                await opened.list_tools(dead)
            listing = await opened.list_tools(fault_server())
            state = opened.states()[hanging.name].state
        tasks.cancel_scope.cancel()

    assert len(listing.tools) == 3
    assert state is ServerState.STARTING


def patience(kind: str) -> Timeouts:
    """Little where it is meant to run out, and else enough for a busy machine."""
    return Timeouts(connect=1 if kind == "timeout" else 30)
