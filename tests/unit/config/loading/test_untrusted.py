"""What a file of untrusted origin may say, and what of it is taken."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Struct, defstruct
from msgspec.structs import asdict, replace
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
