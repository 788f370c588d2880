"""No answer is longer than it may be, whatever the catalog holds; and equal ones are equal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine.agent.budget import Budget
from discovery_engine.agent.definitions import META_TOOLS, MIN_TOKENS
from discovery_engine.agent.dispatch import Caller, call
from discovery_engine.agent.render.details import details_result
from discovery_engine.agent.render.search import search_result, searches_result
from discovery_engine.agent.render.servers import servers_result
from discovery_engine.agent.render.tools import tools_result
from discovery_engine.agent.token_estimate import estimated_tokens
from discovery_engine.agent.tool_text import Detail
from discovery_engine.catalog import Catalog, ServerPart
from discovery_engine.config.serve_settings import ServeSettings
from discovery_engine.config.settings import SearchSettings
from discovery_engine.diagnostics.codes import FAMILIES
from discovery_engine.search.searcher import build_searcher
from discovery_engine.view.notices import Notice
from discovery_engine.view.view import View
from tests.factories import make_entry, make_part, make_settings
from tests.kinds import thinned
from tests.rows import rows
from tests.unit.server.fakes import FakeEngine, make_engine, make_view, object_schema

pytestmark = pytest.mark.anyio

WORDS = st.one_of(
    st.text(min_size=1, max_size=40),
    st.sampled_from(["issue", "查询指定城市的实时天气信息", "x" * 900, "word " * 400, "é\n" * 99]),
)
SCHEMAS = st.builds(
    lambda required, named: object_schema(tuple(required), **named),
    st.lists(WORDS, max_size=3),
    st.dictionaries(
        WORDS,
        st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(["string", "integer", "array"]),
                "enum": st.lists(WORDS, max_size=4),
                "description": WORDS,
            },
        ),
        max_size=5,
    ),
)
ENTRIES = st.builds(
    lambda name, about, tags, schema, enabled: make_entry(
        name, "s", description=about, tags=tags, inputSchema=schema, enabled=enabled
    ),
    WORDS,
    WORDS,
    st.lists(WORDS, max_size=2),
    SCHEMAS,
    st.booleans(),
)
PARTS = st.builds(
    lambda entries: make_part("s", *{e.tool.name: e for e in entries}.values()),
    st.lists(ENTRIES, min_size=1, max_size=8),
)
NOTICES = st.lists(
    st.builds(
        Notice,
        st.sampled_from([*FAMILIES["Servers"], *FAMILIES["Tools"], *FAMILIES["Answers"]]),
        message=WORDS,
        subject=st.just("") | WORDS,
    ),
    max_size=6,
)
TOKENS = st.integers(min_value=MIN_TOKENS, max_value=600)
MANY = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def tokens_of(result: JSONObject) -> int:
    [block] = result["content"]
    return estimated_tokens(block["text"])


@pytest.mark.thorough
@pytest.mark.requirement("BUD-1")
@MANY
@given(PARTS, NOTICES, TOKENS, st.sampled_from(Detail), st.lists(WORDS, min_size=1, max_size=10))
def test_search_keeps_to_its_budget(
    part: ServerPart, notices: list[Notice], tokens: int, richest: Detail, queries: list[str]
) -> None:
    view = make_view(part)
    answers = [
        replace(view.search(query), query=query, notices=tuple(notices))
        for query in (part.entries[0].tool.name, *queries)
    ]

    one = search_result(answers[0], Budget(tokens), richest)
    several = searches_result(answers, Budget(tokens), richest)

    assert tokens_of(one) <= tokens
    assert 0 < tokens_of(several) <= tokens


@pytest.mark.thorough
@pytest.mark.requirement("BUD-1")
@MANY
@given(PARTS, NOTICES, TOKENS, st.sampled_from(Detail))
def test_lists_and_details_keep_to_their_budget(
    part: ServerPart, notices: list[Notice], tokens: int, richest: Detail
) -> None:
    view = make_view(part)
    budget = Budget(tokens)
    listed = replace(view.list_tools("s", include_disabled=True), notices=tuple(notices))

    assert 0 < tokens_of(tools_result(listed, budget, richest)) <= tokens
    assert 0 < tokens_of(servers_result(view.servers() * 30, budget)) <= tokens
    for entry in part.entries:
        assert 0 < tokens_of(details_result(entry, budget)) <= tokens


@pytest.mark.requirement("BUD-1")
def test_list_of_very_many_tools_keeps_to_its_budget() -> None:
    part = make_part("s", *(make_entry(f"tool_number_{i}", "s") for i in range(3000)))
    view = make_view(part)

    result = tools_result(
        view.list_tools("s"), Budget(ServeSettings().list_tokens), Detail.SIGNATURE
    )

    lines = result["content"][0]["text"].splitlines()
    assert tokens_of(result) <= 1200
    assert lines[0] == "s: 3000 tools"
    assert lines[-1] == f"{3000 - len(lines[1:-1])} more: raise maxTokens, or search_tools"


def asked(engine: FakeEngine, name: str, **arguments: Any) -> str:
    async def ask() -> JSONObject:
        return await call(engine, META_TOOLS[name], arguments, Caller())  # type: ignore[arg-type]

    return anyio.run(ask)["content"][0]["text"]


@pytest.mark.requirement("BUD-3", "BUD-6")
def test_caller_says_how_long_an_answer_may_be() -> None:
    part = make_part("s", *(make_entry(f"tool_{i}", "s", description="x " * 60) for i in range(40)))
    engine = make_engine(part)

    for name, arguments in (
        ("search_tools", {"query": "tool", "limit": 40}),
        ("list_tools", {"server": "s"}),
    ):
        short = asked(engine, name, **arguments, maxTokens=60)
        long = asked(engine, name, **arguments, max_tokens=600)
        assert estimated_tokens(short) <= 60 < estimated_tokens(long) <= 600
        assert "more: raise maxTokens" in short.splitlines()[-1]


@pytest.mark.requirement("BUD-1", "BUD-3", "BUD-6")
def test_no_caller_gets_more_than_the_most_tokens_and_is_told_what_they_are() -> None:
    wide = {f"argument_{i}": {"type": "string", "description": "about " * 99} for i in range(400)}
    tools = [make_entry(f"tool{'_of_a_long_name' * 6}_{i}", "s") for i in range(1500)]
    wide_tool = make_entry("wide", "s", inputSchema=object_schema(**wide))
    engine = make_engine(make_part("s", wide_tool, *tools))
    requests: dict[str, JSONObject] = {
        "search_tools": {"queries": [f"tool {i}" for i in range(10)], "limit": 100},
        "list_tools": {"server": "s"},
        "get_tool_details": {"tool": "wide"},
    }
    outcomes = {}
    for name, arguments in requests.items():
        most = asked(engine, name, **arguments, maxTokens=25_000)
        more = asked(engine, name, **arguments, maxTokens=10**7)
        less = asked(engine, name, **arguments, maxTokens=24_999)
        outcomes[name] = (
            more == most,
            12_000 < estimated_tokens(most) <= 25_000,
            "25,000 tokens are the most" in most,
            "raise maxTokens" in most,
            "raise maxTokens" in less,
        )

    cut = (True, True, True, False, True)
    whole = (True, True, False, False, False)  # each hit is there, some of them in less detail
    right = {"search_tools": whole, "list_tools": cut, "get_tool_details": cut}
    assert {name: seen for name, seen in outcomes.items() if seen != right[name]} == {}
    assert "more: 25,000 tokens are the most; search_tools" in asked(
        engine, "list_tools", server="s", maxTokens=10**9
    )


@pytest.mark.requirement("BUD-3", "BUD-6")
def test_details_that_are_cut_say_so() -> None:
    wide = {f"argument_{i}": {"type": "string", "description": "about " * 30} for i in range(30)}
    engine = make_engine(make_part("s", make_entry("t", "s", inputSchema=object_schema(**wide))))

    short = asked(engine, "get_tool_details", tool="t", maxTokens=100)

    assert estimated_tokens(short) <= 100
    assert short.splitlines()[-1].startswith("Cut to fit (")
    assert short.splitlines()[-1].endswith(" left out): raise maxTokens")


@pytest.mark.requirement("BUD-6")
def test_usual_budgets_are_the_owners() -> None:
    part = make_part("s", *(make_entry(f"tool_{i}", "s", description="x " * 60) for i in range(40)))
    engine = FakeEngine(
        make_view(
            part,
            search=SearchSettings(max_tokens=60),
            server=ServeSettings(list_tokens=70, details_tokens=50),
        )
    )

    assert estimated_tokens(asked(engine, "search_tools", query="tool")) <= 60
    assert estimated_tokens(asked(engine, "list_tools", server="s")) <= 70
    assert estimated_tokens(asked(engine, "get_tool_details", tool="tool_1")) <= 50


@pytest.mark.requirement("BUD-6")
@rows("queries", range(1, 7))
def test_each_further_query_adds_half_of_the_owners_budget(queries: int) -> None:
    words = [f"word{n}" for n in range(queries)]
    entries = [
        make_entry(f"{word}_{n}", "s", description=f"{word} " * 20)
        for word in words
        for n in range(40)
    ]
    view = make_view(make_part("s", *entries), search=SearchSettings(max_tokens=200, limit=40))

    tokens = estimated_tokens(asked(FakeEngine(view), "search_tools", queries=words))

    assert 0.8 < tokens / (200 + 100 * (queries - 1)) <= 1


@pytest.mark.requirement("BUD-6")
@rows(
    ("section", "name", "arguments", "usual"),
    [
        ({"search": SearchSettings(limit=40)}, "search_tools", {"query": "tool"}, 180),
        ({}, "list_tools", {"server": "s"}, 1200),
        ({}, "list_mcp_servers", {}, 1200),
        ({}, "get_tool_details", {"tool": "tool_1"}, 1000),
        (
            {"search": SearchSettings(limit=40, max_tokens=60)},
            "search_tools",
            {"query": "tool"},
            60,
        ),
        ({"server": ServeSettings(list_tokens=70)}, "list_tools", {"server": "s"}, 70),
        ({"server": ServeSettings(list_tokens=70)}, "list_mcp_servers", {}, 70),
        (
            {"server": ServeSettings(details_tokens=300)},
            "get_tool_details",
            {"tool": "tool_1"},
            300,
        ),
    ],
)
def test_an_answer_that_has_more_to_say_fills_its_usual_budget(
    section: dict[str, Any], name: str, arguments: dict[str, Any], usual: int
) -> None:
    schema = object_schema(
        **{f"argument_{n}": {"type": "string", "description": "x"} for n in range(200)}
    )
    entries = [
        make_entry(f"tool_{n}", "s", description="about " * 9, inputSchema=schema)
        for n in range(99)
    ]
    others = [make_part(f"server_{n:03}") for n in range(300)]

    text = asked(
        FakeEngine(make_view(make_part("s", *entries), *others, **section)), name, **arguments
    )

    assert 0.75 < estimated_tokens(text) / usual <= 1


@pytest.mark.requirement("BUD-5")
def test_several_queries_share_a_budget_in_the_order_asked() -> None:
    entries = [make_entry(f"{word}_{i}", "s") for word in ("sun", "moon") for i in range(20)]
    engine = make_engine(make_part("s", *entries))

    both = asked(engine, "search_tools", queries=["moon", "sun", " moon "], maxTokens=100)
    turned = asked(engine, "search_tools", queries=["sun", "moon"], maxTokens=100)

    moon, _, sun = both.partition('"sun":\n')
    assert moon.startswith('"moon":\nMatch: sure.\ns:moon_0(')
    assert sun.startswith("Match: sure.\ns:sun_0(")
    assert abs(estimated_tokens(moon) - estimated_tokens(sun)) < 10
    assert sorted(both.splitlines()) == sorted(turned.splitlines())


@pytest.mark.requirement("BUD-5")
def test_queries_that_there_is_no_room_for_are_counted() -> None:
    engine = make_engine(make_part("s", make_entry("moon", "s")))

    text = asked(engine, "search_tools", queries=[f"moon {i}" for i in range(10)], maxTokens=80)

    assert estimated_tokens(text) <= 80
    assert text.splitlines()[-1] == "8 more queries: raise maxTokens"


@pytest.mark.requirement("BUD-5")
def test_one_of_several_queries_is_the_query() -> None:
    engine = make_engine()

    assert asked(engine, "search_tools", queries=["issue"]) == asked(
        engine, "search_tools", query="issue"
    )


def ranked_view(*parts: ServerPart) -> View:
    catalog = Catalog.of(parts, revision=1)
    made = make_settings(*(part.server for part in sorted(parts, key=lambda part: part.server)))
    return View(made, catalog, partial(build_searcher, catalog, made.search))


def world(*, turned: bool) -> View:
    """The same tools, put in one order or in the other."""
    step = -1 if turned else 1
    tools = {"files": ["read_file", "write_file"], "git": ["show_file", "git_log", "git_status"]}
    properties = {"path": {"enum": ["a", "b"]}, "depth": {"type": "integer"}}
    schema = object_schema(("path",), **dict(list(properties.items())[::step]))
    parts = [
        make_part(server, *[make_entry(n, server, inputSchema=schema) for n in names[::step]])
        for server, names in list(tools.items())[::step]
    ]
    return ranked_view(*parts)


def told_of(view: View) -> str:
    engine = FakeEngine(view)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("search_tools", {"query": "show a file"}),
        ("search_tools", {"queries": ["read a file", "log"], "maxTokens": 300}),
        ("list_tools", {"server": "git"}),
        ("get_tool_details", {"tool": "show_file"}),
        ("list_mcp_servers", {}),
    ]
    return "\n".join(asked(engine, name, **arguments) for name, arguments in calls)


@pytest.mark.requirement("BUD-7")
def test_answers_do_not_depend_on_the_order_in_which_tools_came() -> None:
    assert told_of(world(turned=False)) == told_of(world(turned=True))


_ELSEWHERE = """
import json
from tests.contract.test_budgets import told_of, world
print(json.dumps(told_of(world(turned=False))))
"""


@pytest.mark.requirement("BUD-7")
@pytest.mark.parametrize("seed", thinned(["0", "1", "4242"]))
def test_answers_are_the_same_in_every_process(seed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ELSEWHERE],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
    )

    assert json.loads(done.stdout) == told_of(world(turned=False))
