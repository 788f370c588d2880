from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from discovery_engine.config.files.inputs import is_current
from discovery_engine.config.settings import RemoteTransport, Source, StdioTransport
from discovery_engine.config.sources import SOURCE_TYPES, client_files, read_source
from discovery_engine.config.sources.source_reader import normalized_name
from discovery_engine.config.sources.source_result import SourceResult
from discovery_engine.rules.rule import Verdict
from discovery_engine.rules.ruleset import ToolRules
from discovery_engine.secrets.references import references
from tests.factories import make_tool
from tests.rows import rows
from tests.unit.config.sources.conftest import Machine

_KEYS = st.sampled_from(
    ["mcpServers", "servers", "command", "args", "env", "url", "headers", "type", "tools", "name"]
)
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


@pytest.mark.requirement("SRC-6")
def test_a_project_file_is_looked_for_up_to_the_root_of_the_repository(machine: Machine) -> None:
    machine.write({".cursor/mcp.json": servers_file(a=NPX), ".git/HEAD": ""})
    machine.cwd /= "deep/inside"
    machine.cwd.mkdir(parents=True)

    assert "a" in transports(machine.read("cursor"))


@pytest.mark.requirement("SRC-6")
def test_outside_a_repository_no_file_of_a_folder_above_is_read(machine: Machine) -> None:
    machine.write({".cursor/mcp.json": servers_file(a=NPX)})
    machine.cwd /= "inside"
    machine.cwd.mkdir()

    assert machine.read("cursor").servers == ()


@pytest.mark.requirement("SRC-2")
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


def test_of_alternative_files_the_first_that_exists_is_read(machine: Machine) -> None:
    machine.write(
        {
            "~/.config/opencode/opencode.jsonc": '{"mcp": {"new": {"command": ["new"]}}}',
            "~/.config/opencode/opencode.json": '{"mcp": {"old": {"command": ["old"]}}}',
        }
    )

    assert list(transports(machine.read("opencode"))) == ["new"]


def test_a_folder_of_files_is_read_file_by_file(machine: Machine) -> None:
    machine.write(
        {
            "~/.continue/mcpServers/one.yaml": "mcpServers: [{name: one, command: a}]",
            "~/.continue/mcpServers/two.json": servers_file(two={"command": "b"}),
        }
    )

    assert list(transports(machine.read("continue"))) == ["one", "two"]


def test_a_client_is_listed_with_its_scopes(machine: Machine) -> None:
    machine.write({".mcp.json": "{}", "~/.cursor/mcp.json": "{}", ".claude/settings.json": "{}"})

    found = client_files(environ={}, home=machine.home, cwd=machine.cwd, platform="darwin")

    assert [(file.client, file.label, file.scope) for file in found] == [
        ("claude-code", "Claude Code", "project"),
        ("cursor", "Cursor", "user"),
        ("copilot-cli", "GitHub Copilot CLI", "project"),
    ]


# Missing and broken files


@pytest.mark.requirement("SRC-20")
@pytest.mark.parametrize("client", SOURCE_TYPES)
def test_a_client_without_a_file_is_a_warning(client: str, machine: Machine) -> None:
    imported = machine.read(client)

    assert imported.servers == ()
    assert len(imported.warnings) == 1


@pytest.mark.requirement("SRC-20")
def test_a_file_that_appears_later_is_noticed(machine: Machine) -> None:
    inputs = machine.read("cursor").inputs
    assert is_current(inputs)

    machine.write({"~/.cursor/mcp.json": servers_file(a=NPX)})

    assert not is_current(inputs)


@pytest.mark.requirement("SRC-20")
def test_a_named_file_that_is_not_there_is_a_warning_and_noticed_later(machine: Machine) -> None:
    imported = machine.read("custom", "servers.json")
    assert imported.warnings[0].message.startswith("it cannot be read: ")

    machine.write({"servers.json": servers_file(a=NPX)})

    assert not is_current(imported.inputs)


