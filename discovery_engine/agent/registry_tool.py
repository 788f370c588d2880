"""The actions of `registry`: the owner's verbs in one meta-tool; imported only where it is on.

What an agent says never installs or switches anything by itself. Texts of strangers are cleaned.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from anyio.lowlevel import checkpoint

from discovery_engine._util.text import clean, one_line
from discovery_engine.agent.answer_rendering import ERROR, error_result
from discovery_engine.agent.execution import call_tool, shortened_result
from discovery_engine.config.settings import RemoteTransport, StdioTransport
from discovery_engine.engine.engine import Engine
from discovery_engine.errors import (
    DiscoveryError,
    NotFoundError,
    ServerNotFoundError,
    ToolAmbiguousError,
    ToolNotFoundError,
)
from discovery_engine.tools.client_names import RESERVED
from discovery_engine.tools.limits import require_query
from discovery_engine.trust import scanner
from discovery_engine.view.search_answers import Decision

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.agent.meta_arguments import Caller, MetaArguments
    from discovery_engine.catalog import Entry
    from discovery_engine.engine import ScopedEngine
    from discovery_engine.engine.owner.server_listing import OwnedServer
    from discovery_engine.marketplace.entry_search import FoundEntry
    from discovery_engine.search.ranking.relevance import Hit
    from discovery_engine.store.stored_records import AgentAction, AgentRequest
    from discovery_engine.view.notices import Notice
    from discovery_engine.view.search_answers import SearchAnswer
    from discovery_engine.view.status import ServerReport
    from discovery_engine.view.view import View

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_HITS = 5
_MOST_HITS = 20
_OTHERS_OF_SEVERAL = 2
_MOST_LISTED = 100

Action = Callable[["ScopedEngine", "MetaArguments", "Caller"], Awaitable["JSONObject"]]


class NotAllowedError(DiscoveryError):
    """The owner has not switched on what an agent wants to do."""

    code = "NOT_ALLOWED"


async def run_registry(
    engine: ScopedEngine, arguments: MetaArguments, caller: Caller
) -> JSONObject:
    """The result of `registry`: one JSON object; of `proxy_call` the result of the tool."""
    action = arguments.text("action")
    is_asking = engine.settings.server.registry_tool == "ask"
    allowed = {**READING, **ASKING} if is_asking else READING
    if action not in allowed:
        if action in ASKING:
            hint = "`server.registryTool: ask` allows agents to ask for it"
            raise NotAllowedError(f"{action} is not allowed here", hint=hint)
        raise arguments.mistake(f"action: {action!r} is none of {', '.join(allowed)}")
    return await allowed[action](engine, arguments, caller)


async def _find_tool(engine: ScopedEngine, arguments: MetaArguments, caller: Caller) -> JSONObject:
    query = arguments.optional_text("query")
    if query is None:
        raise arguments.missing("query")
    limit = min(arguments.optional_count("limit") or _HITS, _MOST_HITS)
    await engine.wait_first_listed(None)
    [answer] = await _found(engine, [query], limit, arguments, caller)
    return _result(answer)


async def _find_tools(engine: ScopedEngine, arguments: MetaArguments, caller: Caller) -> JSONObject:
    intents = arguments.texts("intents")
    if not intents:
        raise arguments.missing("intents")
    await engine.wait_first_listed(None)
    answers = await _found(engine, intents, 1 + _OTHERS_OF_SEVERAL, arguments, caller)
    pairs = zip(intents, answers, strict=True)
    return _result({"results": [{"intent": intent, **answer} for intent, answer in pairs]})


async def _found(
    engine: ScopedEngine,
    queries: Sequence[str],
    limit: int,
    arguments: MetaArguments,
    caller: Caller,
) -> list[JSONObject]:
    """The answer to each query; what is found is put into the client's list where it has one."""
    answers = []
    for query in queries:
        require_query(query)
        answers.append(await engine.search(query, limit=limit))
        await checkpoint()  # a search never awaits
    is_activating = arguments.value("auto_activate") not in (False, "false")
    if caller.on_found and is_activating:
        caller.on_found(answers)
    return [found_answer(answer, may_browse=bool(_whole(engine))) for answer in answers]


async def _get_schema(engine: ScopedEngine, arguments: MetaArguments, _: Caller) -> JSONObject:
    name = arguments.optional_name("call_as") or arguments.text("name")
    await engine.wait_first_listed(None)
    try:
        return _result(schema_answer(await engine.details(None, name)))
    except ToolNotFoundError as error:
        hint = "find_tool finds tools by what they do"
        meant = await meant_names(engine, error, name)
        return _result({"found": False, "hint": hint, "did_you_mean": meant})


