"""Answers the requests of clients, independent of the transport and of any SDK.

Requests and results are plain JSON; valid results of servers pass through unchanged.
"""

from __future__ import annotations

from collections.abc import Coroutine, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakValueDictionary

import anyio.to_thread
from cachetools import LRUCache
from msgspec.structs import replace

from discovery_engine.agent.dispatch import call, called_tools
from discovery_engine.agent.meta_arguments import Caller, OnProgress
from discovery_engine.errors import DiscoveryError, InputRequiredError
from discovery_engine.rpc.messages import RpcError
from discovery_engine.rpc.protocol import (
    APPS_EXTENSION,
    CLIENT_CAPABILITIES,
    INVALID_REQUEST,
    LATEST_MODERN,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    MODERN_VERSIONS,
    SKILLS_EXTENSION,
    TASKS_EXTENSION,
)
from discovery_engine.rpc.scheduling import FairScheduler
from discovery_engine.rpc.validity import is_long
from discovery_engine.tools.limits import NAME_LENGTH, shortened
from discovery_engine.tools.meta_tools import REGISTRY
from discovery_engine.upstream.state import ServerState
from discovery_server.client_tasks import TASK_METHODS, TaskUpdates, require_tasks, serve_task
from discovery_server.eras import (
    IMPLEMENTATION,
    ClientRequest,
    check_params,
    completed,
    methods_of,
    negotiated,
)
from discovery_server.offerings import LISTS, Offerings
from discovery_server.question_text import askable
from discovery_server.subscriptions import Subscriptions
from discovery_server.surfaces import DirectSurface, ToolSurfaces

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from discovery_engine._util.json import JSONObject
    from discovery_engine.engine import ScopedEngine
    from discovery_server.access_token import TokenLimits

_MAX_CACHED_GATEWAYS = 64  # gateways of limited tokens that are kept while they are not in use
_FIRST_LISTING = 5.0  # seconds that `tools/list` waits for servers that were never listed
_COMING = (ServerState.PENDING, ServerState.STARTING)
_WAITING = frozenset(
    {"tools/call", "subscriptions/listen", "resources/subscribe", "resources/unsubscribe"}
)
_OF_OFFERINGS = frozenset(
    {*LISTS, "resources/read", "prompts/get", "skills/get", "completion/complete"}
)
_EXTENSIONS: JSONObject = {APPS_EXTENSION: {}, SKILLS_EXTENSION: {}}
_SUBSCRIBING = ("resources/subscribe", "resources/unsubscribe")


