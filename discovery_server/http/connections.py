"""Limits on the number of connections, and on the time that a client takes for a request.

A half-sent request holds a file descriptor, and a few hundred of them exhaust a process (the
slowloris attack). So each request must arrive in time, and at the limit, the connection that has
waited longest for its client is closed. A client that reads its answer is never cut off.
"""

from __future__ import annotations

import asyncio
from asyncio.sslproto import SSLProtocol
from collections import Counter
from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from discovery_server.http.client_addresses import machine_of

if TYPE_CHECKING:
    import ssl

    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as HttpProtocol
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
else:
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as HttpProtocol
    except ImportError:  # where it has no wheel; a request then takes 0.1 ms of CPU more
        from uvicorn.protocols.http.h11_impl import H11Protocol as HttpProtocol

_MAX = 1024  # connections
_RESERVE = 256  # descriptors reserved for upstreams, the registry and the log
_PER_ADDRESS = 0.75  # share of all connections that one machine may hold

_MIN_RATE = 1024  # bytes a second at which a client must read its answer

_LONGEST_FIELDS = 64 << 10  # bytes of a head, or of trailers and extensions of chunks
_MOST_PIPELINED = 32  # requests behind one that is being answered; no client sends any

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
_TIMEOUT_STATUS = b"HTTP/1.1 408 Request Timeout\r\n"
_NO_ROOM = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n"
_LAST_HEADERS = b"content-length: 0\r\nconnection: close\r\n\r\n"


class ConnectionLimits(Struct, frozen=True):
    connections: int = _MAX
    per_address: int = int(_MAX * _PER_ADDRESS)
    head: float = 10.0
    """Seconds for the request line and the headers."""
    body: float = 30.0
    """Seconds for the body."""
    unread: float = 60.0
    """Seconds between checks of how much of its answer a client has read."""


