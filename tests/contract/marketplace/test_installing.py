"""Installations with the real npm, pip and uv against a registry and an index on this machine."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from discovery_engine import open_engine
from discovery_engine.engine import Engine
from discovery_engine.errors import (
    ConfigurationError,
    InstallFailedError,
    MissingInputsError,
    NotFoundError,
    NotInstalledError,
    PackageChangedError,
    PackageManagerError,
)
from discovery_engine.installer import install_records
from discovery_engine.installer.install_records import InstallRecords
from discovery_engine.installer.installer import Installer
from discovery_engine.installer.sandbox_grants import Grants
from discovery_engine.marketplace.entry import (
    EntryOrigin,
    Input,
    MarketplaceEntry,
    PackageOffer,
    RemoteOffer,
)
from discovery_engine.marketplace.entry_details import EntryDetails
from tests.servers.package_index import PackageIndex, package_index
from tests.servers.package_servers import node_server, python_server
from tests.servers.programs import none_left_running

pytestmark = pytest.mark.anyio
UV = Path(__file__).parents[3] / ".tools" / "servers" / "uv" / "bin"
needs_uv = pytest.mark.skipif(not (UV / "uv").exists(), reason="`make servers` would bring uv")
needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")


@dataclass
class Place:
    """A configuration, a data folder, and what the marketplace has."""

    index: PackageIndex
    folder: Path
    entries: dict[str, MarketplaceEntry] = field(default_factory=dict)
    path: str = os.environ.get("PATH", os.defpath)

    @property
    def config(self) -> Path:
        return self.folder / "discovery.yaml"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def notes(self) -> Path:
        """What servers are given to work on."""
        folder = self.folder / "notes"
        folder.mkdir(exist_ok=True)
        return folder

    @property
    def environ(self) -> dict[str, str]:
        return self.index.environ(self.folder) | {"PATH": self.path}

    def add_uv(self) -> None:
        self.path = f"{UV}{os.pathsep}{self.path}"

    def remove_uv(self) -> None:
        folders = self.path.split(os.pathsep)
        kept = (folder for folder in folders if not (Path(folder) / "uv").exists())
        self.path = os.pathsep.join(kept)

    def offer(self, name: str, kind: Any, identifier: str, **members: Any) -> None:
        """Have an entry with one package; an earlier one of the name is replaced."""
        version = members.pop("version", "1.0.0")
        package = PackageOffer(kind, identifier, version, **members)
        origins = (EntryOrigin("official", "official"),)
        self.entries[name] = MarketplaceEntry(
            f"test#{kind}:{identifier}", name, version=version, packages=(package,), origins=origins
        )

    def remote(
        self, name: str, url: str, variables: tuple[Input, ...], headers: tuple[Input, ...]
    ) -> None:
        """Have an entry of a remote server."""
        offer = RemoteOffer("streamable-http", url, headers, variables)
        origins = (EntryOrigin("official", "official"),)
        self.entries[name] = MarketplaceEntry(
            f"test#{name}", name, version="1.0.0", remotes=(offer,), origins=origins
        )

    async def find(self, name: str, _: str = "") -> EntryDetails:
        if name not in self.entries:
            raise NotFoundError(f"there is no entry {name!r}", ())
        return EntryDetails(self.entries[name])

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[Engine, Installer]]:
        async with open_engine(self.config, environ=self.environ, data_dir=self.data) as engine:
            yield (
                engine,
                Installer(
                    engine, self.find, environ=self.environ, data=self.data, clock=lambda: 1.0
                ),
            )

    def left(self) -> list[str]:
        """Everything of packages in the data folder, beside the lock."""
        packages = self.data / "packages"
        return sorted(
            str(path.relative_to(packages))
            for path in packages.glob("*/*")
            if path.parent.name != "downloads"
        )


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with package_index() as index, none_left_running():
        made = Place(index, tmp_path)
        made.config.write_text("servers: {}\n")
        yield made


async def seen(engine: Engine, server: str) -> dict[str, Any]:
    """What the server's tool returns of its environment."""
    result = await engine.execute(server, "environment", {})
    text: str = result["content"][0]["text"]
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.mark.node
@needs_npm
@pytest.mark.requirement("INS-1", "INS-6", "INS-11", "INS-21")
@pytest.mark.parametrize("to", ["file", "registry"])
async def test_an_npm_package_is_installed_pinned_and_its_tool_called(
    place: Place, to: Any
) -> None:
    integrity = place.index.add_npm("@acme/files", script=node_server("1.0.0"))
    place.offer(
        "io.github.acme/files-mcp",
        "npm",
        "@acme/files",
        package_arguments=(Input("folder", "positional", is_required=True),),
        environment=(Input("FILES_KEY", "environment", is_required=True, is_secret=True),),
    )
    said: list[str] = []
    async with place.open() as (engine, installer):
        plan = await installer.plan_install(
            "io.github.acme/files-mcp",
            values={"folder": str(place.notes), "FILES_KEY": "hunter-2"},
            to=to,
        )
        assert place.left() == []
        done = await installer.install(plan, on_progress=said.append)
        found = await seen(engine, "files")

    assert plan.argv == ("npx", "-y", "@acme/files@1.0.0", str(place.notes))
    assert plan.environment == {"FILES_KEY": "${secret:files/FILES_KEY}"}
    assert (plan.pin.integrity, done.name, done.where) == (integrity, "files", to)
    assert said == [
        "downloading @acme/files@1.0.0",
        "installing @acme/files@1.0.0 with what it depends on",
    ]
    assert found["args"] == [str(place.notes)]
    assert found["env"]["FILES_KEY"] == "hunter-2"
    assert found["cwd"] == str(place.data / "packages" / "npm" / "files-1.0.0")
    assert "hunter-2" not in place.config.read_text()
    assert "hunter-2" not in repr(plan)


