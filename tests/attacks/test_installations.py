"""Hostile entries, packages and bundles: judged by what was run, written and sent."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import stat
import zipfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from discovery_engine import open_engine
from discovery_engine.engine import Engine
from discovery_engine.errors import DiscoveryError, InstallRefusedError, PackageChangedError
from discovery_engine.marketplace.entry import EntryOrigin, Input, MarketplaceEntry, PackageOffer
from discovery_engine.marketplace.entry_details import EntryDetails
from discovery_engine.marketplace.installer.installer import Installer
from tests.servers.package_index import package_index
from tests.servers.package_servers import node_server, python_server
from tests.servers.programs import none_left_running

pytestmark = pytest.mark.anyio
URL = "https://bundles.example.com/files.mcpb"
METACHARACTERS = [
    *("; touch M", "$(touch M)", "`touch M`", "&& touch M", "| touch M", "> M", "'; touch M; '"),
    *('"; touch M; "', "a b", "*", "~", "%PATH%", "!touch M", "--call", "-c", "${IFS}touch M"),
]
IDENTIFIERS = [
    *("-c", "--call", "--privileged", "--from", "-p", "--prefix=/tmp/evil", "--registry=http://x"),
    *(
        "../../evil",
        "./local",
        "/etc/cron.d",
        "file:../evil",
        "attacker/pwn",
        "github:attacker/pwn",
    ),
    *("git+https://evil.example/x.git", "https://evil.example/x.tgz", "evil.tgz", "http:evil"),
    *("name@latest", "name@1.0.0 --call touch", "name;touch M", "$(touch M)", "`touch M`", "a b"),
    *("name\n--call", "name\0x", "n\u0430me", "Name", ".hidden", "_name", "@scope", "@/name"),
    *("@scope/../name", "a" * 5000, "", " ", "npm:evil", "name|touch M", "evil.example:5000/img"),
]


@dataclass
class Victim:
    """A configuration, a data folder, and programs that record how they were started."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "discovery.yaml"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def marker(self) -> Path:
        """What the attacks would write."""
        return self.folder / "M"

    def record(self, *programs: str) -> dict[str, str]:
        """Programs that write their arguments down, and fail."""
        folder = self.folder / "bin"
        folder.mkdir(exist_ok=True)
        for name in programs:
            path = folder / name
            path.write_text(
                f'#!/bin/sh\nprintf "%s\\0" {name} "$@" >> {self.folder}/calls\nexit 1\n'
            )
            path.chmod(0o755)
        return {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(self.folder)}

    @property
    def calls(self) -> list[str]:
        """Every word with which a recorded program was started."""
        path = self.folder / "calls"
        return path.read_text("utf-8", "surrogateescape").split("\0") if path.exists() else []

    @asynccontextmanager
    async def installer(
        self, entry: MarketplaceEntry, environ: dict[str, str]
    ) -> AsyncIterator[tuple[Engine, Installer]]:
        async def find(_: str, __: str) -> EntryDetails:
            return EntryDetails(entry)

        async with open_engine(self.config, environ=environ, data_dir=self.data) as engine:
            yield engine, Installer(engine, engine._core, find)

    def bundle(self, *members: tuple[zipfile.ZipInfo | str, bytes], **server: Any) -> PackageOffer:
        """An offer of a bundle that is downloaded already."""
        packed = io.BytesIO()
        manifest = {
            "version": "1.0.0",
            "server": {"type": "python", "entry_point": "main.py"} | server,
        }
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("manifest.json", json.dumps(manifest))
            archive.writestr("main.py", python_server("1.0.0") + "\nmain()\n")
            for member, content in members:
                archive.writestr(member, content)
        digest = hashlib.sha256(packed.getvalue()).hexdigest()
        path = self.data / "packages" / "downloads" / f"{digest}.mcpb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(packed.getvalue())
        return PackageOffer("mcpb", URL, "1.0.0", integrity=f"sha256:{digest}")


@pytest.fixture
def victim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Victim]:
    with none_left_running():
        made = Victim(tmp_path)
        made.config.write_text("servers: {}\n")
        monkeypatch.chdir(tmp_path)  # where `touch M` would write
        yield made


