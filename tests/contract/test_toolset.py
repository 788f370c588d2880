"""The tools of an engine for an agent framework: `engine.toolset()`."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import anyio
import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine import Toolset
from discovery_engine._util.json import JSONObject
from discovery_engine.agent.content import MediaPart, ResultContent, TextPart
from discovery_engine.agent.definitions import meta_tools
from discovery_engine.agent.portable_schema import PortableSchema
from discovery_engine.config.serve_settings import ServeSettings
from discovery_engine.engine import Engine
from discovery_engine.errors import (
    DiscoveryError,
    InvalidArgumentsError,
    ToolDisabledError,
    ToolNotFoundError,
)
from discovery_engine.events import ToolCalled
from discovery_engine.rpc.client import CallbackClient
from tests.contract.test_modes import ISSUES as CREATE_ISSUE
from tests.contract.test_modes import opened
from tests.engines import Folder, good, heard, pid_of
from tests.factories import make_definition, make_part, make_tool
from tests.rows import rows
from tests.servers.programs import fault_server, text_of
from tests.told import Told
from tests.unit.server.fakes import FakeEngine, make_engine, make_view

pytestmark = pytest.mark.anyio

LABEL = make_definition("add_label", "Add a label to an issue.")
WEATHER = make_definition("forecast", "Get the weather forecast of a city.")


@asynccontextmanager
async def world(folder: Folder, **sections: Any) -> AsyncIterator[Engine]:
    tools = {"github": [CREATE_ISSUE, LABEL], "sky": [WEATHER]}
    async with opened(folder, tools, **sections) as engine:
        yield engine


def toolset(engine: FakeEngine, **options: Any) -> Toolset:
    return Toolset(engine, **options)  # type: ignore[arg-type] - it searches and calls as an engine


def names(tools: list[Any]) -> list[str]:
    return [tool.name for tool in tools]


def bytes_of(tools: Toolset) -> str:
    return json.dumps([tools.as_openai_functions(), tools.as_anthropic_tools(defer=False)])


# The tools


@pytest.mark.requirement("FRM-1")
@given(
    st.lists(st.tuples(st.text(min_size=1), st.text(min_size=1)), unique=True, max_size=6),
    st.sampled_from(["standard", "gemini"]),
    st.integers(10, 200),
)
def test_every_name_fits_the_alphabet_of_models_and_leads_back_to_its_tool(
    tools: list[tuple[str, str]], style: Literal["standard", "gemini"], length: int
) -> None:
    servers = sorted({server for server, _ in tools})
    parts = [make_part(s, *(t for server, t in tools if server == s)) for s in servers]
    serving = ServeSettings(max_tool_name_length=length)
    view = make_view(*parts, tool_rules=(), server=serving)
    made = toolset(FakeEngine(view), mode="select", name_style=style)

    listed = made.available()

    assert len(set(names(listed))) == len(listed) == len(tools)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names(listed))
    assert [made.named(tool.name).origin for tool in listed] == [tool.origin for tool in listed]
    assert style == "standard" or all(name.isidentifier() for name in names(listed))


@pytest.mark.requirement("FRM-1")
async def test_a_name_is_short_enough_for_models_where_clients_take_longer_ones(
    folder: Folder,
) -> None:
    long = make_definition("t" * 100, "Do much.")
    async with opened(folder, {"s": [long]}, server={"maxToolNameLength": 200}) as engine:
        [tool] = engine.toolset(mode="select").available()

        assert len(tool.name) == 64
        assert text_of(await tool.call({})) == "t" * 100


@pytest.mark.requirement("FRM-2")
async def test_meta_tools_are_the_same_bytes_whatever_servers_there_are(folder: Folder) -> None:
    async with world(folder) as engine:
        tools = engine.toolset()
        before = bytes_of(tools)
        await tools.select("weather forecast of a city")
        await engine.forget()

        assert bytes_of(tools) == before
        assert names(tools.tools()) == list(meta_tools(engine.settings))
        assert tools.as_anthropic_tools() == tools.as_anthropic_tools(defer=False)


@pytest.mark.requirement("FRM-3")
async def test_selected_tools_are_bound_by_name_behind_the_search_and_stay_in_their_order(
    folder: Folder,
) -> None:
    async with world(folder) as engine:
        tools = engine.toolset(mode="select")
        assert names(tools.tools()) == ["search_tools", "read_result"]

        selected = await tools.select("get the weather forecast of a city")
        first = tools.as_openai_functions()
        await tools.select("create an issue in a repository")

        assert names(selected) == ["sky__forecast"]
        assert names(tools.tools())[:4] == [
            *("search_tools", "read_result", "sky__forecast"),
            "github__create_issue",
        ]
        assert tools.as_openai_functions()[:3] == first


@pytest.mark.requirement("FRM-3")
async def test_beyond_the_limit_the_tool_leaves_that_was_not_called_lately() -> None:
    tools = [make_tool(name, "s", description=f"Do {name}.") for name in ("one", "two", "three")]
    made = toolset(make_engine(make_part("s", *tools)), mode="select", limit=2)

    await made.select("one")
    await made.select("two")
    await made.named("s__one").call({})
    await made.select("three")

    assert names(made.tools()) == ["search_tools", "read_result", "s__one", "s__three"]
    assert made.limit == 2
    assert names(made.fresh().tools()) == ["search_tools", "read_result"]
    assert made.fresh().limit == 2


@pytest.mark.requirement("FRM-3")
@given(st.lists(st.sampled_from(["one", "two", "three", "four", "nothing"]), max_size=8))
async def test_the_same_conversation_binds_the_same_bytes(requests: list[str]) -> None:
    tools = [make_tool(n, "s", description=f"Do {n}.") for n in ("one", "two", "three", "four")]
    engine = make_engine(make_part("s", *tools))
    made = [toolset(engine, mode="select", limit=2) for _ in range(2)]

    for one in made:
        for request in requests:
            await one.select(request)

    assert bytes_of(made[0]) == bytes_of(made[1])
    assert len(made[0].tools()) <= 4


@pytest.mark.requirement("FRM-4")
async def test_a_request_that_nothing_fits_binds_nothing_and_a_long_one_is_read_at_both_ends(
    folder: Folder,
) -> None:
    async with world(folder) as engine:
        tools = engine.toolset(mode="select")

        assert await tools.select("qwertyuiop asdfghjkl") == []
        assert await tools.select("  ") == []
        long = f"Get the weather forecast of a city. {'€' * 100_000}"
        assert names(await tools.select(long)) == ["sky__forecast"]


@pytest.mark.requirement("FRM-5")
@rows(
    ("own", "shown"),
    [
        pytest.param({}, {"type": "object", "properties": {}}, id="nothing"),
        pytest.param(
            {"$schema": "x", "type": "object", "properties": {"a": True}},
            {"type": "object", "properties": {"a": {}}},
            id="a property of any value",
        ),
        pytest.param(
            {
                "type": "object",
                "properties": {"a": {"type": "string"}},
                "anyOf": [{"required": ["a"]}, {"properties": {"b": {"type": "integer"}}}],
            },
            {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
            },
            id="branches",
        ),
        pytest.param(
            {
                "allOf": [{"$ref": "#/$defs/base"}],
                "$defs": {"base": {"properties": {"a": {}}, "required": ["a"]}},
            },
            {
                "$defs": {"base": {"properties": {"a": {}}, "required": ["a"]}},
                "type": "object",
                "properties": {"a": {}},
                "required": ["a"],
            },
            id="what all branches need",
        ),
        pytest.param(
            {"$ref": "#/$defs/loop", "$defs": {"loop": {"$ref": "#/$defs/loop"}}},
            {
                "$defs": {"loop": {"$ref": "#/$defs/loop"}},
                "type": "object",
                "properties": {},
            },
            id="a reference to itself",
        ),
        pytest.param(
            {"properties": {"$filter": {}, "_filter": {}, "a b": {}}, "required": ["$filter"]},
            {
                "type": "object",
                "properties": {"filter": {}, "_filter": {}, "a_b": {}},
                "required": ["filter"],
            },
            id="names that no API takes",
        ),
        pytest.param(
            {
                "properties": {
                    "pair": {"type": "array", "items": [{"type": "string"}]},
                    "list": {"type": ["array", "null"]},
                    "count": {"minimum": 0, "exclusiveMinimum": True, "required": True},
                },
                "required": ["pair"],
            },
            {
                "type": "object",
                "properties": {
                    "pair": {"type": "array", "prefixItems": [{"type": "string"}], "items": {}},
                    "list": {"type": ["array", "null"], "items": {}},
                    "count": {"exclusiveMinimum": 0},
                },
                "required": ["pair"],
            },
            id="words of older drafts",
        ),
        pytest.param(
            {
                "properties": {
                    "a": {"type": "string"},
                    "b": {"type": "text", "description": "Its text", "minLength": "2"},
                    "c": {"$ref": "#/$defs/none"},
                    "d": {"$ref": "https://example.org/schema"},
                },
                "required": ["b"],
            },
            {
                "type": "object",
                "properties": {
                    "a": {"type": "string"},
                    "b": {"description": "Its text"},
                    "c": {},
                    "d": {},
                },
                "required": ["b"],
            },
            id="properties that are not valid",
        ),
    ],
)
def test_parameters_are_what_the_apis_of_models_take(own: JSONObject, shown: JSONObject) -> None:
    assert PortableSchema.of(own).schema == shown


SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    st.booleans() | st.none() | st.text(max_size=3) | st.just({"type": "string"}),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("properties", "required", "anyOf", "allOf", "$ref", "$defs", "a", "$b"),
                    *("type", "items", "minimum", "exclusiveMinimum", "additionalProperties"),
                ]
            ),
            inner | st.just("#/$defs/a") | st.just(["a", "$b"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.requirement("FRM-5")
@given(st.dictionaries(st.sampled_from(["properties", "anyOf", "$ref", "$defs"]), SCHEMAS))
def test_whatever_a_server_sends_as_a_schema_becomes_one_that_apis_take(own: JSONObject) -> None:
    made = PortableSchema.of(own)

    assert made.schema["type"] == "object"
    assert not {"anyOf", "allOf", "oneOf", "not", "enum", "$ref"} & made.schema.keys()
    assert all(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", n) for n in made.schema["properties"])
    assert jsonschema_rs.meta.is_valid(made.schema)
    assert set(made.schema.get("required", ())) <= made.schema["properties"].keys()


@pytest.mark.requirement("FRM-5", "FRM-22")
async def test_a_parameter_with_another_name_reaches_the_server_under_its_own() -> None:
    schema = {"type": "object", "properties": {"$top": {"type": "integer"}, "class": {}}}
    engine = make_engine(make_part("s", make_tool("list", "s", inputSchema=schema)))
    made = toolset(engine, mode="select")
    made.use("s__list")

    await made.named("s__list").call({"top": 1})
    await made.named("s__list").call({"$top": 2})
    await made.as_callables()[-1](class_="x", top=3)

    assert [call.arguments for call in engine.calls] == [
        {"$top": 1},
        {"$top": 2},
        {"class": "x", "$top": 3},
    ]


@pytest.mark.requirement("FRM-6")
async def test_what_the_model_searches_is_bound_and_named_in_the_answer(folder: Folder) -> None:
    async with world(folder) as engine:
        tools = engine.toolset(mode="select")

        result = await tools.call_as_result("search_tools", '{"query": "weather forecast"}')

        assert "sky__forecast" in text_of(result)
        assert "(1 new; 1 of at most 15)" in text_of(result)
        assert names(tools.tools())[2:] == ["sky__forecast"]


async def test_a_search_of_the_framework_finds_without_binding(folder: Folder) -> None:
    async with world(folder) as engine:
        tools = engine.toolset(mode="select")

        found = await tools.search(["weather forecast of a city", "create an issue", " "])

        assert names(found)[:2] == ["sky__forecast", "github__create_issue"]
        assert names(await tools.search("create an issue", limit=1)) == ["github__create_issue"]
        assert names(tools.tools()) == ["search_tools", "read_result"]


@pytest.mark.requirement("FRM-104")
async def test_an_answer_of_the_search_comes_with_tools_that_are_not_listed(folder: Folder) -> None:
    async with world(folder, server={"pins": ["add_label"]}) as engine:
        tools = engine.toolset(mode="select")
        asked = {"queries": ["create an issue", "add a label"], "limit": "2"}

        answer, found = await tools.answer_search(json.dumps(asked))
        mistaken, nothing = await tools.answer_search({"limit": 1})

        assert names(found) == ["github__create_issue"]
        assert "github__add_label" in text_of(answer)
        assert names(tools.tools())[-1] == "github__add_label"  # nothing was bound
        assert mistaken["isError"]
        assert nothing == []


@pytest.mark.requirement("FRM-8")
async def test_the_first_selection_waits_for_servers_that_were_never_listed(
    folder: Folder,
) -> None:
    folder.write(good())
    async with folder.open() as engine:
        assert names(await engine.toolset(mode="select").select("echo a text")) == ["good__echo"]


@pytest.mark.requirement("FRM-7")
async def test_a_view_shows_finds_and_calls_its_own_tools_only(folder: Folder) -> None:
    async with world(folder, views={"air": {"servers": ["sky"]}}) as engine:
        tools = engine.toolset(view="air", mode="select")
        meta = engine.toolset(view="air")

        assert names(tools.available()) == ["sky__forecast"]
        assert await tools.select("create an issue in a repository") == []
        with pytest.raises(ToolNotFoundError) as refused:
            tools.named("github__create_issue")
        assert refused.value.nearest == ()
        called = {"tool": "github__create_issue", "arguments": {}}
        assert "SERVER_NOT_FOUND" in text_of(
            await meta.call_as_result("execute_tool", {**called, "server": "github"})
        )


@pytest.mark.requirement("FRM-7")
async def test_what_is_not_exposed_is_not_there_and_what_is_pinned_is_always_bound(
    folder: Folder,
) -> None:
    settings = {"expose": ["!add_label"], "pins": ["forecast"]}
    async with world(folder, server=settings) as engine:
        tools = engine.toolset(mode="select")

        assert names(tools.available()) == ["github__create_issue", "sky__forecast"]
        assert names(tools.tools())[2:] == ["sky__forecast"]


# Calls


@pytest.mark.requirement("FRM-10", "FRM-11")
async def test_a_program_gets_exceptions_and_a_model_text_that_it_can_act_on(
    folder: Folder,
) -> None:
    async with world(folder, toolRules=[{"pattern": ["add_label"], "enabled": False}]) as engine:
        tools = engine.toolset(mode="select")
        issue = tools.named("github__create_issue")

        with pytest.raises(InvalidArgumentsError):
            await issue.call({"title": "It broke"})
        refused = await issue.call_as_result({"title": "It broke"})
        unknown = await tools.call_as_result("github__create_isue", None)
        not_json = await tools.call_as_result("github__create_issue", "{title")

        assert refused["isError"]
        assert text_of(refused).startswith("INVALID_ARGUMENTS: ")
        assert "owner is missing" in text_of(refused)
        assert "did you mean 'github__create_issue'" in text_of(unknown)
        assert "search_tools finds tools" in text_of(unknown)
        assert "must be a JSON object" in text_of(not_json)
        with pytest.raises(DiscoveryError, match="query or queries is required"):
            await engine.toolset().named("search_tools").call({})
        with pytest.raises(ToolNotFoundError, match="github__add_label"):
            tools.named("github__add_label")
        unknown = await engine.toolset().call_as_result("github__create_issue", {})
        assert "is called through execute_tool" in text_of(unknown)


@pytest.mark.requirement("FRM-10")
async def test_the_failure_of_a_tool_is_a_result(folder: Folder) -> None:
    folder.write(fault_server("tool_error", name="s"))
    async with folder.open() as engine:
        await engine.refresh()
        result = await engine.toolset(mode="select").named("s__echo").call({"text": "x"})

    assert result["isError"]


@pytest.mark.requirement("FRM-12")
async def test_progress_and_cancellation_pass_through(folder: Folder) -> None:
    folder.write(fault_server("progress", name="p"), fault_server("awaits_file", name="w"))
    seen: list[float] = []

    async with folder.open() as engine:
        await engine.refresh()
        tools = engine.toolset(mode="select")
        with (
            anyio.fail_after(60),
            anyio.CancelScope() as scope,
            engine.subscribe(ToolCalled) as ended,
        ):

            async def on_progress(progress: float, _: float | None, __: str | None) -> None:
                seen.append(progress)
                if len(seen) > 3:
                    scope.cancel()

            await tools.named("p__echo").call_as_result({"text": "x"}, on_progress=on_progress)
            never = {"text": str(folder.path / "never")}
            await tools.named("w__echo").call(never, on_progress=on_progress)

        assert len(seen) > 3
        assert seen[:3] == sorted(seen[:3])
        assert scope.cancelled_caught
        assert [(await heard(ended, ToolCalled)).outcome for _ in range(2)] == ["ok", "cancelled"]


@pytest.mark.requirement("FRM-12")
async def test_a_question_goes_to_the_client_of_the_toolset_or_of_the_call(folder: Folder) -> None:
    folder.write(fault_server("asks", name="s", program="asking_server.py"))
    asked: list[str] = []

    def client(name: str) -> CallbackClient:
        async def ask(method: str, _: JSONObject) -> JSONObject:
            asked.append(f"{name}: {method}")
            return {"action": "decline"}

        return CallbackClient(ask, id=name, capabilities={"elicitation": {"form": {}}})

    async with folder.open() as engine:
        await engine.refresh()
        tools = engine.toolset(mode="select", client=client("ann"))
        [tool] = [one for one in tools.available() if one.name.endswith("echo")]
        await tool.call({})
        await tool.call({}, client=client("bob"))

    assert asked == ["ann: elicitation/create", "bob: elicitation/create"]


@pytest.mark.requirement("FRM-13")
async def test_a_changed_catalog_is_used_in_the_next_turn(folder: Folder) -> None:
    async with world(folder) as engine:
        tools = engine.toolset(mode="select")
        await tools.select("create an issue")
        await tools.select("weather forecast of a city")
        kept = tools.named("github__create_issue")
        gone = tools.named("sky__forecast")
        before = tools.as_openai_functions()

        Told(folder.path / "sky" / "told.json").says(make_definition("sunrise", "Get the sunrise."))
        await engine.refresh()

        assert tools.as_openai_functions() == [
            one for one in before if one["function"]["name"] != "sky__forecast"
        ]
        assert tools.named("github__create_issue") == kept
        assert names(await tools.select("when is sunrise"))[-1] == "sky__sunrise"
        with pytest.raises(ToolNotFoundError):
            await gone.call({})
        assert "did you mean" not in text_of(await gone.call_as_result({}))


@pytest.mark.requirement("FRM-13")
async def test_a_tool_that_a_rule_disables_meanwhile_is_neither_listed_nor_called(
    folder: Folder,
) -> None:
    async with world(folder) as engine:
        tools = engine.toolset(mode="select")
        [tool] = await tools.select("weather forecast of a city")

        content = json.loads(folder.config.read_text("utf-8"))
        content["toolRules"] = [{"pattern": ["forecast"], "enabled": False}]
        folder.config.write_text(json.dumps(content), "utf-8")
        await engine.reload()

        assert names(tools.tools()) == ["search_tools", "read_result"]
        with pytest.raises(ToolDisabledError):
            await tool.call({})
        assert text_of(await tool.call_as_result({})).startswith("TOOL_DISABLED")


@pytest.mark.requirement("FRM-13")
async def test_a_server_that_dies_in_a_call_is_an_error_to_act_on_and_the_others_work(
    folder: Folder,
) -> None:
    folder.write(fault_server("crash_call", name="dies"), good())
    async with folder.open() as engine:
        await engine.refresh()
        tools = engine.toolset(mode="select")

        broken = await tools.call_as_result("dies__echo", {"text": "x"})

        assert broken["isError"]
        assert text_of(broken).startswith("TOOL_OUTCOME_UNKNOWN: ")
        assert text_of(await tools.call_as_result("good__echo", {"text": "x"})) == '{"text": "x"}'


@pytest.mark.requirement("FRM-14")
async def test_two_agents_on_one_engine_share_no_list_and_have_sessions_of_their_own(
    folder: Folder,
) -> None:
    folder.write(good(session="per_client"), good("other"))
    async with folder.open() as engine:
        await engine.refresh()
        ann, bob = (
            engine.toolset(mode="select", client=CallbackClient(id=name)) for name in ("ann", "bob")
        )
        pids: dict[str, str] = {}

        async def run(name: str, agent: Toolset, tool: str) -> None:
            agent.use(tool)
            pids[name] = text_of(await agent.named("good__pid").call({}))

        async with anyio.create_task_group() as group:
            group.start_soon(run, "ann", ann, "good__pid")
            group.start_soon(run, "bob", bob, "other__pid")

        assert names(ann.tools())[2:] == ["good__pid"]
        assert names(bob.tools())[2:] == ["other__pid"]
        assert pids["ann"] != pids["bob"]
        assert int(pids["ann"]) == await pid_of(engine, "good", "ann")


@pytest.mark.requirement("FRM-9")
async def test_a_conversation_is_replayed_to_the_same_tools_within_a_bound_of_searches() -> None:
    tools = [make_tool(name, "s", description=f"Do {name}.") for name in ("one", "two", "three")]
    engine = make_engine(make_part("s", *tools))
    made = toolset(engine, mode="select")
    asked: list[str] = []
    search = engine.search

    async def counted(query: str, **given: Any) -> Any:
        asked.append(query)
        return await search(query, **given)

    engine.search = counted  # type: ignore[method-assign]
    begun = await made.replay(["one", ("search_tools", {"query": "two"})])
    again = await made.replay(["one", ("search_tools", '{"query": "two"}'), ("s__three", {})])
    asked.clear()
    await made.replay([("s__one", {}), *["two"] * 200, ("execute_tool", {}), ("read_result", {})])

    assert names(begun.tools())[2:] == ["s__one", "s__two"]
    assert again.as_openai_functions()[: len(begun.tools())] == begun.as_openai_functions()
    assert names(again.tools())[-1] == "s__three"
    assert len(asked) == 50
    assert names(made.tools()) == ["search_tools", "read_result"]


# Forms


@pytest.mark.requirement("FRM-20")
async def test_functions_for_openai_have_the_form_of_their_api() -> None:
    engine = make_engine(make_part("s", make_tool("talk", "s", description="word " * 400)))
    made = toolset(engine, mode="select")
    made.use("s__talk")

    chat, responses = made.as_openai_functions()[-1], made.as_openai_functions(api="responses")[-1]

    assert chat.keys() == {"type", "function"}
    assert len(chat["function"]["description"]) <= 1024
    assert chat["function"]["description"].endswith("word…")
    assert responses == {"type": "function", **chat["function"], "strict": False}


@pytest.mark.requirement("FRM-21")
async def test_tools_for_anthropic_are_all_there_and_deferred(folder: Folder) -> None:
    async with world(folder) as engine:
        tools = engine.toolset(mode="select")
        forms = tools.as_anthropic_tools()

        assert {form["name"]: form.get("defer_loading", False) for form in forms} == {
            "search_tools": False,
            "read_result": False,
            "github__add_label": True,
            "github__create_issue": True,
            "sky__forecast": True,
        }
        assert [form["name"] for form in tools.as_anthropic_tools(defer=False)] == [
            "search_tools",
            "read_result",
        ]


@pytest.mark.requirement("FRM-22")
async def test_a_function_has_a_name_a_docstring_and_a_signature_from_the_schema() -> None:
    schema = {
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "Its title"},
            "labels": {"type": "array", "items": {"type": "string"}},
            "state": {"enum": ["open", "closed"]},
            "size": {"type": ["integer", "null"]},
            "deep": {"anyOf": [{"type": "number"}, {"type": "boolean"}]},
            "any": {},
            "2nd": {"type": "object"},
        },
        "required": ["title", "any"],
    }
    tool = make_tool("create", "s", description="Create it.", inputSchema=schema)
    engine = make_engine(
        make_part("s", tool), result={"content": [], "structuredContent": {"n": 1}}
    )
    made = toolset(engine, mode="select")
    made.use("s__create")

    function = made.as_callables()[-1]

    assert inspect.iscoroutinefunction(function)
    assert function.__name__ == "s__create"  # type: ignore[attr-defined]
    assert function.__doc__
    assert function.__doc__.startswith("Create it.\n\nArgs:\n    title: Its title\n")
    parameters = inspect.signature(function).parameters
    assert {name: one.annotation for name, one in parameters.items()} == {
        "title": str,
        "any": Any,
        "labels": list[str] | None,
        "state": Literal["open", "closed"] | None,
        "size": int | None,
        "deep": float | bool | None,
        "_2nd": dict[str, Any] | None,
    }
    assert await function("A", 1, labels=None, _2nd={}) == '{"n": 1}'
    assert engine.calls[-1].arguments == {"title": "A", "any": 1, "2nd": {}}
    assert "INVALID_ARGUMENTS" in await function(title=1, any=None)


@rows(
    ("block", "part", "text"),
    [
        ({"type": "text", "text": "a"}, TextPart("a"), "a"),
        (
            {"type": "image", "mimeType": "image/png", "data": "AAAA"},
            MediaPart("image", "image/png", "AAAA"),
            "[image image/png, 3 bytes]",
        ),
        (
            {
                "type": "resource",
                "resource": {"uri": "x:y", "mimeType": "audio/wav", "blob": "AA=="},
            },
            MediaPart("audio", "audio/wav", "AA==", "x:y"),
            "[resource x:y, 3 bytes]",
        ),
        ({"type": "resource", "resource": {"uri": "x:y", "text": "t"}}, TextPart("t"), "t"),
        ({"type": "resource_link", "name": "n", "uri": "u"}, TextPart("n <u>"), "n <u>"),
    ],
)
def test_content_is_neutral_parts(block: Any, part: Any, text: str) -> None:
    content = ResultContent.of({"content": [block], "isError": True})

    assert content.parts == (part,)
    assert content.text == text
    assert content.structured is None
    assert content.is_error
    assert ResultContent.of({"content": [], "structuredContent": [1]}).text == "[1]"
    assert all(one.content for one in content.media)


@pytest.mark.requirement("FRM-100")
@rows(
    ("texts", "structured", "added"),
    [
        pytest.param(["3 rows"], {"rows": [1, 2, 3]}, ['{"rows": [1, 2, 3]}'], id="a summary"),
        pytest.param(['{ "n":1 }'], {"n": 1}, [], id="the same as text"),
        pytest.param(["sunny"], {"result": "sunny"}, [], id="a wrapped text"),
        pytest.param(["5"], {"result": 5}, [], id="a wrapped number"),
        pytest.param(["a", "b"], {"result": ["a", "b"]}, [], id="wrapped texts, one by one"),
        pytest.param(['{"a": 1}', "2"], {"result": [{"a": 1}, 2]}, [], id="wrapped values"),
        pytest.param(["a"], {"result": ["a", "b"]}, ['{"result": ["a", "b"]}'], id="a part of it"),
        pytest.param([], {"n": 1}, ['{"n": 1}'], id="no text"),
        pytest.param(["x"], None, [], id="none"),
    ],
)
def test_structured_content_is_shown_unless_a_text_says_it(
    texts: list[str], structured: JSONObject | None, added: list[str]
) -> None:
    content = [{"type": "text", "text": text} for text in texts]

    made = ResultContent.of({"content": content, "structuredContent": structured})

    assert made.parts == tuple(map(TextPart, [*texts, *added]))
    assert made.structured == structured