async def _proxy_call(engine: ScopedEngine, arguments: MetaArguments, caller: Caller) -> JSONObject:
    server, tool = arguments.called_tool()
    tool_arguments = arguments.mapping("arguments")
    await engine.wait_first_listed(server)
    result = await call_tool(engine, server, tool, tool_arguments, caller)
    if result.get("resultType", "complete") != "complete":
        return result
    return await shortened_result(engine, server, tool, result, caller)


async def _list(engine: ScopedEngine, arguments: MetaArguments, _: Caller) -> JSONObject:
    query, source = arguments.optional_text("query") or "", arguments.optional_name("source")
    is_installed = arguments.flag("installed_only")
    if (source or is_installed) and not _whole(engine):
        option = "source" if source else "installed_only"
        raise arguments.mistake(f"{option}: where servers come from is not shown in a view")
    if whole := _whole(engine):
        await whole.complete_settings()
        sources = {"manual": ("discovery.yaml", "registry"), "local": ()}.get(source or "local")
        entries = await whole.servers.list(
            query,
            sources=(source or "",) if sources is None else sources,
            installed_only=is_installed,
        )
        servers = [server_answer(entry.report, entry) for entry in entries]
    else:
        words = query.casefold().split()
        servers = [
            server_answer(server)
            for server in engine.view.servers()
            if all(word in f"{server.name} {server.description}".casefold() for word in words)
        ]
    return _result({"servers": servers[:_MOST_LISTED], "total": len(servers)})


async def _status(engine: ScopedEngine, _: MetaArguments, caller: Caller) -> JSONObject:
    await engine.wait_first_listed(None)
    answer = status_answer(engine.view)
    if whole := _asking(engine):
        mine = [
            request for request in await whole.requests.list() if request.client == _client(caller)
        ]
        answer["requests"] = [request_answer(request) for request in mine[-_MOST_HITS:]]
    return _result(answer)


async def _browse(engine: ScopedEngine, arguments: MetaArguments, _: Caller) -> JSONObject:
    query = arguments.optional_text("query") or ""
    limit = min(arguments.optional_count("limit") or _MOST_HITS, _MOST_LISTED)
    page = await _owner(engine).marketplace.search(
        query, limit=limit, cursor=arguments.optional_text("cursor")
    )
    return _result(
        {
            "servers": [entry_answer(entry) for entry in page.entries],
            "next_cursor": page.next_cursor,
            "problems": [problem.sentence for problem in page.problems],
        }
    )


async def _install(engine: ScopedEngine, arguments: MetaArguments, caller: Caller) -> JSONObject:
    name = arguments.text("name")
    if server := _known(engine, name):
        return _result({"status": "already_registered", "server": server})
    if arguments.optional_text("command") and (not _NAME.fullmatch(name) or "__" in name):
        raise arguments.mistake(f"name: {name!r} cannot be the name of a server")
    if arguments.optional_text("command") and name.lower() in RESERVED:
        raise arguments.mistake(f"name: {name!r} is the name of a meta-tool; choose another one")
    options = {
        "command": arguments.optional_text("command"),
        "args": list(arguments.texts("args")),
        "description": arguments.optional_text("description"),
        "tags": list(arguments.texts("tags")),
    }
    if arguments.value("env"):
        raise arguments.mistake("env: the user enters values and secrets; leave it out")
    return await _ask(engine, caller, "install", name, {k: v for k, v in options.items() if v})


async def _uninstall(engine: ScopedEngine, arguments: MetaArguments, caller: Caller) -> JSONObject:
    name = engine.view.server(arguments.text("name")).name
    return await _ask(engine, caller, "uninstall", name)


async def _activate(engine: ScopedEngine, arguments: MetaArguments, caller: Caller) -> JSONObject:
    server = engine.view.server(arguments.text("name"))
    if server.state != "disabled":
        part = engine.view.catalog.part(server.name)
        tools = [
            {"name": f"{server.name}__{entry.tool.name}", "description": entry.tool.summary}
            for entry in part.visible
        ]
        return _result({"status": "already_active", "name": server.name, "tools": tools})
    return await _ask(engine, caller, "activate", server.name)


async def _deactivate(engine: ScopedEngine, arguments: MetaArguments, caller: Caller) -> JSONObject:
    server = engine.view.server(arguments.text("name"))
    if server.state == "disabled":
        return _result({"status": "not_active", "name": server.name})
    return await _ask(engine, caller, "deactivate", server.name)


async def _sync(engine: ScopedEngine, _: MetaArguments, caller: Caller) -> JSONObject:
    return await _ask(engine, caller, "sync", "")