@pytest.mark.node
@needs_npm
@pytest.mark.requirement("INS-45")
@pytest.mark.parametrize("to", ["file", "registry"])
async def test_an_accepted_request_of_an_agent_uninstalls_what_was_installed(
    place: Place, to: Any
) -> None:
    place.index.add_npm("files", script=node_server("1.0.0"))
    place.offer("files", "npm", "files")
    async with place.open() as (engine, installer):
        await installer.install(await installer.plan_install("files", to=to))
        listed = [one.package for one in await engine.servers.list(installed_only=True)]
        request = await engine.requests.submit("uninstall", "files", client="agent")
        await engine.requests.accept(request.id)

    assert [str(package) for package in listed] == ["files@1.0.0"]
    assert place.left() == []


@pytest.mark.node
@needs_npm
@pytest.mark.requirement("INS-30")
async def test_what_is_started_is_what_was_pinned_whatever_its_registry_gives_later(
    place: Place,
) -> None:
    place.index.add_npm("files", script=node_server("good"))
    place.offer("files", "npm", "files")
    async with place.open() as (_, installer):
        await installer.install(await installer.plan_install("files"))
    place.index.add_npm("files", script=node_server("evil"))
    shutil.rmtree(place.folder / "npm-cache")

    async with place.open() as (engine, installer):
        assert (await seen(engine, "files"))["version"] == "good"
        [update] = await installer.plan_updates()

    assert isinstance(update.problem, PackageChangedError)
    assert update.problem.code == "PACKAGE_CHANGED"
    with pytest.raises(PackageChangedError):
        await installer.update(update)


@needs_uv
@pytest.mark.requirement("INS-1", "INS-21", "INS-30")
async def test_a_python_package_is_installed_pinned_and_its_tool_called(place: Place) -> None:
    place.add_uv()
    integrity = place.index.add_wheel("acme-files", module=python_server("1.0.0"))
    place.offer("acme-files", "pypi", "acme-files", environment=(Input("KEY", "environment"),))
    async with place.open() as (engine, installer):
        plan = await installer.plan_install("acme-files", values={"KEY": "${UNSET:-k}"})
        await installer.install(plan)
        place.index.add_wheel("acme-files", module=python_server("evil"))
        shutil.rmtree(place.folder / "uv-cache")
        found = await seen(engine, "acme-files")

    assert plan.argv == ("uvx", "acme-files==1.0.0")
    assert plan.pin.integrity == integrity
    assert found["version"] == "1.0.0"
    assert found["prefix"].startswith(str(place.data / "packages" / "python" / "acme-files-1.0.0"))


