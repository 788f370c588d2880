"""The entry point to the servers: their tools are listed here, and calls are sent.

Sessions are opened on first use, since loading them takes longer than answering a search. A call is
sent once; only one that the server provably did not process is sent a second time. Errors and
stderr of a server may contain the secrets of its entry; they are redacted here, before anything
else reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup, TaskStatus
from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine._util.tasks import finish
from discovery_engine.catalog import DroppedTool
from discovery_engine.config.serve_settings import ViewLimits
from discovery_engine.config.settings import Limits, ServerSettings, Settings
from discovery_engine.errors import RateLimitedError, UpstreamError, UpstreamProtocolError
from discovery_engine.rpc.client import NOTHING, declarable, merged
from discovery_engine.rpc.validity import received
from discovery_engine.secrets.known_secrets import KNOWN_SECRETS
from discovery_engine.secrets.resolver import SecretResolver
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.call import CALL_TOOL, UpstreamRequest, at_most_twice
from discovery_engine.upstream.server_output import OutputRedactor, StderrLog
from discovery_engine.upstream.state import ServerState, StateInfo

if TYPE_CHECKING:
    from discovery_engine.engine.recordings import Recorder
    from discovery_engine.engine.server_record import ServerRecorder
    from discovery_engine.rpc.client import Client, Continuation
    from discovery_engine.rpc.messages import OnProgress
    from discovery_engine.tools.offering import OfferingKind
    from discovery_engine.upstream.call import CallObserver
    from discovery_engine.upstream.history import ServerHistory
    from discovery_engine.upstream.listing import ListedOfferings, Listing
    from discovery_engine.upstream.open_tasks import OpenTask
    from discovery_engine.upstream.session_pool import SessionPool
    from discovery_engine.upstream.task import TaskMethod
    from discovery_engine.upstream.transport_opening import OnStderr

T = TypeVar("T")

_MINUTE = 60.0  # seconds
_SHARE = 6  # of the calls of a minute that are possible at once, if nothing else is set


class CallQuota(Struct, frozen=True):
    subject: str
    """The thing limited, for instance `server 'github'`; quotas of one subject share a bucket."""
    calls_per_minute: int
    burst: int
    server: str | None = None

    @classmethod
    def all_of(cls, server: ServerSettings, settings: Settings) -> tuple[CallQuota, ...]:
        """Return the quotas of a request to a server by clients with these settings.

        Without a `burst`, as many calls are possible at once as ten seconds allow.
        """
        limited: list[tuple[Limits | ViewLimits, str, str | None]]
        limited = [(server.limits, f"server {server.name!r}", server.name)]
        limited += [
            (v.limits, f"view {v.name!r}", None) for v in settings.views if v.name == settings.view
        ]
        return tuple(
            cls(subject, rate, limits.burst or max(rate // _SHARE, 1), name)
            for limits, subject, name in limited
            if (rate := limits.calls_per_minute) is not None
        )


class _Bucket(Struct):
    tokens: float
    at: float


class RateLimits:
    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives seconds."""
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def take(self, *quotas: CallQuota) -> None:
        """Count a call against every quota.

        Raises:
            RateLimitedError: If one is used up, with the time after which it is not; none counts
                the call then.
        """
        now = self._clock()
        buckets = [self._refilled(quota, now) for quota in quotas]
        for quota, bucket in zip(quotas, buckets, strict=True):
            if bucket.tokens < 1:
                wait = (1 - bucket.tokens) * _MINUTE / quota.calls_per_minute
                raise RateLimitedError(quota.subject, quota.calls_per_minute, wait, quota.server)
        for bucket in buckets:
            bucket.tokens -= 1

    def _refilled(self, quota: CallQuota, now: float) -> _Bucket:
        bucket = self._buckets.setdefault(quota.subject, _Bucket(quota.burst, now))
        passed = max(now - bucket.at, 0.0)  # a clock may be set back
        refill = passed * quota.calls_per_minute / _MINUTE
        bucket.tokens, bucket.at = min(bucket.tokens + refill, quota.burst), now
        return bucket


