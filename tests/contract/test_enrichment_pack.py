"""Typical requests that ship with the program, from the lists of tools to a search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from discovery_engine.sync import SyncEngine, open_engine
from tests.agents import text_of
from tests.catalogs import configure, environ_of, opened
from tests.forked import Preloaded
from tests.unit.search.examples.pack_tools import definitions_of

REQUEST = "Are there untracked files or am I on a clean tree?"  # of git_status in the pack
QUERY = "anything untracked"  # no word of it is in a definition of git


def first(engine: SyncEngine, query: str) -> str | None:
    hits = engine.search(query).hits
    return str(hits[0].entry.key) if hits else None


@pytest.mark.requirement("ENR-3")
def test_a_popular_server_is_found_by_a_request_that_none_of_its_words_has(tmp_path: Path) -> None:
    catalogs: Any = {"versions": definitions_of("git")}
    with opened(tmp_path, catalogs) as engine:
        found = first(engine, QUERY)
    config = configure(tmp_path, catalogs, search={"shippedExamples": False})
    with open_engine(config, data_dir=tmp_path / "data") as engine:
        without = first(engine, QUERY)
    configure(tmp_path, catalogs)
    with open_engine(config, data_dir=tmp_path / "data") as engine:
        again = first(engine, QUERY)

    assert (found, without, again) == ("versions:git_status", None, "versions:git_status")


@pytest.mark.requirement("ENR-5")
def test_a_tool_that_shares_no_more_than_a_name_with_a_popular_one_has_no_requests(
    tmp_path: Path,
) -> None:
    status = next(one for one in definitions_of("git") if one["name"] == "git_status")
    others = [{**one, "description": f"Zebra {n}."} for n, one in enumerate(definitions_of("git"))]
    catalogs: Any = {
        "names": others,
        "alone": [{**status, "description": "Feeds a zebra."}, {**status, "name": "x"}],
    }

    with opened(tmp_path, catalogs) as engine:
        assert first(engine, QUERY) is None


@pytest.mark.requirement("ENR-9", "OVR-7")
def test_examples_of_the_owner_replace_those_of_the_pack_at_once_and_no_agent_is_shown_any(
    tmp_path: Path, forked: Preloaded
) -> None:
    catalogs: Any = {"versions": definitions_of("git")}
    own = [{"pattern": "versions:git_status", "examples": ["sniff the repo"]}]
    with opened(tmp_path, catalogs) as engine:
        asked = [
            ("search_tools", {"query": QUERY}),
            ("list_tools", {"server": "versions"}),
            ("get_tool_details", {"server": "versions", "tool": "git_status"}),
        ]
        tools = engine.toolset()
        answers = [tools.call_as_result(name, given) for name, given in asked]
    environ = environ_of(tmp_path)
    shown = forked(["inspect", "versions:git_status"], cwd=tmp_path, environ=environ).out
    why = forked(["why", "versions:git_status"], cwd=tmp_path, environ=environ).out
    explained = forked(["search", "--explain", QUERY], cwd=tmp_path, environ=environ).out
    config = configure(tmp_path, catalogs, overrides=own)
    with open_engine(config, data_dir=tmp_path / "data") as engine:
        found = [first(engine, query) for query in ("sniff the repo", QUERY)]

    assert "git_status" in text_of(answers[0])
    assert "clean tree" not in json.dumps(answers)
    assert REQUEST in shown
    assert "typical requests (shipped, pack " in shown
    assert "found by 6 typical requests (shipped, pack " in why
    assert "'untracked' is in a typical request that ships with the program" in explained
    assert found == ["versions:git_status", None]
