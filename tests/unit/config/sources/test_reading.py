from __future__ import annotations

import json
from typing import Any

import pytest

from discovery_engine.config.settings import RemoteTransport, StdioTransport
from discovery_engine.config.sources import client_files
from discovery_engine.config.sources.source_reader import normalized_name
from discovery_engine.config.sources.source_result import SourceResult
from discovery_engine.rules.rule import Verdict
from discovery_engine.rules.ruleset import ToolRules
from tests.factories import make_tool
from tests.rows import rows
from tests.unit.config.sources.conftest import Machine

NPX = {"command": "npx", "args": ["-y", "a-server"]}


def servers_file(**entries: Any) -> str:
    return json.dumps({"mcpServers": entries})


def transports(imported: SourceResult) -> dict[str, StdioTransport | RemoteTransport | None]:
    return {str(server.name): server.transport for server in imported.servers}


def enabled(imported: SourceResult) -> dict[str, bool]:
    return {str(server.name): server.enabled for server in imported.servers}


def enabled_tools(imported: SourceResult, server: str, *names: str) -> list[str]:
    tools = [make_tool(name, server) for name in names]
    verdicts = ToolRules(imported.tool_rules).verdicts(tools, Verdict())
    return [tool.name for tool, verdict in zip(tools, verdicts, strict=True) if verdict.enabled]


def warnings(imported: SourceResult) -> list[tuple[str, str]]:
    return [(problem.subject, problem.message) for problem in imported.warnings]


# Scopes, and where files are looked for


@pytest.mark.requirement("SRC-5")
def test_the_scopes_of_claude_code_are_read_and_the_stronger_one_counts(machine: Machine) -> None:
    machine.platform, machine.environ = "windows", {"PROGRAMFILES": str(machine.cwd / "programs")}
    own = {
        "mcpServers": {"everywhere": {"command": "user"}, "shared": {"command": "user"}},
        "projects": {
            str(machine.cwd): {
                "mcpServers": {"here": {"command": "local"}, "shared": {"command": "local"}}
            }
        },
    }
    machine.write(
        {
            "~/.claude.json": json.dumps(own),
            ".mcp.json": servers_file(shared={"command": "project"}, team={"command": "project"}),
            "programs/ClaudeCode/managed-mcp.json": servers_file(here={"command": "managed"}),
        }
    )

    imported = machine.read("claude-code")

    commands = {name: t.command for name, t in transports(imported).items() if t}  # type: ignore[union-attr]
    assert commands == {
        "here": "managed",
        "shared": "local",
        "team": "project",
        "everywhere": "user",
    }
    assert [name for name, _ in imported.skipped] == ["here", "shared", "shared"]


@pytest.mark.requirement("SRC-1")
@pytest.mark.parametrize(
    ("client", "variable", "file"),
    [
        pytest.param("claude-code", "CLAUDE_CONFIG_DIR", ".claude.json", id="claude-code"),
        pytest.param("codex", "CODEX_HOME", "config.toml", id="codex"),
        pytest.param("vscode", "XDG_CONFIG_HOME", "Code/User/mcp.json", id="vscode"),
        pytest.param(
            "claude-desktop", "XDG_CONFIG_HOME", "Claude/claude_desktop_config.json", id="desktop"
        ),
    ],
)
def test_a_client_is_followed_to_the_folder_that_its_variable_names(
    client: str, variable: str, file: str, machine: Machine
) -> None:
    machine.write({f"elsewhere/{file}": "{}"})
    machine.environ = {variable: str(machine.cwd / "elsewhere")}

    found = client_files(
        environ=machine.environ, home=machine.home, cwd=machine.cwd, platform="linux"
    )

    assert (client, str(machine.cwd / "elsewhere" / file)) in [(f.client, f.path) for f in found]


# Missing and broken files


