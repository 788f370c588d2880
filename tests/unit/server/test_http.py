from __future__ import annotations

import socket
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from discovery_engine.errors import ConfigurationError
from discovery_server import http

pytestmark = pytest.mark.anyio


async def status(*headers: tuple[str, str], allow_remote: bool = False) -> int:
    async def page(_: Any) -> PlainTextResponse:
        return PlainTextResponse("in")

    app = http.Guard(Starlette(routes=[Route("/", page)]), allow_remote=allow_remote)
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://x") as client:
        request = client.build_request("GET", "/")
        request.headers = httpx2.Headers(list(headers))
        return (await client.send(request)).status_code


@pytest.mark.requirement("SRV-11")
@pytest.mark.parametrize(
    ("host", "expected"),
    [
        pytest.param("127.0.0.1:8000", 200, id="address"),
        pytest.param("localhost", 200, id="name"),
        pytest.param("LOCALHOST:8000", 200, id="name in capitals"),
        pytest.param("[::1]:8000", 200, id="IPv6"),
        pytest.param("127.9.9.9", 200, id="another loopback address"),
        pytest.param("evil.example", 421, id="foreign"),
        pytest.param("localhost.evil.example", 421, id="foreign that begins alike"),
        pytest.param("127.0.0.1.nip.io", 421, id="name that resolves to loopback"),
        pytest.param("localhost:evil", 421, id="port that is none"),
        pytest.param("user@localhost", 421, id="credentials"),
        pytest.param("localhost/x", 421, id="path"),
        pytest.param("[::1", 421, id="half an address"),
        pytest.param("", 421, id="empty"),
    ],
)
async def test_only_this_machines_names_are_answered(host: str, expected: int) -> None:
    assert await status(("host", host)) == expected


@pytest.mark.requirement("SRV-11")
async def test_host_must_be_said_exactly_once() -> None:
    assert await status() == 421
    assert await status(("host", "localhost"), ("host", "localhost")) == 421


@pytest.mark.requirement("SRV-12")
@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        pytest.param("http://localhost:3000", 200, id="local page"),
        pytest.param("http://127.0.0.1", 200, id="local address"),
        pytest.param("http://[::1]:1", 200, id="IPv6"),
        pytest.param("null", 403, id="sandboxed frame"),
        pytest.param("https://evil.example", 403, id="foreign"),
        pytest.param("http://localhost.evil.example", 403, id="begins alike"),
        pytest.param("http://127.0.0.1.evil.example", 403, id="begins like the address"),
        pytest.param("file://localhost", 403, id="another scheme"),
        pytest.param("", 403, id="empty"),
    ],
)
async def test_pages_of_others_are_turned_away(origin: str, expected: int) -> None:
    assert await status(("host", "localhost:8000"), ("origin", origin)) == expected


async def test_remote_serving_takes_any_name_and_pages_of_that_name() -> None:
    host = ("host", "tools.example:8000")

    assert await status(host, allow_remote=True) == 200
    assert await status(host, ("origin", "https://tools.example"), allow_remote=True) == 200
    assert await status(host, ("origin", "https://evil.example"), allow_remote=True) == 403


@pytest.mark.requirement("SRV-10")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.org", ""])
def test_other_machines_are_served_only_when_allowed(host: str) -> None:
    http.require_loopback(host, allow_remote=True)

    with pytest.raises(ConfigurationError, match="can be reached from other machines"):
        http.require_loopback(host, allow_remote=False)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_this_machine_is_served(host: str) -> None:
    http.require_loopback(host, allow_remote=False)


def test_port_in_use_is_a_problem_of_the_configuration() -> None:
    with http.listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]

        with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1:{port}: "):
            http.listen("127.0.0.1", port)


@pytest.mark.parametrize(
    ("family", "host", "start"),
    [
        pytest.param(socket.AF_INET, "127.0.0.1", "http://127.0.0.1:", id="IPv4"),
        pytest.param(socket.AF_INET6, "::1", "http://[::1]:", id="IPv6"),
    ],
)
def test_address_is_what_clients_connect_to(family: int, host: str, start: str) -> None:
    try:
        listener = http.listen(host, 0)
    except ConfigurationError:
        pytest.skip("this machine has no such address")
    with listener:
        assert listener.family == family
        assert http.address(listener).startswith(start)
        assert http.address(listener).endswith("/mcp")
