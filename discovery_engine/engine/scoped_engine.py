"""The engine as those use it who see one scope of it: they search, read and call.

Every verb answers from the view of that scope, so that nothing is found, listed, called or named
that it hides.
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

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.agent.toolset import Toolset, ToolsetMode
    from discovery_engine.catalog import Entry
    from discovery_engine.config.settings import ServerSettings, Settings
    from discovery_engine.engine.core import CurrentView, EngineCore
    from discovery_engine.engine.executor import CallPreview, OnUnchecked
    from discovery_engine.engine.result_store import ResultStore
    from discovery_engine.events import Event, Subscription
    from discovery_engine.rpc.client import Client, Continuation
    from discovery_engine.rpc.messages import OnProgress
    from discovery_engine.store.call_log.log_entry import Actor
    from discovery_engine.tools.client_names import Style
    from discovery_engine.upstream.open_tasks import OpenTask
    from discovery_engine.view.notices import Notice
    from discovery_engine.view.view import ToolList, View


FIRST_LISTING = 3.0  # seconds that an answer waits for servers that were never listed


class ScopedEngine:
    """Made by `Engine.within` and `Engine.in_view`; it ends with that engine.

    Sessions, catalog and index are those of that engine.
    """

    def __init__(self, core: EngineCore, current: CurrentView) -> None:
        self._core = core
        self._current = current

    def within(self, scope: Scope) -> ScopedEngine:
        """The same engine for those who see a part of its tools only."""
        return ScopedEngine(self._core, self._current.within(lambda _: scope))

    def in_view(self, name: str) -> ScopedEngine:
        """Return this engine within a view of the configuration, which may be changed meanwhile.

        See `within`. Without a view of that name, nothing is shown any more.

        Raises:
            ViewNotFoundError: If there is none now; with the nearest names.
        """
        named_scope(self.settings, name)
        current = self._current.within(lambda settings: scope_or_nothing(settings, name))
        return ScopedEngine(self._core, current)

    def visible_to(self, *principals: str) -> ScopedEngine:
        """The same engine for those who stand for these teams and users, or for none.

        Args:
            principals: Each as `visibleTo` of the configuration has it: `team:NAME`, `user:NAME`.

        Raises:
            PrincipalError: If one names neither a team nor a user.
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
        """The tools for the model of an agent framework.

        Args:
            view: The view of the configuration that it shows; all that this engine shows if None.
            mode: `meta` for the meta-tools, which never change; `select` for a search and the
                tools that fit, bound by their own names, of those that `server.expose` matches.
            limit: In the mode `select`, the most tools bound at once; `server.poolLimit` if None.
            client: Who calls are made for: asked by servers, and with `session: per_client` with
                sessions of its own. A single call can name another one.
            name_style: How tools are named; `server.toolNameStyle` if None. With `gemini` names
                are identifiers of Python.

        Raises:
            ViewNotFoundError: If there is no such view; with the nearest names.
        """
        # What agents read stands on the engine; it is imported on first use.
        from discovery_engine.agent.toolset import Toolset  # noqa: PLC0415

        engine = self if view is None else self.in_view(view)
        return Toolset(engine, mode=mode, limit=limit, client=client, name_style=name_style)

    @cached_property
    def offerings(self) -> ServerOfferings:
        """Resources and prompts: `list`, `read_resource`, `get_prompt`, `complete`, and more."""
        return ServerOfferings(self._core, self._current)

    @cached_property
    def tasks(self) -> ServerTasks:
        """Calls that have become tasks: `get`, `update`, `cancel`, for clients that take them."""
        return ServerTasks(self._core, self._current)

    @property
    def hands_out_tasks(self) -> bool:
        """True if clients that take tasks get any: not in what is recorded or replayed."""
        return self._core.environment.hands_out_tasks

    @property
    def results(self) -> ResultStore:
        """Long results of tools, for those who cut them and read on."""
        return self._core.results

    @property
    def view(self) -> View:
        """The current snapshot; keep a reference to read consistently several times."""
        return self._current.live

    @property
    def settings(self) -> Settings:
        return self._current.snapshot.settings

    @property
    def has_listings(self) -> bool:
        """True if the tools of any server are known."""
        return self._current.snapshot.catalog.has_listings

    def is_listed(self, server: str) -> bool:
        """Return whether the tools of a server are known.

        Raises:
            ServerNotFoundError: If it is not configured.
        """
        view = self._current.snapshot
        return view.is_known(view.addresses.server(server))

    def subscribe(self, *kinds: type[Event]) -> AbstractContextManager[Subscription]:
        """`with engine.subscribe() as events: async for event in events: ...`.

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
        """Search as `View.search`, and by meaning if an embedder is configured and answers in time.

        With `kinds`, resources and prompts are found by their words (`SearchAnswer.offerings`).
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
        answer = await self._found(
            lambda view: view.search(
                query,
                server=server,
                tags=tags,
                any_tag=any_tag,
                limit=limit,
                include_disabled=include_disabled,
                query_vectors=embedding.vectors,
            )
        )
        self._core.uses.record_found(hit.entry.key for hit in answer.hits)
        return replace(answer, notices=(*answer.notices, *embedding.notices))

    async def _found(self, search: Callable[[View], SearchAnswer]) -> SearchAnswer:
        """Return what `search` finds; it runs in a thread if it may wait for a database."""
        view = self.view
        if not view.settings.search.is_in_database:
            return search(view)
        answer = await anyio.to_thread.run_sync(search, view)
        if view.outage is None and (now := self.view).outage:
            # That was found out meanwhile, so the answer lacks the notice.
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
        # In a thread: the first search after a change makes the index.
        return replace(answer, offerings=await anyio.to_thread.run_sync(search))

    async def wait_embedded(self, *, timeout: float) -> Notice | None:  # noqa: ASYNC109 - an answer, not an error
        """Wait until all tools have vectors or none can be computed, at most `timeout` seconds.

        The time in which a model is loaded does not count. Returns why tools are found by words
        alone, if some are.
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
            server: None if `tool` names its server too, or is the only one of its name.
            tool: The tool's name, as `View.find` reads it.
            max_wait: Seconds to wait for a server that was never listed; None leaves it to its
                `timeouts`.

        Raises:
            ServerStartingError: If that server has not answered by then; it goes on starting.
            UpstreamError: If that server has never been reached, with the reason.
            ConfigurationError: If its entry cannot be used.
        """
        try:
            return self._current.snapshot.details(server, tool)
        except DiscoveryError:  # it is raised again below, with the present states of servers
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
            server: None if `tool` names its server too, or is the only one of its name.
            tool: The tool's name, as `View.find` reads it.
            arguments: Checked against the tool's schema before anything is sent, together with
                those that the owner pins.
            on_progress: Awaited with progress, total and message of each notification.
            caller: The client that makes the call: it is asked what the server asks of its user,
                and is notified; with `session: per_client` each has its own session. One that
                takes tasks may get the handle of one (`resultType: task`), for `tasks`.
            continuation: Its answers to an `input_required` result of the same call.
            max_wait: As `details` takes it; the call itself has the time of its `timeouts`.
            on_unchecked: Called with the reason before arguments are sent that cannot be checked.
            by: Who makes the call, for the call log; the opener of the engine if None.

        Raises:
            NotFoundError, DisabledError, ServerStartingError: As `details`.
            InvalidArgumentsError: With the tool's signature.
            ConfigurationError: If a `${reference}` in a pinned argument has no value.
            UpstreamError: If the server cannot be reached, times out, or the connection breaks.
        """
        view = self.settings.view
        record = CallRecord(self._core.recorder, server, tool, arguments, caller, view=view, by=by)
        with record:
            await self._core.configuration.complete()
            entry = await self.details(server, tool, max_wait=max_wait)
            record.set_tool(entry.tool)
            with concerning(entry.tool.server, entry.tool.name):
                result = await self._core.executor.call(
                    entry.tool,
                    arguments,
                    caller=record.client,
                    continuation=continuation,
                    on_progress=record.recording(on_progress),
                    on_unchecked=on_unchecked,
                    quota=self._current.quota,
                    observer=record,
                )
            record.record_result(result)
        if result.get("resultType") == "task":
            self.tasks.begin(result["taskId"], entry.key, caller)
        if not result.get("isError"):
            self._core.uses.record_call(entry.key)
        return result

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
            DiscoveryError: As `execute`, if nothing would be sent.
        """
        await self._core.configuration.complete()
        entry = await self.details(server, tool, max_wait=max_wait)
        with concerning(entry.tool.server, entry.tool.name):
            return await self._core.executor.preview(entry, arguments)

    def expect_client(self, capabilities: Mapping[str, JSONObject]) -> None:
        """Declare to servers from now on what a client that has connected can be asked.

        A server learns it when its session is opened; else its session is opened anew for the
        first call that needs it, which takes as long as a start.
        """
        self._core.upstreams.expect(capabilities)

    def roots_changed(self, client: Client) -> None:
        """Notify the servers of a client's calls that its roots have changed.

        They learn of it if they were declared that, and ask for the roots outside of every call:
        `client` is asked then, unless others use the same session.
        """
        self._core.upstreams.roots_changed(client)

    def close_client(self, client: str) -> None:
        """Close the sessions of a client that has disconnected."""
        self._core.upstreams.close_client(client)
        self._core.results.forget(client)

    async def wait_first_listed(self, server: str | None) -> None:
        """Wait briefly for a server, or for all if it is None, if none of them was ever listed.

        An answer then knows their tools, and is not long in coming.
        """
        if server is None:
            if not self.has_listings:
                await self.wait_listed(timeout=FIRST_LISTING)
        elif not self.is_listed(server):
            with anyio.move_on_after(FIRST_LISTING):
                try:
                    await self.list_tools(server)
                except ServerDisabledError:
                    return  # the answer reports it

    async def wait_listed(self, *, timeout: float) -> None:  # noqa: ASYNC109 - an answer, not an error
        """Wait until every enabled server was listed or has failed once, or `timeout` seconds."""
        with anyio.move_on_after(timeout):
            await self._core.lister.wait_all_listed(self._current.live.connectable)


