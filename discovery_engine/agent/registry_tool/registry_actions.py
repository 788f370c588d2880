"""The actions of `registry`. What an agent says never installs or switches anything by itself."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from anyio.lowlevel import checkpoint

from discovery_engine.agent.execution import call_tool
from discovery_engine.agent.first_listing import wait_for_first_listing
from discovery_engine.agent.registry_tool.registry_answers import (
    entry_answer,
    found_answer,
    request_answer,
    schema_answer,
    server_answer,
    status_answer,
)
from discovery_engine.agent.registry_tool.registry_failures import meant_names
from discovery_engine.agent.results.presentation import shortened_result
from discovery_engine.engine.engine import Engine
from discovery_engine.errors import DiscoveryError, ServerNotFoundError, ToolNotFoundError
from discovery_engine.limits import require_query
from discovery_engine.tools.client_names import RESERVED

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.agent.caller import Caller
    from discovery_engine.agent.meta_arguments import MetaArguments
    from discovery_engine.engine import ScopedEngine
    from discovery_engine.registry.request_records import AgentAction

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
    await wait_for_first_listing(engine, None)
    [answer] = await _found(engine, [query], limit, arguments, caller)
    return _result(answer)


async def _find_tools(engine: ScopedEngine, arguments: MetaArguments, caller: Caller) -> JSONObject:
    intents = arguments.texts("intents")
    if not intents:
        raise arguments.missing("intents")
    await wait_for_first_listing(engine, None)
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
    await wait_for_first_listing(engine, None)
    try:
        return _result(schema_answer(await engine.details(None, name)))
    except ToolNotFoundError as error:
        hint = "find_tool finds tools by what they do"
        meant = await meant_names(engine, error, name)
        return _result({"found": False, "hint": hint, "did_you_mean": meant})


async def _proxy_call(engine: ScopedEngine, arguments: MetaArguments, caller: Caller) -> JSONObject:
    server, tool = arguments.called_tool()
    given = arguments.mapping("arguments")
    await wait_for_first_listing(engine, server)
    result = await call_tool(engine, server, tool, given, caller)
    if result.get("resultType", "complete") != "complete":
        return result
    return await shortened_result(engine, server, tool, result, caller)


async def _list(engine: ScopedEngine, arguments: MetaArguments, _: Caller) -> JSONObject:
    query, source = arguments.optional_text("query") or "", arguments.optional_name("source")
    is_installed = arguments.flag("installed_only")
    if (source or is_installed) and not _whole(engine):
        given = "source" if source else "installed_only"
        raise arguments.mistake(f"{given}: where servers come from is not shown in a view")
    if whole := _whole(engine):
        await whole.complete_settings()
        sources = {"manual": ("discovery.yaml", "registry"), "local": ()}.get(source or "local")
        found = await whole.servers.list(
            query,
            sources=(source or "",) if sources is None else sources,
            installed_only=is_installed,
        )
        servers = [server_answer(one.report, one) for one in found]
    else:
        words = query.casefold().split()
        servers = [
            server_answer(one)
            for one in engine.view.servers()
            if all(word in f"{one.name} {one.description}".casefold() for word in words)
        ]
    return _result({"servers": servers[:_MOST_LISTED], "total": len(servers)})


async def _status(engine: ScopedEngine, _: MetaArguments, caller: Caller) -> JSONObject:
    await wait_for_first_listing(engine, None)
    answer = status_answer(engine.view)
    if whole := _asking(engine):
        mine = [one for one in await whole.requests.list() if one.client == _client(caller)]
        answer["requests"] = [request_answer(one) for one in mine[-_MOST_HITS:]]
    return _result(answer)


async def _browse(engine: ScopedEngine, arguments: MetaArguments, _: Caller) -> JSONObject:
    query = arguments.optional_text("query") or ""
    limit = min(arguments.optional_count("limit") or _MOST_HITS, _MOST_LISTED)
    page = await _owner(engine).marketplace.search(
        query, limit=limit, cursor=arguments.optional_text("cursor")
    )
    return _result(
        {
            "servers": [entry_answer(found) for found in page.entries],
            "next_cursor": page.next_cursor,
            "problems": [problem.sentence for problem in page.problems],
        }
    )


async def _install(engine: ScopedEngine, arguments: MetaArguments, caller: Caller) -> JSONObject:
    name = arguments.text("name")
    if known := _known(engine, name):
        return _result({"status": "already_registered", "server": known})
    if arguments.optional_text("command") and (not _NAME.fullmatch(name) or "__" in name):
        raise arguments.mistake(f"name: {name!r} cannot be the name of a server")
    if arguments.optional_text("command") and name.lower() in RESERVED:
        raise arguments.mistake(f"name: {name!r} is the name of a meta-tool; choose another one")
    given = {
        "command": arguments.optional_text("command"),
        "args": list(arguments.texts("args")),
        "description": arguments.optional_text("description"),
        "tags": list(arguments.texts("tags")),
    }
    if arguments.value("env"):
        raise arguments.mistake("env: the user enters values and secrets; leave it out")
    return await _ask(engine, caller, "install", name, {k: v for k, v in given.items() if v})


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
