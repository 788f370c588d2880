"""`execute_tool` and `read_result`: a call of a tool, and its result as an agent gets it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from discovery_engine._util.json import JSONObject
from discovery_engine.agent.answer_rendering import preview_result, unchecked_result
from discovery_engine.agent.meta_arguments import Caller, MetaArguments
from discovery_engine.agent.presentation import read_on, selected, shortened_result
from discovery_engine.agent.result_query import PathQuery
from discovery_engine.errors import DiscoveryError
from discovery_engine.tools.limits import require_query

if TYPE_CHECKING:
    from discovery_engine.engine import ScopedEngine

LONGEST_START = 30.0  # seconds that a call waits for a start; hosts time out after 60


async def execute_tool(
    engine: ScopedEngine, arguments: MetaArguments, caller: Caller
) -> JSONObject:
    server, tool = arguments.called_tool()
    tool_arguments = arguments.mapping("arguments")
    expression = arguments.optional_text("select")
    query = PathQuery(expression) if expression else None  # a mistake is answered before the call
    is_dry_run = arguments.flag("dryRun")
    await engine.wait_first_listed(server)
    if (word := arguments.written("arguments")) not in (None, "arguments"):
        tool_arguments = _as_own(engine, server, tool, word, tool_arguments)
    if is_dry_run:
        return preview_result(
            await engine.preview(server, tool, tool_arguments, max_wait=LONGEST_START)
        )
    result = await call_tool(engine, server, tool, tool_arguments, caller)
    if result.get("resultType") == "task" and expression:
        engine.tasks.select(result["taskId"], expression, caller.client)
    if result.get("resultType", "complete") != "complete":  # its questions are for the client
        return result
    if query is not None:
        result = await selected(engine, result, query, caller)
    return await shortened_result(engine, server, tool, result, caller)


def _as_own(
    engine: ScopedEngine, server: str | None, tool: str, word: str, arguments: JSONObject
) -> JSONObject:
    """Return `arguments` as the value of the argument `word` if the tool has one, else as it is.

    `word` is what the model wrote for `arguments`.
    """
    with suppress(DiscoveryError):
        if word in {parameter.name for parameter in engine.view.find(server, tool).tool.parameters}:
            return {word: arguments}
    return arguments


async def task_state(engine: ScopedEngine, handle: str, caller: Caller) -> JSONObject:
    """The state of a call that has become a task; its result as `execute_tool` returns it.

    Raises:
        TaskNotFoundError: If it is not a task of this client.
        UpstreamError: If its server cannot be reached.
    """
    report = await engine.tasks.get(handle, caller=caller.client)
    result = report.fields.get("result")
    if result is None:
        return report.fields
    if report.select:
        result = await selected(engine, result, PathQuery(report.select), caller)
    tool = report.tool
    excerpt = await shortened_result(engine, tool.server, tool.tool, result, caller)
    return {**report.fields, "result": excerpt}


async def call_tool(
    engine: ScopedEngine, server: str | None, tool: str, arguments: JSONObject, caller: Caller
) -> JSONObject:
    """A tool's own result, whole, with a note if its arguments were sent unchecked."""
    unchecked: list[str] = []
    result = await engine.execute(
        server,
        tool,
        arguments,
        on_progress=caller.on_progress,
        caller=caller.client,
        continuation=caller.continuation,
        max_wait=LONGEST_START,
        on_unchecked=unchecked.append,
        by="agent",
    )
    is_complete = result.get("resultType", "complete") == "complete"
    return unchecked_result(result, unchecked[0]) if unchecked and is_complete else result


async def read_result(engine: ScopedEngine, arguments: MetaArguments, caller: Caller) -> JSONObject:
    search = arguments.optional_text("search")
    require_query(search or "")
    return await read_on(
        engine,
        arguments.text("handle"),
        caller,
        path=arguments.optional_text("path"),
        offset=arguments.optional_count("offset"),
        search=search,
        limit=arguments.optional_count("limit"),
    )
