"""The API of the official MCP registry, v0.1, which private registries also have.

    GET /v0.1/servers?limit=100&version=latest&updated_since=…&include_deleted=true&cursor=…
    {"servers": [{"server": {…server.json…}, "_meta": {…}}], "metadata": {"nextCursor": "…"}}

A registry that has only `/v0` is read there; one that refuses optional parameters, without them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypeAlias
from urllib.parse import quote, urlencode

from msgspec import Meta, Struct, ValidationError, convert, field

from discovery_engine._util.json import JSONValue
from discovery_engine.config.marketplace_settings import MarketplaceSource
from discovery_engine.marketplace import bounds
from discovery_engine.marketplace.entry import EntryOrigin, MarketplaceEntry
from discovery_engine.marketplace.server_json import MalformedEntryError, parse_server
from discovery_engine.marketplace.source import (
    PageReader,
    SourceAddress,
    SourceFailure,
    SourcePage,
    SyncedSource,
    SyncPoint,
    invalid,
    json_of,
    open_address,
)
from discovery_engine.secrets.resolver import SecretResolver

_Cursor: TypeAlias = Annotated[str, Meta(max_length=bounds.CURSOR)] | None
_PAGE = 100  # entries; the most that the API allows
_VERSIONS = ("v0.1", "v0")
_LONGEST_NAME = 40  # characters of a malformed entry's name in a message
_MOST_PROBLEMS = 20  # malformed entries of a page in messages


class McpRegistry(SyncedSource):
    """A source of type `mcp-registry`."""

    has_changes = True

    def __init__(
        self, settings: MarketplaceSource, secrets: SecretResolver, *, folder: str | None = None
    ) -> None:
        super().__init__(settings)
        self._secrets = secrets
        self._folder = folder

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[PageReader]:
        async with self._reader() as reader:
            yield reader.read

    async def published(self, name: str) -> tuple[MarketplaceEntry, ...]:
        """Return all versions of a server that the registry has, without deleted ones.

        Raises:
            SourceFailure: If the registry cannot be read, or has no such server.
        """
        async with self._reader() as reader:
            return await reader.published(name)

    @asynccontextmanager
    async def _reader(self) -> AsyncGenerator[RegistryReader]:
        async with open_address(self.settings, self._secrets, self._folder) as address:
            yield RegistryReader(address, self.origin)


class RegistryReader:
    """Reads the pages of one registry."""

    def __init__(self, address: SourceAddress, origin: EntryOrigin) -> None:
        self._address = address
        self._origin = origin
        base = address.url.removesuffix("/servers")
        last = base.rpartition("/")[2]
        self._bases = (
            [base] if last in _VERSIONS else [f"{base}/{version}" for version in _VERSIONS]
        )
        self._is_plain = False

    async def read(self, point: SyncPoint) -> SourcePage:
        while True:
            try:
                return await self._read(point)
            except SourceFailure as failure:
                if not self._simplified(failure, point):
                    raise

    async def published(self, name: str) -> tuple[MarketplaceEntry, ...]:
        """Return all versions of one server that were not deleted."""
        url = f"{self._bases[0]}/servers/{quote(name, safe='')}/versions"
        answer = await self._address.get(url, limit=bounds.PAGE_BYTES)
        listed, _ = _page(json_of(answer) if answer else {})
        entries, _ = self._entries(listed)
        return tuple(entry for entry in entries if entry.name == name and entry.status != "deleted")

    async def _read(self, point: SyncPoint) -> SourcePage:
        query = {"limit": str(_PAGE)}
        if not self._is_plain:
            query["version"] = "latest"
            if point.since:
                query |= {"updated_since": point.since, "include_deleted": "true"}
        if point.cursor:
            query["cursor"] = point.cursor
        url = f"{self._bases[0]}/servers?{urlencode(query)}"
        answer = await self._address.get(url, limit=bounds.PAGE_BYTES, etag=point.etag)
        if answer is None:
            return SourcePage(is_unchanged=True, etag=point.etag)
        listed, cursor = _page(json_of(answer))
        entries, malformed = self._entries(listed)
        return SourcePage(
            entries=entries,
            malformed=malformed,
            cursor=cursor,
            etag=answer.headers.get("etag", ""),
            size=len(answer.body),
        )

    def _simplified(self, failure: SourceFailure, point: SyncPoint) -> bool:
        """Switch to a simpler request after a failure on the first page; False if there is none."""
        if point.cursor:
            return False
        if "HTTP 404" in failure.reason and len(self._bases) > 1:
            del self._bases[0]
            return True
        if any(f"HTTP {status}" in failure.reason for status in (400, 422)) and not self._is_plain:
            self._is_plain = True
            return True
        return False

    def _entries(
        self, items: list[JSONValue]
    ) -> tuple[tuple[MarketplaceEntry, ...], tuple[str, ...]]:
        entries, malformed = [], []
        for number, item in enumerate(items[: 2 * _PAGE], start=1):
            try:
                entries.append(self._entry(item))
            except MalformedEntryError as error:
                malformed.append(f"{_name_in(item) or f'number {number} of its page'}: {error}")
        if len(items) > 2 * _PAGE:
            malformed.append(f"a page of {len(items):,} entries, of which {2 * _PAGE} were read")
        return tuple(entries), tuple(malformed[:_MOST_PROBLEMS])

    def _entry(self, item: JSONValue) -> MarketplaceEntry:
        if not isinstance(item, dict):
            raise MalformedEntryError("it is no object")
        if "server" in item:
            meta = item.get("_meta")
            return parse_server(item["server"], origin=self._origin, meta=meta)
        return parse_server(item, origin=self._origin)


class _Metadata(Struct, frozen=True, rename="camel"):
    next_cursor: _Cursor = None
    older_cursor: _Cursor = field(default=None, name="next_cursor")


class _Page(Struct, frozen=True):
    servers: list[Any] | None
    """None where a server in Go has an empty list."""
    metadata: _Metadata = _Metadata()


def _page(document: JSONValue) -> tuple[list[JSONValue], str]:
    """Return the servers of a response, and the cursor of the next page; empty after the last.

    Raises:
        SourceFailure: If it is no page of servers.
    """
    try:
        page = convert(document, _Page)
    except ValidationError as error:
        raise invalid(f"its answer has no list of servers, or no cursor: {error}") from error
    return page.servers or [], page.metadata.next_cursor or page.metadata.older_cursor or ""


def _name_in(item: JSONValue) -> str:
    """Return the name of a malformed entry, in quotes; empty if it has no name."""
    server = item.get("server", item) if isinstance(item, dict) else None
    name = server.get("name") if isinstance(server, dict) else None
    return repr(name[:_LONGEST_NAME]) if name and isinstance(name, str) else ""