@needs_uv
@pytest.mark.requirement("INS-1")
async def test_a_python_package_whose_program_has_another_name_is_installed(place: Place) -> None:
    place.add_uv()
    place.index.add_wheel("acme-files", program="serve-files", module=python_server("1.0.0"))
    place.offer("acme-files", "pypi", "acme-files")
    async with place.open() as (engine, installer):
        plan = await installer.plan_install("acme-files")
        await installer.install(plan)
        found = await seen(engine, "acme-files")

    assert plan.argv == ("uvx", "--from", "acme-files==1.0.0", "serve-files")
    assert found["version"] == "1.0.0"


@pytest.mark.requirement("INS-1")
async def test_without_uv_a_python_package_gets_an_environment_of_our_own(place: Place) -> None:
    place.remove_uv()
    place.index.add_wheel("acme-files", module=python_server("1.0.0"))
    place.offer("acme-files", "pypi", "acme-files")
    async with place.open() as (engine, installer):
        plan = await installer.plan_install("acme-files")
        await installer.install(plan)
        found = await seen(engine, "acme-files")

    folder = place.data / "packages" / "python" / "acme-files-1.0.0"
    assert plan.argv == (str(folder / "bin" / "acme-files"),)
    assert (found["version"], found["prefix"]) == ("1.0.0", str(folder))


@pytest.mark.requirement("INS-22", "INS-30")
@pytest.mark.parametrize("has_uv", [pytest.param(True, marks=needs_uv), False])
async def test_a_wheel_that_changes_after_the_plan_is_refused_and_nothing_is_left(
    place: Place, *, has_uv: bool
) -> None:
    if has_uv:
        place.add_uv()
    else:
        place.remove_uv()
    place.index.add_wheel("acme-files", module=python_server("1.0.0"))
    place.offer("acme-files", "pypi", "acme-files")
    async with place.open() as (engine, installer):
        plan = await installer.plan_install("acme-files")
        place.index.python.clear()
        place.index.add_wheel("acme-files", module=python_server("evil"))
        shutil.rmtree(place.folder / "pip-cache", ignore_errors=True)
        shutil.rmtree(place.folder / "uv-cache", ignore_errors=True)

        with pytest.raises(PackageChangedError) as caught:
            await installer.install(plan)

        assert await engine.servers.list() == ()
    assert caught.value.pinned == plan.pin.integrity
    assert place.left() == []


@pytest.mark.node
@needs_npm
@pytest.mark.requirement("INS-22", "INS-30")
async def test_an_npm_package_that_changes_after_the_plan_is_refused_and_nothing_is_left(
    place: Place,
) -> None:
    place.index.add_npm("files", script=node_server("1.0.0"))
    key = Input("KEY", "environment", is_secret=True)
    place.offer("files", "npm", "files", environment=(key,))
    async with place.open() as (engine, installer):
        plan = await installer.plan_install("files", values={"KEY": "hunter-2"})
        place.index.add_npm("files", script=node_server("evil"))
        shutil.rmtree(place.folder / "npm-cache")

        with pytest.raises(PackageChangedError):
            await installer.install(plan)

        assert await engine.servers.list() == ()
        assert engine.secrets.names() == ()
    assert place.left() == []


@pytest.mark.node
@needs_npm
@pytest.mark.requirement("INS-12")
async def test_nothing_is_fetched_while_a_required_value_is_missing(place: Place) -> None:
    place.index.add_npm("files")
    inputs = (
        Input("FILES_KEY", "environment", is_required=True, is_secret=True),
        Input("FOLDER", "environment", is_required=True),
        Input("MODE", "environment", is_required=True, default="fast"),
    )
    place.offer("files", "npm", "files", environment=inputs)
    async with place.open() as (_, installer):
        plan = await installer.plan_install("files")
        with pytest.raises(MissingInputsError) as caught:
            await installer.install(plan)

    assert caught.value.names == ("FILES_KEY", "FOLDER")
    assert caught.value.hint.endswith(" --with FOLDER=… --secret FILES_KEY")
    assert place.index.downloads == []


