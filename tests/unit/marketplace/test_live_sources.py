"""Package managers beside the copies: a fake one is asked in place of npm."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from discovery_engine.config.marketplace_settings import MarketplaceSource
from discovery_engine.errors import MarketplaceEntryNotFoundError
from discovery_engine.marketplace.entry import EntryOrigin, MarketplaceEntry
from discovery_engine.marketplace.marketplace import MarketplacePage
from discovery_engine.marketplace.server_json import parse_server
from discovery_engine.marketplace.source import SourceFailure
from tests.marketplaces import marketplace, registry
from tests.servers.mcp_registry_server import listed, registry_server

pytestmark = pytest.mark.anyio

WORLD = [
    listed("io.github.acme/pdf-reader", description="Read PDF files and extract their text"),
    listed("io.github.acme/weather", description="Forecasts of the weather by place"),
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
