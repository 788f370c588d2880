"""Sends events, as they happen, to pages and programs that stay connected.

    → {"type": "state", "stream": "x1", "sequence": 41, "servers": […], …}
    → {"type": "events", "stream": "x1", "sequence": 43, "events": [{"type": "tool_called", …}, …]}

Every event has the next number. A client that was away names the stream and the number that it saw
last: it gets what it missed, or the state again if that is too long ago. No client is waited for:
one that does not read is dropped, and connects again.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import msgspec

from discovery_engine._util.tasks import open_task_group
from discovery_engine._util.version import __version__
from discovery_engine.engine.json_forms.catalog_forms import server_form
from discovery_engine.errors import DiscoveryError
from discovery_engine.rpc.json_codec import encode_finite

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject, JSONValue
    from discovery_engine.engine import Engine
    from discovery_engine.events import Event
    from discovery_engine.store.call_log.log_entry import LogEntry, RunningCall
    from discovery_engine.store.stored_records import AgentRequest

_MAX_RETAINED_EVENTS = 2000  # events; what a client may have missed
_WAITING = 100  # frames that a client has not read: ten seconds at the least
_MOST_CLIENTS = 50
_SPAN = 0.1  # seconds whose events are one frame
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")


class TooManyClientsError(DiscoveryError):
    code = "RATE_LIMITED"

    def __init__(self) -> None:
        text = f"{_MOST_CLIENTS} clients are connected, which are the most"
        super().__init__(text, hint="close one of them")


class EventFeed:
    """The events of an engine, numbered, and the clients that follow them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._stream = secrets.token_hex(8)
        self._sequence = 0
        self._kept: deque[JSONObject] = deque(maxlen=_MAX_RETAINED_EVENTS)
        self._clients: set[FeedClient] = set()
        self._wanted = anyio.Event()
        """Set with the first client."""
        self._connected = anyio.Event()
        """Set while there is a client."""
        self._announced: dict[object, JSONObject] = {}
        self._announcement = anyio.Event()
        self._more: dict[str, Callable[[], JSONValue]] = {}

    def add_state(self, name: str, look: Callable[[], JSONValue]) -> None:
        """Add what `look` returns to the state, under a further name."""
        self._more[name] = look

    async def run(self) -> None:
        """Number the events from the first client on, and send them, until cancelled."""
        await self._wanted.wait()  # without a subscriber a call publishes nothing
        async with open_task_group() as tasks:
            tasks.start_soon(self._run_announced)
            for follow in (follow_log, follow_running, follow_gateways, follow_requests):
                tasks.start_soon(follow, self._engine, self.announce, self._wait_for_client)
            with self._engine.subscribe() as events:
                async for first in events:
                    await anyio.sleep(_SPAN)
                    self._publish([event_form(event) for event in (first, *events.drain())])

    def announce(self, form: JSONObject, *, replaces: object = None) -> None:
        """Send an event of the API itself; no-op before the first client.

        Args:
            form: With its `type`.
            replaces: Of those that wait to be sent, the last with this key alone is.
        """
        if self._wanted.is_set():
            key = object() if replaces is None else replaces
            self._announced.pop(key, None)  # the last place is its own
            self._announced[key] = form
            self._announcement.set()

    async def _wait_for_client(self) -> None:
        """Wait until a client is connected."""
        await self._connected.wait()

    async def _run_announced(self) -> None:
        while True:
            await self._announcement.wait()
            await anyio.sleep(_SPAN)
            self._announcement = anyio.Event()
            forms, self._announced = [*self._announced.values()], {}
            self._publish(forms)

    def _publish(self, forms: list[JSONObject]) -> None:
        numbered = []
        for form in forms:
            self._sequence += 1
            numbered.append({"sequence": self._sequence, **form})
        self._kept.extend(numbered)
        if self._clients:
            frame = self._frame(numbered)
            for client in [*self._clients]:
                client.deliver(frame)

    @asynccontextmanager
    async def client(self, stream: str = "", after: int = 0) -> AsyncIterator[FeedClient]:
        """A client that has seen the events of a stream up to a number; of none by default.

        Raises:
            TooManyClientsError: If no further client is possible.
        """
        if len(self._clients) >= _MOST_CLIENTS:
            raise TooManyClientsError
        self._wanted.set()
        client = FeedClient(self.state)
        client.deliver(self._missed(stream, after) or self.state())
        self._clients.add(client)
        self._connected.set()
        try:
            yield client
        finally:
            self._clients.discard(client)
            if not self._clients:
                self._connected = anyio.Event()

    def state(self) -> bytes:
        """All that a client has to know to follow the events behind it."""
        view = self._engine.view
        form = {
            "type": "state",
            "stream": self._stream,
            "sequence": self._sequence,
            "version": __version__,
            "revision": view.catalog.revision,
            "servers": [server_form(server) for server in view.servers()],
            **{name: look() for name, look in self._more.items()},
        }
        return encode_finite(form)

    def _missed(self, stream: str, after: int) -> bytes | None:
        """The events behind a number; None if they are not known any more."""
        first = self._sequence - len(self._kept)
        if stream != self._stream or not first <= after <= self._sequence:
            return None
        return self._frame([*self._kept][after - first :])

    def _frame(self, events: list[JSONObject]) -> bytes:
        head = {"type": "events", "stream": self._stream, "sequence": self._sequence}
        return encode_finite({**head, "events": events})


