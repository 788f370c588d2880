"""How servers introduced themselves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.registry.statements import Connection

ERAS_KEPT = 100_000  # connections; the oldest are dropped first


def load(connection: Connection, reached: str) -> JSONObject | None:
    row = connection.execute("SELECT era FROM eras WHERE connection = ?", (reached,)).fetchone()
    return _era(row[0]) if row else None


def save(connection: Connection, reached: str, era: JSONObject | None) -> None:
    if era is None:
        connection.execute("DELETE FROM eras WHERE connection = ?", (reached,))
        return
    connection.execute(
        """
        INSERT INTO eras (connection, era) VALUES (?, ?)
        ON CONFLICT (connection) DO UPDATE SET era = excluded.era WHERE eras.era <> excluded.era
        """,
        (reached, json.dumps(era)),
    )
    connection.execute("DELETE FROM eras WHERE id <= (SELECT max(id) FROM eras) - ?", (ERAS_KEPT,))


def _era(text: str) -> JSONObject | None:
    """None if it is damaged; the next connection replaces it."""
    try:
        era = json.loads(text)
    except ValueError:
        return None
    return era if isinstance(era, dict) else None