def entry_of(*offers: PackageOffer, **members: Any) -> MarketplaceEntry:
    origins = (EntryOrigin("official", "official"),)
    return MarketplaceEntry(
        "test", "io.github.evil/files", packages=offers, origins=origins, **members
    )


def usual() -> dict[str, str]:
    return {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}


async def install(
    victim: Victim, entry: MarketplaceEntry, environ: dict[str, str], **given: Any
) -> None:
    async with victim.installer(entry, environ) as (_, installer):
        await installer.install(await installer.plan_install("x", values=given))


async def seen(engine: Engine) -> dict[str, Any]:
    result = await engine.execute("files", "environment", {})
    found: dict[str, Any] = json.loads(result["content"][0]["text"])
    return found


@pytest.mark.requirement("INS-1")
@pytest.mark.parametrize("kind", ["npm", "pypi", "oci", "nuget"])
@pytest.mark.parametrize("identifier", IDENTIFIERS)
async def test_a_hostile_name_of_a_package_reaches_no_program(
    victim: Victim, kind: Any, identifier: str
) -> None:
    if kind == "oci" and identifier in ("attacker/pwn", "evil.example:5000/img", "evil.tgz"):
        pytest.skip("the name of an image, which docker would pull by its digest")
    if kind in ("pypi", "nuget") and identifier == "Name":
        pytest.skip("capitals are usual there")
    environ = victim.record("npm", "npx", "uv", "uvx", "docker", "dnx", "pip", "sh", "touch")

    with pytest.raises(DiscoveryError):
        await install(victim, entry_of(PackageOffer(kind, identifier, "1.0.0")), environ)

    assert not any(identifier.strip() and identifier in word for word in victim.calls)
    assert set(victim.calls) <= {"npx", "npm", "uvx", "uv", "docker", "dnx", "--version", ""}
    assert not victim.marker.exists()


def words(*texts: str) -> tuple[Input, ...]:
    return tuple(Input("", "positional", value=text) for text in texts)


def link() -> tuple[zipfile.ZipInfo, bytes]:
    member = zipfile.ZipInfo("link")
    member.external_attr = (stat.S_IFLNK | 0o777) << 16
    return member, b"/etc"


EVIL = Input("LD_PRELOAD", "environment", value="/tmp/evil")
SHELL = {"command": "bash", "args": ["-c", "touch M"]}
PYTHON = {"command": "python3", "args": ["-c", "open('M', 'w')"]}
REFUSED: dict[str, Callable[[Victim], PackageOffer]] = {
    "npx -c": lambda _: PackageOffer(
        "npm", "files", "1.0.0", runtime_arguments=words("-c", "touch M")
    ),
    "docker -v": lambda _: PackageOffer(
        "oci", "files", "1.0.0", runtime_arguments=words("-v", "/:/host")
    ),
    "runtime hint": lambda _: PackageOffer("npm", "files", "1.0.0", runtime_hint="bash"),
    "variable": lambda victim: replace(victim.bundle(), environment=(EVIL,)),
    "path that leads out": lambda victim: victim.bundle(("../../../../M", b"x")),
    "absolute path": lambda victim: victim.bundle(("/tmp/M-discovery", b"x")),
    "link": lambda victim: victim.bundle(link()),
    "bomb": lambda victim: victim.bundle(("zeros", bytes(1 << 26))),
    "the same name": lambda victim: victim.bundle(("MAIN.PY", b"evil")),
    "shell": lambda victim: victim.bundle(mcp_config=SHELL),
    "python -c": lambda victim: victim.bundle(mcp_config=PYTHON),
    "binary elsewhere": lambda victim: victim.bundle(type="binary", entry_point="/usr/bin/touch"),
}


@pytest.mark.requirement("INS-1", "INS-2", "INS-32")
@pytest.mark.parametrize("offer", REFUSED.values(), ids=REFUSED)
async def test_what_an_entry_may_not_do_is_refused_before_anything_is_started_or_written(
    victim: Victim, offer: Callable[[Victim], PackageOffer]
) -> None:
    environ = victim.record("npm", "npx", "docker", "bash", "sh", "touch")

    with pytest.raises(InstallRefusedError):
        await install(victim, entry_of(offer(victim)), environ)

    assert set(victim.calls) <= {"npx", "npm", "docker", "--version", ""}
    assert not list(victim.folder.rglob("M"))
    assert not list((victim.data / "packages").glob("bundles/*"))
    assert "M-discovery" not in os.listdir("/tmp")  # noqa: PTH208
    assert "files" not in victim.config.read_text()


