"""Decisions follow the `name` of a configuration, not its path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from discovery_engine.engine import Engine, open_engine
from discovery_engine.runtime.restore import stored_view
from tests.engines import entry
from tests.factories import make_definition
from tests.told import Told

pytestmark = pytest.mark.anyio

TOOL = make_definition("mail", "Send a mail.")
CHANGED = make_definition("mail", "Send a mail to everybody.")


class Files:
    """Configurations of one owner, with one data folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.told = Told.beside(folder, TOOL)

    def write(self, file: str, name: str | None, *servers: str) -> Path:
        path = self.folder / file
        path.parent.mkdir(exist_ok=True)
        written = {"servers": {one: entry(self.told.server()) for one in servers or ("told",)}}
        path.write_text(json.dumps(written | ({"name": name} if name else {})), "utf-8")
        return path

    def open(self, config: Path | None) -> Any:
        return open_engine(config, data_dir=self.folder / "data")

    async def listed(self, config: Path) -> list[str]:
        """The tools that may be used, once the server was listed."""
        async with self.open(config) as engine:
            return await usable(engine)


async def usable(engine: Engine) -> list[str]:
    await engine.refresh()
    return [one.tool.name for one in engine.view.catalog if one.verdict.enabled]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.mark.requirement("TRU-55")
async def test_a_file_that_is_moved_keeps_the_decisions_of_its_name(files: Files) -> None:
    before = files.write("before/discovery.yaml", "work")
    assert await files.listed(before) == ["mail"]
    files.told.says(CHANGED)

    moved = files.write("after/discovery.yaml", "work")
    assert await files.listed(moved) == []

    async with files.open(moved) as engine:
        await engine.review.accept(await engine.review.changes())
    assert await files.listed(before) == ["mail"]


@pytest.mark.requirement("TRU-55")
async def test_files_without_a_name_or_with_another_share_nothing(files: Files) -> None:
    await files.listed(files.write("one/discovery.yaml", "work"))
    files.told.says(CHANGED)

    assert await files.listed(files.write("two/discovery.yaml", None)) == ["mail"]
    assert await files.listed(files.write("three/discovery.yaml", "home")) == ["mail"]


@pytest.mark.requirement("TRU-55")
async def test_files_of_one_name_have_a_catalog_each(files: Files) -> None:
    one = files.write("one/discovery.yaml", "work", "told")
    two = files.write("two/discovery.yaml", "work", "other")
    await files.listed(one)
    await files.listed(two)

    for config, server in [(one, "told"), (two, "other")]:
        view = stored_view(config, data_dir=files.folder / "data")
        assert view is not None
        assert list(view.catalog.parts) == [server]


@pytest.mark.requirement("TRU-56")
async def test_the_name_of_an_untrusted_file_does_not_count(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = files.write("own/discovery.yaml", "work")
    await files.listed(own)
    foreign = files.write("foreign/discovery.yaml", "work")
    monkeypatch.chdir(foreign.parent)
    monkeypatch.delenv("DISCOVERY_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(files.folder / "home"))
    files.told.says(CHANGED)

    async with files.open(None) as engine:
        assert engine.settings.name == ""
        assert any(one.subject == "name" for one in engine.settings.warnings)
        await engine.trust.approve(await engine.trust.candidates())
        assert await usable(engine) == ["mail"]

    assert await files.listed(own) == []