def limits_of_process() -> ConnectionLimits:
    """Return limits that leave enough descriptors for everything but connections."""
    descriptors = _descriptors()
    connections = min(_MAX, descriptors - min(_RESERVE, descriptors // 2))
    return ConnectionLimits(connections, max(1, int(connections * _PER_ADDRESS)))


def _descriptors() -> int:
    try:
        import resource  # noqa: PLC0415 - Windows has none
    except ImportError:
        return _MAX
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MAX + _RESERVE if soft == resource.RLIM_INFINITY else soft


class Stage(Enum):
    HEAD = "its request has not arrived"
    BODY = "the body of its request is incomplete"
    ANSWER = "it is being answered"
    IDLE = "it was answered, and may send another request"


class Counted(Protocol):
    """A connection that counts towards the limits: one of HTTP, or one being encrypted."""

    address: str

    def abort(self) -> None:
        """Close it at once."""


class Connections:
    """All open connections, ordered by how long they have waited for their client."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._open: set[Counted] = set()
        self._addresses: Counter[str] = Counter()
        self._half_open: dict[Counted, None] = {}
        self._idle: dict[Counted, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: Counted) -> bool:
        """Admit a connection; at the limit, one that waits for its client is closed for it."""
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
            victim.abort()
        self._open.add(connection)
        self._addresses[address] += 1
        self.enter(connection, Stage.HEAD)
        return True

    def enter(self, connection: Counted, stage: Stage) -> None:
        self._half_open.pop(connection, None)
        self._idle.pop(connection, None)
        if stage is Stage.IDLE:
            self._idle[connection] = None
        elif stage is not Stage.ANSWER:
            self._half_open[connection] = None

    def remove(self, connection: Counted) -> None:
        """No-op if it is not there."""
        if connection not in self._open:
            return
        self._open.remove(connection)
        self._half_open.pop(connection, None)
        self._idle.pop(connection, None)
        self._addresses[connection.address] -= 1
        if not self._addresses[connection.address]:
            del self._addresses[connection.address]

    def _longest_waiting(self, address: str | None = None) -> Counted | None:
        return _first(self._half_open, address) or _first(self._idle, address)


def _first(connections: Iterable[Counted], address: str | None) -> Counted | None:
    return next(
        (connection for connection in connections if address in (None, connection.address)), None
    )


class SegmentedTransport:
    """A transport that sends what is written in one turn of the event loop together.

    The server writes the head and the body of an answer one after the other. Each `send` of a
    socket takes as long as all the rest of a small request, and wakes up the client.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.unwrapped = transport
        self.is_closing = transport.is_closing  # asked for with each request
        self._loop = loop
        self._pieces: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unwrapped, name)

    def write(self, data: bytes) -> None:
        if not self._pieces:
            self._loop.call_soon(self.flush)
        self._pieces.append(data)

    def flush(self) -> None:
        if self._pieces:
            data = b"".join(self._pieces)
            self._pieces.clear()
            self.unwrapped.write(data)

    def close(self) -> None:
        self.flush()
        self.unwrapped.close()

    def abort(self) -> None:
        self._pieces.clear()
        self.unwrapped.abort()


class Connection(HttpProtocol):
    """A connection to one client, with deadlines for its requests."""

    def __init__(self, connections: Connections, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.address = ""
        """The client's address; for IPv6 its /64 network, from which it can choose addresses."""
        self.handshake: Counted | None = None
        """The connection that was counted in its place until it was encrypted."""
        self._connections = connections
        self._stage: Stage | None = None
        self._request: object = None
        self._deadline: asyncio.TimerHandle | None = None
        self._next_check: asyncio.TimerHandle | None = None
        self._since_body = 0
        """Bytes since the request began, or since the last of its body."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(SegmentedTransport(transport, self.loop))  # type: ignore[arg-type]
        # Any unread byte pauses the writer; TLS pauses it at this limit, other transports above it.
        transport.set_write_buffer_limits(high=1 if self.handshake else 0, low=0)
        self.address = machine_of(self.client[0]) if self.client else ""
        if self.handshake:
            self._connections.remove(self.handshake)
        if self._connections.admit(self):
            self._update_stage()
        else:
            self._end(_NO_ROOM)

    def abort(self) -> None:
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        self._since_body += len(data)
        super().data_received(data)
        self._update_stage()
        # Only h11 has a limit of its own; it has none of the events below, and no `parser`.
        if self._since_body > _LONGEST_FIELDS and getattr(self, "parser", None):
            self._end(_TOO_LARGE)

    def on_message_begin(self) -> None:
        self._since_body = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header without the blanks that the parser of `HttpToolsProtocol` leaves.

        Trailers are dropped: they must not be taken for headers (RFC 9110, section 6.5.1).
        """
        if "method" not in self.scope:
            super().on_header(name, value.strip(b" \t"))

    def on_headers_complete(self) -> None:
        """Begin the request; end the connection if its head is too long, or too many wait."""
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > (
            _LONGEST_FIELDS
        ):
            self._end(_TOO_LARGE)
            raise OverflowError
        if len(self.pipeline) >= _MOST_PIPELINED:
            self.transport.abort()
            raise OverflowError
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._since_body = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._since_body = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self.transport.flush()  # type: ignore[attr-defined] # a `SegmentedTransport`
        super().on_response_complete()
        self._update_stage()

    def handle_websocket_upgrade(self) -> None:
        """Switch to WebSocket; the connection counts until the WebSocket is closed."""
        self._cancel_deadline()
        self._cancel_check()
        self._connections.enter(self, Stage.ANSWER)
        self.transport.flush()  # type: ignore[attr-defined] # a `SegmentedTransport`
        self.transport = self.transport.unwrapped  # type: ignore[attr-defined] # as above
        make: Any = self.ws_protocol_class
        self.ws_protocol_class = partial(self._counted, make)  # type: ignore[assignment]
        super().handle_websocket_upgrade()

    def _counted(self, make: Callable[..., Any], **options: Any) -> Any:
        """Make the protocol that takes the place of this one."""
        protocol = make(**options)
        lost = protocol.connection_lost

        def connection_lost(error: Exception | None) -> None:
            self._connections.remove(self)
            lost(error)

        protocol.connection_lost = connection_lost
        return protocol

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        self._cancel_deadline()
        self._cancel_check()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._check_later()

    def resume_writing(self) -> None:
        self._cancel_check()
        super().resume_writing()

    def _update_stage(self) -> None:
        """Note the stage of the request, and set the deadline of that stage."""
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
            self._deadline = self.loop.call_later(limits.head, self._end, _TIMEOUT_STATUS)
        elif stage is Stage.BODY:
            self._deadline = self.loop.call_later(limits.body, self._end, _TIMEOUT_STATUS)

    def _present_stage(self) -> Stage:
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None:
            return Stage.HEAD
        if getattr(self, "pipeline", None):  # its body is not read before it has its turn
            return Stage.ANSWER
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

    def _check_later(self) -> None:
        unread = self.transport.get_write_buffer_size()
        limit = self._connections.limits.unread
        self._next_check = self.loop.call_later(limit, self._require_reading, unread)

    def _require_reading(self, unread: int) -> None:
        """Abort a client that does not read its answer; a plain close would wait forever."""
        read = unread - self.transport.get_write_buffer_size()
        if read < _MIN_RATE * self._connections.limits.unread:
            self.transport.abort()
        else:
            self._check_later()

    def _cancel_check(self) -> None:
        if self._next_check is not None:
            self._next_check.cancel()
            self._next_check = None

    def _end(self, status: bytes) -> None:
        cycle: RequestResponseCycle | None = self.cycle
        has_begun = self._stage is Stage.BODY and cycle is not None and cycle.response_started
        # A second answer would be read as that of the next request.
        if not has_begun and self._stage is not Stage.ANSWER:
            self.transport.write(status + _LAST_HEADERS)
        self.transport.close()


class Handshake(SSLProtocol):
    """A connection that is being encrypted; a `Connection` takes its place when it is.

    asyncio hands it over after the handshake. Until then it would not be counted, and clients that
    never complete theirs could hold any number of descriptors.
    """

    def __init__(
        self, connections: Connections, connection: Connection, context: ssl.SSLContext
    ) -> None:
        self.address = ""
        self.transport: asyncio.BaseTransport
        self._connections = connections
        connection.handshake = self
        timeout: Any = connections.limits.head
        no_waiter: Any = None
        super().__init__(
            asyncio.get_running_loop(),
            connection,
            context,
            no_waiter,
            server_side=True,
            ssl_handshake_timeout=timeout,
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        peer = transport.get_extra_info("peername")
        self.address = machine_of(peer[0]) if peer else ""
        if self._connections.admit(self):
            super().connection_made(transport)
        else:
            self.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._connections.remove(self)
        super().connection_lost(exc)

    def abort(self) -> None:
        """Close the connection without a word: there is no key yet to write one with."""
        if isinstance(self.transport, asyncio.WriteTransport):
            self.transport.abort()
