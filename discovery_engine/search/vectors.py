"""The vectors of a catalog's tools, and how like each is to a query.

Every vector is a unit long, so that a product of two is their cosine. All are compared: 100,000
of 384 numbers take 4 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discovery_engine.search.embedders import Vector
    from discovery_engine.tools.model import Tool

_STORED = "<f2"  # half as long as a float, and ranks the same
_LEAST_RANGE = 0.1  # from the tool that is least like a query to 1; below it all are much the same
_GLANCE = 4  # times as many as are wanted are put in order at first


def packed(vector: Vector) -> bytes:
    """A vector as it is stored."""
    import numpy as np  # noqa: PLC0415 - an extra, and slow to load

    return np.asarray(vector, dtype=_STORED).tobytes()


def packed_length(dimensions: int) -> int:
    """How many bytes a stored vector has."""
    return dimensions * int(_STORED[-1])


class Vectors:
    """Immutable. A tool of which there is no vector is simply not in it."""

    def __init__(self, tools: Sequence[Tool], stored: Sequence[bytes]) -> None:
        """One vector for each tool, as `packed` made them.

        Raises:
            ValueError: If they are not vectors of one length.
        """
        import numpy as np  # noqa: PLC0415 - as above

        self.tools = tuple(tools)
        self._rows = {tool.key: row for row, tool in enumerate(self.tools)}
        if len({len(one) for one in stored}) > 1:
            raise ValueError("the vectors are not of one length")
        rows = np.frombuffer(b"".join(stored), dtype=_STORED).astype(np.float32)
        rows = rows.reshape(len(stored), -1 if stored else 0)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        if not (np.isfinite(lengths) & (lengths > 0)).all():
            raise ValueError("a vector is no direction")
        self._matrix = rows / lengths

    def __len__(self) -> int:
        return len(self.tools)

    @property
    def dimensions(self) -> int:
        return int(self._matrix.shape[1])

    def row(self, tool: Tool) -> int | None:
        """None if there is no vector of what the tool says now."""
        row = self._rows.get(tool.key)
        return row if row is not None and self.tools[row] == tool else None

    def compared(self, query: Sequence[Vector]) -> Likeness | None:
        """How like each tool is to a query: its whole, and after that each of its clauses.

        None if nothing can be compared: there is no vector, or those of the query are of another
        length.
        """
        import numpy as np  # noqa: PLC0415 - as above

        asked = [np.asarray(vector, dtype=np.float32) for vector in query]
        if not asked or not self.tools or any(len(one) != self.dimensions for one in asked):
            return None
        # One product a row: faster than one with the matrix, which starts threads, and what a
        # row gives does not depend on where it stands.
        whole, *clauses = (np.vecdot(self._matrix, one) for one in asked)
        if clauses:
            whole = (whole + np.max(clauses, axis=0)) / 2
        return Likeness(self, whole)


class Likeness:
    """The cosine of each tool's vector and a query's, from -1 to 1."""

    def __init__(self, vectors: Vectors, cosines: Any) -> None:
        self._vectors = vectors
        self._cosines = cosines
        self.best = float(cosines.max())
        self.mean = float(cosines.mean())
        self.least = float(cosines.min())

    def of(self, tool: Tool) -> float | None:
        """None if there is no vector of what it says now."""
        row = self._vectors.row(tool)
        return None if row is None else float(self._cosines[row])

    def height(self, tools: Iterable[Tool]) -> float | None:
        """How far up the likest of `tools` is from the least like of all, 0, to sameness, 1.

        Models differ in how like they find texts that have nothing in common; the least like tool
        shows it. None if none of `tools` has a vector, or there is no other tool.
        """
        likest = max((c for tool in tools if (c := self.of(tool)) is not None), default=None)
        if likest is None or len(self._vectors) == 1:
            return None
        return (likest - self.least) / max(1 - self.least, _LEAST_RANGE)

    def nearest(self, most: int, accepts: Callable[[Tool], bool]) -> list[Tool]:
        """The accepted tools that are likest, the likest first."""
        found = list(islice(filter(accepts, self._in_order(_GLANCE * most)), most))
        if len(found) == most or len(self._vectors) <= _GLANCE * most:
            return found
        return list(islice(filter(accepts, self._in_order(len(self._vectors))), most))

    def _in_order(self, most: int) -> Iterator[Tool]:
        import numpy as np  # noqa: PLC0415 - an extra, and slow to load

        order = -self._cosines
        rows = np.arange(len(order))
        if most < len(order):
            rows = np.sort(np.argpartition(order, most)[:most])
        return (self._vectors.tools[row] for row in rows[np.argsort(order[rows], kind="stable")])
