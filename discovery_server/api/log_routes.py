"""Routes of what was called: entries of the log, and counts."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from discovery_engine._util.json import JSONObject
from discovery_engine.call_log.log_entry import EntryKind, LogFilter
from discovery_engine.call_log.timeline import MOST_SPANS, shortest_step
from discovery_server.api.paging import Limit
from discovery_server.api.route import ApiRequest, ApiRoute, Nothing, RequestError

_LAST_ID = 2**63 - 1  # of SQLite
_MOST_MINUTES = 8 * 24 * 60


class LogQuery(Struct, frozen=True, forbid_unknown_fields=True):
    server: tuple[str, ...] = ()
    tool: tuple[str, ...] = ()
    kind: tuple[EntryKind, ...] = ()
    status: Annotated[
        tuple[str, ...], Meta(description="`ok`, `error`, or an outcome; any of several.")
    ] = ()
    since: Annotated[float | None, Meta(description="Unix time in seconds.")] = None
    until: Annotated[float | None, Meta(description="Unix time in seconds.")] = None
    text: Annotated[str, Meta(max_length=200, description="In tool, arguments or result.")] = ""
    before: (
        Annotated[
            int,
            Meta(ge=1, le=_LAST_ID, description="The id of the oldest entry that is shown."),
        ]
        | None
    ) = None
    limit: Limit = 100
    total: Annotated[bool, Meta(description="Also how many there are on all pages.")] = False


class LogPage(Struct, frozen=True):
    entries: Annotated[list[JSONObject], Meta(description="The newest ones, the newest last.")]
    next_before: Annotated[
        int | None, Meta(description="`before` of the page behind it; null behind the last.")
    ]
    total: Annotated[int | None, Meta(description="On all pages; null if it was not asked for.")]


class MetricsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    server: str | None = None


class Metrics(Struct, frozen=True):
    servers: list[JSONObject]


class TimelineQuery(Struct, frozen=True, forbid_unknown_fields=True):
    minutes: Annotated[int, Meta(ge=1, le=_MOST_MINUTES, description="Until now.")] = 60
    step: Annotated[int, Meta(ge=1, le=_MOST_MINUTES, description="Minutes of a span.")] = 1
    server: str | None = None


class CallTimeline(Struct, frozen=True):
    is_kept: Annotated[
        bool,
        Meta(description="Whether the log is on; without it nothing is counted by the minute."),
    ]
    step: Annotated[int, Meta(description="Seconds of a span.")]
    total: JSONObject
    spans: Annotated[list[JSONObject], Meta(description="The oldest first; empty ones, too.")]


class Cleared(Struct, frozen=True):
    cleared: Annotated[int, Meta(description="Entries.")]


async def logs(request: ApiRequest[LogQuery]) -> LogPage:
    query = request.asked
    chosen = LogFilter(
        servers=query.server,
        tools=query.tool,
        kinds=query.kind,
        statuses=query.status,
        since=query.since,
        until=query.until,
        text=query.text,
    )
    log = request.owner.call_log
    entries = await log.entries(chosen, limit=query.limit + 1, before=query.before)
    page_entries = entries[-query.limit :]
    following = page_entries[0].id if len(entries) > len(page_entries) else None
    total = await log.count(chosen) if query.total else None
    return LogPage([entry.to_json() for entry in page_entries], following, total)


async def clear_logs(request: ApiRequest[Nothing]) -> Cleared:
    return Cleared(await request.owner.call_log.clear())


async def metrics(request: ApiRequest[MetricsQuery]) -> Metrics:
    rows = await request.owner.metrics(request.asked.server)
    return Metrics([row.to_json() for row in rows])


async def timeline(request: ApiRequest[TimelineQuery]) -> CallTimeline:
    query, log = request.asked, request.owner.call_log
    if (least := shortest_step(query.minutes)) > query.step:
        hint = f"pass a `step` of at least {least}"
        raise RequestError(422, f"these are more than {MOST_SPANS:,} spans", hint=hint)
    step = query.step * 60
    history = await log.recent_timeline(query.minutes * 60, step=step, server=query.server)
    spans = [span.to_json() for span in history.spans]
    return CallTimeline(log.is_kept, step, history.total.to_json(), spans)


async def reset_errors(request: ApiRequest[MetricsQuery]) -> Metrics:
    await request.owner.call_log.reset_errors(request.asked.server)
    return await metrics(request)


ROUTES = (
    ApiRoute("GET", "/logs", "Show what was called", logs, LogQuery, LogPage, scope="admin"),
    ApiRoute("DELETE", "/logs", "Delete the log", clear_logs, answer=Cleared, scope="admin"),
    ApiRoute("GET", "/metrics", "Count calls", metrics, MetricsQuery, Metrics, scope="admin"),
    ApiRoute(
        "GET",
        "/metrics/timeline",
        "Count calls by spans of time",
        timeline,
        TimelineQuery,
        CallTimeline,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        "/metrics/reset",
        "Count errors from zero",
        reset_errors,
        MetricsQuery,
        Metrics,
        scope="admin",
    ),
)
