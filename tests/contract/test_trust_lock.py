"""What specs/trust.md promises of the lock file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from discovery_engine import ConfigurationError, ServerState
from discovery_engine.errors import ToolWithheldError
from tests.contract.discovery import Discovery, Finished
from tests.engines import Folder, summary
from tests.factories import make_definition
from tests.forked import Preloaded
from tests.told import Told
from tests.unit.trust.mutations import MUTATIONS, TOOL

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


@pytest.mark.requirement("TRU-30")
def test_nothing_is_pinned_while_a_tool_waits_or_a_server_is_unavailable(home: Home) -> None:
    home.told.says(MUTATIONS["type"], OTHER)
    home("refresh")
    waiting = home("config", "lock")
    home.told.says(TOOL, OTHER)
    home.configure(gone={"command": "no-such-program-anywhere"})
    unavailable = home("config", "lock", "--json")

    assert waiting.code == 4
    assert "discovery review" in waiting.err
    assert unavailable.code == 5
    assert unavailable.json["failed"] == ["gone"]
    assert not home.lock.exists()


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


@pytest.mark.anyio
@pytest.mark.requirement("TRU-31")
async def test_frozen_fails_without_a_lock_file_that_is_whole(home: Home) -> None:
    home("config", "lock")
    whole = home.lock.read_text("utf-8")
    edited = whole.replace("Another one.", "Another evil one.")
    assert edited != whole
    broken = {"{": "damaged", "[" * 100_000: "damaged", edited: "is not that of its definition"}

    for text, message in broken.items():
        home.lock.write_text(text, "utf-8")
        with pytest.raises(ConfigurationError, match=message):
            async with home.folder.open(frozen=True):
                raise AssertionError("it should not open")
    home.lock.unlink()
    with pytest.raises(ConfigurationError, match="there is no lock file"):
        async with home.folder.open(frozen=True):
            raise AssertionError("it should not open")
    checked = home("config", "lock", "--check")
    assert checked.code == 2
    assert "`discovery config lock` writes one" in checked.err
