"""What an answer costs depends on what it shows: specs/budgets.md."""

from __future__ import annotations

import cProfile
from collections.abc import Mapping
from typing import Any

import pytest

from discovery_engine.agent.definitions import META_TOOLS
from discovery_engine.agent.dispatch import Caller, call
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.state import ServerState, StateInfo
from discovery_engine.view.view import View
from tests.contract.test_budgets import ranked_view
from tests.factories import make_entry, make_part
from tests.unit.server.fakes import FakeEngine, object_schema

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("BUD-11")]


async def work(engine: FakeEngine, name: str, **arguments: Any) -> int:
    """How many functions an answer calls."""
    profile = cProfile.Profile()
    profile.enable()
    await call(engine, META_TOOLS[name], arguments, Caller())  # type: ignore[arg-type]
    profile.disable()
    entries = profile.getstats()  # type: ignore[attr-defined] # unknown to the stubs
    return sum(entry.callcount for entry in entries)


def many_servers(count: int) -> View:
    parts = [make_part(f"server_{n:04}", "read", "write") for n in range(count)]
    view = ranked_view(*parts, make_part("weather", "forecast"))
    assert view.searcher  # opened once, and shared by the views of all answers
    return view


def live(state: ServerState, stderr: str = "") -> Mapping[ServerName, StateInfo]:
    return {ServerName("server_0003"): StateInfo(state, stderr=stderr)}


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["list_mcp_servers", "search_tools"])
async def test_an_answer_again_costs_as_much_with_900_servers_as_with_200(name: str) -> None:
    arguments = {"query": "forecast"} if name == "search_tools" else {}
    counted = {}
    for servers in (200, 900):
        view = many_servers(servers)
        # As the engine: each answer has a view of its own, with the live states of that moment.
        engine = FakeEngine(view.with_live(live(ServerState.READY), None))
        await work(engine, name, **arguments)
        engine.view = view.with_live(live(ServerState.READY), None)
        counted[servers] = await work(engine, name, **arguments)

    assert counted[900] < 1.5 * counted[200]


@pytest.mark.thorough
async def test_only_a_server_that_changed_is_rendered_again() -> None:
    counted = {}
    for servers in (200, 900):
        view = many_servers(servers)
        engine = FakeEngine(view.with_live(live(ServerState.READY), None))
        first = await work(engine, "list_mcp_servers")
        engine.view = view.with_live(live(ServerState.READY, stderr="it works"), None)
        counted[servers] = await work(engine, "list_mcp_servers")
        assert counted[servers] < first / 4

    # The rest is a look at each, which takes less than a microsecond.
    assert counted[900] - counted[200] < 5 * 700


async def test_a_changed_server_is_shown_as_it_is_now() -> None:
    view = many_servers(5)

    async def shown(states: Mapping[ServerName, StateInfo]) -> Any:
        engine = FakeEngine(view.with_live(states, None))
        return await call(engine, META_TOOLS["list_mcp_servers"], {}, Caller())  # type: ignore[arg-type]

    before = await shown({})
    failing = await shown(live(ServerState.FAILING))
    other = await shown(live(ServerState.CRASH_LOOPING))

    assert "server_0003 (2 tools) failing" in failing["content"][0]["text"]
    assert "server_0003 (2 tools) crash" in other["content"][0]["text"]
    statuses = [s["status"] for s in other["_meta"]["discovery/answer"]["servers"]]
    assert statuses == ["idle", "idle", "idle", "crash-looping", "idle", "idle"]
    assert await shown({}) == before


async def test_a_tool_is_rendered_once() -> None:
    schema = object_schema(("a", "b"), **{name: {"type": "string"} for name in "abcdefgh"})
    entries = [
        make_entry(f"tool_{n}", "s", description="It does things. " * 9, inputSchema=schema)
        for n in range(40)
    ]
    engine = FakeEngine(ranked_view(make_part("s", *entries)))
    for name, arguments in (
        ("list_tools", {"server": "s"}),
        ("get_tool_details", {"tool": "tool_1"}),
    ):
        first = await work(engine, name, **arguments)

        assert await work(engine, name, **arguments) < first / 4


@pytest.mark.thorough
@pytest.mark.requirement("BUD-12")
async def test_a_few_hidden_tools_make_a_search_hardly_dearer_however_many_are_visible() -> None:
    counted = {}
    for hidden in (0, 20):
        entries = [
            make_entry(f"t{n:04}", "s", enabled=n >= hidden, description=said)
            for n, said in enumerate(["Read a file."] * 4000 + ["Read a log file."] * 100)
        ]
        view = ranked_view(make_part("s", *entries))
        counted[hidden] = search_work(view)

    assert counted[20] < 1.5 * counted[0]


@pytest.mark.thorough
@pytest.mark.requirement("BUD-12")
async def test_a_search_of_one_server_costs_what_its_tools_cost() -> None:
    few = [make_entry(f"read_file_log_{n}", "few") for n in range(20)]
    counted = {}
    for others in (20, 4000):
        many = [
            make_entry(f"t{n:04}", "many", description="Read a log file.") for n in range(others)
        ]
        counted[others] = search_work(
            ranked_view(make_part("few", *few), make_part("many", *many)), server="few"
        )

    assert counted[4000] < 1.5 * counted[20]


@pytest.mark.thorough
@pytest.mark.requirement("BUD-12")
async def test_a_search_of_tools_with_a_tag_costs_what_those_cost() -> None:
    tagged = [make_entry(f"read_file_log_{n}", "s", tags=("kept",)) for n in range(20)]
    counted = {}
    for others in (20, 4000):
        many = [make_entry(f"t{n:04}", "s", description="Read a log file.") for n in range(others)]
        counted[others] = search_work(ranked_view(make_part("s", *tagged, *many)), tags=["kept"])

    assert counted[4000] < 1.5 * counted[20]


def search_work(view: View, **scope: Any) -> int:
    """How many functions a search calls that is asked again."""
    view.search("read the file log", **scope)
    profile = cProfile.Profile()
    profile.enable()
    view.search("read the file log", **scope)
    profile.disable()
    entries = profile.getstats()  # type: ignore[attr-defined] # unknown to the stubs
    return sum(entry.callcount for entry in entries)
