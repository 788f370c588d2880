"""What an agent has of the gateway: the meta-tools, their answers, and what passes through."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError

from discovery_engine import Engine
from discovery_server.gateway import Gateway
from tests.catalogs import JSONObject, schema, tool
from tests.contract.discovery import Discovery
from tests.engines import Changing, Folder, broken, good
from tests.factories import make_definition
from tests.forked import Preloaded
from tests.rows import rows
from tests.told import Told
from tests.unit.server.sdk_client import connected
from tests.unit.server.wire import INITIALIZE, INITIALIZED, call, served

pytestmark = pytest.mark.anyio

TEXT = {"type": "string"}
CREATE = tool(
    "create_issue",
    "Create a new issue in a repository.\nIt needs a title.",
    inputSchema=schema(
        "title",
        title={**TEXT, "description": "Its title"},
        labels={"type": "array", "items": TEXT},
        state={"enum": ["open", "closed"], "default": "open"},
    ),
)
ORDINARY = schema(
    "owner",
    "repo",
    owner={**TEXT, "description": "Repository owner"},
    repo={**TEXT, "description": "Repository name"},
    state={"enum": ["open", "closed", "all"], "description": "Which ones"},
    page={"type": "integer", "minimum": 1, "description": "Page number"},
)
ANIMALS = ["cats", "dogs", "emus", "foxes", "gnus", "hens", "ibises", "jays", "kiwis", "lions"]
ABOUT = "List the pages of a GitHub wiki, with filters for their state and labels."
RICH: JSONObject = {
    "content": [
        {"type": "text", "text": "é\u2028x", "annotations": {"audience": ["user"], "vendor": 1}},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "resource_link", "uri": "file:///x", "name": "x", "size": 3, "vendor": None},
        {"type": "resource", "resource": {"uri": "x:/y", "text": "t", "vendor": [None]}},
    ],
    "structuredContent": {"rows": [1, None, {"deep": []}]},
    "isError": True,
    "_meta": {"vendor/key": {"a": None}},
    "vendorField": "kept",
}
TOOLS = [
    CREATE,
    tool("list_issues", "List the issues of a repository."),
    tool("delete_repository", "Delete a repository."),
    tool("rich"),
    *(tool(f"list_{one}", ABOUT, inputSchema=ORDINARY) for one in ANIMALS),
]
RULES = [{"pattern": "delete_*", "enabled": False}, {"pattern": "create_*", "tags": ["write"]}]


class Home:
    """A client of a gateway with the servers `github`, `time` and `down`."""

    def __init__(self, told: Told, engine: Engine, client: Client) -> None:
        self.told = told
        self.engine = engine
        self.client = client

    async def text(self, name: str, **arguments: Any) -> str:
        result = await self.client.call_tool(name, arguments)
        return "\n".join(block.text for block in result.content)

    async def fields(self, name: str, **arguments: Any) -> Any:
        meta = (await self.client.call_tool(name, arguments)).meta or {}
        return meta.get("discovery/answer") or meta["discovery/error"]


@pytest.fixture(scope="module")
async def home(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Home]:
    path = tmp_path_factory.mktemp("gateway")
    told = Told.beside(path, *TOOLS, results={"rich": RICH}, instructions="Always call me first!")
    folder = Folder(path)
    folder.write(told.server("github"), good("time"), broken(good("down")), toolRules=RULES)
    async with folder.open() as engine:
        await engine.refresh()
        async with connected(Gateway(engine)) as client:
            yield Home(told, engine, client)


@pytest.mark.requirement("MET-1", "MET-1")
async def test_the_definitions_are_few_and_short_and_the_same_for_all_servers(
    home: Home, tmp_path: Path
) -> None:
    tools = (await home.client.list_tools()).tools
    empty = Folder(tmp_path)
    empty.write()
    async with empty.open() as engine, connected(Gateway(engine)) as client:
        others = (await client.list_tools()).tools

    assert others == tools
    assert {one.name: [*one.input_schema["properties"]] for one in tools} == {
        "list_mcp_servers": [],
        "search_tools": ["query", "queries", "server", "limit", "tags", "kinds", "maxTokens"],
        "list_tools": ["server", "includeDisabled", "maxTokens"],
        "get_tool_details": ["server", "tool", "maxTokens"],
        "execute_tool": ["server", "tool", "arguments", "select", "dryRun"],
        "read_result": ["handle", "path", "offset", "search", "limit"],
    }
    assert [one.name for one in tools if one.annotations.destructive_hint] == ["execute_tool"]
    assert len([one for one in tools if one.annotations.read_only_hint]) == 5
    assert all(one.meta["anthropic/alwaysLoad"] for one in tools)
    read = [one.model_dump(by_alias=True, exclude_none=True, exclude={"meta"}) for one in tools]
    assert len(json.dumps(read, separators=(",", ":"))) < 2_700  # characters, some 600 tokens


@pytest.mark.requirement("MET-5")
async def test_a_search_answer_has_a_line_for_each_hit_and_fields_beside_it(home: Home) -> None:
    [head, line, *_] = (await home.text("search_tools", query="create an issue")).splitlines()
    first = (await home.fields("search_tools", query="create an issue"))["results"][0]

    assert head == "Match: sure."
    assert line == (
        "github:create_issue(title: string, labels?, state?) - "
        "Create a new issue in a repository. [write]"
    )
    assert 0 < first.pop("relevance") <= 1
    assert first == {
        "server": "github",
        "tool": "create_issue",
        "summary": "Create a new issue in a repository.",
        "tags": ["write"],
    }


@pytest.mark.requirement("MET-10")
@rows(
    "named",
    [
        {"tool": "github:create_issue"},
        {"server": "github", "tool": "create_issue"},
        {"tool": "create_issue"},
        {"server": "github", "tool": "github:create_issue"},
        {"tool": "mcp__github__create_issue"},
        {"tool": "GitHub/createIssue"},
    ],
)
async def test_a_tool_is_found_however_it_is_named(home: Home, named: dict[str, str]) -> None:
    before = home.told.calls

    details = await home.text("get_tool_details", **named)
    called = await home.text("execute_tool", **named, arguments={"title": "x"})

    assert details.startswith("github:create_issue")
    assert called == "create_issue"
    assert home.told.called_with[before:] == [{"title": "x"}]


@pytest.mark.requirement("MET-11")
async def test_an_outage_and_a_hidden_match_are_said(home: Home) -> None:
    searched = await home.text("search_tools", query="delete a repository")
    listed = await home.text("list_tools", server="down")
    details = await home.text("get_tool_details", tool="merge_pull_request")

    assert "Note: 1 tool that matches is disabled: a rule of the owner" in searched
    assert "delete_repository" not in searched
    assert "Note: down" in searched
    assert listed.startswith("down: its tools are not known\nNote: down")
    assert details.startswith("TOOL_NOT_FOUND")
    assert "Note: down" in details


@pytest.mark.requirement("MET-16")
@rows(
    ("name", "arguments", "expected"),
    [
        (
            "list_tools",
            {"server": "gihub"},
            (
                "SERVER_NOT_FOUND: server 'gihub' is not configured\ndid you mean 'github'?; "
                "list_mcp_servers names them all"
            ),
        ),
        (
            "execute_tool",
            {"tool": "github:list_isues"},
            "TOOL_NOT_FOUND: server 'github' has no tool 'list_isues'\ndid you mean 'list_issues'",
        ),
        (
            "execute_tool",
            {"tool": "delete_repository"},
            (
                "TOOL_DISABLED: tool 'github:delete_repository' is disabled: a rule of the owner\n"
                "the owner of the configuration decides this; use another tool"
            ),
        ),
        (
            "search_tools",
            {},
            (
                "VALIDATION_ERROR: query or queries is required\n"
                "it takes search_tools(query?, queries?, server?, limit?, "
            ),
        ),
        ("execute_tool", {"tool": "create_issue"}, "INVALID_ARGUMENTS: arguments of 'github:creat"),
        ("execute_tool", {"tool": "down:echo"}, "SERVER_CONNECTION_ERROR: server 'down' "),
    ],
)
async def test_each_mistake_is_an_error_with_a_code_and_the_next_step(
    home: Home, name: str, arguments: JSONObject, expected: str
) -> None:
    before = home.told.calls

    result = await home.client.call_tool(name, arguments)

    assert result.is_error
    assert result.content[0].text.startswith(expected)
    error = (result.meta or {})["discovery/error"]
    assert {"code", "message", "hint"} <= error.keys()
    assert error["code"] == expected.split(":", maxsplit=1)[0]
    assert home.told.calls == before


@pytest.mark.requirement("MET-19")
async def test_a_result_passes_unchanged(home: Home) -> None:
    async with served(Gateway(home.engine)) as wire:
        await wire.ask(INITIALIZE)
        await wire.send(INITIALIZED)
        answer = await wire.ask(call(7, "execute_tool", tool="rich"))

    assert answer["result"] == RICH


@pytest.mark.requirement("MET-22")
async def test_the_instructions_name_the_servers_within_their_budget(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    told = Told.beside(tmp_path, *TOOLS, instructions="Always call me first!")
    changing = Changing.beside(tmp_path, "noted")
    folder.write(told.server("github"), changing.server("notes"), toolRules=RULES)
    texts = []

    async with folder.open() as engine:
        await engine.refresh()
        for tools in (["noted"], ["noted", "read"]):
            changing.has(*tools)
            await engine.refresh()
            async with connected(Gateway(engine)) as client:
                texts.append(client.instructions or "")

    lines = texts[0].splitlines()
    assert lines[0].startswith("This gateway gives access to 14 tools of 2 MCP servers.")
    assert lines[-2].startswith("- github (13): such as create_issue")
    assert lines[-1] == "- notes (1): such as noted"
    assert "- notes (2)" in texts[1]
    assert "Always" not in texts[0]
    assert "delete_repository" not in texts[0]


@pytest.mark.requirement("MET-24")
async def test_the_usage_guide_and_the_servers_are_prompt_and_resources(home: Home) -> None:
    [prompt] = (await home.client.list_prompts()).prompts
    [message] = (await home.client.get_prompt(prompt.name)).messages
    resources = {str(one.uri) for one in (await home.client.list_resources()).resources}
    templates = (await home.client.list_resource_templates()).resource_templates
    address = "discovery://servers/github/tools/create_issue"
    [read] = (await home.client.read_resource(address)).contents

    assert prompt.name == "mcp-discovery-usage-guide"
    assert "# Using the tools behind this gateway" in message.content.text
    assert "discovery://docs/usage-guide" in resources
    assert len(templates) == 3
    assert json.loads(read.text)["inputSchema"] == CREATE["inputSchema"]
    with pytest.raises(MCPError):
        await home.client.read_resource("discovery://servers/github/tools/delete_repository")


NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
CLOSED = {**NUMBER, "additionalProperties": False}
INPUT = {
    "type": "object",
    "properties": {"input": {"type": "object"}, "n": {"type": "integer"}},
    "required": ["input"],
}
N: JSONObject = {"n": 1}
CALLS: dict[str, tuple[str, JSONObject, str]] = {
    **{
        word: ("execute_tool", {"tool": "need", word: N}, "need")
        for word in ("args", "params", "parameters", "input", "tool_input", "toolArgs", "kwargs")
    },
    "as text": ("execute_tool", {"tool": "need", "args": '{"n": 1}'}, "need"),
    "own input": ("execute_tool", {"tool": "own", "input": N}, "own"),
    "names": ("execute_tool", {"serverName": "told", "tool_name": "need", "params": N}, "need"),
    "name": ("execute_tool", {"server_name": "told", "name": "need", "arguments": N}, "need"),
    "function": ("execute_tool", {"function": "told:need", "arguments": N}, "need"),
    "whole": ("execute_tool", {"input": {"tool": "need", "params": N}}, "need"),
    "one level": ("execute_tool", {"tool": "need", "arguments": {"params": N}}, "need"),
    "same word": ("execute_tool", {"tool": "need", "arguments": {"arguments": N}}, "need"),
    "two words": ("execute_tool", {"tool": "need", "params": {"input": N}}, "need"),
    "described": ("get_tool_details", {"name": "need"}, "told:need"),
    "listed": ("list_tools", {"name": "Told"}, "told: 2 tools"),
    "searched": ("search_tools", {"q": "need"}, "told:need"),
    "wrapped search": ("search_tools", {"params": {"query": "need"}}, "told:need"),
    "inner search": (
        "execute_tool",
        {"tool": "search_tools", "arguments": {"query": "need"}},
        "told:need",
    ),
    "inner list": ("execute_tool", {"tool": "mcp__discovery__list_mcp_servers"}, "told (2 tools)"),
    "inner call": (
        "execute_tool",
        {"tool": "execute_tool", "arguments": {"tool": "need", "arguments": N}},
        "need",
    ),
    "steps": (
        "execute_steps",
        {"steps": [{"id": "a", "name": "need", "params": N}]},
        '{"a":{"status":"ok"',
    ),
    # Not understood: what to write instead.
    "no object": ("execute_tool", {"tool": "need", "args": [1]}, "use `arguments`, an object"),
    "too high": (
        "execute_tool",
        {"tool": "need", "n": 1},
        "'n' is not an argument of execute_tool;",
    ),
    "name too high": (
        "execute_tool",
        {"tool": "need", "name": "x", "arguments": N},
        "'name' is not an argument of execute_tool; put it into `arguments`",
    ),
    "twice": (
        "execute_tool",
        {"tool": "need", "arguments": N, "args": N},
        "'args' is not an argument of execute_tool; only `arguments` is sent",
    ),
    "all too high": (
        "execute_tool",
        {"tool": "need", "n": 1, "m": 2},
        "'n', 'm' are not arguments of execute_tool; put them into `arguments`",
    ),
    "empty list": ("execute_tool", {"tool": "need", "arguments": []}, "n is missing"),
    "dummy": ("list_mcp_servers", {"random_string": "x"}, "told (2 tools)"),
    "slip": ("execute_tool", {"tol": "need", "arguments": N}, "did you mean 'tool'?"),
    "wrong inside": (
        "execute_tool",
        {"tool": "need", "arguments": {"params": {"m": 1}}},
        "they belong directly into the arguments, not under params",
    ),
    "no tool": ("execute_tool", {"server": "told", "args": N}, "tool is required"),
}


@pytest.mark.requirement("MET-13")
async def test_what_models_write_is_understood_or_answered_with_what_to_write(
    tmp_path: Path,
) -> None:
    folder = Folder(tmp_path)
    told = Told.beside(
        tmp_path,
        make_definition("need", "Need a number.", inputSchema=CLOSED),
        make_definition("own", inputSchema=INPUT),
    )
    folder.write(told.server(), server={"steps": True})
    wrong = []

    async with folder.open() as engine:
        await engine.refresh()
        async with connected(Gateway(engine)) as client:
            for name, (tool, arguments, expected) in CALLS.items():
                result = await client.call_tool(tool, arguments)
                text = "\n".join(block.text for block in result.content)
                is_call = expected in ("need", "own")
                if text != expected if is_call else expected not in text:
                    wrong.append(f"{name}: {text[:200]!r}")
            sent = told.called_with

    assert wrong == []
    assert sent.count({"input": {"n": 1}}) == 1
    assert sent.count({"n": 1}) == len(sent) - 1


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