@pytest.mark.node
@needs_npm
@pytest.mark.requirement("INS-22")
async def test_a_name_that_is_taken_is_refused_before_anything_is_fetched(place: Place) -> None:
    place.index.add_npm("files")
    place.offer("files", "npm", "files")
    place.config.write_text('{"servers": {"files": {"command": "true"}}}')
    async with place.open() as (engine, installer):
        with pytest.raises(ConfigurationError, match="there is a server 'files' already"):
            await installer.asked("files")
        with pytest.raises(ConfigurationError, match="there is a server 'files' already"):
            await installer.plan_install("files")
        plan = await installer.plan_install("files", server="other")
        await engine.servers.add("Other", {"command": "false"})
        with pytest.raises(ConfigurationError):
            await installer.install(plan)

    assert place.index.downloads == []
    assert place.left() == []


@pytest.mark.node
@needs_npm
@pytest.mark.requirement("INS-22")
async def test_after_a_failed_installation_the_next_one_works(place: Place) -> None:
    place.index.add_npm("files", script=node_server("1.0.0"), dependencies={"gone": "1.0.0"})
    place.offer("files", "npm", "files")
    async with place.open() as (engine, installer):
        plan = await installer.plan_install("files")
        with pytest.raises(InstallFailedError, match="cannot be installed"):
            await installer.install(plan)
        assert place.left() == []
        place.index.add_npm("gone")

        await installer.install(plan)

        assert (await seen(engine, "files"))["version"] == "1.0.0"


@pytest.mark.node
@needs_npm
@pytest.mark.requirement("INS-21", "INS-22")
async def test_a_cancelled_installation_leaves_nothing(place: Place) -> None:
    place.index.add_npm("files", script=node_server("1.0.0"))
    place.offer("files", "npm", "files")
    async with place.open() as (engine, installer):
        plan = await installer.plan_install("files")
        with anyio.CancelScope() as scope:

            def cancel(text: str) -> None:
                if text.startswith("installing"):
                    scope.cancel()

            await installer.install(plan, on_progress=cancel)

        assert scope.cancelled_caught
        assert place.left() == []
        assert await engine.servers.list() == ()

        await installer.install(plan)
        assert (await seen(engine, "files"))["version"] == "1.0.0"


@pytest.mark.node
@needs_npm
@pytest.mark.requirement("INS-40", "INS-41", "INS-42", "INS-43")
@pytest.mark.parametrize("to", ["file", "registry"])
async def test_a_server_is_updated_set_back_and_removed(place: Place, to: Any) -> None:
    key = Input("KEY", "environment", is_required=True, is_secret=True)
    folder = Input("folder", "positional", is_required=True)
    for version in ("1.0.0", "2.0.0"):
        place.index.add_npm("files", version, script=node_server(version))
    place.offer("files", "npm", "files", environment=(key,), package_arguments=(folder,))
    async with place.open() as (engine, installer):
        values = {"KEY": "hunter-2", "folder": str(place.notes)}
        await installer.install(await installer.plan_install("files", values=values, to=to))
        [same] = await installer.plan_updates(["files"])
        assert same.is_empty
        mode = Input("MODE", "environment", value="fast")
        place.offer(
            *("files", "npm", "files"),
            version="2.0.0",
            environment=(key, mode),
            package_arguments=(folder, Input("--all", "named")),
        )
        if to == "file":
            text = place.config.read_text()
            place.config.write_text(text.replace("    command:", "    tags: [mine]\n    command:"))
            await engine.reload()

        [update] = await installer.plan_updates()
        changed = await installer.update(update)
        updated = await seen(engine, "files")

        found = {(one.what, one.before, one.after) for one in update.differences}
        assert {
            ("version", "1.0.0", "2.0.0"),
            ("argument", "files@1.0.0", "files@2.0.0"),
            ("argument", "", "--all"),
            ("environment", "", "MODE=fast"),
        } <= found
        assert changed.pin.version == "2.0.0"
        assert (updated["version"], updated["args"][1:]) == ("2.0.0", ["--all"])
        assert (updated["env"]["KEY"], updated["env"]["MODE"]) == ("hunter-2", "fast")
        tags = engine.view.server_settings("files").tags
        assert tags == (("mine",) if to == "file" else ())

        await installer.rollback("files")
        assert (await seen(engine, "files"))["version"] == "1.0.0"
        await installer.rollback("files")
        assert (await seen(engine, "files"))["version"] == "2.0.0"

        await installer.uninstall("files", delete_secrets=True)
        assert await engine.servers.list() == ()
        assert engine.secrets.names() == ()
    assert place.left() == []


