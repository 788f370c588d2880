"""The upstreams as the engine uses them: opened on first use, their output redacted.

Errors and stderr of a server may contain the secrets of its entry; they are redacted here, before
anything else reads them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup, TaskStatus
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine.catalog import DroppedTool
from discovery_engine.config.settings import ServerSettings
from discovery_engine.errors import UpstreamError, UpstreamProtocolError
from discovery_engine.redaction.known_secrets import KNOWN_SECRETS
from discovery_engine.redaction.server_output import OutputRedactor
from discovery_engine.rpc.validity import received
from discovery_engine.runtime.rate_limits import CallQuota, RateLimits
from discovery_engine.secrets.resolver import SecretResolver
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.question import declarable, merged
from discovery_engine.upstream.requests import CALL_TOOL
from discovery_engine.upstream.state import ServerState, StateInfo
from discovery_engine.upstream.stderr_log import StderrLog

if TYPE_CHECKING:
    from discovery_engine.rpc.client import Client, Continuation
    from discovery_engine.rpc.peer import OnProgress
    from discovery_engine.runtime.recorder import Recorder
    from discovery_engine.runtime.server_record import ServerRecorder
    from discovery_engine.tools.offering import OfferingKind
    from discovery_engine.upstream.call import CallObserver
    from discovery_engine.upstream.listing import ListedOfferings, Listing
    from discovery_engine.upstream.open_tasks import OpenTask
    from discovery_engine.upstream.requests import UpstreamRequest
    from discovery_engine.upstream.task import TaskMethod
    from discovery_engine.upstream.upstreams import OnStderr, Upstreams

OnTried: TypeAlias = Callable[[ServerSettings, UpstreamError | None], Awaitable[None]]
"""Called after a request to a server, with its error, or None if it was answered."""

_WORDS = ("statusMessage", "error")
"""Members of a task's state that are errors of the server, or like them."""
_SHARES_NOTHINGS = None, OutputRedactor(frozenset())


