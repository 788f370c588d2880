"""The engine restricted to a scope: search, details, calls, offerings and tasks.

Every method uses the view of the scope, so hidden tools are never found, listed, called or named.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.engine.call_record import CallRecord
from discovery_engine.engine.core import CurrentView, EngineCore
from discovery_engine.engine.reranking import RERANKED
from discovery_engine.engine.server_offerings import ServerOfferings
from discovery_engine.errors import (
    DiscoveryError,
    ServerDisabledError,
    TaskNotFoundError,
    ToolNotFoundError,
    concerning,
)
from discovery_engine.rules.rule import parse_principals
from discovery_engine.tools.limits import require_query
from discovery_engine.tools.model import ServerName, ToolKey
from discovery_engine.view.scope import Scope, named_scope, scope_or_nothing
from discovery_engine.view.search_answers import TOOLS_ONLY, SearchAnswer, SearchKind
from discovery_engine.view.view import View

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.agent.toolset import Toolset, ToolsetMode
    from discovery_engine.catalog import Entry
    from discovery_engine.config.settings import ServerSettings, Settings
    from discovery_engine.engine.executor import CallPreview, OnUnchecked, PreparedCall
    from discovery_engine.engine.result_store import ResultStore
    from discovery_engine.events import Event, Subscription
    from discovery_engine.rpc.client import Client, Continuation
    from discovery_engine.rpc.messages import OnProgress
    from discovery_engine.store.call_log.log_entry import Actor
    from discovery_engine.tools.client_names import Style
    from discovery_engine.upstream.open_tasks import OpenTask
    from discovery_engine.view.notices import Notice
    from discovery_engine.view.view import ToolList


FIRST_LISTING = 3.0  # seconds to wait for servers that were never listed
_MAX_PREPARED_CALLS = 1_000  # of one snapshot


class ScopedEngine:
    """An engine that shows a scope of another; made by `within`, `in_view` and `visible_to`.

    It shares sessions, catalog and index with the engine that made it, and closes with it.
    """

    def __init__(self, core: EngineCore, current: CurrentView) -> None:
        self._core = core
        self._current = current
        self._prepared_in: View | None = None
        self._prepared: dict[tuple[str | None, str], PreparedCall] = {}
        """Prepared calls of that snapshot, by server and tool as callers write them."""

    def within(self, scope: Scope) -> ScopedEngine:
        """Return this engine restricted to a scope."""
        return ScopedEngine(self._core, self._current.within(lambda _: scope))

    def in_view(self, name: str) -> ScopedEngine:
        """Return this engine restricted to a view of the configuration.

        Later changes of the view take effect; once it is removed, nothing is shown.

        Raises:
            ViewNotFoundError: If there is no such view now; the error suggests the nearest names.
        """
        named_scope(self.settings, name)
        current = self._current.within(lambda settings: scope_or_nothing(settings, name))
        return ScopedEngine(self._core, current)

    def visible_to(self, *principals: str) -> ScopedEngine:
        """Return this engine restricted to what these teams and users may see.

        Args:
            principals: Teams and users in the syntax of `visibleTo`: `team:NAME`, `user:NAME`.
                Without any, only what is not reserved is shown.

        Raises:
            PrincipalError: If a principal is neither a team nor a user.
        """
        return ScopedEngine(self._core, self._current.visible_to(parse_principals(principals)))

    def toolset(
        self,
        *,
        view: str | None = None,
        mode: ToolsetMode = "meta",
        limit: int | None = None,
        client: Client | None = None,
        name_style: Style | None = None,
    ) -> Toolset:
        """Make a toolset for the model of an agent framework.

        Args:
            view: The view of the configuration to show; everything that this engine shows if None.
            mode: `meta` offers the meta-tools, which never change. `select` offers a search and
                the tools that it finds, under their own names, among those that `server.expose`
                matches.
            limit: The most tools bound at once in the mode `select`; `server.poolLimit` if None.
            client: The client of the calls. Servers send their requests to it, and with
                `session: per_client` it has its own sessions. A single call can name another.
            name_style: The style of tool names; `server.toolNameStyle` if None. Names in the style
                `gemini` are Python identifiers.

        Raises:
            ViewNotFoundError: If there is no such view; the error suggests the nearest names.
        """
        # `agent` imports this package, so it is imported on first use.
        from discovery_engine.agent.toolset import Toolset  # noqa: PLC0415

        engine = self if view is None else self.in_view(view)
        return Toolset(engine, mode=mode, limit=limit, client=client, name_style=name_style)

    @cached_property
    def offerings(self) -> ServerOfferings:
        """Access to resources and prompts, such as `list`, `read_resource` and `get_prompt`."""
        return ServerOfferings(self._core, self._current)

    @cached_property
    def tasks(self) -> ServerTasks:
        """Access to calls that run as tasks: `get`, `update`, `cancel`."""
        return ServerTasks(self._core, self._current)

    @property
    def hands_out_tasks(self) -> bool:
        """Return True if clients that support tasks get them: not while recording or replaying."""
        return self._core.environment.hands_out_tasks

    @property
    def results(self) -> ResultStore:
        """The stored long results of tools, from which more can be read."""
        return self._core.results

    @property
    def view(self) -> View:
        """The current snapshot; keep a reference for several consistent reads."""
        return self._current.live

    @property
    def settings(self) -> Settings:
        return self._current.snapshot.settings

    @property
    def has_listings(self) -> bool:
        """Return True if any server was listed."""
        return self._current.snapshot.catalog.has_listings

    def is_listed(self, server: str) -> bool:
        """Return whether the tools of a server are known.

        Raises:
            ServerNotFoundError: If the server is not configured.
        """
        view = self._current.snapshot
        return view.is_known(view.addresses.server(server))

    def subscribe(self, *kinds: type[Event]) -> AbstractContextManager[Subscription]:
        """Subscribe to events: `with engine.subscribe() as events: async for event in events`.

        Args:
            kinds: The classes of the events to receive; all if none is given.
        """
        return self._core.events.subscribe(*kinds)

    async def search(
        self,
        query: str,
        *,
        server: str | None = None,
        tags: Sequence[str] = (),
        any_tag: bool = False,
        limit: int | None = None,
        include_disabled: bool = False,
        kinds: Collection[SearchKind] = TOOLS_ONLY,
    ) -> SearchAnswer:
        """Search like `View.search`, and by meaning if an embedder answers in time.

        If `kinds` includes resources or prompts, these are found by their words and returned in
        `SearchAnswer.offerings`.
        """
        require_query(query)
        if kinds is not TOOLS_ONLY and set(kinds) != {"tool"}:
            return await self._search_kinds(
                query,
                kinds,
                server=server,
                tags=tags,
                any_tag=any_tag,
                limit=limit,
                include_disabled=include_disabled,
            )
        await self._current.prepare_search()
        embedding = await self._core.semantic.embed_query(query, self._current.searched)
        search = partial(
            View.search,
            query=query,
            server=server,
            tags=tags,
            any_tag=any_tag,
            include_disabled=include_disabled,
            query_vectors=embedding.vectors,
        )
        order = await self._order(query, search)
        answer = await self._found(partial(search, limit=limit, order=order))
        self._core.uses.record_found(hit.entry.key for hit in answer.hits)
        return replace(answer, notices=(*answer.notices, *embedding.notices))

    async def _order(self, query: str, search: Callable[..., SearchAnswer]) -> Sequence[ToolKey]:
        """Return the order of the first hits by the owner's reranker, if there is one."""
        reranking, settings = self._core.reranking, self.settings
        if not reranking.is_usable(settings) or self.view.searcher.is_tool_name(query):
            return ()
        candidates = await self._found(partial(search, limit=RERANKED))
        return await reranking.order(query, [hit.entry for hit in candidates.hits], settings)

    async def _found(self, search: Callable[[View], SearchAnswer]) -> SearchAnswer:
        """Return what `search` finds; it runs in a thread if it may wait for a database."""
        view = self.view
        if not view.settings.search.is_in_database:
            return search(view)
        answer = await anyio.to_thread.run_sync(search, view)
        if view.outage is None and (now := self.view).outage:
            # The search itself detected the outage, so its answer lacks the notice.
            answer = await anyio.to_thread.run_sync(search, now)
        return answer

    async def _search_kinds(
        self,
        query: str,
        kinds: Collection[SearchKind],
        *,
        server: str | None,
        tags: Sequence[str],
        any_tag: bool,
        limit: int | None,
        include_disabled: bool,
    ) -> SearchAnswer:
        answer = SearchAnswer(query, ())
        filters: Any = {"server": server, "tags": tags, "any_tag": any_tag, "limit": limit}
        if "tool" in kinds:
            answer = await self.search(query, include_disabled=include_disabled, **filters)
        search = partial(self.view.search_offerings, query, kinds, **filters)
        # In a thread, because the first search after a change builds the index.
        return replace(answer, offerings=await anyio.to_thread.run_sync(search))

    async def wait_embedded(self, *, timeout: float) -> Notice | None:  # noqa: ASYNC109 - an answer, not an error
        """Wait until all tools have vectors or none can be computed, at most `timeout` seconds.

        The time for loading a model does not count. Returns a notice with the reason if some tools
        are still found by their words alone, else None.
        """
        return await self._core.semantic.wait_settled(timeout)

    async def list_tools(self, server: str, *, include_disabled: bool = False) -> ToolList:
        """List the tools of a server; see `View.list_tools`.

        A server that was never listed is listed first.
        """
        name = self._current.snapshot.addresses.server(server)
        await self._core.lister.ensure_listed(name)
        return self.view.list_tools(name, include_disabled=include_disabled)

    async def details(
        self, server: str | None, tool: str, *, max_wait: float | None = None
    ) -> Entry:
        """Return the entry of a tool; see `View.details`.

        A server that was never listed is listed first.

        Args:
            server: The name of the server; None if `tool` includes it, or only one server has
                such a tool.
            tool: The tool's name; see `View.find`.
            max_wait: Seconds to wait for a server that was never listed; the `timeouts` of the
                server apply if None.

        Raises:
            NotFoundError: If there is no such server or tool; suggests the nearest names.
            DisabledError: If the tool or its server is disabled.
            ServerStartingError: If the server does not answer in time; it continues to start.
            UpstreamError: If the server was never reached, with the reason.
            ConfigurationError: If the entry of the server is invalid.
        """
        try:
            return self._current.snapshot.details(server, tool)
        except DiscoveryError:  # raised again below with the current states of servers
            pass
        try:
            return self.view.details(server, tool)
        except ToolNotFoundError as error:
            if error.server is None or self.view.is_known(ServerName(error.server)):
                raise
            named = error.server, error.tool
        with concerning(*named):
            unknown = self._current.snapshot.require_connectable(named[0])
            await self._core.lister.list_server(unknown.name, max_wait=max_wait)
        return self.view.details(server, tool)

    async def execute(  # noqa: PLR0913 - each by its name
        self,
        server: str | None,
        tool: str,
        arguments: JSONObject,
        *,
        on_progress: OnProgress | None = None,
        caller: Client | None = None,
        continuation: Continuation | None = None,
        max_wait: float | None = None,
        on_unchecked: OnUnchecked | None = None,
        by: Actor | None = None,
    ) -> JSONObject:
        """Call a tool once and return the upstream's result whole, as raw JSON.

        Args:
            server: The name of the server; see `details`.
            tool: The tool's name; see `View.find`.
            arguments: The arguments. Together with those that the owner pins they are validated
                against the tool's schema before anything is sent.
            on_progress: Awaited with progress, total and message of each progress notification.
            caller: The client that makes the call. Requests of the server to its user are sent to
                this client, and so are notifications; with `session: per_client` it has its own
                session. A client that supports tasks may get a task handle (`resultType: task`)
                for use with `tasks`.
            continuation: The client's answers to an `input_required` result of the same call.
            max_wait: See `details`; the call itself is limited by `timeouts`.
            on_unchecked: Called with the reason before sending arguments that cannot be validated.
            by: The actor for the call log; the opener of the engine if None.

        Raises:
            NotFoundError, DisabledError, ServerStartingError: See `details`.
            InvalidArgumentsError: If the arguments are invalid; includes the tool's signature.
            ConfigurationError: If a `${reference}` in a pinned argument has no value.
            UpstreamError: If the server cannot be reached, times out, or the connection breaks.
        """
        core, view = self._core, self._current.snapshot
        name = view.settings.view
        record = CallRecord(core.recorder, server, tool, arguments, caller, view=name, by=by)
        with record:
            prepared = self._prepared.get((server, tool))
            if prepared is None or view is not self._prepared_in or not core.state.is_complete:
                prepared = await self._prepare(server, tool, max_wait)
            entry = prepared.entry
            record.set_name(entry.tool.server, entry.tool.name)
            with concerning(entry.tool.server, entry.tool.name):
                result = await core.executor.call(
                    prepared,
                    arguments,
                    caller=record.client,
                    continuation=continuation,
                    on_progress=record.recording(on_progress) if on_progress else None,
                    on_unchecked=on_unchecked,
                    observer=record,
                )
            record.record_result(result)
        if result.get("resultType") == "task":
            self.tasks.begin(result["taskId"], entry.key, caller)
        if not result.get("isError"):
            core.uses.record_call(entry)
        return result

    async def _prepare(self, server: str | None, tool: str, max_wait: float | None) -> PreparedCall:
        """Prepare the calls of a visible tool, for as long as the snapshot that has it."""
        await self._core.configuration.complete()
        entry = await self.details(server, tool, max_wait=max_wait)
        view = self._current.snapshot
        prepared = self._core.executor.prepare(entry, view.settings)
        if view is not self._prepared_in or len(self._prepared) == _MAX_PREPARED_CALLS:
            self._prepared_in, self._prepared = view, {}
        # Another snapshot may have come while the server was listed.
        if view.catalog.get(entry.tool.server, entry.tool.name) is entry:
            self._prepared[server, tool] = prepared
        return prepared

    async def preview(
        self,
        server: str | None,
        tool: str,
        arguments: JSONObject,
        *,
        max_wait: float | None = None,
    ) -> CallPreview:
        """Return what `execute` would send, and where; nothing is sent.

        Raises:
            DiscoveryError: If `execute` would raise it before sending anything.
        """
        prepared = await self._prepare(server, tool, max_wait)
        entry = prepared.entry
        with concerning(entry.tool.server, entry.tool.name):
            return await self._core.executor.preview(prepared, arguments)

    def expect_client(self, capabilities: Mapping[str, JSONObject]) -> None:
        """Declare the capabilities of a newly connected client to servers.

        Servers receive capabilities when a session is opened. An open session without them is
        reopened for the first call that needs them, which takes as long as a start.
        """
        self._core.upstreams.expect(capabilities)

    def roots_changed(self, client: Client) -> None:
        """Notify the servers that a client has called that its roots have changed.

        Only servers to which that capability was declared are notified. They may then request the
        roots outside of any call; the request goes to `client` unless others share the session.
        """
        self._core.upstreams.roots_changed(client)

    def close_client(self, client: str) -> None:
        """Close the sessions of a client that has disconnected."""
        self._core.upstreams.close_client(client)
        self._core.results.forget(client)

    async def wait_first_listed(self, server: str | None) -> None:
        """Wait at most `FIRST_LISTING` seconds for the first listing of a server.

        If `server` is None, wait for all servers, unless one of them was listed before.
        """
        if server is None:
            if not self.has_listings:
                await self.wait_listed(timeout=FIRST_LISTING)
        elif not self.is_listed(server):
            with anyio.move_on_after(FIRST_LISTING):
                try:
                    await self.list_tools(server)
                except ServerDisabledError:
                    return  # the caller's answer reports it

    async def wait_listed(self, *, timeout: float) -> None:  # noqa: ASYNC109 - an answer, not an error
        """Wait until every enabled server was listed or has failed, at most `timeout` seconds."""
        with anyio.move_on_after(timeout):
            await self._core.lister.wait_all_listed(self._current.live.connectable)


