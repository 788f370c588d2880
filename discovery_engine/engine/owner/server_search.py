"""Selects the servers of a list: by a query, a tag, a source or a package."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from discovery_engine.catalog import Catalog, Entry, ServerPart
from discovery_engine.config.settings import SearchSettings
from discovery_engine.rules.rule import Verdict
from discovery_engine.tools.model import ServerName, Tool, ToolName, canonical_json

if TYPE_CHECKING:
    from discovery_engine.view.status import ServerReport

_HOLDER = ServerName("servers")  # of the documents of a search, one for each server


def chosen(
    servers: Sequence[ServerReport],
    query: str = "",
    *,
    tags: Collection[str] = (),
    sources: Collection[str] = (),
    installed_only: bool = False,
) -> list[ServerReport]:
    """Return the servers with one of the tags, in one of the sources, that fit a query.

    With `installed_only`, only installed ones. They keep their order, but for a query the best
    come first.
    """
    folded_tags = {tag.casefold() for tag in tags}
    selection = [
        server
        for server in servers
        if (not folded_tags or folded_tags & {tag.casefold() for tag in server.tags})
        and (not sources or server.source in sources)
        and (not installed_only or server.package)
    ]
    return _found(selection, query) if query.strip() else selection


def _found(servers: Sequence[ServerReport], query: str) -> list[ServerReport]:
    """Rank servers as tools are ranked, then those with words that begin as the query's."""
    # Most lists are not searched, and the search takes a tenth of a second to load.
    from discovery_engine.search.searcher import build_searcher  # noqa: PLC0415

    by_name = {str(server.name): server for server in servers}
    entries = tuple(_document(by_name[name]) for name in sorted(by_name))
    catalog = Catalog.of([ServerPart(_HOLDER, entries)])
    searcher = build_searcher(catalog, SearchSettings())
    parsed_query = searcher.analyze(query)
    hits = searcher.search(parsed_query, limit=max(len(entries), 1), accepts=lambda _: True)
    names = [str(hit.entry.tool.upstream_name) for hit in hits]
    begun = [str(server.name) for server in servers if _begins(server, query)]
    return [by_name[name] for name in dict.fromkeys([*names, *begun])]


def _document(server: ServerReport) -> Entry:
    name = ToolName(server.name)
    text = f"{server.description} {' '.join(server.tags)}".strip()
    definition = {"name": name, "description": text, "inputSchema": {"type": "object"}}
    tool = Tool(_HOLDER, name, name, canonical_json(definition))
    return Entry(tool, Verdict(enabled=True, tags=server.tags))


def _begins(server: ServerReport, query: str) -> bool:
    """Return whether each word of the query is the beginning of a word of the server."""
    beginnings, words = query.casefold().split(), list(_words(server))
    return all(any(word.startswith(beginning) for word in words) for beginning in beginnings)


def _words(server: ServerReport) -> Iterator[str]:
    from discovery_engine.search.text.tokenizer import words  # noqa: PLC0415 - as above

    yield server.name.casefold()
    yield from words(" ".join((server.name, server.description, *server.tags)))
