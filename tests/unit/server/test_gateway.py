from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from mcp import Client, MCPError

from discovery_engine._util.json import JSONObject
from discovery_engine.errors import (
    FailureKind,
    UnavailableError,
    UpstreamTimeoutError,
)
from discovery_engine.rpc.protocol import LATEST_MODERN
from discovery_engine.tools.offering import OfferingKind
from discovery_engine.upstream.state import ServerState, StateInfo
from discovery_server.gateway import ClientRequest, Gateway
from tests.factories import make_entry, make_offering_entry, make_part, make_server
from tests.rows import rows
from tests.unit.server import sdk_client
from tests.unit.server.fakes import CLOCK, ISSUES, Call, FakeEngine, make_engine, make_view

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])


def connected(engine: FakeEngine, mode: str = "auto") -> AbstractAsyncContextManager[Client]:
    return sdk_client.connected(Gateway(engine), mode)


async def text_of(engine: FakeEngine, mode: str, name: str, **arguments: Any) -> str:
    async with connected(engine, mode) as client:
        result = await client.call_tool(name, arguments)
        return "\n".join(block.text for block in result.content)


@ERAS
@pytest.mark.requirement("MET-1", "MET-2", "SRV-1")
async def test_the_meta_tools_are_listed_in_either_era(mode: str) -> None:
    async with connected(make_engine(), mode) as client:
        tools = (await client.list_tools()).tools

    assert [tool.name for tool in tools] == [
        "list_mcp_servers",
        "search_tools",
        "list_tools",
        "get_tool_details",
        "execute_tool",
        "read_result",
    ]
    assert [tool.annotations.read_only_hint for tool in tools] == [True] * 4 + [False, True]
    assert tools[4].annotations.destructive_hint
    assert tools[4].annotations.open_world_hint


@pytest.mark.requirement("MET-1")
async def test_definitions_do_not_change_with_the_catalog() -> None:
    lists = []
    for engine in (make_engine(), FakeEngine(make_view())):
        async with connected(engine) as client:
            lists.append((await client.list_tools()).tools)

    assert lists[0] == lists[1]


@pytest.mark.requirement("MET-4")
async def test_list_of_tools_may_be_kept_for_a_day_by_everyone() -> None:
    async with connected(make_engine()) as client:
        listed = await client.list_tools()

    assert (listed.ttl_ms, listed.cache_scope) == (86_400_000, "public")


@ERAS
@pytest.mark.requirement("MET-10")
@pytest.mark.parametrize(
    "named",
    [
        pytest.param({"tool": "github:create_issue"}, id="shorthand"),
        pytest.param({"server": "github", "tool": "create_issue"}, id="apart"),
        pytest.param({"tool": "create_issue"}, id="alone"),
        pytest.param({"server": "github", "tool": "github:create_issue"}, id="twice"),
        pytest.param({"tool": "mcp__github__create_issue"}, id="as hosts spell it"),
    ],
)
async def test_tool_is_found_however_it_is_named(mode: str, named: dict[str, str]) -> None:
    engine = make_engine()

    text = await text_of(engine, mode, "get_tool_details", **named)
    await text_of(engine, mode, "execute_tool", **named, arguments={"title": "x"})

    assert text.startswith("github:create_issue")
    assert engine.calls[0].tool == "github:create_issue"
    assert engine.calls[0].arguments == {"title": "x"}


@ERAS
@pytest.mark.requirement("MET-16")
@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        pytest.param(
            "list_tools",
            {"server": "gihub"},
            "SERVER_NOT_FOUND: server 'gihub' is not configured\ndid you mean 'github'?; "
            "list_mcp_servers names them all",
            id="server",
        ),
        pytest.param(
            "execute_tool",
            {"tool": "github:list_isues"},
            "TOOL_NOT_FOUND: server 'github' has no tool 'list_isues'\n"
            "did you mean 'list_issues'?; list_tools names a server's tools",
            id="tool",
        ),
        pytest.param(
            "execute_tool",
            {"tool": "delete_repository"},
            "TOOL_DISABLED: tool 'github:delete_repository' is disabled: a rule "
            "of the owner\n"
            "the owner of the configuration decides this; use another tool",
            id="disabled",
        ),
        pytest.param(
            "search_tools",
            {},
            "VALIDATION_ERROR: query or queries is required\n"
            "it takes search_tools(query?, queries?, server?, limit?, tags?, kinds?, maxTokens?)",
            id="missing argument of a meta-tool",
        ),
    ],
)
async def test_each_mistake_is_told_apart(
    mode: str, name: str, arguments: JSONObject, expected: str
) -> None:
    assert await text_of(make_engine(), mode, name, **arguments) == expected


