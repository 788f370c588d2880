"""Reads resources, gets prompts and completes arguments, at the server that an address leads to.

What may not be seen is refused before anything is sent. Results pass as the server sent them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, TypeVar

from discovery_engine.errors import DiscoveryError, NotFoundError, concerning
from discovery_engine.runtime.call_record import record_call
from discovery_engine.upstream.requests import UpstreamRequest

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.catalog import OfferingEntry
    from discovery_engine.events import EventBus
    from discovery_engine.rpc.client import Client, Continuation
    from discovery_engine.rpc.peer import OnProgress
    from discovery_engine.runtime.catalog_state import CatalogState
    from discovery_engine.runtime.lazy_upstreams import LazyUpstreams
    from discovery_engine.runtime.lister import ServerLister
    from discovery_engine.tools.model import ServerName
    from discovery_engine.view.offering_addresses import ResourceTarget
    from discovery_engine.view.view import View

T = TypeVar("T")

_UNKNOWN_RESOURCE = "resource:?"  # a URI that leads nowhere is an argument, which is not published


class OfferingRequests:
    """What is awaited before settings are used, and how views are read, come as arguments.

    `view` is the live one, and `snapshot` the same without the states of servers.
    """

    def __init__(
        self,
        current: CatalogState,
        upstreams: LazyUpstreams,
        lister: ServerLister,
        events: EventBus,
        *,
        complete: Callable[[], Awaitable[None]],
        snapshot: Callable[[], View],
        view: Callable[[], View],
    ) -> None:
        self._snapshot = snapshot
        self._current = current
        self._upstreams = upstreams
        self._lister = lister
        self._events = events
        self._complete_settings = complete
        self._view = view
        self._watchers: Counter[tuple[ServerName, str]] = Counter()

    def showing(self, snapshot: Callable[[], View], view: Callable[[], View]) -> OfferingRequests:
        """The same for those who see another view."""
        shown = copy(self)
        shown._snapshot = snapshot  # noqa: SLF001 - of this class
        shown._view = view  # noqa: SLF001 - of this class
        return shown

    async def read(
        self,
        server: str | None,
        uri: str,
        *,
        caller: Client | None,
        continuation: Continuation | None,
        on_progress: OnProgress | None,
        max_wait: float | None,
    ) -> JSONObject:
        """As `Engine.read_resource`."""
        with record_call(self._events, server, _UNKNOWN_RESOURCE, {}, caller) as record:
            record.is_named = True
            await self._complete_settings()
            target = await self._found(
                lambda view: view.resource(server, uri), server, max_wait=max_wait
            )
            record.set_name(target.server, target.entry.offering.decision_key)
            with concerning(target.server, target.uri):
                result = await self._upstreams.send(
                    self._current.view.server_settings(target.server),
                    UpstreamRequest.read(target.uri),
                    caller=caller,
                    continuation=continuation,
                    on_progress=on_progress,
                )
            record.record_result(result)
        return result

    async def get_prompt(
        self,
        server: str | None,
        name: str,
        arguments: JSONObject,
        *,
        caller: Client | None,
        continuation: Continuation | None,
        on_progress: OnProgress | None,
        max_wait: float | None,
    ) -> JSONObject:
        """As `Engine.get_prompt`."""
        with record_call(self._events, server, f"prompt:{name}", arguments, caller) as record:
            record.is_named = True
            await self._complete_settings()
            entry = await self._found(
                lambda view: view.prompt(server, name), server, max_wait=max_wait
            )
            prompt = entry.offering
            record.set_name(prompt.server, prompt.decision_key)
            with concerning(prompt.server, prompt.identifier):
                result = await self._upstreams.send(
                    self._current.view.server_settings(prompt.server),
                    UpstreamRequest.get_prompt(prompt.identifier, arguments),
                    caller=caller,
                    continuation=continuation,
                    on_progress=on_progress,
                )
            record.record_result(result)
        return result

    async def watch(self, server: str | None, uri: str) -> ResourceTarget:
        """As `Engine.watch_resource`."""
        await self._complete_settings()
        target = await self._found(lambda view: view.resource(server, uri), server, max_wait=None)
        key = target.server, target.uri
        with concerning(*key):
            settings = self._current.view.server_settings(target.server)
            await self._upstreams.watch(settings, target.uri)
        self._watchers[key] += 1
        return target

    def unwatch(self, target: ResourceTarget) -> None:
        """As `Engine.unwatch_resource`."""
        key = target.server, target.uri
        self._watchers[key] -= 1
        if self._watchers[key] <= 0:
            del self._watchers[key]
            self._upstreams.unwatch(*key)

    async def complete(
        self, server: str | None, params: JSONObject, *, caller: Client | None
    ) -> JSONObject:
        """As `Engine.complete`."""
        await self._complete_settings()
        reference = params["ref"]
        if reference.get("type") == "ref/prompt":
            entry = self._view().prompt(server, reference["name"])
            named = {"name": entry.offering.identifier}
        else:
            entry, uri = self._referenced(server, reference["uri"])
            named = {"uri": uri}
        of = entry.offering.server
        with concerning(of, entry.offering.identifier):
            return await self._upstreams.send(
                self._current.view.server_settings(of),
                UpstreamRequest.complete({**params, "ref": {**reference, **named}}),
                caller=caller,
                continuation=None,
                on_progress=None,
            )

    def _referenced(self, server: str | None, uri: str) -> tuple[OfferingEntry, str]:
        """The template, or the resource, whose argument is completed."""
        view = self._view()
        if template := view.template(server, uri):
            return template, template.offering.identifier
        target = view.resource(server, uri)
        return target.entry, target.uri

    async def _found(
        self, find: Callable[[View], T], server: str | None, *, max_wait: float | None
    ) -> T:
        """What `find` finds; a named server that was never listed is listed first."""
        with suppress(DiscoveryError):  # raised below, with the present states of servers
            return find(self._snapshot())
        try:
            return find(self._view())
        except NotFoundError as error:
            unlisted = self._unlisted(error, server)
            if unlisted is None:
                raise
        await self._lister.list_server(unlisted, max_wait=max_wait)
        return find(self._view())

    def _unlisted(self, error: NotFoundError, server: str | None) -> ServerName | None:
        named = error.server or server
        if named is None:
            return None
        name = self._view().addresses.server(named)
        return None if self._view().is_known(name) else self._view().require_connectable(name).name
