from __future__ import annotations

import pytest
from msgspec.structs import replace

from discovery_engine.config.loading.merging import merge
from discovery_engine.config.settings import (
    OWN_SOURCE,
    InputFile,
    RemoteTransport,
    ServerSettings,
    Settings,
    StdioTransport,
)
from discovery_engine.config.sources import SourceResult
from discovery_engine.diagnostics import Origin
from discovery_engine.rules.rule import Rule
from discovery_engine.secrets.resolver import EnvironmentResolver
from discovery_engine.tools.model import ServerName
from tests.factories import make_problem
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


@pytest.mark.requirement("CFG-30", "CFG-32")
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


@pytest.mark.requirement("CFG-37")
def test_a_copy_holds_although_the_server_whose_name_came_first_is_gone() -> None:
    own = replace(started("git@zed", "b", source=OWN_SOURCE), replaces="zed", enabled=False)
    entry = with_env(started("git", "b", source="zed"), T="another")

    assert names(merge(Settings(servers=(own,)), [SourceResult((entry,))], NO_SECRETS)) == [
        own.name
    ]


@pytest.mark.requirement("CFG-37")
@rows(
    ("own", "left"),
    [
        pytest.param(replace(started("git", "mine"), replaces="cursor"), ["git@zed"], id="first"),
        pytest.param(replace(started("git@zed", "x"), replaces="zed"), ["git"], id="renamed"),
        pytest.param(
            replace(started("git", "mine", source="zed"), replaces="zed"),
            ["git@cursor"],
            id="of a later source",
        ),
        pytest.param(started("git", "mine"), ["git@cursor", "git@zed"], id="no copy"),
        pytest.param(
            replace(started("git", "mine"), replaces="cursor", enabled=False),
            ["git@zed"],
            id="switched off",
        ),
    ],
)
def test_an_own_server_takes_the_place_of_what_it_was_copied_from(
    own: ServerSettings, left: list[str]
) -> None:
    own = replace(own, source=OWN_SOURCE)
    sources = [
        SourceResult((started("git", "a"),), (Rule(("x",), servers=("git",), enabled=False),)),
        SourceResult((started("git", "b", source="zed"), started("twin", "a", source="zed"))),
    ]

    merged = merge(Settings(servers=(own,)), sources, NO_SECRETS)

    assert names(merged) == [own.name, *left]
    rules = [rule.servers for rule in merged.tool_rules]
    first = [name for name in left if name in ("git", "git@cursor")]
    assert rules == [(name,) for name in first]


@pytest.mark.requirement("CFG-31")
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


@rows(
    ("first", "second"),
    [
        pytest.param(started("a", "npx", "x"), started("b", "npx", "y"), id="arguments"),
        pytest.param(started("a", "npx", "x y"), started("b", "npx", "x", "y"), id="cut"),
        pytest.param(reached("a", "https://a.com/X"), reached("b", "https://a.com/x"), id="path"),
        pytest.param(replace(started("a"), transport=None), started("b"), id="broken"),
    ],
)
def test_other_endpoints_are_other_servers(first: ServerSettings, second: ServerSettings) -> None:
    merged = merge(Settings(), [SourceResult((first,)), SourceResult((second,))], NO_SECRETS)

    assert names(merged) == ["a", "b"]
    assert merged.warnings == ()


def with_env(server: ServerSettings, **env: str) -> ServerSettings:
    assert isinstance(server.transport, StdioTransport)
    return replace(server, transport=replace(server.transport, env=env))


def with_headers(server: ServerSettings, headers: dict[str, str]) -> ServerSettings:
    assert isinstance(server.transport, RemoteTransport)
    return replace(server, transport=replace(server.transport, headers=headers))


@pytest.mark.requirement("CFG-31")
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


@pytest.mark.requirement("CFG-35")
def test_a_client_that_switched_a_server_off_hides_no_other_clients_entry() -> None:
    off = replace(started("a", "npx"), enabled=False)

    again = replace(started("c", "npx"), enabled=False)
    imports = [
        SourceResult((off,)),
        SourceResult((again,)),
        SourceResult((started("b", "npx"), again)),
    ]

    merged = merge(Settings(), imports, NO_SECRETS)

    assert [(server.name, server.enabled) for server in merged.servers] == [
        ("a", False),
        ("b", True),
    ]


@pytest.mark.requirement("CFG-35")
def test_what_the_owner_switched_off_comes_back_by_no_source() -> None:
    off = replace(started("a", "npx", source="discovery.yaml"), enabled=False)
    own = Settings(servers=(off,))
    entries = (started("b", "npx"), with_env(started("c", "npx"), T="another"))

    merged = merge(own, [SourceResult(entries)], NO_SECRETS)

    assert names(merged) == ["a"]


@pytest.mark.requirement("CFG-31")
def test_what_one_client_keeps_apart_is_kept_apart() -> None:
    imported = SourceResult((started("work", "npx", "x"), started("home", "npx", "x")))

    assert names(merge(Settings(), [imported], NO_SECRETS)) == ["work", "home"]


@pytest.mark.requirement("CFG-33")
def test_rules_of_a_source_come_last_and_follow_their_server() -> None:
    own = Settings(
        servers=(started("git", "own"),),
        tool_rules=(Rule(("*",), enabled=True, origin=Origin("o")),),
    )
    rules = (Rule(("push",), ("git",), enabled=False), Rule(("x",), ("time",), enabled=False))

    merged = merge(own, [SourceResult((started("git", "a"), started("time")), rules)], NO_SECRETS)

    assert [rule.patterns for rule in merged.tool_rules] == [("*",), ("push",), ("x",)]
    assert [rule.servers for rule in merged.tool_rules] == [(), ("git@cursor",), ("time",)]


@pytest.mark.requirement("CFG-34", "CFG-40")
def test_inputs_and_warnings_of_every_source_are_kept() -> None:
    problem = make_problem(Origin("f"), "", "it cannot be read")
    imports = [
        SourceResult(inputs=(InputFile("f", None),), warnings=(problem,)),
        SourceResult((started("time"),), inputs=(InputFile("g", "0"),)),
    ]

    merged = merge(Settings(), imports, NO_SECRETS)

    assert names(merged) == ["time"]
    assert merged.warnings == (problem,)
    assert merged.inputs == (InputFile("f", None), InputFile("g", "0"))
