"""LangChain and LangGraph: a middleware that binds the tools that fit, and tools to bind oneself.

    agent = create_agent(model, middleware=[DiscoveryMiddleware(engine)])
    result = await agent.ainvoke({"messages": [("user", "open an issue about the login page")]})

With an engine of `discovery_engine.sync` the agent can be invoked without `async`, too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from discovery_engine.agent.content import MediaPart, ResultContent, ResultPart, part_text
from discovery_engine.agent.toolset import Toolset, toolset_of
from discovery_engine.integrations.adapter import PDF, image_type, missing_framework
from discovery_engine.sync import SyncClient, SyncTool, SyncToolset
from discovery_engine.sync.blocking_call import run_in_thread
from discovery_engine.sync.blocking_engine import SyncScopedEngine
from discovery_engine.tools.meta_tools import POOL_SEARCH

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest
    from langchain.agents.middleware.types import ModelResponse, ToolCallRequest
    from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
    from langchain_core.tools import BaseTool, ToolException
    from langgraph.config import get_stream_writer
    from langgraph.types import Command
    from pydantic import PrivateAttr
except ImportError as error:
    raise missing_framework("langchain", error) from error

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel, LanguageModelInput
    from langchain_core.runnables import Runnable

    from discovery_engine._util.json import JSONObject
    from discovery_engine.agent.agent_tool import AgentTool
    from discovery_engine.engine import ScopedEngine
    from discovery_engine.rpc.client import Client

Source: TypeAlias = "ScopedEngine | Toolset | SyncScopedEngine | SyncToolset"
AnyClient: TypeAlias = "Client | SyncClient"
ToolErrorHandling: TypeAlias = bool | str | Callable[[ToolException], Any] | None
ToolAnswer: TypeAlias = "ToolMessage | Command[Any]"
Report: TypeAlias = Callable[[float, float | None, str | None], None]

_ASYNC_ENGINE = (
    "this engine is async: use `ainvoke` or `astream`, or open the engine with"
    " `discovery_engine.sync.open_engine`"
)


class DiscoveryMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Binds the tools that fit the conversation each time the model is called, and calls them.

    The same messages bind the same tools in the same order, whatever other conversations the agent
    has. Progress is in the stream `custom`.
    """

    def __init__(self, source: Source, *, client: AnyClient | None = None) -> None:
        """The middleware of an engine.

        Args:
            source: An engine, or one of its toolsets: with the mode `meta` the agent has the
                meta-tools.
            client: Who calls are made for: it answers what servers ask in the middle of a call.
        """
        super().__init__()
        self.tools: Sequence[BaseTool] = ()
        self._toolset = _toolset(source)
        self._client = client

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any]:
        """Call the model with the tools added; see `AgentMiddleware.wrap_model_call`."""
        return handler(_with_tools(request, _blocking(self._toolset).replay(_history(request))))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Call the model with the tools added; see `AgentMiddleware.awrap_model_call`."""
        turn = await self._replayed(_history(request))
        return await handler(_with_tools(request, turn))

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolAnswer]
    ) -> ToolAnswer:
        """Call a tool of the toolset; other tools are left to the agent.

        See `AgentMiddleware.wrap_tool_call`.
        """
        if request.tool is not None:
            return handler(request)
        call = request.tool_call
        turn = _blocking(self._toolset).replay(_history_before(request))
        progress: Any = {"client": self._client, "on_progress": _report(request)}
        return _message(request, turn.call_as_result(call["name"], call["args"], **progress))

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolAnswer]],
    ) -> ToolAnswer:
        """Call a tool of the toolset; other tools are left to the agent.

        See `AgentMiddleware.awrap_tool_call`.
        """
        if request.tool is not None:
            return await handler(request)
        call, report = request.tool_call, _report(request)
        turn = await self._replayed(_history_before(request))
        if isinstance(turn, SyncToolset):
            run = partial(turn.call_as_result, client=self._client, on_progress=report)
            result = await run_in_thread(run, call["name"], call["args"])
        else:
            result = await turn.call_as_result(
                call["name"],
                call["args"],
                client=_async_client(self._client),
                on_progress=_awaited(report),
            )
        return _message(request, result)

    async def _replayed(self, history: Iterator[str | tuple[str, JSONObject]]) -> AnyToolset:
        if isinstance(self._toolset, SyncToolset):
            return await run_in_thread(self._toolset.replay, history)
        return await self._toolset.replay(history)


def langchain_tools(source: Source, *, client: AnyClient | None = None) -> list[BaseTool]:
    """The tools of an engine as LangChain has them: the meta-tools, or those of a toolset.

    Args:
        source: An engine, or one of its toolsets with what it has bound.
        client: Who calls are made for: it answers what servers ask in the middle of a call.
    """
    return [langchain_tool(tool, client=client) for tool in _toolset(source, "meta").tools()]


def langchain_tool(tool: AgentTool | SyncTool, *, client: AnyClient | None = None) -> BaseTool:
    """A tool as LangChain has it; one of `discovery_engine.sync` can be invoked without `async`."""
    discovery_tool = DiscoveryTool(
        name=tool.name,
        description=tool.description,
        args_schema=tool.parameters,
        metadata={"annotations": tool.annotations},
    )
    discovery_tool._tool, discovery_tool._client = tool, client  # noqa: SLF001 - of this module
    return discovery_tool


class DiscoveryTool(BaseTool):
    """Made by `langchain_tool`. It takes any names of arguments, also `config` and `self`."""

    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    handle_tool_error: ToolErrorHandling = True
    _tool: AgentTool | SyncTool = PrivateAttr()
    _client: AnyClient | None = PrivateAttr(default=None)

    def _run(self, /, *_: Any, **arguments: Any) -> tuple[Any, JSONObject]:
        if not isinstance(self._tool, SyncTool):
            raise TypeError(_ASYNC_ENGINE)
        report: Any = _stream_report(self.name)
        call = self._tool.call_as_result
        return _returned(call(arguments, client=self._client, on_progress=report))

    async def _arun(self, /, *_: Any, **arguments: Any) -> tuple[Any, JSONObject]:
        report = _stream_report(self.name)
        if isinstance(self._tool, SyncTool):
            run = partial(self._tool.call_as_result, client=self._client, on_progress=report)
            return _returned(await run_in_thread(run, arguments))
        client, progress = _async_client(self._client), _awaited(report)
        call = self._tool.call_as_result
        return _returned(await call(arguments, client=client, on_progress=progress))


class BoundModel(NamedTuple):
    """A model with tools bound, and these tools, to call what it asks for."""

    llm: Runnable[LanguageModelInput, AIMessage]
    tools: list[BaseTool]


def bind_discovered_tools_to_llm(  # noqa: PLR0913 - each by its name
    llm: BaseChatModel,
    source: SyncScopedEngine | SyncToolset,
    query: str | Sequence[str],
    *,
    top_k: int = 6,
    server: str | None = None,
    tags: Sequence[str] = (),
    any_tag: bool = False,
    min_score: float = 0.0,
    client: AnyClient | None = None,
    **kwargs: Any,
) -> BoundModel:
    """Bind the tools that fit a query to a model, each with all of its arguments.

    Args:
        llm: The model.
        source: An engine of `discovery_engine.sync`, or one of its toolsets; in a view it shows
            the tools of that view.
        query: What to do, or several such texts.
        top_k: The most tools.
        server: Only this server's tools.
        tags: Only tools that carry all of these.
        any_tag: One of `tags` is enough.
        min_score: Only tools that are at least as relevant, from 0 to 1.
        client: Who calls are made for.
        kwargs: Further arguments of `llm.bind_tools`, for instance `tool_choice`.
    """
    search = _blocking(_toolset(source)).search
    hits = search(
        query, limit=top_k, server=server, tags=tags, any_tag=any_tag, min_relevance=min_score
    )
    tools = [langchain_tool(tool, client=client) for tool in hits]
    return BoundModel(llm.bind_tools(tools, **kwargs), tools)


async def abind_discovered_tools_to_llm(  # noqa: PLR0913 - each by its name
    llm: BaseChatModel,
    source: ScopedEngine | Toolset,
    query: str | Sequence[str],
    *,
    top_k: int = 6,
    server: str | None = None,
    tags: Sequence[str] = (),
    any_tag: bool = False,
    min_score: float = 0.0,
    client: Client | None = None,
    **kwargs: Any,
) -> BoundModel:
    """Bind the tools that fit, for an async engine; see `bind_discovered_tools_to_llm`."""
    search = toolset_of(source).search
    hits = await search(
        query, limit=top_k, server=server, tags=tags, any_tag=any_tag, min_relevance=min_score
    )
    tools = [langchain_tool(tool, client=client) for tool in hits]
    return BoundModel(llm.bind_tools(tools, **kwargs), tools)


AnyToolset: TypeAlias = Toolset | SyncToolset


def _toolset(source: Source, mode: Any = "select") -> AnyToolset:
    if isinstance(source, SyncToolset):
        return source
    return (
        source.toolset(mode=mode)
        if isinstance(source, SyncScopedEngine)
        else toolset_of(source, mode)
    )


def _blocking(toolset: AnyToolset) -> SyncToolset:
    if isinstance(toolset, SyncToolset):
        return toolset
    raise TypeError(_ASYNC_ENGINE)


def _async_client(client: AnyClient | None) -> Client | None:
    if isinstance(client, SyncClient):
        raise TypeError("an async engine needs an async client: `discovery_engine.CallbackClient`")
    return client


def _with_tools(request: ModelRequest[Any], toolset: AnyToolset) -> ModelRequest[Any]:
    """A request with the tools of a toolset behind its own; those win where names are equal."""
    taken = {tool.name for tool in request.tools if isinstance(tool, BaseTool)}
    bound = [langchain_tool(tool) for tool in toolset.tools() if tool.name not in taken]
    return request.override(tools=[*request.tools, *bound])


def _history(request: ModelRequest[Any]) -> Iterator[str | tuple[str, JSONObject]]:
    """Return the user's texts and the model's calls, as `Toolset.replay` takes them."""
    return _said(request.messages)


def _history_before(request: ToolCallRequest) -> Iterator[str | tuple[str, JSONObject]]:
    """The same up to the message of the model with this call; nothing but a search needs it."""
    if request.tool_call["name"] != POOL_SEARCH.name:
        return
    state = request.state
    messages = (
        state
        if isinstance(state, list)
        else (state["messages"] if isinstance(state, Mapping) else state.messages)
    )
    calling = [n for n, message in enumerate(messages) if isinstance(message, AIMessage)]
    yield from _said(messages[: calling[-1]] if calling else messages)


def _said(messages: Sequence[AnyMessage]) -> Iterator[str | tuple[str, JSONObject]]:
    for message in messages:
        if isinstance(message, HumanMessage):
            yield message.text
        elif isinstance(message, AIMessage):
            for call in message.tool_calls:
                yield call["name"], call["args"]


def _message(request: ToolCallRequest, result: JSONObject) -> ToolMessage:
    content = ResultContent.of(result)
    return ToolMessage(
        content=_content(content),
        artifact=_artifact(result),
        name=request.tool_call["name"],
        tool_call_id=request.tool_call["id"],
        status="error" if content.is_error else "success",
    )


def _returned(result: JSONObject) -> tuple[Any, JSONObject]:
    """Content and artifact of a result, as a tool of LangChain returns them."""
    content = ResultContent.of(result)
    if content.is_error:
        raise ToolException(content.text)
    return _content(content), _artifact(result)


def _content(content: ResultContent) -> str | list[str | dict[Any, Any]]:
    """The content of a tool's message: a text, or blocks if there are media."""
    return [_block(part) for part in content.parts] if content.media else content.text


