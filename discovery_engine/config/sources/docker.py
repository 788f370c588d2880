"""Docker's MCP Toolkit, as one server for its gateway or as one for each of its servers.

The toolkit describes a server in four files: `registry.yaml` lists the enabled ones, the catalogue
describes them, `config.yaml` has their settings and `tools.yaml` their tools. Without a catalogue,
or with a database in place of the list, the gateway stands for all servers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from discovery_engine._util.json import JSONObject, JSONValue, object_of
from discovery_engine.config.sources.client_table import FileCandidate, is_file, load_table
from discovery_engine.config.sources.source_reader import SourceReader, read_entries
from discovery_engine.config.sources.variables import escape
from discovery_engine.errors import Origin
from discovery_engine.secrets.references import is_variable

_GATEWAY = {"command": "docker", "args": ["mcp", "gateway", "run"]}
_GATEWAY_NAME = "MCP_DOCKER"  # what Docker calls it in the files of clients
_RUN = ("run", "-i", "--rm", "--init")
_TEMPLATE = re.compile(r"\{\{([^{}|]+)((?:\|[^{}|]*)*)\}\}")


def read_gateway(reading: SourceReader, places: list[FileCandidate]) -> None:
    """Add the gateway as one server; it reads the toolkit's files itself."""
    reader = reading.entry_reader(places[0], "")
    reading.add_entry(reader, places[0], _GATEWAY_NAME, _GATEWAY)


def read_toolkit(reading: SourceReader, places: list[FileCandidate]) -> None:
    """Add each enabled server by itself; without descriptions, add the gateway."""
    place = places[0]
    folder = place.path.parent
    catalog = _map(_sibling(reading, folder / "catalogs" / "docker-mcp.yaml"), "registry")
    if place.path.suffix != ".yaml" or not catalog:
        read_gateway(reading, places)
        return
    registry = _map(reading.document(place.path), "registry")
    config = _sibling(reading, folder / "config.yaml")
    tools = object_of(_sibling(reading, folder / "tools.yaml"))
    reader = reading.entry_reader(place, "registry")
    for name, enabled in registry.items():
        settings = {**_map(config, name), **_map(enabled, "config")}
        entry = _entry(_map(catalog, name), name, settings)
        if entry is None:
            reading.skip_entry(name, "Docker's catalogue has no way to start it")
            continue
        reading.add_entry(reader, place, name, {**entry, "tools": tools.get(name)})


def read_named_toolkit(reading: SourceReader, places: list[FileCandidate]) -> None:
    """Read a named file: one of the toolkit, or one with servers in the form of other clients."""
    place = places[0]
    if place.path.suffix == ".db":  # never opened: its existence shows that there is a gateway
        if is_file(place.path):
            read_gateway(reading, places)
        else:
            reading.document(place.path)
        return
    document = reading.document(place.path)
    if isinstance(object_of(document).get("registry"), dict):
        read_toolkit(reading, places)
    elif document is not None:
        custom = load_table().clients["custom"]
        reading.client = replace(custom, id=reading.client.id, label=reading.client.label)
        pointers = (spec for spec in custom.files if spec.containers)
        read_entries(reading, [replace(place, spec=spec) for spec in pointers])


def read_named_gateway(reading: SourceReader, places: list[FileCandidate]) -> None:
    """Add the gateway, with a warning: it reads no file, so naming one has no effect."""
    origin = Origin(str(places[0].path))
    reading.warn(
        "SOURCE_EMPTY", origin, f"{reading.client.id} reads no file; `docker-mcp` reads this one"
    )
    read_gateway(reading, places)


def _sibling(reading: SourceReader, path: Path) -> JSONValue:
    if is_file(path):
        return reading.document(path)
    reading.record_absent(path)
    return None


def _entry(described: JSONObject, name: str, settings: JSONObject) -> JSONObject | None:
    """Return the entry that starts a described server; None if nothing can start it."""
    remote = _map(described, "remote")
    about = {"description": described.get("description")}
    if remote:
        kind = remote.get("transport_type")
        return {**about, "url": remote.get("url"), "type": kind, "headers": remote.get("headers")}
    image = described.get("image")
    if not isinstance(image, str) or image.startswith("-"):
        return None
    fill = _Filler(name, settings)
    env = dict(_env(described, fill))
    args = [*_RUN, *_limits(described), *(word for key in env for word in ("-e", key))]
    for volume in fill.all(described.get("volumes")):
        args += ["-v", volume]
    args += [escape(image), *fill.all(described.get("command"))]
    return {**about, "command": "docker", "args": args, "env": env}


def _limits(described: JSONObject) -> Iterator[str]:
    if described.get("disableNetwork") == "true":
        yield from ("--network", "none")
    if isinstance(user := described.get("user"), str):
        yield from ("-u", escape(user))


def _env(described: JSONObject, fill: _Filler) -> Iterator[tuple[str, str]]:
    for secret in _maps(described.get("secrets")):
        if isinstance(variable := secret.get("env"), str) and is_variable(variable):
            yield variable, f"${{{variable}}}"
    for entry in _maps(described.get("env")):
        variable, values = entry.get("name"), fill.all([entry.get("value")])
        if isinstance(variable, str) and is_variable(variable) and values:
            yield variable, " ".join(values)


class _Filler:
    """Fills `{{server.key|filter}}` with a server's settings."""

    def __init__(self, server: str, settings: JSONObject) -> None:
        self._prefix = f"{server}."
        self._settings = settings

    def all(self, texts: JSONValue) -> list[str]:
        """Return the texts filled in; empty ones are left out, those with a list are repeated."""
        listed = texts if isinstance(texts, list) else []
        filled = (self._each(text) for text in listed if isinstance(text, str))
        return [text for some in filled for text in some if text]

    def _each(self, text: str) -> list[str]:
        values = [self._value(key) for key, _ in _TEMPLATE.findall(text)]
        if any(value is None for value in values):
            return []
        if len(values) == 1 and isinstance(values[0], list):
            rows = [[value] for value in values[0]]
        else:
            rows = [values]
        return [self._filled(text, row) for row in rows]

    def _filled(self, text: str, values: list[JSONValue]) -> str:
        remaining = iter(values)
        return escape(_TEMPLATE.sub(lambda m: _filtered(str(next(remaining)), m[2]), text))

    def _value(self, key: str) -> JSONValue:
        value: JSONValue = self._settings
        path = key.strip().removeprefix(self._prefix)
        if path in self._settings:
            return self._settings[path]
        for step in path.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        return value


def _filtered(text: str, filters: str) -> str:
    is_volume = "volume" in map(str.strip, filters.split("|"))
    return f"{text}:{text}" if is_volume else text


def _map(value: JSONValue, key: JSONValue) -> JSONObject:
    return object_of(object_of(value).get(key))


def _maps(value: JSONValue) -> Iterator[JSONObject]:
    yield from (
        item for item in (value if isinstance(value, list) else ()) if isinstance(item, dict)
    )
