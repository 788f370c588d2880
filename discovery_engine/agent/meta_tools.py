"""The five tools that an agent always sees, and what they do.

Their definitions never change, whatever servers come and go, so that a host can keep its prompt
cache. Every answer is a result: an agent reads an error as it reads anything else.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import anyio
from anyio.lowlevel import checkpoint
from msgspec import Struct

from discovery_engine._util.json import JSONObject
from discovery_engine.agent.budget import Budget
from discovery_engine.agent.meta_arguments import MetaArguments
from discovery_engine.agent.rendering import (
    LEAST_TOKENS,
    details_result,
    error_result,
    search_result,
    searches_result,
    servers_result,
    tools_result,
    unchecked_result,
)
from discovery_engine.agent.tool_text import Detail
from discovery_engine.errors import DiscoveryError, ServerDisabledError, ToolNotFoundError
from discovery_engine.limits import require_query
from discovery_engine.tools.model import ToolKey
from discovery_engine.view.notices import Notice, NoticeKind
from discovery_engine.view.status import ServerStatus, ServerSummary

if TYPE_CHECKING:
    from discovery_engine.engine import Engine
    from discovery_engine.view.view import View

logger = logging.getLogger(__name__)

_FIRST_PAINT = 3.0  # seconds an answer waits for servers of which nothing is known yet
_FIRST_CALL = 30.0  # seconds a call waits for a start; hosts give up after a minute in all
_MOST_HITS = 50  # of one search; more is a list, which list_tools gives

OnProgress = Callable[[float, float | None, str | None], Awaitable[None]]


class Caller(Struct, frozen=True):
    """Who calls a meta-tool, as far as the transport tells."""

    client: str | None = None
    """Tells apart clients that are served at the same time; None if there is but one."""
    on_progress: OnProgress | None = None


class InputRequiredError(DiscoveryError):
    """A tool wants to ask something in the middle of a call; nobody here can be asked."""

    code = "TOOL_NEEDS_INPUT"

    def __init__(self, key: ToolKey) -> None:
        self.server = key.server
        self.tool = key.tool
        hint = "give all it may need as arguments, or use another tool"
        message = f"{key.label} wants input during the call, which is not passed on"
        super().__init__(message, hint=hint)


Answer = Callable[["Engine", MetaArguments, Caller], Awaitable[JSONObject]]


class MetaTool(Struct, frozen=True):
    name: str
    description: str
    properties: JSONObject
    required: tuple[str, ...]
    annotations: JSONObject
    answer: Answer

    @property
    def input_schema(self) -> JSONObject:
        schema: JSONObject = {"type": "object", "properties": self.properties}
        return {**schema, "required": list(self.required)} if self.required else schema

    @property
    def definition(self) -> JSONObject:
        """As `tools/list` has it."""
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": self.input_schema,
            "annotations": self.annotations,
        }


async def call(engine: Engine, tool: MetaTool, arguments: JSONObject, caller: Caller) -> JSONObject:
    """An answer, an upstream's own result, or an error that says what to do."""
    try:
        given = MetaArguments(arguments, tool.input_schema, tool.name)
        return await tool.answer(engine, given, caller)
    except ToolNotFoundError as error:
        return error_result(error, _unspoken_for(engine.view, error.server))
    except DiscoveryError as error:
        return error_result(error)
    except Exception:  # a fault of ours: the agent is told, and the next call is served
        logger.exception("%s failed", tool.name)
        return error_result(DiscoveryError("an internal error; the server's log has the details"))


async def _list_mcp_servers(engine: Engine, _: MetaArguments, __: Caller) -> JSONObject:
    await _first_paint(engine, None)
    view = engine.view
    budget = Budget(view.settings.server.list_tokens)
    return servers_result(view.servers(), budget, view.shortcomings())


async def _search_tools(engine: Engine, arguments: MetaArguments, _: Caller) -> JSONObject:
    queries = _queries(arguments)
    server = arguments.optional_name("server")
    limit = arguments.optional_count("limit")
    tags = arguments.texts("tags")
    await _first_paint(engine, server)
    most = None if limit is None else min(limit, _MOST_HITS)
    answers = []
    for query in queries:
        answers.append(await engine.search(query, server=server, tags=tags, limit=most))
        await checkpoint()  # a search does not wait by itself, so that ten would hold up others
    # A further query adds half of an answer: its best matches, rather than ten of them.
    usual = engine.settings.search.max_tokens * (len(queries) + 1) // 2
    allowed = _allowed(arguments, usual)
    if len(answers) == 1:
        return search_result(answers[0], *allowed)
    return searches_result(answers, *allowed)


async def _list_tools(engine: Engine, arguments: MetaArguments, _: Caller) -> JSONObject:
    server = arguments.text("server")
    include_disabled = arguments.flag("includeDisabled")
    await _first_paint(engine, server)
    view = engine.view
    listed = view.list_tools(server, include_disabled=include_disabled)
    return tools_result(listed, *_allowed(arguments, view.settings.server.list_tokens))


