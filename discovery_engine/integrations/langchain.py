"""LangChain and LangGraph: a middleware that binds fitting tools, and tools to bind by hand.

    agent = create_agent(model, middleware=[DiscoveryMiddleware(engine)])
    result = await agent.ainvoke({"messages": [("user", "open an issue about the login page")]})

With an engine of `discovery_engine.sync`, the agent also works without `async`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from discovery_engine.agent.content import ResultContent, ResultPart, part_text
from discovery_engine.agent.toolset import Toolset, toolset_of
from discovery_engine.integrations.adapter import PDF, missing_framework, shown_media
from discovery_engine.sync import SyncClient, SyncTool, SyncToolset
from discovery_engine.sync.blocking_call import OnLoop, run_elsewhere
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
    from discovery_engine.sync.sync_client import AnyClient

AnyToolset: TypeAlias = Toolset | SyncToolset
Source: TypeAlias = "ScopedEngine | SyncScopedEngine | AnyToolset"
ToolErrorHandling: TypeAlias = bool | str | Callable[[ToolException], Any] | None
ToolAnswer: TypeAlias = "ToolMessage | Command[Any]"
Report: TypeAlias = Callable[[float, float | None, str | None], None]

_ASYNC_ENGINE = (
    "this engine is async: use `ainvoke` or `astream`, or open the engine with"
    " `discovery_engine.sync.open_engine`"
)


class DiscoveryMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Binds the tools that fit the conversation before each call of the model, and calls them.

    The tools and their order depend only on the messages, not on other conversations of the agent.
    Progress is written to the stream `custom`.
    """

    def __init__(self, source: Source, *, client: AnyClient | None = None) -> None:
        """Create the middleware.

        Args:
            source: An engine; or a toolset, which with the mode `meta` has the meta-tools.
            client: The client of the calls; it answers requests of servers during a call.
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
        turn = _blocking(self._toolset).replay(_said(request.messages))
        return handler(_with_tools(request, turn))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Call the model with the tools added; see `AgentMiddleware.awrap_model_call`."""
        turn = await _awaited(self._toolset, "replay", _said(request.messages))
        return await handler(_with_tools(request, turn))

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolAnswer]
    ) -> ToolAnswer:
        """Call a tool of the toolset; other tools are left to the agent.

        See `AgentMiddleware.wrap_tool_call`.
        """
        if request.tool is not None:
            return handler(request)
        turn = _blocking(self._toolset).replay(_said_before(request))
        return _message(request, turn.call_as_result(*_call(request), **self._options(request)))

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
        turn = await _awaited(self._toolset, "replay", _said_before(request))
        options = self._options(request)
        result = await _awaited(turn, "call_as_result", *_call(request), **options)
        return _message(request, result)

    def _options(self, request: ToolCallRequest) -> dict[str, Any]:
        about = {"tool": request.tool_call["name"], "tool_call_id": request.tool_call["id"]}
        report = _report(request.runtime.stream_writer, about)
        return {"client": self._client, "on_progress": report}


def langchain_tools(source: Source, *, client: AnyClient | None = None) -> list[BaseTool]:
    """Return the meta-tools of an engine, or the bound tools of a toolset, as LangChain tools.

    Args:
        source: An engine or a toolset.
        client: The client of the calls; it answers requests of servers during a call.
    """
    return [langchain_tool(tool, client=client) for tool in _toolset(source, "meta").tools()]


def langchain_tool(tool: AgentTool | SyncTool, *, client: AnyClient | None = None) -> BaseTool:
    """Return a LangChain tool; one of `discovery_engine.sync` also works without `async`."""
    discovery_tool = DiscoveryTool(
        name=tool.name,
        description=tool.description,
        args_schema=tool.parameters,
        metadata={"annotations": tool.annotations},
    )
    discovery_tool._tool, discovery_tool._client = tool, client  # noqa: SLF001 - of this module
    return discovery_tool


class DiscoveryTool(BaseTool):
    """A tool made by `langchain_tool`; arguments may have any name, even `config` or `self`."""

    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    handle_tool_error: ToolErrorHandling = True
    _tool: AgentTool | SyncTool = PrivateAttr()
    _client: AnyClient | None = PrivateAttr(default=None)

    def _run(self, /, *_: Any, **arguments: Any) -> tuple[Any, JSONObject]:
        if not isinstance(self._tool, SyncTool):
            raise TypeError(_ASYNC_ENGINE)
        return _returned(self._tool.call_as_result(arguments, **self._options()))

    async def _arun(self, /, *_: Any, **arguments: Any) -> tuple[Any, JSONObject]:
        options = self._options()
        return _returned(await _awaited(self._tool, "call_as_result", arguments, **options))

    def _options(self) -> dict[str, Any]:
        try:
            write = get_stream_writer()
        except (RuntimeError, KeyError):  # it is not called in a graph
            return {"client": self._client}
        return {"client": self._client, "on_progress": _report(write, {"tool": self.name})}


