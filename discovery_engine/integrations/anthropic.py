"""Tools for Claude through the `anthropic` SDK: tool search on the client's side, and calls.

    tools = AnthropicTools(engine)
    message = await client.messages.create(
        tools=tools.definitions(messages), messages=messages, ...
    )
    messages.append({"role": "assistant", "content": message.content})
    results = await tools.results(message)

At first Claude is given a search. What it finds is answered as `tool_reference` blocks, and from
the next request on these tools are defined with `defer_loading`: the API shows each of them where
it was referred to, so the prompt before it stays in its cache. Which tools were found stands in
the messages alone. So one `AnthropicTools` serves any number of conversations, also those that
another process began.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from discovery_engine._util.tasks import open_task_group
from discovery_engine.agent.agent_tool import anthropic_tool
from discovery_engine.agent.content import MediaPart, ResultContent, ResultPart, part_text
from discovery_engine.agent.toolset import toolset_of
from discovery_engine.errors import ToolNotFoundError
from discovery_engine.integrations.adapter import (
    PDF,
    CallProgress,
    OnCallProgress,
    image_type,
    missing_framework,
    progress_of,
)
from discovery_engine.sync.blocking_call import run_blocking
from discovery_engine.sync.blocking_engine import sync_toolset_of
from discovery_engine.tools.meta_tools import POOL_SEARCH

try:
    from anthropic.types import (
        Base64ImageSourceParam,
        Base64PDFSourceParam,
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
    from discovery_engine.sync.blocking_engine import SyncScopedEngine
    from discovery_engine.sync.blocking_toolset import AnyClient, SyncToolset

_LIMITS = ("max_tokens", "model_context_window_exceeded")
"""Why an answer may have ended in the middle of a call."""
_GONE = "This tool is not available any more."
_CUT = "CALL_CUT_OFF: the answer ended in the middle of this call; nothing was done. Call it again."


class AnthropicTools:
    """The tools of a toolset, as requests to the Messages API have them."""

    def __init__(
        self,
        source: ScopedEngine | Toolset,
        *,
        own: Collection[str] = (),
    ) -> None:
        """Tools for any number of conversations.

        Args:
            source: An engine, or one of its toolsets: with the mode `meta` Claude has the
                meta-tools, and nothing is deferred.
            own: The names of tools that the program itself defines, and whose calls it answers.
        """
        self._toolset = toolset_of(source)
        self._own = frozenset(own)

    def definitions(self, messages: Iterable[MessageParam] = ()) -> list[ToolParam]:
        """The `tools` of the next request: first those that are always there, then those found.

        The API refuses a conversation that refers to a tool without a definition. So one that was
        found, and is gone or hidden now, is defined as not available.
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
        """The answers to all calls of a message, in their order; empty if there are none.

        They are made side by side. Whatever goes wrong is a result with `is_error`, which Claude
        reads. The calls of the program's own tools are left out.

        Args:
            message: The answer of Claude.
            client: As `AgentTool.call` takes it.
            on_progress: Awaited with the progress of each call.
        """
        uses = [block for block in message.content if block.type == "tool_use"]
        cut = uses[-1] if uses and message.stop_reason in _LIMITS else None
        answers: dict[str, ToolResultBlockParam] = {}

        async def answer(use: ToolUseBlock) -> None:
            if use is cut:
                answers[use.id] = _error(use, _CUT)
            else:
                on_own_progress = progress_of(on_progress, use.id, use.name)
                answers[use.id] = await self._result(use, client, on_own_progress)

        ours = [use for use in uses if use.toolset_name is None and use.name not in self._own]
        async with open_task_group() as tasks:
            for use in ours:
                tasks.start_soon(answer, use)
        return [answers[use.id] for use in ours]

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
        return _block(use, ResultContent.of(result))

    async def _found(self, use: ToolUseBlock) -> ToolResultBlockParam:
        """Search, and return references and nothing else: the API takes no mixture.

        A tool that is always listed needs no reference: then the text of the answer names it, as if
        none was found.
        """
        answer, tools = await self._toolset.answer_search(use.input)
        if not tools:
            return _block(use, ResultContent.of(answer))
        content: list[Content] = [{"type": "tool_reference", "tool_name": t.name} for t in tools]
        return {"type": "tool_result", "tool_use_id": use.id, "content": content}


class SyncAnthropicTools:
    """The same as `AnthropicTools`, for the client `Anthropic` and an engine of `sync`."""

    def __init__(
        self, source: SyncScopedEngine | SyncToolset, *, own: Collection[str] = ()
    ) -> None:
        """Make tools for any number of conversations; see `AnthropicTools`."""
        self._toolset = sync_toolset_of(source)
        self._tools = AnthropicTools(self._toolset.wrapped, own=own)

    def definitions(self, messages: Iterable[MessageParam] = ()) -> list[ToolParam]:
        """Return the `tools` of the next request; see `AnthropicTools.definitions`."""
        return self._toolset.portal.call(self._tools.definitions, messages)

    def results(
        self,
        message: Message,
        *,
        client: AnyClient | None = None,
        on_progress: Callable[[CallProgress], object] | None = None,
    ) -> list[ToolResultBlockParam]:
        """Answer all calls of a message; see `AnthropicTools.results`.

        Progress and questions come to this thread.
        """
        options: Any = {"client": client or self._toolset.client, "on_progress": on_progress}
        return run_blocking(self._toolset.portal, self._tools.results, message, **options)


def _referenced(messages: Iterable[MessageParam]) -> list[str]:
    """The tools that results of searches refer to, in the order in which they were found."""
    names: dict[str, None] = {}
    for message in messages:
        for result in _dicts(message["content"], "tool_result"):
            for reference in _dicts(result.get("content"), "tool_reference"):
                names[str(reference["tool_name"])] = None
    return list(names)


def _dicts(content: object, kind: str) -> Iterator[Mapping[str, object]]:
    """The blocks of a kind; those that the API made itself are none of ours."""
    for block in content if isinstance(content, list | tuple) else ():
        if isinstance(block, dict) and block.get("type") == kind:
            yield block


def _block(use: ToolUseBlock, content: ResultContent) -> ToolResultBlockParam:
    blocks = [block for part in content.parts for block in _content(part)]
    block: ToolResultBlockParam = {"type": "tool_result", "tool_use_id": use.id}
    if blocks:
        block["content"] = blocks
    if content.is_error:
        block["is_error"] = True
    return block


def _text(use: ToolUseBlock, text: str) -> ToolResultBlockParam:
    return {"type": "tool_result", "tool_use_id": use.id, "content": text}


def _error(use: ToolUseBlock, text: str) -> ToolResultBlockParam:
    return {**_text(use, text), "is_error": True}


def _content(part: ResultPart) -> Iterator[Content]:
    """A part as the API takes it; one that it does not take as text that says what it is."""
    if isinstance(part, MediaPart):
        if media_type := image_type(part):
            source: Base64ImageSourceParam = {
                "type": "base64",
                "media_type": media_type,
                "data": part.data,
            }
            yield {"type": "image", "source": source}
            return
        if part.media_type == PDF:
            pdf: Base64PDFSourceParam = {"type": "base64", "media_type": PDF, "data": part.data}
            yield {"type": "document", "source": pdf}
            return
    if (text := part_text(part)).strip():  # the API refuses a text without a character to see
        yield {"type": "text", "text": text}
