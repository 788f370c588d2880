"""Microsoft Agent Framework: a context provider that binds the fitting tools before each run.

agent = Agent(client, context_providers=[DiscoveryProvider(engine)])
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from discovery_engine.agent.content import MediaPart, ResultContent, ResultPart, part_text
from discovery_engine.agent.toolset import toolset_of
from discovery_engine.integrations.adapter import (
    image_type,
    missing_framework,
    open_model,
)

try:
    from agent_framework import Content, ContextProvider, FunctionInvocationContext, FunctionTool
except ImportError as error:
    raise missing_framework("agent-framework", error) from error

if TYPE_CHECKING:
    from agent_framework import AgentSession, SessionContext, SupportsAgentRun

    from discovery_engine._util.json import JSONObject
    from discovery_engine.agent.agent_tool import AgentTool
    from discovery_engine.agent.toolset import Toolset
    from discovery_engine.engine import ScopedEngine
    from discovery_engine.rpc.client import Client

ClientOf: TypeAlias = "Callable[[AgentSession], Client | None]"
OnToolProgress: TypeAlias = (
    "Callable[[AgentSession, str, float, float | None, str | None], Awaitable[None]]"
)
"""Awaited with the session and the name of a tool, its progress, the total and a message."""

_BOUND = "bound"
"""The key of a session's state with the names of its bound tools."""


class DiscoveryProvider(ContextProvider):
    """The tools of an engine for an agent and all its sessions.

    The tools that a session has found are in its state, so that it can be stored and continued.
    """

    def __init__(
        self,
        source: ScopedEngine | Toolset,
        *,
        source_id: str = "discovery",
        client: Client | ClientOf | None = None,
        on_progress: OnToolProgress | None = None,
    ) -> None:
        """Create the provider of an engine's tools.

        Args:
            source: An engine, whose tools are bound by the input of each run and by the model's
                searches; or a toolset, which with the mode `meta` has the meta-tools.
            source_id: See `ContextProvider`.
            client: The client that answers questions of servers during a call, or a function that
                returns it for a session.
            on_progress: Awaited with the progress of a call.
        """
        super().__init__(source_id)
        self._toolset = toolset_of(source)
        self._client = client
        self._on_progress = on_progress

    async def before_run(
        self,
        *,
        agent: SupportsAgentRun,  # noqa: ARG002 - as the base class names it
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        """Add the tools for this run; see `ContextProvider.before_run`."""
        run = _Run(self._toolset.fresh(), session, state, self._client, self._on_progress)
        request = "\n".join(turn.text for turn in context.input_messages if turn.role == "user")
        context.extend_tools(self.source_id, await run.tools(request))


class _Run:
    """The tools of one run of an agent."""

    def __init__(
        self,
        toolset: Toolset,
        session: AgentSession,
        state: dict[str, Any],
        client: Client | ClientOf | None,
        on_progress: OnToolProgress | None,
    ) -> None:
        self._toolset = toolset
        self._session = session
        self._state = state
        self._client = client(session) if callable(client) else client
        self._on_progress = on_progress

    async def tools(self, request: str) -> list[FunctionTool]:
        """Return the tools bound in the session, and those that fit the request."""
        if self._toolset.mode == "select":
            for name in self._state.get(_BOUND, ()):
                self._toolset.use(name)
            await self._toolset.select(request)
        return self._shown(self._toolset.tools())

    def _shown(self, tools: list[AgentTool]) -> list[FunctionTool]:
        self._state[_BOUND] = [tool.name for tool in self._toolset.tools() if tool.origin]
        return [self._function_tool(tool) for tool in tools]

    def _function_tool(self, tool: AgentTool) -> FunctionTool:
        async def call(**arguments: Any) -> list[Content]:
            return await self._call(tool, arguments)

        async def search(context: FunctionInvocationContext, **arguments: Any) -> list[Content]:
            contents = await self._call(tool, arguments)
            if context.tools is not None:
                names = {getattr(context_tool, "name", None) for context_tool in context.tools}
                new = [new_tool for new_tool in self._toolset.tools() if new_tool.name not in names]
                context.tools.extend(self._shown(new))
            return contents

        is_search = self._toolset.mode == "select" and tool.origin is None
        return _function_tool(tool, search if is_search else call)

    async def _call(self, tool: AgentTool, arguments: JSONObject) -> list[Content]:
        async def passed_on(progress: float, total: float | None, message: str | None) -> None:
            if self._on_progress:
                await self._on_progress(self._session, tool.name, progress, total, message)

        result = await tool.call_as_result(
            arguments,
            client=self._client,
            on_progress=passed_on if self._on_progress else None,
        )
        return _contents(result)


def function_tools(
    source: ScopedEngine | Toolset, *, client: Client | None = None
) -> list[FunctionTool]:
    """Return the meta-tools of an engine, or the current tools of a toolset, for any agent.

    Args:
        source: An engine, or one of its toolsets.
        client: See `AgentTool.call`.
    """

    def made(tool: AgentTool) -> FunctionTool:
        async def call(**arguments: Any) -> list[Content]:
            return _contents(await tool.call_as_result(arguments, client=client))

        return _function_tool(tool, call)

    return [made(tool) for tool in toolset_of(source, "meta").tools()]


def _function_tool(tool: AgentTool, call: Callable[..., Awaitable[list[Content]]]) -> FunctionTool:
    # With a plain schema, the framework would check arguments itself, and not tell the model why
    # they are invalid.
    model = open_model(tool.name, tool.parameters)
    return FunctionTool(name=tool.name, description=tool.description, func=call, input_model=model)


def _contents(result: JSONObject) -> list[Content]:
    """Return the parts of a result for the model; each has the raw result."""
    return [_content(part, result) for part in ResultContent.of(result).parts]


def _content(part: ResultPart, result: JSONObject) -> Content:
    media_type = ""
    if isinstance(part, MediaPart):
        media_type = image_type(part) or "" if part.kind == "image" else part.media_type
    if not isinstance(part, MediaPart) or not media_type:
        return Content.from_text(part_text(part), raw_representation=result)
    return Content.from_data(part.content, media_type, raw_representation=result)
