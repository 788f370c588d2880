"""How many connections are held, and how long a client may take over a request.

A request that is half sent holds a descriptor, and an attacker needs a few hundred of them to take
all that a process has. So each connection has to get on: its request has to arrive in time, and
when there is no room for another one, the one that has kept us waiting longest gives its place.
Whoever is being answered, and reads the answer, is never cut off.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import Any

from msgspec import Struct
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

_MOST = 1024  # connections; more clients than that want a gateway of their own
_RESERVE = 256  # descriptors that upstreams, the registry and the log have for themselves
_PER_ADDRESS = 0.75  # of all connections, so that one machine leaves room for the others

_SLOWEST = 1024  # bytes a second that a client reads of its answer

_TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\n"
_NO_ROOM = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n"
_THE_END = b"content-length: 0\r\nconnection: close\r\n\r\n"


class ConnectionLimits(Struct, frozen=True):
    connections: int = _MOST
    per_address: int = int(_MOST * _PER_ADDRESS)
    head: float = 10.0
    """Seconds for all that comes before the body of a request."""
    body: float = 30.0
    """Seconds for the body."""
    unread: float = 60.0
    """Seconds between looks at how much a client has read of what it was sent."""


def limits_of_process() -> ConnectionLimits:
    """As many connections as leave enough descriptors for everything else."""
    descriptors = _descriptors()
    connections = min(_MOST, descriptors - min(_RESERVE, descriptors // 2))
    return ConnectionLimits(connections, max(1, int(connections * _PER_ADDRESS)))


def _descriptors() -> int:
    try:
        import resource  # noqa: PLC0415 - Windows has none
    except ImportError:
        return _MOST
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST + _RESERVE if soft == resource.RLIM_INFINITY else soft


class Stage(Enum):
    HEAD = "its request has not begun, or only in part"
    BODY = "the body of its request is not all there"
    ANSWER = "it is being answered"
    IDLE = "it was answered, and may ask again"


class Connections:
    """All that are open, the longest waiting first."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._open: set[Connection] = set()
        self._addresses: Counter[str] = Counter()
        self._half_open: dict[Connection, None] = {}
        self._idle: dict[Connection, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: Connection) -> bool:
        """Take one in, in place of one that waits for its client if there is no room."""
        address = connection.address
        if self._addresses[address] >= self.limits.per_address:
            victim = self._longest_waiting(address)
        elif len(self) >= self.limits.connections:
            victim = self._longest_waiting()
        else:
            victim = connection
        if victim is None:
            return False
        if victim is not connection:
            self.remove(victim)
            victim.transport.abort()
        self._open.add(connection)
        self._addresses[address] += 1
        self.enter(connection, Stage.HEAD)
        return True

    def enter(self, connection: Connection, stage: Stage) -> None:
        self._half_open.pop(connection, None)
        self._idle.pop(connection, None)
        if stage is Stage.IDLE:
            self._idle[connection] = None
        elif stage is not Stage.ANSWER:
            self._half_open[connection] = None

    def remove(self, connection: Connection) -> None:
        """No-op if it is not there."""
        if connection not in self._open:
            return
        self._open.remove(connection)
        self._half_open.pop(connection, None)
        self._idle.pop(connection, None)
        self._addresses[connection.address] -= 1
        if not self._addresses[connection.address]:
            del self._addresses[connection.address]

    def _longest_waiting(self, address: str | None = None) -> Connection | None:
        return _first(self._half_open, address) or _first(self._idle, address)


def _first(connections: Iterable[Connection], address: str | None) -> Connection | None:
    return next((one for one in connections if address in (None, one.address)), None)


class Connection(H11Protocol):
    """A connection to one client, which has to get on with its request."""

    def __init__(self, connections: Connections, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.address = ""
        """Of the client's machine, or of the IPv6 network that it may choose addresses of."""
        self._connections = connections
        self._stage: Stage | None = None
        self._request: object = None
        self._deadline: asyncio.TimerHandle | None = None
        self._next_look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        transport.set_write_buffer_limits(high=0)  # whatever the client has not read pauses us
        super().connection_made(transport)
        self.address = _machine(self.client[0]) if self.client else ""
        if self._connections.admit(self):
            self._settle()
        else:
            self._end(_NO_ROOM)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._settle()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._settle()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        self._cancel_deadline()
        self._cancel_look()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._look_later()

    def resume_writing(self) -> None:
        self._cancel_look()
        super().resume_writing()

    def _settle(self) -> None:
        """Note how far the request has come, and until when it has to have come further."""
        if self.transport.is_closing():
            return
        stage, request = self._present_stage(), self.cycle
        if stage is self._stage and request is self._request:
            return
        self._stage, self._request = stage, request
        self._connections.enter(self, stage)
        self._cancel_deadline()
        limits = self._connections.limits
        if stage is Stage.HEAD:
            self._deadline = self.loop.call_later(limits.head, self._end, _TOO_LATE)
        elif stage is Stage.BODY:
            self._deadline = self.loop.call_later(limits.body, self._end, _TOO_LATE)

    def _present_stage(self) -> Stage:
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None:
            return Stage.HEAD
        if cycle.more_body:
            return Stage.BODY
        if not cycle.response_complete:
            return Stage.ANSWER
        # uvicorn's own timer runs from an answer to the first byte of the next request.
        return Stage.HEAD if self.timeout_keep_alive_task is None else Stage.IDLE

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _look_later(self) -> None:
        unread = self.transport.get_write_buffer_size()
        limit = self._connections.limits.unread
        self._next_look = self.loop.call_later(limit, self._require_reading, unread)

    def _require_reading(self, unread: int) -> None:
        """Cut off a client that does not read its answer: closing would wait for it for ever."""
        read = unread - self.transport.get_write_buffer_size()
        if read < _SLOWEST * self._connections.limits.unread:
            self.transport.abort()
        else:
            self._look_later()

    def _cancel_look(self) -> None:
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None

    def _end(self, status: bytes) -> None:
        cycle: RequestResponseCycle | None = self.cycle
        is_answered = self._stage is Stage.BODY and cycle is not None and cycle.response_started
        if not is_answered:  # a second answer would be taken for that of another request
            self.transport.write(status + _THE_END)
        self.transport.close()


def _machine(host: str) -> str:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    mapped = address.ipv4_mapped
    return str(mapped) if mapped else f"{int(address) >> 64:x}/64"
