"""Modes and views of `discovery serve`, before the SDK's client on both transports."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2
import pytest
from anyio.abc import TaskGroup
from httpx2 import Response
from mcp import Client, MCPError

from discovery_server.access_tokens import AccessTokens
from tests.attacks.test_access_tokens import expire
from tests.e2e.serving import Home, fault_entry, listening_at
from tests.servers.programs import descendants, eventually
from tests.unit.server.web import SessionClient, result_of
from tests.unit.server.wire import HANDSHAKE, MODERN, request

pytestmark = [pytest.mark.anyio, pytest.mark.e2e]

ERAS = pytest.mark.parametrize("mode", ["legacy", pytest.param("auto", marks=pytest.mark.matrix)])
VIEWS = {
    "one": {"servers": ["one"], "mode": "direct", "expose": ["echo"]},
    "searching": {"mode": "dynamic", "servers": ["two"]},
}


async def names_of(client: Client) -> list[str]:
    listed = [tool.name for tool in (await client.list_tools()).tools]
    return [name for name in listed if name != "read_result"]


@ERAS
@pytest.mark.requirement("VIEW-3", "MOD-36")
async def test_each_address_of_http_shows_its_view(home: Home, mode: str) -> None:
    home.write({"one": fault_entry(), "two": fault_entry()}, views=VIEWS)

    with home.http() as address, anyio.fail_after(60):
        async with (
            Client(address, mode=mode) as everything,
            Client(f"{address}/one", mode=mode) as one,
            Client(f"{address}/searching", mode=mode) as searching,
            Client(f"{address}/searching", mode=mode) as other,
        ):
            all_names, names = await names_of(everything), await names_of(one)
            called = await one.call_tool("one__echo", {"text": "hello"})
            with pytest.raises(MCPError):
                await one.call_tool("two__echo", {"text": "hello"})
            await searching.call_tool("search_tools", {"query": "echo"})
            found, others = await names_of(searching), await names_of(other)

    assert "search_tools" in all_names
    assert names == ["one__echo"]
    assert "hello" in called.content[0].text
    assert ("two__echo" in found) == (mode == "legacy")
    assert "two__echo" not in others


@pytest.mark.requirement("VIEW-3", "SRV-26")
async def test_session_belongs_to_its_address(home: Home) -> None:
    home.write({"one": fault_entry()}, views=VIEWS)
    headers = {"Accept": "application/json, text/event-stream"}

    with home.http() as address:
        async with httpx2.AsyncClient(timeout=30) as client:
            opened = await client.post(
                address, json=request(1, "initialize", **HANDSHAKE), headers=headers
            )
            headers["Mcp-Session-Id"] = opened.headers["mcp-session-id"]
            lists = request(2, "tools/list")
            moved = await client.post(f"{address}/one", json=lists, headers=headers)
            stayed = await client.post(address, json=lists, headers=headers)
            unknown = await client.post(f"{address}/nobody", json=lists, headers=headers)

    assert (moved.status_code, stayed.status_code, unknown.status_code) == (404, 200, 404)


@pytest.mark.requirement("VIEW-3")
async def test_view_of_the_command_is_the_only_one(home: Home) -> None:
    home.write({"one": fault_entry(), "two": fault_entry()}, views=VIEWS)

    with home.http("127.0.0.1", "--no-token", "--view", "one") as address, anyio.fail_after(60):
        async with Client(address) as client:
            names = await names_of(client)
        async with httpx2.AsyncClient(timeout=30) as client:
            other = await client.post(f"{address}/searching", json=request(1, "tools/list"))

    assert names == ["one__echo"]
    assert other.status_code == 404


class OpenClient:
    """All that one client has open at a gateway, in both eras."""

    def __init__(self, address: str, token: str, marker: Path) -> None:
        self.client = SessionClient(address, token)
        self.marker = marker
        """Exists once its calls may return."""
        self.begun = 0
        self.ended: dict[str, str] = {}
        """What came at the end of its streams and calls."""
        self.pids: set[int] = set()

    async def open(self, tasks: TaskGroup, address: str) -> None:
        """Begin everything, and wait until all of it has begun."""
        session = {"mcp-session-id": await self.client.open()}
        own = "execute_tool", {"tool": "own:pid", "arguments": {}}
        for answer in (
            await self.client.call(*own, session=session["mcp-session-id"]),
            await self.client.call_statelessly(*own),
        ):
            self.pids.add(int(result_of(answer)["content"][0]["text"]))
        wanted = {"toolsListChanged": True}
        listen = request(5, "subscriptions/listen", notifications=wanted, _meta=MODERN)
        call = {"tool": "slow:echo", "arguments": {"text": str(self.marker)}}
        called = {"name": "execute_tool", "arguments": call}
        progress = {"progressToken": "p"}
        modern = {"mcp-protocol-version": "2026-07-28"}
        named = {**modern, "mcp-method": "tools/call", "mcp-name": "execute_tool"}
        sent = {
            "GET stream": ("GET", session, None),
            "subscription": ("POST", {**modern, "mcp-method": "subscriptions/listen"}, listen),
            "call": ("POST", session, request(6, "tools/call", **called, _meta=progress)),
            "stateless call": (
                "POST",
                named,
                request(7, "tools/call", **called, _meta={**MODERN, **progress}),
            ),
        }
        for name, (method, headers, message) in sent.items():
            exchange = self.client.http.stream(method, address, headers=headers, json=message)
            tasks.start_soon(self._read, name, exchange)
        await eventually(lambda: self.begun == len(sent))

    def has_ended(self) -> bool:
        return len(self.ended) == self.begun

    async def _read(self, name: str, exchange: AbstractAsyncContextManager[Response]) -> None:
        async with exchange as answer:
            last, has_begun = "", name == "GET stream"
            self.begun += has_begun
            async for line in answer.aiter_lines():
                last = line or last
                if line and not has_begun:
                    has_begun = True
                    self.begun += 1
        self.ended[name] = last


@pytest.mark.requirement("VIEW-7", "VIEW-22")
async def test_all_that_a_client_has_ends_with_its_token_or_its_view(home: Home) -> None:
    servers = {
        "own": fault_entry(session="per_client"),
        "slow": fault_entry("awaits_file", session="per_client"),
    }
    views = {"kept": {}, "removed": {}}
    home.write(servers, views=views)
    tokens = AccessTokens(home.folder / "data" / "tokens.json")
    values = {
        "revoked": tokens.create(name="revoked", view="kept")[0],
        "expired": tokens.create(view="kept", lifetime=3600)[0],
        "of the removed view": tokens.create(view="removed")[0],
        "staying": tokens.create(view="kept")[0],
    }
    with home.process("--http", "127.0.0.1:0") as process, anyio.fail_after(100):
        address = listening_at(process)
        clients = {
            name: OpenClient(address, value, home.folder / f"{name} may return")
            for name, value in values.items()
        }
        async with AsyncExitStack() as stack, anyio.create_task_group() as tasks:
            for client in clients.values():
                await stack.enter_async_context(client.client)
                await client.open(tasks, address)
            AccessTokens(tokens.path).revoke("revoked")
            expire(tokens)
            home.write(servers, views={"kept": {}})
            staying = clients.pop("staying")
            for client in clients.values():
                await eventually(client.has_ended, within=20)
            ending = {pid for client in clients.values() for pid in client.pids}
            await eventually(lambda: not ending & descendants(process.pid), within=20)
            has_lost = dict(staying.ended), staying.pids - descendants(process.pid)
            staying.marker.touch()
            await eventually(lambda: {"call", "stateless call"} <= set(staying.ended))
            tasks.cancel_scope.cancel()

    assert has_lost == ({}, set())
    assert '"done"' in staying.ended["call"]
    assert '"done"' in staying.ended["stateless call"]
    assert len(ending) == 6
    results = {
        (name, part): line
        for name, client in clients.items()
        for part, line in client.ended.items()
        if '"result"' in line and "subscription" not in part
    }
    assert results == {}
