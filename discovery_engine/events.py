"""Events: frozen values that describe what happened, and the bus that delivers them.

A publisher never waits. Each subscription has a bounded queue; a slow subscriber loses its oldest
events and blocks no publisher.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias, get_args

import anyio
from msgspec import Struct

from discovery_engine.errors import Diagnostic
from discovery_engine.tools.model import ServerName, ToolName
from discovery_engine.tools.offering import OfferingKind

TrustChange: TypeAlias = Literal["approved", "revoked", "accepted", "loss acknowledged", "locked"]

_BACKLOG = 1000  # events in a queue: a refresh of some 300 servers


class ServerConnecting(Struct, frozen=True):
    server: ServerName


class ServerDiscovering(Struct, frozen=True):
    """Connected; its tools are being listed."""

    server: ServerName


class ServerConnected(Struct, frozen=True):
    server: ServerName
    tool_count: int
    dropped_count: int = 0
    """Tools that were listed and cannot be used."""


class ServerFailed(Struct, frozen=True):
    server: ServerName
    code: str
    message: str


class ServerStateChanged(Struct, frozen=True):
    """The state of a server changed."""

    server: ServerName
    state: str
    """A `ServerState`."""
    reason: str
    """The reason for the state; may be empty."""


class ToolsChanged(Struct, frozen=True):
    """A server announced that its tools changed."""

    server: ServerName


class CatalogChanged(Struct, frozen=True):
    revision: int
    added: int
    removed: int
    changed: int


class ResourceUpdated(Struct, frozen=True):
    """A server announced that a resource, or a part of one, has other contents."""

    server: ServerName
    uri: str
    """The server's own; it may be that of a resource that an agent must not see."""


class OfferingsChanged(Struct, frozen=True):
    """Other resources, templates or prompts are visible, or they have other definitions."""

    kinds: frozenset[OfferingKind]


class RequestsWritten(Struct, frozen=True):
    """Other typical requests are known of tools: some were written, or forgotten."""


class ServerRegistered(Struct, frozen=True):
    """A server is configured that was not before."""

    server: ServerName
    source: str
    """The place of its entry: `discovery.yaml`, `registry`, or the id of another source."""


class ServerUpdated(Struct, frozen=True):
    """The entry or the package of a server is another one."""

    server: ServerName


class ServerUnregistered(Struct, frozen=True):
    server: ServerName
    source: str


class ServerActivated(Struct, frozen=True):
    """A server is wanted from now on; whether it can be used is shown by its state."""

    server: ServerName


class ServerDeactivated(Struct, frozen=True):
    server: ServerName


class ServerInstalled(Struct, frozen=True):
    """A server that runs a package of a marketplace is configured."""

    server: ServerName
    package: str


class ServerUninstalled(Struct, frozen=True):
    server: ServerName
    package: str


class InstallProgressed(Struct, frozen=True):
    """An installation or an update goes on; `ServerInstalled` or `ServerUpdated` ends it."""

    server: str
    step: str
    """The current step, such as `downloading @acme/files@1.2.0`."""


class InstallFailed(Struct, frozen=True):
    """An installation or an update of a server failed; all is as before."""

    server: str
    code: str


class ConfigurationReloaded(Struct, frozen=True):
    servers: int


class ConfigurationRejected(Struct, frozen=True):
    """The configuration was read again and is invalid; the last valid one stays in force."""

    problems: tuple[Diagnostic, ...]


class ToolCalled(Struct, frozen=True):
    """A call ended or was refused; contains neither arguments nor results.

    Of a resource that was read, and of a prompt that was got, the key of the definition stands for
    the name of the tool: `resource:file:///readme`, `template:file:///{path}`, `prompt:review`.
    """

    server: ServerName
    """Empty if the call named none, and no server has such a tool."""
    tool: ToolName
    outcome: str
    """`ok`, `tool_error`, `cancelled`, or the code of the error.

    `task` if the call has become a task, whose client asks for the result: when it is over, there
    is another event, with its outcome and the seconds since then.
    """
    seconds: float
    client: str | None = None
    """The client, where clients are distinguished."""
    argument_size: int = 0
    """Characters in the arguments, counted up to a limit."""
    result_size: int = 0
    """Characters in the result; 0 if there is none."""