# A client that takes tasks gets the handle of one from `Engine.execute`, and asks for it here. To
# every other client, and once the owner has withheld its tool, a task does not exist.


class TaskReport(Struct, frozen=True):
    """The facts that a client may know of its task."""

    fields: JSONObject
    """The fields of `tasks/get`, with the handle as the id."""
    tool: ToolKey
    select: str
    """The expression that was last given to `ServerTasks.select`."""


class ServerTasks:
    """Made by the engine."""

    def __init__(self, core: EngineCore, current: CurrentView) -> None:
        self._core = core
        self._current = current

    def begin(self, handle: str, tool: ToolKey, caller: Client | None) -> None:
        """Note the tool of a task that was just handed to a client."""
        self._owned(handle, caller).tool = tool

    def select(self, handle: str, expression: str, caller: Client | None) -> None:
        """Note which part of its result the client wants."""
        self._owned(handle, caller).select = expression

    async def get(self, handle: str, *, caller: Client | None) -> TaskReport:
        """The state of a task, with its result if it is completed.

        Raises:
            TaskNotFoundError: If it is not this client's, or is gone.
            UpstreamError: If its server cannot be reached, or reports what is not valid.
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
        """Pass the client's answers to the questions of a task on.

        Raises:
            TaskNotFoundError, UpstreamError: As `get`.
        """
        task, tool, server = self._found(handle, caller)
        with concerning(tool.server, tool.tool):
            await self._core.upstreams.ask_task(server, task, "tasks/update", caller, responses)
        task.remember(None)

    async def cancel(self, handle: str, *, caller: Client | None) -> None:
        """Ask the server to end a task; it may go on all the same.

        Raises:
            TaskNotFoundError, UpstreamError: As `get`.
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
        except DiscoveryError as error:  # it must not be asked any more
            raise TaskNotFoundError from error

    def _is_shown(self, key: ToolKey) -> bool:
        """Return whether a tool may be used.

        A tool that its server lists no longer counts, too: its task may still end.
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
        """Publish the end of the call, as that of one that returned its result itself."""
        seconds = asyncio.get_running_loop().time() - task.began
        view = self._current.snapshot.settings.view
        record = CallRecord(self._core.recorder, tool.server, tool.tool, {}, caller, view=view)
        with record:
            record.record_task(task.state.status, fields.get("result"), seconds)