class BoundModel(NamedTuple):
    """A model with bound tools, and these tools, for the calls that it makes."""

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
    """Bind the tools that fit a query to a model, each with its full schema.

    Args:
        llm: The model.
        source: An engine or a toolset of `discovery_engine.sync`; in a view, only the tools of
            that view are found.
        query: A task, or several.
        top_k: The maximum number of tools.
        server: Find only tools of this server.
        tags: Find only tools with all of these tags.
        any_tag: Whether one of `tags` is enough.
        min_score: The minimum relevance of a tool, from 0 to 1.
        client: The client of the calls.
        kwargs: Further arguments of `llm.bind_tools`, such as `tool_choice`.
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


def _toolset(source: Source, mode: Any = "select") -> AnyToolset:
    if isinstance(source, SyncScopedEngine):
        return source.toolset(mode=mode)
    return source if isinstance(source, SyncToolset) else toolset_of(source, mode)


def _blocking(toolset: AnyToolset) -> SyncToolset:
    if isinstance(toolset, SyncToolset):
        return toolset
    raise TypeError(_ASYNC_ENGINE)


async def _awaited(source: Any, name: str, *arguments: Any, **options: Any) -> Any:
    """Await a method of a toolset or a tool; a `sync` one runs on the loop of its engine.

    Raises:
        TypeError: If an async engine is used with a client of `discovery_engine.sync`.
    """
    if isinstance(source, OnLoop):
        if "client" in options:
            options["client"] = options["client"] or source.client
        verb = getattr(source.wrapped, name)
        return source.shown(await run_elsewhere(source.portal, verb, *arguments, **options))
    if isinstance(options.get("client"), SyncClient):
        raise TypeError("an async engine needs an async client: `discovery_engine.CallbackClient`")
    if report := options.get("on_progress"):

        async def on_progress(*progress: Any) -> None:
            report(*progress)

        options["on_progress"] = on_progress
    return await getattr(source, name)(*arguments, **options)


def _with_tools(request: ModelRequest[Any], toolset: AnyToolset) -> ModelRequest[Any]:
    """Return a request with the toolset's tools after its own, which win if names are equal."""
    taken = {tool.name for tool in request.tools if isinstance(tool, BaseTool)}
    bound = [langchain_tool(tool) for tool in toolset.tools() if tool.name not in taken]
    return request.override(tools=[*request.tools, *bound])


def _call(request: ToolCallRequest) -> tuple[str, JSONObject]:
    return request.tool_call["name"], request.tool_call["args"]


def _said_before(request: ToolCallRequest) -> Iterator[str | tuple[str, JSONObject]]:
    """Yield the history before the model's message with this call; only a search needs it."""
    if request.tool_call["name"] != POOL_SEARCH.name:
        return
    messages = request.state
    if not isinstance(messages, list):
        messages = messages["messages"] if isinstance(messages, Mapping) else messages.messages
    calling = [n for n, message in enumerate(messages) if isinstance(message, AIMessage)]
    yield from _said(messages[: calling[-1]] if calling else messages)


def _said(messages: Sequence[AnyMessage]) -> Iterator[str | tuple[str, JSONObject]]:
    """Yield the user's texts and the model's tool calls, for `Toolset.replay`."""
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
    """Return the content and the artifact of a result.

    Raises:
        ToolException: If the call failed.
    """
    content = ResultContent.of(result)
    if content.is_error:
        raise ToolException(content.text)
    return _content(content), _artifact(result)


def _content(content: ResultContent) -> str | list[str | dict[Any, Any]]:
    """Return the content of a tool's message: a text, or blocks if there are media."""
    return [_block(part) for part in content.parts] if content.media else content.text


def _block(part: ResultPart) -> dict[Any, Any]:
    """Return a content block; media that models refuse in a tool's result are named in text."""
    if media := shown_media(part):
        kind = "file" if media.media_type == PDF else "image"
        return {"type": kind, "base64": media.data, "mime_type": media.media_type}
    return {"type": "text", "text": part_text(part)}


def _artifact(result: JSONObject) -> JSONObject:
    """Return the parts of a result that a program may need and the model does not read."""
    names = {"structuredContent": "structured_content", "_meta": "meta", "content": "content"}
    return {ours: result[name] for name, ours in names.items() if name in result}


def _report(write: Callable[[Any], None], about: Mapping[str, Any]) -> Report:
    """Return a callback that writes progress to a stream of LangGraph."""

    def report(progress: float, total: float | None, message: str | None) -> None:
        amounts = {"progress": progress, "total": total, "message": message}
        write({"type": "tool_progress", **about, **amounts})

    return report
