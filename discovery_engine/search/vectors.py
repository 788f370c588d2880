"""Embedding vectors of a catalog's tools, and their cosine similarity to a query.

All vectors have unit length, so the dot product of two is their cosine. A query is compared with
all of them: 100,000 vectors of 384 dimensions take 4 ms.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from discovery_engine.search.embedders import Vector
    from discovery_engine.tools.model import ServerName, Tool

_STORED_TYPE = "<f2"  # half precision: half the size of float32, with the same ranking
_LEAST_RANGE = 0.1  # the least range from the lowest cosine to 1, if all tools are much alike
_NONE: Mapping[int, bytes] = MappingProxyType({})
_SORTED_FIRST = 4  # times the wanted number of tools; the others are sorted only if needed


def _everywhere() -> None:
    return None


def pack(vector: Vector) -> bytes:
    """Encode a vector in the stored form: two bytes for each number."""
    from discovery_engine.search.arrays import np

    return np.asarray(vector, dtype=_STORED_TYPE).tobytes()


def pack_mean(vectors: Sequence[Vector]) -> bytes:
    """Encode the mean of unit vectors, scaled to unit length; see `pack`."""
    from discovery_engine.search.arrays import np

    total = np.sum(np.asarray(vectors, dtype=np.float64), axis=0)
    length = float(np.linalg.norm(total))
    return pack(total / length if length else vectors[0])


def packed_size(dimensions: int) -> int:
    """Return the size of a stored vector in bytes."""
    return dimensions * int(_STORED_TYPE[-1])


class ToolVectors(Protocol):
    """The vectors of a catalog's tools, in memory or in a database."""

    def __len__(self) -> int:
        """Return the number of tools that have a vector."""

    @property
    def dimensions(self) -> int: ...

    def only(self, tools: Iterable[Tool]) -> ToolVectors:
        """Restrict the vectors to these tools; similarities of others then have no influence."""

    def compare(self, query: Sequence[Vector]) -> Similarities | None:
        """Return the similarity of each tool to a query.

        `query` has the vector of the whole, and then those of its clauses. Return None if it is
        empty, if no tool has a vector, or if the dimensions differ.
        """


class Vectors:
    """The vectors of tools in memory; immutable. Tools without a vector are not included."""

    def __init__(
        self,
        tools: Sequence[Tool],
        stored: Sequence[bytes],
        requests: Mapping[int, bytes] = _NONE,
        *,
        is_static: bool = False,
    ) -> None:
        """Decode one vector for each tool, from the form of `pack`.

        Args:
            tools: The tools.
            stored: The vectors of their texts, in the same order.
            requests: The vectors of the examples that some tools have, by index in `tools`.
            is_static: Whether they are sums of word vectors, which are less precise than those of
                a sentence model.

        Raises:
            ValueError: If the vectors differ in length, or one is zero or not finite.
        """
        from discovery_engine.search.arrays import np

        self.tools = tuple(tools)
        self.is_static = is_static
        self._rows = {tool.key: row for row, tool in enumerate(self.tools)}
        if len({len(vector) for vector in (*stored, *requests.values())}) > 1:
            raise ValueError("the vectors are not of one length")
        self._matrix = _unit_rows(stored)
        self._with_requests = np.array(list(requests), dtype=np.int64)
        self._requests = _unit_rows(list(requests.values()))
        self._only: Any = None
        """The indices of the tools that `only` selected; None for all."""

    def __len__(self) -> int:
        return len(self.tools) if self._only is None else len(self._only)

    @property
    def dimensions(self) -> int:
        return int(self._matrix.shape[1])

    def only(self, tools: Iterable[Tool]) -> Vectors:
        from discovery_engine.search.arrays import np

        rows = [row for tool in tools if (row := self.row(tool)) is not None]
        subset = copy(self)
        subset.__dict__["_only"] = np.array(rows, dtype=np.int64)
        return subset

    def row(self, tool: Tool) -> int | None:
        """Return the index of a tool; None if this definition of it has no vector."""
        row = self._rows.get(tool.key)
        return row if row is not None and self.tools[row] == tool else None

    def compare(self, query: Sequence[Vector]) -> Similarities | None:
        from discovery_engine.search.arrays import np

        vectors = [np.asarray(vector, dtype=np.float32) for vector in query]
        if (
            not vectors
            or not len(self)
            or any(len(vector) != self.dimensions for vector in vectors)
        ):
            return None
        # One product for each row: this is faster than a product with the matrix, which starts
        # threads, and the result of a row does not depend on its place.
        whole, *clauses = map(self._cosines, vectors)
        if clauses:
            whole = (whole + np.max(clauses, axis=0)) / 2
        return ComparedVectors(self, whole, self._only)

    def _cosines(self, query: Any) -> Any:
        """Return the cosine of each tool; of one with examples the mean of text and examples."""
        from discovery_engine.search.arrays import np

        cosines = np.vecdot(self._matrix, query)
        if len(self._with_requests):
            both = cosines[self._with_requests] + np.vecdot(self._requests, query)
            cosines[self._with_requests] = both / 2
        return cosines


