"""Installations by `engine.installer`, with the real npx and uvx, and a played docker."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import BlockingPortal

from discovery_engine import ConfigurationError, Engine, open_engine
from discovery_engine.errors import (
    InstallFailedError,
    MissingInputsError,
    NotInstalledError,
    PackageChangedError,
    PackageManagerError,
)
from tests.servers.mcp_registry_server import OFFICIAL, RegistryServer, listed, registry_server
from tests.servers.package_index import PackageIndex, package_index
from tests.servers.package_servers import node_server, python_server
from tests.servers.programs import none_left_running

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[3]
UV = ROOT / ".tools" / "servers" / "uv" / "bin"
needs_uv = pytest.mark.skipif(not (UV / "uv").exists(), reason="`make servers` would bring uv")
needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
KEY = {"name": "KEY", "isSecret": True, "isRequired": True}
FOLDER = {"type": "positional", "valueHint": "folder", "isRequired": True}
DIGEST = f"sha256:{'ab' * 32}"
DOCKER = f"""#!/bin/sh
printf '%s\\n' "$*" >> "$HOME/docker-calls"
case "$1" in
  --version) echo 'Docker version 29.0.1' ;;
  buildx) echo '"{DIGEST}"' ;;
  pull) test ! -e "$HOME/is-full" || {{ echo 'write: no space left on device' >&2; exit 1; }} ;;
  run) echo 'API_TOKEN environment variable is required' >&2; exit 1 ;;
esac
"""


@dataclass
class Place:
    """A configuration, a data folder, and a registry of servers with its packages."""

    registry: RegistryServer
    index: PackageIndex
    folder: Path
    path: str = os.environ.get("PATH", os.defpath)

    @property
    def config(self) -> Path:
        return self.folder / "discovery.yaml"

    @property
    def packages(self) -> Path:
        return self.folder / "data" / "packages"

    @property
    def notes(self) -> Path:
        """What servers are given to work on."""
        folder = self.folder / "notes"
        folder.mkdir(exist_ok=True)
        return folder

    @property
    def environ(self) -> dict[str, str]:
        return self.index.environ(self.folder) | {"PATH": self.path}

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Engine]:
        data = self.folder / "data"
        async with open_engine(self.config, environ=self.environ, data_dir=data) as engine:
            await engine.marketplace.sync(force=True)
            yield engine

    def offer(self, name: str, kind: str, identifier: str, **members: Any) -> None:
        """Have an entry with one package; earlier versions of it are not the latest."""
        version = members.pop("version", "1.0.0")
        package = {"registryType": kind, "identifier": identifier, "version": version, **members}
        self._list(name, version, packages=[package])

    def remote(self, name: str, url: str, version: str, **members: Any) -> None:
        offer = {"type": "streamable-http", "url": url, **members}
        self._list(name, version, remotes=[offer])

    def publish(self, version: str, *inputs: dict[str, Any], name: str = "files") -> None:
        """Have a version of an npm package, with an entry that needs a key and a folder."""
        self.index.add_npm(name, version, script=node_server(version))
        variables = [KEY, *inputs]
        self.offer(
            *(name, "npm", name),
            version=version,
            environmentVariables=variables,
            packageArguments=[FOLDER],
        )

    def _list(self, name: str, version: str, **members: Any) -> None:
        for one in self.registry.entries:
            if one["server"]["name"] == name:
                one["_meta"][OFFICIAL]["isLatest"] = False
        days = float(len(self.registry.entries))
        self.registry.entries.append(listed(name, version=version, day=days, **members))

    @property
    def values(self) -> dict[str, str]:
        return {"KEY": "hunter-2", "folder": str(self.notes)}

    def left(self) -> list[str]:
        """What belongs to servers in the data folder."""
        kinds = ("installed", "begun", "bundles", "npm", "python")
        return [str(one) for kind in kinds for one in (self.packages / kind).glob("*")]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with package_index() as index, registry_server() as registry, none_left_running():
        place = Place(registry, index, tmp_path)
        sources = [{"type": "mcp-registry", "id": "team", "url": registry.url}]
        text = json.dumps({"servers": {}, "marketplace": {"sources": sources}})
        place.config.write_text(text, "utf-8")
        yield place


def called(docker: Path) -> list[str]:
    return docker.read_text().splitlines()


async def uninstall(engine: Engine, server: str = "files") -> None:
    secrets = await engine.installer.secrets_of(server)
    await engine.installer.remove(await engine.servers.plan_remove(server), secrets)


async def seen(engine: Engine, server: str = "files") -> dict[str, Any]:
    """What the server's tool returns of its environment."""
    result = await engine.execute(server, "environment", {})
    found: dict[str, Any] = json.loads(result["content"][0]["text"])
    return found


