"""What a file of untrusted origin may say, and what of it is taken."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest
from msgspec import Struct, defstruct
from msgspec.structs import asdict, fields, replace
from pydantic.alias_generators import to_camel

from discovery_engine.config.loading.untrusted import restrict
from discovery_engine.config.marketplace_settings import MarketplaceSettings
from discovery_engine.config.serve_settings import PoolWeights, ServeSettings
from discovery_engine.config.settings import (
    CacheSettings,
    EmbeddingsSettings,
    EnrichSettings,
    Limits,
    LogSettings,
    RemoteTransport,
    SearchSettings,
    ServerSettings,
    Settings,
    StdioTransport,
    Timeouts,
    Weights,
)
from discovery_engine.config.settings_section import Permission
from discovery_engine.diagnostics import Origin
from discovery_engine.overrides.override import Override
from tests.factories import (
    make_server,
    make_settings,
)
from tests.rows import rows

SECTIONS = {
    Settings: (),
    CacheSettings: ("cache",),
    SearchSettings: ("search",),
    Weights: ("search", "weights"),
    EmbeddingsSettings: ("search", "embeddings"),
    EnrichSettings: ("enrich",),
    ServeSettings: ("server",),
    PoolWeights: ("server", "pool_weights"),
    LogSettings: ("log",),
    MarketplaceSettings: ("marketplace",),
}
ENTRIES = {ServerSettings: (), Timeouts: ("timeouts",), Limits: ("limits",)}
TRANSPORTS = {StdioTransport: StdioTransport("x"), RemoteTransport: RemoteTransport("http://x")}
OWNERS_ALONE = {
    (ServeSettings, "roots"),
    (ServerSettings, "roots"),
    (Settings, "name"),
    (CacheSettings, "enabled"),
    (EmbeddingsSettings, "path"),
    (EmbeddingsSettings, "url"),
    (EmbeddingsSettings, "api_key"),
    (EnrichSettings, "url"),
    (EnrichSettings, "model"),
    (EnrichSettings, "api_key"),
    (LogSettings, "file"),
    (LogSettings, "calls"),
    (SearchSettings, "where"),
    (ServeSettings, "registry_tool"),
    (ServeSettings, "on_list_changed"),
    (ServeSettings, "pass_env"),
    (MarketplaceSettings, "sources"),
    (MarketplaceSettings, "sync_every"),
    (Settings, "webhooks"),
}


def wider(section: Struct) -> Struct:
    """The section with a field more, which nobody has judged yet, and with a value in it."""
    cls = type(section)
    wide = defstruct(f"Wide{cls.__name__}", [("new_key", str, "usual")], bases=(cls,), frozen=True)
    return wide(**asdict(section), new_key="given")


def put(settings: Struct, path: tuple[str, ...], value: Struct) -> Any:
    if not path:
        return value
    first, *rest = path
    return replace(settings, **{first: put(getattr(settings, first), tuple(rest), value)})


def at(settings: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        settings = getattr(settings, step)
    return settings


@pytest.mark.requirement("TRU-8")
@rows(("section", "path"), SECTIONS.items())
def test_a_field_that_is_added_to_a_section_is_its_owners_alone(
    section: type[Struct], path: tuple[str, ...]
) -> None:
    settings = put(Settings(), path, wider(section()))

    restricted = restrict(settings)

    assert at(restricted, path).new_key == "usual"
    assert [warning.subject for warning in restricted.warnings] == [
        ".".join((*map(to_camel, path), "newKey"))
    ]


@pytest.mark.requirement("TRU-8")
@rows(("section", "path"), ENTRIES.items())
def test_a_field_that_is_added_to_a_servers_entry_is_its_owners_alone(
    section: type[Struct], path: tuple[str, ...]
) -> None:
    server = put(make_server("a"), path, wider(at(make_server("a"), path)))

    restricted = restrict(make_settings(server))

    assert at(restricted.servers[0], path).new_key == "usual"
    told = ".".join(("servers", "a", *path, "newKey"))
    assert [warning.subject for warning in restricted.warnings] == [told]


@pytest.mark.requirement("TRU-8")
@rows("transport", TRANSPORTS.values(), ids=lambda one: type(one).__name__)
def test_a_field_that_is_added_to_a_transport_is_its_owners_alone(transport: Any) -> None:
    server = replace(make_server("a"), transport=wider(transport))

    [restricted] = restrict(make_settings(server)).servers

    assert at(restricted, ("transport", "new_key")) == "usual"


@pytest.mark.requirement("TRU-8")
def test_fields_that_declare_nothing_are_known_and_have_a_default() -> None:
    silent = {
        (cls, field.name): field
        for cls in (*SECTIONS, *ENTRIES, *TRANSPORTS)
        for field in fields(cls)
        if not is_declared(cls, field.name)
        and not isinstance(field.default, Struct)
        and (cls, field.name) != (ServerSettings, "transport")
    }

    assert silent.keys() == OWNERS_ALONE
    assert not any(field.required for field in silent.values())


def is_declared(cls: type[Struct], name: str) -> bool:
    hint = get_type_hints(cls, include_extras=True)[name]
    return any(isinstance(one, Permission) for one in getattr(hint, "__metadata__", ()))


def elsewhere(*embeddings: str, **more: str) -> dict[str, object]:
    return {"search": SearchSettings(embeddings=EmbeddingsSettings(*embeddings, **more))}  # type: ignore[arg-type]


@pytest.mark.requirement("TRU-8")
@rows(
    ("loosening", "keys"),
    [
        pytest.param({"trust": "open"}, "trust", id="trust"),
        pytest.param({"cache": CacheSettings(enabled=False)}, "cache.enabled", id="cache"),
        pytest.param({"log": LogSettings(file="/x")}, "log.file", id="log"),
        pytest.param(
            elsewhere("http", url="https://evil", api_key="${TOKEN}"),
            "search.embeddings.provider search.embeddings.url search.embeddings.apiKey",
            id="embeddings elsewhere",
        ),
        pytest.param(
            elsewhere("onnx", path="model"),
            "search.embeddings.provider search.embeddings.path",
            id="a model of the project",
        ),
        pytest.param(
            {"server": ServeSettings(max_own_sessions=999)},
            "server.maxOwnSessions",
            id="sessions of clients",
        ),
        pytest.param(
            {"server": ServeSettings(question_timeout=999, roots=("/",))},
            "server.questionTimeout server.roots",
            id="folders for servers",
        ),
        pytest.param(
            {"server": ServeSettings(on_list_changed=("sh", "-c", "evil"))},
            "server.onListChanged",
            id="a program to run",
        ),
        pytest.param(
            {"server": ServeSettings(max_sessions=999)},
            "server.maxSessions",
            id="clients with a session",
        ),
        pytest.param(
            {"server": ServeSettings(max_result_tokens=0)},
            "server.maxResultTokens",
            id="results of any length",
        ),
        pytest.param(
            {"server": ServeSettings(max_result_tokens=25_001)},
            "server.maxResultTokens",
            id="longer results",
        ),
    ],
)
def test_what_loosens_is_not_taken_and_is_a_warning(
    loosening: dict[str, object], keys: str
) -> None:
    restricted = restrict(replace(Settings(), **loosening))  # type: ignore[arg-type]

    assert replace(restricted, warnings=()) == replace(Settings(), is_untrusted_origin=True)
    assert [warning.subject for warning in restricted.warnings] == keys.split()


@pytest.mark.requirement("TRU-3")
def test_an_approval_is_bound_to_the_overrides_wherever_they_stand() -> None:
    one, moved = (Override(("*",), description="x", origin=Origin("f", line)) for line in (1, 2))
    other = replace(one, arguments={"to": "evil"})

    def bound_to(*overrides: Override) -> str:
        [server] = restrict(make_settings("a", overrides=overrides)).servers
        return server.bound_to

    assert bound_to() == ""
    assert bound_to(one) == bound_to(moved)
    assert len({bound_to(), bound_to(one), bound_to(other), bound_to(one, other)}) == 4