async def _ask(
    engine: ScopedEngine,
    caller: Caller,
    action: AgentAction,
    name: str,
    arguments: JSONObject | None = None,
) -> JSONObject:
    request = await _owner(engine).requests.submit(action, name, arguments, client=_client(caller))
    return _result(request_answer(request))


def _known(engine: ScopedEngine, name: str) -> str | None:
    """The configured server of that name."""
    try:
        return engine.view.server(name).name
    except ServerNotFoundError:
        return None


def _owner(engine: ScopedEngine) -> Engine:
    if whole := _whole(engine):
        return whole
    raise NotAllowedError("this is not possible in a view", hint="ask the user to do it")


def _asking(engine: ScopedEngine) -> Engine | None:
    """The whole engine, where agents may ask for servers."""
    return _whole(engine) if engine.settings.server.registry_tool == "ask" else None


def _whole(engine: ScopedEngine) -> Engine | None:
    """The engine that shows everything, if this is it: clients of a view get no more of it."""
    return engine if isinstance(engine, Engine) else None


def _client(caller: Caller) -> str:
    return caller.label or caller.client_id or ""


def _result(answer: JSONObject) -> JSONObject:
    text = json.dumps(answer, ensure_ascii=False)
    return {"content": [{"type": "text", "text": text}], "structuredContent": answer}


READING: Mapping[str, Action] = {
    "find_tool": _find_tool,
    "find_tools": _find_tools,
    "get_schema": _get_schema,
    "proxy_call": _proxy_call,
    "list": _list,
    "browse": _browse,
    "status": _status,
}
ASKING: Mapping[str, Action] = {
    "install": _install,
    "uninstall": _uninstall,
    "activate": _activate,
    "deactivate": _deactivate,
    "sync": _sync,
}


# Answers, as JSON; texts are cut.

_MAX_HIT_DESCRIPTION_LENGTH = 300  # characters of a description
_MOST_REASONS = 3  # why nothing was found
_MOST_TOOLS = 50  # of a server in the status
_CONFIDENCE = {"sure": "high", "likely": "medium"}
_NEXT_STEP = {
    "high": "call it with proxy_call",
    "medium": "compare other_matches, then call it with proxy_call",
    "low": "these are only the nearest: read get_schema before you call one, or ask in other words",
}


def found_answer(answer: SearchAnswer, *, may_browse: bool) -> JSONObject:
    """Return the answer of `find_tool`; `may_browse` is true if the caller may use `browse`."""
    if not answer.hits:
        top = answer.nearest[0].relevance if answer.nearest else 0.0
        # The advice to use other words names a tool that is not here.
        why = [n.message for n in answer.notices if n.code != "ANSWER_NO_MATCH"][:_MOST_REASONS]
        further = "browse finds servers that could be installed"
        further = further if may_browse else "ask the user for another server"
        hint = "; ".join([*map(one_line, why or ["no tool fits"]), further])
        return {"found": False, "matches": [], "top_score": round(top, 4), "hint": hint}
    first, *others = answer.hits
    is_match = answer.decision is Decision.MATCH
    confidence = _CONFIDENCE.get(answer.certainty or "", "low") if is_match else "low"
    required = [parameter for parameter in first.entry.tool.parameters if parameter.required]
    return {
        "found": True,
        "confidence": confidence,
        **_match(first),
        "server": first.entry.tool.server,
        "required_args": [
            {
                "name": parameter.name,
                "type": parameter.type,
                "description": _short(parameter.description),
            }
            for parameter in required
        ],
        "optional_count": len(first.entry.tool.parameters) - len(required),
        "next_step": _NEXT_STEP[confidence],
        "other_matches": [_match(hit) for hit in others],
    }


def schema_answer(entry: Entry) -> JSONObject:
    return {
        "found": True,
        "call_as": call_as(entry),
        "description": clean(entry.tool.description),
        "input_schema": entry.tool.input_schema,
    }


def server_answer(report: ServerReport, owned: OwnedServer | None = None) -> JSONObject:
    """A server; with `owned` also what only a client of everything may know."""
    answer: JSONObject = {
        "id": report.name,
        "name": report.name,
        "description": _short(report.description),
        "tags": list(report.tags),
        "active": report.state != "disabled",
        "health_status": str(report.state),
        "last_health_check": report.listed_at,
        "error_count": report.stats.failures if report.stats else 0,
        "tool_count": report.enabled_count,
    }
    if owned:
        answer |= {
            "source": owned.source,
            "transport": _transport(owned),
            "installed": owned.package is not None,
            "active": owned.is_wanted,
        }
    return answer


def _transport(owned: OwnedServer) -> str:
    match owned.settings.transport:
        case StdioTransport():
            return "stdio"
        case RemoteTransport(kind=kind):
            return kind
    return ""


