from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import httpx2
import pytest
from anyio.lowlevel import checkpoint
from starlette.responses import Response

from discovery_server.http_sessions import IDLE_LIFE, SessionLimit

pytestmark = pytest.mark.anyio


class Opener:
    """An application that opens a session for each request without one."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.now = 0.0
        self.on_delete: Callable[[], Awaitable[object]] = checkpoint
        """What happens while a session is ended."""
        self.on_use: Callable[[], Awaitable[object]] = checkpoint
        """What happens while a session is used."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        named = dict(scope["headers"]).get(b"mcp-session-id", b"").decode()
        if not named:
            named = f"s{self.now:g}"
            self.open.append(named)
        elif scope["method"] == "DELETE":
            self.open.remove(named)
            await self.on_delete()
        else:
            await self.on_use()
        status = 200 if named in self.open or scope["method"] == "DELETE" else 404
        await Response(status_code=status, headers={"mcp-session-id": named})(scope, receive, send)


@pytest.mark.requirement("SRV-34")
async def test_what_nobody_has_used_for_long_ends_with_the_next_opening() -> None:
    app, ended = Opener(), []
    sessions = SessionLimit(app, path="/mcp", limit=9, on_end=ended.append, clock=lambda: app.now)
    transport = httpx2.ASGITransport(sessions)

    async with httpx2.AsyncClient(transport=transport, base_url="http://x") as client:
        for app.now in (0.0, 1.0):
            await client.post("/mcp")
        app.now = IDLE_LIFE
        await client.post("/mcp", headers={"mcp-session-id": "s0"})
        app.now = IDLE_LIFE + 2
        await client.post("/mcp")

    assert ended == ["s1"]
    assert app.open == ["s0", f"s{IDLE_LIFE + 2:g}"]


@pytest.mark.requirement("SRV-33")
async def test_a_session_that_is_used_again_while_another_is_ended_stays() -> None:
    app, ended = Opener(), []
    sessions = SessionLimit(app, path="/mcp", limit=9, on_end=ended.append, clock=lambda: app.now)
    transport = httpx2.ASGITransport(sessions)

    entered, let_go = anyio.Event(), anyio.Event()

    async def use() -> None:
        entered.set()
        await let_go.wait()

    async def use_the_other() -> None:
        tasks.start_soon(partial(client.post, "/mcp", headers={"mcp-session-id": "s1"}))
        await entered.wait()

    async with httpx2.AsyncClient(transport=transport, base_url="http://x") as client:
        for app.now in (0.0, 1.0):
            await client.post("/mcp")
        app.now = 2 * IDLE_LIFE
        app.on_use, app.on_delete = use, use_the_other
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                await client.post("/mcp")
                let_go.set()

    assert ended == ["s0"]
    assert "s1" in app.open


@pytest.mark.requirement("SRV-34")
async def test_a_session_that_the_application_ended_by_itself_is_told_as_well() -> None:
    app, ended = Opener(), []
    sessions = SessionLimit(app, path="/mcp", limit=9, on_end=ended.append, clock=lambda: app.now)
    transport = httpx2.ASGITransport(sessions)

    async with httpx2.AsyncClient(transport=transport, base_url="http://x") as client:
        await client.post("/mcp")
        app.open.clear()
        await client.post("/mcp", headers={"mcp-session-id": "s0"})

    assert ended == ["s0"]
