"""Tools for OpenAI's Responses API through the `openai` SDK: client-executed tool search and calls.

    tools = ResponsesTools(engine)
    response = await client.responses.create(tools=tools.definitions(), input=request, ...)
    while outputs := await tools.outputs(response):
        response = await client.responses.create(
            tools=tools.definitions(), input=outputs, previous_response_id=response.id, ...
        )

The model gets `tool_search`, which the client executes. Its results are items of the conversation,
so `tools` is the same in every request, and prompt caches hold. A `ResponsesTools` has no state: it
serves any number of conversations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from itertools import chain, count
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from discovery_engine._util.text import named, one_line
from discovery_engine.agent.agent_tool import openai_function
from discovery_engine.agent.answer_rendering import ANSWER, ERROR
from discovery_engine.agent.content import ResultContent, ResultPart, part_text
from discovery_engine.agent.toolset import toolset_of
from discovery_engine.integrations.adapter import (
    CUT_OFF,
    PDF,
    CallProgress,
    OnCallProgress,
    missing_framework,
    progress_of,
    shown_media,
    side_by_side,
)
from discovery_engine.sync.blocking_call import OnLoop, run_blocking
from discovery_engine.sync.blocking_engine import sync_toolset_of
from discovery_engine.tools.meta_tools import POOL_SEARCH

try:
    from openai.types.responses import (
        Response,
        ResponseFunctionCallOutputItemParam,
        ResponseFunctionToolCall,
        ResponseInputItemParam,
        ResponseToolSearchCall,
        ToolParam,
    )
    from openai.types.responses.response_input_item_param import FunctionCallOutput
    from openai.types.responses.tool_search_output_namespace_tool_param import (
        ToolSearchOutputNamespaceToolParam as NamespaceTool,
    )
except ImportError as error:
    raise missing_framework("openai", error) from error

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.agent.agent_tool import AgentTool
    from discovery_engine.agent.toolset import Toolset
    from discovery_engine.engine import ScopedEngine
    from discovery_engine.rpc.client import Client
    from discovery_engine.sync.blocking_engine import SyncScopedEngine, SyncToolset
    from discovery_engine.sync.sync_client import AnyClient

Call: TypeAlias = ResponseFunctionToolCall | ResponseToolSearchCall
Status: TypeAlias = Literal["completed", "incomplete"]

_FAILED = "The call failed:"
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_NOT_SEARCHED = ("loading", "unavailable")
"""Kinds of notices about a server whose tools are missing from an answer."""
_LONGEST_NAMESPACE = 48  # characters, which leaves room for a number
_MOST_FUNCTIONS = 9
"""The most functions of one namespace: OpenAI's guide asks for fewer than ten."""


class ResponsesTools:
    """The tools of a toolset, for requests to the Responses API."""

    def __init__(
        self,
        source: ScopedEngine | Toolset,
        *,
        own: Collection[str] = (),
    ) -> None:
        """Create the tools for any number of conversations.

        Args:
            source: An engine; or a toolset, which with the mode `meta` has the meta-tools as
                functions.
            own: The names of the program's own functions, whose calls it answers itself.
        """
        self._toolset = toolset_of(source)
        self._own = frozenset(own)

    def definitions(self) -> list[ToolParam]:
        """Return the `tools` of every request."""
        forms = [
            _tool_search()
            if self._searches and tool.name == POOL_SEARCH.name
            else openai_function(tool, "responses")
            for tool in self._toolset.tools()
            if tool.name not in self._own
        ]
        return cast("list[ToolParam]", forms)

    async def outputs(
        self,
        response: Response,
        *,
        client: Client | None = None,
        on_progress: OnCallProgress | None = None,
    ) -> list[ResponseInputItemParam]:
        """Return the outputs of all calls of a response, in order; empty if it has no calls.

        Calls run concurrently. A failure is an output that the model reads. Calls of the program's
        own functions are left out.

        Args:
            response: The answer of the model.
            client: See `AgentTool.call`.
            on_progress: Awaited with the progress of each call.
        """
        last = response.output[-1:] if response.status == "incomplete" else []

        async def answer(call: Call) -> list[ResponseInputItemParam]:
            if call.type == "tool_search_call":
                if call in last or call.status == "incomplete":
                    return [_search_output(call, [], "incomplete")]
                return await self._found(call)
            if call in last or call.status == "incomplete":
                return [_output(call, CUT_OFF)]
            report = progress_of(on_progress, call.call_id, call.name)
            result = await self._toolset.call_as_result(
                call.name, call.arguments, client=client, on_progress=report
            )
            return [_output(call, _shown(ResultContent.of(result)))]

        return [*chain.from_iterable(await side_by_side(answer, self._calls(response)))]

    @property
    def _searches(self) -> bool:
        return self._toolset.mode == "select"

    def _calls(self, response: Response) -> Iterator[Call]:
        for item in response.output:
            if (item.type == "function_call" and item.name not in self._own) or (
                item.type == "tool_search_call" and item.execution == "client" and self._searches
            ):
                yield item

    async def _found(self, call: ResponseToolSearchCall) -> list[ResponseInputItemParam]:
        """Return the output of a search; without tools, also a message that explains it."""
        answer, tools = await self._toolset.answer_search(cast("JSONObject", call.arguments))
        output = _search_output(call, self._namespaces(tools))
        return [output] if tools else [output, _nothing_found(answer)]

    def _namespaces(self, tools: Iterable[AgentTool]) -> list[NamespaceTool]:
        """Return namespaces of up to nine functions of one server; the best match comes first."""
        by_server: dict[str, list[JSONObject]] = {}
        for tool in tools:
            server = tool.origin.server if tool.origin else ""
            function = {**openai_function(tool, "responses"), "defer_loading": True}
            by_server.setdefault(server, []).append(function)
        namespaces: dict[str, NamespaceTool] = {}
        for server, functions in by_server.items():
            purpose = one_line(self._toolset.purpose_of(server)) or f"Tools of {one_line(server)}"
            for start in range(0, len(functions), _MOST_FUNCTIONS):
                name = _free_name(server, namespaces)
                namespaces[name] = {
                    "type": "namespace",
                    "name": name,
                    "description": purpose,
                    "tools": cast("list[Any]", functions[start : start + _MOST_FUNCTIONS]),
                }
        return list(namespaces.values())


