"""What clients are shown with each `server.mode`, on the wire."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from discovery_engine import Engine
from discovery_server.gateway import Gateway
from discovery_server.list_changed_hook import open_list_changed_hook
from discovery_server.surfaces import HOSTS
from tests.catalogs import JSONObject
from tests.engines import Folder, good
from tests.factories import make_definition
from tests.rows import rows
from tests.servers.programs import eventually
from tests.told import Told
from tests.unit.server.wire import HANDSHAKE, INITIALIZED, MODERN, Wire, request, served

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("era", ["legacy", pytest.param("modern", marks=pytest.mark.matrix)])
ISSUES = make_definition(
    "create_issue",
    "Create an issue in a repository.",
    title="Create issue",
    annotations={"destructiveHint": False},
    outputSchema={"type": "object", "properties": {"number": {"type": "integer"}}},
    inputSchema={
        "type": "object",
        "properties": {
            "title": {"type": "string", "x-mcp-header": "Title"},
            "owner": {"type": "string", "minLength": 1},
        },
        "required": ["title", "owner"],
        "$defs": {"unused": {"const": 1.5}},
    },
    _meta={"vendor": {"any": [1, None]}},
)


class Session(Wire):
    """A client with some helpers, and the notifications that it has received."""

    era = "legacy"
    number = 100
    info: ClassVar[dict[str, str]] = {}
    opened: ClassVar[dict[str, Any]] = {}
    """The answer to `initialize`."""

    async def asked(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer; notifications before it are kept."""
        self.number += 1
        info = {"io.modelcontextprotocol/clientInfo": self.info} if self.info else {}
        envelope = {"_meta": MODERN | info} if self.era == "modern" else {}
        await self.send(request(self.number, method, **params, **envelope))
        while "id" not in (message := await self.receive()):
            self.notified.append(message["method"])
        return message

    async def listed(self) -> dict[str, dict[str, Any]]:
        """The definitions of the listed tools, by their names."""
        tools = (await self.asked("tools/list"))["result"]["tools"]
        return {tool["name"]: tool for tool in tools}

    async def tools(self) -> list[str]:
        """The names of the listed tools, without the one that reads on in results."""
        listed = (await self.asked("tools/list"))["result"]["tools"]
        return [tool["name"] for tool in listed if tool["name"] != "read_result"]

    async def called(self, name: str, **arguments: Any) -> dict[str, Any]:
        return await self.asked("tools/call", name=name, arguments=arguments)

    async def found(self, query: str, **arguments: Any) -> dict[str, Any]:
        """The fields of a search's answer."""
        result = (await self.called("search_tools", query=query, **arguments))["result"]
        return {"text": result["content"][0]["text"], **result["_meta"]["discovery/answer"]}


@asynccontextmanager
async def client_of(
    gateway: Gateway, era: str = "legacy", info: dict[str, str] | None = None
) -> AsyncIterator[Session]:
    async with served(gateway) as wire:
        session = Session(wire.to_server, wire.from_server, wire.answered)
        session.era, session.notified = era, []  # type: ignore[attr-defined]
        session.info = info or {}  # type: ignore[misc]
        if era == "legacy":
            named = {"clientInfo": info} if info else {}
            session.opened = await session.asked("initialize", **HANDSHAKE | named)
            await session.send(INITIALIZED)
        yield session


@asynccontextmanager
async def opened(
    folder: Folder, tools: dict[str, list[dict[str, Any]]], **sections: Any
) -> AsyncIterator[Engine]:
    """An engine whose servers list these tools."""
    servers = []
    for name, definitions in tools.items():
        (folder.path / name).mkdir(exist_ok=True)
        servers.append(Told.beside(folder.path / name, *definitions).server(name))
    folder.write(*servers, **sections)
    async with folder.open() as engine:
        await engine.refresh()
        yield engine


@asynccontextmanager
async def direct(
    folder: Folder,
    tools: dict[str, list[dict[str, Any]]],
    era: str = "legacy",
    *,
    sections: dict[str, Any] | None = None,
    **server: Any,
) -> AsyncIterator[Session]:
    settings = {"mode": "direct", **server}
    async with (
        opened(folder, tools, server=settings, **(sections or {})) as engine,
        client_of(Gateway(engine), era) as client,
    ):
        yield client


def numbered(count: int, prefix: str = "tool") -> list[dict[str, Any]]:
    return [make_definition(f"{prefix}_{n:03}", f"Do the thing number {n}.") for n in range(count)]


