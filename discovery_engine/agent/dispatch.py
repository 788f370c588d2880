"""Calls of the meta-tools, from their arguments to a result.

Every answer is a result of `tools/call`: an agent reads an error as it reads anything else.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import anyio
from anyio.lowlevel import checkpoint
from msgspec import Struct

from discovery_engine._util.json import JSONObject
from discovery_engine.agent.budget import Budget
from discovery_engine.agent.definitions import MIN_TOKENS, MetaTool
from discovery_engine.agent.meta_arguments import MetaArguments
from discovery_engine.agent.render.calls import error_result, unchecked_result
from discovery_engine.agent.render.details import details_result
from discovery_engine.agent.render.search import search_result, searches_result
from discovery_engine.agent.render.servers import servers_result
from discovery_engine.agent.render.tools import tools_result
from discovery_engine.agent.tool_text import Detail
from discovery_engine.errors import DiscoveryError, ServerDisabledError, ToolNotFoundError
from discovery_engine.limits import require_query
from discovery_engine.tools.model import ToolKey
from discovery_engine.upstream.state import ServerState
from discovery_engine.view.notices import Notice
from discovery_engine.view.status import ServerReport, error_code

if TYPE_CHECKING:
    from discovery_engine.engine import Engine
    from discovery_engine.rpc.client import Client, Continuation
    from discovery_engine.view.view import View

logger = logging.getLogger(__name__)

_FIRST_LISTING = 3.0  # seconds that an answer waits for servers that were never listed
_START = 30.0  # seconds that a call waits for a start; hosts time out after 60
_MAX_HITS = 50  # of one search; more is a list, which list_tools gives

OnProgress = Callable[[float, float | None, str | None], Awaitable[None]]


class Caller(Struct, frozen=True):
    """The client that calls a meta-tool, with what is known from its transport."""

    client: Client | None = None
    """None if nothing is known of it; it cannot be asked then."""
    on_progress: OnProgress | None = None
    continuation: Continuation | None = None
    """Its answers to an `input_required` result of the same call of `execute_tool`."""

    @property
    def takes_input_required(self) -> bool:
        return self.client is not None and self.client.takes_input_required


class InputRequiredError(DiscoveryError):
    """A tool requires input during a call, which is not passed on to the client."""

    code = "TOOL_NEEDS_INPUT"

    def __init__(self, key: ToolKey) -> None:
        self.server = key.server
        self.tool = key.tool
        hint = "give everything it may need as arguments, or use another tool"
        message = f"{key.label} requires input during the call, which this gateway does not support"
        super().__init__(message, hint=hint)


Handler = Callable[["Engine", MetaArguments, Caller], Awaitable[JSONObject]]


async def call(engine: Engine, tool: MetaTool, arguments: JSONObject, caller: Caller) -> JSONObject:
    """The result of a meta-tool: an answer, a tool's own result, or an error with a next step."""
    try:
        given = MetaArguments(arguments, tool.input_schema, tool.name)
        return await _HANDLERS[tool.name](engine, given, caller)
    except ToolNotFoundError as error:
        return error_result(error, _unlisted_servers(engine.view, error.server))
    except DiscoveryError as error:
        return error_result(error)
    except Exception:  # a defect of ours must not end the session
        logger.exception("%s failed", tool.name)
        return error_result(DiscoveryError("an internal error; the server's log has the details"))


async def _list_mcp_servers(engine: Engine, _: MetaArguments, __: Caller) -> JSONObject:
    await _wait_for_first_listing(engine, None)
    view = engine.view
    budget = Budget(view.settings.server.list_tokens)
    return servers_result(view.servers(), budget, view.general_notices())


async def _search_tools(engine: Engine, arguments: MetaArguments, _: Caller) -> JSONObject:
    queries = _queries(arguments)
    server = arguments.optional_name("server")
    limit = arguments.optional_count("limit")
    tags = arguments.texts("tags")
    await _wait_for_first_listing(engine, server)
    most = None if limit is None else min(limit, _MAX_HITS)
    answers = []
    for query in queries:
        answers.append(await engine.search(query, server=server, tags=tags, limit=most))
        # A search never awaits, so ten in a row would block other clients.
        await checkpoint()
    # Each further query adds half a budget: enough for its best matches.
    default = engine.settings.search.max_tokens * (len(queries) + 1) // 2
    limits = _budget(arguments, default)
    if len(answers) == 1:
        return search_result(answers[0], *limits)
    return searches_result(answers, *limits)


