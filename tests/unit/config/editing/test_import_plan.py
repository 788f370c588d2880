from __future__ import annotations

import pytest

from discovery_engine.config.editing.import_entries import (
    ImportCandidate,
    SkippedServer,
    import_entry,
)
from discovery_engine.config.editing.import_plan import plan_import
from discovery_engine.config.settings import (
    OAuthSettings,
    RemoteTransport,
    ServerSettings,
    Settings,
    StdioTransport,
)
from discovery_engine.config.sources import SourceResult
from discovery_engine.diagnostics import Origin
from discovery_engine.rules.rule import Rule
from discovery_engine.secrets.references import references
from discovery_engine.secrets.resolver import EnvironmentResolver
from discovery_engine.tools.model import ServerName
from tests.factories import (
    make_problem,
    make_server,
)
from tests.rows import rows

NO_SECRETS = EnvironmentResolver({})


def stdio(name: str = "git", **fields: object) -> ServerSettings:
    return make_server(name, transport=StdioTransport("git-server", **fields))


def remote(url: str = "https://example.com/mcp", **headers: str) -> ServerSettings:
    return make_server("web", transport=RemoteTransport(url, headers))


def candidate(server: ServerSettings) -> ImportCandidate:
    taken = import_entry(server)
    assert isinstance(taken, ImportCandidate)
    return taken


@rows(
    ("name", "value", "written"),
    [
        pytest.param("API_TOKEN", "abc", "${API_TOKEN}", id="by its name"),
        pytest.param("MODE", "ghp_0123456789abcdef", "${MODE}", id="by its look"),
        pytest.param("MODE", "fast", "fast", id="no secret"),
        pytest.param("API_TOKEN", "${MY_TOKEN}", "${MY_TOKEN}", id="a reference already"),
        pytest.param("API_TOKEN", "", "", id="empty"),
        pytest.param("API_TOKEN", "${", "${API_TOKEN}", id="half a reference"),
    ],
)
def test_a_secret_in_a_variable_becomes_a_reference(name: str, value: str, written: str) -> None:
    taken = candidate(stdio(env={name: value}))

    assert taken.server.transport == StdioTransport("git-server", env={name: written})
    assert taken.variables == ((name,) if written != value else ())


@pytest.mark.requirement("CLI-22", "AUT-9")
def test_the_secret_of_an_oauth_client_becomes_a_reference() -> None:
    oauth = OAuthSettings(client_id="c", client_secret="geheim")
    found = candidate(
        make_server("web", transport=RemoteTransport("https://example.com/mcp", oauth=oauth))
    )

    assert isinstance(found.server.transport, RemoteTransport)
    assert found.server.transport.oauth.client_secret == "${WEB_CLIENT_SECRET}"
    assert found.variables == ("WEB_CLIENT_SECRET",)


@pytest.mark.requirement("CLI-22")
@rows(
    ("server", "variable"),
    [
        pytest.param(stdio(env={"my.api-key": "abc"}), "MY_API_KEY", id="signs in a variable"),
        pytest.param(stdio(env={"1KEY": "abc"}), "_1KEY", id="a variable that begins with a digit"),
        pytest.param(
            make_server(
                "3d", transport=RemoteTransport("https://x", {"Authorization": "Bearer a"})
            ),
            "_3D_TOKEN",
            id="a server that begins with a digit",
        ),
    ],
)
def test_a_reference_that_takes_the_place_of_a_secret_can_be_read(
    server: ServerSettings, variable: str
) -> None:
    taken = candidate(server)
    transport = taken.server.transport
    [text] = (
        transport.env if isinstance(transport, StdioTransport) else transport.headers
    ).values()

    assert [reference.name for reference in references(text)] == [variable]
    assert taken.variables == (variable,)


@rows(
    ("header", "value", "written"),
    [
        pytest.param("Authorization", "Bearer abc", "Bearer ${WEB_TOKEN}", id="bearer"),
        pytest.param("X-Api-Key", "abc", "${WEB_X_API_KEY}", id="key"),
        pytest.param("X-Mode", "fast", "fast", id="no secret"),
    ],
)
def test_a_secret_in_a_header_becomes_a_reference(header: str, value: str, written: str) -> None:
    taken = candidate(remote(**{header: value}))

    assert taken.server.transport == RemoteTransport("https://example.com/mcp", {header: written})


@rows(
    "server",
    [
        pytest.param(stdio(args=("--api-key", "abc")), id="argument"),
        pytest.param(remote("https://example.com/mcp?key=abc"), id="address"),
    ],
)
def test_a_secret_that_cannot_be_taken_out_keeps_the_server_out(server: ServerSettings) -> None:
    left = import_entry(server)

    assert isinstance(left, SkippedServer)
    assert left.is_secret


def test_a_broken_entry_is_left_out_with_its_reason() -> None:
    problem = make_problem(Origin("f"), "", "has no command")
    broken = make_server("a", transport=None, problem=problem)

    assert import_entry(broken) == SkippedServer("a", "has no command")
    assert isinstance(import_entry(make_server("a", transport=None)), SkippedServer)


def test_a_server_is_taken_once_and_a_name_is_made_free() -> None:
    other = make_server("GIT", transport=StdioTransport("other-server"))
    found = [
        ("cursor", SourceResult(servers=(stdio(), remote()))),
        ("zed", SourceResult(servers=(stdio("again"), other))),
    ]

    plan = plan_import(found, Settings(), only=(), secrets=NO_SECRETS)

    assert [one.server.name for one in plan.servers] == ["git", "web", "GIT@zed"]
    assert plan.skipped == [
        SkippedServer("again", "it is there already, as 'git'", is_problem=False)
    ]


def test_a_name_is_made_free_even_if_the_next_one_is_taken_as_well() -> None:
    existing = [
        remote("https://one"),
        make_server("web@zed", transport=RemoteTransport("https://2")),
    ]

    plan = plan_import(
        [("zed", SourceResult(servers=(remote(),)))],
        Settings(servers=tuple(existing)),
        only=(),
        secrets=NO_SECRETS,
    )

    assert [one.server.name for one in plan.servers] == ["web@zed-2"]


def test_rules_follow_the_servers_that_are_taken() -> None:
    rules = (Rule(("a",), servers=("git",)), Rule(("b",), servers=("web",)))
    imported = SourceResult(
        servers=(stdio(), remote()), tool_rules=rules, skipped=(("odd", "no name"),)
    )
    existing = Settings(servers=(make_server("git", transport=StdioTransport("mine")),))

    plan = plan_import([("zed", imported)], existing, only=("git",), secrets=NO_SECRETS)

    assert [one.server.name for one in plan.servers] == [ServerName("git@zed")]
    assert plan.rules == [Rule(("a",), servers=("git@zed",))]
    assert SkippedServer("odd", "no name") in plan.skipped