@pytest.mark.requirement("SRC-21")
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


@pytest.mark.parametrize("path", ["folder", "a\0b", "bad\ud800name"])
def test_a_path_that_is_no_file_is_a_warning(path: str, machine: Machine) -> None:
    machine.path("folder").mkdir()

    imported = machine.read("custom", path)

    assert imported.servers == ()
    assert len(imported.warnings) == 1


def test_a_file_without_servers_is_a_warning(machine: Machine) -> None:
    machine.write({"~/.cursor/mcp.json": '{"other": {}}'})

    assert warnings(machine.read("cursor")) == [("", "it has no servers; looked for mcpServers")]


def test_servers_that_are_neither_map_nor_list_are_a_warning(machine: Machine) -> None:
    machine.write({"~/.cursor/mcp.json": '{"mcpServers": "none"}'})

    assert warnings(machine.read("cursor")) == [
        ("mcpServers", "it must be a map or a list of servers")
    ]


def test_an_unknown_type_of_source_names_the_nearest(machine: Machine) -> None:
    [warning] = machine.read("cursr").warnings

    assert warning.hint == "did you mean 'cursor'?"
    assert "known are claude-desktop" in machine.read("nothing at all").warnings[0].hint


@pytest.mark.requirement("SRC-23")
def test_a_file_that_is_too_large_is_a_warning(machine: Machine) -> None:
    machine.write({"~/.cursor/mcp.json": b" " * 1_048_577})

    imported = machine.read("cursor")

    assert imported.warnings[0].message == "it cannot be read: larger than 1,048,576 bytes"
    assert is_current(imported.inputs)


@pytest.mark.requirement("SRC-23")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    content=st.binary()
    | st.text().map(str.encode)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(_KEYS | st.text(), inner),
    ).map(lambda value: json.dumps(value).encode()),
    client=st.sampled_from(SOURCE_TYPES),
    name=st.sampled_from(["a.json", "a.yaml", "a.toml", "a"]),
)
def test_whatever_the_bytes_reading_them_ends_with_a_result(
    content: bytes, client: str, name: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)

    imported = read_source(
        Source(client, name), environ={}, home=tmp_path, cwd=tmp_path, platform="linux"
    )

    for server in imported.servers:
        assert normalized_name(server.name) == server.name
    ToolRules(imported.tool_rules)


# Entries beside each other


@pytest.mark.requirement("SRC-22")
def test_a_broken_entry_is_that_server_alone_and_shows_no_value(machine: Machine) -> None:
    machine.write(
        {
            "~/.cursor/mcp.json": servers_file(
                broken={"command": "npx", "args": "s3cret"}, fine=NPX, number=7
            )
        }
    )

    imported = machine.read("cursor")

    problems = {str(s.name): s.problem for s in imported.servers if s.problem}
    assert problems["broken"].subject == "mcpServers.broken.args"
    assert problems["broken"].message == "must be a list of texts"
    assert problems["number"].subject == "mcpServers.number"
    assert "s3cret" not in repr(imported)
    assert transports(imported)["fine"] == StdioTransport("npx", ("-y", "a-server"))
    assert transports(imported)["broken"] is None


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


@pytest.mark.requirement("SRC-17")
def test_a_changed_name_is_a_warning_and_is_what_the_rules_say(machine: Machine) -> None:
    entry = NPX | {"disabledTools": ["b"]}
    machine.write({"~/.cursor/mcp.json": servers_file(**{"My Server": entry})})

    imported = machine.read("cursor")

    assert warnings(imported) == [("mcpServers.My Server", "it is called 'My-Server' here")]
    assert enabled_tools(imported, "My-Server", "a", "b") == ["a"]


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "\x1b[31mred"])
def test_an_entry_whose_name_cannot_be_shown_is_skipped(name: str, machine: Machine) -> None:
    machine.write({"~/.cursor/mcp.json": servers_file(**{name: NPX})})

    imported = machine.read("cursor")

    assert imported.servers == ()
    assert imported.skipped == ((name, "its name cannot be used"),)


