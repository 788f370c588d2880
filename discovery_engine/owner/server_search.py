"""Which servers a list shows: those that fit a query, and have a tag, a source or a package."""

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
    wanted = {tag.casefold() for tag in tags}
    kept = [
        one
        for one in servers
        if (not wanted or wanted & {tag.casefold() for tag in one.tags})
        and (not sources or one.source in sources)
        and (not installed_only or one.package)
    ]
    return _found(kept, query) if query.strip() else kept


def _found(servers: Sequence[ServerReport], query: str) -> list[ServerReport]:
    """By the ranking of tools; then those of which some words begin as those of the query."""
    # Most lists are not searched, and the search takes a tenth of a second to load.
    from discovery_engine.search.searcher import build_searcher  # noqa: PLC0415

    by_name = {str(one.name): one for one in servers}
    entries = tuple(_document(by_name[name]) for name in sorted(by_name))
    catalog = Catalog.of([ServerPart(_HOLDER, entries)])
    searcher = build_searcher(catalog, SearchSettings())
    asked = searcher.analyze(query)
    hits = searcher.search(asked, limit=max(len(entries), 1), accepts=lambda _: True)
    found = [str(hit.entry.tool.upstream_name) for hit in hits]
    begun = [str(one.name) for one in servers if _begins(one, query)]
    return [by_name[name] for name in dict.fromkeys([*found, *begun])]


def _document(server: ServerReport) -> Entry:
    name = ToolName(server.name)
    text = f"{server.description} {' '.join(server.tags)}".strip()
    definition = {"name": name, "description": text, "inputSchema": {"type": "object"}}
    tool = Tool(_HOLDER, name, name, canonical_json(definition))
    return Entry(tool, Verdict(enabled=True, tags=server.tags))


def _begins(server: ServerReport, query: str) -> bool:
    """Return whether each word of the query is the beginning of a word of the server."""
    asked, words = query.casefold().split(), list(_words(server))
    return all(any(word.startswith(one) for word in words) for one in asked)


def _words(server: ServerReport) -> Iterator[str]:
    from discovery_engine.search.text.tokenizer import words  # noqa: PLC0415 - as above

    yield server.name.casefold()
    yield from words(" ".join((server.name, server.description, *server.tags)))
