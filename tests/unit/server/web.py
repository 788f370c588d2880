"""The gateway over HTTP in this process, and clients that speak raw HTTP to it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
import httpx2
import pytest

from discovery_engine._util.json import JSONObject
from discovery_server.gateway import Gateway
from discovery_server.http import http_server as http
from discovery_server.http.connections import ConnectionLimits
from discovery_server.http.guard import Endpoint
from discovery_server.http.tls_files import Tls
from discovery_server.http_service import HttpService
from discovery_server.tokens import Tokens
from tests.plain_http import NO_TLS
from tests.unit.server.fakes import own_folder
from tests.unit.server.wire import INITIALIZE, INITIALIZED, MODERN, request

_KINDS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


def service_of(
    engine: Any,
    tokens: Tokens | None = None,
    limits: ConnectionLimits | None = None,
    *,
    gateway: Gateway | None = None,
    endpoint: Endpoint = Endpoint(),  # noqa: B008 - it never changes
    data: Path | None = None,
) -> HttpService:
    """What `discovery serve --http` serves of an engine; `data` is the folder of its tokens."""
    folder = data or own_folder()
    return HttpService(engine, gateway or Gateway(engine), endpoint, tokens, folder, limits=limits)


@asynccontextmanager
async def served(engine: Any, *args: Any, **options: Any) -> AsyncIterator[str]:
    """The address of `service_of` these, for as long as the block runs."""
    async with running(service_of(engine, *args, **options)) as address:
        yield address


@asynccontextmanager
async def running(service: HttpService, tls: Tls | None = None) -> AsyncIterator[str]:
    """The address of a service, for as long as the block runs."""
    await service.prepare()
    with anyio.fail_after(120), http.listen(Endpoint()) as listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(service.serve, listener)
            yield http.address(listener, tls)
            service.stop()


def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a call take as long as it likes while the server stops."""
    monkeypatch.setattr(http, "_GRACE", 3600)


class SessionClient:
    """A client of the handshake era, and of the one after it, with a token of its own."""

    def __init__(self, address: str, token: str | None = None, *, verify: Any = NO_TLS) -> None:
        self._address = address
        headers = {**_KINDS, **({"authorization": f"Bearer {token}"} if token else {})}
        self.http = httpx2.AsyncClient(headers=headers, timeout=60, verify=verify)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.http.aclose()

    async def open(self, *, is_ready: bool = True) -> str:
        """A session's id; without `is_ready` nothing is done but to open it."""
        opened = await self.http.post(self._address, json=INITIALIZE)
        opened.raise_for_status()
        session: str = opened.headers["mcp-session-id"]
        if is_ready:
            await self.request("POST", session, INITIALIZED)
        return session

    async def request(
        self, method: str, session: str, message: JSONObject | None = None
    ) -> httpx2.Response:
        """A request in a session; a POST without a message is a ping."""
        body = message or (request(7, "ping") if method == "POST" else None)
        headers = {"mcp-session-id": session}
        return await self.http.request(method, self._address, json=body, headers=headers)

    async def post(self, body: bytes, *, session: str) -> httpx2.Response:
        """A POST in a session, of whatever bytes."""
        headers = {"mcp-session-id": session}
        return await self.http.post(self._address, content=body, headers=headers)

    async def call(self, name: str, arguments: JSONObject, *, session: str) -> httpx2.Response:
        message = request(8, "tools/call", name=name, arguments=arguments)
        return await self.request("POST", session, message)

    async def call_statelessly(
        self, name: str, arguments: JSONObject, *, session: str | None = None
    ) -> httpx2.Response:
        """A call of 2026-07-28, perhaps with a session's id where none belongs."""
        message = request(9, "tools/call", name=name, arguments=arguments, _meta=MODERN)
        headers = {
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tools/call",
            "mcp-name": name,
        }
        if session:
            headers["mcp-session-id"] = session
        return await self.http.post(self._address, json=message, headers=headers)


def result_of(answer: httpx2.Response) -> JSONObject:
    """The result of a request, which is answered with JSON, or with events if others precede it."""
    text = answer.text.rpartition("data: ")[2]
    result: JSONObject = json.loads(text)["result"]
    return result
