"""Servers exported as other clients write them: specs/api.md."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine._util.json import JSONObject
from discovery_engine.config.settings import (
    RemoteTransport,
    ServerSettings,
    Source,
    StdioTransport,
)
from discovery_engine.config.sources import read_source
from discovery_engine.owner.server_export import ExportClient, export_server
from discovery_engine.tools.model import ServerName
from tests.api_server import served
from tests.engines import Folder, good
from tests.rows import rows

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("API-25")]

CLIENTS: tuple[ExportClient, ...] = get_args(ExportClient)
SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
LOCAL = StdioTransport(
    "npx",
    ("-y", "@acme/mail@1.2.3", "--token", SECRET),
    {"TOKEN": "${TOKEN}", "API_KEY": SECRET, "LEVEL": "debug", "KEPT": "${secret:mail/KEPT}"},
)
REMOTE = RemoteTransport(
    "https://mail.example.com/mcp",
    {"Authorization": "Bearer ${MAIL_TOKEN}", "X-Team": "blue", "X-Api-Key": SECRET},
)
FILES: dict[ExportClient, str] = {
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "claude-code": ".claude.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
    "codex": ".codex/config.toml",
    "gemini-cli": ".gemini/settings.json",
}

words = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="$%"), min_size=1, max_size=6
)
names = st.from_regex(r"[A-Z][A-Z_]{0,5}", fullmatch=True)


def server(transport: StdioTransport | RemoteTransport) -> ServerSettings:
    return ServerSettings(ServerName("mail"), transport)


def read_back(home: Path, client: ExportClient, text: str) -> ServerSettings:
    """The server as the reader of the client's own file reads what was exported."""
    file = home / FILES[client]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    [found] = read_source(
        Source(client), environ={}, home=home, cwd=home / "elsewhere", platform="linux"
    ).servers
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("client", FILES)
@given(
    args=st.lists(words.filter(str.strip), max_size=3).map(tuple),
    env=st.dictionaries(names, st.sampled_from(["a", "debug", "8080", "/srv/data"]), max_size=2),
)
def test_what_is_exported_is_the_same_server_to_the_reader_of_the_client(
    tmp_path_factory: pytest.TempPathFactory,
    client: ExportClient,
    args: tuple[str, ...],
    env: dict[str, str],
) -> None:
    local = StdioTransport("/usr/bin/mail", args, env)
    exported = export_server(server(local), client)
    if exported.values:  # a word that looks like a secret
        return

    found = read_back(tmp_path_factory.mktemp("home"), client, exported.text)

    assert found.name == "mail"
    assert found.transport == local


@rows("client", CLIENTS)
@rows("transport", [LOCAL, REMOTE], ids=["local", "remote"])
def test_no_value_of_a_secret_is_exported_and_what_is_needed_is_named(
    client: ExportClient, transport: StdioTransport | RemoteTransport
) -> None:
    exported = export_server(server(transport), client)

    assert SECRET not in f"{exported}"
    wanted = {"TOKEN", "KEPT"} if transport is LOCAL else {"MAIL_TOKEN", "X-Api-Key"}
    assert wanted <= set(exported.values)


def test_references_are_written_as_the_client_writes_them() -> None:
    def entry(client: ExportClient) -> JSONObject:
        text = export_server(server(LOCAL), client).text
        document = tomllib.loads(text) if client == "codex" else json.loads(text)
        [[found]] = [section.values() for section in document.values()]
        return found

    assert entry("claude-code")["env"]["TOKEN"] == "${TOKEN}"
    assert entry("cursor")["env"]["TOKEN"] == "${env:TOKEN}"
    assert entry("claude-desktop")["env"]["TOKEN"] == "<TOKEN>"
    assert entry("codex")["env_vars"] == ["TOKEN"]
    assert entry("vscode")["type"] == "stdio"
    assert entry("codex")["args"][:2] == ["-y", "@acme/mail@1.2.3"]
    remote = tomllib.loads(export_server(server(REMOTE), "codex").text)["mcp_servers"]["mail"]
    assert remote["bearer_token_env_var"] == "MAIL_TOKEN"


async def test_a_server_is_exported_over_the_api(folder: Folder) -> None:
    async with served(folder) as api:
        exported = await api.get("/servers/good/export", client="vscode")
        unknown = await api.ask("/servers/good/export?client=nothing")
        nobody = await api.ask("/servers/nobody/export?client=cursor")
        exports = [await api.get("/servers/good/export", client=one) for one in CLIENTS]

    transport = good().transport
    assert isinstance(transport, StdioTransport)
    assert json.loads(exported["text"])["servers"]["good"]["command"] == transport.command
    assert (exported["label"], exported["format"]) == ("VS Code", "json")
    assert (unknown.status_code, nobody.status_code) == (422, 404)
    assert all(one["text"] for one in exports)
