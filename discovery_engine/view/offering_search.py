"""Search over resources, resource templates and prompts, by the ranking of tools.

They have an index of their own, made at the first search that asks for them: what tools are found,
in which order and how fast, does not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine.catalog import Catalog, Entry, OfferingEntry, ServerPart
from discovery_engine.tools.model import Tool, ToolKey, ToolName, canonical_json
from discovery_engine.view.search_answers import QueryRunner

if TYPE_CHECKING:
    from discovery_engine.config.settings import SearchSettings
    from discovery_engine.search.searcher import Searcher
    from discovery_engine.tools.model import ServerName
    from discovery_engine.tools.offering import Offering


class OfferingIndex(Struct, frozen=True):
    """What is visible, as documents of the search."""

    searcher: Searcher
    entries: Mapping[ToolKey, OfferingEntry]

    @classmethod
    def of(
        cls,
        entries: Iterable[OfferingEntry],
        settings: SearchSettings,
        descriptions: Mapping[ServerName, str],
    ) -> OfferingIndex:
        """The index of these; some 0.3 ms for each."""
        # Imported here: most reads do not search.
        from discovery_engine.search.searcher import build_searcher  # noqa: PLC0415

        found = dict(_documents(entries))
        by_server: dict[ServerName, list[Entry]] = {}
        for key, (tool, entry) in sorted(found.items()):
            by_server.setdefault(key.server, []).append(Entry(tool, entry.verdict))
        parts = [ServerPart(server, tuple(tools)) for server, tools in by_server.items()]
        searcher = build_searcher(Catalog.of(parts), settings, descriptions=descriptions)
        return cls(searcher, {key: entry for key, (_, entry) in found.items()})

    def search(
        self, query: str, accepts: Callable[[OfferingEntry], bool], *, limit: int, least: float
    ) -> list[tuple[OfferingEntry, float]]:
        """The accepted ones that fit, the best first; none if the best probably does not fit."""
        asker = QueryRunner(
            self.searcher.analyze(query), self.searcher, None, limit=limit, least=least, usage={}
        )
        hits = asker.answer(lambda entry: accepts(self.entries[entry.key])).hits
        return [(self.entries[hit.entry.key], hit.relevance) for hit in hits]


def _documents(
    entries: Iterable[OfferingEntry],
) -> Iterator[tuple[ToolKey, tuple[Tool, OfferingEntry]]]:
    """Each as a tool with its name and its texts; of equal names all but the first are longer."""
    taken: set[ToolKey] = set()
    for entry in entries:
        offering = entry.offering
        key = ToolKey(offering.server, ToolName(offering.name))
        if key in taken:
            key = ToolKey(offering.server, ToolName(f"{offering.name} {offering.decision_key}"))
        taken.add(key)
        yield key, (_document(offering, key), entry)


def _document(offering: Offering, key: ToolKey) -> Tool:
    properties = {
        p.name: {"type": "string", "description": p.description} for p in offering.parameters
    }
    definition = {
        "name": key.tool,
        "description": f"{offering.title} {offering.description} {offering.identifier}".strip(),
        "inputSchema": {"type": "object", "properties": properties},
    }
    return Tool(offering.server, key.tool, key.tool, canonical_json(definition))