@pytest.mark.requirement("SRC-20")
@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        pytest.param("a.json", '{\n  "mcpServers": {1}\n}', (2, 18), id="json"),
        pytest.param("a.jsonc", '{\n  // yes\n  "a" 1\n}', (3, 7), id="jsonc"),
        pytest.param("a.toml", "[a]\nb = \n", (2, 5), id="toml"),
        pytest.param("a.yaml", "a:\n  - b\n c: d\n", (3, 2), id="yaml"),
        pytest.param("a.yml", "a:\n  b: !thing x\n", (2, 6), id="yaml-tag"),
        pytest.param("a.json", b"{\n\xff", (2, 1), id="not-utf-8"),
    ],
)
def test_a_broken_file_is_a_warning_with_its_place(
    name: str, content: str | bytes, place: tuple[int, int], machine: Machine
) -> None:
    machine.write({name: content})

    [warning] = machine.read("custom", name).warnings

    assert (warning.origin.line, warning.origin.column) == place
    assert warning.origin.file == str(machine.path(name))


# Entries beside each other


@pytest.mark.requirement("SRC-17")
@rows(
    ("written", "name"),
    [
        pytest.param("github", "github", id="plain"),
        pytest.param("my_server.v2@home", "my_server.v2@home", id="kept"),
        pytest.param("GitHub (work)", "GitHub-work", id="spaces"),
        pytest.param("io.github.someone/a-server", "io.github.someone-a-server", id="slash"),
        pytest.param("plugin:a__b", "plugin-a_b", id="dividers"),
        pytest.param("\uff47\uff49\uff54", "git", id="full-width"),
        pytest.param("-", "server-3973e022", id="nothing-left"),
    ],
)
def test_a_name_is_made_one_that_the_configuration_takes(written: str, name: str) -> None:
    assert normalized_name(written) == name


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "\x1b[31mred"])
def test_an_entry_whose_name_cannot_be_shown_is_skipped(name: str, machine: Machine) -> None:
    machine.write({"~/.cursor/mcp.json": servers_file(**{name: NPX})})

    imported = machine.read("cursor")

    assert imported.servers == ()
    assert imported.skipped == ((name, "its name cannot be used"),)


# Variables


# Lists of tools and of servers


@pytest.mark.requirement("SRC-20")
def test_a_bad_name_of_a_variable_is_noted_without_its_text(machine: Machine) -> None:
    entry = '[mcp_servers.a]\ncommand = "x"\nenv_vars = ["KEY=hunter2"]'
    machine.write({"~/.codex/config.toml": entry})

    message = "env_vars.0 is no name of a variable: the program starts without it"
    assert warnings(machine.read("codex")) == [("mcp_servers.a", message)]


@pytest.mark.requirement("SRC-13")
@pytest.mark.parametrize(
    ("client", "path", "document", "left"),
    [
        pytest.param(
            "goose",
            "~/.config/goose/config.yaml",
            "extensions: {a: {type: stdio, cmd: x, available_tools: []}}",
            ["get"],
            id="goose-empty-is-all",
        ),
        pytest.param(
            "gemini-cli",
            "~/.gemini/settings.json",
            servers_file(a=NPX | {"includeTools": []}),
            [],
            id="gemini-empty-is-none",
        ),
        pytest.param(
            "copilot-cli",
            "~/.copilot/mcp-config.json",
            servers_file(a=NPX | {"tools": ["*"]}),
            ["get"],
            id="copilot-star-is-all",
        ),
        pytest.param(
            "kiro",
            "~/.kiro/settings/mcp.json",
            servers_file(a=NPX | {"disabledTools": "*"}),
            [],
            id="kiro-star-is-all",
        ),
    ],
)
def test_an_empty_list_and_a_star_mean_what_they_mean_to_the_client(
    client: str, path: str, document: str, left: list[str], machine: Machine
) -> None:
    machine.write({path: document})

    assert enabled_tools(machine.read(client), "a", "get") == left


# What came of it
