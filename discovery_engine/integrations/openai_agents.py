"""Tools for the OpenAI Agents SDK: an agent with the fitting tools, or tools for any agent.

    agent = DiscoveryAgent("Assistant", discovery=engine)
    result = await Runner.run(agent, "order a chair")

A `DiscoveryAgent` is an `Agent` whose tools are bound in every turn: those that fit the user's
messages, and those that the model has searched for. Each run has its own toolset, so an agent can
run many times at once. For any other agent use `function_tools(toolset)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from discovery_engine.agent.agent_tool import openai_function
from discovery_engine.agent.content import ResultContent, ResultPart, part_text
from discovery_engine.agent.toolset import Toolset, toolset_of
from discovery_engine.engine import ScopedEngine
from discovery_engine.integrations.adapter import (
    PDF,
    OnCallProgress,
    missing_framework,
    progress_of,
    shown_media,
    takes_strict,
)

try:
    from agents import (
        Agent,
        FunctionTool,
        RunContextWrapper,
        Tool,
        ToolOutputFileContent,
        ToolOutputImage,
        ToolOutputText,
    )
    from agents.run_context import TContext
    from agents.tool_context import ToolContext
except ImportError as error:
    raise missing_framework("openai-agents", error) from error

if TYPE_CHECKING:
    from discovery_engine.agent.agent_tool import AgentTool
    from discovery_engine.rpc.client import Client

ClientOf = Callable[[RunContextWrapper[Any]], "Client | None"]
Step = str | tuple[str, str]
"""A step of a conversation: a user's text, or a tool's name with the arguments of a call."""
Output = str | list[ToolOutputText | ToolOutputImage | ToolOutputFileContent]

_FAILED = "The call failed:"


def function_tools(
    toolset: Toolset,
    *,
    client: Client | None = None,
    on_progress: OnCallProgress | None = None,
) -> list[FunctionTool]:
    """Return the current tools of a toolset, for any agent.

    Args:
        toolset: The toolset; in the mode `meta` its tools never change.
        client: See `AgentTool.call`.
        on_progress: Awaited with the progress of each call.
    """
    return [_function_tool(tool, toolset, client, on_progress) for tool in toolset.tools()]


@dataclass
class DiscoveryAgent(Agent[TContext]):
    """An agent with the tools of a toolset beside its own `tools`."""

    discovery: ScopedEngine | Toolset = field(kw_only=True)
    """An engine; or a toolset, which with the mode `meta` has the meta-tools."""
    discovery_client: Client | ClientOf | None = field(default=None, kw_only=True)
    """The client of calls (see `AgentTool.call`), or a function that returns it for a run."""
    on_tool_progress: OnCallProgress | None = field(default=None, kw_only=True)
    """Awaited with the progress of each call."""
    _runs: WeakKeyDictionary[RunContextWrapper[Any], _Run] = field(
        default_factory=WeakKeyDictionary, init=False, repr=False, compare=False
    )

    async def get_all_tools(self, run_context: RunContextWrapper[TContext]) -> list[Tool]:
        """Return the agent's own tools, then those of its toolset; called in every turn."""
        own = await super().get_all_tools(run_context)
        toolset = toolset_of(self.discovery)
        if toolset.mode == "select":
            run = self._runs.get(run_context)
            if run is None:
                run = self._runs[run_context] = _Run(toolset.fresh())
            toolset = await run.toolset_for(list(_history(run_context.turn_input)))
        client = self.discovery_client
        client = client(run_context) if callable(client) else client
        bound = function_tools(toolset, client=client, on_progress=self.on_tool_progress)
        taken = {tool.name for tool in own}
        return [*own, *(tool for tool in bound if tool.name not in taken)]


class _Run:
    """The toolset of one run of an agent."""

    def __init__(self, toolset: Toolset) -> None:
        self._toolset = toolset
        self._history: list[Step] = []

    async def toolset_for(self, history: list[Step]) -> Toolset:
        """Bind the tools that fit the history before the run; once, as it stays during a run."""
        if history != self._history:
            self._history = history
            self._toolset = await self._toolset.replay(history)
        return self._toolset


def _history(items: Iterable[Any]) -> Iterator[Step]:
    """Yield the users' texts and the tool calls, for `Toolset.replay`."""
    for item in items:
        match item:
            case {"role": "user", "content": str(text)}:
                yield text
            case {"role": "user", "content": list(parts)}:
                yield "\n".join(part.get("text", "") for part in parts)
            case {"type": "function_call", "name": name, "arguments": arguments}:
                yield name, arguments


def _function_tool(
    tool: AgentTool,
    toolset: Toolset,
    client: Client | None,
    on_progress: OnCallProgress | None,
) -> FunctionTool:
    async def invoke(context: ToolContext[Any], arguments: str) -> Output:
        result = await toolset.call_as_result(
            tool.name,
            arguments,
            client=client,
            on_progress=progress_of(on_progress, context.tool_call_id, tool.name),
        )
        return _output(ResultContent.of(result))

    return FunctionTool(
        name=tool.name,
        description=openai_function(tool, "responses")["description"],
        params_json_schema=tool.parameters,
        on_invoke_tool=invoke,
        strict_json_schema=takes_strict(tool.parameters),
    )


def _output(content: ResultContent) -> Output:
    """Return text alone as text, else items; text marks failures, as outputs have no flag."""
    items = [_item(part) for part in content.parts]
    if content.is_error:
        items.insert(0, ToolOutputText(text=_FAILED))
    texts = [item.text for item in items if isinstance(item, ToolOutputText)]
    return "\n".join(texts) if len(texts) == len(items) else items


def _item(part: ResultPart) -> ToolOutputText | ToolOutputImage | ToolOutputFileContent:
    """Return a part in the SDK's type; one that no model accepts becomes text that names it."""
    media = shown_media(part)
    if media is None:
        return ToolOutputText(text=part_text(part))
    data = f"data:{media.media_type};base64,{media.data}"
    if media.media_type == PDF:
        name = media.uri.rpartition("/")[2] or "document.pdf"
        return ToolOutputFileContent(file_data=data, filename=name)
    return ToolOutputImage(image_url=data)
