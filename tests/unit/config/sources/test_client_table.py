from __future__ import annotations

import re

import pytest

from discovery_engine.config.sources import _READERS, SOURCE_TYPES
from discovery_engine.config.sources.client_table import ClientRow, load_table
from discovery_engine.config.sources.locations import layout_of
from discovery_engine.config.sources.variables import _SYNTAXES
from tests.rows import rows

CLIENTS = pytest.mark.parametrize("client", [*load_table().clients.values()], ids=SOURCE_TYPES)


@CLIENTS
def test_a_row_says_only_what_the_code_knows(client: ClientRow) -> None:
    assert set(client.variables) <= set(_SYNTAXES)
    assert client.reader in _READERS
    assert client.format in {"json", "toml", "yaml", "any"}
    assert client.entry.timeouts.keys() <= {"connect", "list", "call"}
    assert {switch.means for switch in client.switches} <= {"allowed", "disabled"}
    assert re.fullmatch(r"20\d\d-\d\d", client.last_checked)


@CLIENTS
def test_the_paths_of_a_row_stand_on_known_roots(client: ClientRow) -> None:
    paths = [path for spec in client.files for group in spec.paths.values() for path in group]

    assert {root for path in paths for root in re.findall(r"\{(\w+)\}", path)} <= set(
        load_table().roots
    )


def test_the_main_clients_are_there() -> None:
    assert set(SOURCE_TYPES) >= {
        *("claude-desktop", "claude-code", "cursor", "vscode", "windsurf", "codex", "gemini-cli"),
        *("zed", "opencode", "cline", "continue", "goose", "docker-mcp", "custom"),
    }


@rows(
    ("platform", "layout"),
    [
        ("win32", "windows"),
        ("windows", "windows"),
        ("darwin", "darwin"),
        ("linux", "linux"),
        ("freebsd14", "linux"),
    ],
)
def test_a_platform_has_a_layout(platform: str, layout: str) -> None:
    assert layout_of(platform) == layout
