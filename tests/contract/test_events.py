"""Events over a WebSocket, and the sessions of browsers: specs/api.md."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from discovery_engine._util.json import JSONObject
from discovery_engine.config.settings import ServerSettings
from discovery_engine.engine import Engine
from discovery_engine.events import ToolCalled
from discovery_engine.tools.model import ServerName, ToolName
from discovery_server.access_tokens import AccessTokens
from discovery_server.api.event_feed import event_form
from discovery_server.http.browser_sessions import BrowserSessions
from discovery_server.http.users import User
from discovery_server.http_service import HttpService
from discovery_server.tokens import parse_tokens
from tests.engines import Folder, good
from tests.plain_http import NO_TLS
from tests.unit.server.web import running, service_of

pytestmark = pytest.mark.anyio

OWN = "owner-token-of-forty-three-characters-12345"


@dataclass
class Host:
    """A gateway with a page, on a loopback port."""

    origin: str
    engine: Engine
    service: HttpService
    tokens: AccessTokens
    http: httpx2.AsyncClient = field(
        default_factory=lambda: httpx2.AsyncClient(timeout=60, verify=NO_TLS)
    )

    def connect(self, query: str = "", token: str | None = OWN, **headers: str) -> Any:
        if token:
            headers["Authorization"] = f"Bearer {token}"
        address = self.origin.replace("http", "ws", 1) + f"/events{query}"
        return connect(address, additional_headers=headers, proxy=None)

    def own(self, **headers: str) -> dict[str, str]:
        """The headers of a request that the page of this address makes."""
        return {"origin": self.origin, "sec-fetch-site": "same-origin", **headers}

    async def open_session(self) -> str:
        """The cookie of a browser that was given a code."""
        code = self.service.new_code()
        url = f"{self.origin}/session"
        answer = await self.http.post(url, json={"code": code}, headers=self.own())
        assert answer.status_code == 204
        self.http.cookies.clear()
        return answer.headers["set-cookie"].partition(";")[0]


@asynccontextmanager
async def hosted(folder: Folder, *servers: ServerSettings, **sections: Any) -> AsyncIterator[Host]:
    folder.write(*(servers or [good()]), **sections)
    tokens = AccessTokens(folder.data / "tokens.json")
    async with folder.open() as engine:
        await engine.refresh()
        service = service_of(engine, parse_tokens(OWN), data=folder.data)
        async with running(service) as address:
            host = Host(address.removesuffix("/mcp"), engine, service, tokens)
            async with host.http:
                with anyio.fail_after(60):
                    yield host


async def received(socket: ClientConnection) -> JSONObject:
    return json.loads(await socket.recv())


async def until(socket: ClientConnection, kind: str) -> JSONObject:
    """The next event of a kind."""
    while True:
        frame = await received(socket)
        for event in frame.get("events", ()):
            if event["type"] == kind:
                return event


@pytest.mark.thorough
@pytest.mark.requirement("VIEW-22")
async def test_the_events_of_a_revoked_token_end_and_those_of_others_stay(folder: Folder) -> None:
    admin: frozenset[Any] = frozenset({"read", "admin"})
    async with hosted(folder) as host:
        value, token = host.tokens.create(scopes=admin)
        async with host.connect(token=value) as ending, host.connect() as staying:
            states = [(await received(socket))["type"] for socket in (ending, staying)]
            host.tokens.revoke(token.id)
            with pytest.raises(ConnectionClosed) as closed:
                await received(ending)
            await host.engine.servers.disable("good")
            event = await until(staying, "configuration_reloaded")

    assert states == ["state"] * 2
    assert closed.value.rcvd
    assert closed.value.rcvd.code == 1008
    assert event


@pytest.mark.requirement("API-10")
async def test_a_client_gets_the_state_and_then_each_event_with_the_next_number(
    folder: Folder,
) -> None:
    async with hosted(folder) as host, host.connect() as socket:
        state = await received(socket)
        for _ in range(3):
            await host.engine.execute("good", "echo", {"text": "hello"})
        calls, numbers = [], []
        while len(calls) < 3:
            frame = await received(socket)
            numbers += [event["sequence"] for event in frame["events"]]
            calls += [event for event in frame["events"] if event["type"] == "tool_called"]

    assert state["type"] == "state"
    assert [server["name"] for server in state["servers"]] == ["good"]
    assert numbers == [state["sequence"] + 1 + i for i in range(len(numbers))]
    assert (calls[0]["server"], calls[0]["tool"], calls[0]["outcome"]) == ("good", "echo", "ok")
    assert "hello" not in json.dumps(calls)


@pytest.mark.thorough
@pytest.mark.requirement("API-11")
async def test_a_client_that_was_away_gets_what_it_missed(folder: Folder) -> None:
    async with hosted(folder) as host:
        async with host.connect() as socket:
            state = await received(socket)
            await host.engine.execute("good", "echo", {"text": "1"})
            seen = (await until(socket, "tool_called"))["sequence"]
        await host.engine.execute("good", "pid", {})
        async with host.connect(f"?stream={state['stream']}&after={seen}") as again:
            missed = await until(again, "tool_called")

    assert (missed["tool"], missed["sequence"]) == ("pid", seen + 1)


@pytest.mark.thorough
@pytest.mark.requirement("API-11")
@pytest.mark.parametrize("query", ["?stream=another&after=1", "?after=99999", "?after=nonsense"])
async def test_a_client_that_cannot_go_on_gets_the_state_anew(folder: Folder, query: str) -> None:
    async with hosted(folder) as host, host.connect(query) as socket:
        assert (await received(socket))["type"] == "state"
        await socket.send('{"type": "refresh"}')
        assert (await received(socket))["type"] == "state"


@pytest.mark.thorough
@pytest.mark.requirement("API-12")
async def test_a_client_that_does_not_read_is_dropped_and_holds_up_nobody(folder: Folder) -> None:
    async with hosted(folder) as host, host.service._feed.client() as slow, host.connect() as other:
        await received(other)
        called = ToolCalled(ServerName("good"), ToolName("echo"), "ok", 0.1)
        for _ in range(150):
            host.service._feed._publish([event_form(called)])
            await received(other)
        assert slow.is_dropped
        assert await slow.next() is None


@pytest.mark.thorough
@pytest.mark.requirement("API-12")
async def test_the_fifty_first_client_is_refused_and_the_others_go_on(folder: Folder) -> None:
    async with hosted(folder) as host, anyio.create_task_group() as tasks:
        stack = [host.service._feed.client() for _ in range(49)]
        for one in stack:
            await one.__aenter__()
        async with host.connect() as last:
            await received(last)
            async with host.connect() as refused:
                with pytest.raises(ConnectionClosed) as closed:
                    await refused.recv()
            await last.send('{"type": "refresh"}')
            assert (await received(last))["type"] == "state"
        assert closed.value.rcvd is not None
        assert "50 clients" in closed.value.rcvd.reason
        tasks.cancel_scope.cancel()


@pytest.mark.thorough
@pytest.mark.requirement("API-10")
@pytest.mark.parametrize("sent", ["{", "[]", '{"type": "call"}', "[" * 4000])
async def test_what_is_no_message_is_answered_with_an_error(folder: Folder, sent: str) -> None:
    async with hosted(folder) as host, host.connect() as socket:
        await received(socket)
        await socket.send(sent)
        assert (await received(socket))["type"] == "error"


@pytest.mark.thorough
@pytest.mark.requirement("API-10")
async def test_a_frame_of_more_than_four_kilobytes_ends_the_connection(folder: Folder) -> None:
    async with hosted(folder) as host, host.connect() as socket:
        await received(socket)
        await socket.send("x" * 5000)
        with pytest.raises(ConnectionClosed):
            await socket.recv()


@pytest.mark.thorough
@pytest.mark.requirement("API-13")
async def test_events_need_a_token_with_the_scope_admin(folder: Folder) -> None:
    async with hosted(folder) as host:
        client = host.tokens.create()[0]
        for options in ({"token": None}, {"token": "another"}, {"token": client}):
            with pytest.raises(InvalidStatus) as refused:
                async with host.connect(**options):
                    pass
            assert refused.value.response.status_code == 403


@pytest.mark.thorough
@pytest.mark.requirement("API-14")
async def test_a_code_opens_one_session_whose_cookie_no_script_reads(folder: Folder) -> None:
    async with hosted(folder) as host:
        code = host.service.new_code()
        url = f"{host.origin}/session"
        first = await host.http.post(url, json={"code": code}, headers=host.own())
        host.http.cookies.clear()
        second = await host.http.post(url, json={"code": code}, headers=host.own())
        wrong = await host.http.post(url, json={"code": 5}, headers=host.own())
        by_token = await host.http.post(
            url, headers=host.own(authorization=f"Bearer {OWN}"), content=b""
        )

    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert [one.status_code for one in (second, wrong)] == [401, 401]
    assert by_token.status_code == 204


@pytest.mark.thorough
@pytest.mark.requirement("API-15")
async def test_a_cookie_is_valid_only_for_the_page_of_this_very_address(folder: Folder) -> None:
    async with hosted(folder) as host:
        cookie = await host.open_session()
        port = int(host.origin.rpartition(":")[2])
        other = f"http://127.0.0.1:{port + 1}"
        from_others: list[dict[str, str]] = [
            {},
            {"origin": other},
            {"origin": other, "sec-fetch-site": "same-site"},
            {"origin": host.origin, "sec-fetch-site": "same-site"},
            {"origin": host.origin, "sec-fetch-site": "cross-site"},
            {"origin": "null", "sec-fetch-site": "same-origin"},
            {"sec-fetch-site": "same-site"},
        ]
        reload = f"{host.origin}/api/reload"
        for headers in from_others:
            answer = await host.http.post(reload, json={}, headers={"cookie": cookie, **headers})
            assert answer.status_code in (401, 403), headers
            with pytest.raises(InvalidStatus):
                async with host.connect(token=None, Cookie=cookie, **headers):
                    pass
        written = await host.http.post(reload, json={}, headers=host.own(cookie=cookie))
        read = await host.http.get(
            f"{host.origin}/api/status", headers={"cookie": cookie, "sec-fetch-site": "same-origin"}
        )
        async with host.connect(token=None, Cookie=cookie, Origin=host.origin) as socket:
            state = await received(socket)

    assert (written.status_code, read.status_code, state["type"]) == (200, 200, "state")


@pytest.mark.thorough
@pytest.mark.requirement("API-14")
async def test_a_session_ends_on_request_and_with_the_token_that_opened_it(folder: Folder) -> None:
    async with hosted(folder) as host:
        url = f"{host.origin}/session"

        async def status(cookie: str) -> int:
            headers = host.own(cookie=cookie)
            return (await host.http.get(f"{host.origin}/api/status", headers=headers)).status_code

        own = await host.open_session()
        before = await status(own)
        await host.http.delete(url, headers=host.own(cookie=own))

        value, token = host.tokens.create()
        opened = await host.http.post(url, headers=host.own(authorization=f"Bearer {value}"))
        host.http.cookies.clear()
        theirs = opened.headers["set-cookie"].partition(";")[0]
        granted = await status(theirs)
        host.tokens.revoke(token.id)

        assert (before, await status(own)) == (200, 401)
        assert (granted, await status(theirs)) == (200, 401)


def test_a_session_ends_after_twelve_hours_without_a_request() -> None:
    now = 0.0
    sessions = BrowserSessions(clock=lambda: now)
    session = sessions.open(User("owner"))
    headers = [
        (b"host", b"127.0.0.1:1"),
        (b"origin", b"http://127.0.0.1:1"),
        (b"cookie", f"discovery_session={session}".encode()),
    ]
    scope = {"type": "http", "method": "POST", "headers": headers}
    now = 11 * 3600.0
    assert sessions.user_of(scope)
    now = 22 * 3600.0
    assert sessions.user_of(scope)
    now = 35 * 3600.0
    assert sessions.user_of(scope) is None


def test_the_type_of_an_event_is_its_name_in_words() -> None:
    called = ToolCalled(ServerName("a"), ToolName("b"), "ok", 0.5)

    assert event_form(called)["type"] == "tool_called"