@ERAS
@pytest.mark.requirement("MOD-1")
async def test_definition_is_the_upstreams_under_its_name_towards_clients(
    folder: Folder, era: str
) -> None:
    async with direct(folder, {"hub": [ISSUES]}, era) as client:
        listed = (await client.asked("tools/list"))["result"]

    tool, read_result = listed["tools"]
    assert tool == {**ISSUES, "name": "hub__create_issue"}
    assert read_result["name"] == "read_result"
    hints = {key: listed.get(key) for key in ("ttlMs", "cacheScope")}
    modern = {"ttlMs": 60_000, "cacheScope": "private"}
    assert hints == (modern if era == "modern" else {"ttlMs": None, "cacheScope": None})


@pytest.mark.requirement("MOD-11")
async def test_client_reads_on_in_a_result_that_was_cut(folder: Folder) -> None:
    server = {"mode": "dynamic", "maxResultTokens": 250, "pins": ["echo"]}
    folder.write(good("f"), server=server)
    words = " ".join(f"word{n}" for n in range(2000))
    async with folder.open() as engine:
        await engine.refresh()
        async with client_of(Gateway(engine)) as client:
            listed = (await client.asked("tools/list"))["result"]["tools"]
            cut = (await client.called("f__echo", text=words))["result"]
            handle = cut["_meta"]["discovery/answer"]["handle"]
            rest = (await client.called("read_result", handle=handle, search="word1999"))["result"]

    assert "read_result" in {tool["name"] for tool in listed}
    assert "word1999" not in cut["content"][0]["text"]
    assert "word1999" in rest["content"][0]["text"]


@pytest.mark.requirement("MOD-3")
async def test_a_call_by_name_passes_whole_and_any_other_name_is_an_error(folder: Folder) -> None:
    rules = [{"pattern": "pid", "enabled": False}]
    folder.write(good("f"), server={"mode": "direct"}, toolRules=rules)
    async with folder.open() as engine:
        await engine.refresh()
        async with client_of(Gateway(engine)) as client:
            answer = (await client.called("f__echo", text="hi"))["result"]
            expected = await engine.execute("f", "echo", {"text": "hi"})
            names = ("search_tools", "execute_tool", "f__pid", "f:echo", "echo")
            errors = [(await client.called(name))["error"] for name in names]

    assert answer["content"] == expected["content"]
    assert answer.get("structuredContent") == expected.get("structuredContent")
    assert {error["code"] for error in errors} == {-32602}
    assert "tools/list" in errors[0]["message"]


@pytest.mark.requirement("MOD-4")
@rows("mode", ["direct", "dynamic"])
async def test_what_is_not_exposed_is_neither_listed_found_nor_called(
    tmp_path: Path, mode: str
) -> None:
    server = {"mode": mode, "expose": ["zoo:*", "!feed_*"]}
    rules = [{"pattern": "wash_dog", "enabled": False}]  # stays hidden
    tools = {"zoo": ANIMALS, "other": ANIMALS}
    async with (
        opened(Folder(tmp_path), tools, server=server, toolRules=rules) as engine,
        client_of(Gateway(engine)) as client,
    ):
        if mode == "dynamic":
            await client.found("feed the cat, wash the dog and count the birds")
        shown = await client.tools()
        calls = [await client.called(f"{name}__feed_cat") for name in tools]

    assert [name for name in shown if name != "search_tools"] == ["zoo__count_birds"]
    assert all("error" in answer for answer in calls)