class SyncResponsesTools(OnLoop):
    """`ResponsesTools` for the client `OpenAI` and an engine of `discovery_engine.sync`."""

    def __init__(
        self, source: SyncScopedEngine | SyncToolset, *, own: Collection[str] = ()
    ) -> None:
        """Create the tools; see `ResponsesTools`."""
        toolset = sync_toolset_of(source)
        super().__init__(ResponsesTools(toolset.wrapped, own=own), toolset.portal, toolset.client)

    def definitions(self) -> list[ToolParam]:
        """Return the `tools` of every request; see `ResponsesTools.definitions`."""
        tools: list[ToolParam] = self.portal.call(self.wrapped.definitions)
        return tools

    def outputs(
        self,
        response: Response,
        *,
        client: AnyClient | None = None,
        on_progress: Callable[[CallProgress], object] | None = None,
    ) -> list[ResponseInputItemParam]:
        """Return the outputs of all calls of a response; see `ResponsesTools.outputs`.

        `client` and `on_progress` are called in this thread.
        """
        options: Any = {"client": client or self.client, "on_progress": on_progress}
        return run_blocking(self.portal, self.wrapped.outputs, response, **options)


def _tool_search() -> ToolParam:
    return {
        "type": "tool_search",
        "execution": "client",
        "description": POOL_SEARCH.description,
        "parameters": {**POOL_SEARCH.input_schema, "additionalProperties": False},
    }


def _free_name(server: str, names: Container[str]) -> str:
    """Return a free name for a namespace of a server: `github`, `github_2`."""
    name = _NOT_IN_NAMES.sub("_", server)[:_LONGEST_NAMESPACE]
    numbered = chain([name], (f"{name}_{number}" for number in count(2)))
    return next(candidate for candidate in numbered if candidate not in names)


def _search_output(
    call: ResponseToolSearchCall, namespaces: list[NamespaceTool], status: Status = "completed"
) -> ResponseInputItemParam:
    return {
        "type": "tool_search_output",
        "execution": "client",
        "call_id": call.call_id,
        "status": status,
        "tools": namespaces,
    }


def _nothing_found(answer: JSONObject) -> ResponseInputItemParam:
    """Return a message that says why a search found no tools, and names servers not searched.

    It contains no text of a server, because models trust developer messages.
    """
    fields = answer["_meta"].get(ANSWER) or {}
    answers = fields.get("answers") or [fields]
    notices = chain.from_iterable(query_answer.get("notices") or () for query_answer in answers)
    missing = dict.fromkeys(note["server"] for note in notices if note["kind"] in _NOT_SEARCHED)
    error = answer["_meta"].get(ERROR, {}).get("code")
    text = "tool_search found no tool that fits."
    if error:
        text = f"tool_search failed: {error}."
    elif any(query_answer.get("results") for query_answer in answers):
        text = "tool_search found only functions that you have already."
    if missing:
        text += f" Servers that could not be searched now: {', '.join(map(named, missing))}."
    return {"role": "developer", "content": text}


def _output(
    call: ResponseFunctionToolCall, output: str | list[ResponseFunctionCallOutputItemParam]
) -> FunctionCallOutput:
    item: FunctionCallOutput = {
        "type": "function_call_output",
        "call_id": call.call_id,
        "output": output,
    }
    if call.caller is not None:  # a program of the model waits for it
        item["caller"] = cast("Any", call.caller.to_dict())
    return item


def _shown(content: ResultContent) -> str | list[ResponseFunctionCallOutputItemParam]:
    """Return text alone as text, else items; text marks failures, as outputs have no flag."""
    items = [item for part in content.parts for item in _item(part)]
    if content.is_error:
        items.insert(0, {"type": "input_text", "text": _FAILED})
    texts = [item["text"] for item in items if item["type"] == "input_text"]
    return "\n".join(texts) if len(texts) == len(items) else items


def _item(part: ResultPart) -> Iterator[ResponseFunctionCallOutputItemParam]:
    """Yield a part as an input item; one that the API refuses becomes text that names it."""
    media = shown_media(part)
    if media is None:
        if text := part_text(part):
            yield {"type": "input_text", "text": text}
        return
    data = f"data:{media.media_type};base64,{media.data}"
    if media.media_type == PDF:
        name = media.uri.rpartition("/")[2] or "document.pdf"
        yield {"type": "input_file", "filename": name, "file_data": data}
    else:
        yield {"type": "input_image", "image_url": data}
