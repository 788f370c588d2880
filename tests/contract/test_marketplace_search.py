"""The search of the marketplace: over names, titles, descriptions and tools of all sources."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from discovery_engine import open_engine
from tests.servers.mcp_registry_server import listed, registry_server

pytestmark = pytest.mark.anyio

WORLD = [
    listed("io.github.acme/pdf-reader", description="Read PDF files and extract their text"),
    listed("io.github.acme/pdf-maker", description="Create PDF files from Markdown"),
    listed("com.github/github-mcp-server", title="GitHub", description="Issues, pull requests"),
    listed("io.github.someone/github", description="A bridge"),
    listed("io.github.acme/weather", description="Forecasts of the weather by place"),
    listed("io.github.acme/notes", description="Notes", tools=["create_note", "search_notes"]),
    listed("de.acme/rechnungen", description="Rechnungen schreiben und verschicken"),
]


def registry(url: str, name: str = "acme", **more: object) -> dict[str, object]:
    return {"type": "mcp-registry", "id": name, "url": url, **more}


@asynccontextmanager
async def marketplace(folder: Path, *sources: dict[str, object]) -> AsyncIterator[Any]:
    config = folder / "discovery.yaml"
    config.write_text(json.dumps({"marketplace": {"sources": sources}}), "utf-8")
    async with open_engine(config, environ={"PATH": ""}, data_dir=folder / "data") as engine:
        yield engine.marketplace


@asynccontextmanager
async def one_registry(folder: Path, *entries: dict[str, Any], **more: Any) -> AsyncIterator[Any]:
    with registry_server(*entries) as server:
        async with marketplace(folder, registry(server.url, **more)) as market:
            yield market


def names(page: Any) -> list[str]:
    return [found.entry.name for found in page.entries]


@pytest.mark.requirement("MKT-16")
async def test_what_fits_is_found_by_names_texts_and_tools(tmp_path: Path) -> None:
    first = {
        "read pdf": "io.github.acme/pdf-reader",
        "create a pdf from markdown": "io.github.acme/pdf-maker",
        "GitHub": "com.github/github-mcp-server",
        "github-mcp-server": "com.github/github-mcp-server",
        "io.github.acme/weather": "io.github.acme/weather",
        "what will the wether be": "io.github.acme/weather",
        "search notes": "io.github.acme/notes",
        "write an invoice": "de.acme/rechnungen",
        "an MCP server for weather forecasts": "io.github.acme/weather",
    }
    async with one_registry(tmp_path, *WORLD) as market:
        pages = {query: await market.search(query) for query in first}

    assert {query: names(page)[0] for query, page in pages.items()} == first
    for page in pages.values():
        relevance = [found.relevance for found in page.entries]
        assert relevance == sorted(relevance, reverse=True)
        assert all(0 < share <= 1 for share in relevance)


@pytest.mark.requirement("MKT-17")
async def test_offline_nobody_is_asked_and_the_age_and_state_of_the_copies_are_known(
    tmp_path: Path,
) -> None:
    with registry_server(*WORLD) as server:
        async with marketplace(tmp_path, registry(server.url, trust="curated")) as market:
            [before] = await market.sources()
            await market.sync()
            asked = len(server.asked)
            page = await market.search("read pdf", offline=True)
            [after] = await market.sources()

    assert (before.entries, before.synced_at, before.is_complete) == (0, None, False)
    assert names(page)[0] == "io.github.acme/pdf-reader"
    assert page.synced_at == after.synced_at is not None
    assert (after.name, after.type, after.trust) == ("acme", "mcp-registry", "curated")
    assert (after.entries, after.is_complete) == (len(WORLD), True)
    assert len(server.asked) == asked


@pytest.mark.requirement("MKT-4")
async def test_the_same_package_of_several_sources_is_one_entry_with_its_origins(
    tmp_path: Path,
) -> None:
    package = {"registryType": "npm", "identifier": "@acme/pdf", "version": "1.0.0"}
    same: dict[str, Any] = {
        "repository": {"url": "https://github.com/acme/pdf"},
        "packages": [package],
    }
    with (
        registry_server(listed("com.acme/pdf", **same)) as first,
        registry_server(listed("org.mirror/acme-pdf", title="Acme PDF", **same)) as other,
    ):
        sources = (
            registry(first.url, "one", trust="curated"),
            registry(other.url, "other", trust="official"),
        )
        async with marketplace(tmp_path, *sources) as market:
            page = await market.search("pdf")
            by_other_name = await market.lookup("org.mirror/acme-pdf")

    [result] = page.entries
    assert (result.entry.name, result.entry.title) == ("com.acme/pdf", "Acme PDF")
    assert result.entry.description == "Server pdf"
    assert [origin.source for origin in result.entry.origins] == ["one", "other"]
    assert result.entry.trust == "official"
    assert by_other_name.name == "com.acme/pdf"
