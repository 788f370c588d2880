"""`enabled: false` of the whole configuration is told as itself, wherever one looks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.conftest import Repository
from tests.forked import Preloaded

SAID = "the configuration has `enabled: false`"
NEVER = (
    "not known yet",
    "pending",
    "ask again in",
    "none is configured",
    "no server is configured",
)


@pytest.fixture
def home(tmp_path: Path, forked: Preloaded) -> Repository:
    """A configuration of one server, which is known, and one that was never asked."""
    place, path = tmp_path / "home", tmp_path / "project"
    place.mkdir()
    path.mkdir()
    made = Repository(path, place, forked)
    configure(made)
    return made


def configure(home: Repository, **more: object) -> None:
    servers = {"trap": home.trap(), "other": {"command": "no-such-program"}}
    folder = home.home / "config" / "discovery"
    folder.mkdir(parents=True, exist_ok=True)
    home.write(str(folder / "discovery.yaml"), {"servers": servers, **more})


@pytest.mark.requirement("CFG-8")
def test_every_command_says_that_all_is_switched_off(home: Repository) -> None:
    assert home("refresh", "trap").code == 0
    home.mark.unlink()
    configure(home, enabled=False)

    for words in (
        ["list"],
        ["list", "--status"],
        ["search", "spring"],
        ["tools", "trap"],
        ["inspect", "trap"],
        ["health", "--all"],
        ["doctor"],
        ["refresh"],
        ["refresh", "trap"],
        ["execute", "trap:spring"],
    ):
        done = home(*words)
        said = done.out + done.err
        assert "enabled: false" in said, words
        assert not any(word in said for word in NEVER), (words, said)

    assert home("execute", "trap:spring").code == 4
    assert home("list", "--json").json["servers"][0]["status"] == "disabled"
    assert home("search", "spring", "--json").json["results"] == []
    assert not home.is_sprung


@pytest.mark.requirement("CFG-8")
def test_every_answer_to_an_agent_reports_it(home: Repository) -> None:
    home("refresh", "trap")
    home.mark.unlink()
    configure(home, enabled=False)

    answers = home.served(
        ("list_mcp_servers", {}),
        ("search_tools", {"query": "spring"}),
        ("list_tools", {"server": "trap"}),
        ("get_tool_details", {"tool": "trap:spring"}),
        ("execute_tool", {"tool": "trap:spring", "arguments": {}}),
    )

    for answer in answers:
        text = answer["result"]["content"][0]["text"]
        assert SAID in text, text
        assert not any(word in text for word in NEVER)
    assert not home.is_sprung