@pytest.mark.node
@needs_npm
@pytest.mark.requirement("INS-13", "INS-40")
async def test_a_server_starts_after_several_updates_and_only_two_versions_are_kept(
    place: Place,
) -> None:
    versions = ("1.0.0", "2.0.0", "3.0.0")
    for version in versions:
        place.index.add_npm("files", version, script=node_server(version))
    place.offer("files", "npm", "files")
    grants = Grants(write=(str(place.notes),))
    async with place.open() as (engine, installer):
        await installer.install(await installer.plan_install("files", grants=grants))
        for version in versions[1:]:
            place.offer("files", "npm", "files", version=version)
            [update] = await installer.plan_updates()
            await installer.update(update)

        assert (await seen(engine, "files"))["version"] == "3.0.0"
        sandbox = engine.view.server_settings("files").sandbox

        place.index.npm.clear()
        await installer.rollback("files")  # to its copy, also where the registry has it no more
        assert (await seen(engine, "files"))["version"] == "2.0.0"

    own = str(place.data / "packages" / "npm" / "files-3.0.0")
    assert (sandbox.read, sandbox.write) == ((own,), (str(place.notes),))
    assert [one for one in place.left() if one.startswith("npm/")] == [
        "npm/files-2.0.0",
        "npm/files-3.0.0",
    ]


@pytest.mark.node
@needs_npm
@pytest.mark.requirement("INS-43")
async def test_secrets_stay_if_their_owner_wants_to_keep_them(place: Place) -> None:
    place.index.add_npm("files")
    key = Input("KEY", "environment", is_secret=True)
    place.offer("files", "npm", "files", environment=(key,))
    async with place.open() as (engine, installer):
        plan = await installer.plan_install("files", values={"KEY": "hunter-2"})
        await installer.install(plan)
        await installer.uninstall("files", delete_secrets=False)

        assert engine.secrets.names() == ("files/KEY",)
        place.offer("files", "npm", "files", environment=(required(key),))
        again = await installer.plan_install("files")
    assert [one.key for one in again.missing] == ["KEY"]  # the next of that name gets none of them


@pytest.mark.node
@needs_npm
@pytest.mark.requirement("INS-42", "INS-43")
async def test_what_was_not_installed_is_neither_updated_nor_removed(place: Place) -> None:
    place.index.add_npm("files")
    place.offer("files", "npm", "files")
    place.config.write_text('{"servers": {"other": {"command": "true"}}}')
    async with place.open() as (_, installer):
        await installer.install(await installer.plan_install("files"))
        for work in (
            installer.plan_updates(["other"]),
            installer.rollback("files"),
            installer.rollback("other"),
            installer.uninstall("other", delete_secrets=True),
        ):
            with pytest.raises(NotInstalledError):
                await work


@pytest.mark.node
@needs_npm
@pytest.mark.requirement("INS-25")
async def test_what_its_owner_has_removed_by_hand_is_deleted_by_the_next_installation(
    place: Place,
) -> None:
    for name in ("files", "mail"):
        place.index.add_npm(name, script=node_server("1.0.0"))
        place.offer(name, "npm", name)
    async with place.open() as (engine, installer):
        await installer.install(await installer.plan_install("files"))
        await seen(engine, "files")
    place.config.write_text("servers: {}\n")

    async with place.open() as (engine, installer):
        assert await installer.plan_updates() == ()
        assert await installer.find("files") is None
        await installer.install(await installer.plan_install("mail"))

        left = [one for one in place.left() if not one.startswith("begun")]
        assert [one for one in left if one.startswith("npm/")] == ["npm/mail-1.0.0"]
        assert len([one for one in left if one.startswith("installed/")]) == 1
        assert list((place.data / "sandboxes").glob("files-*")) == []
        await installer.install(await installer.plan_install("files"))
        assert (await seen(engine, "files"))["version"] == "1.0.0"