class Gateway:
    """Answers the requests of clients from an engine."""

    def __init__(
        self,
        engine: ScopedEngine,
        subscriptions: Subscriptions | None = None,
        *,
        subscriptions_of: Callable[[ScopedEngine], Subscriptions] = lambda _: Subscriptions(),
        on_list_changed: Callable[[], None] = lambda: None,
        view: str | None = None,
        is_of_owner: bool = True,
        made_by: Gateway | None = None,
    ) -> None:
        """Create a gateway to the servers of an engine.

        Args:
            engine: The engine that answers, limited to what the gateway shows.
            subscriptions: The subscribers, and which lists can change.
            subscriptions_of: Creates the subscriptions of a gateway to a part of the engine.
            on_list_changed: Called after a search has changed a client's list of tools.
            view: The view of the configuration that the engine shows; None for all.
            is_of_owner: Whether it shows what is reserved for teams and users.
            made_by: The gateway of which this one is a part; referenced, so that it is kept.
        """
        self._made_by = made_by
        self.engine = engine
        self.scheduler = FairScheduler()
        """The scheduler for processing questions of servers."""
        self.view = view
        self._in_views: dict[str, Gateway] = {}
        self._parts: KeptInUse[TokenLimits | frozenset[str], Gateway] = KeptInUse(
            _MAX_CACHED_GATEWAYS
        )
        """The gateways for limited tokens, and for teams and users."""
        self._is_of_owner = is_of_owner
        self._subscriptions_of = subscriptions_of
        self._on_list_changed = on_list_changed
        self._offerings = Offerings(engine)
        self._declared: JSONObject = {}
        self.subscriptions = Subscriptions() if subscriptions is None else subscriptions
        self._surfaces = ToolSurfaces(engine, on_list_changed)

    def in_view(self, name: str) -> Gateway | None:
        """Return the gateway of a view, always the same one; None if there is no such view.

        A gateway of a view has no views itself.
        """
        names = {view.name for view in self.engine.settings.views}
        if self.view is not None or name not in names:
            return None
        if name not in self._in_views:
            engine = self.engine.in_view(name)
            self._in_views[name] = self._made(engine, name, is_of_owner=self._is_of_owner)
        return self._in_views[name]

    def visible_to(self, principals: frozenset[str]) -> Gateway:
        """Return the gateway for clients of these teams and users.

        It is the same object as long as it is in use, and this gateway if nothing is reserved.
        """
        if not self.engine.settings.reserves:
            return self
        if (gateway := self._parts.get(principals)) is None:
            engine = self.engine.visible_to(*principals)
            gateway = self._made(engine, self.view, is_of_owner=False)
            self._parts.add(principals, gateway)
        return gateway

    def is_open_to(self, *, owner: bool) -> bool:
        """Return whether clients may still use this gateway after reservations have changed.

        `owner` tells whether their token stands for the owner.
        """
        return self._is_of_owner is (owner or not self.engine.settings.reserves)

    def still_shows(self, request: ClientRequest, servers: Iterable[str]) -> bool:
        """Return whether a call that `request` began, and that uses these servers, may continue.

        It may not if its target has been reserved for others meanwhile.
        """
        if self._is_of_owner:
            return True
        if not all(server in self.engine.settings.by_name for server in servers):
            return False
        try:
            self._require_shown(request)
        except DiscoveryError:
            return False
        return True

    def _require_shown(self, request: ClientRequest) -> None:
        """Check that the tool, resource or prompt of a request is shown.

        Raises:
            DiscoveryError: If it is not.
        """
        view, params = self.engine.view, request.params
        match request.method:
            case "tools/call":
                meant = self._surfaces.of(request).call(
                    params["name"], params.get("arguments") or {}
                )
                for server, tool in called_tools(meant.tool, meant.arguments):
                    view.find(server, tool)
            case "resources/read":
                view.resource(None, params["uri"])
            case "prompts/get":
                view.prompt(None, params["name"])

    def limited(self, limits: TokenLimits) -> Gateway:
        """Return the gateway for tokens with these limits.

        It is the same object as long as it is in use.
        """
        if (gateway := self._parts.get(limits)) is None:
            engine = self.engine.within(limits.scope())
            gateway = self._made(engine, self.view, is_of_owner=self._is_of_owner)
            self._parts.add(limits, gateway)
        return gateway

    def _made(self, engine: ScopedEngine, view: str | None, *, is_of_owner: bool) -> Gateway:
        return Gateway(
            engine,
            self._subscriptions_of(engine),
            subscriptions_of=self._subscriptions_of,
            on_list_changed=self._on_list_changed,
            view=view,
            is_of_owner=is_of_owner,
            made_by=self,
        )

    @property
    def is_configured(self) -> bool:
        """True if the gateway has no view, or the configuration still has its view."""
        return self.view is None or any(
            view.name == self.view for view in self.engine.settings.views
        )

    def client_id(self, user: str | None) -> str | None:
        """Return the id of a client that only its user identifies; it differs between views.

        All clients of a view without a user have the same id; without a view it is None.
        """
        return user if self.view is None else f"{user or ''}@{self.view}"

    def instructions(self, request: ClientRequest) -> str:
        """Return the instructions of this gateway for the client of a request."""
        return self._surfaces.instructions(request)

    async def handle(
        self, request: ClientRequest, on_progress: OnProgress | None = None
    ) -> JSONObject:
        """Return the result of a request.

        Raises:
            RpcError: If it is answered with an error.
        """
        result = self.answer(request)
        return await self.serve(request, on_progress) if result is None else result

    def answer(self, request: ClientRequest) -> JSONObject | None:
        """Return the result of a request that can be answered at once; None for `serve`.

        Raises:
            RpcError: If it is answered with an error.
        """
        method, params, version = request.method, request.params, request.version
        if not (self.is_configured or method == "ping"):
            raise RpcError(INVALID_REQUEST, _view_is_gone(self.view))
        if method not in methods_of(version) or not self._serves(method):
            raise method_not_found(method)
        check_params(method, params, version)
        if version in MODERN_VERSIONS:
            self._expect_client(params)
        if method in TASK_METHODS:
            require_tasks(params)
            return None
        if method == "subscriptions/listen" and self._wants_tasks(params):
            require_tasks(params)
        if method in _WAITING:
            return None
        if method in _OF_OFFERINGS:
            result = self._offerings.answer(request, partial(self.instructions, request))
            return None if result is None else completed(method, result, version)
        if method == "tools/list":
            return None if self._is_listing(request) else self._tools(request)
        return completed(method, self._current(request), version)

    def _expect_client(self, params: JSONObject) -> None:
        """Declare the capabilities of a client to servers, unless the last request had the same."""
        declared = params["_meta"][CLIENT_CAPABILITIES]
        if declared != self._declared:  # a tenth of the time that declaring takes
            self._declared = declared
            self.engine.expect_client(askable(params))

    @property
    def has_tasks(self) -> bool:
        """True if calls may return handles of tasks to clients."""
        return self.engine.hands_out_tasks

    def task_updates(
        self, request: ClientRequest, state_of: Callable[[ClientRequest], Awaitable[JSONObject]]
    ) -> TaskUpdates | None:
        """Return the updates of the tasks that a `subscriptions/listen` names; None if it has none.

        `state_of` answers a `tasks/get` request.
        """
        if not self._wants_tasks(request.params):
            return None
        meta = request.params["_meta"]

        async def look(task: str) -> JSONObject:
            params: JSONObject = {"taskId": task, "_meta": meta}
            return await state_of(replace(request, method="tasks/get", params=params))

        return TaskUpdates(look)

    async def about_task(self, request: ClientRequest) -> JSONObject:
        """Return the result of a request about a task of this gateway.

        Raises:
            RpcError: If it is answered with an error.
        """
        return await serve_task(self.engine, request, self.scheduler)

    def _wants_tasks(self, params: JSONObject) -> bool:
        return self.has_tasks and bool(params["notifications"].get("taskIds"))

    def _serves(self, method: str) -> bool:
        if method in TASK_METHODS:
            return self.has_tasks
        return method not in _SUBSCRIBING or self.subscriptions.has_updates

    @property
    def question_timeout(self) -> float:
        """Seconds to wait for a client's answer to a question."""
        return self.engine.settings.server.question_timeout

    def serve(
        self, request: ClientRequest, on_progress: OnProgress | None = None
    ) -> Coroutine[Any, Any, JSONObject]:
        """Return the result of a request for which `answer` returned None.

        Raises:
            RpcError: If it is answered with an error.
        """
        is_call = request.method == "tools/call"
        return (self._call_tool if is_call else self._serve_other)(request, on_progress)

    async def _serve_other(
        self, request: ClientRequest, on_progress: OnProgress | None
    ) -> JSONObject:
        if request.method == "tools/list":
            await self.engine.wait_listed(timeout=_FIRST_LISTING)
            return self._tools(request)
        if request.method in TASK_METHODS:
            return await _completed(request, await self.about_task(request))
        return await _completed(request, await self._offerings.serve(request, on_progress))

    async def _call_tool(
        self, request: ClientRequest, on_progress: OnProgress | None
    ) -> JSONObject:
        params, session = request.params, request.session
        meant = self._surfaces.of(request).call(params["name"], params.get("arguments") or {})
        caller = Caller(
            request.client,
            on_progress,
            request.continuation,
            is_direct=meant.is_direct and request.version in MODERN_VERSIONS,
            on_found=meant.on_found,
            on_call=meant.on_call,
            # The other meta-tools have no use for it.
            label=session.label(params) if session and meant.tool.name == REGISTRY.name else "",
        )
        try:
            result = await call(meant.engine, meant.tool, meant.arguments, caller)
        except InputRequiredError as error:
            raise _missing_capability(error) from error
        return await _completed(request, result)

    def input_schema(self, params: JSONObject) -> JSONObject | None:
        """Return the JSON schema of the arguments of the tool that a client of 2026-07-28 calls.

        None if it has no such tool.
        """
        request = ClientRequest("tools/call", params, LATEST_MODERN)
        return self._surfaces.of(request).input_schema(str(params.get("name")))

    def _tools(self, request: ClientRequest) -> JSONObject:
        result = self._surfaces.of(request).list_tools(request.params, request.version)
        return completed(request.method, result, request.version)

    def _is_listing(self, request: ClientRequest) -> bool:
        """Return whether a list of direct tools must wait for servers that are being listed."""
        if not isinstance(self._surfaces.of(request), DirectSurface):
            return False
        return any(s.listed_at is None and s.state in _COMING for s in self.engine.view.servers())

    def _current(self, request: ClientRequest) -> JSONObject:
        match request.method:
            case "initialize":
                return self._initialized(request)
            case "server/discover":
                return self._discovered(request)
            case _:
                return {}  # ping, logging/setLevel

    def _initialized(self, request: ClientRequest) -> JSONObject:
        return {
            "protocolVersion": negotiated(request.params["protocolVersion"]),
            "capabilities": self._capabilities() | {"extensions": _EXTENSIONS},
            "serverInfo": IMPLEMENTATION,
            "instructions": self.instructions(request),
        }

    def _discovered(self, request: ClientRequest) -> JSONObject:
        tasks: JSONObject = {TASKS_EXTENSION: {}} if self.has_tasks else {}
        return {
            "supportedVersions": list(MODERN_VERSIONS),
            "capabilities": self._capabilities() | {"extensions": _EXTENSIONS | tasks},
            "instructions": self.instructions(request),
        }

    def _capabilities(self) -> JSONObject:
        changing = self.subscriptions.changing
        return {
            "completions": {},
            "logging": {},
            "prompts": {"listChanged": "prompts" in changing},
            "resources": {
                "subscribe": self.subscriptions.has_updates,
                "listChanged": "resources" in changing,
            },
            "tools": {"listChanged": "tools" in changing},
        }


