"""Definitions that cannot be used: left out, and said to be so wherever tools are listed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from discovery_server.gateway import Gateway
from tests.contract.discovery import Discovery
from tests.engines import Folder
from tests.factories import make_definition
from tests.forked import Preloaded
from tests.told import Told
from tests.unit.server.sdk_client import connected

NOTICE = "told: 3 definitions are unusable and left out; `discovery health told` shows why"
UNUSABLE: list[dict[str, Any]] = [
    make_definition("wordy", notes="x" * 70_000),
    {"name": "", "inputSchema": {"type": "object"}},
    make_definition("large", description="x" * 70_000),
]


@pytest.mark.requirement("UPS-40", "HEA-19")
def test_what_cannot_be_used_is_a_problem_on_every_surface_of_the_owner(
    tmp_path: Path, forked: Preloaded
) -> None:
    told = Told.beside(tmp_path, make_definition("good"), *UNUSABLE)
    command, *args = told.command
    home = Discovery(tmp_path, forked)
    home.configure(told={"command": command, "args": args})
    codes = {
        "refresh told": 7,
        "list": 0,
        "list --status": 0,
        "tools told": 0,
        "tools": 0,
        "inspect told": 0,
        "health": 7,
        "health told": 7,
        "doctor": 7,
    }

    shown = {words: home(*words.split()) for words in codes}
    refreshed = home("refresh", "told", "--json").json["servers"][0]
    listed = {one["name"]: one for one in home("list", "--json").json["servers"]}

    said = {words: one.out + one.err for words, one in shown.items()}
    assert {words: one.code for words, one in shown.items()} == codes
    assert [words for words, text in said.items() if "unusable" not in text] == []
    assert [words for words in ("refresh told", "list", "tools") if NOTICE not in said[words]] == []
    unmarked = [words for words in codes if words[:5] != "tools" and "✗" not in said[words]]
    assert unmarked == []
    assert "wordy (it is larger than 64 KiB)" in said["health told"]
    assert [len(one["dropped"]) for one in (refreshed, listed["told"], listed["demo"])] == [3, 3, 0]


@pytest.mark.anyio
@pytest.mark.requirement("MET-11", "MET-5")
async def test_agents_read_how_many_are_left_out_and_nothing_else_of_them(folder: Folder) -> None:
    none = Told.beside(folder.path, *UNUSABLE)
    (folder.path / "more").mkdir()
    some = Told.beside(folder.path / "more", make_definition("good"), UNUSABLE[0])
    folder.write(none.server("told"), some.server("some"))

    async with folder.open() as engine:
        await engine.refresh()
        async with connected(Gateway(engine)) as client:
            calls = {
                "servers": ("list_mcp_servers", {}),
                "tools": ("list_tools", {"server": "told"}),
                "search": ("search_tools", {"query": "frobnicate"}),
                "search one": ("search_tools", {"query": "good", "server": "told"}),
            }
            answers = {
                name: await client.call_tool(*call)  # type: ignore[arg-type]
                for name, call in calls.items()
            }

    texts = {name: answer.content[0].text for name, answer in answers.items()}
    assert [name for name, text in texts.items() if NOTICE not in text] == []
    assert [name for name, text in texts.items() if "wordy" in text or "large" in text] == []
    assert "told (0 tools, 3 unusable)" in texts["servers"]
    assert "some (1 tool, 1 unusable)" in texts["servers"]
    assert "some: 1 definition is unusable" not in texts["search"]
    [entry, _] = answers["servers"].meta["discovery/answer"]["servers"]
    assert (entry["name"], entry["unusableCount"]) == ("some", 1)
