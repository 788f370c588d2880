"""The tools of an engine for the model of an agent framework: `engine.toolset()`.

    tools = engine.toolset(mode="select")
    await tools.select("open an issue about the login page")
    model.bind(tools.as_openai_functions())
    result = await tools.call_as_result("github__create_issue", {"title": "Login page"})

In the mode `meta` a toolset contains the meta-tools, whatever the servers are. In the mode `select`
it contains a search tool and the tools that `select` and the model's own searches have found, in
the order of discovery. Since a toolset has this state, each conversation needs its own; `fresh`
makes one at no cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from anyio.lowlevel import checkpoint
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine._util.suggestions import nearest
from discovery_engine.agent import dispatch
from discovery_engine.agent.agent_tool import (
    AgentTool,
    ToolCalls,
    anthropic_tool,
    function,
    openai_function,
)
from discovery_engine.agent.answer_rendering import error_result
from discovery_engine.agent.dispatch import meant_meta_tool
from discovery_engine.agent.exposed_tools import ExposedTools, client_definition, execution
from discovery_engine.agent.instructions import render_instructions
from discovery_engine.agent.meta_arguments import (
    Caller,
    MetaArgumentsError,
    helpers_beside_tools,
    meta_tools,
)
from discovery_engine.agent.portable_schema import PortableSchema
from discovery_engine.agent.tool_pool import BoundTools, ToolPool, pool_rules
from discovery_engine.errors import ToolNotFoundError
from discovery_engine.tools.client_names import Naming
from discovery_engine.tools.limits import shortened_query
from discovery_engine.tools.meta_tools import META_TOOLS, POOL_SEARCH, MetaTool

if TYPE_CHECKING:
    from discovery_engine.agent.agent_tool import ToolFunction
    from discovery_engine.agent.answer_rendering import PoolReport
    from discovery_engine.agent.meta_arguments import OnProgress
    from discovery_engine.catalog import Catalog, Entry
    from discovery_engine.config.serve_settings import ServeMode
    from discovery_engine.config.settings import Settings
    from discovery_engine.engine import ScopedEngine
    from discovery_engine.rpc.client import Client
    from discovery_engine.tools.client_names import Style
    from discovery_engine.view.search_answers import SearchAnswer
    from discovery_engine.view.view import View

ToolsetMode: TypeAlias = Literal["meta", "select"]

_FIRST_LISTING = 30.0  # seconds; an agent that starts without tools does not search for them again
_NAME_LENGTH = 64  # characters that every API accepts
_FRESH_TURNS = 10  # turns in which freshness falls to zero; with a clock, prompts would vary
_REPLAYED = 50  # searches of a conversation, at about 2 ms each; older ones are not repeated
_SEARCHES = (POOL_SEARCH.name,)
_EXECUTE = META_TOOLS["execute_tool"]


class Toolset:
    """The tools of an engine for one conversation; made by `ScopedEngine.toolset`.

    It is usable as long as that engine is open. Lists of tools have a stable order, and change only
    with the catalog or the found tools, so that the prompt cache of a model stays valid.
    """

    def __init__(
        self,
        engine: ScopedEngine,
        *,
        mode: ToolsetMode = "meta",
        limit: int | None = None,
        client: Client | None = None,
        name_style: Style | None = None,
    ) -> None:
        self.mode: ToolsetMode = mode
        self._engine = engine
        self._given_limit = limit
        self._client = client
        self._name_style: Style | None = name_style
        self._turn = 0
        self._pool = ToolPool(clock=lambda: self._turn)
        self._settings: Settings | None = None
        self._exposed = self._exposed_now()
        self._tools = AgentTools(self)
        if client:
            engine.expect_client(client.capabilities)

    @property
    def limit(self) -> int:
        """The maximum number of upstream tools that are bound at once."""
        return self._given_limit or self._engine.settings.server.pool_limit

    def fresh(self) -> Toolset:
        """Return a toolset with the same options and no found tools, for another conversation."""
        return Toolset(
            self._engine,
            mode=self.mode,
            limit=self._given_limit,
            client=self._client,
            name_style=self._name_style,
        )

    async def replay(self, history: Iterable[str | tuple[str, JSONObject | str]]) -> Toolset:
        """Return a fresh toolset that binds what a conversation has found and used so far.

        For frameworks that store conversations and use one agent for many: the same history binds
        the same tools in the same order.

        Args:
            history: The texts of the user, and each tool call as a pair of name and arguments, the
                oldest first. Only the last fifty texts and searches are repeated.
        """
        toolset = self.fresh()
        turns = list(history)
        searches = [
            n for n, turn in enumerate(turns) if isinstance(turn, str) or turn[0] in _SEARCHES
        ]
        forgotten = set(searches[:-_REPLAYED])
        for number, turn in enumerate(turns):
            if number in forgotten:
                continue
            # A search never yields to the loop, so many in a row would block other tasks.
            await checkpoint()
            if isinstance(turn, str):
                await toolset.select(turn)
            elif turn[0] in _SEARCHES:
                await toolset.call_as_result(*turn)
            else:
                toolset.use(turn[0])
        return toolset

    def instructions(self) -> str:
        """Return a text for the system prompt: how to use the tools, and the list of servers."""
        mode: ServeMode = "meta" if self.mode == "meta" else "dynamic"
        return render_instructions(self._current.view, mode)

    def tools(self) -> list[AgentTool]:
        """Return the current tools for the model: the search, other helpers, then those found."""
        if self.mode == "meta":
            return [self._meta(tool) for tool in self._meta_tools.values()]
        return [*map(self._meta, self._meta_tools.values()), *self._bound_tools()]

    def available(self) -> list[AgentTool]:
        """Return all callable upstream tools, ordered by server and name."""
        return self._tools.all(self._current)

    async def wait_listed(self) -> None:
        """Wait at most 30 seconds for the servers if none of them was ever listed."""
        if not self._engine.has_listings:
            await self._engine.wait_listed(timeout=_FIRST_LISTING)

    async def select(self, request: str, *, limit: int | None = None) -> list[AgentTool]:
        """Find and bind the tools that fit a request; return all tools that are bound afterwards.

        If no tool fits, none is added. Above the `limit` of the toolset, the tools with the lowest
        weight are removed, which combines relevance with the turns since they were last used.

        Args:
            request: The request in the user's words. Of a long text, the beginning and the end are
                searched for.
            limit: The maximum number of tools that this request adds; `search.limit` if None.
        """
        if request := shortened_query(request):
            answer = await self._find(request, limit)
            self._turn += 1
            self._bound.register([answer])
        return self._bound_tools()

    async def search(
        self,
        queries: str | Sequence[str],
        *,
        limit: int | None = None,
        server: str | None = None,
        tags: Sequence[str] = (),
        any_tag: bool = False,
        min_relevance: float = 0.0,
    ) -> list[AgentTool]:
        """Search without binding; return the tools, the best first.

        The results of several queries are interleaved.

        Args:
            queries: One or more tasks, each in a few words.
            limit: The maximum number of tools; `search.limit` for each query if None.
            server: The server to search; None for all.
            tags: The tags that a tool must have.
            any_tag: True if one of `tags` suffices.
            min_relevance: The lowest relevance of a result, from 0 to 1.

        Raises:
            InputTooLongError: If a query is too long.
            ServerNotFoundError: If there is no such server.
        """
        texts = [queries] if isinstance(queries, str) else queries
        filters: Any = {"server": server, "tags": tags, "any_tag": any_tag}
        answers = [await self._find(query, limit, **filters) for query in texts if query.strip()]
        in_turn = filter(
            None, chain.from_iterable(zip_longest(*(answer.hits for answer in answers)))
        )
        entries = {hit.entry.key: hit.entry for hit in in_turn if hit.relevance >= min_relevance}
        return self._of(entries.values())[:limit]

    async def answer_search(
        self, arguments: JSONObject | str | None
    ) -> tuple[JSONObject, list[AgentTool]]:
        """Answer a call of the search tool without binding; return also the unlisted tools found.

        For APIs with their own tool search, whose result consists of tools.

        Args:
            arguments: The arguments that the model wrote, or their JSON text. A mistake in them
                gives a result with `isError`.
        """
        exposed = self._current
        try:
            search_arguments = self._meta(POOL_SEARCH).parsed(arguments)
        except MetaArgumentsError as error:
            return error_result(error), []
        pool = self._bound_by(ToolPool(clock=lambda: 0))
        caller = Caller(self._client, on_found=pool.register)
        answer = await dispatch.call(exposed.engine, POOL_SEARCH, search_arguments, caller)
        listed = {entry.key for entry in self._bound.entries()}
        return answer, self._of(entry for entry in pool.entries() if entry.key not in listed)

    def purpose_of(self, server: str) -> str:
        """Return the description of a server, from its entry or else from itself; maybe empty."""
        return self._current.view.server(server).description

    def use(self, name: str) -> None:
        """Bind a tool that the conversation uses; a no-op for a meta-tool or an unknown name."""
        if entry := self._current.named(name):
            self._bound.add(entry)

    def named(self, name: str) -> AgentTool:
        """Return the tool of that name, bound or not.

        Raises:
            ToolNotFoundError: If there is none; the error suggests the nearest names.
        """
        if meta := self._meta_tools.get(name):
            return self._meta(meta)
        if self.mode == "select":
            tools = self._of(filter(None, [self._current.named(name)]))
            if tools:
                return tools[0]
        raise self._not_found(name)

    async def call_as_result(
        self,
        name: str,
        arguments: JSONObject | str | None,
        *,
        client: Client | None = None,
        on_progress: OnProgress | None = None,
    ) -> JSONObject:
        """Call a tool with the arguments that a model wrote; errors are results with `isError`.

        Args:
            name: The name of the tool.
            arguments: The arguments, or their JSON text.
            client: The client of the call; see `AgentTool.call`.
            on_progress: Awaited with progress; see `AgentTool.call`.
        """
        try:
            tool = self.named(name)
            tool_arguments = tool.parsed(arguments)
        except (ToolNotFoundError, MetaArgumentsError) as error:
            return error_result(error)
        return await tool.call_as_result(tool_arguments, client=client, on_progress=on_progress)

    def as_openai_functions(
        self, *, api: Literal["chat", "responses"] = "chat"
    ) -> list[JSONObject]:
        """Return `tools` as definitions for the Chat Completions or Responses API of OpenAI."""
        return [openai_function(tool, api) for tool in self.tools()]

    def as_anthropic_tools(self, *, defer: bool = True) -> list[JSONObject]:
        """Return tools as definitions for Anthropic's Messages API.

        Args:
            defer: In the mode `select`, True defines all callable tools with `defer_loading`, so
                that the model sees those that a `tool_reference` names. False defines only the
                bound tools.
        """
        if self.mode == "meta" or not defer:
            return [anthropic_tool(tool) for tool in self.tools()]
        metas = [anthropic_tool(self._meta(tool)) for tool in self._meta_tools.values()]
        return metas + [anthropic_tool(tool, defer=True) for tool in self.available()]

    def as_callables(self) -> list[ToolFunction]:
        """Return `tools` as async functions, each with a name, a docstring and a signature.

        A function returns a text for the model: that of the result, or of the error.
        """
        return [function(tool) for tool in self.tools()]

    async def run(
        self,
        tool: AgentTool,
        arguments: JSONObject,
        client: Client | None,
        on_progress: OnProgress | None,
    ) -> JSONObject:
        """Call a tool; see `AgentTool.call`."""
        return await dispatch.answer(*self._meant(tool, arguments, client, on_progress))

    async def run_as_result(
        self,
        tool: AgentTool,
        arguments: JSONObject,
        client: Client | None,
        on_progress: OnProgress | None,
    ) -> JSONObject:
        """Call a tool, with errors as results; see `AgentTool.call_as_result`."""
        try:
            meant = self._meant(tool, arguments, client, on_progress)
        except ToolNotFoundError as error:
            return error_result(error)
        return await dispatch.call(*meant)

    def _meant(
        self,
        tool: AgentTool,
        arguments: JSONObject,
        client: Client | None,
        on_progress: OnProgress | None,
    ) -> tuple[ScopedEngine, MetaTool, JSONObject, Caller]:
        """Translate the call of a tool into the call of a meta-tool.

        Raises:
            ToolNotFoundError: If a change of the settings has removed the meta-tool.
        """
        exposed, bound = self._current, self._bound
        caller = Caller(client or self._client, on_progress, on_call=bound.use)
        if tool.origin:
            self._turn += exposed.usable(tool.origin) is not None
            tool_arguments = {
                tool.renamed.get(name, name): value for name, value in arguments.items()
            }
            return exposed.engine, _EXECUTE, execution(tool.origin, tool_arguments), caller
        meta = self._meta_tools.get(tool.name)
        if meta is None:  # the settings have changed
            raise self._not_found(tool.name)
        if self.mode == "meta":
            meant = meant_meta_tool(self._engine, self._meta_tools, meta, arguments)
            return self._engine, *meant, caller
        if meta is POOL_SEARCH:
            caller = replace(caller, on_found=self._found)
        return exposed.engine, meta, arguments, caller

    @property
    def _meta_tools(self) -> Mapping[str, MetaTool]:
        """The listed meta-tools: all, or in the mode `select` the search and the helpers."""
        if self.mode == "meta":
            return meta_tools(self._engine.settings)
        return {POOL_SEARCH.name: POOL_SEARCH, **self._current.helpers}

    @property
    def _current(self) -> ExposedTools:
        """The callable tools under the current settings."""
        if self._engine.settings is not self._settings:
            self._exposed = self._exposed_now()
        return self._exposed

    def _exposed_now(self) -> ExposedTools:
        settings = self._settings = self._engine.settings
        server = settings.server
        length = min(server.max_tool_name_length, _NAME_LENGTH)
        naming = Naming(length, self._name_style or server.tool_name_style)
        helpers = helpers_beside_tools(settings)
        return ExposedTools(self._engine, server.expose, server.pins, helpers, naming)

    @property
    def _bound(self) -> BoundTools:
        return self._bound_by(self._pool)

    def _bound_by(self, pool: ToolPool) -> BoundTools:
        rules = pool_rules(self._engine.settings.server)
        rules = replace(rules, limit=self.limit, fresh_for=_FRESH_TURNS)
        return BoundTools(self._current, pool, rules)

    def _bound_tools(self) -> list[AgentTool]:
        return self._of(self._bound.entries())

    def _found(self, answers: Sequence[SearchAnswer]) -> PoolReport:
        self._turn += 1
        return self._bound.register(answers)

    async def _find(self, query: str, limit: int | None, **filters: Any) -> SearchAnswer:
        await self.wait_listed()
        return await self._current.engine.search(query, limit=limit, **filters)

    def _meta(self, tool: MetaTool) -> AgentTool:
        return AgentTool(
            name=tool.name,
            title=None,
            description=tool.description,
            parameters=tool.input_schema,
            output_schema=None,
            annotations=tool.annotations,
            origin=None,
            calls=self,
        )

    def _of(self, entries: Iterable[Entry]) -> list[AgentTool]:
        """Return the tools of entries; an entry without a name for clients is left out."""
        return self._tools.of(self._current, entries)

    def _not_found(self, name: str) -> ToolNotFoundError:
        listed = ", ".join(self._meta_tools)
        if self.mode == "meta":
            hint = f"there are {listed}; a server's tool is called through {_EXECUTE.name}"
            return ToolNotFoundError(None, name, nearest(name, self._meta_tools), hint=hint)
        exposed = self._current
        names = exposed.names(entry.key for entry in exposed.view.catalog.visible).values()
        hint = f"{POOL_SEARCH.name} finds tools and their names"
        return ToolNotFoundError(None, name, nearest(name, [*self._meta_tools, *names]), hint=hint)


def toolset_of(source: ScopedEngine | Toolset, mode: ToolsetMode = "select") -> Toolset:
    """Return a toolset unchanged, or make one of an engine in that mode, for adapters."""
    return source if isinstance(source, Toolset) else source.toolset(mode=mode)


class AgentTools:
    """Caches `AgentTool`s, because most are the same at each turn; `calls` executes their calls."""

    def __init__(self, calls: ToolCalls) -> None:
        self._calls = calls
        self._made: dict[str, tuple[Entry, AgentTool]] = {}
        self._made_of: tuple[Catalog, Settings] | None = None
        self._all: list[AgentTool] | None = None

    def of(self, exposed: ExposedTools, entries: Iterable[Entry]) -> list[AgentTool]:
        """Return the tools of entries; an entry without a name for clients is left out."""
        self._forget_outdated(exposed)
        addresses = exposed.addresses
        tools = []
        for entry in entries:
            if name := addresses.client_name(entry.key):
                pair = self._made.get(name)
                if pair is None or pair[0] is not entry:
                    pair = self._made[name] = entry, _made(entry, name, exposed.view, self._calls)
                tools.append(pair[1])
        return tools

    def all(self, exposed: ExposedTools) -> list[AgentTool]:
        """Return all callable tools, ordered by server and name."""
        self._forget_outdated(exposed)
        if self._all is None:
            self._all = self.of(exposed, exposed.view.catalog.visible)
        return list(self._all)

    def _forget_outdated(self, exposed: ExposedTools) -> None:
        """Drop cached tools after a change of the settings or of their entries."""
        view, before = exposed.view, self._made_of
        if before and before[0] is view.catalog and before[1] is view.settings:
            return
        is_same_form = before is not None and before[1] is view.settings
        pairs = self._made.items() if is_same_form else ()
        self._made = {name: pair for name, pair in pairs if exposed.usable(pair[0].key) is pair[0]}
        self._made_of = view.catalog, view.settings
        self._all = None


def _made(entry: Entry, name: str, view: View, calls: ToolCalls) -> AgentTool:
    definition = client_definition(entry, name, view)
    portable = PortableSchema.of(definition["inputSchema"])
    description = definition.get("description") or entry.tool.title
    output = definition.get("outputSchema")
    title = definition.get("title")
    return AgentTool(
        name=name,
        title=title if isinstance(title, str) else None,
        description=description or f"The tool {entry.tool.name} of {entry.tool.server}.",
        parameters=portable.schema,
        output_schema=output if isinstance(output, dict) else None,
        annotations=entry.tool.annotations,
        origin=entry.key,
        renamed=portable.renamed,
        calls=calls,
    )