class LazyUpstreams:
    """Opens the upstreams in `tasks` on first use and keeps them open."""

    def __init__(
        self,
        tasks: TaskGroup,
        open_upstreams: Callable[[OnStderr], AbstractAsyncContextManager[Upstreams]],
        secrets: SecretResolver,
        rates: RateLimits | None = None,
        recorder: Recorder | None = None,
        on_tried: OnTried | None = None,
        server_recorder: ServerRecorder | None = None,
    ) -> None:
        """`on_tried` is awaited after each request but those that list."""
        self._server_recorder = server_recorder
        self._on_tried = on_tried
        self._tasks = tasks
        self._open_upstreams = open_upstreams
        self._secrets = secrets
        self._rates = rates
        self._recorder = recorder
        self._upstreams: Upstreams | None = None
        self._opening = anyio.Lock()
        self._redactors: dict[ServerName, tuple[object, OutputRedactor]] = {}
        self._stderr_logs: dict[ServerName, StderrLog] = {}
        self._expected: Mapping[str, JSONObject] = {}
        self._live: dict[ServerName, tuple[StateInfo, OutputRedactor, StateInfo]] = {}

    async def list_tools(self, server: ServerSettings) -> Listing:
        """Return the redacted listing of a server; see `Upstreams.list_tools`."""
        redactor = await self._redactor_of(server)
        try:
            listing = await (await self._opened()).list_tools(server)
        except UpstreamError as error:
            (await self._renewed(server, redactor)).redact_error(error)
            raise
        redactor = await self._renewed(server, redactor)
        redacted = await anyio.to_thread.run_sync(_redacted, listing, redactor)
        if self._recorder:
            await self._recorder.record_listing(server.name, redacted)
        return redacted

    async def ping(self, server: ServerSettings) -> float:
        """Return the seconds until a server answered `ping`; see `Upstreams.ping`."""
        async with self._asking(server) as upstreams:
            return await upstreams.ping(server)

    async def send(
        self,
        server: ServerSettings,
        request: UpstreamRequest,
        *,
        caller: Client | None,
        continuation: Continuation | None,
        on_progress: OnProgress | None,
        quota: CallQuota | None,
        observer: CallObserver | None = None,
    ) -> JSONObject:
        """Send a request and return its result in valid form; see `Upstreams.send`.

        It counts against the calls that the server and `quota` allow in a minute.

        Raises:
            RateLimitedError: If the calls of the server or of `quota` are used up. Continuing a
                call is not another call.
        """
        if self._rates and continuation is None:
            self._rates.take(CallQuota.of_server(server), quota)
        try:
            async with self._asking(server) as upstreams:
                result = await upstreams.send(
                    server,
                    request,
                    caller=caller,
                    continuation=continuation,
                    on_progress=on_progress,
                    observer=observer,
                )
        except UpstreamProtocolError as error:
            if self._recorder:
                redactor = await self._redactor_of(server)
                await self._recorder.record(server.name, request, error, redactor)
            raise
        if self._recorder:
            redactor = await self._redactor_of(server)
            await self._recorder.record(server.name, request, result, redactor)
        return await received(request.method, result, uri=request.params.get("uri", ""))

    async def ask_task(
        self,
        server: ServerSettings,
        task: OpenTask,
        method: TaskMethod,
        caller: Client | None,
        responses: JSONObject | None = None,
    ) -> JSONObject:
        """Ask the server of a task about it; see `Upstreams.ask_task`.

        The texts of the server are redacted like those of an error.
        """
        redactor = await self._redactor_of(server)
        async with self._asking(server) as upstreams:
            answer = await upstreams.ask_task(server, task, method, caller, responses)
        if "result" in answer:
            answer = {**answer, "result": await received(CALL_TOOL, answer["result"])}
        return answer | {
            name: redactor.redact_json(answer[name]) for name in _WORDS if name in answer
        }

    def open_task(self, handle: str, *, owner: str | None) -> OpenTask | None:
        """A task that was handed to a client; None if it has none of that handle."""
        return self._upstreams.tasks.get(handle, owner=owner) if self._upstreams else None

    async def watch(self, server: ServerSettings, uri: str) -> None:
        """Watch a resource; see `Upstreams.watch`."""
        async with self._asking(server) as upstreams:
            await upstreams.watch(server, uri)

    def unwatch(self, server: ServerName, uri: str) -> None:
        """Stop watching a resource; see `Upstreams.unwatch`. No-op before the first use."""
        if self._upstreams:
            self._upstreams.unwatch(server, uri)

    async def close(self, server: ServerName) -> None:
        """Close the sessions of a server; see `Upstreams.close`. No-op before the first use."""
        if self._upstreams:
            await self._upstreams.close(server)

    async def close_changed(
        self,
        before: Mapping[ServerName, ServerSettings],
        now: Mapping[ServerName, ServerSettings],
    ) -> None:
        """Close the sessions of servers whose transport changed or that are gone."""
        for name, server in before.items():
            is_same = name in now and now[name].transport == server.transport
            if self._upstreams and not is_same:
                await self._upstreams.close(name)

    def expect(self, capabilities: Mapping[str, JSONObject]) -> None:
        """Declare a client's capabilities to servers from now on; see `Upstreams.expect`."""
        self._expected = merged(self._expected, declarable(capabilities))
        if self._upstreams:
            self._upstreams.expect(capabilities)

    def roots_changed(self, client: Client) -> None:
        """Notify servers of changed roots of a client; no-op before the first use.

        See `Upstreams.roots_changed`.
        """
        if self._upstreams:
            self._upstreams.roots_changed(client)

    def settings_changed(self) -> None:
        """Notify servers of roots that their owner has changed; no-op before the first use.

        See `Upstreams.settings_changed`.
        """
        if self._upstreams:
            self._upstreams.settings_changed()

    def close_client(self, client: str) -> None:
        """Close a client's sessions; see `Upstreams.close_client`. No-op before the first use."""
        if self._upstreams:
            self._upstreams.close_client(client)

    def reset_backoff(self, server: ServerName) -> None:
        """End a server's backoff; see `Upstreams.reset_backoff`. No-op before the first use."""
        if self._upstreams:
            self._upstreams.reset_backoff(server)

    def note_answer(self, server: ServerName) -> None:
        """Use a server again that is down here: it has answered another process."""
        history = self._upstreams.histories.get(server) if self._upstreams else None
        if history and not history.is_ready:
            history.record_success()

    def contacted(self) -> set[ServerName]:
        """The servers used so far."""
        return set(self._upstreams.histories) if self._upstreams else set()

    def live(self, name: ServerName) -> StateInfo | None:
        """The redacted live state of a server; None if it was never used."""
        history = self._upstreams.histories.get(name) if self._upstreams else None
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
        history = self._upstreams.histories.get(name) if self._upstreams else None
        start = history.start if history else None
        if start is None:
            return StateInfo(ServerState.STARTING)
        _, redactor = self._redactors.get(name, _SHARES_NOTHINGS)
        stderr = redactor.redact_stderr(start.stderr)
        return StateInfo(ServerState.STARTING, stderr=stderr, starting_for=start.seconds)

    def states(self) -> Mapping[ServerName, StateInfo]:
        """Return redacted states of servers; see `Upstreams.states`. Empty before the first use."""
        states = self._upstreams.states() if self._upstreams else {}
        return {
            name: _redacted_info(info, self._redactors.get(name, _SHARES_NOTHINGS)[1])
            for name, info in states.items()
        }

    @asynccontextmanager
    async def _asking(self, server: ServerSettings) -> AsyncIterator[Upstreams]:
        """Make one request of a server in the block; its error is redacted."""
        redactor = await self._redactor_of(server)
        try:
            yield await self._opened()
        except UpstreamError as error:
            (await self._renewed(server, redactor)).redact_error(error)
            if self._on_tried:
                await self._on_tried(server, error)
            raise
        if self._on_tried:
            await self._on_tried(server, None)

    async def _opened(self) -> Upstreams:
        if self._upstreams is not None:
            return self._upstreams
        async with self._opening:
            if self._upstreams is None:
                self._upstreams = await self._tasks.start(self._hold)
            return self._upstreams

    async def _hold(self, *, task_status: TaskStatus[Upstreams]) -> None:
        async with self._open_upstreams(self._on_stderr) as upstreams:
            upstreams.expect(self._expected)
            task_status.started(upstreams)
            await anyio.sleep_forever()

    async def _redactor_of(self, server: ServerSettings) -> OutputRedactor:
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

    async def _renewed(self, server: ServerSettings, redactor: OutputRedactor) -> OutputRedactor:
        """The redactor once more, if values were read or commands run since it was made."""
        return redactor if redactor.is_stable else await self._redactor_of(server)

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
