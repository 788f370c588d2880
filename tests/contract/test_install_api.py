"""Installations over the API, with real npm packages of an index on this machine: specs/api.md."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from websockets.asyncio.client import ClientConnection

from discovery_engine import Engine
from tests.api_server import Api, received, serving
from tests.engines import Folder
from tests.servers.mcp_registry_server import OFFICIAL, RegistryServer, listed, registry_server
from tests.servers.package_index import PackageIndex, package_index
from tests.servers.package_servers import node_server
from tests.servers.programs import none_left_running

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.node,
    pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed"),
]

FILES = "io.github.acme/files"
SECRET = "hunter-${HOME}-2"  # nothing in it is a reference
CHOICE = {"name": FILES, "values": {"folder": "/tmp"}, "secrets": {"FILES_KEY": SECRET}}


@dataclass
class Shop:
    """A gateway whose marketplace has one server, which asks for a folder and a secret."""

    folder: Folder
    registry: RegistryServer
    index: PackageIndex
    engine: Engine
    api: Api
    socket: ClientConnection
    answers: list[str]
    """All that the API has answered."""

    async def publish(
        self, version: str, *inputs: dict[str, Any], script: str = "", **members: Any
    ) -> None:
        self.index.add_npm("@acme/files", version, script=script or node_server(version), **members)
        key = {"name": "FILES_KEY", "isRequired": True, "isSecret": True}
        package = {
            "registryType": "npm",
            "identifier": "@acme/files",
            "version": version,
            "environmentVariables": [key, *inputs],
            "packageArguments": [{"type": "positional", "valueHint": "folder", "isRequired": True}],
        }
        for one in self.registry.entries:
            one["_meta"][OFFICIAL]["isLatest"] = False
        day = float(len(self.registry.entries))
        self.registry.entries.append(listed(FILES, version=version, packages=[package], day=day))
        shutil.rmtree(self.folder.path / "npm-cache", ignore_errors=True)
        await self.engine.marketplace.sync(force=True)

    async def post(self, path: str, body: Any = None, **options: Any) -> httpx2.Response:
        answer = await self.api.ask(path, "POST", json=body or {}, **options)
        self.answers.append(answer.text)
        return answer

    async def plan(self, path: str, body: Any = None) -> dict[str, Any]:
        answer = await self.post(path, body)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def accept(self, path: str, body: Any = None) -> dict[str, Any]:
        """What was shown is done."""
        shown = await self.plan(path, body)
        answer = await self.post(path, {**(body or {}), "digest": shown["digest"]})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def seen(self) -> dict[str, Any]:
        """What the installed server saw of its environment."""
        result = await self.engine.execute("files", "environment", {})
        found: dict[str, Any] = json.loads(result["content"][0]["text"])
        return found

    async def request(self, action: Any, name: str = "", **given: Any) -> Any:
        return await self.engine.requests.submit(action, name, given, client="agent")

    async def events(self, last: str) -> list[dict[str, Any]]:
        """The events until the last one that is expected."""
        found: list[dict[str, Any]] = []
        with anyio.fail_after(60):
            while not any(one["type"] == last for one in found):
                found += (await received(self.socket)).get("events", [])
        return found

    @property
    def configuration(self) -> str:
        return self.folder.config.read_text()

    def left(self) -> list[str]:
        packages = self.folder.data / "packages"
        kinds = ("npm", "installed", "begun")
        return [str(one) for kind in kinds for one in (packages / kind).glob("*")]


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    with package_index() as index, registry_server() as registry, none_left_running():
        async with opened(Folder(tmp_path), registry, index) as made:
            await made.publish("1.0.0")
            yield made


@asynccontextmanager
async def opened(
    folder: Folder, registry: RegistryServer, index: PackageIndex
) -> AsyncIterator[Shop]:
    sources = [{"type": "mcp-registry", "id": "team", "url": registry.url}]
    folder.write(marketplace={"sources": sources})
    async with (
        folder.open(environ=index.environ(folder.path)) as engine,
        serving(engine, folder) as api,
        api.connect() as socket,
    ):
        yield Shop(folder, registry, index, engine, api, socket, [])


@pytest.mark.requirement("API-51")
async def test_a_server_is_installed_as_it_was_shown_and_its_secret_is_nowhere(shop: Shop) -> None:
    before = shop.configuration
    shown = await shop.plan("/install", CHOICE)
    assert (shop.configuration, shop.index.downloads, shop.left()) == (before, [], [])
    assert shown["command"] == ["npx", "-y", "@acme/files@1.0.0", "/tmp"]
    assert shown["env"] == {"FILES_KEY": "${secret:files/FILES_KEY}"}
    assert (shown["stores"], shown["where"]) == (["files/FILES_KEY"], "file")
    assert shown["confinement"]["kind"] in ("bubblewrap", "landlock", "none")

    done = await shop.post("/install", {**CHOICE, "digest": shown["digest"]})

    assert (done.status_code, done.json()["installed"]) == (200, True), done.text
    assert done.json()["problem"] is None
    found = await shop.seen()
    assert (found["version"], found["env"]["FILES_KEY"]) == ("1.0.0", SECRET)
    events = await shop.events("server_installed")
    steps = [one["step"] for one in events if one["type"] == "install_progressed"]
    assert steps == ["starting files, and listing its tools"]
    files = [path.read_bytes() for path in shop.folder.path.rglob("*") if path.is_file()]
    assert not [text for text in files if b"hunter" in text]
    assert "hunter" not in json.dumps(events) + "".join(shop.answers)


@pytest.mark.requirement("API-50")
async def test_the_digest_of_another_plan_installs_nothing(shop: Shop) -> None:
    before = shop.configuration
    other = await shop.plan("/install", {**CHOICE, "as": "other"})
    shown = await shop.plan("/install", CHOICE)
    attempts = [
        {**CHOICE, "digest": other["digest"]},
        {**CHOICE, "digest": "0" * 64},
        {**CHOICE, "digest": shown["digest"], "as": "other"},
        {**CHOICE, "digest": shown["digest"], "values": {"folder": "/"}},
        {**CHOICE, "digest": shown["digest"], "to": "registry"},
        {**CHOICE, "digest": shown["digest"], "write": ["/"]},
        {**CHOICE, "digest": shown["digest"], "network": False},
        {**CHOICE, "digest": shown["digest"], "secrets": {}},
    ]
    for attempt in attempts:
        refused = await shop.post("/install", attempt)
        assert (refused.status_code, refused.json()["code"]) == (409, "PLAN_CHANGED"), attempt

    assert (shop.configuration, shop.index.downloads, shop.left()) == (before, [], [])
    assert shop.engine.secrets.names() == ()


@pytest.mark.requirement("API-51")
async def test_a_request_of_an_agent_is_accepted_by_the_digest_of_what_it_would_run(
    shop: Shop,
) -> None:
    request = await shop.request("install", FILES)
    path = f"/requests/{request.id}"
    secret = {"action": "accept", "values": CHOICE["values"], "secrets": CHOICE["secrets"]}
    other = await shop.plan("/install", {**CHOICE, "as": "other"})
    wrong = await shop.post(path, {**secret, "digest": other["digest"]})
    shown = await shop.plan(path, secret)
    await shop.publish("2.0.0")
    late = await shop.post(path, {**secret, "digest": shown["digest"]})
    shown = await shop.plan(path, secret)
    done = await shop.post(path, {**secret, "digest": shown["digest"]})
    again = await shop.post(path, {**secret, "digest": shown["digest"]})

    for one in (wrong, late):
        assert (one.status_code, one.json()["code"]) == (409, "PLAN_CHANGED")
    assert shown["command"] == ["npx", "-y", "@acme/files@2.0.0", "/tmp"]
    assert (done.status_code, done.json()["state"]) == (200, "accepted")
    assert again.status_code == 404
    assert (await shop.seen())["env"]["FILES_KEY"] == SECRET
    assert "hunter" not in "".join(shop.answers)
