"""The tools of an engine for a framework without `async`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from discovery_engine.sync.blocking_call import Progress, run_blocking
from discovery_engine.sync.sync_client import SyncClient

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

    from discovery_engine._util.json import JSONObject
    from discovery_engine.agent.agent_tool import AgentTool
    from discovery_engine.agent.toolset import Toolset, ToolsetMode
    from discovery_engine.rpc.client import Client
    from discovery_engine.tools.model import ToolKey

T = TypeVar("T")
AnyClient: TypeAlias = "Client | SyncClient"


class SyncTool:
    """The same as `AgentTool`, with calls that return when they are done."""

    def __init__(
        self, tool: AgentTool, portal: BlockingPortal, client: AnyClient | None = None
    ) -> None:
        self.wrapped = tool
        """The tool as the loop has it."""
        self._portal = portal
        self._client = client

    @property
    def name(self) -> str:
        return self.wrapped.name

    @property
    def title(self) -> str | None:
        return self.wrapped.title

    @property
    def description(self) -> str:
        return self.wrapped.description

    @property
    def parameters(self) -> JSONObject:
        return self.wrapped.parameters

    @property
    def output_schema(self) -> JSONObject | None:
        return self.wrapped.output_schema

    @property
    def annotations(self) -> JSONObject:
        return self.wrapped.annotations

    @property
    def origin(self) -> ToolKey | None:
        return self.wrapped.origin

    def call(
        self,
        arguments: JSONObject,
        *,
        client: AnyClient | None = None,
        on_progress: Progress | None = None,
    ) -> JSONObject:
        """Call the tool; see `AgentTool.call`."""
        return self._run(self.wrapped.call, arguments, client, on_progress)

    def call_as_result(
        self,
        arguments: JSONObject,
        *,
        client: AnyClient | None = None,
        on_progress: Progress | None = None,
    ) -> JSONObject:
        """Call the tool, with errors as results; see `AgentTool.call_as_result`."""
        return self._run(self.wrapped.call_as_result, arguments, client, on_progress)

    def _run(
        self,
        verb: Callable[..., Any],
        arguments: JSONObject,
        client: AnyClient | None,
        on_progress: Progress | None,
    ) -> JSONObject:
        options = {"client": client or self._client, "on_progress": on_progress}
        result: JSONObject = run_blocking(self._portal, verb, arguments, **options)
        return result


class SyncToolset:
    """The same as `Toolset`, without `async`; made by `SyncEngine.toolset`."""

    def __init__(
        self, toolset: Toolset, portal: BlockingPortal, client: AnyClient | None = None
    ) -> None:
        self.wrapped = toolset
        """The toolset as the loop has it."""
        self.portal = portal
        self._client = client

    @property
    def mode(self) -> ToolsetMode:
        return self.wrapped.mode

    @property
    def limit(self) -> int:
        return self.wrapped.limit

    @property
    def client(self) -> AnyClient | None:
        """Who calls are made for that name no other."""
        return self._client

    def fresh(self) -> SyncToolset:
        """Return the same toolset with nothing found yet; see `Toolset.fresh`."""
        return SyncToolset(self.wrapped.fresh(), self.portal, self._client)

    def replay(self, history: Iterable[str | tuple[str, JSONObject | str]]) -> SyncToolset:
        """Return a fresh toolset with what a conversation found and used; see `Toolset.replay`."""
        toolset = run_blocking(self.portal, self.wrapped.replay, history)
        return SyncToolset(toolset, self.portal, self._client)

    def instructions(self) -> str:
        """Return the text for a model's system prompt; see `Toolset.instructions`."""
        return self._on_loop(self.wrapped.instructions)

    def tools(self) -> list[SyncTool]:
        """Return the tools for the model at this moment; see `Toolset.tools`."""
        return self._tools(self._on_loop(self.wrapped.tools))

    def available(self) -> list[SyncTool]:
        """Return every tool of a server that can be called; see `Toolset.available`."""
        return self._tools(self._on_loop(self.wrapped.available))

    def wait_listed(self) -> None:
        """Wait for servers that were never listed; see `Toolset.wait_listed`."""
        run_blocking(self.portal, self.wrapped.wait_listed)

    def select(self, request: str, *, limit: int | None = None) -> list[SyncTool]:
        """Find the tools that fit a request and bind them; see `Toolset.select`."""
        return self._tools(run_blocking(self.portal, self.wrapped.select, request, limit=limit))

    def search(
        self,
        queries: str | Sequence[str],
        *,
        limit: int | None = None,
        server: str | None = None,
        tags: Sequence[str] = (),
        any_tag: bool = False,
        min_relevance: float = 0.0,
    ) -> list[SyncTool]:
        """Return the tools that fit, and bind none; see `Toolset.search`."""
        search = partial(
            self.wrapped.search,
            server=server,
            tags=tags,
            any_tag=any_tag,
            min_relevance=min_relevance,
        )
        return self._tools(run_blocking(self.portal, search, queries, limit=limit))

    def use(self, name: str) -> None:
        """Bind a tool that the conversation uses; see `Toolset.use`."""
        self._on_loop(self.wrapped.use, name)

    def named(self, name: str) -> SyncTool:
        """Return the tool of that name; see `Toolset.named`."""
        return self._tools([self._on_loop(self.wrapped.named, name)])[0]

    def call_as_result(
        self,
        name: str,
        arguments: JSONObject | str | None,
        *,
        client: AnyClient | None = None,
        on_progress: Progress | None = None,
    ) -> JSONObject:
        """Call a tool with what a model wrote; see `Toolset.call_as_result`."""
        call = self.wrapped.call_as_result
        options: Any = {"client": client or self._client, "on_progress": on_progress}
        return run_blocking(self.portal, call, name, arguments, **options)

    def as_openai_functions(
        self, *, api: Literal["chat", "responses"] = "chat"
    ) -> list[JSONObject]:
        """Return the tools as OpenAI's APIs take them; see `Toolset.as_openai_functions`."""
        return self._on_loop(partial(self.wrapped.as_openai_functions, api=api))

    def as_anthropic_tools(self, *, defer: bool = True) -> list[JSONObject]:
        """Return the tools as Anthropic's API takes them; see `Toolset.as_anthropic_tools`."""
        return self._on_loop(partial(self.wrapped.as_anthropic_tools, defer=defer))

    def as_callables(self) -> list[Callable[..., str]]:
        """Return the tools as plain functions; see `Toolset.as_callables`."""
        return [self._function(function) for function in self._on_loop(self.wrapped.as_callables)]

    def _function(self, function: Callable[..., Any]) -> Callable[..., str]:
        def call(*args: Any, **kwargs: Any) -> str:
            # An argument of the tool may have the name of one of `run_blocking`.
            text: str = run_blocking(self.portal, partial(function, *args, **kwargs))
            return text

        signature = inspect.signature(function)
        update_wrapper(call, function)
        del call.__dict__["__wrapped__"]  # or a framework would see an async function
        call.__dict__["__signature__"] = signature
        return call

    def _tools(self, tools: Iterable[AgentTool]) -> list[SyncTool]:
        return [SyncTool(tool, self.portal, self._client) for tool in tools]

    def _on_loop(self, function: Callable[..., T], *args: Any) -> T:
        """Run a plain function on the loop, where nothing else changes the toolset."""
        return self.portal.call(function, *args)
