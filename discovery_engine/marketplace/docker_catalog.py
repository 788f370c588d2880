"""Docker's catalog: YAML with the tools, secrets and settings of servers.

    registry:
      files:
        image: mcp/files@sha256:…
        secrets: [{name: files.token, env: FILES_TOKEN}]
        env: [{name: ROOT, value: "{{files.root}}"}]
        config: [{name: files, properties: {root: {type: string}}, required: [root]}]
        tools: [{name: read_file}]

An entry is converted to an equivalent `server.json`, and parsed as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.config.document.yaml_reader import read_document
from discovery_engine.marketplace import bounds
from discovery_engine.marketplace.entry import EntryOrigin, MarketplaceEntry
from discovery_engine.marketplace.server_json import (
    MalformedEntryError,
    child,
    date,
    parse_server,
    shown_text,
)
from discovery_engine.marketplace.source import DocumentSource, SourcePage, invalid

_VALUES = 1_000_000  # scalars of one catalog; Docker's has some 50,000
_TEMPLATE = re.compile(r"\{\{\s*([^{}|]+?)\s*(?:\|([^{}]*))?\}\}")
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$([A-Za-z_][A-Za-z0-9_]*)")
_NUMBERS = ("number", "integer")


class DockerCatalog(DocumentSource):
    """A source of type `docker-catalog`."""

    def page(self, content: bytes, etag: str) -> SourcePage:
        entries, malformed = [], []
        for name, described in _registry(content).items():
            try:
                entries.append(_entry(str(name), described, self.origin))
            except MalformedEntryError as error:
                malformed.append(f"{str(name)[:40]!r}: {error}")
        return SourcePage(tuple(entries), tuple(malformed), etag=etag, size=len(content))


def _registry(content: bytes) -> JSONObject:
    document = read_document(content, size_limit=bounds.CATALOG_BYTES, value_limit=_VALUES)
    if document.root is None or document.is_broken or document.faults:
        fault = next(iter(document.faults), None)
        place = f" at line {fault.at.line}: {fault.message}" if fault else ""
        raise invalid(f"it is no catalog that can be read{place}")
    root = document.root.meant(has_numbers=False)
    registry = child(root, "registry") if isinstance(root, dict) else {}
    if not registry:
        raise invalid("it is no catalog of Docker: it has no `registry`")
    return registry


def _entry(name: str, described: JSONValue, origin: EntryOrigin) -> MarketplaceEntry:
    if not isinstance(described, dict):
        raise MalformedEntryError("it is no object")
    metadata = child(described, "metadata")
    entry = parse_server(_server(name, described, metadata), origin=origin)
    added = date(described, "dateAdded")
    return replace(
        entry,
        publisher=shown_text(metadata, "owner", bounds.NAME),
        published_at=added,
        first_published_at=added,
        updated_at=added,
    )


def _server(name: str, described: JSONObject, metadata: JSONObject) -> JSONObject:
    """Return the `server.json` of an entry."""
    category = shown_text(metadata, "category", bounds.NAME)
    tags = [*(metadata.get("tags") or []), *([category] if category else [])]
    return {
        "name": name,
        "title": described.get("title"),
        "description": described.get("description"),
        "repository": {"url": described.get("source") or described.get("upstream")},
        "websiteUrl": described.get("upstream") or described.get("readme"),
        "packages": list(_packages(name, described)),
        "remotes": list(_remotes(name, described)),
        "tools": described.get("tools"),
        "tags": tags,
    }


def _packages(name: str, described: JSONObject) -> Iterator[JSONObject]:
    image, kind = described.get("image"), described.get("type")
    if not image:
        if kind not in (None, "server", "remote"):
            yield {"registryType": kind, "identifier": name}
        return
    settings = _Settings(name, described)
    mount: JSONObject = {"type": "named", "name": "-v"}
    runtime = [settings.argument(mount, volume) for volume in _list(described, "volumes")]
    if user := described.get("user"):
        runtime.append({"type": "named", "name": "-u", "value": user})
    if described.get("disableNetwork") in (True, "true"):
        runtime.append({"type": "named", "name": "--network", "value": "none"})
    yield {
        "registryType": "oci",
        "identifier": image,
        "runtimeArguments": runtime,
        "packageArguments": [
            settings.argument({"type": "positional"}, word) for word in _list(described, "command")
        ],
        "environmentVariables": [*_secrets(described), *settings.variables()],
    }


def _remotes(name: str, described: JSONObject) -> Iterator[JSONObject]:
    remote = child(described, "remote")
    if not remote:
        return
    secrets = {secret["name"]: secret for secret in _secrets(described)}
    headers = []
    for header, value in child(remote, "headers").items():
        text, names = _with_places(str(value))
        variables = {place: secrets.get(place, {"isRequired": True}) for place in names}
        headers.append({"name": header, "value": text, "variables": variables})
    settings = _Settings(name, described)
    url = settings.argument({}, str(remote.get("url")))
    yield {
        "type": remote.get("transport_type") or remote.get("type") or "streamable-http",
        "url": url["value"],
        "headers": headers,
        "variables": url["variables"],
    }


def _secrets(described: JSONObject) -> Iterator[JSONObject]:
    for secret in _objects(described, "secrets"):
        yield {
            "name": secret.get("env"),
            "description": secret.get("description"),
            "placeholder": secret.get("example"),
            "isSecret": True,
            "isRequired": secret.get("required") not in (False, "false"),
        }


class _Settings:
    """The settings of a server, and their placeholders in templates."""

    def __init__(self, name: str, described: JSONObject) -> None:
        self._prefix = f"{name}."
        self._described = described
        self._inputs: JSONObject = {}
        for section in _objects(described, "config"):
            required = section.get("required") or []
            for key, schema in child(section, "properties").items():
                self._add(key, schema, is_required=key in required)

    def argument(self, argument: JSONObject, template: JSONValue) -> JSONObject:
        """Return an argument with `{name}` in place of the catalog's `{{server.name|filter}}`."""
        names: dict[str, JSONValue] = {}
        is_repeated = False

        def place(match: re.Match[str]) -> str:
            nonlocal is_repeated
            key = match[1].removeprefix(self._prefix)
            definition = self._inputs.get(key, {"isRequired": True})
            names[key] = {
                member: value for member, value in definition.items() if member != "isRepeated"
            }
            is_repeated = is_repeated or bool(definition.get("isRepeated"))
            is_volume = "volume" in (match[2] or "").split("|")
            return f"{{{key}}}:{{{key}}}" if is_volume else f"{{{key}}}"

        value = _TEMPLATE.sub(place, str(template))
        return {**argument, "value": value, "variables": names, "isRepeated": is_repeated}

    def variables(self) -> Iterator[JSONObject]:
        """Yield the environment variables that are not secret."""
        for variable in _objects(self._described, "env"):
            yield self.argument({"name": variable.get("name")}, variable.get("value", ""))

    def _add(self, key: str, schema: JSONValue, *, is_required: bool) -> None:
        if not isinstance(schema, dict):
            return
        kind = schema.get("type")
        default = schema.get("default")
        self._inputs[key] = {
            "description": schema.get("description"),
            "default": default if isinstance(default, (str, bool, int, float)) else None,
            "choices": schema.get("enum"),
            "format": "number" if kind in _NUMBERS else "boolean" if kind == "boolean" else None,
            "isRequired": is_required,
            "isRepeated": kind == "array",
        }


def _with_places(text: str) -> tuple[str, list[str]]:
    """Return a text with `{NAME}` in place of `${NAME}` and `$NAME`, and these names."""
    names: list[str] = []

    def place(match: re.Match[str]) -> str:
        names.append(match[1] or match[2])
        return f"{{{names[-1]}}}"

    return _REFERENCE.sub(place, text), names


def _list(document: JSONObject, name: str) -> list[JSONValue]:
    items = document.get(name)
    return items if isinstance(items, list) else []


def _objects(document: JSONObject, name: str) -> Iterator[JSONObject]:
    return (element for element in _list(document, name) if isinstance(element, dict))
