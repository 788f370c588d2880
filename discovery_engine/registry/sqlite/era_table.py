"""How servers introduced themselves, in SQLite."""

from __future__ import annotations

import json
import sqlite3

from discovery_engine._util.json import JSONObject

_ERAS_KEPT = 1000  # connections; the oldest are dropped first


def load(connection: sqlite3.Connection, reached: str) -> JSONObject | None:
    query = "SELECT era FROM eras WHERE connection = ?"
    row = connection.execute(query, (reached,)).fetchone()
    return _era(row[0]) if row else None


def save(connection: sqlite3.Connection, reached: str, era: JSONObject | None) -> None:
    if era is None:
        connection.execute("DELETE FROM eras WHERE connection = ?", (reached,))
        return
    connection.execute(
        """
        INSERT INTO eras (connection, era) VALUES (?, ?)
        ON CONFLICT (connection) DO UPDATE SET era = excluded.era WHERE era <> excluded.era
        """,
        (reached, json.dumps(era)),
    )
    connection.execute("DELETE FROM eras WHERE id <= (SELECT max(id) FROM eras) - ?", (_ERAS_KEPT,))


def _era(text: str) -> JSONObject | None:
    """None if it is damaged; the next connection replaces it."""
    try:
        era = json.loads(text)
    except ValueError:
        return None
    return era if isinstance(era, dict) else None