OnTried: TypeAlias = Callable[[ServerSettings, UpstreamError | None], Awaitable[None] | None]
"""Called after a request to a server, with its error, or None if it was answered.

What it returns is awaited.
"""

_WORDS = ("statusMessage", "error")
"""Members of a task's state that are errors of the server, or like them."""
_SHARES_NOTHINGS = None, OutputRedactor(frozenset())


class Upstreams:
    """Opens the sessions in `tasks` on first use; they are closed when `tasks` is cancelled."""

    def __init__(
        self,
        tasks: TaskGroup,
        open_sessions: Callable[[OnStderr], AbstractAsyncContextManager[SessionPool]],
        secrets: SecretResolver,
        rates: RateLimits | None = None,
        recorder: Recorder | None = None,
        on_tried: OnTried | None = None,
        server_recorder: ServerRecorder | None = None,
    ) -> None:
        """`on_tried` is called after each request but those that list."""
        self._server_recorder = server_recorder
        self._on_tried = on_tried
        self._tasks = tasks
        self._open_sessions = open_sessions
        self._secrets = secrets
        self._rates = rates
        self._recorder = recorder
        self._sessions: SessionPool | None = None
        self._opening = anyio.Lock()
        self._redactors: dict[ServerName, tuple[object, OutputRedactor]] = {}
        self._stderr_logs: dict[ServerName, StderrLog] = {}
        self._expected: Mapping[str, JSONObject] = {}
        self.other_clients = anyio.Event()
        """Set, and replaced, when a client has capabilities that no client had before."""
        self._watchers: Counter[tuple[ServerName, str]] = Counter()
        self._live: dict[ServerName, tuple[StateInfo, OutputRedactor, StateInfo]] = {}

    @property
    def expected(self) -> Mapping[str, JSONObject]:
        """The capabilities of the clients so far."""
        return self._expected

    async def list_tools(
        self, server: ServerSettings, declared: Mapping[str, JSONObject] = NOTHING
    ) -> Listing:
        """Return all tools of a server, redacted; it is connected first if need be.

        `declared` are capabilities of earlier clients, which are declared beside those of present
        ones: some servers have tools for such clients only.

        Raises:
            UnavailableError: If connecting fails, or the connection breaks.
            UpstreamTimeoutError: If it does not list in time.
            UpstreamProtocolError: If it answers with an error or an invalid list.
        """
        await self._redactor_of(server)
        try:
            listing = await self._listing(server, merged(self._expected, declared))
        except UpstreamError as error:
            (await self._redactor_of(server)).redact_error(error)
            raise
        redactor = await self._redactor_of(server)
        redacted = await anyio.to_thread.run_sync(_redacted, listing, redactor)
        if self._recorder:
            await self._recorder.record_listing(server.name, redacted)
        return redacted

    async def ping(self, server: ServerSettings) -> float:
        """The seconds until a server has answered `ping`; it is tried even if it is backing off.

        Raises:
            UpstreamError: As `list_tools`.
        """

        async def ask() -> float:
            sessions = await self._opened()
            history = sessions.history_of(server)
            history.reset_backoff()
            with history.attempt():
                return await at_most_twice(lambda: sessions.for_listing(server, {}).ping(server))

        return await self._asked(server, ask)

    async def send(
        self,
        server: ServerSettings,
        request: UpstreamRequest,
        *,
        caller: Client | None = None,
        continuation: Continuation | None = None,
        on_progress: OnProgress | None = None,
        quotas: Sequence[CallQuota] = (),
        observer: CallObserver | None = None,
    ) -> JSONObject:
        """The result of a request, complete and in valid form.

        Args:
            server: Connected first if needed.
            request: Sent unchecked.
            caller: The client that makes the request; with `session: per_client` each has its own
                session.
            continuation: Its answers to an `input_required` result of the same request, which is
                not another call.
            on_progress: Called with the progress notifications of the request.
            quotas: The limits that the request counts against; see `CallQuota.all_of`.
            observer: Gets what happens meanwhile.

        Raises:
            RateLimitedError: If the calls of one of `quotas` are used up.
            UnavailableError: If connecting fails, the server is backing off, or its call queue is
                full; `retry_after` says when to try again.
            OutcomeUnknownError: If the connection breaks during the call.
            UpstreamTimeoutError: If it does not answer in time; the request is cancelled.
            UpstreamProtocolError: If it answers with an error, or the answer is invalid.
            InputRequiredError: If it fails after the server asked what its client did not answer.
        """
        if quotas and self._rates and continuation is None:
            self._rates.take(*quotas)
        send = partial(self._result, server, request, caller, continuation, on_progress, observer)
        try:
            result = await self._asked(server, send)
        except UpstreamProtocolError as error:
            if self._recorder:
                redactor = await self._redactor_of(server)
                await self._recorder.record(server.name, request, error, redactor)
            raise
        if self._recorder:
            redactor = await self._redactor_of(server)
            await self._recorder.record(server.name, request, result, redactor)
        return await received(request.method, result, uri=request.params.get("uri", ""))

    async def _result(
        self,
        server: ServerSettings,
        request: UpstreamRequest,
        caller: Client | None,
        continuation: Continuation | None,
        on_progress: OnProgress | None,
        observer: CallObserver | None,
    ) -> JSONObject:
        sessions = self._sessions or await self._opened()
        call, history = sessions.call(server, caller, observer), sessions.history_of(server)
        history.stats.calls += 1
        with history.trial():
            slot = history.calls
            if not slot.acquire_now():
                slot = await history.wait_slot(server, observer)
            call.hold(slot)
            try:
                send = partial(sessions.send, server, call, on_progress)
                return await call.complete(send, request, continuation)
            finally:
                call.release(slot)

    async def _listing(self, server: ServerSettings, declared: Mapping[str, JSONObject]) -> Listing:
        sessions = await self._opened()
        with sessions.history_of(server).attempt():
            return await at_most_twice(
                lambda: sessions.for_listing(server, declared).list_tools(server, declared)
            )

    async def ask_task(
        self,
        server: ServerSettings,
        task: OpenTask,
        method: TaskMethod,
        caller: Client | None,
        responses: JSONObject | None = None,
    ) -> JSONObject:
        """Return the answer of a task's server to a request about it.

        The texts of the server are redacted like those of an error.

        Raises:
            TaskNotFoundError: If the server, or its session, does not have it any more.
            UpstreamError: As `send`.
        """
        redactor = await self._redactor_of(server)

        async def ask() -> JSONObject:
            sessions = await self._opened()
            call, history = sessions.call(server, caller), sessions.history_of(server)
            with history.trial():
                slot = await history.wait_slot(server)
                call.hold(slot)
                try:
                    return await sessions.ask_task(server, task, method, call, responses)
                finally:
                    call.release(slot)

        answer = await self._asked(server, ask)
        if "result" in answer:
            answer = {**answer, "result": await received(CALL_TOOL, answer["result"])}
        return answer | {
            name: redactor.redact_json(answer[name]) for name in _WORDS if name in answer
        }

    def open_task(self, handle: str, *, owner: str | None) -> OpenTask | None:
        """A task that was handed to a client; None if it has none of that handle."""
        return self._sessions.tasks.get(handle, owner=owner) if self._sessions else None

    async def watch(self, server: ServerSettings, uri: str) -> None:
        """Have `ResourceUpdated` published for a resource, until `unwatch`.

        Raises:
            UpstreamError: If the server cannot be reached, or does not notify of updates.
        """

        async def ask() -> None:
            await (await self._opened()).watch(server, uri)

        await self._asked(server, ask)
        self._watchers[server.name, uri] += 1

    def unwatch(self, server: ServerName, uri: str) -> None:
        """End one `watch` of a resource; the server is told when none is left."""
        self._watchers[server, uri] -= 1
        if self._watchers[server, uri] <= 0:
            del self._watchers[server, uri]
            if self._sessions:
                self._sessions.unwatch(server, uri)

    async def close(self, server: ServerName) -> None:
        """Close the sessions of a server after their current calls; no-op if there are none."""
        if self._sessions:
            self._sessions.close(server)

    async def close_changed(
        self,
        before: Mapping[ServerName, ServerSettings],
        now: Mapping[ServerName, ServerSettings],
    ) -> None:
        """Close the sessions of servers whose transport changed or that are gone."""
        for name, server in before.items():
            is_same = name in now and now[name].transport == server.transport
            if self._sessions and not is_same:
                self._sessions.close(name)

    def expect(self, capabilities: Mapping[str, JSONObject]) -> None:
        """Declare a client's capabilities to servers from now on."""
        expected = merged(self._expected, declarable(capabilities))
        if expected == self._expected:
            return
        self._expected = expected
        if self._sessions:
            self._sessions.expect(capabilities)
        self.other_clients.set()
        self.other_clients = anyio.Event()

    def roots_changed(self, client: Client) -> None:
        """Notify the servers of a client's calls that its roots have changed."""
        if self._sessions:
            self._sessions.roots_changed(client)

    def settings_changed(self) -> None:
        """Notify servers of roots that their owner has changed since they were given."""
        if self._sessions:
            self._sessions.settings_changed()

    def close_client(self, client: str) -> None:
        """Close the sessions of a client after its current calls; no-op if there are none."""
        if self._sessions:
            self._sessions.close_client(client)

    def reset_backoff(self, server: ServerName) -> None:
        """Allow the next request to a server at once, although it is backing off."""
        if history := self._history(server):
            history.reset_backoff()

    def note_answer(self, server: ServerName) -> None:
        """Use a server again that is down here: it has answered another process."""
        history = self._history(server)
        if history and not history.is_ready:
            history.record_success()

    def contacted(self) -> set[ServerName]:
        """The servers used so far."""
        return set(self._sessions.histories) if self._sessions else set()

    def live(self, name: ServerName) -> StateInfo | None:
        """The redacted live state of a server; None if it was never used."""
        history = self._history(name)
        if history is None:
            return None
        _, redactor = self._redactors.get(name, _SHARES_NOTHINGS)
        raw = history.info
        # Every search reads this, so it is redacted again only after a change.
        old_raw, used, info = self._live.get(name, (None, None, None))
        if old_raw != raw or used is not redactor or info is None:
            info = _redacted_info(raw, redactor)
            self._live[name] = raw, redactor, info
        return info

    def startup(self, name: ServerName) -> StateInfo:
        """The state of a server that is being started or listed."""
        history = self._history(name)
        start = history.start if history else None
        if start is None:
            return StateInfo(ServerState.STARTING)
        _, redactor = self._redactors.get(name, _SHARES_NOTHINGS)
        stderr = redactor.redact_stderr(start.stderr)
        return StateInfo(ServerState.STARTING, stderr=stderr, starting_for=start.seconds)

    def states(self) -> Mapping[ServerName, StateInfo]:
        """The redacted state of every server used so far, with its counters."""
        states = self._sessions.states() if self._sessions else {}
        return {
            name: _redacted_info(info, self._redactors.get(name, _SHARES_NOTHINGS)[1])
            for name, info in states.items()
        }

    def _history(self, name: ServerName) -> ServerHistory | None:
        """The history of a server; None if it was never used."""
        return self._sessions.histories.get(name) if self._sessions else None

    async def _asked(self, server: ServerSettings, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer to one request of a server; its error is redacted."""
        await self._redactor_of(server)
        try:
            answer = await ask()
        except UpstreamError as error:
            (await self._redactor_of(server)).redact_error(error)
            if self._on_tried:
                await finish(self._on_tried(server, error))
            raise
        if self._on_tried and (work := self._on_tried(server, None)):
            await work
        return answer

    async def _opened(self) -> SessionPool:
        if self._sessions is not None:
            return self._sessions
        async with self._opening:
            if self._sessions is None:
                self._sessions = await self._tasks.start(self._hold)
            return self._sessions

    async def _hold(self, *, task_status: TaskStatus[SessionPool]) -> None:
        async with self._open_sessions(self._on_stderr) as sessions:
            sessions.expect(self._expected)
            task_status.started(sessions)
            await anyio.sleep_forever()

    async def _redactor_of(self, server: ServerSettings) -> OutputRedactor:
        """Return a server's redactor; another one if values were read or commands run since."""
        transport, redactor = self._redactors.get(server.name, _SHARES_NOTHINGS)
        is_same = transport is server.transport or transport == server.transport
        if is_same and redactor.is_stable:
            return redactor
        new_redactor = await anyio.to_thread.run_sync(
            OutputRedactor.for_server, server, self._secrets
        )
        KNOWN_SECRETS.add(new_redactor.values, new_redactor.certain)
        new_redactor = new_redactor.including(redactor)
        self._redactors[server.name] = server.transport, new_redactor
        return new_redactor

    def _on_stderr(self, name: ServerName, lines: Sequence[str]) -> None:
        if (log := self._stderr_logs.get(name)) is None:
            log = self._stderr_logs[name] = StderrLog(name)
        _, redactor = self._redactors.get(name, _SHARES_NOTHINGS)
        log.write(lines, redactor.redact)
        if self._server_recorder:
            self._server_recorder.record_lines(name, lines, redactor.redact)


def _redacted_info(info: StateInfo, redactor: OutputRedactor) -> StateInfo:
    stats = info.stats and replace(
        info.stats,
        samples=tuple(map(redactor.redact_stderr, info.stats.samples)),
        stderr=redactor.redact_stderr(info.stats.stderr),
    )
    return replace(
        info,
        reason=redactor.redact(info.reason),
        detail=redactor.redact(info.detail),
        hint=redactor.redact(info.hint),
        stderr=redactor.redact_stderr(info.stderr),
        stats=stats,
    )


def _redacted(listing: Listing, redactor: OutputRedactor) -> Listing:
    """A listing without the secrets of its server; tool names stay unchanged."""
    tools = listing.tools
    redacted = redactor.redact_json(tools)
    if redacted is not tools:
        tools = tuple(
            {**after, "name": before["name"]} for before, after in zip(tools, redacted, strict=True)
        )
    return replace(
        listing,
        tools=tools,
        instructions=redactor.redact_json(listing.instructions),
        dropped=tuple(
            replace(tool, reason=redactor.redact(tool.reason)) for tool in listing.dropped
        ),
        offerings={
            kind: _redacted_list(kind, listed, redactor)
            for kind, listed in listing.offerings.items()
        },
    )


def _redacted_list(
    kind: OfferingKind, listed: ListedOfferings, redactor: OutputRedactor
) -> ListedOfferings:
    """The list without secrets, and without what could not be named without one."""
    definitions: list[JSONObject] = []
    dropped = [replace(entry, reason=redactor.redact(entry.reason)) for entry in listed.dropped]
    for definition in listed.definitions:
        identifier = definition[kind.wire.identifier]
        if (name := redactor.redact(identifier)) == identifier:
            definitions.append(redactor.redact_json(definition))
        else:
            reason = f"its {kind.wire.identifier} holds a secret of the server's entry"
            dropped.append(DroppedTool(name, reason))
    return replace(
        listed,
        definitions=tuple(definitions),
        dropped=tuple(dropped),
        failure=redactor.redact(listed.failure),
    )
