"""The tools of all servers, and those with some tags."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.contract.discovery import Discovery
from tests.forked import Preloaded

RULES = """
toolRules:
  - {pattern: "boom", enabled: false}
  - {pattern: "{echo,boom,slow}", tags: [text]}
  - {pattern: "{echo,delete*}", tags: [owner]}
"""
OFF: Mapping[str, object] = {"command": "false", "enabled": False}


def names(discovery: Discovery, *words: str) -> list[str]:
    tools = discovery("tools", *words, "--json").json["tools"]
    return [f"{one['server']}:{one['tool']}" for one in tools]


def found(discovery: Discovery, *words: str) -> list[str]:
    results = discovery("search", "echo slow delete all", *words, "--json").json["results"]
    return sorted(f"{one['server']}:{one['tool']}" for one in results)


@pytest.mark.requirement("CLI-86")
def test_tools_of_all_servers_are_chosen_by_all_tags_or_any(
    tmp_path: Path, forked: Preloaded
) -> None:
    discovery = Discovery(tmp_path, forked)
    discovery.configure(rules=RULES, off=OFF)
    discovery("refresh")
    both = ("--tag", "text", "--tag", "owner")
    shown = discovery("tools", "--tag", "text")

    assert names(discovery) == ["demo:delete_all", "demo:echo", "demo:slow"]
    assert names(discovery, *both) == ["demo:echo"]
    assert names(discovery, *both, "--any-tag") == ["demo:delete_all", "demo:echo", "demo:slow"]
    assert found(discovery, *both) == ["demo:echo"]
    assert found(discovery, *both, "--any-tag") == ["demo:delete_all", "demo:echo", "demo:slow"]
    assert names(discovery, "demo", "--tag", "text", "--all") == [
        "demo:boom",
        "demo:echo",
        "demo:slow",
    ]
    assert names(discovery, "--tag", "unknown") == []
    assert "demo:echo" in shown.out
    assert "2 tools; 1 disabled (--all shows them)" in shown.err
    assert discovery("tools", "--max-tokens", "100").code == 2
