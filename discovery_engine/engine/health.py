"""The health of every server: the reports of the view, with live counters and gateways."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from msgspec.structs import replace

from discovery_engine.engine.gateway_reports import matching, with_observations
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.state import ServerState, StateInfo
from discovery_engine.view.status import Observation, ServerReport
from discovery_engine.view.view import View


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


def _with_gateways(report: ServerReport, found: Sequence[Observation]) -> ServerReport:
    if not found:
        return report
    worst = found[0]
    has_its_state = worst.status == report.state
    return replace(
        report,
        gateways=tuple(found),
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
