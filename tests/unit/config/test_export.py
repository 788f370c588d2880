"""Servers written as the file of a client are the same servers when that file is read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.config.openapi_entry import openapi_transport, skills_transport
from discovery_engine.config.settings import RemoteTransport, ServerSettings, Source, StdioTransport
from discovery_engine.config.sources import read_source
from discovery_engine.engine.owner.server_export import EXPORT_CLIENTS, export_servers
from discovery_engine.tools.model import ServerName
from tests.rows import rows

WORDS = st.sampled_from(["a", "--port=1", "it's", 'say "x"', "C:\\x", "ü", "# no", "a, b", "-y"])
ENV = st.dictionaries(st.sampled_from(["LANG", "MODE"]), WORDS, max_size=2)
TRANSPORTS = st.one_of(
    st.builds(StdioTransport, st.sampled_from(["npx", "/opt/x y"]), st.tuples(WORDS, WORDS), ENV),
    st.builds(
        RemoteTransport,
        st.just("https://example.com/mcp"),
        st.dictionaries(st.sampled_from(["X-Team", "X-Mode"]), st.just("v1"), max_size=2),
        st.sampled_from(["http", "sse"]),
    ),
)
SERVERS = st.lists(
    st.builds(
        ServerSettings, st.sampled_from(["one", "two.x", "three-3"]).map(ServerName), TRANSPORTS
    ),
    unique_by=lambda server: server.name,
    max_size=3,
)


def spoken(server: ServerSettings) -> Any:
    match server.transport:
        case StdioTransport(command, args, env):
            return server.name, command, args, dict(env)
        case RemoteTransport(url, headers):
            return server.name, url, dict(headers)


CLIENTS = [client for client in EXPORT_CLIENTS if client != "discovery"]
EXAMPLE = [
    ServerSettings(ServerName("one"), StdioTransport("npx", ("-y", "C:\\x"), {"LANG": "ü"})),
    ServerSettings(ServerName("two.x"), RemoteTransport("https://a.example/mcp", {"X-Team": "v1"})),
]


def check(servers: list[ServerSettings], client: str, folder: Path) -> None:
    exported = export_servers(servers, client)
    path = folder / f"servers.{exported.format}"
    path.write_text(exported.text, "utf-8")

    read = read_source(
        Source(client, str(path)), environ={}, home=folder, cwd=folder, platform=sys.platform
    )

    assert list(map(spoken, read.servers)) == list(map(spoken, servers))
    assert not [warning for warning in read.warnings if warning.code != "SOURCE_EMPTY"]


@pytest.mark.requirement("SRC-31")
@rows("client", CLIENTS)
def test_every_client_can_be_given_servers(client: str, tmp_path: Path) -> None:
    check(EXAMPLE, client, tmp_path)


@pytest.mark.requirement("SRC-31")
@rows("client", EXPORT_CLIENTS)
def test_no_export_has_the_python_of_this_machine(client: str) -> None:
    service = openapi_transport("https://pets.example/openapi.json", "", {})
    servers = [
        ServerSettings(ServerName("pets"), service),
        ServerSettings(ServerName("handbook"), skills_transport("skills")),
    ]

    exported = export_servers(servers, client).text

    assert sys.prefix not in exported
    assert "https://pets.example/openapi.json" in exported
    assert exported.count("mcp-discovery-engine[openapi]") == (0 if client == "discovery" else 2)


@pytest.mark.requirement("SRC-31")
@given(servers=SERVERS, client=st.sampled_from(CLIENTS))
def test_an_export_that_is_imported_has_the_same_servers(
    tmp_path_factory: pytest.TempPathFactory, servers: list[ServerSettings], client: str
) -> None:
    folder = tmp_path_factory.getbasetemp() / "exports"
    folder.mkdir(exist_ok=True)
    check(servers, client, folder)
