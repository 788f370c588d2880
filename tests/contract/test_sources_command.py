"""`discovery config sources` and `config path`, as a person reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.conftest import Repository
from tests.forked import Preloaded


@pytest.fixture
def home(tmp_path: Path, forked: Preloaded) -> Repository:
    place, path = tmp_path / "home", tmp_path / "project"
    place.mkdir()
    path.mkdir()
    return Repository(path, place, forked)


@pytest.mark.requirement("SRC-20")
def test_two_sources_of_one_type_are_distinguished(home: Repository) -> None:
    home.write("a.json", {"mcpServers": {"one": {"command": "a"}, "same": {"command": "b"}}})
    home.write("b.json", {"mcpServers": {"two": {"command": "c"}, "same": {"command": "d"}}})
    named = [{"type": "custom", "path": f"{name}.json"} for name in ("a", "missing", "b", "a")]
    home.write("discovery.yaml", {"servers": {"own": {"command": "x"}}, "sources": named})

    own, a, missing, b, again = home("config", "sources", "--json").json["sources"]

    assert own["servers"] == ["own"]
    assert (a["servers"], a["files"]) == (["one", "same"], [str(home.path / "a.json")])
    assert (b["servers"], b["files"]) == (["two", "same@custom"], [str(home.path / "b.json")])
    assert (missing["servers"], missing["files"], missing["is_there"]) == ([], [], False)
    assert again["servers"] == []
    marks = [line[0] for line in home("config", "sources").out.splitlines()]
    assert marks == ["✓", "✓", "✗", "✓", "✓"]


@pytest.mark.requirement("CFG-1")
def test_a_file_that_is_nearly_called_as_the_configuration_is_named(home: Repository) -> None:
    home.write("discovery.yml", {"servers": {"one": {"command": "a"}}})

    for words in (["list"], ["config", "check"], ["config", "path"]):
        done = home(*words)
        assert "discovery.yml is not read: rename it to discovery.yaml" in done.out + done.err


@pytest.mark.requirement("SRC-20")
def test_a_source_without_any_file_has_no_mark_of_success(home: Repository) -> None:
    named = [{"type": "cursor"}, {"type": "docker-mcp", "path": "~/no.json"}]
    home.write("discovery.yaml", {"sources": named})

    done = home("config", "sources")

    assert [line[0] for line in done.out.splitlines()] == ["✓", "✗", "✗"]
    assert "no.json" in done.out
    assert "no file of Cursor was found" in done.err
    assert "No such file" in done.err
