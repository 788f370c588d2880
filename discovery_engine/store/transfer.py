"""A registry copied into an empty one, row by row: all back-ends have the same tables.

Decisions are not among these tables: they are read and written as a `DecisionExport`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from discovery_engine._util.digests import blake2b
from discovery_engine.errors import RegistryError
from discovery_engine.store.records import EVERY_SCOPE, DecisionExport, LossRecord

if TYPE_CHECKING:
    from discovery_engine.store.registry import Registry
    from discovery_engine.store.statements import Connection

Report: TypeAlias = Callable[[str], None]
"""A callback for progress: what is copied at the moment, and how much of it there is."""


class CopiedTable(Struct, frozen=True):
    kind: str
    """Its content, in a word of users."""
    name: str
    columns: str
    """The first two of these identify a row."""
    at_once: int = 1000
    """Rows of one transaction: about a megabyte."""


SCOPES = CopiedTable(
    "settings", "scopes", "id, key, name, settings, revision, saved, decided", at_once=10
)
# What a row refers to comes before it.
TABLES = (
    SCOPES,
    CopiedTable(
        "servers", "servers", "id, scope, key, name, part, saved, told_failing_at, told_well_at"
    ),
    CopiedTable(
        "listings",
        "listings",
        "server, names, upstream_names, verdicts, judged, sources, digest, offerings",
        at_once=10,
    ),
    CopiedTable("uses", "uses", "server, key, tool, count, at"),
    CopiedTable("vectors", "vectors", "id, key, model, digest, data"),
    CopiedTable("uses of vectors", "vector_uses", "scope, vector, period"),
    CopiedTable(
        "written requests",
        "typical_requests",
        "id, key, tool_key, server, tool, fingerprint, requests, model, instructions, at",
    ),
    CopiedTable(
        "presets", "presets", "key, scope_key, scope, server, tool, name, arguments, updated_at"
    ),
    CopiedTable("requests of agents", "agent_requests", "number, scope_key, scope, id, request"),
    CopiedTable(
        "refresh jobs",
        "refresh_jobs",
        "key, scope_key, scope, server, created_at, due_at, state, priority, attempts, holder,"
        " fence, claimed_at, lease_until, listed_at, tool_count, error_code, error_message,"
        " connection, claimable_at, failing_since, losses, named_until",
    ),
    CopiedTable(
        "webhooks",
        "webhooks",
        "id, key, scope_key, scope, name, definition, address, left_at, disabled_at, delivered,"
        " dropped, delivered_at, failed_at, failure",
    ),
    CopiedTable(
        "deliveries",
        "webhook_deliveries",
        "id, webhook, event_id, event_type, body, stored_at, tried_since, due_at, attempts, fence",
        at_once=100,
    ),
)


class ContentDigest(Struct, frozen=True):
    """The number of records of a kind in a registry, and their digest."""

    count: int
    digest: str


def copy_registry(
    source: Registry, target: Registry, *, report: Report = lambda _: None
) -> dict[str, ContentDigest]:
    """Copy all into an empty registry; returns what was copied, by kind.

    Raises:
        RegistryError: If the target is not empty, cannot hold it, or is not the same afterwards.
    """
    _require_room(source, target)
    # Who is given a copy that was not finished accepts nothing because it is new.
    unfinished = LossRecord(EVERY_SCOPE, time.time())
    target.import_decisions(DecisionExport(1, (unfinished,), {}))
    for table in TABLES:
        for rows in _batches(source, table, report):
            target.write(partial(_add, table=table, rows=rows))
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


def content_of(registry: Registry) -> dict[str, ContentDigest]:
    """Return digests of what a registry holds, by kind; equal for two that hold the same."""
    content = {"decisions": _digest(registry.export_decisions().records)}
    for table in TABLES:
        rows = (row for some in _batches(registry, table) for row in some)
        content[table.kind] = _digest(rows)
    return content


def _require_room(source: Registry, target: Registry) -> None:
    if target.newest_decision() or any(_count(target, table) for table in TABLES):
        raise RegistryError(
            "the registry to copy to is not empty, and what it holds would be lost",
            hint="name an empty one: another database or file. What is left of a copy is deleted "
            "by `DROP SCHEMA discovery CASCADE`, or with all files of its name",
        )
    count = _count(source, SCOPES)
    if count > target.most_scopes:
        raise RegistryError(
            f"the registry has {count:,} configurations, and the one to copy to keeps "
            f"{target.most_scopes:,}, so nothing was copied",
            hint="name a PostgreSQL database, which keeps 1,000",
        )


def _count(registry: Registry, table: CopiedTable) -> int:
    statement = f"SELECT count(*) FROM {table.name}"  # noqa: S608 - a constant
    return int(registry.read(lambda db: db.execute(statement).fetchone()[0]))


def _batches(
    registry: Registry, table: CopiedTable, report: Report = lambda _: None
) -> Iterator[Sequence[Sequence[object]]]:
    """The rows of a table, as many at a time as one transaction reads, or writes."""
    count = _count(registry, table)
    for skip in range(0, count, table.at_once):
        report(f"{table.kind}: {skip:,} of {count:,}")
        yield registry.read(partial(_rows, table=table, skip=skip))


def _rows(connection: Connection, table: CopiedTable, *, skip: int) -> list[Any]:
    """Some rows in the order of what identifies them, after so many others."""
    statement = f"SELECT {table.columns} FROM {table.name} ORDER BY 1, 2 LIMIT ? OFFSET ?"  # noqa: S608 - constants
    return connection.execute(statement, (table.at_once, skip)).fetchall()


def _add(connection: Connection, table: CopiedTable, rows: Iterable[Sequence[object]]) -> None:
    marks = ", ".join("?" * (table.columns.count(",") + 1))
    statement = f"""
        INSERT INTO {table.name} ({table.columns}) {connection.with_numbers} VALUES ({marks})
        """  # noqa: S608 - constants
    connection.executemany(statement, rows)


def _digest(items: Iterable[object]) -> ContentDigest:
    digests: Collection[bytes] = sorted(
        blake2b(repr(item).encode("utf-8", "surrogatepass"), digest_size=16).digest()
        for item in items
    )
    return ContentDigest(len(digests), blake2b(b"".join(digests), digest_size=16).hexdigest())