def test_two_names_that_become_one_are_not_mixed_up(machine: Machine) -> None:
    machine.write({"~/.cursor/mcp.json": servers_file(**{"a b": NPX, "a/b": {"url": "x"}})})

    imported = machine.read("cursor")

    assert list(transports(imported)) == ["a-b"]
    assert [name for name, _ in imported.skipped] == ["a/b"]


@pytest.mark.requirement("SRC-19")
def test_what_only_its_client_can_start_is_skipped_with_the_reason(machine: Machine) -> None:
    machine.write(
        {"~/.config/zed/settings.json": '{"context_servers": {"a": {"source": "extension"}}}'}
    )

    assert machine.read("zed").skipped == (("a", "an extension of Zed provides it"),)


@pytest.mark.requirement("SRC-18")
def test_what_is_not_followed_is_a_warning(machine: Machine) -> None:
    entry = {"url": "https://a.example/mcp", "headersHelper": "get-headers"}
    machine.write({".mcp.json": servers_file(a=entry, b=NPX | {"envFile": ".env"})})

    said = warnings(machine.read("claude-code"))

    assert said == [
        ("mcpServers.a", "a headersHelper is not run; give the headers themselves"),
        ("mcpServers.b", "an envFile is not read; name its variables in env"),
    ]


# Variables


@pytest.mark.requirement("SRC-11")
def test_nothing_is_resolved_and_no_value_of_the_environment_is_taken(machine: Machine) -> None:
    entry = NPX | {"env": {"KEY": "${KEY:-none}", "HOME_DIR": "${HOME}"}}
    machine.environ = {"KEY": "the value", "HOME": "/home/someone"}
    machine.write({".mcp.json": servers_file(a=entry)})

    imported = machine.read("claude-code")

    assert "the value" not in repr(imported)
    assert "/home/someone" not in repr(imported)


@pytest.mark.requirement("SRC-12")
def test_what_vs_code_asks_for_becomes_a_variable_that_a_warning_names(machine: Machine) -> None:
    document = {
        "inputs": [{"id": "api-key", "description": "Your key\x1b[2J"}, "noise"],
        "servers": {"a": {"command": "npx", "env": {"KEY": "${input:api-key}"}}},
    }
    machine.write({".vscode/mcp.json": json.dumps(document)})

    imported = machine.read("vscode")

    assert transports(imported)["a"] == StdioTransport("npx", (), {"KEY": "${INPUT_API_KEY}"})
    assert warnings(imported) == [
        (
            "servers.a",
            r"VS Code asks for 'Your key\x1b[2J' (input 'api-key'): set $INPUT_API_KEY instead",
        )
    ]


def test_the_project_folder_is_known_and_filled_in(machine: Machine) -> None:
    entry = {"command": "${workspaceFolder}/run", "args": ["${userHome}", "${pathSeparator}"]}
    machine.write({".cursor/mcp.json": servers_file(a=entry), ".git/HEAD": ""})
    root, machine.cwd = machine.cwd, machine.cwd / "inside"
    machine.cwd.mkdir()

    assert transports(machine.read("cursor"))["a"] == StdioTransport(
        f"{root}/run", (str(machine.home), "/")
    )


@pytest.mark.requirement("SRC-10")
def test_codex_names_variables_and_they_become_references(machine: Machine) -> None:
    machine.write(
        {
            "~/.codex/config.toml": """
                [mcp_servers.a]
                command = "npx"
                env_vars = ["TOKEN", { name = "OTHER", source = "local" }]
                env = { TEXT = "${not a reference}" }
                [mcp_servers.b]
                url = "https://b.example/mcp"
                bearer_token_env_var = "TOKEN"
                env_http_headers = { X-Key = "KEY" }
                [mcp_servers.c]
                command = "npx"
                env_vars = ["not a name"]
                """
        }
    )

    imported = machine.read("codex")

    a, b, c = transports(imported).values()
    assert a == StdioTransport(
        "npx", (), {"TOKEN": "${TOKEN}", "OTHER": "${OTHER}", "TEXT": "$${not a reference}"}
    )
    assert b == RemoteTransport(
        "https://b.example/mcp", {"Authorization": "Bearer ${TOKEN}", "X-Key": "${KEY}"}
    )
    assert c is None


