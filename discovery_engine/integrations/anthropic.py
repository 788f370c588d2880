"""Tools for Claude through the `anthropic` SDK: tool search on the client's side, and calls.

    tools = AnthropicTools(engine)
    message = await client.messages.create(
        tools=tools.definitions(messages), messages=messages, ...
    )
    messages.append({"role": "assistant", "content": message.content})
    results = await tools.results(message)

At first Claude has only a search tool. Search results are `tool_reference` blocks, and from the
next request on the found tools are defined with `defer_loading`: the API shows each tool at its
reference, so the cached prompt before that stays valid. The state is in the messages alone.
Therefore one `AnthropicTools` serves any number of conversations, even if another process began
them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from discovery_engine.agent.agent_tool import anthropic_tool
from discovery_engine.agent.content import ResultContent, ResultPart, part_text
from discovery_engine.agent.toolset import toolset_of
from discovery_engine.errors import ToolNotFoundError
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
    from anthropic.types import (
        Message,
        MessageParam,
        ToolParam,
        ToolResultBlockParam,
        ToolUseBlock,
    )
    from anthropic.types.tool_result_block_param import Content
except ImportError as error:
    raise missing_framework("anthropic", error) from error

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.agent.meta_arguments import OnProgress
    from discovery_engine.agent.toolset import Toolset
    from discovery_engine.engine import ScopedEngine
    from discovery_engine.rpc.client import Client
    from discovery_engine.sync.blocking_engine import SyncScopedEngine, SyncToolset
    from discovery_engine.sync.sync_client import AnyClient

_LIMITS = ("max_tokens", "model_context_window_exceeded")
"""Values of `stop_reason` after which the last call may be incomplete."""
_GONE = "This tool is not available any more."


class AnthropicTools:
    """Converts the tools of a toolset and their results for the Messages API."""

    def __init__(
        self,
        source: ScopedEngine | Toolset,
        *,
        own: Collection[str] = (),
    ) -> None:
        """Make tools for any number of conversations.

        Args:
            source: An engine, or one of its toolsets. With a toolset in the mode `meta`, Claude
                has the meta-tools and no definition is deferred.
            own: The names of tools that the program defines and whose calls it answers itself.
        """
        self._toolset = toolset_of(source)
        self._own = frozenset(own)

    def definitions(self, messages: Iterable[MessageParam] = ()) -> list[ToolParam]:
        """Return the `tools` of the next request: the permanent ones, then those found so far.

        The API rejects a conversation that references a tool without a definition. So a found tool
        that was removed or hidden since is still defined, as unavailable.
        """
        names = [name for name in _referenced(messages) if name not in self._own]
        others = self._own.union(names)
        listed = [tool for tool in self._toolset.tools() if tool.name not in others]
        forms = [anthropic_tool(tool) for tool in listed] + [self._deferred(name) for name in names]
        return cast("list[ToolParam]", forms)

    async def results(
        self,
        message: Message,
        *,
        client: Client | None = None,
        on_progress: OnCallProgress | None = None,
    ) -> list[ToolResultBlockParam]:
        """Execute all calls of a message and return their results in order; empty without calls.

        Calls run concurrently. A failed call gives a result with `is_error`, for Claude to read.
        Calls of the program's own tools are skipped.

        Args:
            message: A response of Claude.
            client: The client of the calls; see `AgentTool.call`.
            on_progress: Awaited with the progress of each call.
        """
        uses = [block for block in message.content if block.type == "tool_use"]
        cut = uses[-1] if uses and message.stop_reason in _LIMITS else None

        async def answer(use: ToolUseBlock) -> ToolResultBlockParam:
            if use is cut:
                return _block(use, [{"type": "text", "text": CUT_OFF}], is_error=True)
            return await self._result(use, client, progress_of(on_progress, use.id, use.name))

        ours = [use for use in uses if use.toolset_name is None and use.name not in self._own]
        return await side_by_side(answer, ours)

    def _deferred(self, name: str) -> JSONObject:
        try:
            return anthropic_tool(self._toolset.named(name), defer=True)
        except ToolNotFoundError:
            schema = {"type": "object", "properties": {}}
            gone = {"name": name, "description": _GONE, "input_schema": schema}
            return {**gone, "defer_loading": True}

    async def _result(
        self, use: ToolUseBlock, client: Client | None, on_progress: OnProgress | None
    ) -> ToolResultBlockParam:
        if use.name == POOL_SEARCH.name and self._toolset.mode == "select":
            return await self._found(use)
        result = await self._toolset.call_as_result(
            use.name, use.input, client=client, on_progress=on_progress
        )
        return _shown(use, ResultContent.of(result))

    async def _found(self, use: ToolUseBlock) -> ToolResultBlockParam:
        """Search, and return references alone, because the API accepts no other content with them.

        If no tool needs a reference, the text of the answer is returned: nothing was found, or only
        tools that are always listed.
        """
        answer, tools = await self._toolset.answer_search(use.input)
        if not tools:
            return _shown(use, ResultContent.of(answer))
        return _block(use, [{"type": "tool_reference", "tool_name": tool.name} for tool in tools])


class SyncAnthropicTools(OnLoop):
    """Synchronous `AnthropicTools`, for the client `Anthropic` and a `SyncEngine`."""

    def __init__(
        self, source: SyncScopedEngine | SyncToolset, *, own: Collection[str] = ()
    ) -> None:
        """Make tools for any number of conversations; see `AnthropicTools`."""
        toolset = sync_toolset_of(source)
        super().__init__(AnthropicTools(toolset.wrapped, own=own), toolset.portal, toolset.client)

    def definitions(self, messages: Iterable[MessageParam] = ()) -> list[ToolParam]:
        """Return the `tools` of the next request; see `AnthropicTools.definitions`."""
        tools: list[ToolParam] = self.portal.call(self.wrapped.definitions, messages)
        return tools

    def results(
        self,
        message: Message,
        *,
        client: AnyClient | None = None,
        on_progress: Callable[[CallProgress], object] | None = None,
    ) -> list[ToolResultBlockParam]:
        """Answer all calls of a message; see `AnthropicTools.results`.

        Progress and questions are handled in the calling thread.
        """
        options: Any = {"client": client or self.client, "on_progress": on_progress}
        return run_blocking(self.portal, self.wrapped.results, message, **options)


def _referenced(messages: Iterable[MessageParam]) -> list[str]:
    """Return the names of tools that search results reference, in the order of first reference."""
    names: dict[str, None] = {}
    for message in messages:
        for result in _dicts(message["content"], "tool_result"):
            for reference in _dicts(result.get("content"), "tool_reference"):
                names[str(reference["tool_name"])] = None
    return list(names)


def _dicts(content: object, kind: str) -> Iterator[Mapping[str, object]]:
    """Yield the blocks of a type that are dicts; blocks that the API made are objects."""
    for block in content if isinstance(content, list | tuple) else ():
        if isinstance(block, dict) and block.get("type") == kind:
            yield block


def _shown(use: ToolUseBlock, content: ResultContent) -> ToolResultBlockParam:
    blocks = [block for part in content.parts for block in _content(part)]
    return _block(use, blocks, is_error=content.is_error)


def _block(
    use: ToolUseBlock, content: Iterable[Content], *, is_error: bool = False
) -> ToolResultBlockParam:
    block: ToolResultBlockParam = {"type": "tool_result", "tool_use_id": use.id}
    if content := list(content):
        block["content"] = content
    if is_error:
        block["is_error"] = True
    return block


def _content(part: ResultPart) -> Iterator[Content]:
    """Yield a part in a form that the API accepts; unsupported media become a text about them."""
    if media := shown_media(part):
        kind = "document" if media.media_type == PDF else "image"
        source = {"type": "base64", "media_type": media.media_type, "data": media.data}
        yield cast("Content", {"type": kind, "source": source})
    elif (text := part_text(part)).strip():  # the API rejects blank texts
        yield {"type": "text", "text": text}