@pytest.mark.requirement("INS-1", "INS-4")
async def test_shell_text_in_values_and_entries_reaches_the_server_as_it_is(victim: Victim) -> None:
    offer = victim.bundle()
    arguments = tuple(
        Input(f"a{number}", "positional") for number in range(len(METACHARACTERS) - 1)
    )
    fixed = tuple(Input("", "positional", value=text) for text in METACHARACTERS)
    variables = (Input("TEXT", "environment", value="$(touch M) ${file:/etc/hostname}"),)
    offer = replace(offer, package_arguments=(*fixed, *arguments), environment=variables)
    given = {f"a{n}": text for n, text in enumerate(METACHARACTERS[:-1])}
    async with victim.installer(entry_of(offer), usual()) as (engine, installer):
        await installer.install(await installer.plan_install("x", values=given))
        found = await seen(engine)

    # A home folder is written `~` in many entries, and named for the program, as a shell would.
    passed = [str(Path.home()) if text == "~" else text for text in METACHARACTERS]
    assert found["args"] == [*passed, *passed[:-1]]
    assert found["env"]["TEXT"] == "$(touch M) ${file:/etc/hostname}"
    assert not list(victim.folder.rglob("M"))


@pytest.mark.requirement("INS-4", "INS-11")
async def test_an_entry_gets_no_secret_and_no_variable_of_its_owner(victim: Victim) -> None:
    texts = ["${secret:github/TOKEN}", "${OWN}", "$${OWN}", f"${{file:{victim.config}}}", "{x}"]
    arguments = tuple(Input("", "positional", value=text) for text in texts)
    x = Input("x", "variable", default="{secret:github/TOKEN}")
    templates = (Input("T", "environment", value="${x}", variables=(x,)),)
    offer = replace(victim.bundle(), package_arguments=arguments, environment=templates)
    environ = usual() | {"OWN": "canary-1"}
    async with victim.installer(entry_of(offer), environ) as (engine, installer):
        engine.secrets.set("github/TOKEN", "canary-2")
        await installer.install(await installer.plan_install("x"))
        found = await seen(engine)

    assert found["args"] == texts
    assert found["env"]["T"] == "${secret:github/TOKEN}"
    assert "canary" not in json.dumps(found)


@pytest.mark.requirement("INS-30")
async def test_a_bundle_that_changes_after_the_plan_is_not_started(victim: Victim) -> None:
    offer = victim.bundle()
    async with victim.installer(entry_of(offer), usual()) as (engine, installer):
        plan = await installer.plan_install("x")
        assert plan.archive is not None
        plan.archive.write_bytes(b"evil")

        with pytest.raises(PackageChangedError):
            await installer.install(plan)

        assert await engine.servers.list() == ()
    assert not list((victim.data / "packages").glob("bundles/*"))


@pytest.mark.node
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
@pytest.mark.requirement("INS-1")
async def test_the_folder_of_a_hostile_project_changes_nothing_of_an_installed_server(
    victim: Victim, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = victim.folder / "project"
    evil = project / "node_modules" / "files"
    evil.mkdir(parents=True)
    (evil / "package.json").write_text('{"name": "files", "version": "1.0.0", "bin": "main.js"}')
    (evil / "main.js").write_text(f"require('fs').writeFileSync('{victim.marker}', '')")
    (project / ".npmrc").write_text("registry=http://127.0.0.1:9/\nscript-shell=/tmp/evil\n")
    (project / "uv.toml").write_text(
        '[[index]]\nurl = "http://127.0.0.1:9/simple"\ndefault = true\n'
    )
    monkeypatch.chdir(project)
    with package_index() as index:
        environ = index.environ(victim.folder)
        index.add_npm("files", script=node_server("good"))
        entry = entry_of(PackageOffer("npm", "files", "1.0.0"))
        async with victim.installer(entry, environ) as (engine, installer):
            await installer.install(await installer.plan_install("x"))
            found = await seen(engine)

    assert found["version"] == "good"
    assert not victim.marker.exists()
