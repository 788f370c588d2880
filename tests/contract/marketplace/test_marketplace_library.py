"""`engine.marketplace`, as programs use it, with a registry on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from discovery_engine import open_engine
from discovery_engine import sync as blocking
from discovery_engine.errors import MarketplaceEntryNotFoundError, MarketplaceSourceNotFoundError
from tests.servers.mcp_registry_server import RegistryServer, listed, registry_server
from tests.servers.package_index import package_index

FILES = "io.github.acme/files"


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with registry_server(listed(FILES, description="Reads files.")) as server:
        yield server


def configure(folder: Path, *sources: dict[str, object]) -> Path:
    config = folder / "discovery.yaml"
    config.write_text(json.dumps({"marketplace": {"sources": sources}}), "utf-8")
    return config


def team(registry: RegistryServer, name: str = "team") -> dict[str, object]:
    return {"type": "mcp-registry", "id": name, "url": registry.url}


@pytest.mark.anyio
@pytest.mark.requirement("MKT-60")
async def test_a_program_searches_looks_up_and_shows(
    registry: RegistryServer, tmp_path: Path
) -> None:
    config = configure(tmp_path, team(registry))

    async with open_engine(config, environ={"PATH": ""}, data_dir=tmp_path / "data") as engine:
        page = await engine.marketplace.search("files")
        details = await engine.marketplace.show(FILES, offline=True)
        [source] = await engine.marketplace.sources()
        with pytest.raises(MarketplaceEntryNotFoundError):
            await engine.marketplace.lookup("nothing")
        with pytest.raises(MarketplaceSourceNotFoundError):
            await engine.marketplace.search("files", sources=["other"])

    assert [found.entry.name for found in page.entries] == [FILES]
    assert details.entry.id == page.entries[0].entry.id
    assert [note.version for note in details.entry.versions] == ["1.0.0"]
    assert [one.is_usable for one in details.prerequisites] == [False, False]
    assert (source.name, source.entries) == ("team", 1)


@pytest.mark.requirement("MKT-60")
def test_a_program_without_async_does_the_same(registry: RegistryServer, tmp_path: Path) -> None:
    config = configure(tmp_path, team(registry))

    with blocking.open_engine(config, environ={"PATH": ""}, data_dir=tmp_path / "data") as engine:
        [report] = engine.marketplace.sync()
        page = engine.marketplace.search("files", offline=True)
        entry = engine.marketplace.lookup(FILES)
        details = engine.marketplace.show(FILES, offline=True)
        [source] = engine.marketplace.sources()

    assert (report.added, source.entries) == (1, 1)
    assert entry == details.entry
    assert entry.id == page.entries[0].entry.id


@pytest.mark.anyio
@pytest.mark.requirement("MKT-60")
async def test_changed_sources_count_after_a_reload(
    registry: RegistryServer, tmp_path: Path
) -> None:
    config = configure(tmp_path, team(registry))

    async with open_engine(config, environ={"PATH": ""}, data_dir=tmp_path / "data") as engine:
        before = await engine.marketplace.sources()
        configure(tmp_path, team(registry, "renamed"))
        await engine.reload()
        after = await engine.marketplace.sources()
        same = engine.marketplace is engine.marketplace

    assert [source.name for source in (*before, *after)] == ["team", "renamed"]
    assert same


@pytest.mark.packages
@pytest.mark.anyio
@pytest.mark.requirement("MKT-46")
async def test_a_python_package_that_only_its_name_finds_joins_the_others(
    registry: RegistryServer, tmp_path: Path
) -> None:
    config = configure(tmp_path, team(registry), {"type": "pypi"})
    with package_index() as index:
        index.add_wheel("acme-zebra-mcp", "3.1.0")
        environ = index.environ(tmp_path)
        async with open_engine(config, environ=environ, data_dir=tmp_path / "data") as engine:
            page = await engine.marketplace.search("acme-zebra-mcp")
            again = await engine.marketplace.search("acme-zebra-mcp", offline=True)

    first = page.entries[0].entry
    assert (first.name, first.version, first.trust) == ("acme-zebra-mcp", "3.1.0", "unreviewed")
    assert "acme-zebra-mcp" not in [found.entry.name for found in again.entries]
    assert index.downloads == []


@pytest.mark.packages
@pytest.mark.anyio
@pytest.mark.requirement("MKT-46")
async def test_a_well_known_package_gets_its_version_from_the_package_manager(
    tmp_path: Path,
) -> None:
    config = configure(tmp_path, {"type": "pypi"})
    with package_index() as index:
        index.add_wheel("mcp-server-time", "9.1.0")
        environ = index.environ(tmp_path)
        async with open_engine(config, environ=environ, data_dir=tmp_path / "data") as engine:
            page = await engine.marketplace.search("mcp-server-time")
            details = await engine.marketplace.show("mcp-server-time")

    named = [one.entry for one in page.entries if one.entry.name == "mcp-server-time"]
    assert [entry.version for entry in named] == ["9.1.0"]
    assert details.entry.packages[0].integrity.startswith("sha256:")
