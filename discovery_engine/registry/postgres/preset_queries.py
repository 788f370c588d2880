"""Presets in PostgreSQL; `registry.protocols` has their contract."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from discovery_engine.registry.postgres.storable_text import from_column, key_of, to_column
from discovery_engine.registry.preset_records import Preset

if TYPE_CHECKING:
    from psycopg import Connection


def load(connection: Connection, scope: str) -> tuple[Preset, ...]:
    query = """
        SELECT server, tool, name, arguments, updated_at FROM discovery.presets
        WHERE scope_key = %s
        """
    found = [
        Preset(from_column(server), from_column(tool), from_column(name), json.loads(text), at)
        for server, tool, name, text, at in connection.execute(query, (key_of(scope),))
    ]
    return tuple(sorted(found, key=lambda preset: preset.key))


def save(connection: Connection, scope: str, preset: Preset) -> None:
    connection.execute(
        """
        INSERT INTO discovery.presets
            (key, scope_key, scope, server, tool, name, arguments, updated_at)
        VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
        ON CONFLICT (key) DO UPDATE
        SET arguments = excluded.arguments, updated_at = excluded.updated_at
        """,
        (
            key_of(scope, *preset.key),
            key_of(scope),
            *map(to_column, (scope, *preset.key)),
            json.dumps(preset.arguments),  # in ASCII, which holds half a surrogate pair, too
            preset.updated_at,
        ),
    )


def delete(connection: Connection, scope: str, key: tuple[str, str, str]) -> bool:
    query = "DELETE FROM discovery.presets WHERE key = %s"
    return connection.execute(query, (key_of(scope, *key),)).rowcount > 0
