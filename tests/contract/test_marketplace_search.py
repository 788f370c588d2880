"""The search of the marketplace: over names, titles, descriptions and tools of all sources."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from discovery_engine import open_engine
from discovery_engine.errors import (
    InputTooLongError,
    MarketplaceCursorError,
    MarketplaceEntryAmbiguousError,
    MarketplaceSourceNotFoundError,
)
from tests.servers.mcp_registry_server import listed, moment, registry_server
from tests.servers.web_server import WebAnswer

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


@pytest.mark.requirement("MKT-16")
async def test_a_query_of_words_that_every_server_has_lists_what_was_updated_last(
    tmp_path: Path,
) -> None:
    entries = [listed(f"com.acme/x{n}", day=n) for n in range(3)]
    async with one_registry(tmp_path, *entries) as market:
        pages = [await market.search(query) for query in ("", "  ", "mcp server")]

    assert [names(page) for page in pages] == [["com.acme/x2", "com.acme/x1", "com.acme/x0"]] * 3


@pytest.mark.requirement("MKT-16")
async def test_pages_have_every_result_once(tmp_path: Path) -> None:
    entries = [listed(f"com.acme/pdf-{n}", description="Reads PDF") for n in range(45)]
    results: list[str] = []
    async with one_registry(tmp_path, *entries) as market:
        cursor = None
        for _ in range(5):
            page = await market.search("pdf", limit=10, cursor=cursor)
            results += names(page)
            cursor = page.next_cursor

    assert cursor is None
    assert sorted(results) == sorted(entry["server"]["name"] for entry in entries)


@pytest.mark.requirement("MKT-16")
async def test_a_deprecated_server_comes_behind_others_unless_it_is_named(tmp_path: Path) -> None:
    old = listed("com.acme/pdf-old", description="Reads PDF", status="deprecated")
    entries = [
        listed(f"com.acme/files-{n}", description="Reads files, such as PDF") for n in range(3)
    ]
    async with one_registry(tmp_path, old, *entries) as market:
        first = await market.search("reads pdf", limit=2)
        second = await market.search("reads pdf", limit=2, cursor=first.next_cursor)
        named = await market.search("com.acme/pdf-old")

    assert names(second)[-1] == "com.acme/pdf-old"
    assert len({*names(first), *names(second)}) == 4
    assert names(named)[0] == "com.acme/pdf-old"


@pytest.mark.requirement("MKT-16")
async def test_only_the_sources_that_are_named_are_searched(tmp_path: Path) -> None:
    with (
        registry_server(listed("com.one/pdf")) as first,
        registry_server(listed("com.other/pdf")) as other,
    ):
        sources = registry(first.url, "one"), registry(other.url, "other")
        async with marketplace(tmp_path, *sources) as market:
            page = await market.search("pdf", sources=["other"])
            asked = list(first.asked)
            await market.sync()
            again = await market.search("pdf", sources=["other"])
            with pytest.raises(MarketplaceSourceNotFoundError, match="othr") as caught:
                await market.search("pdf", sources=["othr"])

    assert names(page) == names(again) == ["com.other/pdf"]
    assert caught.value.nearest == ("other",)
    assert asked == []


async def test_a_query_that_is_too_long_and_a_cursor_of_no_page_are_refused(
    tmp_path: Path,
) -> None:
    async with marketplace(tmp_path) as market:
        with pytest.raises(InputTooLongError):
            await market.search("a" * 9000)
        for cursor in ("x", "-1", "1" * 50, "\uff11"):
            with pytest.raises(MarketplaceCursorError):
                await market.search("a", cursor=cursor)


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


@pytest.mark.requirement("MKT-4")
async def test_a_name_that_another_source_has_too_is_another_server(tmp_path: Path) -> None:
    evil = {"registryType": "npm", "identifier": "evil-pdf", "version": "9.9.9"}
    with (
        registry_server(listed("com.acme/pdf")) as first,
        registry_server(listed("com.acme/pdf", packages=[evil])) as other,
    ):
        sources = registry(first.url, "one", trust="curated"), registry(other.url, "other")
        async with marketplace(tmp_path, *sources) as market:
            page = await market.search("pdf")
            with pytest.raises(MarketplaceEntryAmbiguousError) as caught:
                await market.lookup("com.acme/pdf")
            named = await market.lookup("other:com.acme/pdf")

    assert [result.entry.trust for result in page.entries].count("curated") == 1
    assert len(page.entries) == 2
    assert set(caught.value.candidates) == {"one:com.acme/pdf", "other:com.acme/pdf"}
    assert named.packages[0].identifier == "evil-pdf"


@pytest.mark.requirement("MKT-4")
async def test_servers_of_one_source_that_one_package_starts_stay_apart(tmp_path: Path) -> None:
    bridge = {"registryType": "npm", "identifier": "mcp-remote", "version": "1.0.0"}
    entries = [
        listed(name, packages=[bridge], repository={}) for name in ("com.one/docs", "com.two/docs")
    ]
    async with one_registry(tmp_path, *entries) as market:
        page = await market.search("docs")

    assert sorted(names(page)) == ["com.one/docs", "com.two/docs"]


@pytest.mark.requirement("MKT-4")
async def test_only_the_offers_of_the_source_that_counts_most_are_kept(tmp_path: Path) -> None:
    package = {"registryType": "npm", "identifier": "files", "version": "1.0.0"}
    same: dict[str, Any] = {"packages": [package], "repository": {}}
    inserted = {"type": "sse", "url": "https://evil.example/mcp"}
    with (
        registry_server(listed("com.acme/files", **same)) as first,
        registry_server(listed("com.acme/files", **same, remotes=[inserted])) as other,
    ):
        sources = registry(other.url, "other"), registry(first.url, "one", priority=5)
        async with marketplace(tmp_path, *sources) as market:
            page = await market.search("files")

    [result] = page.entries
    assert result.entry.remotes == ()
    assert [origin.source for origin in result.entry.origins] == ["one", "other"]


async def test_an_entry_is_looked_up_by_its_id_and_in_any_case_of_its_name(
    tmp_path: Path,
) -> None:
    async with one_registry(tmp_path, *WORLD) as market:
        await market.sync()
        entry = await market.lookup("IO.GitHub.acme/Weather")
        same = await market.lookup(entry.id)

    assert entry == same


@pytest.mark.requirement("MKT-60")
async def test_what_is_shown_has_all_versions_of_its_registry_and_may_be_another_one(
    tmp_path: Path,
) -> None:
    old = {"registryType": "npm", "identifier": "files", "version": "1.0.0"}
    argument = {"type": "positional", "value": "--old"}
    packages = [{**old, "packageArguments": [argument]}]
    versions = [
        listed("com.acme/files", version="1.0.0", day=1, is_latest=False, packages=packages),
        listed("com.acme/files", version="1.5.0", day=2, is_latest=False, status="deleted"),
        listed("com.acme/files", version="2.0.0", day=300),
    ]
    async with one_registry(tmp_path, *versions) as market:
        await market.sync()
        copied = await market.show("com.acme/files", offline=True)
        newest = await market.show("com.acme/files")
        older = await market.show("com.acme/files", version="1.0.0")

    assert [note.version for note in copied.entry.versions] == ["2.0.0"]
    assert copied.entry.first_published_at == ""
    assert [note.version for note in newest.entry.versions] == ["2.0.0", "1.0.0"]
    assert newest.entry.first_published_at == moment(1)
    assert newest.entry.version == "2.0.0"
    assert older.entry.version == "1.0.0"
    assert older.entry.packages[0].package_arguments[0].value == "--old"


@pytest.mark.thorough
@pytest.mark.requirement("MKT-60")
async def test_what_is_shown_does_not_wait_for_a_registry_that_is_down(tmp_path: Path) -> None:
    is_stuck = False

    def fault(_: object) -> WebAnswer | None:
        return WebAnswer(is_stuck=True) if is_stuck else None

    with registry_server(*WORLD, fault=fault) as server:
        async with marketplace(tmp_path, registry(server.url)) as market:
            await market.sync()
            is_stuck = True
            with anyio.fail_after(60):
                details = await market.show("io.github.acme/weather")

    assert details.entry.name == "io.github.acme/weather"