@pytest.mark.node
@needs_npm
@pytest.mark.requirement("INS-25")
@pytest.mark.parametrize("to", ["file", "registry"])
async def test_another_server_under_the_name_of_one_that_was_installed_is_none(
    place: Place, to: Any
) -> None:
    place.index.add_npm("files", script=node_server("1.0.0"))
    place.index.add_npm("files", "2.0.0", script=node_server("2.0.0"))
    place.offer("files", "npm", "files")
    place.offer("mail", "npm", "files")
    async with place.open() as (engine, installer):
        await installer.install(await installer.plan_install("files", to=to))
        await engine.servers.remove("files")
        await engine.servers.add("files", {"command": "true", "tags": ["mine"]}, to=to)
        place.offer("files", "npm", "files", version="2.0.0")

        assert await installer.plan_updates() == ()
        with pytest.raises(NotInstalledError):
            await installer.uninstall("files", delete_secrets=False)
        assert [one.name for one in await engine.servers.list(installed_only=True)] == []
        await installer.install(await installer.plan_install("mail", to=to))

        assert engine.view.server_settings("files").tags == ("mine",)
        assert [one for one in place.left() if one.startswith("npm/")] == ["npm/mail-1.0.0"]


@pytest.mark.node
@needs_npm
@pytest.mark.requirement("INS-25", "INS-41")
async def test_an_entry_that_its_owner_edits_is_still_that_of_an_installed_server(
    place: Place,
) -> None:
    place.index.add_npm("files", script=node_server("1.0.0"))
    place.offer("files", "npm", "files")
    place.offer("mail", "npm", "files")
    async with place.open() as (engine, installer):
        await installer.install(await installer.plan_install("files"))
        text = place.config.read_text()
        place.config.write_text(text.replace("      - -y", "      - --quiet\n      - -y"))
        await engine.reload()
        assert engine.view.server_settings("files").transport.args[0] == "--quiet"

        assert [one.name for one in await installer.plan_updates()] == ["files"]
        await installer.install(await installer.plan_install("mail"))
        assert (await seen(engine, "files"))["version"] == "1.0.0"


@pytest.mark.node
@needs_npm
@pytest.mark.requirement("INS-25")
async def test_a_copy_that_another_server_is_started_from_stays(place: Place) -> None:
    place.index.add_npm("files", script=node_server("1.0.0"))
    place.offer("files", "npm", "files")
    place.offer("mail", "npm", "files")
    async with place.open() as (engine, installer):
        await installer.install(await installer.plan_install("files"))
        text = place.config.read_text()
        place.config.write_text(text.replace("  files:", "  mine:"))
        await engine.reload()
        await installer.install(await installer.plan_install("mail"))

        assert [one for one in place.left() if one.startswith("npm/")] == [
            "npm/files-1.0.0",
            "npm/mail-1.0.0",
        ]


@pytest.mark.node
@needs_npm
@pytest.mark.requirement("INS-13")
async def test_the_sandbox_grants_what_the_owner_named_and_the_servers_own_folder(
    place: Place,
) -> None:
    place.index.add_npm("files")
    folder = Input("folder", "positional")
    place.offer("files", "npm", "files", package_arguments=(folder,))
    own = str(place.data / "packages" / "npm" / "files-1.0.0")
    async with place.open() as (_, installer):
        usual = await installer.plan_install("files", values={"folder": str(place.notes)})
        strict = await installer.plan_install("files", grants=Grants(network=False))

    assert usual.server_entry["sandbox"] == {
        "kind": "auto",
        "read": [own],
        "write": [str(place.notes)],
        "network": True,
    }
    assert strict.server_entry["sandbox"] == {"kind": "auto", "read": [own]}


@pytest.mark.node
@needs_npm
@pytest.mark.requirement("INS-13")
async def test_a_folder_that_holds_the_data_folder_is_not_granted_and_that_is_said(
    place: Place,
) -> None:
    place.index.add_npm("files", script=node_server("1.0.0"))
    place.offer("files", "npm", "files", package_arguments=(Input("folder", "positional"),))
    async with place.open() as (engine, installer):
        plan = await installer.plan_install("files", values={"folder": str(place.folder)})
        await installer.install(plan)
        found = await seen(engine, "files")

    assert found["args"] == [str(place.folder)]
    assert "write" not in plan.server_entry["sandbox"]
    assert f"does not let it use {place.folder}, which holds" in plan.warnings[-1]


