"""Routes of presets: arguments of tools that are kept under names."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct, field

from discovery_engine._util.json import JSONObject
from discovery_engine.json_forms.preset_form import preset_form
from discovery_engine.owner.presets import LONGEST_NAME
from discovery_server.api.paging import PageQuery, page
from discovery_server.api.route import ApiRequest, ApiRoute

_Address: TypeAlias = Annotated[str, Meta(min_length=1, max_length=1000)]
_Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]


class PresetsQuery(PageQuery, frozen=True, forbid_unknown_fields=True):
    server: Annotated[str | None, Meta(description="Only those of this server.")] = None
    tool: Annotated[str | None, Meta(description="Only those of this tool.")] = None


class PresetPage(Struct, frozen=True):
    presets: list[JSONObject]
    next_cursor: str | None


class SavePreset(Struct, frozen=True, forbid_unknown_fields=True):
    server: _Address
    tool: _Address
    name: _Name
    arguments: Annotated[
        dict[str, Any], Meta(description="Those of the tool; without secrets.")
    ] = field(default_factory=dict)


class PresetKey(Struct, frozen=True, forbid_unknown_fields=True):
    server: _Address
    tool: _Address
    name: _Name


class PresetDeleted(Struct, frozen=True):
    deleted: bool


async def presets(request: ApiRequest[PresetsQuery]) -> PresetPage:
    query = request.asked
    matches = await request.owner.presets.list(query.server, query.tool)
    page_presets, cursor = page(matches, lambda preset: preset.key, query.cursor, query.limit)
    return PresetPage([preset_form(preset) for preset in page_presets], cursor)


async def save_preset(request: ApiRequest[SavePreset]) -> JSONObject:
    body = request.asked
    saved = await request.owner.presets.save(body.server, body.tool, body.name, body.arguments)
    return preset_form(saved)


async def delete_preset(request: ApiRequest[PresetKey]) -> PresetDeleted:
    key = request.asked
    return PresetDeleted(await request.owner.presets.delete(key.server, key.tool, key.name))


_PATH = "/presets"
ROUTES = (
    ApiRoute(
        "GET",
        _PATH,
        "List arguments that are kept under names",
        presets,
        PresetsQuery,
        PresetPage,
        scope="admin",
    ),
    ApiRoute("PUT", _PATH, "Keep arguments under a name", save_preset, SavePreset, scope="admin"),
    ApiRoute(
        "DELETE", _PATH, "Delete a preset", delete_preset, PresetKey, PresetDeleted, scope="admin"
    ),
)
