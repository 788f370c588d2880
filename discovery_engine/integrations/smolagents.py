"""Tools for smolagents: agents with the tools that fit their task, or tools for any agent.

    with open_engine("discovery.yaml") as engine:  # of discovery_engine.sync
        agent = DiscoveryToolCallingAgent(model, discovery=engine)
        agent.run("order a chair")

`DiscoveryToolCallingAgent` and `DiscoveryCodeAgent` are agents of smolagents. They bind the tools
that fit each task, and after each step those that their searches have found. For any other agent
use `discovery_tools(toolset)`.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from discovery_engine.agent.agent_tool import parameter_names
from discovery_engine.agent.content import MediaPart, ResultContent, ResultPart, part_text
from discovery_engine.integrations.adapter import CallProgress, image_type, missing_framework
from discovery_engine.integrations.smolagents_inputs import tool_input
from discovery_engine.sync.blocking_engine import sync_toolset_of

try:
    from PIL import Image
    from smolagents import (  # type: ignore[import-untyped]
        ActionStep,
        CodeAgent,
        Tool,
        ToolCallingAgent,
    )
except ImportError as error:
    raise missing_framework("smolagents", error) from error

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.sync import SyncTool, SyncToolset
    from discovery_engine.sync.blocking_engine import SyncScopedEngine
    from discovery_engine.sync.sync_client import AnyClient

    OnProgress = Callable[[CallProgress], object]

_FAILED = "The call failed:"
_UNREADABLE = (OSError, ValueError, SyntaxError, Image.DecompressionBombError)
"""Errors that Pillow raises for an image that it cannot read."""


class StructuredResult(dict[str, Any]):
    """Structured content whose `str` is the text of the result; empty after a failure."""

    def __init__(self, content: JSONObject, text: str) -> None:
        super().__init__(content)
        self.text = text

    def __str__(self) -> str:
        return self.text


class ResultParts(list[Any]):
    """Texts and images in order; their `str` is the text of the result."""

    def __init__(self, parts: Iterable[object], text: str) -> None:
        super().__init__(parts)
        self.text = text

    def __str__(self) -> str:
        return self.text


class DiscoveryTool(Tool):  # type: ignore[misc]
    """A tool of a toolset."""

    skip_forward_signature_validation = True
    """`forward` takes what `inputs` describes."""

    def __init__(
        self,
        tool: SyncTool,
        *,
        client: AnyClient | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Make one tool; see `discovery_tools`.

        Raises:
            ValueError: If the tool's name is not a Python identifier.
        """
        if not tool.name.isidentifier():
            hint = "make the toolset with name_style='gemini'"
            raise ValueError(f"smolagents takes no tool of the name {tool.name!r}: {hint}")
        self._tool = tool
        self._client = client
        self._on_progress = on_progress
        properties = tool.parameters["properties"]
        self._required = frozenset(tool.parameters.get("required", ()))
        self._own_names = parameter_names(tool.parameters)
        self.name = tool.name
        self.description = tool.description
        self.inputs = {
            name: tool_input(properties[own], tool.parameters, is_required=own in self._required)
            for name, own in self._own_names.items()
        }
        self.output_schema = tool.output_schema
        # "any" returns images unchanged; smolagents converts results of other types to text.
        self.output_type = "object" if tool.output_schema else "any"
        super().__init__()

    def forward(self, *args: Any, **kwargs: Any) -> object:
        """Call the tool; a failed call is a result that the model reads.

        Raises:
            TypeError: If there are more positional arguments than inputs.
        """
        if len(args) > len(self.inputs):
            raise TypeError(f"{self.name} takes at most {len(self.inputs)} arguments")
        values = dict(zip(self.inputs, args, strict=False)) | kwargs
        named = {self._own_names.get(name, name): value for name, value in values.items()}
        arguments = {k: v for k, v in named.items() if v is not None or k in self._required}
        result = self._tool.call_as_result(
            json.loads(json.dumps(arguments, default=str)),  # code may give tuples, dates and more
            client=self._client,
            on_progress=self._progress if self._on_progress else None,
        )
        content = ResultContent.of(result)
        return _structured(content) if self.output_schema else _output(content)

    def _progress(self, progress: float, total: float | None, message: str | None) -> None:
        if self._on_progress:
            self._on_progress(CallProgress("", self.name, progress, total, message))


