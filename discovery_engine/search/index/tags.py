"""Tools by the tags that rules gave them: the tag part of relevance."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from discovery_engine.search.index.index import IndexedServer
    from discovery_engine.search.text.lexicon import Lexicon
    from discovery_engine.tools.model import ServerName

Tags = tuple[str, ...]


class TagTable:
    """Which servers have tools with which tags, in the order of their names."""

    def __init__(self, servers: Mapping[ServerName, IndexedServer], lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self._servers: defaultdict[Tags, list[ServerName]] = defaultdict(list)
        for server, indexed in servers.items():
            for tags in indexed.tags:
                self._servers[tags].append(server)

    def shares(self, stems: frozenset[str]) -> dict[Tags, float]:
        """For tags of which the query names some: the share that it names."""
        shares = {tags: self._share(tags, stems) for tags in self._servers}
        return {tags: share for tags, share in shares.items() if share}

    def matching(self, tags: Tags, stems: frozenset[str]) -> Tags:
        """Return the tags that the query names."""
        return tuple(tag for tag in tags if self._is_named(tag, stems))

    def servers(self, tags: Iterable[Tags]) -> list[ServerName]:
        """The servers that have tools with any of these tags."""
        return sorted({server for combination in tags for server in self._servers[combination]})

    def _share(self, tags: Tags, stems: frozenset[str]) -> float:
        return len(self.matching(tags, stems)) / len(tags)

    def _is_named(self, tag: str, stems: frozenset[str]) -> bool:
        stems_of_tag = self._lexicon.stems(tag)
        return bool(stems_of_tag) and stems.issuperset(stems_of_tag)