def _unit_rows(stored: Sequence[bytes]) -> Any:
    from discovery_engine.search.arrays import np

    rows = np.frombuffer(b"".join(stored), dtype=_STORED_TYPE).astype(np.float32)
    rows = rows.reshape(len(stored), -1 if stored else 0)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if not (np.isfinite(lengths) & (lengths > 0)).all():
        raise ValueError("a vector is no direction")
    return rows / lengths


class Similarities(ABC):
    """The cosine of each tool's vector and the query's, from -1 to 1."""

    def __init__(
        self, *, best: float, mean: float, lowest: float, count: int, is_static: bool
    ) -> None:
        """Create it with the best, mean and lowest cosine of all `count` tools with a vector."""
        self.best = best
        self.mean = mean
        self.lowest = lowest
        self.is_static = is_static
        self._count = count

    @abstractmethod
    def cosine(self, tool: Tool) -> float | None:
        """Return the cosine of a tool; None if this definition of it has no vector."""

    @abstractmethod
    def nearest(
        self,
        most: int,
        accepts: Callable[[Tool], bool],
        servers: Callable[[], Collection[ServerName] | None] = _everywhere,
    ) -> list[Tool]:
        """Return the accepted tools of the highest similarity, the highest first.

        Args:
            most: The most tools.
            accepts: Returns whether a tool is accepted.
            servers: Returns the servers that have accepted tools if these are few, else None; a
                search in a database is restricted to them.
        """

    @abstractmethod
    def prefetch(self, tools: Iterable[Tool]) -> None:
        """Load the cosines of these tools, for calls of `cosine` that follow."""

    def relative(self, tool: Tool) -> float | None:
        """Scale the cosine of a tool to a range from 0, the lowest of all tools, to 1, identity.

        The cosine of unrelated texts depends on the model; the lowest one of the catalog shows it.
        Return None if the tool has no vector, or is the only one.
        """
        cosine = self.cosine(tool)
        if cosine is None or self._count == 1:
            return None
        return (cosine - self.lowest) / max(1 - self.lowest, _LEAST_RANGE)


class ComparedVectors(Similarities):
    """Similarities to vectors in memory."""

    def __init__(self, vectors: Vectors, cosines: Any, only: Any = None) -> None:
        """Create it; `only` has the indices of the tools that count, None for all."""
        self._vectors = vectors
        self._cosines = cosines
        counted = cosines if only is None else cosines[only]
        super().__init__(
            best=float(counted.max()),
            mean=float(counted.mean()),
            lowest=float(counted.min()),
            count=len(vectors),
            is_static=vectors.is_static,
        )

    def cosine(self, tool: Tool) -> float | None:
        row = self._vectors.row(tool)
        return None if row is None else float(self._cosines[row])

    def nearest(
        self,
        most: int,
        accepts: Callable[[Tool], bool],
        servers: Callable[[], Collection[ServerName] | None] = _everywhere,  # noqa: ARG002 - the others cost little
    ) -> list[Tool]:
        tools = list(islice(filter(accepts, self._sorted(_SORTED_FIRST * most)), most))
        if len(tools) == most or len(self._vectors) <= _SORTED_FIRST * most:
            return tools
        return list(islice(filter(accepts, self._sorted(len(self._vectors))), most))

    def prefetch(self, tools: Iterable[Tool]) -> None:
        """Do nothing: all cosines are in memory."""

    def _sorted(self, most: int) -> Iterator[Tool]:
        from discovery_engine.search.arrays import np

        order = -self._cosines
        rows = np.arange(len(order))
        if most < len(order):
            rows = np.sort(np.argpartition(order, most)[:most])
        return (self._vectors.tools[row] for row in rows[np.argsort(order[rows], kind="stable")])