def discovery_tools(
    toolset: SyncToolset,
    *,
    client: AnyClient | None = None,
    on_progress: OnProgress | None = None,
) -> list[DiscoveryTool]:
    """Return the current tools of a toolset, for any agent.

    Args:
        toolset: A toolset with the name style `gemini`, whose names are Python identifiers.
        client: See `SyncTool.call`.
        on_progress: Called with the progress of each call; its `call_id` is empty.

    Raises:
        ValueError: If the name of a tool is not a Python identifier.
    """
    return [DiscoveryTool(tool, client=client, on_progress=on_progress) for tool in toolset.tools()]


class _Discovering:
    """Adds discovered tools to an agent of smolagents."""

    tools: dict[str, Any]
    managed_agents: dict[str, Any]
    step_callbacks: Any

    def __init__(
        self,
        model: Any,
        *,
        discovery: SyncScopedEngine | SyncToolset,
        tools: Iterable[Any] = (),
        client: AnyClient | None = None,
        on_progress: OnProgress | None = None,
        **options: Any,
    ) -> None:
        """Create the agent.

        Args:
            model: A model of smolagents.
            discovery: An engine of `discovery_engine.sync`; or one of its toolsets, which with the
                mode `meta` has the meta-tools.
            tools: Further tools, which are always bound.
            client: See `SyncTool.call`.
            on_progress: See `discovery_tools`.
            options: Further arguments of the smolagents class.
        """
        self._toolset = sync_toolset_of(discovery, name_style="gemini").fresh()
        self._client = client
        self._on_progress = on_progress
        self._bound: dict[str, DiscoveryTool] = {}
        super().__init__(tools=[*tools], model=model, **options)  # type: ignore[call-arg]
        self.step_callbacks.register(ActionStep, self._bind_found)
        self._bind()

    def run(self, task: str, stream: bool = False, reset: bool = True, **options: Any) -> Any:  # noqa: FBT001, FBT002 - as that of smolagents
        """Run the agent with the tools that fit the task; for arguments see smolagents."""
        if reset:
            self._toolset = self._toolset.fresh()
        if self._toolset.mode == "select":
            self._toolset.select(task)
        self._bind()
        return super().run(task, stream=stream, reset=reset, **options)  # type: ignore[misc]

    def _bind_found(self, _: object, agent: object) -> None:  # noqa: ARG002 - smolagents asks for it
        self._bind()

    def _bind(self) -> None:
        """Bind the current tools of the toolset, after the agent's own."""
        own = {n: tool for n, tool in self.tools.items() if tool is not self._bound.get(n)}
        tools = discovery_tools(self._toolset, client=self._client, on_progress=self._on_progress)
        self._bound = {tool.name: tool for tool in tools if tool.name not in own}
        self.tools = own | self._bound
        if executor := getattr(self, "python_executor", None):
            executor.send_tools({**self.tools, **self.managed_agents})


class DiscoveryToolCallingAgent(_Discovering, ToolCallingAgent):  # type: ignore[misc]
    """A `ToolCallingAgent` that finds its tools."""


class DiscoveryCodeAgent(_Discovering, CodeAgent):  # type: ignore[misc]
    """A `CodeAgent` that finds its tools; its code runs in this process."""


def _structured(content: ResultContent) -> object:
    text = _text(content)
    if content.is_error or not isinstance(content.structured, dict):
        return StructuredResult({}, text)
    return StructuredResult(content.structured, text)


def _output(content: ResultContent) -> object:
    """Return a text, a single image, or a list of texts and images."""
    parts = [_image(part) or part_text(part) for part in content.parts]
    if content.is_error or all(isinstance(part, str) for part in parts):
        return _text(content)
    return parts[0] if len(parts) == 1 else ResultParts(parts, content.text)


def _text(content: ResultContent) -> str:
    return f"{_FAILED}\n{content.text}" if content.is_error else content.text


def _image(part: ResultPart) -> Image.Image | None:
    """Return the image; None if the part is no image, or an unreadable one."""
    if not isinstance(part, MediaPart) or image_type(part) is None:
        return None
    try:
        image = Image.open(io.BytesIO(part.content))
        image.load()
    except _UNREADABLE:
        return None
    return image
