"""The metrics of a gateway in the text formats of Prometheus.

They count since this process began, as Prometheus expects. The number of series is bounded: of the
tools that were called most each has its own, all others of a server share one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from discovery_engine._util.version import __version__
from discovery_engine.store.call_log.tally import Tally

if TYPE_CHECKING:
    from discovery_engine.engine.owner.fleet import FleetStatus
    from discovery_engine.store.availability import RegistryHealth
    from discovery_engine.store.call_log.call_log import CallLog
    from discovery_engine.store.webhooks import WebhookState
    from discovery_engine.view.status import ServerReport

_MAX_TOOL_SERIES = 500  # tools with series of their own: some 10,000 lines
_UNKNOWN = "(unknown)"
_OTHERS = "(others)"
_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0)
"""Seconds; each is the bound of a bucket of `Tally`."""


def exposition(
    log: CallLog,
    reports: Iterable[ServerReport],
    accepted: str,
    health: RegistryHealth | None = None,
    fleet: FleetStatus | None = None,
    webhooks: Sequence[WebhookState] = (),
) -> tuple[bytes, str]:
    """The metrics, and their media type; `accepted` is the header `Accept` of the scraper."""
    registry = CollectorRegistry()
    registry.register(_Metrics(log, reports, health, fleet, webhooks))
    ProcessCollector(registry=registry)
    encode, media_type = choose_encoder(accepted)
    return encode(registry), media_type


class _Metrics(Collector):
    def __init__(
        self,
        log: CallLog,
        reports: Iterable[ServerReport],
        health: RegistryHealth | None,
        fleet: FleetStatus | None,
        webhooks: Sequence[WebhookState],
    ) -> None:
        self._log = log
        self._reports = tuple(reports)
        self._health = health
        self._fleet = fleet
        self._webhooks = webhooks

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily("discovery_build", "The gateway", {"version": __version__})
        tallies = _bounded(self._log.tallies())
        yield _calls(tallies)
        yield _durations(tallies)
        yield _queues(tallies)
        yield from _servers(self._reports)
        dropped = "Entries of the call log that could not be written"
        yield CounterMetricFamily("discovery_call_log_dropped", dropped, self._log.dropped)
        if self._health:
            yield from _registry(self._health)
        if self._fleet:
            yield from _jobs(self._fleet)
        if self._webhooks:
            yield from _deliveries(self._webhooks)


def _registry(health: RegistryHealth) -> Iterator[Metric]:
    up = "1 if the database of the registry answers, otherwise 0"
    yield GaugeMetricFamily("discovery_registry_up", up, float(health.error is None))
    waiting = "Writes that wait for the database of the registry"
    yield GaugeMetricFamily("discovery_registry_outbox_writes", waiting, health.waiting)
    set_aside = (
        "Those of them that the database, though it answers, did not make in time or refused"
    )
    yield GaugeMetricFamily("discovery_registry_outbox_set_aside", set_aside, health.set_aside)
    dropped = "Writes for the registry that did not fit, or that it refused"
    yield CounterMetricFamily("discovery_registry_outbox_dropped", dropped, health.dropped)


def _jobs(fleet: FleetStatus) -> Iterator[Metric]:
    jobs = GaugeMetricFamily(
        "discovery_fleet_jobs", "Servers in the refresh queue of workers", labels=("state",)
    )
    for state, count in fleet.counts.items():
        jobs.add_metric((state,), count)
    yield jobs
    overdue = "Seconds that the server waits which has waited longest for a worker; 0 if none does"
    yield GaugeMetricFamily("discovery_fleet_oldest_due_seconds", overdue, fleet.seconds_overdue)
    behind = "Gateways on which a decision of the owner is not in force yet"
    yield GaugeMetricFamily("discovery_fleet_gateways_behind", behind, fleet.gateways_behind)
    vectors = "Vectors that are kept for tools"
    yield GaugeMetricFamily("discovery_fleet_embeddings", vectors, fleet.embedding_count)


def _deliveries(webhooks: Sequence[WebhookState]) -> Iterator[Metric]:
    stored = GaugeMetricFamily(
        "discovery_webhook_deliveries",
        "Events that wait for a webhook, and those that are dead",
        labels=("webhook", "state"),
    )
    delivered = CounterMetricFamily(
        "discovery_webhook_delivered", "Events that a webhook accepted", labels=("webhook",)
    )
    dropped = CounterMetricFamily(
        "discovery_webhook_dropped", "Events dropped: too many waited", labels=("webhook",)
    )
    for webhook in webhooks:
        stored.add_metric((webhook.name, "pending"), webhook.pending)
        stored.add_metric((webhook.name, "dead"), webhook.dead)
        delivered.add_metric((webhook.name,), webhook.delivered)
        dropped.add_metric((webhook.name,), webhook.dropped)
    yield from (stored, delivered, dropped)


def _calls(tallies: Mapping[tuple[str, str], Tally]) -> Metric:
    family = CounterMetricFamily(
        "discovery_calls",
        "Calls of tools, resources that were read and prompts that were got, by their outcome",
        labels=("server", "tool", "outcome"),
    )
    for (server, tool), tally in tallies.items():
        for outcome, count in sorted(tally.outcomes.copy().items()):
            family.add_metric((server, tool, outcome), count)
    return family


def _durations(tallies: Mapping[tuple[str, str], Tally]) -> Metric:
    family = HistogramMetricFamily(
        "discovery_call_duration_seconds",
        "How long calls took, from the client's request to the result",
        labels=("server", "tool"),
    )
    for names, tally in tallies.items():
        counted = Tally(buckets=tally.buckets.copy())  # it may be counted on meanwhile
        buckets = [(str(bound), float(counted.within(bound))) for bound in _BOUNDS]
        buckets.append(("+Inf", float(sum(counted.buckets.values()))))
        family.add_metric(names, buckets, tally.seconds)
    return family


def _queues(tallies: Mapping[tuple[str, str], Tally]) -> Metric:
    family = CounterMetricFamily(
        "discovery_call_queue_seconds",
        "Seconds that calls have waited for other calls to their server",
        labels=("server",),
    )
    by_server: Counter[str] = Counter()
    for (server, _), tally in tallies.items():
        by_server[server] += tally.queue_seconds  # type: ignore[assignment]
    for server, seconds in sorted(by_server.items()):
        family.add_metric((server,), seconds)
    return family


def _servers(reports: Iterable[ServerReport]) -> Iterator[Metric]:
    healthy = GaugeMetricFamily(
        "discovery_server_healthy",
        "1 for a server without a problem, otherwise 0; its state is a label",
        labels=("server", "state"),
    )
    tools = GaugeMetricFamily(
        "discovery_server_tools", "Enabled tools of a server", labels=("server",)
    )
    for report in reports:
        if report.state != "disabled":
            healthy.add_metric((report.name, str(report.state)), float(report.is_healthy))
            tools.add_metric((report.name,), report.enabled_count)
    yield healthy
    yield tools


def _bounded(tallies: Mapping[tuple[str, str], Tally]) -> dict[tuple[str, str], Tally]:
    """The tallies of the tools that were called most, and one for the others of each server."""
    busiest = sorted(tallies, key=lambda names: (-tallies[names].calls, names))
    chosen = {_shown(names): tallies[names] for names in sorted(busiest[:_MAX_TOOL_SERIES])}
    for server, tool in busiest[_MAX_TOOL_SERIES:]:
        chosen.setdefault((server or _UNKNOWN, _OTHERS), Tally()).add(tallies[server, tool])
    return chosen


def _shown(names: tuple[str, str]) -> tuple[str, str]:
    server, tool = names
    return server or _UNKNOWN, tool or _UNKNOWN
