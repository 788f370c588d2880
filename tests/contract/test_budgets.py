"""No answer is longer than it may be; and equal ones are equal."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from discovery_engine.sync import SyncEngine, open_engine
from tests.agents import fields_of, text_of
from tests.catalogs import JSONObject, configure, environ_of, opened, schema, tool
from tests.forked import Preloaded
from tests.rows import rows

WIDE = schema(
    **{f"argument_{n}": {"type": "string", "description": "about " * 9} for n in range(99)}
)
SMALL = schema("path", path={"enum": ["a", "b"]}, depth={"type": "integer"})
CATALOGS: dict[str, list[JSONObject | str]] = {
    "s": [
        tool("wide", inputSchema=WIDE),
        *(tool(f"tool_{n}", "x " * 60, inputSchema=WIDE) for n in range(99)),
        *(f"{word}_{n}" for word in ("sun", "moon") for n in range(20)),
    ],
    "git": [tool("show_file", inputSchema=SMALL), tool("git_log", "Show the log. " * 9)],
}
CALLS: list[tuple[str, JSONObject]] = [
    ("search_tools", {"query": "show a file"}),
    ("search_tools", {"queries": ["read a file", "log"], "maxTokens": 300}),
    ("list_tools", {"server": "git"}),
    ("get_tool_details", {"tool": "show_file"}),
    ("list_mcp_servers", {}),
]
SEARCH = {"limit": 40}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("budgets")


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[SyncEngine]:
    with opened(folder, CATALOGS, search=SEARCH) as engine:
        yield engine


def asked(engine: SyncEngine, meta_tool: str, **arguments: Any) -> tuple[str, int]:
    """The text of an answer, and its tokens."""
    result = engine.toolset().call_as_result(meta_tool, arguments)
    return text_of(result), fields_of(result)["tokens"]


@pytest.mark.requirement("BUD-1")
@rows(
    ("name", "arguments", "left_out"),
    [
        ("search_tools", {"query": "tool", "limit": 40}, "more: raise maxTokens"),
        ("list_tools", {"server": "s"}, "more: raise maxTokens, or search_tools"),
        ("get_tool_details", {"tool": "wide"}, "left out): raise maxTokens"),
    ],
)
def test_the_caller_says_how_long_an_answer_may_be_and_reads_what_is_left_out(
    engine: SyncEngine, name: str, arguments: JSONObject, left_out: str
) -> None:
    short, tokens = asked(engine, name, **arguments, maxTokens=60)
    _, more = asked(engine, name, **arguments, max_tokens=600)

    assert tokens <= 60 < more <= 600
    assert short.splitlines()[-1].endswith(left_out)


@pytest.mark.requirement("MET-5")
def test_the_fields_of_a_list_are_as_many_as_its_budget_has_lines_for(engine: SyncEngine) -> None:
    result = engine.toolset().call_as_result("list_tools", {"server": "s", "maxTokens": 60})

    fields = fields_of(result)
    assert (len(fields["tools"]), fields["total"]) == (30, len(CATALOGS["s"]))


@pytest.mark.requirement("BUD-6")
def test_no_caller_gets_more_than_the_most_tokens(engine: SyncEngine) -> None:
    most, tokens = asked(engine, "list_tools", server="s", maxTokens=25_000)

    assert tokens <= 25_000
    assert asked(engine, "list_tools", server="s", maxTokens=10**7) == (most, tokens)


@pytest.mark.requirement("BUD-6")
def test_usual_budgets_are_those_of_the_owner(engine: SyncEngine, tmp_path: Path) -> None:
    budgets = {"listTokens": 70, "detailsTokens": 60}
    own = configure(tmp_path, CATALOGS, search={**SEARCH, "maxTokens": 90}, server=budgets)
    calls: list[tuple[str, JSONObject, int, int]] = [
        ("search_tools", {"query": "tool"}, 180, 90),
        ("search_tools", {"queries": ["tool", "moon"]}, 270, 135),
        ("list_tools", {"server": "s"}, 1200, 70),
        ("get_tool_details", {"tool": "wide"}, 1000, 60),
    ]

    with open_engine(own, data_dir=tmp_path / "data") as other:
        other.refresh()
        for name, arguments, usual, owners in calls:
            assert 0.7 * usual < asked(engine, name, **arguments)[1] <= usual, name
            assert 0.5 * owners < asked(other, name, **arguments)[1] <= owners, name


@pytest.mark.requirement("BUD-5")
def test_several_queries_share_a_budget_in_the_order_asked(engine: SyncEngine) -> None:
    both, tokens = asked(engine, "search_tools", queries=["moon", "sun", " moon "], maxTokens=100)
    many, _ = asked(engine, "search_tools", queries=[f"moon {n}" for n in range(9)], maxTokens=80)

    moon, _, sun = both.partition('"sun":\n')
    assert tokens <= 100
    assert moon.startswith('"moon":\n')
    assert abs(len(moon) - len(sun)) < 60
    assert many.splitlines()[-1].endswith(" more queries: raise maxTokens")


@pytest.mark.requirement("BUD-7")
def test_answers_do_not_depend_on_the_order_of_servers_and_tools_nor_on_the_process(
    engine: SyncEngine, tmp_path: Path
) -> None:
    turned = {server: tools[::-1] for server, tools in [*CATALOGS.items()][::-1]}
    with opened(tmp_path, turned, search=SEARCH) as other:
        assert [asked(other, n, **given) for n, given in CALLS] == [
            asked(engine, n, **given) for n, given in CALLS
        ]
    done = subprocess.run(
        [sys.executable, "-m", "discovery_cli", "search", "show a file", "--max-tokens", "100"],
        check=True,
        capture_output=True,
        text=True,
        timeout=240,
        cwd=tmp_path,
        env={**os.environ, **environ_of(tmp_path), "PYTHONHASHSEED": "4242"},
    )

    read, _ = asked(engine, "search_tools", query="show a file", maxTokens=100)
    assert done.stdout.rstrip("\n") == read


@pytest.mark.requirement("BUD-10")
def test_the_command_line_prints_what_an_agent_reads(
    engine: SyncEngine, folder: Path, forked: Preloaded
) -> None:
    words = ["search", "show a file", "--max-tokens", "100"]
    plain = forked(words, cwd=folder, environ=environ_of(folder)).out
    form = forked([*words, "--json"], cwd=folder, environ=environ_of(folder)).json
    read, tokens = asked(engine, "search_tools", query="show a file", maxTokens=100)

    assert plain.rstrip("\n") == form["text"].rstrip("\n") == read
    assert form["tokens"] == tokens <= 100
