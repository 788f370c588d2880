"""Converts settings to the form of `discovery.yaml`, for display without secrets or for writing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeVar, get_type_hints

from msgspec import NODEFAULT, Struct, convert, to_builtins
from msgspec.structs import fields, replace

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.config.entry_secrets import redact_transport
from discovery_engine.config.marketplace_settings import MarketplaceSettings
from discovery_engine.config.openapi_entry import openapi_form, started_form
from discovery_engine.config.settings import (
    OWN_SOURCE,
    EmbeddingsSettings,
    EnrichSettings,
    RemoteTransport,
    RerankerSettings,
    ServerSettings,
    Settings,
    StdioTransport,
)
from discovery_engine.config.settings_section import INTERNAL
from discovery_engine.errors import Origin
from discovery_engine.rules.overrides.override import Override
from discovery_engine.secrets.masking import redact_args, redact_url
from discovery_engine.secrets.references import REDACTED, redact_literals

E = TypeVar("E", EmbeddingsSettings, RerankerSettings, EnrichSettings)

_PATTERNS = ("pattern", "server", "matchTags")
"""Keys whose value is written as a single word if it is a list of one."""


def serialize_redacted(settings: Settings, *, with_defaults: bool = True) -> JSONObject:
    """Return the configuration in force, with every literal that may be a secret redacted.

    For display only, a server from a source has the key `source`, and a broken entry has only
    `problem`.
    """
    overrides = tuple(map(_redacted, settings.overrides))
    safe_settings = replace(_without_secrets(settings), overrides=overrides)
    form = serialize(safe_settings, with_defaults=with_defaults)
    for server in settings.servers:
        form["servers"][server.name] = serialize_server_redacted(server)
    return form


def serialize_server_redacted(server: ServerSettings) -> JSONObject:
    if server.problem:
        return {"problem": str(server.problem)}
    form = serialize_server(
        replace(server, transport=redact_transport(server.transport) if server.transport else None)
    )
    return form if server.source == OWN_SOURCE else {**form, "source": server.source}


def serialize(settings: Settings, *, with_defaults: bool = True) -> JSONObject:
    """Return the canonical form, with secrets; loading it gives the same settings."""
    form = _section(settings) if with_defaults else _entry(settings)
    named = {
        "servers": {server.name: serialize_server(server) for server in settings.servers},
        "views": {view.name: _entry(view) for view in settings.views},
        "webhooks": {webhook.name: _entry(webhook) for webhook in settings.webhooks},
    }
    return form | {key: entries for key, entries in named.items() if entries or with_defaults}


def serialize_server(server: ServerSettings) -> JSONObject:
    """Return an entry of `servers`, without defaults."""
    transport = openapi_form(_entry(server.transport)) if server.transport else {}
    # Without `args`, a command with a space is refused as a whole command line.
    if " " in transport.get("command", "") and "args" not in transport:
        transport = {"command": transport["command"], "args": [], **transport}
    return {**transport, **_entry(replace(server, transport=None))}


def deserialize_server(name: str, entry: JSONObject) -> ServerSettings:
    """Return the server of an entry from `serialize_server`; its values are not validated again.

    Raises:
        ValueError: If it is no such entry.
    """
    entry = started_form(entry)
    is_remote = "url" in entry
    kind: type[RemoteTransport | StdioTransport]
    kind = RemoteTransport if is_remote else StdioTransport
    own = {*kind.__struct_encode_fields__, "type"}
    transport = {key: value for key, value in entry.items() if key in own}
    rest = {key: value for key, value in entry.items() if key not in own}
    server = convert({**rest, "name": name}, ServerSettings)
    tagged = {"type": "remote" if is_remote else "stdio", **transport}
    return replace(server, transport=convert(tagged, kind))


def serialize_oauth(remote: RemoteTransport) -> JSONObject:
    """Return the values under `oauth`, with the secret redacted."""
    redacted = redact_transport(remote)
    return _entry(redacted.oauth) if isinstance(redacted, RemoteTransport) else {}


def _section(section: Struct) -> JSONObject:
    """Return a section by its keys, with defaults; None and empty texts are left out."""
    return {
        key: _value(value, _section)
        for _, key, value in _members(section)
        if value is not None and value != ""
    }


def _entry(entry: Struct) -> JSONObject:
    """Return an entry of a list or a mapping by its keys, without defaults."""
    defaults = _defaults(type(entry))
    form: JSONObject = {}
    for name, key, value in _members(entry):
        if value is None or value == defaults[name]:
            continue
        if key in _PATTERNS and isinstance(value, tuple) and len(value) == 1:
            [form[key]] = value
        elif (member_form := _value(value, _entry)) != {}:
            form[key] = member_form
    return form


def _value(value: Any, form: Callable[[Struct], JSONObject]) -> JSONValue:
    match value:
        case Struct():
            return form(value)
        case (Struct(), *_):
            return list(map(_entry, value))
    return to_builtins(value)


def _members(section: Struct) -> Iterator[tuple[str, str, Any]]:
    """Yield the name, key and value of each field that an owner may write."""
    internal = _internal(type(section))
    names = zip(section.__struct_fields__, section.__struct_encode_fields__, strict=True)
    for name, key in names:
        value = getattr(section, name)
        if name not in internal and not isinstance(value, Origin):
            yield name, key, value


@cache
def _internal(cls: type[Struct]) -> frozenset[str]:
    hints = get_type_hints(cls, include_extras=True)
    return frozenset(
        name for name, hint in hints.items() if INTERNAL in getattr(hint, "__metadata__", ())
    )


@cache
def _defaults(cls: type[Struct]) -> dict[str, Any]:
    return {
        field.name: field.default if field.default_factory is NODEFAULT else field.default_factory()
        for field in fields(cls)
    }


def _without_secrets(settings: Settings) -> Settings:
    search = settings.search
    server = settings.server
    return replace(
        settings,
        search=replace(
            search,
            embeddings=_without_key(search.embeddings),
            reranker=_without_key(search.reranker),
        ),
        enrich=_without_key(settings.enrich),
        marketplace=_without_headers(settings.marketplace),
        webhooks=tuple(
            replace(webhook, url=redact_url(webhook.url)) for webhook in settings.webhooks
        ),
        server=replace(server, on_list_changed=redact_args(server.on_list_changed)),
    )


def _without_key(endpoint: E) -> E:
    url = redact_url(endpoint.url) if endpoint.url else ""
    return replace(endpoint, url=url, api_key=redact_literals(endpoint.api_key))


def _without_headers(marketplace: MarketplaceSettings) -> MarketplaceSettings:
    sources = tuple(
        replace(
            source,
            url=redact_url(source.url) if source.url else "",
            headers={name: redact_literals(value) for name, value in source.headers.items()},
        )
        for source in marketplace.sources
    )
    return replace(marketplace, sources=sources)


def _redacted(override: Override) -> Override:
    arguments = {name: _without_literals(value) for name, value in override.arguments.items()}
    return replace(override, arguments=arguments)


def _without_literals(value: JSONValue) -> JSONValue:
    """Return the value with references as written, and all else that may be secret redacted."""
    match value:
        case str():
            return redact_literals(value)
        case list():
            return list(map(_without_literals, value))
        case dict():
            return {name: _without_literals(member) for name, member in value.items()}
        case None | bool():
            return value
    return REDACTED
