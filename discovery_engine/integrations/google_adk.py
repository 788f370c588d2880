"""Google ADK: a toolset that retrieves tools by the user's messages, at each turn.

    agent = Agent(name="helper", model="gemini-flash-latest", tools=[DiscoveryToolset(engine)])

ADK has a `DiscoveryEngineSearchTool` of its own, which searches Google's product of that name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from discovery_engine.agent.content import MediaPart, ResultContent
from discovery_engine.agent.toolset import toolset_of
from discovery_engine.integrations.adapter import (
    OnCallProgress,
    image_type,
    missing_framework,
    progress_of,
)

try:
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.base_toolset import BaseToolset
    from google.genai import types
except ImportError as error:
    raise missing_framework("google-adk", error) from error

if TYPE_CHECKING:
    from google.adk.agents.readonly_context import ReadonlyContext
    from google.adk.events import Event
    from google.adk.tools.base_toolset import ToolPredicate
    from google.adk.tools.tool_context import ToolContext

    from discovery_engine._util.json import JSONObject
    from discovery_engine.agent.agent_tool import AgentTool
    from discovery_engine.agent.toolset import Toolset
    from discovery_engine.engine import ScopedEngine
    from discovery_engine.rpc.client import Client

ClientOf: TypeAlias = "Callable[[ToolContext], Client | None]"

_USER = "user"
# Of a session, replayed before each request to the model. Events are dropped by the hundred: each
# new beginning of the history changes the order of tools, and so breaks prompt caches.
_MOST_EVENTS, _DROPPED_AT_ONCE = 300, 100


class DiscoveryToolset(BaseToolset):
    """The tools of an engine for an agent and all its sessions.

    The tools that a session has found follow from its events, so any process can continue it.
    """

    def __init__(
        self,
        source: ScopedEngine | Toolset,
        *,
        client: Client | ClientOf | None = None,
        on_progress: OnCallProgress | None = None,
        tool_filter: ToolPredicate | list[str] | None = None,
        tool_name_prefix: str | None = None,
    ) -> None:
        """Create the toolset of an engine.

        Args:
            source: An engine, whose tools are bound by the user's messages and by the model's
                searches; or a toolset, which with the mode `meta` has the meta-tools.
            client: The client that answers questions of servers during a call, or a function that
                returns it for a call.
            on_progress: Awaited with the progress of a call, which has its `function_call_id`.
            tool_filter: See `BaseToolset`.
            tool_name_prefix: See `BaseToolset`.
        """
        super().__init__(tool_filter=tool_filter, tool_name_prefix=tool_name_prefix)
        # A search in the middle of a turn adds tools to that turn.
        self._use_invocation_cache = False
        self._toolset = toolset_of(source)
        self._client = client
        self._on_progress = on_progress

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        """Return the tools for the next request to the model; without a context, for no session."""
        toolset = self._toolset
        if readonly_context and toolset.mode == "select":
            toolset = await toolset.replay(self._history(readonly_context.session.events))
        tools = [DiscoveryTool(tool, self._client, self._on_progress) for tool in toolset.tools()]
        return [tool for tool in tools if self._is_tool_selected(tool, readonly_context)]

    def _history(self, events: Sequence[Event]) -> Iterator[str | tuple[str, JSONObject]]:
        """Yield the user's latest messages and the model's calls, for `Toolset.replay`."""
        prefix = f"{self.tool_name_prefix}_" if self.tool_name_prefix else ""
        surplus = max(0, len(events) - _MOST_EVENTS)
        dropped = -(-surplus // _DROPPED_AT_ONCE) * _DROPPED_AT_ONCE
        for event in events[dropped:]:
            parts = event.content.parts if event.content and event.content.parts else []
            if event.author == _USER and (text := "\n".join(p.text for p in parts if p.text)):
                yield text
            for call in event.get_function_calls():
                yield (call.name or "").removeprefix(prefix), call.args or {}


class DiscoveryTool(BaseTool):
    """A tool of a server, or a meta-tool."""

    def __init__(
        self,
        tool: AgentTool,
        client: Client | ClientOf | None = None,
        on_progress: OnCallProgress | None = None,
    ) -> None:
        """Create the tool; for `client` and `on_progress` see `DiscoveryToolset`."""
        super().__init__(name=tool.name, description=tool.description)
        self._tool = tool
        self._client = client
        self._on_progress = on_progress

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema=self._tool.parameters,
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> JSONObject:
        """Return the answer for the model: `output`, or `error` if the call failed."""
        call_id = tool_context.function_call_id or ""
        result = await self._tool.call_as_result(
            args,
            client=self._client(tool_context) if callable(self._client) else self._client,
            on_progress=progress_of(self._on_progress, call_id, self.name),
        )
        return _response(ResultContent.of(result))


def _response(content: ResultContent) -> JSONObject:
    """Return the content for a `FunctionResponse`; ADK moves media to its `parts`."""
    if content.is_error:
        return {"error": content.text}
    # A single text beside structured content repeats it.
    is_plain = content.structured is None or len(content.parts) > 1
    response: JSONObject = {"output": content.text if is_plain else content.structured}
    # The text mentions each with its type and size.
    if media := [part for part in content.media if part.kind != "image" or image_type(part)]:
        response["media"] = [_part(part) for part in media]
    return response


def _part(media: MediaPart) -> types.Part:
    media_type = image_type(media) or media.media_type
    return types.Part.from_bytes(data=media.content, mime_type=media_type)