@pytest.mark.requirement("MOD-5")
async def test_list_is_limited_and_each_server_gets_its_turn(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    tools = {"big": numbered(30), "small": numbered(2), "tiny": numbered(1)}
    settings = {"mode": "direct", "poolLimit": 6, "pins": ["big:tool_029"]}
    async with opened(folder, tools, server=settings) as engine:
        async with served(Gateway(engine)) as wire:
            instructions = (await wire.ask(request(1, "initialize", **HANDSHAKE)))["result"][
                "instructions"
            ]
        async with client_of(Gateway(engine)) as client:
            listed = await client.tools()
            await client.tools()
            unlisted = await client.called("big__tool_020")

    assert listed == [
        *("big__tool_000", "big__tool_001", "big__tool_029"),
        *("small__tool_000", "small__tool_001", "tiny__tool_000"),
    ]
    assert "result" in unlisted
    assert caplog.text.count("27 tools are not listed") == 1
    assert "They are in your list of tools" in instructions
    assert "Your list has 6 of them" in instructions


@pytest.mark.requirement("MOD-5")
async def test_long_list_is_read_page_by_page(folder: Folder) -> None:
    tools = [make_definition(f"t{n:02}", "word " * 6_000) for n in range(40)]
    async with direct(folder, {"hub": tools}, poolLimit=100) as client:
        names: list[str] = []
        cursor: dict[str, Any] = {}
        pages = 0
        while pages == 0 or cursor:
            result = (await client.asked("tools/list", **cursor))["result"]
            names += [tool["name"] for tool in result["tools"]]
            cursor = {"cursor": result["nextCursor"]} if "nextCursor" in result else {}
            pages += 1
        refused = await client.asked("tools/list", cursor="invented")

    assert names == [*(f"hub__t{n:02}" for n in range(40)), "read_result"]
    assert pages > 1
    assert refused["error"]["code"] == -32602


# The pool


@asynccontextmanager
async def dynamic(
    folder: Folder, tools: dict[str, list[dict[str, Any]]], **server: Any
) -> AsyncIterator[tuple[Engine, Gateway]]:
    async with opened(folder, tools, server={"mode": "dynamic", **server}) as engine:
        yield engine, Gateway(engine)


ANIMALS = [
    make_definition("feed_cat", "Feed a cat with fish."),
    make_definition("wash_dog", "Wash a dog with soap."),
    make_definition("count_birds", "Count the birds in a tree."),
]


@pytest.mark.requirement("RGT-2")
async def test_the_registry_tool_adds_what_it_finds_to_the_list_unless_told_not_to(
    folder: Folder,
) -> None:
    dynamic_server = dynamic(folder, {"zoo": ANIMALS}, registryTool="read")
    async with dynamic_server as (_, gateway), client_of(gateway) as client:
        find = {"action": "find_tool", "query": "feed a cat with fish"}
        await client.called("registry", **find, auto_activate=False)
        before = await client.tools()
        await client.called("registry", **find)
        after = await client.tools()

    assert before == ["search_tools", "registry"]
    assert after == ["search_tools", "registry", "zoo__feed_cat"]
    assert client.notified == ["notifications/tools/list_changed"]


@pytest.mark.requirement("MOD-30")
async def test_search_adds_tools_to_the_list_and_says_so(folder: Folder) -> None:
    async with dynamic(folder, {"zoo": ANIMALS}) as (_, gateway), client_of(gateway) as client:
        before = await client.tools()
        found = await client.found("feed a cat with fish")
        after = await client.tools()
        notified = list(client.notified)
        await client.called("retrieve_tools", query="feed a cat with fish")
        result = (await client.called("zoo__feed_cat"))["result"]

    assert before == ["search_tools"]
    assert after == ["search_tools", "zoo__feed_cat"]
    assert notified == ["notifications/tools/list_changed"]
    assert client.notified == notified
    assert "zoo__feed_cat() - Feed a cat with fish" in found["text"]
    assert "1 new; 1 of at most 15" in found["text"]
    assert (found["registered"], found["evicted"]) == (["zoo__feed_cat"], [])
    assert (found["poolSize"], found["poolLimit"]) == (1, 15)
    assert result["content"][0]["text"] == "feed_cat"


@pytest.mark.requirement("MOD-30", "MOD-31")
async def test_pinned_tools_are_always_listed_and_never_evicted(folder: Folder) -> None:
    async with (
        dynamic(folder, {"zoo": ANIMALS}, poolLimit=2, pins=["wash_*"]) as (_, gateway),
        client_of(gateway) as client,
    ):
        before = await client.tools()
        await client.found("feed a cat with fish")
        await client.found("wash a dog with soap")
        found = await client.found("count the birds in a tree")
        after = await client.tools()

    assert before == ["search_tools", "zoo__wash_dog"]
    assert after == ["search_tools", "zoo__wash_dog", "zoo__count_birds"]
    assert (found["evicted"], found["poolSize"]) == (["zoo__feed_cat"], 2)


@pytest.mark.requirement("MOD-31")
@rows(
    ("meta_tool", "arguments"),
    [
        ("execute_steps", {"steps": [{"id": "a", "tool": "zoo__feed_cat"}]}),
        ("execute_script", {"code": "await call('zoo:feed_cat')"}),
    ],
)
async def test_a_tool_that_a_step_or_script_called_is_not_the_next_to_be_evicted(
    folder: Folder, meta_tool: str, arguments: JSONObject
) -> None:
    server = {"poolLimit": 2, "poolWeights": {"score": 0, "freshness": 1}}
    server |= {"steps": True, "script": True}
    async with (
        dynamic(folder, {"zoo": ANIMALS}, **server) as (_, gateway),
        client_of(gateway) as client,
    ):
        await client.found("feed a cat with fish")
        await client.found("wash a dog with soap")
        called = await client.called(meta_tool, **arguments)
        found = await client.found("count the birds in a tree")

    assert not called["result"]["isError"]
    assert found["evicted"] == ["zoo__wash_dog"]


@pytest.mark.requirement("MOD-36")
async def test_each_client_has_a_pool_of_its_own(folder: Folder) -> None:
    async with dynamic(folder, {"zoo": ANIMALS}) as (_, gateway), AsyncExitStack() as stack:
        one = await stack.enter_async_context(client_of(gateway))
        other = await stack.enter_async_context(client_of(gateway))
        await one.found("feed a cat with fish")

        modern = await stack.enter_async_context(client_of(gateway, "modern"))
        before = await modern.tools()
        await modern.found("feed a cat with fish")

        assert await one.tools() == ["search_tools", "zoo__feed_cat"]
        assert await other.tools() == ["search_tools"]
        assert other.notified == []
        assert await modern.tools() == before
        assert "execute_tool" in before


@pytest.mark.requirement("MOD-39")
async def test_owners_program_runs_after_a_change(folder: Folder, tmp_path: Path) -> None:
    note = tmp_path / "noted"
    script = "import os,sys; open(sys.argv[1], 'a').write(os.environ.get('SECRET', 'none'))"
    command = [sys.executable, "-c", script, "${NOTE}"]
    environ = {**os.environ, "NOTE": str(note), "SECRET": "s3cret"}
    async with (
        opened(
            folder, {"zoo": ANIMALS}, server={"mode": "dynamic", "onListChanged": command}
        ) as engine,
        open_list_changed_hook(engine, environ) as hook,
        client_of(Gateway(engine, on_list_changed=hook)) as client,
    ):
        await client.found("feed a cat with fish")
        await eventually(note.exists)
        await eventually(lambda: note.read_text() == "none")


CLAUDE_CODE = {"name": "claude-code", "version": "2"}
STRANGER = {"name": "stranger", "version": "1"}


@ERAS
@pytest.mark.requirement("MOD-40")
async def test_a_host_that_searches_has_all_tools_and_others_the_meta_tools(
    folder: Folder, era: str
) -> None:
    settings = {"mode": "auto", "pins": ["big:tool_029"], "poolLimit": 3}
    requests = ["polish the  brass", *(f"shine {'x' * 150}{n}" for n in range(2))]
    overrides = [{"pattern": "big:tool_007", "examples": requests}]
    sections = {"server": settings, "overrides": overrides}
    async with opened(folder, {"big": numbered(150)}, **sections) as engine:
        gateway = Gateway(engine)
        lists = {}
        for info in (CLAUDE_CODE, {"name": "codex-mcp-client", "version": "0"}, STRANGER):
            async with client_of(gateway, era, info) as client:
                lists[info["name"]] = await client.listed()

    claude, codex, stranger = lists.values()
    assert {name for name in claude if name.startswith("big__")} == {*codex} - {"read_result"}
    assert len(codex) == 151
    assert "execute_tool" in stranger
    assert not any(name.startswith("big__") for name in stranger)
    assert claude["big__tool_029"]["_meta"]["anthropic/alwaysLoad"] is True
    assert claude["big__tool_007"]["_meta"] == {
        "anthropic/searchHint": f"polish the brass; {requests[1]}"
    }
    assert claude["big__tool_001"]["_meta"]["anthropic/searchHint"] == "tools"
    assert "_meta" not in codex["big__tool_007"]


@ERAS
@pytest.mark.requirement("LOG-1")
async def test_the_log_has_the_name_that_a_client_gave_itself(folder: Folder, era: str) -> None:
    info = {"name": "claude\x1b[2J\n-code" + 99 * "x", "version": "2"}
    async with opened(folder, {"zoo": ANIMALS}) as engine:
        async with client_of(Gateway(engine), era, info) as client:
            await client.called("execute_tool", tool="zoo:no_such_tool")
        [entry] = await engine.call_log.entries()

    assert entry.client == "claude -code" + 52 * "x"


@rows("document", ["specs/modes.md", "docs/guides/when-not.md"])
@pytest.mark.requirement("MOD-40")
def test_tables_of_hosts_have_those_that_there_are(document: str) -> None:
    text = (Path(__file__).parents[2] / document).read_text("utf-8")
    table = text.split("own search |")[1].split("| any other")[0]
    lines = [line.strip() for line in table.splitlines()[2:] if line.strip()]
    names = [line.split("|")[1].strip(" `") for line in lines]

    assert names in ([*HOSTS], [host.title for host in HOSTS.values()])


@pytest.mark.requirement("MOD-40")
async def test_instructions_of_auto_say_where_the_tools_are(folder: Folder) -> None:
    async with opened(folder, {"zoo": ANIMALS}, server={"mode": "auto"}) as engine:
        texts = []
        for info in (CLAUDE_CODE, STRANGER):
            async with client_of(Gateway(engine), info=info) as client:
                texts.append(client.opened["result"]["instructions"])

    assert "search your tools" in texts[0]
    assert "search_tools" not in texts[0]
    assert "call search_tools" in texts[1]
