"""Who wants to know of which change: lists that changed, and resources that were updated.

A change is "fetch it again", so that one that a client was not told of yet needs no second
notification: a burst of changes is one, and a client that reads nothing costs a set of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, get_args

import anyio
from msgspec import Struct, field

from discovery_engine.rpc.messages import Notification, RpcError, as_json
from discovery_engine.rpc.protocol import INTERNAL_ERROR, INVALID_PARAMS, SUBSCRIPTION_ID
from discovery_engine.tools.limits import NAME_LENGTH, shortened

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.rpc.messages import RequestId
    from discovery_server.client_messages import ClientStream
    from discovery_server.client_tasks import TaskUpdates

ListKind: TypeAlias = Literal["tools", "prompts", "resources"]

LISTS: tuple[ListKind, ...] = get_args(ListKind)
_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_CHANGES_DEBOUNCE_INTERVAL = 0.05  # seconds in which changes are collected
_INTERVAL = 1.0  # seconds between two notifications of one change, however often it happens
_SUBSCRIBERS = 1024
_SUBSCRIBERS_OF_CLIENT = 32
_URIS = 256  # of one subscriber
_LONGEST_URI = 4 * NAME_LENGTH  # characters


class ResourceFeed(Protocol):
    """The servers' side: which updates of resources they are asked to send.

    Each update is passed to `Subscriptions.resource_updated` by the URI under which it is watched.
    """

    async def watch(self, uri: str) -> None:
        """Ask the server of a resource for its updates.

        Raises:
            RpcError: If there is no such resource, or its server sends no updates.
        """

    async def unwatch(self, uri: str) -> None:
        """No subscriber wants the updates of a resource any more."""


class Subscriber:
    """One stream of notifications; `Subscriptions.remove` ends it."""

    def __init__(
        self,
        client: object,
        lists: Collection[ListKind],
        stream: Callable[[], ClientStream | None],
        meta: JSONObject,
    ) -> None:
        self.client = client
        self.lists = frozenset(lists)
        self.uris: set[str] = set()
        self._stream = stream
        self._params: JSONObject = {"_meta": meta} if meta else {}
        self._pending: dict[tuple[str, str], None] = {}  # method and URI
        self._flushed = 0.0
        self._is_started = False
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to write notifications; until then they are kept."""
        self._is_started = True
        if self._pending and self._timer is None:
            self._flush_later()

    def list_changed(self, kind: ListKind) -> None:
        """No-op if it is not wanted."""
        if kind in self.lists:
            self._notify(f"notifications/{kind}/list_changed", "")

    def list_changed_now(self, kind: ListKind) -> bool:
        """Notify of a changed list at once, which includes all of its changes before.

        Returns whether the client has been notified: it wants to be, and there is a stream.
        """
        stream = self._stream() if kind in self.lists else None
        if stream is None:
            return False
        method = f"notifications/{kind}/list_changed"
        self._pending.pop((method, ""), None)
        self._flushed = asyncio.get_running_loop().time()
        self._write(stream, method, "")
        return True

    def resource_updated(self, uri: str) -> None:
        """No-op if neither the resource nor one that it is part of is wanted."""
        if uri in self.uris or any(
            uri.startswith(f"{parent.rstrip('/')}/") for parent in self.uris
        ):
            self._notify("notifications/resources/updated", uri)

    def close(self) -> None:
        """Notify of nothing more."""
        self.lists, self.uris = frozenset(), set()
        self._pending.clear()
        if self._timer:
            self._timer.cancel()

    def _notify(self, method: str, uri: str) -> None:
        if len(self._pending) < _URIS + len(self.lists):  # parts of a resource are without number
            self._pending[method, uri] = None
        if self._is_started and self._timer is None:
            self._flush_later()

    def _flush_later(self) -> None:
        loop = asyncio.get_running_loop()
        due = max(loop.time() + _CHANGES_DEBOUNCE_INTERVAL, self._flushed + _INTERVAL)
        self._timer = loop.call_at(due, self._flush)

    def _flush(self) -> None:
        self._timer = None
        self._flushed = asyncio.get_running_loop().time()
        stream = self._stream()
        if stream and stream.is_congested:
            self._flush_later()
            return
        pending, self._pending = self._pending, {}
        if stream:
            for method, uri in pending:
                self._write(stream, method, uri)

    def _write(self, stream: ClientStream, method: str, uri: str) -> None:
        params = {**self._params, "uri": uri} if uri else self._params
        stream.write(as_json(Notification(method, params or None)))


class _Watch(Struct):
    """A resource that some subscriber wants the updates of."""

    subscribers: int = 0
    is_active: bool = False
    lock: anyio.Lock = field(default_factory=anyio.Lock)


class SubscriberCount:
    """The number of subscribers of all gateways of a process."""

    number = 0


