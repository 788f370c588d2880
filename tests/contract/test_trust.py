"""What specs/trust.md promises of servers: which may be started, and what decides it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from discovery_engine import Engine, ServerState, load_settings, open_engine
from discovery_engine.errors import ToolWithheldError, UntrustedServerError
from discovery_engine.events import ConfigurationReloaded
from tests.contract.discovery import Discovery, Finished
from tests.engines import Folder, entry, heard, summary
from tests.factories import make_definition
from tests.forked import Preloaded
from tests.told import Told
from tests.unit.trust.mutations import MUTATIONS, TOOL

pytestmark = pytest.mark.anyio

MAIL = make_definition("mail", "Send a mail.")
OTHER_MAIL = make_definition("mail", "Send a mail to everybody.")


def usable(engine: Engine) -> list[str]:
    return [one.tool.name for one in engine.view.catalog if one.verdict.enabled]


async def approve(engine: Engine) -> None:
    await engine.trust.approve(await engine.trust.candidates())


@pytest.fixture
def told(folder: Folder) -> Told:
    return Told.beside(folder.path, MAIL)


class Project:
    """A folder whose configuration was found, not named."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    @property
    def environ(self) -> dict[str, str]:
        environ = {**os.environ, "XDG_CONFIG_HOME": str(self.folder.path / "home")}
        environ.pop("DISCOVERY_CONFIG", None)
        return environ

    def write(self, server: dict[str, Any], /, **sections: Any) -> None:
        content = {"servers": {"told": server}, **sections}
        self.folder.config.write_text(json.dumps(content), "utf-8")

    def open(self) -> Any:
        return open_engine(data_dir=self.folder.data, environ=self.environ)

    def command(self, *words: str) -> None:
        """A command of the owner, in a process of its own."""
        environ = self.environ | {"DISCOVERY_DATA_DIR": str(self.folder.data)}
        program = [sys.executable, "-m", "discovery_cli", *words]
        subprocess.run(program, env=environ, check=True, capture_output=True, timeout=120)


