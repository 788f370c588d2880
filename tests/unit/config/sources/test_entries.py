from __future__ import annotations

from typing import Any

import pytest

from discovery_engine.config.settings import (
    OAuthSettings,
    RemoteTransport,
    ServerSettings,
    StdioTransport,
)
from discovery_engine.config.sources.client_table import load_table
from discovery_engine.config.sources.entries import EntryReader
from discovery_engine.config.sources.variables import VariableSyntax
from discovery_engine.errors import Origin
from discovery_engine.tools.model import ServerName
from tests.rows import rows

URL = "https://a.example/mcp"


def read(entry: object, client: str = "custom") -> ServerSettings:
    row = load_table().clients[client]
    reader = EntryReader(
        row, Origin("file"), "mcpServers", VariableSyntax(row.label, row.variables)
    )
    return reader.read(ServerName("a"), entry, key="a").server


@rows(
    ("entry", "oauth"),
    [
        pytest.param(
            {"oauth": {"clientId": "c", "callbackPort": 8765, "authServerMetadataUrl": URL}},
            OAuthSettings(
                client_id="c",
                auth_server_metadata_url=URL,
                redirect_uri="http://localhost:8765/callback",
            ),
            id="as Claude Code writes it",
        ),
        pytest.param(
            {"oauth": {"enabled": True, "clientId": "c", "clientSecret": "s", "scopes": ["a"]}},
            OAuthSettings(client_id="c", client_secret="s", scopes=("a",)),
            id="as Gemini CLI writes it",
        ),
        pytest.param(
            {"oauth": {"clientId": "c", "scope": "a b a"}},
            OAuthSettings(client_id="c", scopes=("a", "b")),
            id="as opencode writes it",
        ),
        pytest.param(
            {"auth": {"CLIENT_ID": "c", "CLIENT_SECRET": "s", "scopes": ["a", "b"]}},
            OAuthSettings(client_id="c", client_secret="s", scopes=("a", "b")),
            id="as Cursor writes it",
        ),
        pytest.param({"oauth": False}, OAuthSettings(), id="switched off"),
        pytest.param(
            {"oauth": {"clientSecret": "s"}}, OAuthSettings(), id="a secret without a client"
        ),
        pytest.param(
            {"oauth": {"redirectUri": "https://evil.example/x", "authServerMetadataUrl": "x"}},
            OAuthSettings(),
            id="addresses that cannot be used",
        ),
        pytest.param(
            {"headers": {"authorization": "x"}, "oauth": {"clientId": "c"}},
            OAuthSettings(),
            id="beside a header that logs in",
        ),
    ],
)
@pytest.mark.requirement("AUT-3")
def test_the_oauth_of_other_clients_is_kept(entry: Any, oauth: OAuthSettings) -> None:
    transport = read({"url": URL, **entry}).transport

    assert isinstance(transport, RemoteTransport)
    assert transport.oauth == oauth


