"""Arguments of tools that are kept under names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import to_builtins

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.registry.preset_records import Preset


def preset_form(preset: Preset) -> JSONObject:
    form: JSONObject = to_builtins(preset)
    return form
