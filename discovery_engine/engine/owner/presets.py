"""Presets: named sets of arguments that the owner saves for a tool: `engine.presets`.

A preset must not contain secrets. A value that equals a stored secret, or looks like one, is
refused with an error that says where it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import anyio.to_thread

from discovery_engine._util.text import visible
from discovery_engine.errors import DiscoveryError
from discovery_engine.rpc.json_codec import encode_finite
from discovery_engine.secrets.redactor import Redactor
from discovery_engine.store.call_log.contents import GUESSING
from discovery_engine.store.stored_records import Preset

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.engine.core import EngineCore
    from discovery_engine.engine.engine import Engine

LONGEST_NAME = 100  # characters
_MAX_PRESET_BYTES = 64 * 1024  # bytes of the arguments as JSON
_MAX_PRESETS = 1000  # per configuration


class PresetRefusedError(DiscoveryError):
    """A preset cannot be saved: its name, its size, a secret in it, or too many presets."""

    code = "PRESET_REFUSED"


class Presets:
    """Lists, saves and deletes presets; available as `engine.presets`."""

    def __init__(self, engine: Engine, core: EngineCore) -> None:
        self._engine = engine
        self._core = core
        self._store = core.store
        self._clock = core.environment.clock

    async def list(self, server: str | None = None, tool: str | None = None) -> tuple[Preset, ...]:
        """Return the presets of a server or of one of its tools, ordered by key; all by default.

        Presets of tools that no longer exist are included.

        Raises:
            RegistryError: If the presets cannot be read.
        """
        presets = await anyio.to_thread.run_sync(self._store.presets, self._scope)
        return tuple(
            preset
            for preset in presets
            if server in (None, preset.server) and tool in (None, preset.tool)
        )

    async def save(self, server: str, tool: str, name: str, arguments: JSONObject) -> Preset:
        """Save arguments of a tool under a name; a preset of the same name is replaced.

        The tools of the server are listed first if they never were.

        Raises:
            NotFoundError: If there is no such server or tool.
            PresetRefusedError: If the name is empty or longer than 100 characters, the arguments
                contain a secret or exceed 64 KiB of JSON, or there are 1,000 presets already.
            RegistryError: If the preset cannot be stored.
            SecretStoreError: If the stored secrets cannot be read.
        """
        if not name or len(name) > LONGEST_NAME:
            raise PresetRefusedError(f"the name of a preset has 1 to {LONGEST_NAME} characters")
        if len(encode_finite(arguments)) > _MAX_PRESET_BYTES:
            raise PresetRefusedError(
                f"arguments of more than {_MAX_PRESET_BYTES:,} bytes make no preset"
            )
        await self._engine.list_tools(server, include_disabled=True)
        key = self._engine.view.find(server, tool).key
        preset = Preset(key.server, key.tool, name, arguments, self._clock())
        await anyio.to_thread.run_sync(self._refuse_secrets, arguments)
        keys = {entry.key for entry in await self.list()}
        if preset.key not in keys and len(keys) >= _MAX_PRESETS:
            raise PresetRefusedError(
                f"there are {_MAX_PRESETS:,} presets already", hint="delete one"
            )
        await anyio.to_thread.run_sync(self._store.save_preset, self._scope, preset)
        return preset

    async def delete(self, server: str, tool: str, name: str) -> bool:
        """Delete a preset; return whether it existed.

        Raises:
            RegistryError: If the preset cannot be deleted.
        """
        delete = partial(self._store.delete_preset, self._scope, (server, tool, name))
        return await anyio.to_thread.run_sync(delete)

    @property
    def _scope(self) -> str:
        return self._core.decision_scope

    def _refuse_secrets(self, arguments: JSONObject) -> None:
        stored = self._engine.secrets
        values = Redactor(value for name in stored.names() if (value := stored.get(name)))
        for place, name, text in _texts(arguments, "arguments", ""):
            if _looks_secret(name, text) or values.redact(text) != text:
                hint = "leave it out of the preset, and enter it for each call"
                raise PresetRefusedError(f"{visible(place)} looks like a secret", hint=hint)


def _texts(value: object, place: str, name: str) -> Iterator[tuple[str, str, str]]:
    """Yield each string and number as (its place, the name of its member, its text).

    Names of members are yielded as well.
    """
    match value:
        case dict():
            for key, part in value.items():
                yield f"the name of a member of {place}", "", key
                yield from _texts(part, f"{place}.{key}", key)
        case list():
            for number, part in enumerate(value):
                yield from _texts(part, f"{place}[{number}]", name)
        case str():
            yield place, name, value
        case int() | float() if not isinstance(value, bool):
            yield place, name, str(value)


def _looks_secret(name: str, text: str) -> bool:
    """Return whether the call log would redact a text, alone or as the value of `name`."""
    named = f"{name}={text}" if name else text
    return GUESSING.redact(text) != text or GUESSING.redact(named) != named
