"""The upstreams as the engine uses them: opened with the first use, and spoken of in confidence.

Whatever a server says of its own failure may hold the values that it was given; they are hidden
before anybody else reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup, TaskStatus
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine.config.settings import ServerSettings
from discovery_engine.errors import UpstreamError
from discovery_engine.redaction.known_secrets import KNOWN_SECRETS
from discovery_engine.redaction.server_output import OutputRedactor
from discovery_engine.secrets.resolver import SecretResolver
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.state import Condition
from discovery_engine.upstream.stderr_log import StderrLog
from discovery_engine.view.status import Live, ServerStatus

if TYPE_CHECKING:
    from discovery_engine.upstream.listing import Listing
    from discovery_engine.upstream.sessions import OnProgress, OnStderr, Upstreams

_NOTHING_KNOWN = None, OutputRedactor(frozenset())


class LazyUpstreams:
    """Made with a task group, in which the upstreams are held once they are opened."""

    def __init__(
        self,
        tasks: TaskGroup,
        open_upstreams: Callable[[OnStderr], AbstractAsyncContextManager[Upstreams]],
        secrets: SecretResolver,
    ) -> None:
        self._tasks = tasks
        self._open_upstreams = open_upstreams
        self._secrets = secrets
        self._upstreams: Upstreams | None = None
        self._opening = anyio.Lock()
        self._redactors: dict[ServerName, tuple[object, OutputRedactor]] = {}
        self._stderr_logs: dict[ServerName, StderrLog] = {}
        self._live: dict[ServerName, tuple[Live, OutputRedactor, Live]] = {}

    async def list_tools(self, server: ServerSettings) -> Listing:
        """As `Upstreams.list_tools`."""
        redactor = await self._confidential_of(server)
        try:
            listing = await (await self._opened()).list_tools(server)
        except UpstreamError as error:
            redactor.redact_error(error)
            raise
        return await anyio.to_thread.run_sync(_redacted, listing, redactor)

    async def call(
        self,
        server: ServerSettings,
        tool: str,
        arguments: JSONObject,
        *,
        client: str | None,
        on_progress: OnProgress | None,
    ) -> JSONObject:
        """As `Upstreams.call`."""
        redactor = await self._confidential_of(server)
        try:
            upstreams = await self._opened()
            return await upstreams.call(
                server, tool, arguments, client=client, on_progress=on_progress
            )
        except UpstreamError as error:
            redactor.redact_error(error)
            raise

    async def close_unlike(
        self,
        before: Mapping[ServerName, ServerSettings],
        now: Mapping[ServerName, ServerSettings],
    ) -> None:
        """End the sessions of servers that are not to be reached as before; no-op if none is."""
        for name, server in before.items():
            is_same = name in now and now[name].transport == server.transport
            if self._upstreams and not is_same:
                await self._upstreams.close(name)

    def close_client(self, client: str) -> None:
        """As `Upstreams.close_client`; no-op before the first use."""
        if self._upstreams:
            self._upstreams.close_client(client)

    def reset_backoff(self, server: ServerName) -> None:
        """As `Upstreams.insist`; no-op before the first use."""
        if self._upstreams:
            self._upstreams.reset_backoff(server)

    def contacted(self) -> set[ServerName]:
        """The servers that were ever asked for anything."""
        return set(self._upstreams.histories) if self._upstreams else set()

    def live(self, name: ServerName) -> Live | None:
        """How one server fares; None if it was never asked for anything.

        Redacted anew only when there is something new to redact: every search asks.
        """
        record = self._upstreams.histories.get(name) if self._upstreams else None
        if record is None:
            return None
        _, redactor = self._redactors.get(name, _NOTHING_KNOWN)
        raw = Live.of(record.state, record.reason, record.stderr, record.detail)
        known, of, shown = self._live.get(name, (None, None, None))
        if known != raw or of is not redactor or shown is None:
            shown = replace(
                raw,
                reason=redactor.redact(raw.reason),
                detail=redactor.redact(raw.detail),
                stderr=redactor.redact_stderr(raw.stderr),
            )
            self._live[name] = raw, redactor, shown
        return shown

    def startup(self, name: ServerName) -> Live:
        """How far a server is that is being started or listed."""
        record = self._upstreams.histories.get(name) if self._upstreams else None
        start = record.start if record else None
        if start is None:
            return Live(ServerStatus.STARTING)
        _, redactor = self._redactors.get(name, _NOTHING_KNOWN)
        written = redactor.redact_stderr(start.stderr)
        return Live(ServerStatus.STARTING, stderr=written, seconds=start.seconds)

    def conditions(self) -> Mapping[ServerName, Condition]:
        """As `Upstreams.conditions`; empty before the first use."""
        conditions = self._upstreams.conditions() if self._upstreams else {}
        return {name: self._in_confidence(name, one) for name, one in conditions.items()}

    async def _opened(self) -> Upstreams:
        async with self._opening:
            if self._upstreams is None:
                self._upstreams = await self._tasks.start(self._hold)
            return self._upstreams

    async def _hold(self, *, task_status: TaskStatus[Upstreams]) -> None:
        async with self._open_upstreams(self._on_stderr) as upstreams:
            task_status.started(upstreams)
            await anyio.sleep_forever()

    async def _confidential_of(self, server: ServerSettings) -> OutputRedactor:
        transport, known = self._redactors.get(server.name, _NOTHING_KNOWN)
        if transport == server.transport and known.is_stable:
            return known
        found = await anyio.to_thread.run_sync(OutputRedactor.for_server, server, self._secrets)
        KNOWN_SECRETS.add(found.values, found.certain)
        found = found.including(known)
        self._redactors[server.name] = server.transport, found
        return found

    def _on_stderr(self, name: ServerName, lines: Sequence[str]) -> None:
        if (log := self._stderr_logs.get(name)) is None:
            log = self._stderr_logs[name] = StderrLog(name)
        _, redactor = self._redactors.get(name, _NOTHING_KNOWN)
        log.write(lines, redactor.redact)

    def _in_confidence(self, name: ServerName, condition: Condition) -> Condition:
        _, redactor = self._redactors.get(name, _NOTHING_KNOWN)
        return replace(
            condition,
            reason=redactor.redact(condition.reason),
            detail=redactor.redact(condition.detail),
            stderr=redactor.redact_stderr(condition.stderr),
            samples=tuple(map(redactor.redact_stderr, condition.samples)),
        )


def _redacted(listing: Listing, redactor: OutputRedactor) -> Listing:
    """A listing without the secrets that its server was given; a tool keeps its name."""
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
        dropped=tuple(replace(one, reason=redactor.redact(one.reason)) for one in listing.dropped),
    )
