"""The API over HTTP in this process, in front of an engine with real servers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from discovery_engine._util.json import JSONObject
from discovery_engine.config.settings import ServerSettings
from discovery_engine.engine import Engine
from discovery_server.access_tokens import AccessTokens
from discovery_server.gateway import Gateway
from discovery_server.http.connections import ConnectionLimits
from discovery_server.http_service import HttpService
from discovery_server.tokens import parse_tokens
from tests.engines import Folder, good
from tests.plain_http import NO_TLS
from tests.unit.server.web import running, service_of

OWN = "owner-token-of-forty-three-characters-12345"
RULES = [{"pattern": "pid", "enabled": False}]
VIEWS = {"echoes": {"rules": [{"pattern": "echo", "enabled": True}]}}


@dataclass
class Api:
    address: str
    tokens: AccessTokens
    engine: Engine
    http: httpx2.AsyncClient
    service: HttpService

    async def ask(
        self, path: str, method: str = "GET", *, token: str | None = OWN, **options: Any
    ) -> httpx2.Response:
        headers = {**options.pop("headers", {})}
        if token:
            headers["authorization"] = f"Bearer {token}"
        url = f"{self.address}{path}"
        return await self.http.request(method, url, headers=headers, **options)

    async def get(self, path: str, **query: Any) -> JSONObject:
        answer = await self.ask(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()


@asynccontextmanager
async def served(folder: Folder, *servers: ServerSettings, **options: Any) -> AsyncIterator[Api]:
    """With `good` and `other`, unless servers are given; `options` are those of `open_engine`."""
    usual = (good(tags=("tests",)), good("other"))
    folder.write(*(servers or usual), toolRules=RULES, views=VIEWS)
    async with folder.open(**options) as engine:
        await engine.refresh()
        async with serving(engine, folder) as api:
            yield api


@asynccontextmanager
async def serving(
    engine: Engine,
    folder: Folder,
    gateway: Gateway | None = None,
    *,
    limits: ConnectionLimits | None = None,
) -> AsyncIterator[Api]:
    """What `discovery serve` serves of an open engine; the tokens are in the data folder."""
    tokens = AccessTokens(folder.data / "tokens.json")
    service = service_of(engine, parse_tokens(OWN), limits, gateway=gateway, data=folder.data)
    async with (
        running(service) as address,
        httpx2.AsyncClient(timeout=60, verify=NO_TLS) as http,
    ):
        yield Api(address.removesuffix("/mcp") + "/api", tokens, engine, http, service)
