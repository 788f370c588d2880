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


@pytest.mark.thorough
@pytest.mark.requirement("SCP-30")
def test_why_shows_for_whom_a_tool_is_reserved_and_by_what(discovery: Discovery) -> None:
    text, other = discovery("why", "demo:boom").out, discovery("why", "demo:echo")
    form = discovery("why", "demo:boom", "--json").json["visible_to"]
    lines = [" ".join(line.split()) for line in text.splitlines()]

    of_server = next(line for line in lines if line.startswith("visible to"))
    of_rule = next(line for line in lines if line.startswith("and to"))
    assert re.match(r"visible to team:b server rule 1 \S*discovery\.yaml:3:", of_server)
    assert re.match(r"and to team:a or user:c tool rule 1 \S*discovery\.yaml:4:", of_rule)
    assert "team:x" not in text
    assert "team:b" in other.out
    assert "user:c" not in other.out
    assert [(one["by"], one["principals"]) for one in form] == [
        ("server rule 1", ["team:b"]),
        ("tool rule 1", ["team:a", "user:c"]),
    ]
    assert "discovery.yaml:3:" in form[0]["origin"]


@pytest.mark.thorough
@pytest.mark.requirement("SCP-31")
def test_list_shows_for_whom_servers_are_reserved(discovery: Discovery) -> None:
    said = discovery("list").err.splitlines()
    forms = {one["name"]: one["visible_to"] for one in discovery("list", "--json").json["servers"]}

    assert "demo: visible to team:b" in said
    assert "other: visible to user:c" in said
    assert [one["by"] for one in forms["other"]] == ["server other"]
    assert [one["principals"] for one in forms["demo"]] == [["team:b"]]


@pytest.mark.thorough
@pytest.mark.requirement("SCP-31")
def test_list_shows_a_server_with_a_misspelt_reservation_as_its_owners_alone(
    discovery: Discovery,
) -> None:
    discovery.configure(rules=RULES, wrong={"command": "false", "visibelTo": "user:c"})

    assert "wrong: visible to its owner alone" in discovery("list").err.splitlines()


@pytest.mark.thorough
@pytest.mark.requirement("SCP-32")
def test_doctor_names_teams_and_users_for_whom_no_token_stands(discovery: Discovery) -> None:
    before = " ".join(discovery("doctor", "--exit-zero").out.split())
    for kind, name in (("team", "a"), ("team", "b"), ("user", "c"), ("team", "x")):
        discovery("token", "create", f"--{kind}", name)
    after = " ".join(discovery("doctor", "--exit-zero").out.split())

    missing = "no access token stands for team:a, team:b, team:x, user:c"
    assert f"{missing}: the owner alone sees what is theirs [PRINCIPAL_WITHOUT_TOKEN]" in before
    assert "`discovery token create --team a` makes one" in before
    assert "tokens stand for all" in after
    assert "no access token stands" not in after


@pytest.mark.requirement("SCP-32")
def test_doctor_says_nothing_of_teams_if_nothing_is_reserved(
    tmp_path: Path, forked: Preloaded
) -> None:
    discovery = Discovery(tmp_path, forked)
    discovery.configure()

    assert "teams" not in discovery("doctor", "--exit-zero").out