def _block(part: ResultPart) -> dict[Any, Any]:
    """A block of LangChain; what models refuse in the result of a tool is named instead."""
    if isinstance(part, MediaPart):
        if media_type := image_type(part):
            return {"type": "image", "base64": part.data, "mime_type": media_type}
        if part.media_type == PDF:
            return {"type": "file", "base64": part.data, "mime_type": PDF}
    return {"type": "text", "text": part_text(part)}


def _artifact(result: JSONObject) -> JSONObject:
    """Return the parts of a result that a program may need and the model does not read."""
    names = {"structuredContent": "structured_content", "_meta": "meta", "content": "content"}
    return {ours: result[name] for name, ours in names.items() if name in result}


def _report(request: ToolCallRequest) -> Report:
    """Writes progress into the stream of the agent's run."""
    call, write = request.tool_call, request.runtime.stream_writer

    def report(progress: float, total: float | None, message: str | None) -> None:
        about = {"tool": call["name"], "tool_call_id": call["id"]}
        write({"type": "tool_progress", **about, **_progress_form(progress, total, message)})

    return report


def _stream_report(name: str) -> Report:
    """The same for a tool that is called by itself; no-op outside a graph."""
    try:
        write = get_stream_writer()
    except (RuntimeError, KeyError):  # it is not called in a graph
        return lambda *_: None

    def report(progress: float, total: float | None, message: str | None) -> None:
        write({"type": "tool_progress", "tool": name, **_progress_form(progress, total, message)})

    return report


def _progress_form(progress: float, total: float | None, message: str | None) -> dict[str, Any]:
    return {"progress": progress, "total": total, "message": message}


def _awaited(report: Report) -> Callable[[float, float | None, str | None], Awaitable[None]]:
    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        report(progress, total, message)

    return on_progress
