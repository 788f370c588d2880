"""The vectors of a catalog's tools, and their similarity to a query.

All vectors have unit length, so that the dot product of two is their cosine. A query is compared
with all of them: 100,000 of 384 numbers take 4 ms.
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

_STORED_TYPE = "<f2"  # half the size of a float, and the ranking is the same
_LEAST_RANGE = 0.1  # from the lowest cosine to 1, where all tools are much alike
_NONE: Mapping[int, bytes] = MappingProxyType({})
_SORTED_FIRST = 4  # times as many tools as are wanted; the others only if these do not suffice


def _everywhere() -> None:
    return None


def pack(vector: Vector) -> bytes:
    """A vector as it is stored."""
    from discovery_engine.search.arrays import np

    return np.asarray(vector, dtype=_STORED_TYPE).tobytes()


def pack_mean(vectors: Sequence[Vector]) -> bytes:
    """The mean of unit vectors as it is stored, itself a unit long."""
    from discovery_engine.search.arrays import np

    total = np.sum(np.asarray(vectors, dtype=np.float64), axis=0)
    length = float(np.linalg.norm(total))
    return pack(total / length if length else vectors[0])


def packed_size(dimensions: int) -> int:
    """How many bytes a stored vector has."""
    return dimensions * int(_STORED_TYPE[-1])


class ToolVectors(Protocol):
    """The vectors of a catalog's tools, wherever they are."""

    def __len__(self) -> int:
        """How many tools have one."""

    @property
    def dimensions(self) -> int: ...

    def only(self, tools: Iterable[Tool]) -> ToolVectors:
        """The same of some of its tools: the similarities of others influence nothing."""

    def compare(self, query: Sequence[Vector]) -> Similarities | None:
        """The similarity of each tool to a query, by the vectors of the whole and its clauses.

        None if there are no vectors, or those of the query have another length.
        """


class Vectors:
    """Immutable. A tool that has no vector yet is not in it."""

    def __init__(
        self,
        tools: Sequence[Tool],
        stored: Sequence[bytes],
        requests: Mapping[int, bytes] = _NONE,
        *,
        is_static: bool = False,
    ) -> None:
        """One vector for each tool, as `pack` made them.

        Args:
            tools: The tools.
            stored: The vectors of their texts.
            requests: The vectors of the examples of some, by their places in `tools`.
            is_static: Whether they are sums of word vectors, which tell less than a sentence model.

        Raises:
            ValueError: If they are not vectors of one length.
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
        """The rows of the tools that count; None if all do."""

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
        """None if there is no vector of the tool as it is now."""
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
        # One product a row: faster than one with the matrix, which starts threads, and what a
        # row gives does not depend on where it stands.
        whole, *clauses = map(self._cosines, vectors)
        if clauses:
            whole = (whole + np.max(clauses, axis=0)) / 2
        return ComparedVectors(self, whole, self._only)

    def _cosines(self, query: Any) -> Any:
        """Return all cosines; with examples the mean of both: neither is enough alone."""
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
    """The cosine of each tool's vector and a query's, from -1 to 1."""

    def __init__(
        self, *, best: float, mean: float, lowest: float, count: int, is_static: bool
    ) -> None:
        """`best`, `mean` and `lowest` are those of all `count` tools with a vector."""
        self.best = best
        self.mean = mean
        self.lowest = lowest
        self.is_static = is_static
        self._count = count

    @abstractmethod
    def cosine(self, tool: Tool) -> float | None:
        """None if there is no vector of the tool as it is now."""

    @abstractmethod
    def nearest(
        self,
        most: int,
        accepts: Callable[[Tool], bool],
        servers: Callable[[], Collection[ServerName] | None] = _everywhere,
    ) -> list[Tool]:
        """The accepted tools of the highest similarity, the highest first.

        `servers` has all that have any, if they are few; otherwise None.
        """

    @abstractmethod
    def prefetch(self, tools: Iterable[Tool]) -> None:
        """The cosines of these are asked for next."""

    def relative(self, tool: Tool) -> float | None:
        """The similarity of a tool, from 0, the lowest of all tools, to 1, identity.

        Models give texts that have nothing in common quite different cosines; the lowest one of
        the catalog shows how high. None if the tool has no vector, or there is no other tool.
        """
        cosine = self.cosine(tool)
        if cosine is None or self._count == 1:
            return None
        return (cosine - self.lowest) / max(1 - self.lowest, _LEAST_RANGE)


class ComparedVectors(Similarities):
    """Similarities to vectors in memory."""

    def __init__(self, vectors: Vectors, cosines: Any, only: Any = None) -> None:
        """`only` are the rows of the tools that count; None if all do."""
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
        """All are known."""

    def _sorted(self, most: int) -> Iterator[Tool]:
        from discovery_engine.search.arrays import np

        order = -self._cosines
        rows = np.arange(len(order))
        if most < len(order):
            rows = np.sort(np.argpartition(order, most)[:most])
        return (self._vectors.tools[row] for row in rows[np.argsort(order[rows], kind="stable")])