def test_every_reference_of_an_imported_server_is_well_formed(machine: Machine) -> None:
    entry = NPX | {"env": {"A": "${", "B": "$${X}", "C": "${a b}", "D": "${X:-${Y}}"}}
    machine.write({".mcp.json": servers_file(a=entry)})

    server = machine.read("claude-code").servers[0].transport

    assert isinstance(server, StdioTransport)
    assert [str(one) for text in server.env.values() for one in references(text)] == ["${Y}"]


# Lists of tools and of servers


@pytest.mark.requirement("SRC-13")
@pytest.mark.parametrize(
    ("client", "path", "document"),
    [
        pytest.param(
            "gemini-cli",
            "~/.gemini/settings.json",
            servers_file(a=NPX | {"includeTools": ["get", "put(x)"], "excludeTools": ["put"]}),
            id="gemini",
        ),
        pytest.param(
            "codex",
            "~/.codex/config.toml",
            '[mcp_servers.a]\ncommand="x"\nenabled_tools=["get","put"]\ndisabled_tools=["put"]',
            id="codex",
        ),
        pytest.param(
            "goose",
            "~/.config/goose/config.yaml",
            "extensions: {a: {type: stdio, cmd: x, available_tools: [get]}}",
            id="goose",
        ),
        pytest.param(
            "copilot-cli",
            "~/.copilot/mcp-config.json",
            servers_file(a=NPX | {"type": "local", "tools": ["get"]}),
            id="copilot",
        ),
        pytest.param(
            "kiro",
            "~/.kiro/settings/mcp.json",
            servers_file(a=NPX | {"disabledTools": ["put", "delete"]}),
            id="kiro",
        ),
        pytest.param(
            "opencode",
            "opencode.json",
            json.dumps(
                {
                    "mcp": {"a": {"type": "local", "command": ["x"]}},
                    "tools": {"a_*": False, "a_get": True, "bash": False},
                }
            ),
            id="opencode",
        ),
    ],
)
def test_a_clients_tool_lists_hide_the_same_tools_here(
    client: str, path: str, document: str, machine: Machine
) -> None:
    machine.write({path: document})

    imported = machine.read(client)

    assert enabled_tools(imported, "a", "get", "put", "delete") == ["get"]
    assert enabled_tools(imported, "other", "get", "put") == ["get", "put"]
    assert not any(rule.enabled for rule in imported.tool_rules)


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


@pytest.mark.requirement("SRC-14")
@pytest.mark.parametrize(
    ("client", "path", "document"),
    [
        pytest.param(
            "cline",
            "~/.cline/mcp.json",
            servers_file(a=NPX | {"autoApprove": ["get"]}),
            id="cline",
        ),
        pytest.param(
            "roo", ".roo/mcp.json", servers_file(a=NPX | {"alwaysAllow": ["get"]}), id="roo"
        ),
        pytest.param(
            "amazon-q",
            "~/.aws/amazonq/cli-agents/mine.json",
            json.dumps({"mcpServers": {"a": NPX}, "allowedTools": ["@a/get", "@b", "fs_read", 1]}),
            id="amazon-q",
        ),
    ],
)
def test_what_a_client_approves_is_a_tag_and_nothing_else(
    client: str, path: str, document: str, machine: Machine
) -> None:
    machine.write({path: document})

    [rule] = machine.read(client).tool_rules

    assert (rule.patterns, rule.servers) == (("get",), ("a",))
    assert rule.tags == (f"approved-in:{client}",)
    assert rule.enabled is None