@pytest.mark.requirement("MET-16")
async def test_invalid_arguments_are_answered_with_the_signature_and_not_sent() -> None:
    engine = make_engine()

    text = await text_of(engine, "auto", "execute_tool", tool="create_issue", arguments={})

    assert text.startswith("INVALID_ARGUMENTS: arguments of 'github:create_issue' do not fit")
    assert "it takes create_issue(title: string" in text
    assert engine.calls == []


@pytest.mark.requirement("MET-16")
@rows(
    ("error", "code"),
    [
        pytest.param(
            UnavailableError("github", FailureKind.EXITED, "it exited"),
            "SERVER_CONNECTION_ERROR",
            id="down",
        ),
        pytest.param(
            UpstreamTimeoutError("github", "list_issues", 60), "TOOL_EXECUTION_TIMEOUT", id="slow"
        ),
    ],
)
async def test_outage_and_timeout_have_their_codes(error: Exception, code: str) -> None:
    async def fail(_: Call) -> JSONObject:
        raise error

    text = await text_of(make_engine(execution=fail), "auto", "execute_tool", tool="list_issues")

    assert text.startswith(f"{code}: server 'github' ")


@pytest.mark.requirement("MET-18")
async def test_fault_of_ours_is_told_without_its_internals(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(_: Call) -> JSONObject:
        raise ZeroDivisionError("secret")

    engine = make_engine(execution=fail)

    text = await text_of(engine, "auto", "execute_tool", tool="list_issues")

    assert text == "DISCOVERY_ERROR: an internal error; the server's log has the details"
    assert "execute_tool failed" in caplog.text


@ERAS
@pytest.mark.requirement("MET-17")
async def test_tool_that_is_not_one_of_the_five_is_a_protocol_error(mode: str) -> None:
    async with connected(make_engine(), mode) as client:
        with pytest.raises(MCPError, match="called through execute_tool") as caught:
            await client.call_tool("create_issue", {})

    assert caught.value.code == -32602


@ERAS
@pytest.mark.requirement("MET-19")
async def test_tools_own_failure_is_its_own_result(mode: str) -> None:
    failure = {"content": [{"type": "text", "text": "No such repository"}], "isError": True}

    async with connected(make_engine(result=failure), mode) as client:
        result = await client.call_tool("execute_tool", {"tool": "list_issues"})

    assert result.is_error
    assert [block.text for block in result.content] == ["No such repository"]


@pytest.mark.requirement("MET-11")
async def test_unknown_tool_names_the_servers_that_could_not_be_asked() -> None:
    servers = [make_server("github"), make_server("down")]
    engine = FakeEngine(make_view(ISSUES, servers=servers))

    text = await text_of(engine, "auto", "get_tool_details", tool="merge_pull_request")

    assert text.startswith("TOOL_NOT_FOUND")
    assert text.endswith("Note: down (pending): its tools are not known")


@pytest.mark.requirement("MET-12")
async def test_first_search_waits_for_the_servers() -> None:
    unknown = make_view(servers=[make_server("time")])
    engine = FakeEngine(unknown, learns=make_view(CLOCK))

    text = await text_of(engine, "auto", "search_tools", query="current time")

    assert text.startswith("Match: sure.\ntime:get_current_time")
    assert engine.waits == ["all"]


@pytest.mark.requirement("MET-12")
async def test_search_tells_what_is_still_loading() -> None:
    live = {"time": StateInfo(ServerState.STARTING, starting_for=12.9, stderr="Downloading s3cret")}
    engine = FakeEngine(make_view(servers=[make_server("time")], live=live))

    text = await text_of(engine, "auto", "search_tools", query="current time")

    assert text == (
        "No tool is known yet.\n"
        "Note: time: starting, 12 s; its tools are not known yet; ask again in a few seconds"
    )


@pytest.mark.requirement("MET-9")
async def test_the_list_of_servers_is_the_same_before_during_and_after_a_refresh() -> None:
    servers = [make_server("time"), make_server("new")]
    states: list[StateInfo | None] = [
        None,
        StateInfo(ServerState.STARTING),
        StateInfo(ServerState.STARTING, starting_for=3.0, stderr="Downloading"),
        StateInfo(ServerState.STARTING, starting_for=14.0),
        StateInfo(ServerState.READY),
        StateInfo(ServerState.IDLE),
    ]
    told = set()

    for state in states:
        live = (
            {"time": state, "new": StateInfo(ServerState.STARTING, starting_for=1.0)}
            if state
            else {}
        )
        engine = FakeEngine(make_view(CLOCK, servers=servers, live=live))
        told.add(await text_of(engine, "auto", "list_mcp_servers"))

    assert told == {"new (0 tools) starting\ntime (1 tool)"}


@pytest.mark.requirement("MET-12")
async def test_the_list_of_servers_waits_when_nothing_is_known_of_any() -> None:
    unknown = make_view(servers=[make_server("time")])
    engine = FakeEngine(unknown, learns=make_view(CLOCK))

    assert await text_of(engine, "auto", "list_mcp_servers") == "time (1 tool)"
    assert engine.waits == ["all"]


@pytest.mark.requirement("MET-12")
async def test_question_about_one_server_waits_for_that_one_only() -> None:
    servers = [make_server("github"), make_server("time")]
    engine = FakeEngine(
        make_view(ISSUES, servers=servers), learns=make_view(ISSUES, CLOCK, servers=servers)
    )

    text = await text_of(engine, "auto", "list_tools", server="time")

    assert text.startswith("time: 1 tool\nget_current_time()")
    assert engine.waits == ["time"]


async def test_known_servers_are_not_waited_for() -> None:
    engine = make_engine()

    await text_of(engine, "auto", "search_tools", query="issue", server="github", limit=1)

    assert engine.waits == []


async def test_disabled_server_says_so() -> None:
    engine = FakeEngine(make_view(servers=[make_server("off", enabled=False)]))

    text = await text_of(engine, "auto", "list_tools", server="off")

    assert text.startswith(
        "SERVER_DISABLED: server 'off' is disabled: its entry has enabled: false"
    )


async def test_servers_are_listed() -> None:
    assert await text_of(make_engine(), "auto", "list_mcp_servers") == (
        "github (2 tools, 1 disabled)\ntime (1 tool)"
    )


@ERAS
@pytest.mark.requirement("MET-22")
async def test_instructions_are_those_of_the_moment(mode: str) -> None:
    engine = make_engine()
    gateway = Gateway(engine)
    engine.view = make_view(make_part("late", make_entry("arrive", "late")))

    async with sdk_client.connected(gateway, mode) as client:
        assert "- late (1): such as arrive" in (client.instructions or "")


@pytest.mark.requirement("SCP-10")
@rows(
    ("method", "params"),
    [("resources/read", {"uri": "x:/page"}), ("prompts/get", {"name": "summary"})],
)
def test_a_request_about_what_is_not_shown_any_more_is_not_continued(
    method: str, params: JSONObject
) -> None:
    offered = (
        make_offering_entry("x:/page"),
        make_offering_entry("summary", kind=OfferingKind.PROMPT),
    )
    engine = FakeEngine(make_view(make_part("docs", offerings=offered)))
    gateway = Gateway(engine, is_of_owner=False)
    begun = ClientRequest(method, params, LATEST_MODERN)

    before = gateway.still_shows(begun, ["docs"])
    engine.view = make_view(make_part("docs"))

    assert before
    assert not gateway.still_shows(begun, ["docs"])


@ERAS
@pytest.mark.requirement("MET-23")
async def test_usage_guide_is_a_prompt(mode: str) -> None:
    async with connected(make_engine(), mode) as client:
        [prompt] = (await client.list_prompts()).prompts
        [message] = (await client.get_prompt(prompt.name)).messages
        with pytest.raises(MCPError, match="PROMPT_NOT_FOUND"):
            await client.get_prompt("other")

    assert prompt.name == "mcp-discovery-usage-guide"
    assert "# Using the tools behind this gateway" in message.content.text
    assert "- github (2)" in message.content.text


@ERAS
@pytest.mark.requirement("MET-24")
async def test_resources_and_templates_are_listed_and_read(mode: str) -> None:
    async with connected(make_engine(), mode) as client:
        resources = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        read = await client.read_resource("discovery://servers/github/info")

    assert [str(resource.uri) for resource in resources] == [
        "discovery://docs/usage-guide",
        "discovery://docs/quick-reference",
        "discovery://docs/troubleshooting",
    ]
    assert [template.uri_template for template in templates] == [
        "discovery://servers/{server}/info",
        "discovery://servers/{server}/tools",
        "discovery://servers/{server}/tools/{tool}",
    ]
    assert '"name": "github"' in read.contents[0].text


@rows(
    ("mode", "uri", "code"),
    [
        pytest.param("legacy", "discovery://docs/none", -32002, id="missing, handshake era"),
        pytest.param("auto", "discovery://docs/none", -32602, id="missing, since 2026-07-28"),
        pytest.param(
            "legacy", "discovery://servers/github/tools/delete_repository", -32602, id="disabled"
        ),
    ],
)
async def test_resource_that_is_not_there_is_an_error(mode: str, uri: str, code: int) -> None:
    async with connected(make_engine(), mode) as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(uri)

    assert caught.value.code == code