async def _get_tool_details(engine: Engine, arguments: MetaArguments, _: Caller) -> JSONObject:
    server, tool = arguments.optional_name("server"), arguments.text("tool")
    budget, _richest = _allowed(arguments, engine.settings.server.details_tokens)
    with anyio.move_on_after(_FIRST_PAINT) as paint:
        await _first_paint(engine, server)
    patience = max(0.0, paint.deadline - anyio.current_time())
    return details_result(await engine.details(server, tool, patience=patience), budget)


async def _execute_tool(engine: Engine, arguments: MetaArguments, caller: Caller) -> JSONObject:
    server, tool = arguments.optional_name("server"), arguments.text("tool")
    given = arguments.mapping("arguments")
    await _first_paint(engine, server)
    unchecked: list[str] = []
    result = await engine.execute(
        server,
        tool,
        given,
        on_progress=caller.on_progress,
        client=caller.client,
        patience=_FIRST_CALL,
        on_unchecked=unchecked.append,
    )
    if result.get("resultType") == "input_required":
        raise InputRequiredError(engine.view.find(server, tool).key)
    return unchecked_result(result, unchecked[0]) if unchecked else result


def _queries(arguments: MetaArguments) -> list[str]:
    """`query` and `queries` in the order given, each once, with its blanks put in order."""
    given = [arguments.optional_text("query") or "", *arguments.texts("queries")]
    for query in given:
        require_query(query)
    queries = dict.fromkeys(" ".join(query.split()) for query in given)
    queries.pop("", None)
    if not queries:
        raise arguments.missing("query", "queries")
    return list(queries)


def _allowed(arguments: MetaArguments, usual: int) -> tuple[Budget, Detail]:
    """The budget of an answer, and the most detail it may give.

    Whoever asks for tokens is given them; the usual budget is a ceiling, and whole schemas are
    not what an unasked answer is filled up with.
    """
    asked = arguments.optional_count("maxTokens")
    if asked is None:
        return Budget(max(usual, LEAST_TOKENS)), Detail.SIGNATURE
    return Budget(asked), Detail.SCHEMA


async def _first_paint(engine: Engine, server: str | None) -> None:
    """Wait a moment for the servers in question, if nothing is known of any of them."""
    view = engine.view
    if server is None:
        if not view.catalog.has_listings:
            await engine.known(timeout=_FIRST_PAINT)
    elif not view.is_known(view.server(server).name):
        with anyio.move_on_after(_FIRST_PAINT):
            try:
                await engine.list_tools(server)
            except ServerDisabledError:
                return  # the answer says so itself


def _unspoken_for(view: View, server: str | None) -> list[Notice]:
    """The servers that might have the tool, and could not be asked."""
    asked = [s for s in view.servers() if server in (None, s.name)]
    silent = [s for s in asked if s.listed_at is None and s.status is not ServerStatus.DISABLED]
    return [
        Notice(NoticeKind.UNAVAILABLE, f"{s.name} ({_state(s)}): its tools are not known", s.name)
        for s in silent
    ]


def _state(server: ServerSummary) -> str:
    since = server.starting_for
    return server.status.value if since is None else f"{server.status.value}, {int(since)} s"


_TEXT: JSONObject = {"type": "string"}
_MAX_TOKENS: JSONObject = {"type": "integer", "minimum": LEAST_TOKENS}
_READS: JSONObject = {"readOnlyHint": True, "openWorldHint": False}
_TOOL: JSONObject = {"type": "string", "description": "Name, or server:name"}

META_TOOLS: Mapping[str, MetaTool] = MappingProxyType(
    {
        tool.name: tool
        for tool in (
            MetaTool(
                "list_mcp_servers",
                "List the MCP servers behind this gateway: purpose, number of tools, status.",
                {},
                (),
                _READS,
                _list_mcp_servers,
            ),
            MetaTool(
                "search_tools",
                "Find tools of all MCP servers by what they do or by name, the best first. "
                "Use it before you conclude that something cannot be done.",
                {
                    "query": {"type": "string", "description": "What to do, in a few words"},
                    "queries": {
                        "type": "array",
                        "items": _TEXT,
                        "maxItems": 10,
                        "description": "Several at once, each answered apart",
                    },
                    "server": {"type": "string", "description": "Only this server"},
                    "limit": {"type": "integer", "minimum": 1},
                    "tags": {"type": "array", "items": _TEXT, "description": "Only with all these"},
                    "maxTokens": {**_MAX_TOKENS, "description": "More tokens, more detail"},
                },
                (),
                _READS,
                _search_tools,
            ),
            MetaTool(
                "list_tools",
                "List the tools of one server.",
                {
                    "server": _TEXT,
                    "includeDisabled": {"type": "boolean"},
                    "maxTokens": _MAX_TOKENS,
                },
                ("server",),
                _READS,
                _list_tools,
            ),
            MetaTool(
                "get_tool_details",
                "Describe a tool and its arguments. Read this before its first execute_tool.",
                {"server": _TEXT, "tool": _TOOL, "maxTokens": _MAX_TOKENS},
                ("tool",),
                _READS,
                _get_tool_details,
            ),
            MetaTool(
                "execute_tool",
                "Call a tool of a server and return its result.",
                {
                    "server": _TEXT,
                    "tool": _TOOL,
                    "arguments": {"type": "object", "description": "The tool's own arguments"},
                },
                ("tool",),
                {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True},
                _execute_tool,
            ),
        )
    }
)
"""By name, in the order in which they are listed."""
