"""The same servers, written as each client writes them, are the same servers here."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine import load_settings
from tests.rows import rows

FIXTURES = Path(__file__).parent / "clients"
CONFIG = {
    "linux": ".config",
    "darwin": "Library/Application Support",
    "windows": "AppData/Roaming",
}
XDG = {"linux": ".config", "darwin": ".config", "windows": "AppData/Roaming"}
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


def expected(row: Row) -> list[object]:
    env = {"LOG_LEVEL": "debug", "PORT": "8080"}
    headers = {"X-Team": "tools"}
    if row.env_reference:
        env["FILES_KEY"] = "${FILES_KEY}"
    if row.header_reference:
        headers["Authorization"] = "Bearer ${SEARCH_TOKEN}"
    return [
        ("files", True, "npx", ("-y", "server-files", "/srv/data"), env),
        ("search", True, "https://search.example/mcp", headers, row.kind),
        ("clock", False, "uvx", ("server-clock",), {}),
    ]


def loaded(source: dict[str, str], home: Path) -> tuple[list[object], object]:
    """The servers and the warnings of a configuration that has one source."""
    config = home / "discovery.yaml"
    config.write_text(json.dumps({"sources": [source]}))
    settings = load_settings(config, environ={}, home=home, cwd=home)
    servers: list[object] = []
    for server in settings.servers:
        how: Any = server.transport
        if server.name == "search":
            servers.append((server.name, server.enabled, how.url, dict(how.headers), how.kind))
        else:
            servers.append((server.name, server.enabled, how.command, how.args, dict(how.env)))
    return servers, settings.warnings


@pytest.mark.requirement("SRC-1")
@rows("row", ROWS, ids=lambda row: row.client)
def test_every_client_says_the_same_servers_in_its_own_words(row: Row, tmp_path: Path) -> None:
    path = lay_out(row, "linux", tmp_path)

    found = loaded({"type": row.client}, tmp_path)
    named = loaded({"type": row.client, "path": str(path)}, tmp_path)

    assert found == named == (expected(row), ())


@pytest.mark.requirement("SRC-1")
@rows("fixture", CUSTOM)
def test_a_custom_file_is_read_in_any_of_the_known_shapes(fixture: str, tmp_path: Path) -> None:
    custom = {"type": "custom", "path": str(FIXTURES / fixture)}

    assert loaded(custom, tmp_path) == (expected(Row("custom", fixture, "", "http")), ())


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(["mcpServers", "servers", "command", "args", "env", "url", "tools"])
            | st.text(),
            inner,
        )
    ),
)


@pytest.mark.requirement("SRC-23")
@given(
    content=st.binary() | VALUES.map(lambda value: json.dumps(value).encode()),
    client=st.sampled_from([row.client for row in ROWS]),
    suffix=st.sampled_from(["json", "yaml", "toml", "txt"]),
)
def test_whatever_the_bytes_reading_them_ends_with_a_result(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, client: str, suffix: str
) -> None:
    folder = tmp_path_factory.getbasetemp() / "any"
    folder.mkdir(exist_ok=True)
    file = folder / f"servers.{suffix}"
    file.write_bytes(content)
    config = folder / "discovery.yaml"
    config.write_text(json.dumps({"sources": [{"type": client, "path": str(file)}]}))

    settings = load_settings(config, environ={}, home=folder, cwd=folder)

    assert all(server.name for server in settings.servers)


@pytest.mark.requirement("SRC-30")
def test_the_servers_of_dockers_toolkit_are_started_as_its_catalogue_describes_them(
    tmp_path: Path,
) -> None:
    files = {
        "registry.yaml": "registry: {wiki: {config: {space: team}}}",
        "tools.yaml": "wiki: [read]",
        "catalogs/docker-mcp.yaml": "registry: {wiki: {type: server, image: mcp/wiki, "
        "command: ['--space={{wiki.space}}'], secrets: [{name: wiki.token, env: WIKI_TOKEN}]}}",
    }
    for name, text in files.items():
        file = tmp_path / ".docker/mcp" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    config = tmp_path / "discovery.yaml"
    config.write_text("sources: [{type: docker-mcp}]")

    settings = load_settings(config, environ={}, home=tmp_path, cwd=tmp_path)

    [server] = settings.servers
    how: Any = server.transport
    assert how.args == (
        *("run", "-i", "--rm", "--init", "-e", "WIKI_TOKEN", "mcp/wiki", "--space=team"),
    )
    assert how.env == {"WIKI_TOKEN": "${WIKI_TOKEN}"}
    [rule] = settings.tool_rules
    assert (rule.servers, rule.patterns, rule.enabled) == (("wiki",), ("!read",), False)

    (tmp_path / ".docker/mcp/catalogs/docker-mcp.yaml").unlink()
    [whole] = load_settings(config, environ={}, home=tmp_path, cwd=tmp_path).servers
    how = whole.transport
    assert (how.command, how.args) == ("docker", ("mcp", "gateway", "run"))
