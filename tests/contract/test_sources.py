"""The same servers, written as each client writes them, are the same servers here."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace

from discovery_engine.config.settings import (
    RemoteTransport,
    ServerSettings,
    Source,
    StdioTransport,
    Timeouts,
)
from discovery_engine.config.sources import (
    SOURCE_TYPES,
    client_files,
    read_source,
    source_of_file,
)
from discovery_engine.config.sources.source_result import SourceResult
from discovery_engine.diagnostics import Origin
from discovery_engine.tools.model import ServerName

FIXTURES = Path(__file__).parent / "clients"
CONFIG = {
    "linux": ".config",
    "darwin": "Library/Application Support",
    "windows": "AppData/Roaming",
}
XDG = {"linux": ".config", "darwin": ".config", "windows": "AppData/Roaming"}
ENVIRON = {"linux": {}, "darwin": {}, "windows": {"APPDATA": "AppData/Roaming"}}
Kind = Literal["auto", "http"]


@dataclass(frozen=True)
class Row:
    """A client, a fixture, and where its file is by the client's own documentation."""

    client: str
    fixture: str
    path: str
    kind: Kind = "auto"
    """What the fixture says of the remote server's transport."""
    env_reference: bool = True
    """Whether the client has a way to refer to a variable in `env`."""
    header_reference: bool = True


def plain(client: str, path: str, fixture: str = "plain.json") -> Row:
    return Row(client, fixture, path, env_reference=False, header_reference=False)


STORAGE = "{app}/Code/User/globalStorage"
ROWS = [
    plain("claude-desktop", "{app}/Claude/claude_desktop_config.json"),
    Row("claude-code", "claude-code.json", ".claude.json", "http"),
    Row("cursor", "cursor.json", ".cursor/mcp.json"),
    Row("vscode", "vscode.json", "{app}/Code/User/mcp.json", "http"),
    Row("windsurf", "windsurf.json", ".codeium/windsurf/mcp_config.json"),
    Row("codex", "codex.toml", ".codex/config.toml"),
    Row("gemini-cli", "gemini-cli.json", ".gemini/settings.json", "http"),
    plain("zed", "{xdg}/{Zed}/settings.json", "zed.json"),
    Row("opencode", "opencode.jsonc", "{opencode}/opencode/opencode.jsonc"),
    Row(
        "cline",
        "cline.json",
        f"{STORAGE}/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        "http",
    ),
    Row("continue", "continue.yaml", ".continue/config.yaml", "http"),
    Row("goose", "goose.yaml", "{goose}/config.yaml", "http", header_reference=False),
    Row(
        "roo",
        "env.json",
        f"{STORAGE}/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
        "http",
    ),
    Row("kilo", "env.json", f"{STORAGE}/kilocode.kilo-code/settings/mcp_settings.json", "http"),
    Row("kiro", "brace.json", ".kiro/settings/mcp.json", "http"),
    Row("copilot-cli", "brace.json", ".copilot/mcp-config.json", "http"),
    Row("lm-studio", "env.json", ".lmstudio/mcp.json", "http"),
    plain("amazon-q", ".aws/amazonq/mcp.json"),
    plain("antigravity", ".gemini/antigravity/mcp_config.json", "antigravity.json"),
    plain("junie", ".junie/mcp/mcp.json"),
    Row("crush", "crush.json", "{xdg}/crush/crush.json", "http"),
    Row("amp", "amp.json", "{xdg}/amp/settings.json", "http"),
    plain("trae", "{app}/Trae/User/mcp.json"),
    plain("factory", ".factory/mcp.json"),
    plain("kimi", ".kimi/mcp.json"),
    plain("qoder", ".qoder/mcp.json"),
    Row("mistral-vibe", "mistral-vibe.toml", ".vibe/config.toml", "http", env_reference=False),
    plain("mcp-inspector", ".mcp-inspector/mcp.json"),
    Row("mcporter", "mcporter.json", ".mcporter/mcporter.json"),
    Row(
        "mcpproxy",
        "mcpproxy.json",
        ".mcpproxy/mcp_config.json",
        "http",
        env_reference=False,
        header_reference=False,
    ),
]
CUSTOM = ["brace.json", "custom-bare.json", "custom-list.json", "custom-unnamed", "custom.toml"]
WITHOUT_A_FIXTURE = {"custom", "docker-mcp", "docker-mcp-gateway", "cherry-studio"}

by_client = pytest.mark.parametrize("row", [pytest.param(row, id=row.client) for row in ROWS])
by_layout = pytest.mark.parametrize("layout", ["linux", "darwin", "windows"])


