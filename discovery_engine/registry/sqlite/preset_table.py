"""Presets in SQLite; `registry.protocols` has their contract."""

from __future__ import annotations

import json
import logging
import sqlite3

from discovery_engine.registry.preset_records import Preset
from discovery_engine.registry.sqlite.encoding import as_text, from_column

logger = logging.getLogger(__name__)


def load(connection: sqlite3.Connection, scope: str) -> tuple[Preset, ...]:
    query = "SELECT server, tool, name, arguments, updated_at FROM presets WHERE scope = ?"
    found = []
    for server, tool, name, arguments, updated_at in connection.execute(query, (as_text(scope),)):
        key = from_column(server), from_column(tool), from_column(name)
        try:
            found.append(Preset(*key, json.loads(arguments), updated_at))
        except (ValueError, RecursionError) as error:
            logger.warning("A preset cannot be read: %s", error)
    return tuple(sorted(found, key=lambda preset: preset.key))


def save(connection: sqlite3.Connection, scope: str, preset: Preset) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO presets VALUES (?, ?, ?, ?, ?, ?)",
        (
            *map(as_text, (scope, *preset.key)),
            json.dumps(preset.arguments),  # in ASCII, which holds half a surrogate pair, too
            preset.updated_at,
        ),
    )


def delete(connection: sqlite3.Connection, scope: str, key: tuple[str, str, str]) -> bool:
    query = "DELETE FROM presets WHERE scope = ? AND server = ? AND tool = ? AND name = ?"
    return connection.execute(query, tuple(map(as_text, (scope, *key)))).rowcount > 0
