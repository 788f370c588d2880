from __future__ import annotations

import socket

import httpx2
import pytest
from msgspec.structs import replace

from discovery_engine.errors import ConfigurationError
from discovery_server.http.guard import Endpoint, require_allowed
from tests.rows import rows
from tests.unit.server.fakes import make_engine
from tests.unit.server.web import service_of

pytestmark = pytest.mark.anyio


def guarded(endpoint: Endpoint) -> httpx2.AsyncClient:
    app = service_of(make_engine(), endpoint=endpoint).app
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://x")


async def status(*headers: tuple[str, str], endpoint: Endpoint = Endpoint()) -> int:  # noqa: B008
    async with guarded(endpoint) as client:
        request = client.build_request("GET", "/health")
        request.headers = httpx2.Headers(list(headers))
        return (await client.send(request)).status_code


@pytest.mark.requirement("SRV-11")
@rows(
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
        pytest.param(":@localhost", 421, id="empty credentials"),
        pytest.param("localhost/x", 421, id="path"),
        pytest.param("localhost#x", 421, id="fragment"),
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
@rows(
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


NAMED = Endpoint(allowed_hosts=("Tools.example", "box"))
REMOTE = replace(NAMED, allow_remote=True)


@pytest.mark.requirement("SRV-16")
@rows(
    ("host", "expected"),
    [
        pytest.param("tools.example:8000", 200, id="name"),
        pytest.param("BOX", 200, id="name in capitals"),
        pytest.param("192.168.1.7:8000", 200, id="address"),
        pytest.param("[2001:db8::7]", 200, id="IPv6"),
        pytest.param("localhost:8000", 200, id="this machine"),
        pytest.param("evil.example", 421, id="name of a page that was pointed here"),
        pytest.param("www.tools.example", 421, id="below a name"),
        pytest.param("192.168.1.7.nip.io", 421, id="name that resolves to the address"),
        pytest.param("192.168.1.7@evil.example", 421, id="address as a user"),
    ],
)
async def test_other_machines_must_call_it_by_a_name_of_its_own(host: str, expected: int) -> None:
    assert await status(("host", host), endpoint=REMOTE) == expected


@pytest.mark.requirement("SRV-12", "SRV-16")
async def test_only_pages_of_the_name_that_was_called_are_answered() -> None:
    host = ("host", "tools.example:8000")

    assert await status(host, ("origin", "https://tools.example"), endpoint=NAMED) == 200
    assert await status(host, ("origin", "http://localhost:6274"), endpoint=NAMED) == 200
    assert await status(host, ("origin", "https://box"), endpoint=NAMED) == 403
    assert await status(host, ("origin", "https://evil.example"), endpoint=NAMED) == 403


@pytest.mark.requirement("SRV-16")
async def test_names_alone_let_no_other_address_in() -> None:
    assert await status(("host", "tools.example"), endpoint=NAMED) == 200
    assert await status(("host", "192.168.1.7"), endpoint=NAMED) == 421


@pytest.mark.requirement("SRV-16")
async def test_a_name_that_was_refused_is_told_once_with_what_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with guarded(Endpoint()) as client:
        for _ in range(2):
            await client.get("http://tools.example:8000/health")
        for number in range(100):
            await client.get(f"http://{number}.evil.example/health")

    told = caplog.messages
    assert told[0].startswith("A request for host 'tools.example' was refused")
    assert "--allowed-host" in told[0]
    assert len(told) == len(set(told)) == 20


@pytest.mark.requirement("SRV-16")
def test_the_network_knows_a_machine_by_its_name_and_by_what_it_listens_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "Box.lan")

    names = Endpoint("Tools.example", allow_remote=True).names()

    assert names == {"tools.example", "box.lan", "box", "box.local"}


@pytest.mark.requirement("SRV-10")
@rows("host", ["0.0.0.0", "::", "192.168.1.7", "example.org", ""])
def test_other_machines_are_served_only_when_allowed(host: str) -> None:
    require_allowed(Endpoint(host, allow_remote=True), has_token=True)

    with pytest.raises(ConfigurationError, match="can be reached from other machines"):
        require_allowed(Endpoint(host), has_token=True)


@pytest.mark.requirement("SRV-24")
@rows("host", ["0.0.0.0", "::", "192.168.1.7", "example.org", "", "127.0.0.1"])
def test_other_machines_are_never_served_without_a_token(host: str) -> None:
    with pytest.raises(ConfigurationError, match="without a token"):
        require_allowed(Endpoint(host, allow_remote=True), has_token=False)


@rows("has_token", [True, False])
@rows("host", ["127.0.0.1", "localhost", "::1"])
def test_this_machine_is_served(host: str, has_token: bool) -> None:
    require_allowed(Endpoint(host), has_token=has_token)