# A client that supports tasks gets a handle from `execute` and uses it here. A task does not exist
# for other clients, nor after the owner has hidden its tool.


class TaskReport(Struct, frozen=True):
    """The state of a task for the client that owns it."""

    fields: JSONObject
    """The fields of a `tasks/get` response, with the handle as the id."""
    tool: ToolKey
    select: str
    """The expression last passed to `ServerTasks.select`."""


class ServerTasks:
    """Tracks the tasks of clients; available as `engine.tasks`."""

    def __init__(self, core: EngineCore, current: CurrentView) -> None:
        self._core = core
        self._current = current

    def begin(self, handle: str, tool: ToolKey, caller: Client | None) -> None:
        """Record the tool of a new task.

        Raises:
            TaskNotFoundError: If the task does not belong to this client, or is gone.
        """
        self._owned(handle, caller).tool = tool

    def select(self, handle: str, expression: str, caller: Client | None) -> None:
        """Record an expression that selects a part of the result for the client.

        Raises:
            TaskNotFoundError: If the task does not belong to this client, or is gone.
        """
        self._owned(handle, caller).select = expression

    async def get(self, handle: str, *, caller: Client | None) -> TaskReport:
        """Return the state of a task, with its result if it is completed.

        Raises:
            TaskNotFoundError: If the task does not belong to this client, is gone, or its tool is
                hidden now.
            UpstreamError: If its server cannot be reached, or its response is invalid.
        """
        task, tool, server = self._found(handle, caller)
        fields = task.recent()
        if fields is None:
            with concerning(tool.server, tool.tool):
                fields = await self._core.upstreams.ask_task(server, task, "tasks/get", caller)
            task.remember(fields)
        if task.state.is_over and not task.is_settled:
            task.is_settled = True
            self._record(task, tool, fields, caller)
        return TaskReport(fields, tool, task.select)

    async def update(self, handle: str, responses: JSONObject, *, caller: Client | None) -> None:
        """Send the client's answers to the questions of a task.

        Raises:
            TaskNotFoundError, UpstreamError: See `get`.
        """
        task, tool, server = self._found(handle, caller)
        with concerning(tool.server, tool.tool):
            await self._core.upstreams.ask_task(server, task, "tasks/update", caller, responses)
        task.remember(None)

    async def cancel(self, handle: str, *, caller: Client | None) -> None:
        """Request cancellation of a task; the server may continue it nevertheless.

        Raises:
            TaskNotFoundError: If the task does not belong to this client, or is gone.
            UpstreamError: See `get`.
        """
        task = self._owned(handle, caller)
        server = self._server(task)
        with concerning(task.server, task.subject):
            await self._core.upstreams.ask_task(server, task, "tasks/cancel", caller)
        task.remember(None)

    def _owned(self, handle: str, caller: Client | None) -> OpenTask:
        owner = caller.id if caller else None
        task = self._core.upstreams.open_task(handle, owner=owner)
        if task is None:
            raise TaskNotFoundError
        return task

    def _found(
        self, handle: str, caller: Client | None
    ) -> tuple[OpenTask, ToolKey, ServerSettings]:
        task = self._owned(handle, caller)
        if task.tool is None or not self._is_shown(task.tool):
            raise TaskNotFoundError
        return task, task.tool, self._server(task)

    def _server(self, task: OpenTask) -> ServerSettings:
        try:
            return self._core.state.view.require_connectable(task.server)
        except DiscoveryError as error:  # the server must not be called any more
            raise TaskNotFoundError from error

    def _is_shown(self, key: ToolKey) -> bool:
        """Return whether the tool of a task is visible.

        A tool that its server no longer lists counts as visible, so that its task can still end.
        """
        snapshot = self._current.snapshot
        entry = snapshot.catalog.get(key.server, key.tool)
        if entry is None and key.server not in snapshot.settings.by_name:
            return False
        if entry is None:
            return self._core.state.view.catalog.get(key.server, key.tool) is None
        return entry.is_visible

    def _record(
        self, task: OpenTask, tool: ToolKey, fields: JSONObject, caller: Client | None
    ) -> None:
        """Record the end of the call like that of a call without a task."""
        seconds = asyncio.get_running_loop().time() - task.began
        view = self._current.snapshot.settings.view
        record = CallRecord(self._core.recorder, tool.server, tool.tool, {}, caller, view=view)
        with record:
            record.record_task(task.state.status, fields.get("result"), seconds)