@pytest.mark.node
@needs_npm
@pytest.mark.requirement("INS-1", "INS-11", "INS-13", "INS-22")
@pytest.mark.parametrize("to", ["file", "registry"])
async def test_an_npm_package_is_pinned_started_by_npx_and_listed(place: Place, to: Any) -> None:
    place.publish("1.0.0")
    said: list[str] = []
    async with place.open() as engine:
        plan = await engine.installer.plan_install("files", values=place.values, to=to)
        assert (place.left(), place.index.downloads) == ([], [])
        done = await engine.installer.install(plan, on_progress=said.append)
        tools = [entry.tool.name for entry in engine.view.catalog.part(done.name).visible]
        found = await seen(engine)

    assert plan.argv == ("npx", "-y", "files@1.0.0", str(place.notes))
    assert plan.environment == {"KEY": "${secret:files/KEY}"}
    assert plan.server_entry["sandbox"] == {
        "kind": "auto",
        "write": [str(place.notes)],
        "network": True,
    }
    assert (done.name, done.where, done.problem, tools) == ("files", to, "", ["environment"])
    assert said == ["starting files, and listing its tools"]
    assert (found["args"], found["env"]["KEY"]) == ([str(place.notes)], "hunter-2")
    assert found["cwd"] == str(place.packages / "start")
    assert "hunter-2" not in place.config.read_text() + repr(plan)


@needs_uv
@pytest.mark.requirement("INS-1", "INS-22", "INS-30")
async def test_a_python_package_is_pinned_and_its_program_started_by_uvx(place: Place) -> None:
    place.path = f"{UV}{os.pathsep}{place.path}"
    integrity = place.index.add_wheel(
        "acme-files", program="serve-files", module=python_server("1.0.0")
    )
    place.offer("files", "pypi", "acme-files", environmentVariables=[{"name": "MODE"}])
    async with place.open() as engine:
        plan = await engine.installer.plan_install("files", values={"MODE": "${UNSET:-fast}"})
        done = await engine.installer.install(plan)
        found = await seen(engine)

    assert plan.argv == ("uvx", "--from", "acme-files==1.0.0", "serve-files")
    assert (plan.pin.integrity, done.problem) == (integrity, "")
    assert (found["version"], found["env"]["MODE"]) == ("1.0.0", "fast")


@pytest.fixture
def docker(place: Place) -> Path:
    """A docker that knows every image under one digest; returns what it was called with."""
    folder = place.folder / "bin"
    folder.mkdir()
    (folder / "docker").write_text(DOCKER)
    (folder / "docker").chmod(0o755)
    place.path = f"{folder}:/usr/bin:/bin"
    return place.folder / "docker-calls"


@pytest.mark.requirement("INS-1", "INS-2", "INS-22", "INS-30")
async def test_an_image_is_pinned_by_its_digest_and_pulled_by_it(
    place: Place, docker: Path
) -> None:
    mount = {"type": "named", "name": "--mount", "value": "type=bind,src={folder},dst=/data"}
    place.offer(
        *("files", "oci", "ghcr.io/acme/files:1.2.0"),
        runtimeArguments=[{**mount, "variables": {"folder": {"isRequired": True}}}],
        packageArguments=[{"type": "positional", "value": "serve"}],
        environmentVariables=[KEY],
    )
    async with place.open() as engine:
        plan = await engine.installer.plan_install("files", values=place.values)
        (place.folder / "is-full").touch()
        with pytest.raises(InstallFailedError, match="no space left on the disk"):
            await engine.installer.install(plan)
        assert (await engine.servers.list(), engine.secrets.names(), place.left()) == ((), (), [])
        (place.folder / "is-full").unlink()

        done = await engine.installer.install(plan)

    image = f"ghcr.io/acme/files@{DIGEST}"
    assert plan.argv == (
        *("docker", "run", "-i", "--rm", "-e", "KEY"),
        *("--mount", f"type=bind,src={place.notes},dst=/data", image, "serve"),
    )
    assert (plan.pin.integrity, plan.server_entry["sandbox"]["write"]) == (
        DIGEST,
        [str(place.notes)],
    )
    # This image cannot be run; it is entered all the same.
    assert "`discovery secrets set files/API_TOKEN`" in done.problem
    calls = called(docker)
    assert f"pull --quiet {image}" in calls
    assert "hunter-2" not in "".join(calls)


