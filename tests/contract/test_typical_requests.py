"""Typical requests of tools, from the servers that list them to the person who searches."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from discovery_engine.agent.definitions import META_TOOLS
from discovery_engine.agent.dispatch import Caller, call
from discovery_engine.config.settings import ServerSettings
from discovery_engine.runtime.restore import stored_view
from discovery_engine.search.examples import pack
from discovery_engine.search.examples.book import PACK_VERSION, ExampleSource
from discovery_engine.view.view import View
from tests.contract.discovery import Discovery
from tests.engines import Folder, entry, good, program
from tests.forked import Preloaded
from tests.servers.programs import HERE
from tests.unit.search.examples.pack_tools import definitions_of

pytestmark = pytest.mark.anyio

REQUEST = "Are there untracked files or am I on a clean tree?"  # of git_status in the pack
QUERY = "anything untracked"  # no word of it is in a definition of git
OFF = {"search": {"shippedExamples": False}}
OWN = {"overrides": [{"pattern": "versions:git_status", "examples": ["sniff the repo"]}]}


def listing(folder: Path, name: str, definitions: list[dict[str, Any]]) -> ServerSettings:
    file = folder / f"{name}.json"
    file.write_text(json.dumps(definitions), "utf-8")
    return program(name, sys.executable, "-I", "-S", str(HERE / "listing_server.py"), str(file))


def git(folder: Folder) -> ServerSettings:
    """The tools of git, under a name that has nothing to do with them."""
    return listing(folder.path, "versions", definitions_of("git"))


def first(view: View, query: str) -> str | None:
    hits = view.search(query).hits
    return str(hits[0].entry.key) if hits else None


@pytest.mark.requirement("ENR-3", "ENR-7")
async def test_a_popular_server_is_found_by_a_request_that_none_of_its_words_has(
    folder: Folder,
) -> None:
    server = git(folder)
    folder.write(server, good())
    async with folder.open() as engine:
        await engine.refresh()
        found = first(engine.view, QUERY)
    folder.write(server, good(), **OFF)
    async with folder.open() as engine:
        without = first(engine.view, QUERY)
    folder.write(server, good())
    async with folder.open() as engine:
        again = first(engine.view, QUERY)

    assert (found, without, again) == ("versions:git_status", None, "versions:git_status")


@pytest.mark.requirement("ENR-6")
async def test_examples_of_an_override_replace_those_of_the_pack(folder: Folder) -> None:
    folder.write(git(folder), **OWN)
    async with folder.open() as engine:
        await engine.refresh()
        part = engine.view.catalog.part("versions")
        found = engine.view.book.of_tools([one.tool for one in part.entries])["git_status"]
        queries = [first(engine.view, query) for query in ("sniff the repo", QUERY)]

    assert (found.source, found.texts) == (ExampleSource.OWNER, ("sniff the repo",))
    assert queries == ["versions:git_status", None]


@pytest.mark.requirement("OVR-7", "REL-44")
async def test_other_examples_count_at_once_although_the_index_was_stored(folder: Folder) -> None:
    folder.write(git(folder), **OWN)
    async with folder.open() as engine:
        await engine.refresh()
        await engine._core.state.save_index()
    changed = {"overrides": [{**OWN["overrides"][0], "examples": ["taste the repo"]}]}
    folder.write(git(folder), **changed)
    async with folder.open() as engine:
        found = [first(engine.view, query) for query in ("taste it", "sniff it")]

    assert found == ["versions:git_status", None]


@pytest.mark.requirement("ENR-9")
async def test_no_agent_is_shown_a_typical_request(folder: Folder) -> None:
    folder.write(git(folder))
    asked: dict[str, dict[str, Any]] = {
        "search_tools": {"query": QUERY},
        "list_tools": {"server": "versions"},
        "get_tool_details": {"server": "versions", "tool": "git_status"},
        "execute_tool": {"server": "versions", "tool": "git_status", "arguments": {}},
    }
    async with folder.open() as engine:
        await engine.refresh()
        answers = [await call(engine, META_TOOLS[t], given, Caller()) for t, given in asked.items()]

    assert "git_status" in json.dumps(answers[0])
    assert "clean tree" not in json.dumps(answers)
    assert "untracked" not in json.dumps(answers[1:])


@pytest.mark.requirement("ENR-8")
async def test_a_search_of_a_remembered_catalog_does_not_open_the_pack(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write(git(folder))
    async with folder.open() as engine:
        await engine.refresh()
        await engine._core.state.save_index()
    pack.shipped_pack.cache_clear()
    monkeypatch.setattr(pack, "FILE", folder.path / "there is none")
    try:
        view = stored_view(folder.config, data_dir=folder.data)
        assert view
        found = first(view, QUERY)
        opened = pack.shipped_pack.cache_info().misses
    finally:
        pack.shipped_pack.cache_clear()

    assert (found, opened) == ("versions:git_status", 0)


class TestOwner:
    @pytest.fixture
    def home(self, tmp_path: Path, forked: Preloaded) -> Discovery:
        made = Discovery(tmp_path, forked)
        made.configure(versions=entry(listing(tmp_path, "versions", definitions_of("git"))))
        made("refresh")
        return made

    @pytest.mark.thorough
    @pytest.mark.requirement("ENR-10")
    def test_the_owner_sees_where_typical_requests_are_from(self, home: Discovery) -> None:
        source = f"shipped, pack {PACK_VERSION}, git"
        shown = home("inspect", "versions:git_status")
        form = home("inspect", "versions:git_status", "--json").json["tool"]["typical_requests"]
        why = home("why", "versions:git_status")
        why_form = home("why", "versions:git_status", "--json").json["typical_requests"]

        assert f"typical requests ({source}):" in shown.out
        assert REQUEST in shown.out
        assert (form["source"], form["note"]) == ("shipped", f"pack {PACK_VERSION}, git")
        assert REQUEST in form["texts"]
        assert f"found by 6 typical requests ({source})" in why.out
        assert why_form == form

    @pytest.mark.thorough
    @pytest.mark.requirement("ENR-10")
    def test_a_tool_without_any_has_none(self, home: Discovery) -> None:
        assert "typical requests" not in home("inspect", "demo:echo").out
        assert home("inspect", "demo:echo", "--json").json["tool"]["typical_requests"] is None

    @pytest.mark.requirement("ENR-10", "OVR-7")
    def test_an_explanation_names_the_source_of_an_example(self, home: Discovery) -> None:
        shown = home("search", "--explain", QUERY)

        assert "'untracked' is in a typical request that ships with the program" in shown.out