@pytest.mark.node
@needs_npm
@pytest.mark.requirement("INS-23")
async def test_while_another_process_installs_nothing_is_installed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install_records, "_WAIT", 0.0)
    place.index.add_npm("files")
    place.offer("files", "npm", "files")
    async with place.open() as (_, installer):
        plan = await installer.plan_install("files")
        with (
            InstallRecords(place.data).lock(),
            pytest.raises(InstallFailedError, match="another process is installing"),
        ):
            await installer.install(plan)
    assert place.left() == []


@pytest.mark.requirement("INS-24")
async def test_a_missing_program_is_named_with_how_to_get_it(place: Place) -> None:
    place.path = str(place.folder)
    place.offer("files", "npm", "files")
    place.offer("images", "oci", "acme/images", integrity=f"sha256:{'0' * 64}")
    async with place.open() as (_, installer):
        with pytest.raises(PackageManagerError) as caught:
            await installer.plan_install("files")
        plan = await installer.plan_install("images")
        with pytest.raises(InstallFailedError) as refused:
            await installer.install(plan)

    assert "nodejs.org" in caught.value.hint
    assert plan.argv[:4] == ("docker", "run", "-i", "--rm")
    assert refused.value.message == "docker is needed: it is not on the PATH"
    assert "docs.docker.com" in refused.value.hint
    assert place.left() == []


