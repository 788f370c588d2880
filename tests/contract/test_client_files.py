"""Servers that other clients' files bring, as a person sees them by `discovery config` and `list`.

What each client writes, and how, is the matter of `test_sources.py`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from tests.contract.discovery import Discovery, Finished
from tests.forked import Preloaded

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


@pytest.mark.requirement("CFG-30")
def test_the_owners_file_has_its_names_and_an_earlier_client_goes_first(home: Home) -> None:
    servers = home.shown["servers"]

    assert servers["taken"]["command"] == "theirs"
    assert servers["taken@cursor"]["command"] == "other"
    assert servers["twice"]["command"] == "cursors"
    assert servers["twice@vscode"]["command"] == "vscodes"
    assert "is called 'taken@cursor' here" in home.warnings


@pytest.mark.requirement("CFG-30", "CFG-35")
def test_two_ways_to_one_server_are_one_and_what_its_owner_switched_off_stays_off(
    home: Home,
) -> None:
    servers = home.shown["servers"]

    assert "same" not in servers
    assert "servers.same: is the same server as 'own', and left out" in home.warnings
    assert "stays_off_too" not in servers
    assert servers["switched_off"]["enabled"] is False
    assert servers["stays_off"]["enabled"] is False


@pytest.mark.requirement("SRC-10", "CFG-23")
def test_a_clients_reference_becomes_one_of_ours_and_its_value_is_nowhere(home: Home) -> None:
    [env] = [one["env"] for one in home.shown["servers"].values() if "env" in one][:1]

    assert env["KEY"] == "${TOKEN}"
    for words in (
        ["config", "show"],
        ["config", "show", "--json"],
        ["list"],
        ["config", "sources"],
    ):
        done = home(*words)
        assert "hunter2hunter2" not in done.out + done.err, words


@pytest.mark.requirement("SRC-10")
def test_what_a_client_asks_for_becomes_a_variable_that_is_named(home: Home) -> None:
    assert home.shown["servers"]["asks"]["env"] == {"KEY": "${INPUT_API_KEY}"}
    assert "VS Code asks for 'k' (input 'api-key'): set $INPUT_API_KEY instead" in home.warnings


@pytest.mark.requirement("SRC-13", "CFG-35")
def test_a_clients_lists_of_tools_are_rules_for_that_server_behind_the_owners(home: Home) -> None:
    own, *imported = home.shown["toolRules"]

    assert own == {"pattern": "x*", "enabled": False}
    assert {rule["server"] for rule in imported} == {"My-Server"}
    assert {"pattern": "b", "server": "My-Server", "enabled": False} in imported
    assert {"pattern": "c", "server": "My-Server", "tags": ["approved-in:cursor"]} in imported
    assert not any(rule.get("enabled") for rule in imported)


@pytest.mark.requirement("SRC-17")
def test_what_is_called_otherwise_or_not_followed_is_a_warning(home: Home) -> None:
    warnings = home.warnings

    assert "mcpServers.My Server: it is called 'My-Server' here" in warnings
    assert "mcpServers.helper: an envFile is not read" in warnings
    assert "mcpServers.helper: not read: only_for" in warnings
    assert "helper" in home.shown["servers"]


@pytest.mark.requirement("SRC-20")
def test_a_broken_entry_is_reported_without_its_value_and_the_others_are_read(home: Home) -> None:
    [broken] = [s for s in home("list", "--json").json["servers"] if s["name"] == "broken"]

    assert broken["reason"] == "mcpServers.broken.args: must be a list of texts"
    assert "My-Server" in home.shown["servers"]
    for words in (["config", "show"], ["list"], ["config", "check"]):
        done = home(*words)
        assert "s3cret" not in done.out + done.err, words


@pytest.mark.requirement("SRC-20", "CFG-30")
def test_a_file_that_is_missing_or_broken_is_a_warning_and_all_else_is_used(home: Home) -> None:
    home.write(".vscode/mcp.json", '{\n  "servers": {1}\n}')

    warnings = home.warnings

    assert "missing.json: it cannot be read: " in warnings
    assert ".vscode/mcp.json:2:15: " in warnings
    assert {"own", "taken@cursor"} <= set(home.shown["servers"])
    assert "asks" not in home.shown["servers"]


@pytest.mark.requirement("SRC-20", "CFG-40")
def test_a_file_that_appears_later_is_read(home: Home) -> None:
    home("list")

    home.write("missing.json", {"mcpServers": {"late": {"command": "late-server"}}})

    assert "late" in {one["name"] for one in home("list", "--json").json["servers"]}


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


@pytest.mark.requirement("SRC-5")
def test_a_file_that_is_reached_in_several_ways_is_read_once_as_the_users_own(home: Home) -> None:
    link = home.discovery.home / ".config/Code/User/mcp.json"
    link.parent.mkdir(parents=True)
    link.symlink_to(home.discovery.home / ".vscode/mcp.json")

    started = home("init", "--dry-run", "--force")
    offered = home("config", "import", "--from", "cursor", "--from", "vscode", "--dry-run")

    assert " counts" not in started.err + offered.out
    assert started.err.count(".cursor/mcp.json\n") == 1
    assert started.err.count("/mcp.json\n") == 2
    assert "untrusted" not in home("list").out


@pytest.mark.requirement("SRC-5")
def test_a_projects_file_is_found_from_within_its_repository_and_not_from_beyond(
    home: Home,
) -> None:
    discovery, deep = home.discovery, home.discovery.home / "a" / "b"
    other = home.discovery.home / "other"
    for folder in (deep, other / ".git"):
        folder.mkdir(parents=True)

    names = [
        set(
            discovery.forked(["config", "show", "--json"], cwd=cwd, environ=discovery.environ).json[
                "configuration"
            ]["servers"]
        )
        for cwd in (deep, other)
    ]

    assert "asks" in names[0]
    assert "asks" not in names[1]


@pytest.mark.requirement("CFG-30")
def test_an_entry_that_is_left_out_has_no_further_warnings(home: Home) -> None:
    assert "servers.asks: VS Code asks for 'k'" in home.warnings

    own = "servers:\n  asks: {command: own-asks, replaces: vscode}"
    home.write("discovery.yaml", CONFIGURATION.replace("servers:", own))

    assert "servers.asks" not in home.warnings
