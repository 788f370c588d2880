"""Probes servers: whether each answers now, and how fast.

A server that does not answer in time goes on starting; nothing is ended because it was probed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct

from discovery_engine.errors import DiscoveryError, UpstreamError, UpstreamTimeoutError
from discovery_engine.rpc.messages import RequestTimeout
from discovery_engine.rpc.request_timer import RequestTimeLimit
from discovery_engine.store.call_log.log_entry import Actor, LogEntry
from discovery_engine.store.call_log.log_tables import CallLogError

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.engine.catalog_state import CatalogState
    from discovery_engine.engine.upstreams import Upstreams
    from discovery_engine.store.call_log.call_log import CallLog
    from discovery_engine.tools.model import ServerName

USUAL_WAIT = 10.0  # seconds


class ProbeResult(Struct, frozen=True):
    """How a server has answered."""

    server: ServerName
    seconds: float | None = None
    """From the request to the answer, without the time of connecting; None without an answer."""
    code: str = ""
    """The code of the error; empty if the server has answered."""
    error: str = ""
    hint: str = ""

    @property
    def is_healthy(self) -> bool:
        return not self.code

    def to_json(self) -> JSONObject:
        return {
            "server": self.server,
            "status": "healthy" if self.is_healthy else "unhealthy",
            "latency_ms": None if self.seconds is None else round(self.seconds * 1000, 3),
            "error": self.error or None,
            "code": self.code or None,
        }


class ServerProber:
    """`complete` is awaited before the settings of a server are used."""

    def __init__(
        self,
        current: CatalogState,
        upstreams: Upstreams,
        log: CallLog,
        actor: Actor,
        *,
        complete: Callable[[], Awaitable[None]],
    ) -> None:
        self._current = current
        self._upstreams = upstreams
        self._log = log
        self._actor: Actor = actor
        self._complete = complete

    async def probe(
        self, servers: Iterable[str] | None, *, max_wait: float
    ) -> tuple[ProbeResult, ...]:
        """Return whether servers answer now, and how fast; see `Engine.probe`."""
        await self._complete()
        view = self._current.view
        names = (
            view.connectable
            if servers is None
            else [view.require_connectable(name).name for name in servers]
        )
        results: dict[ServerName, ProbeResult] = {}

        async def probe(name: ServerName) -> None:
            results[name] = await self._probed(name, max_wait)

        async with anyio.create_task_group() as tasks:
            for name in names:
                tasks.start_soon(probe, name)
        for result in results.values():
            await self._record(result)
        return tuple(results[name] for name in names)

    async def _probed(self, name: ServerName, max_wait: float) -> ProbeResult:
        try:
            server = self._current.view.require_connectable(name)
            with RequestTimeLimit(RequestTimeout(max_wait)):
                return ProbeResult(name, await self._upstreams.ping(server))
        except TimeoutError:
            error = f"it did not answer within {max_wait:g} s"
            hint = "`discovery health --probe --timeout 60` waits longer"
            return ProbeResult(name, None, UpstreamTimeoutError.code, error, hint)
        except UpstreamError as failure:
            reason = getattr(failure, "reason", "") or failure.message
            return ProbeResult(name, None, failure.code, reason, failure.hint)
        except DiscoveryError as failure:
            return ProbeResult(name, None, failure.code, failure.message, failure.hint)

    async def _record(self, result: ProbeResult) -> None:
        self._log.record(
            LogEntry(
                self._log.now(),
                "ping",
                result.server,
                "ping",
                result.code or "ok",
                result.seconds or 0.0,
                by=self._actor,
            ),
            result={"error": result.error} if result.error else None,
        )
        if result.is_healthy:
            try:
                await self._log.reset_errors(result.server)
            except CallLogError:  # reported by the writer of the log
                return