@pytest.fixture
def project(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(folder.path)
    return Project(folder)


@pytest.mark.requirement("TRU-1")
async def test_a_server_that_its_owner_named_is_started_without_a_question(
    folder: Folder, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write(told.server())
    async with folder.open() as engine:
        await engine.refresh()
        assert usable(engine) == ["mail"]

    own = folder.path / "home" / "discovery"
    own.mkdir(parents=True)
    folder.config.rename(own / "discovery.yaml")
    monkeypatch.chdir(own)  # where it is found as ./discovery.yaml, too
    environ = {"XDG_CONFIG_HOME": str(own.parent)}
    async with open_engine(data_dir=folder.data, environ=environ) as engine:
        await engine.refresh()
        assert usable(engine) == ["mail"]
    assert told.starts == 2


@pytest.mark.requirement("TRU-2")
async def test_a_server_that_was_found_is_started_once_it_is_approved(
    project: Project, told: Told
) -> None:
    project.write(entry(told.server()))
    async with project.open() as engine:
        report = await engine.refresh()
        [(name, failure)] = report.servers
        assert (name, failure.code) == ("told", "SERVER_UNTRUSTED")
        assert summary(engine.view, "told").state is ServerState.UNTRUSTED
        assert "discovery review servers" in summary(engine.view, "told").hint
        assert told.starts == 0

        await approve(engine)
        await engine.refresh()
        assert usable(engine) == ["mail"]

    async with project.open() as engine:
        await engine.execute("told", "mail", {})
        project.write(entry(told.server()) | {"args": ["--more"]})
        await engine.reload()
        with pytest.raises(UntrustedServerError) as raised:
            await engine.execute("told", "mail", {})
    assert raised.value.refusal == "altered"


@pytest.mark.requirement("TRU-2")
def test_a_file_that_others_can_write_counts_as_found(tmp_path: Path) -> None:
    file = tmp_path / "above" / "folder" / "discovery.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("{servers: {x: {command: 'true'}}, trust: open}", "utf-8")
    link = tmp_path / "link.yaml"
    link.symlink_to(file)
    assert not load_settings(file).is_untrusted_origin

    for place in (file, file.parent, file.parents[1]):
        mode = place.stat().st_mode
        place.chmod(mode | 0o002)
        for named in (file, link):
            settings = load_settings(named)
            assert (settings.is_untrusted_origin, settings.trust) == (True, "on_first_use")
            assert f"`chmod go-w {place}`" in settings.warnings[0].hint
        place.chmod(mode)


@pytest.mark.requirement("TRU-7")
async def test_what_another_process_decides_reaches_a_process_that_runs(
    project: Project, told: Told
) -> None:
    project.write(entry(told.server()))
    async with project.open() as serving, anyio.create_task_group() as tasks:
        tasks.start_soon(serving.run_maintenance)
        with serving.subscribe() as events:
            await anyio.to_thread.run_sync(project.command, "trust", "--yes")
            await heard(events, ConfigurationReloaded)
            await serving.execute("told", "mail", {})

            await anyio.to_thread.run_sync(project.command, "trust", "--revoke")
            await heard(events, ConfigurationReloaded)
            assert summary(serving.view, "told").state is ServerState.UNTRUSTED
            with pytest.raises(UntrustedServerError):
                await serving.execute("told", "mail", {})
        tasks.cancel_scope.cancel()


LOOSE: dict[str, Any] = {
    "name": "work",
    "trust": "open",
    "cache": {"enabled": False},
    "log": {"file": "log"},
    "search": {"embeddings": {"provider": "http", "url": "https://e.example", "apiKey": "${T}"}},
    "enrich": {"url": "https://e.example", "model": "m", "apiKey": "${T}"},
    "server": {
        "maxOwnSessions": 999,
        "maxSessions": 9999,
        "maxResultTokens": 0,
        "questionTimeout": 9999,
        "roots": ["/"],
        "onListChanged": ["sh", "-c", "evil"],
        "passEnv": ["SECRET"],
    },
}


@pytest.mark.requirement("TRU-8")
async def test_a_file_that_was_found_loosens_nothing_and_may_tighten(
    project: Project, told: Told
) -> None:
    harmless = entry(told.server())
    project.write(harmless)
    async with project.open() as engine:
        usual = engine.settings
    loose = harmless | {"trust": "open", "limits": {"calls": 999, "queue": 1}}
    project.write(loose, **LOOSE)

    async with project.open() as engine:
        found = engine.settings

    [server] = found.servers
    assert (found.name, found.trust, server.trust) == ("", "on_first_use", "on_first_use")
    assert (server.limits.calls, server.limits.queue) == (usual.servers[0].limits.calls, 1)
    for section in ("cache", "log", "search", "enrich", "server"):
        assert getattr(found, section) == getattr(usual, section), section
    keys = [f"{a}.{b}" for a in ("cache", "log", "enrich", "server") for b in LOOSE[a]]
    keys += [f"search.embeddings.{key}" for key in LOOSE["search"]["embeddings"]]
    keys += ["name", "trust", "servers.told.trust", "servers.told.limits.calls"]
    assert {warning.subject for warning in found.warnings} == set(keys)

    project.write(harmless, trust="quarantine")
    async with project.open() as engine:
        await approve(engine)
        await engine.refresh()
        assert usable(engine) == []


@pytest.mark.requirement("TRU-55", "TRU-8")
async def test_decisions_are_kept_for_the_name_that_an_owner_gave_a_file(
    project: Project, told: Told
) -> None:
    def named(folder: str, name: str | None) -> Path:
        path = project.folder.path / folder / "discovery.yaml"
        path.parent.mkdir(exist_ok=True)
        content = {"servers": {"told": entry(told.server())}}
        path.write_text(json.dumps(content | ({"name": name} if name else {})), "utf-8")
        return path

    async def listed(config: Path | None) -> list[str]:
        async with open_engine(
            config, data_dir=project.folder.data, environ=project.environ
        ) as engine:
            if engine.settings.is_untrusted_origin:
                await approve(engine)
            await engine.refresh()
            return usable(engine)

    before = named("before", "work")
    assert await listed(before) == ["mail"]
    told.says(OTHER_MAIL)

    assert await listed(named("after", "work")) == []
    assert await listed(named("other", None)) == ["mail"]
    assert await listed(named("third", "home")) == ["mail"]
    found = named(".discovery", "work")  # below the working folder: nobody named it
    assert found.exists()
    assert await listed(None) == ["mail"]
    assert await listed(before) == []


OTHER = make_definition("other", "Another one.")
THIRD = make_definition("third", "The third.")


@dataclass(frozen=True)
class Home:
    discovery: Discovery
    told: Told

    def __call__(self, *words: str) -> Finished:
        return self.discovery(*words)

    @property
    def lock(self) -> Path:
        return self.discovery.home / "discovery.lock"

    @property
    def folder(self) -> Folder:
        return Folder(self.discovery.home)

    def configure(self, **servers: Any) -> None:
        command, *args = self.told.command
        told = {"command": command, "args": [*args, "--token", "${TOKEN:-hunter2}"]}
        content = {"servers": {"told": told, **servers}}
        (self.discovery.home / "discovery.yaml").write_text(json.dumps(content), "utf-8")


@pytest.fixture
def home(tmp_path: Path, forked: Preloaded) -> Home:
    made = Home(Discovery(tmp_path, forked), Told.beside(tmp_path, TOOL, OTHER))
    made.configure()
    assert made("refresh").code == 0
    return made


@pytest.mark.requirement("TRU-30")
def test_lock_pins_every_tool_and_check_shows_what_differs(home: Home) -> None:
    written = home("config", "lock")
    before = home.lock.read_bytes()
    same = home("config", "lock", "--check")
    home.told.says(MUTATIONS["type"], THIRD)
    checked = home("config", "lock", "--check")
    form = home("config", "lock", "--check", "--json").json

    assert (written.code, same.code, checked.code) == (0, 0, 7)
    assert "pinned 2 tools" in written.err
    assert checked.out.splitlines()[0] == "removed (breaking)  told:other [LOCK_REMOVED]"
    assert "changed (breaking)  told:send_mail" in checked.out
    assert "added (compatible)  told:third" in checked.out
    assert [one["code"] for one in form["deviations"]].count("LOCK_CHANGED") == 1
    assert home.lock.read_bytes() == before
    assert before.isascii()
    assert b"hunter2" not in before


@pytest.mark.anyio
@pytest.mark.requirement("TRU-31")
async def test_frozen_uses_only_what_is_pinned_and_loosens_nothing(home: Home) -> None:
    home.told.says(MUTATIONS["description"], OTHER)
    elsewhere = str(home.discovery.home / "elsewhere")  # where the change is seen first
    assert home("--data-dir", elsewhere, "config", "lock").code == 0
    home.told.says(MUTATIONS["description"], OTHER, THIRD)
    home.configure(second={"command": home.told.command[0], "args": home.told.command[1:]})

    async with home.folder.open(frozen=True) as engine:
        await engine.refresh()
        part = engine.view.catalog.part("told")
        reasons = {one.tool.name: one.verdict.reason for one in part.entries}
        with pytest.raises(ToolWithheldError) as raised:
            await engine.execute("told", "third", {})
        assert summary(engine.view, "second").state is ServerState.UNTRUSTED

    assert reasons == {"send_mail": "changed", "other": "default", "third": "unpinned"}
    assert raised.value.command == "discovery config lock --check"
    home.configure()
    assert home("--frozen", "execute", "told:third").code == 4
    assert home("execute", "told:other", "--frozen").code == 0
    assert home("search", "third", "--frozen").code == 2


@pytest.mark.requirement("TRU-31")
def test_frozen_without_a_lock_file_that_can_be_used_is_an_error(home: Home) -> None:
    damages: dict[str, Callable[[], object]] = {
        "there is no lock file": lambda: None,
        "the lock file is damaged: it has version 99": lambda: home.lock.write_text(
            '{"lockVersion": 99, "servers": {}}', "utf-8"
        ),
        "the lock file is damaged: ": lambda: home.lock.write_text("{" * 100_000, "utf-8"),
        "the lock file cannot be read: ": lambda: (home.lock.unlink(), home.lock.mkdir()),
    }
    for said, damage in damages.items():
        damage()
        result = home("list", "--frozen", "--json")
        [problem] = json.loads(result.err)["error"]["problems"]
        assert (result.code, problem["code"]) == (2, "LOCK_UNUSABLE")
        assert problem["message"].startswith(said)
