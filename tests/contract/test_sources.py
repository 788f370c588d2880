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
from tests.attacks.conftest import Repository
from tests.contract.discovery import Discovery, Finished
from tests.forked import Preloaded
from tests.rows import rows

FIXTURES = Path(__file__).parent / "clients"
CONFIG = {"linux": ".config", "darwin": "Library/Application Support", "windows": "AppData/Roaming"}
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


CONFIGURATION = """
servers:
  own: {command: own-server}
  taken: {command: theirs}
  stays_off: {command: off-server, enabled: false}
sources: [{type: cursor}, {type: vscode}, {type: zed}, {type: custom, path: missing.json}]
toolRules: [{pattern: "x*", enabled: false}]
"""
CURSOR: dict[str, Any] = {
    "taken": {"command": "other"},
    "same": {"command": "own-server"},
    "My Server": {
        "command": "npx",
        "args": ["-y", "a"],
        "env": {"KEY": "${env:TOKEN}", "LEFT": "${workspaceFolder}"},
        "disabledTools": ["b"],
        "autoApprove": ["c"],
    },
    "My/Server": {"command": "slash"},
    "broken": {"command": "npx", "args": "s3cret"},
    "switched_off": {"command": "z", "disabled": True},
    "helper": {"command": "q", "envFile": ".env", "only_for": ["me"]},
    "stays_off_too": {"command": "off-server"},
    "twice": {"command": "cursors"},
}
VSCODE: dict[str, Any] = {
    "inputs": [{"id": "api-key", "description": "k"}],
    "servers": {
        "asks": {"command": "npx", "env": {"KEY": "${input:api-key}"}},
        "twice": {"command": "vscodes"},
    },
}


@dataclass(frozen=True)
class Home:
    discovery: Discovery

    def __call__(self, *words: str) -> Finished:
        return self.discovery(*words, TOKEN="hunter2hunter2")

    @property
    def shown(self) -> Any:
        return self("config", "show", "--json").json["configuration"]

    @property
    def warnings(self) -> str:
        return self("config", "check").out

    def write(self, path: str, content: dict[str, Any] | str) -> None:
        file = self.discovery.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        file.write_text(text, "utf-8")


@pytest.fixture
def home(tmp_path: Any, forked: Preloaded) -> Home:
    made = Home(Discovery(tmp_path, forked))
    made.write("discovery.yaml", CONFIGURATION)
    made.write(".git/HEAD", "")
    made.write(".cursor/mcp.json", {"mcpServers": CURSOR})
    made.write(".vscode/mcp.json", VSCODE)
    made.write(".config/zed/settings.json", {"context_servers": {"own": {"source": "extension"}}})
    return made


@pytest.mark.requirement("SRC-5")
def test_of_two_scopes_the_stronger_counts_and_the_other_is_reported(home: Home) -> None:
    home.write(".cursor/mcp.json", {"mcpServers": {"both": {"command": "projects"}}})
    discovery = home.discovery
    inside = discovery.home / "work"
    inside.mkdir()
    (inside / ".git").mkdir()
    home.write("work/.cursor/mcp.json", {"mcpServers": {"both": {"command": "nearer"}}})

    done = discovery.forked(["config", "show", "--json"], cwd=inside, environ=discovery.environ)

    offered = discovery.forked(
        ["config", "import", "--from", "cursor", "--dry-run"], cwd=inside, environ=discovery.environ
    )
    assert done.json["configuration"]["servers"]["both"]["command"] == "nearer"
    assert f"'both' in {inside}/.cursor/mcp.json counts" in offered.out


@pytest.mark.requirement("CFG-23", "CFG-30", "CFG-35", "SRC-10", "SRC-13", "SRC-17", "SRC-20")
def test_servers_of_clients_are_named_merged_translated_and_warned_about(home: Home) -> None:
    shown, warnings = home.shown, home.warnings
    servers = shown["servers"]

    # The owner's file has its names, and an earlier client goes first.
    commands = {name: entry.get("command") for name, entry in servers.items()}
    assert (commands["taken"], commands["taken@cursor"]) == ("theirs", "other")
    assert (commands["twice"], commands["twice@vscode"]) == ("cursors", "vscodes")
    assert commands["My-Server-2"] == "slash"
    # What is one server is one, and what its owner switched off stays off.
    assert not {"same", "stays_off_too"} & servers.keys()
    assert servers["switched_off"]["enabled"] is servers["stays_off"]["enabled"] is False
    # References and questions of a client become references of ours.
    assert servers["My-Server"]["env"]["KEY"] == "${TOKEN}"
    assert servers["asks"]["env"] == {"KEY": "${INPUT_API_KEY}"}
    # Its lists of tools become rules behind the owner's.
    own, *imported = shown["toolRules"]
    assert own == {"pattern": "x*", "enabled": False}
    assert {"pattern": "b", "server": "My-Server", "enabled": False} in imported
    assert {"pattern": "c", "server": "My-Server", "tags": ["approved-in:cursor"]} in imported
    for warning in (
        "is called 'taken@cursor' here",
        "servers.same: is the same server as 'own', and left out",
        "VS Code asks for 'k' (input 'api-key'): set $INPUT_API_KEY instead",
        "mcpServers.My Server: it is called 'My-Server' here",
        "mcpServers.helper: an envFile is not read",
        "mcpServers.helper: not read: only_for",
        "missing.json: it cannot be read: ",
    ):
        assert warning in warnings


@pytest.mark.requirement("SRC-20", "CFG-23", "CFG-40")
def test_a_broken_entry_is_reported_and_no_value_of_an_entry_is_shown(home: Home) -> None:
    outputs = [home(*words.split()) for words in ("config show", "list", "config sources")]
    outputs.append(home("config", "check"))
    home.write("missing.json", {"mcpServers": {"late": {"command": "late-server"}}})
    listed = {one["name"]: one for one in home("list", "--json").json["servers"]}

    assert listed["broken"]["reason"] == "mcpServers.broken.args: must be a list of texts"
    assert {"My-Server", "late"} < listed.keys()
    text = "".join(done.out + done.err for done in outputs)
    assert not [secret for secret in ("s3cret", "hunter2hunter2") if secret in text]


@pytest.fixture
def project_home(tmp_path: Path, forked: Preloaded) -> Repository:
    place, path = tmp_path / "home", tmp_path / "project"
    place.mkdir()
    path.mkdir()
    return Repository(path, place, forked)


@pytest.mark.requirement("CFG-1")
def test_a_file_that_is_nearly_called_as_the_configuration_is_named(
    project_home: Repository,
) -> None:
    project_home.write("discovery.yml", {"servers": {"one": {"command": "a"}}})

    for words in (["list"], ["config", "check"], ["config", "path"]):
        done = project_home(*words)
        assert "discovery.yml is not read: rename it to discovery.yaml" in done.out + done.err