@pytest.mark.requirement("INS-5", "INS-11", "INS-40")
async def test_a_remote_server_is_entered_with_its_headers_and_updated(place: Place) -> None:
    token = {"isRequired": True, "isSecret": True}
    header = {"name": "Authorization", "value": "Bearer {token}", "variables": {"token": token}}
    members: dict[str, Any] = {"headers": [header], "variables": {"tenant": {"isRequired": True}}}
    place.remote("mail", "https://{tenant}.mail.invalid/mcp", "1.0.0", **members)
    async with place.open() as engine:
        values = {"tenant": "ada", "token": "hunter-2"}
        plan = await engine.installer.plan_install("mail", values=values)
        await engine.installer.install(plan)
        place.remote("mail", "https://{tenant}.mail.invalid/v2/mcp", "2.0.0", **members)
        await engine.marketplace.sync(force=True)
        [update] = await engine.installer.plan_updates()
        await engine.installer.update(update)
        transport = engine.view.server_settings("mail").transport

    assert plan.server_entry == {
        "url": "https://ada.mail.invalid/mcp",
        "transport": "http",
        "headers": {"Authorization": "Bearer ${secret:mail/token}"},
        "description": "Server",
    }
    addresses = ("https://ada.mail.invalid/mcp", "https://ada.mail.invalid/v2/mcp")
    assert ("address", *addresses) in {
        (one.what, one.before, one.after) for one in update.differences
    }
    assert transport.url == addresses[1]


@pytest.mark.node
@needs_npm
@pytest.mark.requirement("INS-30")
async def test_other_content_under_a_pinned_version_is_refused(place: Place) -> None:
    place.publish("1.0.0")
    async with place.open() as engine:
        plan = await engine.installer.plan_install("files", values=place.values)
        place.index.add_npm("files", "1.0.0", script=node_server("evil"))
        shutil.rmtree(place.folder / "npm-cache")
        with pytest.raises(PackageChangedError):
            await engine.installer.install(plan)
        assert (await engine.servers.list(), engine.secrets.names(), place.left()) == ((), (), [])

        await engine.installer.install(
            await engine.installer.plan_install("files", values=place.values)
        )
        place.index.add_npm("files", "1.0.0", script=node_server("worse"))
        shutil.rmtree(place.folder / "npm-cache")
        [update] = await engine.installer.plan_updates()
        with pytest.raises(PackageChangedError):
            await engine.installer.update(update)

    assert update.problem
    assert update.problem.code == "PACKAGE_CHANGED"


@pytest.mark.node
@needs_npm
@pytest.mark.requirement("INS-10", "INS-20")
async def test_nothing_is_done_for_a_missing_value_or_a_name_that_is_taken(place: Place) -> None:
    place.publish("1.0.0", {"name": "MODE", "isRequired": True, "default": "fast"})
    async with place.open() as engine:
        plan = await engine.installer.plan_install("files")
        with pytest.raises(MissingInputsError) as caught:
            await engine.installer.install(plan)
        await engine.servers.add("files", {"command": "true"})
        with pytest.raises(ConfigurationError, match="there is a server 'files' already"):
            await engine.installer.asked("files")

    assert caught.value.names == ("KEY", "folder")
    assert caught.value.hint.endswith(" --with folder=… --secret KEY")
    assert (place.index.downloads, place.left()) == ([], [])


@pytest.mark.node
@needs_npm
@pytest.mark.requirement("INS-40", "INS-42")
@pytest.mark.parametrize("to", ["file", "registry"])
async def test_a_server_is_updated_set_back_and_removed(place: Place, to: Any) -> None:
    place.publish("1.0.0")
    async with place.open() as engine:
        installer = engine.installer
        await installer.install(await installer.plan_install("files", values=place.values, to=to))
        [same] = await installer.plan_updates(["files"])
        assert same.is_empty
        place.publish("2.0.0", {"name": "MODE", "value": "fast"})
        await engine.marketplace.sync(force=True)
        if to == "file":
            text = place.config.read_text().replace('"command":', '"tags": ["mine"], "command":')
            place.config.write_text(text)
            await engine.reload()

        [update] = await installer.plan_updates()
        changed = await installer.update(update)
        updated = await seen(engine)

        differences = {(one.what, one.before, one.after) for one in update.differences}
        assert {
            ("version", "1.0.0", "2.0.0"),
            ("argument", "files@1.0.0", "files@2.0.0"),
            ("environment", "", "MODE=fast"),
        } <= differences
        assert (changed.pin.version, updated["version"]) == ("2.0.0", "2.0.0")
        assert (updated["env"]["KEY"], updated["env"]["MODE"]) == ("hunter-2", "fast")
        tags = engine.view.server_settings("files").tags
        assert tags == (("mine",) if to == "file" else ())

        for version in ("1.0.0", "2.0.0"):
            await installer.rollback("files")
            assert (await seen(engine))["version"] == version
        await uninstall(engine)
        assert (await engine.servers.list(), engine.secrets.names(), place.left()) == ((), (), [])


