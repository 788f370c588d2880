from __future__ import annotations

import pytest

from discovery_engine.config.editing.import_plan import ImportCandidate, SkippedServer, import_entry
from discovery_engine.config.settings import (
    OAuthSettings,
    RemoteTransport,
    ServerSettings,
    StdioTransport,
)
from tests.factories import make_server
from tests.rows import rows


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


@pytest.mark.requirement("AUT-3")
def test_the_secret_of_an_oauth_client_becomes_a_reference() -> None:
    oauth = OAuthSettings(client_id="c", client_secret="geheim")
    found = candidate(
        make_server("web", transport=RemoteTransport("https://example.com/mcp", oauth=oauth))
    )

    assert isinstance(found.server.transport, RemoteTransport)
    assert found.server.transport.oauth.client_secret == "${WEB_CLIENT_SECRET}"
    assert found.variables == ("WEB_CLIENT_SECRET",)


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
