"""Calls of the meta-tools, from their arguments to a result.

Every answer is a result of `tools/call`: an agent reads an error as it reads anything else.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING

import anyio
from anyio.lowlevel import checkpoint

from discovery_engine._util.json import JSONObject
from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine._util.text import named
from discovery_engine.agent.answer_rendering import error_result, with_report
from discovery_engine.agent.budget import MOST_TOKENS, Budget
from discovery_engine.agent.execution import execute_tool, read_result
from discovery_engine.agent.list_rendering import (
    details_result,
    servers_result,
    skill_result,
    tools_result,
)
from discovery_engine.agent.meta_arguments import Caller, MetaArguments
from discovery_engine.agent.search_rendering import Names, search_result, searches_result
from discovery_engine.agent.tool_text import Detail
from discovery_engine.engine.scoped_engine import FIRST_LISTING
from discovery_engine.errors import (
    DiscoveryError,
    InputRequiredError,
    NotFoundError,
    ToolNotFoundError,
)
from discovery_engine.tools.limits import require_query
from discovery_engine.tools.meta_tools import MIN_TOKENS, REGISTRY, MetaTool
from discovery_engine.tools.offering import OfferingKind
from discovery_engine.upstream.state import ServerState
from discovery_engine.view.notices import Notice
from discovery_engine.view.search_answers import SEARCH_KINDS, TOOLS_ONLY, SearchKind
from discovery_engine.view.status import ServerReport, error_code

if TYPE_CHECKING:
    from discovery_engine.engine import ScopedEngine
    from discovery_engine.view.search_answers import SearchAnswer
    from discovery_engine.view.view import View

logger = logging.getLogger(__name__)

_MAX_HITS = 50  # of one search; more is a list, which list_tools gives

Handler = Callable[["ScopedEngine", MetaArguments, Caller], Awaitable[JSONObject]]


async def call(
    engine: ScopedEngine, tool: MetaTool, arguments: JSONObject, caller: Caller
) -> JSONObject:
    """Call a meta-tool; return its answer, the result of a tool, or an error with a next step.

    Raises:
        InputRequiredError: To a client that called the tool of a server directly, and did not
            declare a capability that this needs.
    """
    try:
        return await answer(engine, tool, arguments, caller)
    except DiscoveryError as error:
        if caller.is_direct and isinstance(error, InputRequiredError) and error.capabilities:
            raise
        is_unknown = isinstance(error, ToolNotFoundError)
        notices = _unlisted_servers(engine.view, error.server) if is_unknown else []
        if tool.name == REGISTRY.name:
            from discovery_engine.agent.registry_tool import failure_result  # noqa: PLC0415

            return await failure_result(engine, error, arguments, notices)
        return error_result(error, notices)
    except Exception:  # a defect of ours must not end the session
        logger.exception("%s failed", tool.name)
        return error_result(DiscoveryError("an internal error; the server's log has the details"))


def answer(
    engine: ScopedEngine, tool: MetaTool, arguments: JSONObject, caller: Caller
) -> Awaitable[JSONObject]:
    """Call a meta-tool as `call` does, for a program that handles errors itself.

    Raises:
        DiscoveryError: Instead of a result with the error.
    """
    meta_arguments = MetaArguments(arguments, tool.input_schema, tool.name)
    return _HANDLERS[tool.name](engine, meta_arguments, caller)


async def _list_mcp_servers(engine: ScopedEngine, _: MetaArguments, __: Caller) -> JSONObject:
    await engine.wait_first_listed(None)
    view = engine.view
    budget = Budget(view.settings.server.list_tokens)
    notices = (*view.general_notices(), *view.unusable_notices())
    return servers_result(view.servers(), budget, notices)


async def _search_tools(
    engine: ScopedEngine, arguments: MetaArguments, caller: Caller
) -> JSONObject:
    queries = _queries(arguments)
    server = arguments.optional_name("server")
    limit = arguments.optional_count("limit")
    tags = arguments.texts("tags")
    kinds = _kinds(arguments, engine)
    await engine.wait_first_listed(server)
    most = None if limit is None else min(limit, _MAX_HITS)
    if most is None and caller.on_found:
        most = engine.settings.search.limit  # names are cheap, and a pool has room for all that fit
    answers = []
    for query in queries:
        answers.append(
            await engine.search(query, server=server, tags=tags, limit=most, kinds=kinds)
        )
        # A search never awaits, so ten in a row would block other clients.
        await checkpoint()
    # Each further query adds half a budget: enough for its best matches.
    default = engine.settings.search.max_tokens * (len(queries) + 1) // 2
    budget, richest = _budget(arguments, default)
    if caller.on_found is None:
        return _rendered(answers, budget, richest)
    report = caller.on_found(answers)
    # Their definitions are in the client's list of tools, so a line is enough.
    result = _rendered(answers, budget, Detail.LINE, report.names)
    return with_report(result, report)


def _kinds(arguments: MetaArguments, engine: ScopedEngine) -> tuple[SearchKind, ...]:
    """Return the kinds to search for: tools if none is given, and skills if there are any."""
    names = arguments.texts("kinds")
    if unknown := [kind for kind in names if kind not in SEARCH_KINDS]:
        raise arguments.mistake(f"kinds: {named(unknown[0])} is none of {', '.join(SEARCH_KINDS)}")
    if names or not engine.view.offerings.visible(OfferingKind.SKILL):
        return tuple(kind for kind in SEARCH_KINDS if kind in names) or TOOLS_ONLY
    return ("tool", "skill")


def _rendered(
    answers: Sequence[SearchAnswer],
    budget: Budget,
    richest: Detail,
    names: Names = MappingProxyType({}),
) -> JSONObject:
    if len(answers) == 1:
        return search_result(answers[0], budget, richest, names)
    return searches_result(answers, budget, richest, names)


async def _list_tools(engine: ScopedEngine, arguments: MetaArguments, _: Caller) -> JSONObject:
    server = arguments.text("server")
    include_disabled = arguments.flag("includeDisabled")
    await engine.wait_first_listed(server)
    view = engine.view
    listed = view.list_tools(server, include_disabled=include_disabled)
    return tools_result(listed, *_budget(arguments, view.settings.server.list_tokens))


async def _get_tool_details(
    engine: ScopedEngine, arguments: MetaArguments, __: Caller
) -> JSONObject:
    server, tool = arguments.optional_name("server"), arguments.tool()
    budget, _ = _budget(arguments, engine.settings.server.details_tokens)
    with anyio.move_on_after(FIRST_LISTING) as scope:
        await engine.wait_first_listed(server)
    max_wait = max(0.0, scope.deadline - anyio.current_time())
    if "://" in tool and (skill := engine.view.offerings.skill(server, tool)):
        return skill_result(skill, engine.view, budget)
    entry = await engine.details(server, tool, max_wait=max_wait)
    return details_result(entry, engine.view, budget)


def _queries(arguments: MetaArguments) -> list[str]:
    """Return `query` and `queries` in order, without duplicates, with single blanks."""
    texts = [arguments.optional_text("query") or "", *arguments.texts("queries")]
    for query in texts:
        require_query(query)
    queries = dict.fromkeys(" ".join(query.split()) for query in texts)
    queries.pop("", None)
    if not queries:
        raise arguments.missing("query", "queries")
    return list(queries)


def _budget(arguments: MetaArguments, default: int) -> tuple[Budget, Detail]:
    """Return the budget of an answer, and the most detail that it may give.

    Only an explicit `maxTokens` is used up with whole schemas; the default is a ceiling.
    """
    requested = arguments.optional_count("maxTokens")
    if requested is None:
        return Budget(max(default, MIN_TOKENS)), Detail.SIGNATURE
    most = max(default, MOST_TOKENS)
    return Budget(min(requested, most), is_most=requested >= most), Detail.SCHEMA


def _unlisted_servers(view: View, server: str | None) -> list[Notice]:
    """Return notices of the servers that were never listed, and might have the tool."""
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


# Few calls are of several steps or of the owner's servers: a start does not load what they need.


async def _execute_steps(
    engine: ScopedEngine, arguments: MetaArguments, caller: Caller
) -> JSONObject:
    from discovery_engine.agent.step_execution import execute_steps  # noqa: PLC0415 - as above

    return await execute_steps(engine, arguments, caller)


async def _execute_script(
    engine: ScopedEngine, arguments: MetaArguments, caller: Caller
) -> JSONObject:
    from discovery_engine.agent.script_execution import execute_script  # noqa: PLC0415 - as above

    return await execute_script(engine, arguments, caller)


async def _run_registry(
    engine: ScopedEngine, arguments: MetaArguments, caller: Caller
) -> JSONObject:
    """Run the tool `registry`, whose module is loaded only where the owner has enabled it."""
    from discovery_engine.agent.registry_tool import run_registry  # noqa: PLC0415

    return await run_registry(engine, arguments, caller)


_HANDLERS: Mapping[str, Handler] = {
    "list_mcp_servers": _list_mcp_servers,
    "search_tools": _search_tools,
    "list_tools": _list_tools,
    "get_tool_details": _get_tool_details,
    "execute_tool": execute_tool,
    "read_result": read_result,
    "execute_steps": _execute_steps,
    "execute_script": _execute_script,
    "registry": _run_registry,
}


_SEPARATORS = lazy_pattern(r":|__|[./]")


def meant_meta_tool(
    engine: ScopedEngine, tools: Mapping[str, MetaTool], tool: MetaTool, arguments: JSONObject
) -> tuple[MetaTool, JSONObject]:
    """Return the meta-tool that a call of `execute_tool` names, with its arguments.

    Any other call is returned unchanged. A server's tool with the name of a meta-tool comes first.
    """
    names = tuple(tools)
    # Most calls name the tool of a server, and pay for no second reading.
    meant = [v for v in arguments.values() if isinstance(v, str) and v.endswith(names)]
    if tool.name != "execute_tool" or not meant:
        return tool, arguments
    with suppress(DiscoveryError):
        meta_arguments = MetaArguments(arguments, tool.input_schema, tool.name)
        server, name = meta_arguments.called_tool()
        inner = tools.get(_SEPARATORS.split(name)[-1])
        view = engine.view
        if inner and (server is None or server not in view.settings.by_name):
            try:
                view.find(None, name)
            except NotFoundError:
                return meant_meta_tool(engine, tools, inner, meta_arguments.mapping("arguments"))
    return tool, arguments


def called_tools(tool: MetaTool, arguments: JSONObject) -> Iterator[tuple[str | None, str]]:
    """Yield server and name of each tool that a call of the meta-tool calls, for `View.find`."""
    meta_arguments = MetaArguments(arguments, tool.input_schema, tool.name)
    match tool.name:
        case "execute_tool":
            yield meta_arguments.called_tool()
        case "execute_steps":
            from discovery_engine.agent.call_steps import read_steps  # noqa: PLC0415 - as above

            yield from (
                (step.server, step.tool) for step in read_steps(meta_arguments.value("steps"))
            )
        case "registry" if meta_arguments.text("action") == "proxy_call":
            yield meta_arguments.called_tool()