class FeedClient:
    """The frames that a client has still to read."""

    def __init__(self, state: Callable[[], bytes]) -> None:
        self._state = state
        self._frames: deque[bytes] = deque()
        self._arrival = anyio.Event()
        self.is_dropped = False
        """True if it did not read in time, so that frames are missing."""

    def deliver(self, frame: bytes) -> None:
        if len(self._frames) >= _WAITING:
            self.is_dropped = True
            self._frames.clear()
        if not self.is_dropped:
            self._frames.append(frame)
        self._arrival.set()

    def refresh(self) -> None:
        """Send the state again."""
        self.deliver(self._state())

    async def next(self) -> bytes | None:
        """The next frame; None if the client has to connect again."""
        while not (self._frames or self.is_dropped):
            self._arrival = anyio.Event()
            await self._arrival.wait()
        return None if self.is_dropped else self._frames.popleft()


def event_form(event: Event) -> JSONObject:
    """Return the fields as they are, for instance `{"type": "tool_called", "server": …}`."""
    kind = _WORD.sub("_", type(event).__name__).lower()
    fields: JSONObject = msgspec.to_builtins(event, order="deterministic")
    return {"type": kind, **fields}


# What is looked for on disk while a client follows events: other processes write it, too.
#
# Agents' gateways over stdio are processes of their own: what their clients do is in no event of
# this one. Entries have neither arguments nor results, requests not what is given with them.

logger = logging.getLogger(__name__)

_LOG_INTERVAL = 0.5  # seconds
_GATEWAYS_INTERVAL = 1.0  # seconds
_REQUESTS_INTERVAL = 2.0  # seconds; a look takes 5 ms
_MOST_ENTRIES = 100  # at once; a reader of more sees how many there were
_NOT_SENT = frozenset({"arguments", "result"})

Announce = Callable[["JSONObject"], object]
Wanted = Callable[[], Awaitable[object]]


async def follow_log(engine: Engine, announce: Announce, wait_for_client: Wanted) -> None:
    """Announce the entries of the log as they are written, until cancelled.

    `wait_for_client` returns once a client follows events.
    """
    reader = engine.call_log.reader
    last = await anyio.to_thread.run_sync(reader.last_id)
    while True:
        await wait_for_client()
        try:
            entries = await anyio.to_thread.run_sync(reader.after, last)
        except DiscoveryError as error:
            logger.debug("The log cannot be followed: %s", error)
            entries = []
        if entries:
            last = entries[-1].id
        if skipped := len(entries[:-_MOST_ENTRIES]):
            announce({"type": "log_entries_skipped", "count": skipped})
        for entry in entries[-_MOST_ENTRIES:]:
            announce(_entry_form(entry))
        await anyio.sleep(_LOG_INTERVAL)


async def follow_running(engine: Engine, announce: Announce, wait_for_client: Wanted) -> None:
    """Announce that other calls run, or wait for an answer, until cancelled.

    `wait_for_client` is as for `follow_log`.
    """
    last: tuple[RunningCall, ...] = ()
    while True:
        await wait_for_client()
        with suppress(DiscoveryError):  # `follow_log` notes that the log cannot be read
            calls = await engine.call_log.running()
            if calls != last:
                announce({"type": "running_calls_changed", "count": len(calls)})
            last = calls
        await anyio.sleep(_LOG_INTERVAL)


async def follow_requests(engine: Engine, announce: Announce, wait_for_client: Wanted) -> None:
    """Announce what agents ask their owner for, and what is decided about it, until cancelled.

    `wait_for_client` is as for `follow_log`.
    """
    states: dict[str, str] | None = None
    while True:
        await wait_for_client()
        try:
            requests = await engine.requests.list()
        except DiscoveryError as error:
            logger.debug("Requests of agents cannot be followed: %s", error)
        else:
            for request in requests if states is not None else ():
                if kind := _change(states.get(request.id) if states else None, request.state):
                    announce(_request_form(kind, request))
            states = {request.id: request.state for request in requests}
        await anyio.sleep(_REQUESTS_INTERVAL)


async def follow_gateways(engine: Engine, announce: Announce, wait_for_client: Wanted) -> None:
    """Announce the states of servers as other gateways find them, until cancelled.

    `wait_for_client` is as for `follow_log`.
    """
    last_states = await engine.elsewhere()
    while True:
        await wait_for_client()
        states = await engine.elsewhere()
        changed = {
            name
            for name in states.keys() | last_states.keys()
            if states.get(name) != last_states.get(name)
        }
        for report in await engine.health(states) if changed else ():
            if report.name in changed:
                form = {"server": report.name, "state": report.state.value, "reason": report.reason}
                announce({"type": "server_state_changed", **form})
        last_states = states
        await anyio.sleep(_GATEWAYS_INTERVAL)


def _change(before: str | None, now: str) -> str:
    """The type of the event; empty if there is none."""
    if before is None:
        return "request_made"
    is_open = now in ("waiting", "deciding")
    return "request_decided" if before != now and not is_open else ""


def _entry_form(entry: LogEntry) -> JSONObject:
    form = entry.to_json()
    return {"type": "log_entry"} | {name: form[name] for name in form if name not in _NOT_SENT}


def _request_form(kind: str, request: AgentRequest) -> JSONObject:
    return {
        "type": kind,
        "id": request.id,
        "action": request.action,
        "name": request.name,
        "client": request.client,
        "state": request.state,
    }
