"""How servers introduced themselves, in PostgreSQL."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from psycopg import Connection

    from discovery_engine._util.json import JSONObject

_ERAS_KEPT = 100_000  # connections; the oldest are dropped first


def load(connection: Connection, reached: str) -> JSONObject | None:
    query = "SELECT era FROM discovery.eras WHERE connection = %s"
    row = connection.execute(query, (reached,)).fetchone()
    return json.loads(row[0]) if row else None


def save(connection: Connection, reached: str, era: JSONObject | None) -> None:
    if era is None:
        connection.execute("DELETE FROM discovery.eras WHERE connection = %s", (reached,))
        return
    connection.execute(
        """
        INSERT INTO discovery.eras (connection, era) VALUES (%s, %s)
        ON CONFLICT (connection) DO UPDATE SET era = excluded.era WHERE eras.era <> excluded.era
        """,
        (reached, json.dumps(era)),
    )
    query = "DELETE FROM discovery.eras WHERE id <= (SELECT max(id) FROM discovery.eras) - %s"
    connection.execute(query, (_ERAS_KEPT,))
