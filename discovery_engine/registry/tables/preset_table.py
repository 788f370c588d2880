"""Presets; `registry.protocols` has their contract."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from discovery_engine.registry.preset_records import Preset
from discovery_engine.registry.stored_text import from_column, key_of, to_column

if TYPE_CHECKING:
    from discovery_engine.registry.statements import Connection

logger = logging.getLogger(__name__)


def load(connection: Connection, scope: str) -> tuple[Preset, ...]:
    statement = "SELECT server, tool, name, arguments, updated_at FROM presets WHERE scope_key = ?"
    presets = []
    for *names, arguments, updated_at in connection.execute(statement, (key_of(scope),)):
        server, tool, name = map(from_column, names)
        try:
            presets.append(Preset(server, tool, name, json.loads(arguments), updated_at))
        except (ValueError, RecursionError) as error:
            logger.warning("A preset cannot be read: %s", error)
    return tuple(sorted(presets, key=lambda preset: preset.key))


def save(connection: Connection, scope: str, preset: Preset) -> None:
    connection.execute(
        """
        INSERT INTO presets (key, scope_key, scope, server, tool, name, arguments, updated_at)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?)
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
    return (
        connection.execute("DELETE FROM presets WHERE key = ?", (key_of(scope, *key),)).rowcount > 0
    )
