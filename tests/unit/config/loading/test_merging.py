from __future__ import annotations

import pytest
from msgspec.structs import replace

from discovery_engine.config.loading.merging import merge
from discovery_engine.config.settings import (
    RemoteTransport,
    ServerSettings,
    Settings,
    StdioTransport,
)
from discovery_engine.config.sources import SourceResult
from discovery_engine.rules.rule import Rule
from discovery_engine.secrets.resolver import EnvironmentResolver
from discovery_engine.tools.model import ServerName
from tests.rows import rows

NO_SECRETS = EnvironmentResolver({})


def started(name: str, *command: str, source: str = "cursor") -> ServerSettings:
    program, *args = command or (name,)
    transport = StdioTransport(program, tuple(args))
    return ServerSettings(ServerName(name), transport, source=source)


def reached(name: str, url: str, source: str = "cursor") -> ServerSettings:
    return ServerSettings(ServerName(name), RemoteTransport(url), source=source)


def names(settings: Settings) -> list[str]:
    return [server.name for server in settings.servers]


@pytest.mark.requirement("CFG-30")
def test_a_taken_name_gets_the_source_behind_it() -> None:
    own = Settings(servers=(started("git", "own"),))

    merged = merge(
        own,
        [
            SourceResult((started("git", "a"), started("GIT@cursor", "b"))),
            SourceResult((started("git", "c"), started("Git", "d"))),
        ],
        NO_SECRETS,
    )

    assert names(merged) == [
        "git",
        "git@cursor",
        "GIT@cursor@cursor",
        "git@cursor-2",
        "Git@cursor-3",
    ]
    assert merged.servers[0].transport == StdioTransport("own")
    assert [warning.subject for warning in merged.warnings] == [
        "servers.git",
        "servers.GIT@cursor",
        "servers.git",
        "servers.Git",
    ]


@pytest.mark.requirement("CFG-30")
@rows(
    ("first", "second"),
    [
        pytest.param(started("a", "npx", "x"), started("b", "npx", "x"), id="command"),
        pytest.param(started("a", "npx", "x"), started("b", "cmd", "/c", "npx", "x"), id="Windows"),
        pytest.param(started("a", "npx", "${X}"), started("b", "npx", "value"), id="resolved"),
        pytest.param(
            started("a", "npx", "${Y:-value}"), started("b", "npx", "${X}"), id="resolved default"
        ),
        pytest.param(
            started("a", "npx", "${file:k}"), started("b", "npx", "${file:k}"), id="same file"
        ),
        pytest.param(started("a", "npx", "${"), started("b", "npx", "${"), id="malformed"),
        pytest.param(
            reached("a", "https://example.com/mcp"),
            reached("b", "HTTPS://Example.com/mcp/"),
            id="url",
        ),
    ],
)
def test_two_ways_to_one_endpoint_are_one_server(
    first: ServerSettings, second: ServerSettings
) -> None:
    own = Settings(servers=(first,))
    rule = Rule(servers=(second.name,), enabled=False)

    merged = merge(own, [SourceResult((second,), (rule,))], EnvironmentResolver({"X": "value"}))

    assert names(merged) == ["a"]
    assert merged.tool_rules == (Rule(servers=("a",), enabled=False),)
    [warning] = merged.warnings
    assert "'a'" in warning.message


def with_env(server: ServerSettings, **env: str) -> ServerSettings:
    assert isinstance(server.transport, StdioTransport)
    return replace(server, transport=replace(server.transport, env=env))


def with_headers(server: ServerSettings, headers: dict[str, str]) -> ServerSettings:
    assert isinstance(server.transport, RemoteTransport)
    return replace(server, transport=replace(server.transport, headers=headers))


@pytest.mark.requirement("CFG-30")
@rows(
    ("first", "second", "expected"),
    [
        pytest.param(
            with_env(started("a", "npx"), T="${X}"),
            with_env(started("b", "npx"), T="value"),
            ["a"],
            id="one value",
        ),
        pytest.param(
            with_env(started("a", "npx"), T="${UNSET}"),
            with_env(started("b", "npx"), T="${UNSET}"),
            ["a"],
            id="one variable without a value",
        ),
        pytest.param(
            with_env(started("a", "npx"), DATABASE="prod"),
            with_env(started("b", "npx"), DATABASE="dev"),
            ["a", "b"],
            id="two databases",
        ),
        pytest.param(
            with_env(started("a", "npx"), T="${UNSET}"),
            with_env(started("b", "npx"), T="${X}"),
            ["a", "b"],
            id="the first lacks a value",
        ),
        pytest.param(
            started("a", "npx"),
            with_env(started("b", "npx"), T="${X}"),
            ["a", "b"],
            id="one has none",
        ),
        pytest.param(
            with_headers(reached("a", "https://a.com"), {"Authorization": "Bearer ${X}"}),
            with_headers(reached("b", "https://a.com"), {"authorization": "Bearer value"}),
            ["a"],
            id="one header",
        ),
        pytest.param(
            with_headers(reached("a", "https://a.com"), {"Authorization": "Bearer work"}),
            with_headers(reached("b", "https://a.com"), {"Authorization": "Bearer home"}),
            ["a", "b"],
            id="two accounts",
        ),
    ],
)
def test_entries_of_one_endpoint_with_other_values_are_other_servers(
    first: ServerSettings, second: ServerSettings, expected: list[str]
) -> None:
    secrets = EnvironmentResolver({"X": "value"})

    assert (
        names(merge(Settings(), [SourceResult((first,)), SourceResult((second,))], secrets))
        == expected
    )
    assert names(merge(Settings(servers=(first,)), [SourceResult((second,))], secrets)) == expected
