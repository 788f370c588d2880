"""The tables that a copy of a registry gets as they are; decisions are not among them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from discovery_engine.store.statements import Connection


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


def count(connection: Connection, table: CopiedTable) -> int:
    [number] = connection.execute(f"SELECT count(*) FROM {table.name}").fetchone()  # noqa: S608 - a constant
    return int(number)


def rows(connection: Connection, table: CopiedTable, *, skip: int) -> list[Any]:
    """Some rows in the order of what identifies them, after so many others."""
    statement = f"SELECT {table.columns} FROM {table.name} ORDER BY 1, 2 LIMIT ? OFFSET ?"  # noqa: S608 - constants
    return connection.execute(statement, (table.at_once, skip)).fetchall()


def add(connection: Connection, table: CopiedTable, rows: Iterable[Sequence[object]]) -> None:
    marks = ", ".join("?" * (table.columns.count(",") + 1))
    statement = f"""
        INSERT INTO {table.name} ({table.columns}) {connection.with_numbers} VALUES ({marks})
        """  # noqa: S608 - constants
    connection.executemany(statement, rows)