@pytest.mark.requirement("SRC-14")
def test_a_trusted_server_has_the_tag_on_every_tool(machine: Machine) -> None:
    machine.write({"~/.gemini/settings.json": servers_file(a=NPX | {"trust": True})})

    [rule] = machine.read("gemini-cli").tool_rules

    assert (rule.patterns, rule.enabled) == ((), None)


@pytest.mark.requirement("SRC-15")
def test_lists_elsewhere_in_the_file_disable_servers(machine: Machine) -> None:
    lists = {"mcp": {"allowed": ["a", "b"], "excluded": ["b"]}}
    document = {"mcpServers": {"a": NPX, "b": NPX, "c": NPX}} | lists
    machine.write({"~/.gemini/settings.json": json.dumps(document)})

    assert enabled(machine.read("gemini-cli")) == {"a": True, "b": False, "c": False}


@pytest.mark.requirement("SRC-15")
def test_a_project_server_that_was_refused_in_claude_code_is_disabled(machine: Machine) -> None:
    machine.write(
        {
            ".mcp.json": servers_file(a=NPX, b=NPX),
            "~/.claude.json": servers_file(mine=NPX),
            ".claude/settings.local.json": '{"disabledMcpjsonServers": ["a", "mine"]}',
        }
    )

    assert enabled(machine.read("claude-code")) == {"a": False, "b": True, "mine": True}


@pytest.mark.requirement("SRC-16")
@pytest.mark.parametrize(
    ("client", "path", "document", "step"),
    [
        pytest.param(
            "gemini-cli",
            "~/.gemini/settings.json",
            servers_file(a=NPX | {"timeout": 5500}),
            "call",
            id="milliseconds",
        ),
        pytest.param(
            "cline",
            "~/.cline/mcp.json",
            servers_file(a=NPX | {"timeout": 5.5}),
            "call",
            id="seconds",
        ),
        pytest.param(
            "codex",
            "~/.codex/config.toml",
            '[mcp_servers.a]\ncommand="x"\nstartup_timeout_sec=5.5',
            "connect",
            id="codex",
        ),
        pytest.param(
            "opencode",
            "opencode.json",
            '{"mcp": {"a": {"command": ["x"], "timeout": 5500}}}',
            "list",
            id="opencode",
        ),
    ],
)
def test_a_timeout_becomes_seconds(
    client: str, path: str, document: str, step: str, machine: Machine
) -> None:
    machine.write({path: document})

    [server] = machine.read(client).servers

    assert getattr(server.timeouts, step) == 5.5


@pytest.mark.parametrize("value", [0, -1, "soon", True, None, [], "nan", "1e999"])
def test_a_timeout_that_is_no_time_is_not_taken_over(value: object, machine: Machine) -> None:
    machine.write({"~/.cline/mcp.json": servers_file(a=NPX | {"timeout": value})})

    assert machine.read("cline").servers[0].timeouts.call == 60.0


# What came of it


def test_renaming_a_server_renames_it_in_its_rules(machine: Machine) -> None:
    entry = NPX | {"disabledTools": ["put"]}
    machine.write({"~/.cursor/mcp.json": servers_file(a=entry, b=entry)})
    imported = machine.read("cursor")
    [a, _] = imported.servers

    renamed = imported.renamed({a.name: type(a.name)("a@cursor")})

    assert list(transports(renamed)) == ["a@cursor", "b"]
    assert enabled_tools(renamed, "a@cursor", "get", "put") == ["get"]
    assert enabled_tools(renamed, "a", "get", "put") == ["get", "put"]


def test_leaving_a_server_out_leaves_its_rules_out(machine: Machine) -> None:
    entry = NPX | {"disabledTools": ["put"]}
    machine.write({"~/.cursor/mcp.json": servers_file(a=entry, b=entry)})
    imported = machine.read("cursor")

    left = imported.without(frozenset({imported.servers[0].name}))

    assert list(transports(left)) == ["b"]
    assert [rule.servers for rule in left.tool_rules] == [("b",)]