class ServerNotification(Struct, frozen=True):
    """A server sent a log message, or announced that a list of its changed.

    At most 50 of a server in ten seconds, together with all else that it notifies of.
    """

    server: ServerName
    method: str
    """That of the notification: `notifications/message`, `notifications/tools/list_changed`."""
    level: str = ""
    """The level of a log message; `logger` and `text` are set for log messages only, too."""
    logger: str = ""
    """It begins with the name of the server."""
    text: str = ""
    """Redacted, and at most 1,000 characters; JSON if it is no text."""


class TrustChanged(Struct, frozen=True):
    """The owner has decided; the view is in accord with it."""

    change: TrustChange
    servers: tuple[ServerName, ...]
    """The servers that it is about; empty if it is about the whole configuration."""


Event: TypeAlias = (
    ServerConnecting
    | ServerDiscovering
    | ServerConnected
    | ServerFailed
    | ServerStateChanged
    | ToolsChanged
    | CatalogChanged
    | OfferingsChanged
    | ResourceUpdated
    | RequestsWritten
    | ServerRegistered
    | ServerUpdated
    | ServerUnregistered
    | ServerActivated
    | ServerDeactivated
    | ServerInstalled
    | InstallProgressed
    | InstallFailed
    | ServerUninstalled
    | ConfigurationReloaded
    | ConfigurationRejected
    | ToolCalled
    | ServerNotification
    | TrustChanged
)

EVENTS: tuple[type[Event], ...] = get_args(Event)
FREQUENT: tuple[type[Event], ...] = (ToolCalled, ServerNotification)
"""Published with each call or message: only subscribers that use them should cause them."""


class Subscription:
    """An endless async iterator over the events of some kinds since it was created."""

    def __init__(self, backlog: int) -> None:
        self._events: deque[Event] = deque(maxlen=backlog)
        self._arrival = anyio.Event()

    def deliver(self, event: Event) -> None:
        """Queue an event of one of these kinds."""
        self._events.append(event)
        if len(self._events) == 1:  # else nobody waits
            self._arrival.set()

    def drain(self) -> list[Event]:
        """Remove and return the queued events."""
        events = list(self._events)
        self._events.clear()
        return events

    def clear(self) -> None:
        """Drop the queued events."""
        self._events.clear()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            self._arrival = anyio.Event()
            await self._arrival.wait()
        return self._events.popleft()


class EventBus:
    def __init__(self) -> None:
        self._subscriptions: dict[type[Event], tuple[Subscription, ...]] = {}

    @property
    def has_subscribers(self) -> bool:
        return any(self._subscriptions.values())

    def wants(self, kind: type[Event]) -> bool:
        """Return whether there are subscribers to events of a kind."""
        return bool(self._subscriptions.get(kind))

    def publish(self, event: Event) -> None:
        # By its kind: each call would else ask seven subscribers that want none of it.
        for subscription in self._subscriptions.get(type(event), ()):
            subscription.deliver(event)

    @contextmanager
    def subscribe(self, *kinds: type[Event], backlog: int = _BACKLOG) -> Iterator[Subscription]:
        """Subscribe to events of these kinds; to all if none is given."""
        subscription = Subscription(backlog)
        wanted = frozenset(kinds or EVENTS)
        for kind in wanted:
            self._subscriptions[kind] = (*self._subscriptions.get(kind, ()), subscription)
        try:
            yield subscription
        finally:
            for kind in wanted:
                others = (other for other in self._subscriptions[kind] if other is not subscription)
                self._subscriptions[kind] = tuple(others)
