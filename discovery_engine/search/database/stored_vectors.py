"""Vectors of tools that are in a database, and their similarity to a query.

The database finds the nearest tools, roughly. The similarity of each that is looked at is computed
here of its stored vector, as it is of vectors in memory. What is counted over all tools is measured
on a sample of them, which is all there is in memory; of a small catalog that is the whole.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from discovery_engine.errors import RegistryError
from discovery_engine.search.vectors import Similarities, Vectors

if TYPE_CHECKING:
    from discovery_engine.search.database.stored_catalog import StoredCatalog
    from discovery_engine.search.database.vector_store import (
        FoundVector,
        VectorSearchStore,
        VectorSpace,
    )
    from discovery_engine.search.embedders import Vector
    from discovery_engine.tools.model import ServerName, Tool, ToolKey

logger = logging.getLogger(__name__)

SAMPLE = 2_000
"""Tools whose vectors are in memory: the mean similarity to them is that to all within 0.005."""

_ROUNDS = (240, 2_400, 20_000)  # tools that are looked at, until enough of them are accepted
_FURTHEST = 10  # tools that are looked at for the lowest similarity


class StoredVectors:
    """Immutable. It has the tools of one catalog.

    Args:
        store: Has the vectors.
        space: Where they are there.
        catalog: The tools, and where their documents are.
        sample: The vectors of `SAMPLE` tools; of all if there are no more.
        count: How many tools have a vector.
    """

    def __init__(
        self,
        store: VectorSearchStore,
        space: VectorSpace,
        catalog: StoredCatalog,
        *,
        sample: Vectors,
        count: int,
    ) -> None:
        self.space = space
        self.sample = sample
        self.is_static = sample.is_static
        self._store = store
        self._catalog = catalog
        self._count = count

    def __len__(self) -> int:
        return self._count

    @property
    def dimensions(self) -> int:
        return self.space.dimensions

    def only(self, tools: Iterable[Tool]) -> Vectors:  # noqa: ARG002 - as `ToolVectors`
        """None of them: where tools are reserved, vectors are in memory, or soon will be."""
        return Vectors((), ())

    def compare(self, query: Sequence[Vector]) -> Similarities | None:
        """As `ToolVectors.compare`; None also if the database does not answer."""
        sampled = self.sample.compare(query)
        if sampled is None or len(self.sample) == self._count:
            return sampled
        try:
            return StoredSimilarities(self, query, sampled)
        except RegistryError as error:
            logger.info("Vectors cannot be compared in the database: %s", error.message)
            return None

    def nearest(
        self, probes: Sequence[tuple[Vector, int]], servers: Collection[ServerName] | None
    ) -> Vectors:
        """For each probe about as many tools as it says, of all servers or of some.

        Raises:
            RegistryError: If the database does not answer.
        """
        known = self._catalog.numbers
        numbers = None if servers is None else [known[one] for one in servers if one in known]
        return self._vectors(self._store.nearest(self.space, probes, numbers))

    def of_tools(self, tools: Iterable[Tool]) -> Vectors:
        """Those of some tools.

        Raises:
            RegistryError: If the database does not answer.
        """
        doc_ids = filter(None, map(self._catalog.names.doc_id, tools))
        places = [*map(self._catalog.place, doc_ids)]
        return self._vectors(self._store.at(self.space, places) if places else [])

    def servers_with(self, accepts: Callable[[Tool], bool]) -> frozenset[ServerName]:
        """The servers with an accepted tool."""
        servers = self._catalog.names.servers.items()
        return frozenset(name for name, one in servers if any(map(accepts, one.tools)))

    def _vectors(self, found: Iterable[FoundVector]) -> Vectors:
        return vectors_of(self._catalog, found, is_static=self.is_static)


class StoredSimilarities(Similarities):
    """Those to one query. Threads that share it may fetch something twice."""

    def __init__(
        self, vectors: StoredVectors, query: Sequence[Vector], sampled: Similarities
    ) -> None:
        """`sampled` are those of the sample.

        Raises:
            RegistryError: If the database does not answer.
        """
        self._vectors = vectors
        self._query = tuple(query)
        self._cosines: dict[ToolKey, tuple[Tool, float]] = {}
        self._found: dict[frozenset[ServerName] | None, tuple[int, list[Tool]]] = {}
        """The nearest of some servers, and of how many rounds they are."""
        # Apart from the nearest: where these are all hidden, the furthest would take their place.
        opposite = tuple(-number for number in self._query[0])
        furthest = self._compared(vectors.nearest([(opposite, _FURTHEST)], None))
        nearest = self._fetched(0, None)
        super().__init__(
            best=max([sampled.best, *map(self._cosine, nearest)]),
            mean=sampled.mean,
            lowest=min([sampled.lowest, *map(self._cosine, furthest)]),
            count=len(vectors),
            is_static=vectors.is_static,
        )

    def cosine(self, tool: Tool) -> float | None:
        if tool.key not in self._cosines:
            self.prefetch([tool])
        known = self._cosines.get(tool.key)
        return known[1] if known and known[0] == tool else None

    def nearest(
        self,
        most: int,
        accepts: Callable[[Tool], bool],
        servers: Callable[[], Collection[ServerName] | None] = lambda: None,
    ) -> list[Tool]:
        named = servers()
        few = None if named is None else frozenset(named)
        if (found := self._accepted(most, accepts, few)) is None:
            # Thousands of tools that are not accepted are nearer than these.
            few = self._vectors.servers_with(accepts)
            found = self._accepted(most, accepts, few)
        return self._taken(most, accepts, few) if found is None else found

    def prefetch(self, tools: Iterable[Tool]) -> None:
        missing = [tool for tool in tools if tool.key not in self._cosines]
        try:
            self._compared(self._vectors.of_tools(missing))
        except RegistryError as error:
            logger.info("Vectors cannot be compared in the database: %s", error.message)

    def _accepted(
        self, most: int, accepts: Callable[[Tool], bool], servers: frozenset[ServerName] | None
    ) -> list[Tool] | None:
        """As `nearest`; None if those that are looked at do not suffice."""
        before = -1
        for turn in range(len(_ROUNDS)):
            looked_at = self._fetched(turn, servers)
            found = [*islice(filter(accepts, looked_at), most)]
            if len(found) == most or len(looked_at) == before:
                return found
            before = len(looked_at)
        return None

    def _taken(
        self, most: int, accepts: Callable[[Tool], bool], servers: frozenset[ServerName] | None
    ) -> list[Tool]:
        return [*islice(filter(accepts, self._fetched(len(_ROUNDS) - 1, servers)), most)]

    def _fetched(self, turn: int, servers: frozenset[ServerName] | None) -> list[Tool]:
        """The nearest tools of one round, the nearest first."""
        done, found = self._found.get(servers, (-1, []))
        if done < turn:
            probes = [(one, _ROUNDS[turn]) for one in self._query]
            found = [*self._compared(self._vectors.nearest(probes, servers))]
            found.sort(key=lambda tool: (-self._cosine(tool), tool.server, tool.name))
            self._found[servers] = turn, found
        return found

    def _compared(self, vectors: Vectors) -> Sequence[Tool]:
        """The tools, whose cosines are known from now on."""
        if compared := vectors.compare(self._query):
            for tool in vectors.tools:
                if (cosine := compared.cosine(tool)) is not None:
                    self._cosines[tool.key] = tool, cosine
        return vectors.tools

    def _cosine(self, tool: Tool) -> float:
        return self._cosines[tool.key][1]


def vectors_of(catalog: StoredCatalog, found: Iterable[FoundVector], *, is_static: bool) -> Vectors:
    """The vectors of the tools that a catalog has; what was replaced meanwhile is left out."""
    tools: dict[ToolKey, Tool] = {}
    texts, requests = [], {}
    for place, vector in found:
        doc_id = catalog.doc_id(*place)
        if doc_id is None:
            continue
        tool = catalog.names.entry(doc_id).tool
        if tool.key in tools:
            continue  # near several probes
        if vector.requests is not None:
            requests[len(tools)] = vector.requests
        tools[tool.key] = tool
        texts.append(vector.text)
    return Vectors([*tools.values()], texts, requests, is_static=is_static)
