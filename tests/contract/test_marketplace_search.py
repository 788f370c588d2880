"""The search of the marketplace: over names, titles, descriptions and tools of all sources."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from discovery_engine.config.marketplace_settings import MarketplaceSource
from discovery_engine.errors import (
    InputTooLongError,
    MarketplaceCursorError,
    MarketplaceEntryAmbiguousError,
    MarketplaceEntryNotFoundError,
    MarketplaceSourceNotFoundError,
)
from discovery_engine.marketplace.entry import EntryOrigin, MarketplaceEntry
from discovery_engine.marketplace.marketplace import MarketplacePage
from discovery_engine.marketplace.server_json import parse_server
from discovery_engine.marketplace.source import SourceFailure
from tests.marketplaces import Clock, marketplace, registry
from tests.rows import rows
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


class PackageManager:
    """A source that is asked, as npm is."""

    def __init__(
        self, *documents: dict[str, Any], name: str = "npm", failure: SourceFailure | None = None
    ) -> None:
        self.settings = MarketplaceSource("npm", id="" if name == "npm" else name)
        self._failure = failure
        self._entries = [
            parse_server(one, origin=EntryOrigin(name, "unreviewed")) for one in documents
        ]
        self.asked: list[str] = []

    async def search(self, query: str, *, limit: int) -> Sequence[MarketplaceEntry]:
        self.asked.append(query)
        if self._failure:
            raise self._failure
        return self._entries[:limit]

    async def lookup(self, name: str, version: str = "") -> MarketplaceEntry | None:
        del version
        self.asked.append(name)
        if self._failure:
            raise self._failure
        return next((one for one in self._entries if one.name == name), None)


def npm_package(name: str, repository: str = "", **members: Any) -> dict[str, Any]:
    package = {"registryType": "npm", "identifier": name, "version": "1.0.0"}
    place = {"repository": {"url": repository}} if repository else {}
    return {"name": name, "packages": [package], **place, **members}


def names(page: MarketplacePage) -> list[str]:
    return [found.entry.name for found in page.entries]


@pytest.mark.requirement("MKT-16")
@rows(
    ("query", "first"),
    [
        ("read pdf", "io.github.acme/pdf-reader"),
        ("create a pdf from markdown", "io.github.acme/pdf-maker"),
        ("GitHub", "com.github/github-mcp-server"),
        ("github-mcp-server", "com.github/github-mcp-server"),
        ("io.github.acme/weather", "io.github.acme/weather"),
        ("what will the wether be", "io.github.acme/weather"),
        ("search notes", "io.github.acme/notes"),
        ("write an invoice", "de.acme/rechnungen"),
        ("an MCP server for weather forecasts", "io.github.acme/weather"),
    ],
)
async def test_what_fits_is_found_by_names_texts_and_tools(
    tmp_path: Path, query: str, first: str
) -> None:
    with (
        registry_server(*WORLD) as server,
        marketplace(tmp_path, registry(server.url)) as market,
    ):
        page = await market.search(query)

    assert names(page)[0] == first
    relevance = [found.relevance for found in page.entries]
    assert relevance == sorted(relevance, reverse=True)
    assert all(0 < one <= 1 for one in relevance)


@pytest.mark.requirement("MKT-16")
async def test_a_query_of_words_that_every_server_has_lists_what_was_updated_last(
    tmp_path: Path,
) -> None:
    entries = [listed(f"com.acme/x{n}", day=n) for n in range(3)]
    with (
        registry_server(*entries) as server,
        marketplace(tmp_path, registry(server.url)) as market,
    ):
        pages = [await market.search(query) for query in ("", "  ", "mcp server")]

    assert [names(page) for page in pages] == [["com.acme/x2", "com.acme/x1", "com.acme/x0"]] * 3


@pytest.mark.requirement("MKT-16")
async def test_pages_have_every_result_once(tmp_path: Path) -> None:
    entries = [listed(f"com.acme/pdf-{n}", description="Reads PDF") for n in range(45)]
    found: list[str] = []
    with (
        registry_server(*entries) as server,
        marketplace(tmp_path, registry(server.url)) as market,
        anyio.fail_after(60),
    ):
        cursor = None
        while True:
            page = await market.search("pdf", limit=10, cursor=cursor)
            found += names(page)
            if (cursor := page.next_cursor) is None:
                break

    assert len(found) == 45
    assert sorted(found) == sorted(one["server"]["name"] for one in entries)


@pytest.mark.requirement("MKT-16")
async def test_a_deprecated_server_comes_behind_others_unless_it_is_named(tmp_path: Path) -> None:
    old = listed("com.acme/pdf-old", description="Reads PDF", status="deprecated")
    entries = [
        listed(f"com.acme/files-{n}", description="Reads files, such as PDF") for n in range(3)
    ]
    with (
        registry_server(old, *entries) as server,
        marketplace(tmp_path, registry(server.url)) as market,
    ):
        first = await market.search("reads pdf", limit=2)
        second = await market.search("reads pdf", limit=2, cursor=first.next_cursor)
        named = await market.search("com.acme/pdf-old")

    assert names(second)[-1] == "com.acme/pdf-old"
    assert len({*names(first), *names(second)}) == 4
    assert names(named)[0] == "com.acme/pdf-old"


@pytest.mark.requirement("MKT-16")
async def test_only_the_sources_that_are_named_are_searched(tmp_path: Path) -> None:
    manager = PackageManager(npm_package("npm-pdf"))
    with (
        registry_server(listed("com.one/pdf")) as one,
        registry_server(listed("com.other/pdf")) as other,
        marketplace(
            tmp_path,
            *(registry(one.url, "one"), registry(other.url, "other"), manager.settings),
            live=(manager,),
        ) as market,
    ):
        page = await market.search("pdf", sources=["other"])
        with pytest.raises(MarketplaceSourceNotFoundError, match="othr") as caught:
            await market.search("pdf", sources=["othr"])

    assert names(page) == ["com.other/pdf"]
    assert caught.value.nearest == ("other",)
    assert (one.asked, manager.asked) == ([], [])


@pytest.mark.requirement("MKT-16")
@rows(
    "query",
    [
        '"',
        "NEAR(",
        "a OR",
        "*",
        "-",
        "'; DROP TABLE entries; --",
        "\x00",
        "搜索",
        "\ud83d",
        "a" * 8000,
    ],
)
async def test_any_query_has_an_answer(tmp_path: Path, query: str) -> None:
    with (
        registry_server(*WORLD) as server,
        marketplace(tmp_path, registry(server.url)) as market,
    ):
        await market.search(query)
        after = await market.search("weather")

    assert names(after)[0] == "io.github.acme/weather"


async def test_a_query_that_is_too_long_and_a_cursor_of_no_page_are_refused(
    tmp_path: Path,
) -> None:
    with marketplace(tmp_path) as market:
        with pytest.raises(InputTooLongError):
            await market.search("a" * 9000)
        for cursor in ("x", "-1", "1" * 50, "\uff11"):
            with pytest.raises(MarketplaceCursorError):
                await market.search("a", cursor=cursor)


@pytest.mark.requirement("MKT-17")
async def test_offline_nobody_is_asked_and_the_age_of_the_copies_is_known(tmp_path: Path) -> None:
    clock = Clock()
    manager = PackageManager(npm_package("npm-pdf"))
    with (
        registry_server(*WORLD) as server,
        marketplace(
            tmp_path, registry(server.url), manager.settings, live=(manager,), clock=clock
        ) as market,
    ):
        await market.sync()
        asked = len(server.asked)
        clock.now += 40 * 86_400
        page = await market.search("read pdf", offline=True)
        with pytest.raises(MarketplaceEntryNotFoundError):
            await market.lookup("npm-pdf", offline=True)

    assert names(page)[0] == "io.github.acme/pdf-reader"
    assert page.synced_at == clock.now - 40 * 86_400
    assert len(server.asked) == asked
    assert manager.asked == []


@pytest.mark.requirement("MKT-17")
async def test_the_state_of_each_source_says_what_is_known_of_it(tmp_path: Path) -> None:
    clock = Clock()
    with (
        registry_server(*WORLD) as server,
        marketplace(tmp_path, registry(server.url, trust="curated"), clock=clock) as market,
    ):
        [before] = await market.sources()
        await market.sync()
        [after] = await market.sources()

    assert (before.entries, before.synced_at, before.is_complete) == (0, None, False)
    assert (after.name, after.type, after.trust) == ("acme", "mcp-registry", "curated")
    assert (after.entries, after.synced_at, after.is_complete) == (len(WORLD), clock.now, True)


@pytest.mark.requirement("MKT-4")
async def test_the_same_package_of_several_sources_is_one_entry_with_its_origins(
    tmp_path: Path,
) -> None:
    place = "https://github.com/acme/pdf"
    package = {"registryType": "npm", "identifier": "@acme/pdf", "version": "1.0.0"}
    same: dict[str, Any] = {"repository": {"url": place}, "packages": [package]}
    with (
        registry_server(listed("com.acme/pdf", **same)) as one,
        registry_server(listed("org.mirror/acme-pdf", title="Acme PDF", **same)) as other,
    ):
        first = registry(one.url, "one", trust="curated")
        second = registry(other.url, "other", trust="official")
        manager = PackageManager(npm_package("@acme/pdf", f"git+{place}.git"))
        with marketplace(tmp_path, first, second, manager.settings, live=(manager,)) as market:
            page = await market.search("pdf")
            by_other_name = await market.lookup("org.mirror/acme-pdf")

    [found] = page.entries
    assert found.entry.name == "com.acme/pdf"
    assert (found.entry.title, found.entry.description) == ("Acme PDF", "Server pdf")
    assert [origin.source for origin in found.entry.origins] == ["one", "other", "npm"]
    assert found.entry.trust == "unreviewed"
    assert by_other_name.name == "com.acme/pdf"
    assert by_other_name.trust == "official"


@pytest.mark.requirement("MKT-4")
async def test_a_name_that_another_source_has_too_is_another_server(tmp_path: Path) -> None:
    evil = {"registryType": "npm", "identifier": "evil-pdf", "version": "9.9.9"}
    with (
        registry_server(listed("com.acme/pdf")) as one,
        registry_server(listed("com.acme/pdf", packages=[evil])) as other,
        marketplace(
            tmp_path, registry(one.url, "one", trust="curated"), registry(other.url, "other")
        ) as market,
    ):
        page = await market.search("pdf")
        with pytest.raises(MarketplaceEntryAmbiguousError) as caught:
            await market.lookup("com.acme/pdf")
        named = await market.lookup("other:com.acme/pdf")

    assert [found.entry.trust for found in page.entries].count("curated") == 1
    assert len(page.entries) == 2
    assert set(caught.value.candidates) == {"one:com.acme/pdf", "other:com.acme/pdf"}
    assert named.packages[0].identifier == "evil-pdf"


@pytest.mark.requirement("MKT-4")
async def test_servers_of_one_source_that_one_package_starts_stay_apart(tmp_path: Path) -> None:
    bridge = {"registryType": "npm", "identifier": "mcp-remote", "version": "1.0.0"}
    with (
        registry_server(
            listed("com.one/docs", packages=[bridge], repository={}),
            listed("com.two/docs", packages=[bridge], repository={}),
        ) as server,
        marketplace(tmp_path, registry(server.url)) as market,
    ):
        page = await market.search("docs")

    assert sorted(names(page)) == ["com.one/docs", "com.two/docs"]


@pytest.mark.requirement("MKT-4")
async def test_only_the_offers_of_the_source_that_counts_most_are_kept(tmp_path: Path) -> None:
    package = {"registryType": "npm", "identifier": "files", "version": "1.0.0"}
    inserted = {"type": "sse", "url": "https://evil.example/mcp"}
    with (
        registry_server(listed("com.acme/files", packages=[package], repository={})) as one,
        registry_server(
            listed("com.acme/files", packages=[package], repository={}, remotes=[inserted])
        ) as other,
        marketplace(
            tmp_path,
            registry(other.url, "other"),
            registry(one.url, "one", priority=5),
        ) as market,
    ):
        page = await market.search("files")

    [found] = page.entries
    assert found.entry.remotes == ()
    assert [origin.source for origin in found.entry.origins] == ["one", "other"]


@pytest.mark.requirement("MKT-12")
async def test_a_package_manager_that_fails_costs_only_itself(tmp_path: Path) -> None:
    failure = SourceFailure("MARKETPLACE_SOURCE_UNAVAILABLE", "npm failed", hint="try it")
    manager = PackageManager(failure=failure)
    with (
        registry_server(*WORLD) as server,
        marketplace(tmp_path, registry(server.url), manager.settings, live=(manager,)) as market,
    ):
        page = await market.search("read pdf")

    assert names(page)[0] == "io.github.acme/pdf-reader"
    [problem] = page.problems
    assert (problem.subject, problem.message) == ("npm", "npm failed")


async def test_package_managers_are_asked_for_the_first_page_of_a_query_alone(
    tmp_path: Path,
) -> None:
    manager = PackageManager(npm_package("pdf", description="Reads PDF"))
    entries = [listed(f"com.acme/pdf-{n}", description="Reads PDF") for n in range(15)]
    found: list[str] = []
    with (
        registry_server(*entries) as server,
        marketplace(tmp_path, registry(server.url), manager.settings, live=(manager,)) as market,
    ):
        cursor: str | None = None
        for _ in range(4):
            page = await market.search("pdf", limit=5, cursor=cursor)
            found += names(page)
            cursor = page.next_cursor
        await market.search("")

    assert cursor is None
    assert len(found) == len(set(found)) == 16
    assert manager.asked == ["pdf"]


async def test_a_package_is_looked_up_by_its_exact_name_where_no_copy_has_it(
    tmp_path: Path,
) -> None:
    manager = PackageManager(npm_package("@acme/unlisted"))
    with (
        registry_server(*WORLD) as server,
        marketplace(tmp_path, registry(server.url), manager.settings, live=(manager,)) as market,
    ):
        await market.sync()
        found = await market.lookup("@acme/unlisted")
        copied = await market.lookup("io.github.acme/weather")
        with pytest.raises(MarketplaceEntryNotFoundError) as caught:
            await market.lookup("pdf-readr")

    assert found.origins == (EntryOrigin("npm", "unreviewed"),)
    assert copied.id == "github.com/acme/weather#npm:weather"
    assert manager.asked == ["@acme/unlisted", "pdf-readr"]
    assert "pdf-readr" in str(caught.value)


async def test_an_entry_is_looked_up_by_its_id_and_in_any_case_of_its_name(
    tmp_path: Path,
) -> None:
    with (
        registry_server(*WORLD) as server,
        marketplace(tmp_path, registry(server.url)) as market,
    ):
        await market.sync()
        found = await market.lookup("IO.GitHub.acme/Weather")
        same = await market.lookup(found.id)

    assert found == same


@pytest.mark.requirement("MKT-60")
async def test_what_is_shown_has_all_versions_of_its_registry_and_may_be_another_one(
    tmp_path: Path,
) -> None:
    old = {"registryType": "npm", "identifier": "files", "version": "1.0.0"}
    argument = {"type": "positional", "value": "--old"}
    versions = [
        listed(
            "com.acme/files",
            version="1.0.0",
            day=1,
            is_latest=False,
            packages=[{**old, "packageArguments": [argument]}],
        ),
        listed("com.acme/files", version="1.5.0", day=2, is_latest=False, status="deleted"),
        listed("com.acme/files", version="2.0.0", day=300),
    ]
    with (
        registry_server(*versions) as server,
        marketplace(tmp_path, registry(server.url)) as market,
    ):
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
    with (
        registry_server(
            *WORLD, fault=lambda _: WebAnswer(is_stuck=True) if is_stuck else None
        ) as server,
        marketplace(tmp_path, registry(server.url)) as market,
    ):
        await market.sync()
        is_stuck = True
        with anyio.fail_after(60):
            found = await market.show("io.github.acme/weather")

    assert found.entry.name == "io.github.acme/weather"
