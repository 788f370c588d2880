"""PydanticAI: a toolset, and a strategy for its tool search.

    toolset = DiscoveryToolset(engine)
    search = ToolSearch(strategy=discovery_search_strategy(engine))
    agent = Agent("anthropic:claude-sonnet-4-6", toolsets=[toolset], capabilities=[search])

Every tool is deferred: the model gets its definition once a search has found it. With models of
Anthropic and OpenAI, the search has the native form of these APIs, so that prompt caches hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from discovery_engine.agent.content import MediaPart, ResultContent, ResultPart, part_text
from discovery_engine.agent.toolset import toolset_of
from discovery_engine.integrations.adapter import PDF, image_type, missing_framework
from discovery_engine.tools.model import ServerName, ToolKey, ToolName

try:
    from pydantic_ai import BinaryContent, CustomEvent, RunContext, ToolFailed, ToolReturn
    from pydantic_ai.messages import TextContent, ToolCallPart, UserPromptPart
    from pydantic_ai.tools import AgentDepsT, ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
    from pydantic_core import SchemaValidator, core_schema
except ImportError as error:
    raise missing_framework("pydantic-ai", error) from error

if TYPE_CHECKING:
    from pydantic_ai.capabilities import ToolSearchFunc
    from pydantic_ai.messages import UserContent

    from discovery_engine._util.json import JSONObject
    from discovery_engine.agent.agent_tool import AgentTool
    from discovery_engine.agent.toolset import Toolset
    from discovery_engine.engine import ScopedEngine
    from discovery_engine.rpc.client import Client

ClientOf: TypeAlias = "Callable[[RunContext[Any]], Client | None]"

_ORIGIN = "discovery"
"""The key in a tool's metadata for its server and its name there."""
# The engine checks arguments against the tool's schema, and explains mistakes.
_ANY_ARGUMENTS = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))
_SEARCH = "search_tools"


@dataclass(kw_only=True)
class ToolProgressEvent(CustomEvent):
    """Progress of a server's tool, in the stream of the run's events."""

    progress: float
    total: float | None = None
    message: str | None = None


class DiscoveryToolset(AbstractToolset[AgentDepsT], Generic[AgentDepsT]):
    """A toolset with the tools of an engine."""

    def __init__(
        self,
        source: ScopedEngine | Toolset,
        *,
        defer_loading: bool = True,
        client: Client | ClientOf | None = None,
        id: str = "discovery",  # noqa: A002 - as `AbstractToolset.id`
    ) -> None:
        """Create the toolset.

        Args:
            source: An engine; or a toolset, which with the mode `meta` has the meta-tools.
            defer_loading: Whether the model gets a tool only after a tool search has found it. If
                False, the tools that fit the conversation are bound at each step.
            client: The client of the calls, or a function that returns it for a call; it answers
                requests of servers during a call.
            id: Unique among the toolsets of an agent.
        """
        self._toolset = toolset_of(source)
        self._is_deferred = defer_loading and self._toolset.mode == "select"
        self._client = client
        self._id = id

    @property
    def id(self) -> str:
        """The id of the toolset; see `AbstractToolset.id`."""
        return self._id

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> DiscoveryToolset[AgentDepsT]:  # noqa: ARG002
        """Return a toolset that binds its own tools for one run; see `AbstractToolset.for_run`."""
        return DiscoveryToolset(
            self._toolset.fresh(),
            defer_loading=self._is_deferred,
            client=self._client,
            id=self._id,
        )

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        """Return the tools of the catalog as of this step; see `AbstractToolset.get_tools`."""
        if self._is_deferred:
            await self._toolset.wait_listed()
            tools = self._toolset.available()
            tools += [tool for tool in self._toolset.tools() if tool.name != _SEARCH]
        else:
            self._toolset = await self._toolset.replay(_history(ctx))
            tools = self._toolset.tools()
        return {tool.name: self._tool(tool, ctx) for tool in tools}

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[AgentDepsT],
        tool: ToolsetTool[AgentDepsT],  # noqa: ARG002
    ) -> ToolReturn[Any]:
        """Call a tool; a tool's failure is a failed result. See `AbstractToolset.call_tool`."""

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            event = ToolProgressEvent(progress=progress, total=total, message=message)
            await ctx.emit(event)

        client = self._client(ctx) if callable(self._client) else self._client
        result = await self._toolset.call_as_result(
            name, tool_args, client=client, on_progress=on_progress
        )
        content = ResultContent.of(result)
        if content.is_error:
            raise ToolFailed(content.text)
        return _returned(result, content)

    def _tool(self, tool: AgentTool, ctx: RunContext[AgentDepsT]) -> ToolsetTool[AgentDepsT]:
        origin = {"server": tool.origin.server, "tool": tool.origin.tool} if tool.origin else None
        return ToolsetTool(
            toolset=self,
            tool_def=ToolDefinition(
                name=tool.name,
                description=tool.description,
                parameters_json_schema=tool.parameters,
                return_schema=tool.output_schema,
                metadata={_ORIGIN: origin, "annotations": tool.annotations},
                defer_loading=self._is_deferred and tool.origin is not None,
            ),
            max_retries=ctx.max_retries,
            args_validator=_ANY_ARGUMENTS,
        )


