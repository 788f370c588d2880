"""The API over HTTP in this process, in front of an engine with real servers."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner
from websockets.asyncio.client import ClientConnection, connect

from discovery_cli.program import cli
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
from tests.servers.programs import none_left_running
from tests.unit.server.web import running, service_of

OWN = "owner-token-of-forty-three-characters-12345"
RULES = [{"pattern": "pid", "enabled": False}]
VIEWS = {"echoes": {"rules": [{"pattern": "echo", "enabled": True}]}}


@dataclass(frozen=True)
class Route:
    """A route as the description has it."""

    method: str
    path: str
    scope: str
    body: JSONObject | None
    """The schema of its body."""
    query: Mapping[str, JSONObject]
    """The schemas of its parameters, and whether one is `required`."""

    def filled(self, value: str = "x", **names: str) -> str:
        """The path with the names that are given, and `value` as each other one."""
        return self.path.format_map(defaultdict(lambda: value, names))


@dataclass
class Api:
    address: str
    tokens: AccessTokens
    engine: Engine
    http: httpx2.AsyncClient
    service: HttpService
    folder: Folder

    @property
    def origin(self) -> str:
        return self.address.removesuffix("/api")

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

    async def routes(self) -> list[Route]:
        """Every route that `openapi.json` describes."""
        document = await self.get("/openapi.json")
        schemas = document["components"]["schemas"]
        return [
            _route(method, path.removeprefix("/api"), described, schemas)
            for path, methods in document["paths"].items()
            for method, described in methods.items()
        ]

    def connect(self, query: str = "", token: str | None = OWN, **headers: str) -> Any:
        """A WebSocket to the events."""
        if token:
            headers["Authorization"] = f"Bearer {token}"
        address = self.origin.replace("http", "ws", 1) + f"/events{query}"
        return connect(address, additional_headers=headers, proxy=None)

    def own(self, **headers: str) -> dict[str, str]:
        """The headers of a request that the page of this address makes."""
        return {"origin": self.origin, "sec-fetch-site": "same-origin", **headers}

    async def open_session(self, token: str = OWN) -> str:
        """The cookie of a browser that was given a token."""
        headers = self.own(authorization=f"Bearer {token}")
        opened = await self.http.post(f"{self.origin}/session", headers=headers)
        assert opened.status_code == 204
        self.http.cookies.clear()
        return opened.headers["set-cookie"].partition(";")[0]


def _route(method: str, path: str, described: JSONObject, schemas: JSONObject) -> Route:
    body = None
    if "requestBody" in described:
        reference = described["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        body = schemas[reference.rpartition("/")[2]]
    query = {
        one["name"]: {**one["schema"], "required": one["required"]}
        for one in described.get("parameters", ())
        if one["in"] == "query"
    }
    scope = described["description"].split("`")[1]
    return Route(method.upper(), path, scope, body, query)


@asynccontextmanager
async def served(
    folder: Folder, *servers: ServerSettings, sections: JSONObject | None = None, **options: Any
) -> AsyncIterator[Api]:
    """With `good` and `other`, unless servers are given; `options` are those of `open_engine`."""
    usual = (good(tags=("tests",)), good("other"))
    folder.write(*(servers or usual), toolRules=RULES, views=VIEWS, **sections or {})
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
        yield Api(address.removesuffix("/mcp") + "/api", tokens, engine, http, service, folder)


@pytest.fixture(scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    """The API in front of the servers `good` and `other`, for all tests of a module."""
    with none_left_running():
        async with served(Folder(tmp_path_factory.mktemp("api"))) as shared:
            yield shared


async def received(socket: ClientConnection) -> JSONObject:
    """The next frame of events."""
    return json.loads(await socket.recv())


async def until(socket: ClientConnection, kind: str) -> JSONObject:
    """The next event of a kind."""
    while True:
        frame = await received(socket)
        for event in frame.get("events", ()):
            if event["type"] == kind:
                return event


def command_line(folder: Folder, *words: str) -> JSONObject:
    """What a command prints with `--json`."""
    options = ["--config", str(folder.config), "--data-dir", str(folder.data), "--json"]
    form = json.loads(CliRunner().invoke(cli, [*options, *words]).stdout)
    form.pop("schema_version")
    return form
