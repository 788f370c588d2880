"""What commands show the owner of what is reserved for teams and users."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.contract.discovery import Discovery
from tests.forked import Preloaded

RULES = """
serverRules: [{pattern: "d*", visibleTo: team:b}]
toolRules: [{pattern: "boom", visibleTo: [team:a, user:c]}, {pattern: "x", visibleTo: team:x}]
"""
OTHER: Mapping[str, object] = {"command": "false", "visibleTo": ["user:c"], "enabled": False}


@pytest.fixture
def discovery(tmp_path: Path, forked: Preloaded) -> Discovery:
    discovery = Discovery(tmp_path, forked)
    discovery.configure(rules=RULES, other=OTHER)
    discovery("refresh")
    return discovery


@pytest.mark.requirement("SCP-30")
def test_commands_show_for_whom_something_is_reserved_and_by_what(discovery: Discovery) -> None:
    text, other = discovery("why", "demo:boom").out, discovery("why", "demo:echo").out
    form = discovery("why", "demo:boom", "--json").json["visible_to"]
    listed = discovery("list").err.splitlines()
    before = " ".join(discovery("doctor", "--exit-zero").out.split())
    for kind, name in (("team", "a"), ("team", "b"), ("user", "c"), ("team", "x")):
        discovery("token", "create", f"--{kind}", name)
    after = " ".join(discovery("doctor", "--exit-zero").out.split())

    lines = [" ".join(line.split()) for line in text.splitlines()]
    of_server = next(line for line in lines if line.startswith("visible to"))
    of_rule = next(line for line in lines if line.startswith("and to"))
    assert re.match(r"visible to team:b server rule 1 \S*discovery\.yaml:3:", of_server)
    assert re.match(r"and to team:a or user:c tool rule 1 \S*discovery\.yaml:4:", of_rule)
    assert "user:c" not in other
    assert [(one["by"], one["principals"]) for one in form] == [
        ("server rule 1", ["team:b"]),
        ("tool rule 1", ["team:a", "user:c"]),
    ]
    assert "demo: visible to team:b" in listed
    assert "other: visible to user:c" in listed
    missing = "no access token stands for team:a, team:b, team:x, user:c"
    assert f"{missing}: the owner alone sees what is theirs [PRINCIPAL_WITHOUT_TOKEN]" in before
    assert "no access token stands" not in after
