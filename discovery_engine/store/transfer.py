"""A registry copied into an empty one, row by row: all back-ends have the same tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import Struct

from discovery_engine._util.digests import blake2b
from discovery_engine.errors import RegistryError
from discovery_engine.store.records import EVERY_SCOPE, DecisionExport, LossRecord
from discovery_engine.store.tables import copied_tables
from discovery_engine.store.tables.copied_tables import TABLES, CopiedTable

if TYPE_CHECKING:
    from discovery_engine.store.statements import Connection

Report: TypeAlias = Callable[[str], None]
"""A callback for progress: what is copied at the moment, and how much of it there is."""


class PortableRegistry(Protocol):
    """A registry of which everything can be read, and written as it is."""

    @property
    def most_scopes(self) -> int:
        """How many snapshots it keeps; of more it drops the oldest."""

    def newest_decision(self) -> int: ...

    def export_decisions(self) -> DecisionExport: ...

    def import_decisions(self, decisions: DecisionExport) -> bool:
        """Hold these, and no others; a loss that is there counts until all are written."""

    def read(self, work: Callable[[Connection], Any]) -> Any: ...

    def write(self, work: Callable[[Connection], Any]) -> Any: ...

    def close(self) -> None: ...


class ContentDigest(Struct, frozen=True):
    """How much of a kind a registry holds, and the digest of it."""

    count: int
    digest: str


def copy_registry(
    source: PortableRegistry,
    target: PortableRegistry,
    *,
    clock: Callable[[], float] = time.time,
    report: Report = lambda _: None,
) -> dict[str, ContentDigest]:
    """Copy all into an empty registry; returns what was copied, by kind.

    Raises:
        RegistryError: If the target is not empty, cannot hold it, or is not the same afterwards.
    """
    _require_room(source, target)
    # Who is given a copy that was not finished accepts nothing because it is new.
    unfinished = LossRecord(EVERY_SCOPE, clock())
    target.import_decisions(DecisionExport(1, (unfinished,), {}))
    for table in TABLES:
        for rows in _batches(source, table, report):
            target.write(partial(copied_tables.add, table=table, rows=rows))
    target.write(lambda db: db.continue_numbers())
    decisions = source.export_decisions()
    report(f"decisions: {len(decisions.records):,}")
    target.import_decisions(decisions)
    report("comparing the copy with the original")
    expected, actual = content_of(source), content_of(target)
    if different := sorted(kind for kind in expected if expected[kind] != actual[kind]):
        raise RegistryError(
            f"the copy differs from the original in: {', '.join(different)}",
            hint="stop the gateways and workers that write to either, delete the copy, and repeat "
            "the command",
        )
    return actual


def content_of(registry: PortableRegistry) -> dict[str, ContentDigest]:
    """Return digests of what a registry holds, by kind; equal for two that hold the same."""
    content = {"decisions": _digest(registry.export_decisions().records)}
    for table in TABLES:
        rows = (row for some in _batches(registry, table) for row in some)
        content[table.kind] = _digest(rows)
    return content


def _require_room(source: PortableRegistry, target: PortableRegistry) -> None:
    if target.newest_decision() or any(_count(target, table) for table in TABLES):
        raise RegistryError(
            "the registry to copy to is not empty, and what it holds would be lost",
            hint="name an empty one: another database or file. What is left of a copy is deleted "
            "by `DROP SCHEMA discovery CASCADE`, or with all files of its name",
        )
    count = _count(source, copied_tables.SCOPES)
    if count > target.most_scopes:
        raise RegistryError(
            f"the registry has {count:,} configurations, and the one to copy to keeps "
            f"{target.most_scopes:,}, so nothing was copied",
            hint="name a PostgreSQL database, which keeps 1,000",
        )


def _count(registry: PortableRegistry, table: CopiedTable) -> int:
    return int(registry.read(lambda db: copied_tables.count(db, table)))


def _batches(
    registry: PortableRegistry, table: CopiedTable, report: Report = lambda _: None
) -> Iterator[Sequence[Sequence[object]]]:
    """The rows of a table, as many at a time as one transaction reads, or writes."""
    count = _count(registry, table)
    for skip in range(0, count, table.at_once):
        report(f"{table.kind}: {skip:,} of {count:,}")
        yield registry.read(partial(copied_tables.rows, table=table, skip=skip))


def _digest(items: Iterable[object]) -> ContentDigest:
    digests: Collection[bytes] = sorted(
        blake2b(repr(item).encode("utf-8", "surrogatepass"), digest_size=16).digest()
        for item in items
    )
    return ContentDigest(len(digests), blake2b(b"".join(digests), digest_size=16).hexdigest())