class Subscriptions:
    """All subscribers of a gateway."""

    def __init__(
        self,
        *,
        changing: Collection[ListKind] = (),
        feed: ResourceFeed | None = None,
        total: SubscriberCount | None = None,
    ) -> None:
        """No subscriber.

        Args:
            changing: The lists that can change; clients are notified of no others.
            feed: Watches resources; without it there are no updates of them.
            total: Counts these subscribers together with others of the same process.
        """
        self.changing = frozenset(changing)
        self._feed = feed
        self._total = total or SubscriberCount()
        self._subscribers: list[Subscriber] = []
        self._watches: dict[str, _Watch] = {}

    @property
    def has_updates(self) -> bool:
        """True if clients can be notified of updated resources."""
        return self._feed is not None

    def __len__(self) -> int:
        return len(self._subscribers)

    def list_changed(self, kind: ListKind, *, client: object = None) -> None:
        """The list of all clients, or of one, has changed; no-op for one that cannot change."""
        if kind not in self.changing:
            return
        for subscriber in self._subscribers:
            if client is None or subscriber.client == client:
                subscriber.list_changed(kind)

    def resource_updated(self, uri: str) -> None:
        for subscriber in self._subscribers:
            subscriber.resource_updated(uri)

    def add(
        self,
        client: object,
        lists: Iterable[ListKind],
        stream: Callable[[], ClientStream | None],
        meta: JSONObject | None = None,
    ) -> Subscriber:
        """A new subscriber of a client, of these lists; `start` it.

        Args:
            client: Identifies it.
            lists: What it wants; one that can change later only is notified of then.
            stream: Where notifications are written; while there is none, they are dropped.
            meta: The `_meta` of each notification.
        """
        subscriber = Subscriber(client, frozenset(lists), stream, meta or {})
        self._subscribers.append(subscriber)
        self._total.number += 1
        return subscriber

    async def remove(self, subscriber: Subscriber) -> None:
        """End a subscriber, and the watches that were its alone."""
        if subscriber in self._subscribers:
            self._subscribers.remove(subscriber)
            self._total.number -= 1
        uris = list(subscriber.uris)
        subscriber.close()
        with anyio.CancelScope(shield=True):
            for uri in uris:
                await self._release(uri)

    async def listen(
        self,
        request: RequestId,
        params: JSONObject,
        client: object,
        stream: ClientStream,
        tasks: TaskUpdates | None = None,
    ) -> JSONObject:
        """Serve a `subscriptions/listen`, until it is cancelled.

        The acknowledgement is the first message on the stream, and names what is honoured. Without
        `tasks`, that is no task.

        Raises:
            RpcError: If there are too many, of this client or of all.
        """
        of_client = sum(subscriber.client == client for subscriber in self._subscribers)
        if of_client >= _SUBSCRIBERS_OF_CLIENT or self._total.number >= _SUBSCRIBERS:
            text = f"too many subscriptions ({of_client} of this client); end one of them first"
            raise RpcError(INTERNAL_ERROR, text)
        notifications = params["notifications"]
        meta: JSONObject = {SUBSCRIPTION_ID: request}
        lists = [kind for kind in LISTS if notifications.get(f"{kind}ListChanged")]
        subscriber = self.add(client, lists, lambda: stream, meta)
        try:
            async with anyio.create_task_group() as group:
                for uri in dict.fromkeys(notifications.get("resourceSubscriptions") or ()):
                    group.start_soon(self._try_to_watch, subscriber, uri)
            lists = [kind for kind in lists if kind in self.changing]
            honoured: JSONObject = {f"{kind}ListChanged": True for kind in lists}
            if subscriber.uris:
                honoured["resourceSubscriptions"] = sorted(subscriber.uris)
            if tasks and (task_ids := await tasks.find(notifications.get("taskIds") or ())):
                honoured["taskIds"] = task_ids
            acknowledged: JSONObject = {"_meta": meta, "notifications": honoured}
            stream.write(as_json(Notification(_ACKNOWLEDGED, acknowledged)))
            subscriber.start()
            if tasks:
                await tasks.follow(stream, meta)
            await anyio.sleep_forever()
        finally:
            await self.remove(subscriber)
        return {"_meta": meta}

    async def watch(self, subscriber: Subscriber, uri: str) -> None:
        """Notify a subscriber of the updates of a resource; a server is asked once for all.

        Raises:
            RpcError: If the resource does not exist, or too many are watched.
        """
        if uri in subscriber.uris:
            return
        if self._feed is None:
            raise RpcError(INVALID_PARAMS, "resources of this gateway send no updates")
        if len(uri) > _LONGEST_URI:
            text = f"There is no resource {shortened(uri, NAME_LENGTH)!r}"
            raise RpcError(INVALID_PARAMS, text)
        if len(subscriber.uris) >= _URIS:
            text = f"a client may subscribe to {_URIS} resources; unsubscribe from one first"
            raise RpcError(INVALID_PARAMS, text)
        subscriber.uris.add(uri)  # so that no second request for it is sent meanwhile
        try:
            await self._acquire(self._feed, uri)
        except BaseException:
            if uri in subscriber.uris:  # else it was removed meanwhile, with all that it watched
                subscriber.uris.remove(uri)
                with anyio.CancelScope(shield=True):
                    await self._release(uri)
            raise

    async def unwatch(self, subscriber: Subscriber, uri: str) -> None:
        """No-op if it is not watched."""
        if uri in subscriber.uris:
            subscriber.uris.remove(uri)
            await self._release(uri)

    async def _try_to_watch(self, subscriber: Subscriber, uri: str) -> None:
        with suppress(RpcError):  # then it is not acknowledged
            await self.watch(subscriber, uri)

    async def _acquire(self, feed: ResourceFeed, uri: str) -> None:
        watch = self._watches.setdefault(uri, _Watch())
        watch.subscribers += 1
        async with watch.lock:
            if not watch.is_active:
                await feed.watch(uri)
                watch.is_active = True

    async def _release(self, uri: str) -> None:
        watch = self._watches[uri]
        watch.subscribers -= 1
        async with watch.lock:
            if watch.subscribers == 0 and watch.is_active and self._feed:
                watch.is_active = False
                await self._feed.unwatch(uri)
            # Not before: a new subscriber must wait until the server has ended the last one.
            if watch.subscribers == 0 and self._watches.get(uri) is watch:
                del self._watches[uri]