def status_answer(view: View) -> JSONObject:
    active = [server for server in view.servers() if server.state != "disabled"]
    return {
        "active_count": len(active),
        "servers": [
            {
                "name": server.name,
                "description": _short(server.description),
                "tool_count": server.enabled_count,
                "tools": [
                    entry.tool.name
                    for entry in view.catalog.part(server.name).visible[:_MOST_TOOLS]
                ],
            }
            for server in active
        ],
    }


def entry_answer(result: FoundEntry) -> JSONObject:
    entry = result.entry
    return {
        "name": one_line(entry.name),
        "description": _harmless(entry.description),
        "version": one_line(entry.version),
        "status": entry.status,
        "repository": one_line(entry.repository),
        "packages": [
            {
                "name": one_line(p.identifier),
                "runtime": p.registry_type,
                "version": one_line(p.version),
            }
            for p in entry.packages
        ],
    }


def request_answer(request: AgentRequest) -> JSONObject:
    """Return the state of an agent's request, for that agent to read now and later."""
    answer: JSONObject = {
        "status": "requested" if request.state == "waiting" else request.state,
        "action": request.action,
        "name": request.name,
        "request": request.id,
    }
    if request.state == "waiting":
        next_step = (
            "the user decides with `discovery review requests`; status says what became of it"
        )
        return answer | {"next_step": next_step}
    return answer | {"outcome": one_line(request.outcome)}


def call_as(entry: Entry) -> str:
    return f"mcp__{entry.tool.server}__{entry.tool.name}"


def _match(hit: Hit) -> JSONObject:
    return {
        "call_as": call_as(hit.entry),
        "tool": hit.entry.tool.name,
        "description": _short(hit.entry.tool.description),
        "score": round(hit.relevance, 4),
    }


def _short(text: str) -> str:
    text = one_line(text)
    return (
        text
        if len(text) <= _MAX_HIT_DESCRIPTION_LENGTH
        else f"{text[: _MAX_HIT_DESCRIPTION_LENGTH - 1]}…"
    )


def _harmless(text: str) -> str:
    """A text that a stranger may have published; nothing of one that is suspicious."""
    return "" if scanner.alarms(scanner.scan_text(text, where="description")) else _short(text)


# Errors as results: in the words of this tool, with the names that may be meant.

_MOST_MEANT = 3
_SEPARATORS = re.compile(r"[^A-Za-z0-9]+")
_NEXT_STEPS = {
    ServerNotFoundError: "the action list names all servers",
    ToolNotFoundError: "the action find_tool finds tools by what they do",
}
"""Hints instead of those naming meta-tools, which are absent where tools have their own names."""


async def failure_result(
    engine: ScopedEngine, error: DiscoveryError, arguments: JSONObject, notices: Sequence[Notice]
) -> JSONObject:
    """An error as the result of `registry`; what it says is in `structuredContent`, too."""
    result = error_result(_with_own_hint(error), notices, lister="the action list")
    answer: JSONObject = {"error": result["_meta"][ERROR]}
    if arguments.get("action") == "proxy_call" and isinstance(error, NotFoundError):
        name = arguments.get("call_as") or arguments.get("tool")
        answer["did_you_mean"] = await meant_names(engine, error, str(name or ""))
    return {**result, "structuredContent": answer}


async def meant_names(engine: ScopedEngine, error: NotFoundError, name: str) -> list[str]:
    """The tools that are nearest to a name, as `call_as`; of the server itself if it is known."""
    match error:
        case ToolAmbiguousError():
            near = list(error.nearest)
        case ToolNotFoundError(server=str() as server):
            return [f"mcp__{server}__{tool}" for tool in error.nearest[:_MOST_MEANT]]
        case _:
            near = list(error.nearest) if isinstance(error, ToolNotFoundError) else []
    if near:
        return [f"mcp__{label.replace(':', '__', 1)}" for label in near[:_MOST_MEANT]]
    words = _SEPARATORS.sub(" ", name.removeprefix("mcp__")).strip()
    if not words:
        return []
    answer = await engine.search(words, limit=_MOST_MEANT)
    return [call_as(hit.entry) for hit in (answer.hits or answer.nearest)[:_MOST_MEANT]]


def _with_own_hint(error: DiscoveryError) -> DiscoveryError:
    next_step = _NEXT_STEPS.get(type(error))
    if next_step is None or not isinstance(error, NotFoundError):
        return error
    meant = f"did you mean {' or '.join(map(repr, error.nearest))}?" if error.nearest else ""
    return error.with_own_hint("; ".join(filter(None, (meant, next_step))))
