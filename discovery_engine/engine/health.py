"""The health of every server: reports of the view with live counters, and probes of each now."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.engine.gateway_reports import matching, with_observations
from discovery_engine.errors import DiscoveryError, UpstreamError, UpstreamTimeoutError
from discovery_engine.rpc.messages import RequestTimeout
from discovery_engine.rpc.request_timer import RequestTimeLimit
from discovery_engine.store.call_log.log_entry import Actor, LogEntry
from discovery_engine.store.call_log.log_tables import CallLogError
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.state import ServerState, StateInfo
from discovery_engine.view.status import Observation, ServerReport
from discovery_engine.view.view import View

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.engine.catalog_state import CatalogState
    from discovery_engine.engine.upstreams import Upstreams
    from discovery_engine.store.call_log.call_log import CallLog


def health(
    view: View,
    states: Mapping[ServerName, StateInfo] = MappingProxyType({}),
    *,
    now: float,
    observed: Mapping[ServerName, Sequence[Observation]] = MappingProxyType({}),
) -> tuple[ServerReport, ...]:
    """A report of every configured server, in the order of names.

    Args:
        view: The snapshot to report on.
        states: The live states of the upstreams of this process.
        now: Unix time in seconds.
        observed: The observations of running gateways; the worst counts.
    """
    view = with_observations(view, observed)
    reports = (_with_state(report, states.get(report.name), now) for report in view.servers())
    return tuple(
        _with_gateways(report, matching(view, report.name, observed)) if observed else report
        for report in reports
    )


def unhealthy(reports: Iterable[ServerReport]) -> list[ServerReport]:
    """Return the reports of the servers that the owner has to do something about."""
    return [report for report in reports if report.has_problem]


def _with_state(report: ServerReport, live: StateInfo | None, now: float) -> ServerReport:
    next_try = live.next_try if live else None
    return replace(
        report,
        since=_since(report, live, now),
        stats=live.stats if live else None,
        next_try=None if next_try is None else now + next_try,
    )


def _with_gateways(report: ServerReport, observations: Sequence[Observation]) -> ServerReport:
    if not observations:
        return report
    worst = observations[0]
    has_its_state = worst.status == report.state
    return replace(
        report,
        gateways=tuple(observations),
        since=worst.since if has_its_state and worst.since is not None else report.since,
        next_try=report.next_try or worst.next_try,
    )


def _since(report: ServerReport, live: StateInfo | None, now: float) -> float | None:
    begun = []
    if live and live.state is report.state:
        begun.append(now - live.seconds)
    is_failure = not report.is_healthy and report.state is not ServerState.UNTRUSTED
    if report.failure and is_failure:
        begun.append(report.failure.since)
    if report.state is ServerState.IDLE and not begun:
        return report.listed_at
    return min(begun, default=None)


# A server that does not answer in time goes on starting; nothing is ended because it was probed.

USUAL_WAIT = 10.0  # seconds


class ProbeResult(Struct, frozen=True):
    """The answer of a server to a probe."""

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
