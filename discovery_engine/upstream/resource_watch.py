"""Keeps one server asked for the updates of resources, in either era, as long as any is watched.

A server that is lost is asked again when it is back, and at once if a call needed another session.
In the handshake era each resource counts as updated once it is watched again: what happened in
between is not known. A watched server keeps its session.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio
from anyio.abc import TaskGroup

from discovery_engine._util.tasks import Promise
from discovery_engine.config.settings import ServerSettings
from discovery_engine.errors import (
    FailureKind,
    UnavailableError,
    UpstreamError,
    UpstreamProtocolError,
)
from discovery_engine.rpc.messages import (
    Notification,
    RequestTimeout,
    RequestTimeoutError,
    RpcError,
)
from discovery_engine.rpc.protocol import METHOD_NOT_FOUND
from discovery_engine.upstream.notifications import UPDATED
from discovery_engine.upstream.rpc_client import RpcClient, refused
from discovery_engine.upstream.session import Session

_PAUSES = (1.0, 5.0, 20.0, 60.0)  # seconds between attempts to reach a server that is lost

logger = logging.getLogger(__name__)


class ResourceWatch:
    """The watched resources of one server; while there are any, a task keeps it asked."""

    def __init__(self, server: ServerSettings, open_session: Callable[[], Session]) -> None:
        self.server = server
        self._open_session = open_session
        self._wanted: dict[str, Promise[bool]] = {}
        self._changed = anyio.Event()
        self._failures = 0
        self._is_running = False

    async def add(self, uri: str, tasks: TaskGroup) -> None:
        """Watch a resource; returns when the server has been asked, at once if it is watched.

        Raises:
            UpstreamError: If it cannot be reached, or does not notify of updates.
        """
        promise = self._wanted.get(uri)
        if promise is None:
            promise = self._wanted[uri] = Promise()
            self._changed.set()
        if not self._is_running:
            self._is_running = True
            tasks.start_soon(self._run)
        try:
            await promise.wait()
        except UpstreamError:
            self._wanted.pop(uri, None)
            raise

    def remove(self, uri: str) -> None:
        """No-op if it is not watched."""
        if self._wanted.pop(uri, None):
            self._changed.set()

    def end(self) -> None:
        """Watch nothing more: the server must not be used."""
        reason = "its configuration has changed"
        self._fail(UnavailableError(self.server.name, FailureKind.LOST, reason))
        self._wanted.clear()
        self._changed.set()

    async def _run(self) -> None:
        """Keep the server asked, until nothing is watched."""
        try:
            while self._wanted:
                is_replaced = await self._keep_asked()
                if self._wanted and not is_replaced:
                    await self._pause()
        finally:
            self._is_running = False

    async def _keep_asked(self) -> bool:
        """Ask over one session, to its end; whether there is another one already."""
        session = self._open_session()
        try:
            async with session.lease() as rpc:
                await self._serve(session, rpc)
        except UpstreamError as error:
            self._fail(error)
        return session.is_replaced

    async def _pause(self) -> None:
        seconds = _PAUSES[min(self._failures, len(_PAUSES) - 1)]
        self._failures += 1
        self._changed = anyio.Event()
        with anyio.move_on_after(seconds):
            await self._changed.wait()

    async def _serve(self, session: Session, rpc: RpcClient) -> None:
        """Ask over one session, until it is retired or nothing is watched."""
        if not rpc.info.declares("resources", "subscribe"):
            reason = "it does not notify of updates of resources"
            raise UpstreamProtocolError(self.server.name, reason, METHOD_NOT_FOUND)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cancel_when_retired, session, tasks.cancel_scope)
            if rpc.is_modern:
                await self._listen(rpc)
            else:
                await self._subscribe(session, rpc)
            tasks.cancel_scope.cancel()

    async def _listen(self, rpc: RpcClient) -> None:
        """Since 2026-07-28: one request for all resources, sent again when they are others."""
        while self._wanted:
            self._changed = anyio.Event()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._listen_once, rpc, sorted(self._wanted))
                await self._changed.wait()
                tasks.cancel_scope.cancel()

    async def _listen_once(self, rpc: RpcClient, uris: list[str]) -> None:
        self._succeed(uris)
        try:
            await rpc.listen({"resourceSubscriptions": uris})
        except RpcError:
            logger.debug("%r ended a subscription", self.server.name, exc_info=True)
        await anyio.sleep(_PAUSES[1])
        self._changed.set()

    async def _subscribe(self, session: Session, rpc: RpcClient) -> None:
        """Watch in the handshake era: with a request for each resource."""
        subscribed: set[str] = set()
        old_uris = {uri for uri, promise in self._wanted.items() if promise.is_settled}
        while self._wanted or subscribed:
            self._changed = anyio.Event()
            for uri in [uri for uri in self._wanted if uri not in subscribed]:
                if await self._subscribe_to(rpc, uri):
                    subscribed.add(uri)
                    if uri in old_uris:
                        session.changes.publish(Notification(UPDATED, {"uri": uri}))
            for uri in [uri for uri in subscribed if uri not in self._wanted]:
                await self._request(rpc, "resources/unsubscribe", uri)
                subscribed.remove(uri)
            if self._wanted:
                await self._changed.wait()

    async def _subscribe_to(self, rpc: RpcClient, uri: str) -> bool:
        """Subscribe to a resource and return whether it succeeded; a first refusal is final."""
        error = await self._request(rpc, "resources/subscribe", uri)
        if error is None:
            self._succeed([uri])
        elif (promise := self._wanted.get(uri)) and not promise.is_settled:
            promise.fail(error)
            del self._wanted[uri]
        return error is None

    async def _request(self, rpc: RpcClient, method: str, uri: str) -> UpstreamError | None:
        try:
            timeout = RequestTimeout(self.server.timeouts.call)
            await rpc.request(method, {"uri": uri}, timeout=timeout)
        except RequestTimeoutError as error:
            reason = f"it did not answer {method} within {error.seconds:g} s"
            return UnavailableError(self.server.name, FailureKind.TIMEOUT, reason)
        except RpcError as error:
            return refused(self.server.name, error)
        return None

    def _succeed(self, uris: list[str]) -> None:
        self._failures = 0
        for uri in uris:
            if promise := self._wanted.get(uri):
                promise.set(True)

    def _fail(self, error: UpstreamError) -> None:
        """Fail the resources that wait for their first answer; the others stay watched."""
        for uri, promise in list(self._wanted.items()):
            if not promise.is_settled:
                promise.fail(error)
                self._wanted.pop(uri, None)


async def _cancel_when_retired(session: Session, scope: anyio.CancelScope) -> None:
    await session.wait_retired()
    scope.cancel()