@rows(
    ("entry", "transport"),
    [
        pytest.param({"command": "x"}, StdioTransport("x"), id="command"),
        pytest.param(
            {"command": "x -y 'a b'"}, StdioTransport("x", ("-y", "a b")), id="command-line"
        ),
        pytest.param({"command": "x y", "args": []}, StdioTransport("x y"), id="blank"),
        pytest.param(
            {"command": ["x", "y"], "args": ["z"]},
            StdioTransport("x", ("y", "z")),
            id="command-list",
        ),
        pytest.param(
            {"command": {"path": "x", "args": ["y"], "env": {"A": "b"}}, "env": {"C": 1}},
            StdioTransport("x", ("y",), {"A": "b", "C": "1"}),
            id="command-map",
        ),
        pytest.param(
            {"type": "LOCAL", "command": "x", "cwd": "/y"},
            StdioTransport("x", cwd="/y"),
            id="local",
        ),
        pytest.param(
            {"command": "x", "env": {"A": True, "B": None}},
            StdioTransport("x", (), {"A": "true"}),
            id="flag-in-env",
        ),
        pytest.param(
            {"connection": {"type": "stdio", "command": "x", "args": ["y"]}, "description": "d"},
            StdioTransport("x", ("y",)),
            id="connection",
        ),
        pytest.param(
            {"command": "x", "env_vars": ["A", "MY-B", {"name": "C"}, {}, 1]},
            StdioTransport("x", (), {"A": "${A}", "C": "${C}"}),
            id="forwarded-variables",
        ),
        pytest.param({"url": URL}, RemoteTransport(URL), id="url"),
        pytest.param({"httpUrl": URL}, RemoteTransport(URL, kind="http"), id="http-url"),
        pytest.param(
            {"url": URL, "type": "streamable_http"}, RemoteTransport(URL, kind="http"), id="http"
        ),
        pytest.param({"url": URL, "transport": "sse"}, RemoteTransport(URL, kind="sse"), id="sse"),
        pytest.param(
            {"url": URL, "command": "x", "type": "remote"}, RemoteTransport(URL), id="remote"
        ),
        pytest.param({"url": URL, "command": "x"}, StdioTransport("x"), id="command-before-url"),
        pytest.param(
            {"transport": {"type": "sse", "url": URL}},
            RemoteTransport(URL, kind="sse"),
            id="nested",
        ),
        pytest.param(
            {"url": "${BASE:-https://a}/mcp"},
            RemoteTransport("${BASE:-https://a}/mcp"),
            id="reference",
        ),
    ],
)
def test_an_entry_says_how_its_server_is_reached(entry: object, transport: object) -> None:
    server = read(entry)

    assert server.problem is None
    assert server.transport == transport


@pytest.mark.requirement("SRC-20")
@rows(
    ("entry", "path", "message"),
    [
        pytest.param("x", "", "must be a map that describes a server", id="text"),
        pytest.param({}, "", "it has no command or url", id="empty"),
        pytest.param({"type": "http"}, "", "it has no url", id="no-url"),
        pytest.param({"type": "stdio", "url": URL}, "", "it has no command", id="no-command"),
        pytest.param(
            {"type": "carrier-pigeon"},
            "type",
            "no such transport: 'carrier-pigeon'",
            id="transport",
        ),
        pytest.param({"type": ["http"]}, "type", "must be text", id="transport-list"),
        pytest.param({"command": ""}, "command", "must name a program", id="no-program"),
        pytest.param({"command": []}, "command", "must name a program", id="no-program-in-list"),
        pytest.param({"command": {}}, "command", "must name a program", id="no-program-in-map"),
        pytest.param(
            {"command": "a\0b"},
            "command",
            "holds characters that no program can be given",
            id="nul",
        ),
        pytest.param(
            {"command": "\ud800"},
            "command",
            "holds characters that no program can be given",
            id="surrogate",
        ),
        pytest.param({"command": "x", "args": [{}]}, "args.0", "must be text", id="argument"),
        pytest.param(
            {"command": "x", "env": ["A=b"]}, "env", "must be a map of texts", id="env-list"
        ),
        pytest.param({"command": "x", "env": {"A": []}}, "env.A", "must be text", id="env-value"),
        pytest.param(
            {"command": "x", "env": {"A=": ""}},
            "env",
            "must be a map from names of variables",
            id="env-name",
        ),
        pytest.param(
            {"url": "ftp://a"}, "url", "must be an address, http://… or https://…", id="scheme"
        ),
        pytest.param(
            {"url": "http://256.256.256.256"},
            "url",
            "must be an address, http://… or https://…",
            id="four-numbers",
        ),
        pytest.param(
            {"url": URL, "headers": {"a b": "c"}},
            "headers",
            "must be a map from names of headers",
            id="header",
        ),
        pytest.param(
            {"url": URL, "headers": {"a": "b\r\nc: d"}},
            "headers.a",
            "must be on one line",
            id="header-lines",
        ),
        pytest.param(
            {"command": "x", "disabledTools": 1},
            "disabledTools",
            "must be a list of texts",
            id="tools",
        ),
        pytest.param(
            {"command": "x", "disabledTools": ["t" * 201]},
            "disabledTools",
            "the name of a tool has more than 200 characters",
            id="long-tool",
        ),
    ],
)
def test_a_problem_names_the_field(entry: object, path: str, message: str) -> None:
    problem = read(entry).problem

    assert problem is not None
    assert problem.subject == ".".join(filter(None, ("mcpServers.a", path)))
    assert problem.message == message