async def _list_tools(engine: Engine, arguments: MetaArguments, _: Caller) -> JSONObject:
    server = arguments.text("server")
    include_disabled = arguments.flag("includeDisabled")
    await _wait_for_first_listing(engine, server)
    view = engine.view
    listed = view.list_tools(server, include_disabled=include_disabled)
    return tools_result(listed, *_budget(arguments, view.settings.server.list_tokens))


async def _get_tool_details(engine: Engine, arguments: MetaArguments, __: Caller) -> JSONObject:
    server, tool = arguments.optional_name("server"), arguments.text("tool")
    budget, _ = _budget(arguments, engine.settings.server.details_tokens)
    with anyio.move_on_after(_FIRST_LISTING) as scope:
        await _wait_for_first_listing(engine, server)
    max_wait = max(0.0, scope.deadline - anyio.current_time())
    return details_result(await engine.details(server, tool, max_wait=max_wait), budget)


async def _execute_tool(engine: Engine, arguments: MetaArguments, caller: Caller) -> JSONObject:
    server, tool = arguments.optional_name("server"), arguments.text("tool")
    given = arguments.mapping("arguments")
    await _wait_for_first_listing(engine, server)
    unchecked: list[str] = []
    result = await engine.execute(
        server,
        tool,
        given,
        on_progress=caller.on_progress,
        caller=caller.client,
        continuation=caller.continuation,
        max_wait=_START,
        on_unchecked=unchecked.append,
    )
    if result.get("resultType") == "input_required" and not caller.takes_input_required:
        raise InputRequiredError(engine.view.find(server, tool).key)
    return unchecked_result(result, unchecked[0]) if unchecked else result


def _queries(arguments: MetaArguments) -> list[str]:
    """`query` and `queries` in the given order, without duplicates, with single blanks."""
    given = [arguments.optional_text("query") or "", *arguments.texts("queries")]
    for query in given:
        require_query(query)
    queries = dict.fromkeys(" ".join(query.split()) for query in given)
    queries.pop("", None)
    if not queries:
        raise arguments.missing("query", "queries")
    return list(queries)


def _budget(arguments: MetaArguments, default: int) -> tuple[Budget, Detail]:
    """The budget of an answer, and the most detail that it may give.

    Only an explicit `maxTokens` is used up with whole schemas; the default is a ceiling.
    """
    requested = arguments.optional_count("maxTokens")
    if requested is None:
        return Budget(max(default, MIN_TOKENS)), Detail.SIGNATURE
    return Budget(requested), Detail.SCHEMA


async def _wait_for_first_listing(engine: Engine, server: str | None) -> None:
    """Wait briefly for `server`, or for all, if none of them was ever listed."""
    if server is None:
        if not engine.has_listings:
            await engine.wait_listed(timeout=_FIRST_LISTING)
    elif not engine.is_listed(server):
        with anyio.move_on_after(_FIRST_LISTING):
            try:
                await engine.list_tools(server)
            except ServerDisabledError:
                return  # the answer reports it


def _unlisted_servers(view: View, server: str | None) -> list[Notice]:
    """Notices of the servers that might have the tool, but were never listed."""
    candidates = [s for s in view.servers() if server in (None, s.name)]
    unlisted = [
        s for s in candidates if s.listed_at is None and s.state is not ServerState.DISABLED
    ]
    return [
        Notice(_code(s), f"{s.name} ({_status_text(s)}): its tools are not known", subject=s.name)
        for s in unlisted
    ]


def _code(server: ServerReport) -> str:
    is_pending = server.state in (ServerState.PENDING, ServerState.STARTING)
    return "SERVER_STARTING" if is_pending else error_code(server.state)


def _status_text(server: ServerReport) -> str:
    since = server.starting_for
    return server.state.value if since is None else f"{server.state.value}, {int(since)} s"


_HANDLERS: Mapping[str, Handler] = {
    "list_mcp_servers": _list_mcp_servers,
    "search_tools": _search_tools,
    "list_tools": _list_tools,
    "get_tool_details": _get_tool_details,
    "execute_tool": _execute_tool,
}