async def _completed(request: ClientRequest, result: JSONObject) -> JSONObject:
    """Complete a result, in a thread if it is long; see `completed`."""
    complete = partial(completed, request.method, result, request.version)
    return await anyio.to_thread.run_sync(complete) if is_long(result) else complete()


def _view_is_gone(view: str | None) -> str:
    return (
        f"VIEW_NOT_FOUND: the view {view!r} is not in the configuration of this gateway any more;"
        " ask its owner, and connect again when it is"
    )


def _missing_capability(error: InputRequiredError) -> RpcError:
    data: JSONObject = {"requiredCapabilities": {name: {} for name in error.capabilities}}
    return RpcError(MISSING_CLIENT_CAPABILITY, f"{error.message}; {error.hint}", data)


def method_not_found(method: str) -> RpcError:
    """Return the error for a method that is not served."""
    return RpcError(METHOD_NOT_FOUND, "Method not found", shortened(method, NAME_LENGTH))


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class KeptInUse(Generic[K, V]):
    """A `WeakValueDictionary` that also keeps its most recently used values alive."""

    def __init__(self, most: int) -> None:
        """Create an empty mapping; `most` is the number of values that it keeps alive."""
        self._all: WeakValueDictionary[K, V] = WeakValueDictionary()
        self._last: LRUCache[K, V] = LRUCache(most)

    def __len__(self) -> int:
        return len(self._all)

    def get(self, key: K) -> V | None:
        """Return the value of a key, and mark it as used; None if there is none."""
        value = self._all.get(key)
        if value is not None:
            self._last[key] = value
        return value

    def add(self, key: K, value: V) -> None:
        self._all[key] = self._last[key] = value
