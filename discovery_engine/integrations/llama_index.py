"""LlamaIndex: retrieves the fitting tools at each turn of an agent, or lists the meta-tools.

agent = FunctionAgent(tool_retriever=ToolRetriever(engine), llm=llm)
agent = FunctionAgent(tools=tool_list(engine), llm=llm)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from discovery_engine.agent.content import MediaPart, ResultContent, TextPart, part_text
from discovery_engine.agent.toolset import toolset_of
from discovery_engine.errors import ToolNotFoundError
from discovery_engine.integrations.adapter import image_type, missing_framework, open_model

try:
    from llama_index.core.base.llms.types import AudioBlock, DocumentBlock, ImageBlock, TextBlock
    from llama_index.core.objects import ObjectRetriever
    from llama_index.core.tools import BaseTool, FunctionTool, ToolMetadata, ToolOutput
    from llama_index.core.workflow import Context, Event
except ImportError as error:
    raise missing_framework("llama-index", error) from error

if TYPE_CHECKING:
    from llama_index.core.schema import QueryType

    from discovery_engine._util.json import JSONObject
    from discovery_engine.agent.agent_tool import AgentTool
    from discovery_engine.agent.meta_arguments import OnProgress
    from discovery_engine.agent.toolset import Toolset
    from discovery_engine.engine import ScopedEngine
    from discovery_engine.rpc.client import Client

Block: TypeAlias = TextBlock | ImageBlock | AudioBlock | DocumentBlock

_DESCRIPTION = 1024  # characters; LlamaIndex refuses longer ones for OpenAI
_CONTEXT = "workflow context"
"""The argument with the agent's context; a name with a space is no argument of a tool."""


class ToolProgress(Event):
    """The progress of a server's tool, among the events of the agent's run."""

    tool_name: str
    progress: float
    total: float | None = None
    message: str | None = None


class ToolRetriever(ObjectRetriever[BaseTool]):
    """Retrieves the tools that fit the user's message, and those that the model has searched for.

    A retriever gets only a text, so all conversations of an agent share the tools found. Use an
    agent for each conversation where that matters.
    """

    def __init__(self, source: ScopedEngine | Toolset, *, client: Client | None = None) -> None:
        """Create the retriever of an engine's tools.

        Args:
            source: An engine; or a toolset, which with the mode `meta` has the meta-tools.
            client: See `AgentTool.call`.
        """
        self._toolset = toolset_of(source).fresh()
        self._client = client
        self._request = ""
        self._has_called = False

    async def aretrieve(self, str_or_query_bundle: QueryType) -> list[BaseTool]:
        """Return the tools for the next request to the model, or the tool with that name."""
        query = str_or_query_bundle
        tools = await self._retrieved(query if isinstance(query, str) else query.query_str)
        return [DiscoveryTool(tool, self._client) for tool in tools]

    async def _retrieved(self, text: str) -> list[AgentTool]:
        try:
            # An agent retrieves a tool by its name after the model has called it.
            tool = self._toolset.named(text)
        except ToolNotFoundError:
            # After a call, it retrieves by the same message again, in the same turn.
            is_new = not self._has_called or text != self._request
            self._request, self._has_called = text, False
            if is_new and self._toolset.mode == "select":
                await self._toolset.select(text)
            return self._toolset.tools()
        self._has_called = True
        return [tool]

    def retrieve(self, str_or_query_bundle: QueryType) -> NoReturn:  # noqa: ARG002 - as the base class names it
        """Raise TypeError: an engine is async."""
        raise TypeError("this retriever is async: call aretrieve, or await the agent's run")


class DiscoveryTool(FunctionTool):
    """A tool of a server, or a meta-tool."""

    def __init__(self, tool: AgentTool, client: Client | None = None) -> None:
        metadata = _Metadata(
            description=tool.description[:_DESCRIPTION],
            name=tool.name,
            fn_schema=open_model(tool.name, tool.parameters),
        )
        super().__init__(fn=self.call, async_fn=self.acall, metadata=metadata)
        self._tool = tool
        self._client = client
        self.requires_context = True
        self.ctx_param_name = _CONTEXT

    async def acall(self, /, *args: Any, **arguments: Any) -> ToolOutput:
        """Call the tool; the answer for the model is in `blocks`, the result in `raw_output`."""
        if args:
            raise TypeError(f"{self._tool.name} takes its arguments by name")
        context: Context | None = arguments.pop(_CONTEXT, None)
        result = await self._tool.call_as_result(
            arguments,
            client=self._client,
            on_progress=_progress_to(context, self._tool.name) if context else None,
        )
        content = ResultContent.of(result)
        return ToolOutput(
            tool_name=self._tool.name,
            blocks=[
                TextBlock(text=part.text) if isinstance(part, TextPart) else _media_block(part)
                for part in content.parts
            ],
            raw_input=arguments,
            raw_output=result,
            is_error=content.is_error,
        )

    def call(self, /, *_: Any, **__: Any) -> NoReturn:
        """Raise TypeError: an engine is async."""
        raise TypeError(f"{self._tool.name} is async: call acall, or await the agent's run")


class _Metadata(ToolMetadata):
    """Returns the whole schema of the arguments, of which `ToolMetadata` omits parts."""

    def get_parameters_dict(self) -> JSONObject:
        return self.fn_schema.model_json_schema() if self.fn_schema else {}


def tool_list(source: ScopedEngine | Toolset, *, client: Client | None = None) -> list[BaseTool]:
    """Return the meta-tools of an engine, or the current tools of a toolset, for any agent.

    Args:
        source: An engine, or one of its toolsets.
        client: See `AgentTool.call`.
    """
    return [DiscoveryTool(tool, client) for tool in toolset_of(source, "meta").tools()]


def _progress_to(context: Context, name: str) -> OnProgress:
    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        event = ToolProgress(tool_name=name, progress=progress, total=total, message=message)
        context.write_event_to_stream(event)

    return on_progress


def _media_block(media: MediaPart) -> Block:
    match media.kind:
        case "image":
            if media_type := image_type(media):
                return ImageBlock(image=media.content, image_mimetype=media_type)
            return TextBlock(text=part_text(media))
        case "audio":
            return AudioBlock(audio=media.content, format=media.media_type.partition("/")[2])
        case "file":
            return DocumentBlock(data=media.content, document_mimetype=media.media_type)
