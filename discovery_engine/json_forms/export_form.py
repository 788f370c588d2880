"""Servers as other clients write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import to_builtins

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.owner.server_export import ServerExport


def export_form(server: str, exported: ServerExport) -> JSONObject:
    return {"server": server, **to_builtins(exported)}
