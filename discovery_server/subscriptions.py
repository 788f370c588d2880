"""Subscriptions of clients to changes of lists and to updates of resources.

A notification only means "fetch it again". So a burst of changes is sent as one notification, and a
client that does not read costs no more than the set of its pending changes.
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
_CHANGES_DEBOUNCE_INTERVAL = 0.05  # seconds for which changes are collected
_INTERVAL = 1.0  # seconds, at least, between two notifications of the same change
_SUBSCRIBERS = 1024
_SUBSCRIBERS_OF_CLIENT = 32
_URIS = 256  # URIs of one subscriber
_LONGEST_URI = 4 * NAME_LENGTH  # characters


class ResourceFeed(Protocol):
    """Subscribes to updates of resources at their servers.

    Each update is passed to `Subscriptions.resource_updated`, with the URI that was watched.
    """

    async def watch(self, uri: str) -> None:
        """Subscribe to the updates of a resource at its server.

        Raises:
            RpcError: If there is no such resource, or its server sends no updates.
        """

    async def unwatch(self, uri: str) -> None:
        """Unsubscribe from the updates of a resource, which has no subscriber left."""


class Subscriber:
    """A client's subscription to lists and resources; `Subscriptions.remove` ends it."""

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
        """Start to write notifications, beginning with those that are pending."""
        self._is_started = True
        if self._pending and self._timer is None:
            self._flush_later()

    def list_changed(self, kind: ListKind) -> None:
        """Notify the client that a list has changed; no-op if it has not subscribed to it."""
        if kind in self.lists:
            self._notify(f"notifications/{kind}/list_changed", "")

    def list_changed_now(self, kind: ListKind) -> bool:
        """Notify the client of a changed list at once, in place of a pending notification.

        Returns whether the client was notified: it has subscribed to the list, and has a stream.
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
        """Notify of an updated resource, if the client watches it or a parent of its path."""
        if uri in self.uris or any(
            uri.startswith(f"{parent.rstrip('/')}/") for parent in self.uris
        ):
            self._notify("notifications/resources/updated", uri)

    def close(self) -> None:
        """Drop all subscriptions and pending notifications."""
        self.lists, self.uris = frozenset(), set()
        self._pending.clear()
        if self._timer:
            self._timer.cancel()

    def _notify(self, method: str, uri: str) -> None:
        if len(self._pending) < _URIS + len(self.lists):  # a resource may have any number of parts
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
    """A resource that at least one subscriber watches."""

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
        """Create an empty set of subscribers.

        Args:
            changing: The lists that can change; clients are notified of no others.
            feed: Watches resources; None if clients cannot watch any.
            total: The count of subscribers that all gateways of the process share.
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

    def list_changed(self, kind: ListKind) -> None:
        """Notify all clients of a changed list; no-op unless it is in `changing`."""
        for subscriber in self._subscribers if kind in self.changing else ():
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
        """Add a subscriber, whose notifications are held until its `start`.

        Args:
            client: The identity of its client.
            lists: The lists that it subscribes to, also those that cannot change yet.
            stream: Returns the stream for notifications; None drops them.
            meta: The `_meta` of each notification.
        """
        subscriber = Subscriber(client, frozenset(lists), stream, meta or {})
        self._subscribers.append(subscriber)
        self._total.number += 1
        return subscriber

    async def remove(self, subscriber: Subscriber) -> None:
        """End a subscriber, and unwatch the resources that no other one watches."""
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
        """Serve a `subscriptions/listen` request until it is cancelled.

        The first message on the stream is the acknowledgement, which has the accepted
        subscriptions. Tasks are accepted only with `tasks`.

        Raises:
            RpcError: If there are too many subscriptions, of this client or in this process.
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
        """Watch a resource for a subscriber; all subscribers share one watch at its server.

        Raises:
            RpcError: If the resource does not exist or sends no updates, or the subscriber watches
                too many.
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
        subscriber.uris.add(uri)  # before the request, so that no second one is sent meanwhile
        try:
            await self._acquire(self._feed, uri)
        except BaseException:
            if uri in subscriber.uris:  # else the subscriber was removed meanwhile, with its URIs
                subscriber.uris.remove(uri)
                with anyio.CancelScope(shield=True):
                    await self._release(uri)
            raise

    async def unwatch(self, subscriber: Subscriber, uri: str) -> None:
        """Stop watching a resource for a subscriber; no-op if it does not watch it."""
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
            # Deleted last: a new subscriber must wait at the lock until the server is unsubscribed.
            if watch.subscribers == 0 and self._watches.get(uri) is watch:
                del self._watches[uri]