@pytest.mark.node
@needs_npm
@pytest.mark.requirement("INS-42")
async def test_an_agents_request_uninstalls_and_the_secrets_stay(place: Place) -> None:
    place.publish("1.0.0")
    async with place.open() as engine:
        plan = await engine.installer.plan_install("files", values=place.values)
        await engine.installer.install(plan)
        listed_ones = await engine.servers.list(installed_only=True)
        with pytest.raises(NotInstalledError):
            await engine.installer.rollback("files")
        request = await engine.requests.submit("uninstall", "files", client="agent")
        await engine.requests.accept(request.id)
        again = await engine.installer.plan_install("files")

        assert engine.secrets.names() == ("files/KEY",)
    assert [str(one.package) for one in listed_ones] == ["files@1.0.0"]
    # The next of that name gets none of them.
    assert [one.key for one in again.missing] == ["KEY", "folder"]
    assert place.left() == []


@pytest.mark.node
@needs_npm
@pytest.mark.requirement("INS-22")
async def test_a_server_that_is_removed_while_its_update_is_planned_is_told(place: Place) -> None:
    place.publish("1.0.0")
    async with place.open() as engine, BlockingPortal() as portal:
        installer = engine.installer
        await installer.install(await installer.plan_install("files", values=place.values))

        def remove(path: str) -> None:
            place.index.refuse = lambda _: None
            portal.call(engine.servers.remove, "files")

        place.index.refuse = remove
        [update] = await installer.plan_updates()

    assert isinstance(update.problem, NotInstalledError)


@pytest.mark.node
@needs_npm
@pytest.mark.requirement("INS-22", "INS-40")
async def test_only_a_server_that_runs_the_package_is_an_installed_one(place: Place) -> None:
    place.publish("1.0.0")
    place.publish("1.0.0", name="mail")
    async with place.open() as engine:
        installer = engine.installer
        await installer.install(await installer.plan_install("files", values=place.values))
        text = place.config.read_text()
        place.config.write_text(text.replace('"-y"', '"--quiet", "-y"'))
        await engine.reload()
        assert [one.name for one in await installer.plan_updates()] == ["files"]
        await engine.servers.remove("files")
        await engine.servers.add("files", {"command": "true"})

        assert await installer.plan_updates() == ()
        with pytest.raises(NotInstalledError):
            await installer.installed("files")
        await installer.install(await installer.plan_install("mail", values=place.values))
        assert len(list((place.packages / "installed").glob("*"))) == 1
        assert [one.name for one in await engine.servers.list(installed_only=True)] == ["mail"]


@pytest.mark.node
@needs_npm
@pytest.mark.requirement("INS-13")
async def test_a_folder_that_holds_the_data_folder_is_not_granted_and_that_is_said(
    place: Place,
) -> None:
    place.publish("1.0.0")
    async with place.open() as engine:
        values = {**place.values, "folder": str(place.folder)}
        plan = await engine.installer.plan_install("files", values=values)

    assert plan.argv[-1] == str(place.folder)
    assert "write" not in plan.server_entry["sandbox"]
    assert any(f"not let it use {place.folder}, which holds" in one for one in plan.warnings)


@pytest.mark.requirement("INS-20")
@pytest.mark.parametrize(("kind", "where"), [("npm", "nodejs.org"), ("pypi", "docs.astral.sh")])
async def test_a_missing_program_is_named_with_how_to_get_it(
    place: Place, kind: str, where: str
) -> None:
    place.path = str(place.folder)
    place.offer("files", kind, "files")
    async with place.open() as engine:
        with pytest.raises(PackageManagerError) as caught:
            await engine.installer.plan_install("files")

    assert where in caught.value.hint


@pytest.mark.node
@needs_npm
@pytest.mark.requirement("INS-22")
async def test_what_a_killed_installation_has_left_is_deleted_by_the_next(place: Place) -> None:
    place.publish("1.0.0")
    killed = await anyio.run_process(
        [sys.executable, "-m", "tests.servers.killed_installation", str(place.folder), "files"],
        cwd=ROOT,
        env=place.environ | {"DISCOVERY_TEST_VALUES": json.dumps(place.values)},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert place.left() != []
    async with place.open() as engine:
        assert await engine.servers.list() == ()
        assert "hunter-2" not in place.config.read_text()
        values = {"KEY": "${OWN:-k}", "folder": str(place.notes)}
        await engine.installer.install(await engine.installer.plan_install("files", values=values))

        assert (await seen(engine))["version"] == "1.0.0"
        assert engine.secrets.names() == ()
        await uninstall(engine)
    assert place.left() == []