def expected(row: Row) -> list[ServerSettings]:
    env = {"LOG_LEVEL": "debug", "PORT": "8080"}
    headers = {"X-Team": "tools"}
    if row.env_reference:
        env["FILES_KEY"] = "${FILES_KEY}"
    if row.header_reference:
        headers["Authorization"] = "Bearer ${SEARCH_TOKEN}"
    files = StdioTransport("npx", ("-y", "server-files", "/srv/data"), env)
    search = RemoteTransport("https://search.example/mcp", headers, row.kind)
    return [
        ServerSettings(ServerName("files"), files),
        ServerSettings(ServerName("search"), search),
        ServerSettings(
            ServerName("clock"), StdioTransport("uvx", ("server-clock",)), enabled=False
        ),
    ]


def servers(imported: SourceResult) -> list[ServerSettings]:
    return [
        replace(server, origin=Origin(""), source="discovery.yaml") for server in imported.servers
    ]


def lay_out(row: Row, layout: str, home: Path) -> Path:
    goose = {"windows": "AppData/Roaming/Block/goose/config"}.get(layout, ".config/goose")
    relative = row.path.format(
        app=CONFIG[layout],
        xdg=XDG[layout],
        opencode=".config",
        goose=goose,
        Zed="Zed" if layout == "windows" else "zed",
    )
    path = home / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(FIXTURES / row.fixture, path)
    return path


def environ(layout: str, home: Path) -> dict[str, str]:
    return {name: str(home / folder) for name, folder in ENVIRON[layout].items()}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.mark.requirement("SRC-1", "SRC-2")
@by_layout
@by_client
def test_every_client_says_the_same_servers_in_its_own_words(
    row: Row, layout: str, home: Path, cwd: Path
) -> None:
    path = lay_out(row, layout, home)

    imported = read_source(
        Source(row.client), environ=environ(layout, home), home=home, cwd=cwd, platform=layout
    )

    assert servers(imported) == expected(row)
    assert {server.origin.file for server in imported.servers} == {str(path)}
    assert {server.source for server in imported.servers} == {row.client}
    assert imported.warnings == ()
    assert imported.tool_rules == ()


@pytest.mark.requirement("SRC-3")
@by_layout
@by_client
def test_a_client_file_is_found_without_opening_it(
    row: Row, layout: str, home: Path, cwd: Path
) -> None:
    path = lay_out(row, layout, home)
    path.write_bytes(b"\0 no file of any client")

    found = client_files(environ=environ(layout, home), home=home, cwd=cwd, platform=layout)

    assert [(file.client, file.path, file.scope) for file in found] == [
        (row.client, str(path), "user")
    ]


@pytest.mark.requirement("SRC-4")
@pytest.mark.parametrize("fixture", CUSTOM)
def test_a_custom_file_is_read_in_any_of_the_known_shapes(
    fixture: str, home: Path, cwd: Path
) -> None:
    path = FIXTURES / fixture

    imported = read_source(
        Source("custom", str(path)), environ={}, home=home, cwd=cwd, platform="linux"
    )

    assert servers(imported) == expected(Row("custom", fixture, "", "http"))


@pytest.mark.requirement("SRC-4")
@by_client
def test_a_file_named_by_its_path_is_read_as_its_client_would(
    row: Row, home: Path, cwd: Path
) -> None:
    shutil.copy(FIXTURES / row.fixture, cwd / row.fixture)

    imported = read_source(
        Source(row.client, row.fixture), environ={}, home=home, cwd=cwd, platform="linux"
    )

    assert servers(imported) == expected(row)


@pytest.mark.requirement("SRC-7")
def test_a_copy_of_a_clients_file_is_recognized_by_the_end_of_its_path(
    home: Path, tmp_path: Path
) -> None:
    wrong = {}
    for row in ROWS:
        path = lay_out(row, "linux", tmp_path / "copies" / row.client)
        source = source_of_file(path, environ={}, home=home, cwd=tmp_path, platform="linux")
        if source != Source(row.client, str(path)):
            wrong[row.client] = source

    assert not wrong


def test_every_client_of_the_table_has_a_fixture() -> None:
    assert {row.client for row in ROWS} | WITHOUT_A_FIXTURE == set(SOURCE_TYPES)


def test_timeouts_and_other_fields_are_at_their_defaults(home: Path, cwd: Path) -> None:
    lay_out(ROWS[2], "linux", home)

    [server, *_] = read_source(
        Source("cursor"), environ={}, home=home, cwd=cwd, platform="linux"
    ).servers

    assert server.timeouts == Timeouts()
    assert server.problem is None