def discovery_search_strategy(source: ScopedEngine | Toolset) -> ToolSearchFunc[Any]:
    """Return the search of an engine as a strategy for PydanticAI's tool search.

    Deferred tools of other toolsets are found by the words in their names and descriptions.

    Args:
        source: The `source` of the agent's `DiscoveryToolset`.
    """
    toolset = toolset_of(source)

    async def search(
        _: RunContext[Any], queries: Sequence[str], tools: Sequence[ToolDefinition]
    ) -> list[str]:
        names = {_origin(tool): tool.name for tool in tools}
        origins = [tool.origin for tool in await toolset.search(queries)]
        ours = [names[origin] for origin in origins if origin in names]
        others = [tool for tool in tools if _origin(tool) is None]
        return ours + _by_words(queries, others)

    return search


def _origin(tool: ToolDefinition) -> ToolKey | None:
    """Return the key of the tool that a definition describes; None for one of other toolsets."""
    match (tool.metadata or {}).get(_ORIGIN):
        case {"server": str(server), "tool": str(name)}:
            return ToolKey(ServerName(server), ToolName(name))
    return None


def _by_words(queries: Sequence[str], tools: Sequence[ToolDefinition]) -> list[str]:
    words = _words(" ".join(queries))
    shared = {tool.name: len(words & _words(f"{tool.name} {tool.description}")) for tool in tools}
    return sorted((name for name, count in shared.items() if count), key=lambda n: -shared[n])


def _words(text: str) -> set[str]:
    return set(re.findall(r"[^\W_]+", text.casefold()))


def _history(ctx: RunContext[Any]) -> Iterator[str | tuple[str, JSONObject]]:
    """Yield the user's texts and the model's tool calls, for `Toolset.replay`."""
    for message in ctx.messages:
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                yield _text_of(part.content)
            elif isinstance(part, ToolCallPart):
                yield part.tool_name, part.args_as_dict()


def _text_of(content: str | Sequence[UserContent]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(
        part if isinstance(part, str) else part.content
        for part in content
        if isinstance(part, str | TextContent)
    )


def _returned(result: JSONObject, content: ResultContent) -> ToolReturn[Any]:
    """Return a result with text, structured content and media in PydanticAI's types."""
    values = [_value(part) for part in content.parts]
    value = content.structured if content.is_only_structured else values
    fields = {name: result[name] for name in ("structuredContent", "_meta") if name in result}
    return ToolReturn(values[0] if value is values and len(values) == 1 else value, metadata=fields)


def _value(part: ResultPart) -> str | BinaryContent:
    """Return text, or media that models accept: any other file would fail the whole request."""
    if isinstance(part, MediaPart):
        media_type = image_type(part) or part.media_type
        if part.kind == "audio" or media_type == PDF or image_type(part):
            return BinaryContent.narrow_type(BinaryContent(part.content, media_type=media_type))
    return part_text(part)