@pytest.mark.node
@needs_npm
@pytest.mark.requirement("INS-22")
@pytest.mark.parametrize("moment", ["downloading", "installing", "entering"])
async def test_what_a_killed_installation_has_left_is_deleted_by_the_next(
    place: Place, moment: str
) -> None:
    place.index.add_npm("files", script=node_server("1.0.0"))
    place.offer("files", "npm", "files", environment=(Input("KEY", "environment"),))
    killed = await anyio.run_process(
        [sys.executable, "-m", "tests.servers.killed_installation", str(place.folder), moment],
        cwd=Path(__file__).parents[3],
        env=place.environ
        | {"DISCOVERY_TEST_ENTRY": json.dumps(to_builtins(place.entries["files"]))},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert place.left() != []
    async with place.open() as (engine, installer):
        assert await engine.servers.list() == ()
        assert "hunter-2" not in place.config.read_text()

        plan = await installer.plan_install("files")
        await installer.install(plan)

        assert (await seen(engine, "files"))["version"] == "1.0.0"
        assert engine.secrets.names() == ()
        await installer.uninstall("files", delete_secrets=True)
    assert place.left() == []


DIGEST = f"sha256:{'ab' * 32}"
DOCKER = f"""#!/bin/sh
printf '%s\\n' "$*" >> "$HOME/docker-calls"
case "$1" in
  --version) echo 'Docker version 29.0.1' ;;
  buildx) echo '"{DIGEST}"' ;;
  pull) test ! -e "$HOME/is-full" || {{ echo 'write: no space left on device' >&2; exit 1; }} ;;
esac
"""


@pytest.fixture
def docker(place: Place) -> Path:
    """A docker that knows every image under one digest; returns what it was called with."""
    folder = place.folder / "bin"
    folder.mkdir()
    (folder / "docker").write_text(DOCKER)
    (folder / "docker").chmod(0o755)
    place.path = f"{folder}:/usr/bin:/bin"
    return place.folder / "docker-calls"


@pytest.mark.requirement("INS-1", "INS-2", "INS-30")
async def test_an_image_is_pinned_by_its_digest_and_pulled_by_it(
    place: Place, docker: Path
) -> None:
    folder = Input("folder", "variable", is_required=True)
    mount = Input("--mount", "named", value="type=bind,src={folder},dst=/data", variables=(folder,))
    place.offer(
        *("files", "oci", "ghcr.io/acme/files"),
        version="1.2.0",
        runtime_arguments=(mount,),
        package_arguments=(Input("", "positional", value="serve"),),
        environment=(Input("FILES_KEY", "environment", is_secret=True),),
    )
    async with place.open() as (engine, installer):
        values = {"FILES_KEY": "hunter-2", "folder": str(place.notes)}
        plan = await installer.plan_install("files", values=values)
        await installer.install(plan)
        written = engine.view.server_settings("files").transport

    assert plan.argv == (
        *("docker", "run", "-i", "--rm", "-e", "FILES_KEY"),
        *("--mount", f"type=bind,src={place.notes},dst=/data", f"ghcr.io/acme/files@{DIGEST}"),
        "serve",
    )
    assert plan.pin.integrity == DIGEST
    assert plan.server_entry["sandbox"]["write"] == [str(place.notes)]
    assert written.args == plan.argv[1:]
    calls = called(docker)
    assert (
        "buildx imagetools inspect --format {{json .Manifest.Digest}} ghcr.io/acme/files:1.2.0"
        in calls
    )
    assert calls[-1] == f"pull --quiet ghcr.io/acme/files@{DIGEST}"
    assert "hunter-2" not in "".join(calls)


@pytest.mark.requirement("INS-22")
@pytest.mark.usefixtures("docker")
async def test_a_full_disk_is_named_and_nothing_is_left(place: Place) -> None:
    place.offer("files", "oci", "acme/files", integrity=DIGEST)
    empty(place, is_full=True)
    async with place.open() as (engine, installer):
        plan = await installer.plan_install("files")
        with pytest.raises(InstallFailedError, match="no space left on the disk"):
            await installer.install(plan)
        assert await engine.servers.list() == ()
        empty(place)

        await installer.install(plan)

        assert [server.name for server in await engine.servers.list()] == ["files"]


@pytest.mark.requirement("INS-22")
@pytest.mark.usefixtures("docker")
async def test_a_data_folder_that_is_full_leaves_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.offer("files", "oci", "acme/files", environment=(Input("KEY", "environment"),))
    async with place.open() as (engine, installer):
        plan = await installer.plan_install("files", values={"KEY": "hunter-2"})
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def fail(path: Path, *_: object, **__: object) -> None:
            if path.parent.name == "installed":
                raise full

        with monkeypatch.context() as patched:
            patched.setattr(install_records, "replace_file", fail)
            with pytest.raises(InstallFailedError, match=os.strerror(errno.ENOSPC)):
                await installer.install(plan)

        assert engine.secrets.names() == ()
        assert await engine.servers.list() == ()
        await installer.install(plan)
        assert engine.secrets.names() == ("files/KEY",)


@pytest.mark.requirement("INS-5", "INS-11", "INS-40")
async def test_a_remote_server_is_entered_with_its_headers_and_updated(place: Place) -> None:
    key = Input("token", "variable", is_required=True, is_secret=True)
    header = Input("Authorization", "header", value="Bearer {token}", variables=(key,))
    tenant = Input("tenant", "variable", is_required=True)
    place.remote("mail", "https://{tenant}.mail.example/mcp", (tenant,), (header,))
    async with place.open() as (engine, installer):
        values = {"tenant": "ada", "token": "hunter-2"}
        plan = await installer.plan_install("mail", values=values)
        await installer.install(plan)
        place.remote("mail", "https://{tenant}.mail.example/v2/mcp", (tenant,), (header,))
        [update] = await installer.plan_updates()
        await installer.update(update)
        transport = engine.view.server_settings("mail").transport

    assert plan.server_entry == {
        "url": "https://ada.mail.example/mcp",
        "transport": "http",
        "headers": {"Authorization": "Bearer ${secret:mail/token}"},
    }
    assert ("address", "https://ada.mail.example/mcp", "https://ada.mail.example/v2/mcp") in {
        (one.what, one.before, one.after) for one in update.differences
    }
    assert transport.url == "https://ada.mail.example/v2/mcp"


def called(docker: Path) -> list[str]:
    return docker.read_text().splitlines()


def empty(place: Place, *, is_full: bool = False) -> None:
    """The disk of docker."""
    mark = place.folder / "is-full"
    mark.touch() if is_full else mark.unlink()


def required(one: Input) -> Input:
    return replace(one, is_required=True)
