"""Routes of the gateway itself: its configuration, log, counts, queue, webhooks and cache."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import anyio.to_thread
from msgspec import Meta, Struct, to_builtins

from discovery_engine._util.json import JSONObject
from discovery_engine._util.version import __version__
from discovery_engine.config.serialization import serialize_redacted
from discovery_engine.engine.json_forms.catalog_forms import notice_forms
from discovery_engine.engine.json_forms.error_form import problem_form
from discovery_engine.engine.json_forms.owner_forms import (
    cache_form,
    fleet_form,
    reindex_form,
    webhook_test_form,
    webhooks_form,
)
from discovery_engine.engine.owner.fleet import JOB_STATES, attention
from discovery_engine.store.call_log.log_entry import EntryKind, LogFilter
from discovery_engine.store.call_log.timeline import MOST_SPANS, shortest_step
from discovery_engine.store.refresh_job import JobState
from discovery_server.api.paging import Limit, PageQuery, page
from discovery_server.api.route import ApiRequest, Nothing, RequestError, Routes

routes = Routes()


class Status(Struct, frozen=True):
    version: str
    revision: Annotated[int, Meta(description="That of the catalog; it grows with each change.")]
    server_count: int
    tool_count: int
    enabled_count: int
    is_shared: Annotated[bool, Meta(description="True if gateways share the registry.")]
    notices: list[JSONObject]


class ViewForm(Struct, frozen=True):
    name: str
    settings: Annotated[JSONObject, Meta(description="Those that it has of its own.")]
    servers: Annotated[list[str], Meta(description="Those that it shows.")]


class Views(Struct, frozen=True):
    views: list[ViewForm]
    principals: Annotated[
        list[str], Meta(description="Teams and users that servers or tools are reserved for.")
    ]


class Configuration(Struct, frozen=True):
    path: str | None
    configuration: Annotated[JSONObject, Meta(description="Secrets are redacted.")]
    problems: list[JSONObject]
    warnings: list[JSONObject]


@routes("GET", "/status", scope="read")
async def status(request: ApiRequest[Nothing]) -> Status:
    """Show what is known, in numbers."""
    view = request.engine.view
    servers = view.servers()
    return Status(
        version=__version__,
        revision=view.catalog.revision,
        server_count=len(servers),
        tool_count=sum(server.tool_count for server in servers),
        enabled_count=sum(server.enabled_count for server in servers),
        is_shared=request.owner.gateway_store is not None,
        notices=notice_forms(view.general_notices()),
    )


@routes("GET", "/views")
async def views(request: ApiRequest[Nothing]) -> Views:
    """List the views, with the servers that each one shows."""
    owner = request.owner
    own = serialize_redacted(owner.settings)["views"]
    forms = {
        view.name: [str(server.name) for server in owner.in_view(view.name).view.servers()]
        for view in owner.settings.views
    }
    listed = [ViewForm(name, own.get(name, {}), names) for name, names in forms.items()]
    return Views(listed, sorted(owner.settings.principals))


@routes("GET", "/configuration")
async def configuration(request: ApiRequest[Nothing]) -> Configuration:
    """Show the configuration in force."""
    await request.owner.complete_settings()
    settings, view = request.owner.settings, request.owner.view
    broken = [server.problem for server in settings.servers if server.problem]
    rejected = view.rejection.problems if view.rejection else ()
    return Configuration(
        path=settings.path,
        configuration=serialize_redacted(settings),
        problems=[problem_form(problem) for problem in (*rejected, *broken)],
        warnings=[problem_form(warning) for warning in settings.warnings if warning not in broken],
    )


@routes("POST", "/reload")
async def reload(request: ApiRequest[Nothing]) -> Configuration:
    """Read the configuration again."""
    await request.owner.reload()
    return await configuration(request)


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
    text: Annotated[
        str, Meta(max_length=200, description="In client, tool, arguments or result.")
    ] = ""
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


class CallsOfProcesses(Struct, frozen=True):
    calls: Annotated[
        list[JSONObject],
        Meta(description="The oldest first; with `question` where one waits for its client."),
    ]


class ErrorsReset(Struct, frozen=True, forbid_unknown_fields=True):
    server: str | None = None


class MetricsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    server: str | None = None
    minutes: (
        Annotated[
            int, Meta(ge=1, le=_MOST_MINUTES, description="With a timeline of these until now.")
        ]
        | None
    ) = None
    step: Annotated[int, Meta(ge=1, le=_MOST_MINUTES, description="Minutes of a span.")] = 1


class CallTimeline(Struct, frozen=True):
    is_kept: Annotated[
        bool,
        Meta(description="Whether the log is on; without it nothing is counted by the minute."),
    ]
    step: Annotated[int, Meta(description="Seconds of a span.")]
    total: JSONObject
    spans: Annotated[list[JSONObject], Meta(description="The oldest first; empty ones, too.")]


class Metrics(Struct, frozen=True):
    servers: list[JSONObject]
    timeline: CallTimeline | None


class Cleared(Struct, frozen=True):
    cleared: Annotated[int, Meta(description="Entries.")]


@routes("GET", "/logs")
async def logs(request: ApiRequest[LogQuery]) -> LogPage:
    """Show what was called."""
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


@routes("GET", "/logs/running")
async def running_everywhere(request: ApiRequest[Nothing]) -> CallsOfProcesses:
    """List the calls of all processes that have run for a second or more."""
    calls = await request.owner.call_log.running()
    return CallsOfProcesses([to_builtins(call) for call in calls])


@routes("DELETE", "/logs")
async def clear_logs(request: ApiRequest[Nothing]) -> Cleared:
    """Delete the log."""
    return Cleared(await request.owner.call_log.clear())


@routes("GET", "/metrics")
async def metrics(request: ApiRequest[MetricsQuery]) -> Metrics:
    """Count calls, with `minutes` also by spans of time."""
    query = request.asked
    timeline = None if query.minutes is None else await _timeline(request, query.minutes)
    return Metrics(await _counts(request, query.server), timeline)


async def _counts(request: ApiRequest[Any], server: str | None) -> list[JSONObject]:
    return [row.to_json() for row in await request.owner.metrics(server)]


async def _timeline(request: ApiRequest[MetricsQuery], minutes: int) -> CallTimeline:
    query, log = request.asked, request.owner.call_log
    if (least := shortest_step(minutes)) > query.step:
        hint = f"pass a `step` of at least {least}"
        raise RequestError(422, f"these are more than {MOST_SPANS:,} spans", hint=hint)
    step = query.step * 60
    history = await log.recent_timeline(minutes * 60, step=step, server=query.server)
    spans = [span.to_json() for span in history.spans]
    return CallTimeline(log.is_kept, step, history.total.to_json(), spans)


@routes("POST", "/metrics/reset")
async def reset_errors(request: ApiRequest[ErrorsReset]) -> Metrics:
    """Count errors from zero."""
    server = request.asked.server
    await request.owner.call_log.reset_errors(server)
    return Metrics(await _counts(request, server), None)


class FleetServers(Struct, frozen=True, forbid_unknown_fields=True):
    action: Annotated[
        Literal["refresh", "retry"],
        Meta(description="List them now, or try again those that failed."),
    ]
    servers: Annotated[
        list[str] | None, Meta(description="Which; all that it can concern without it.")
    ] = None


class FleetAnswer(Struct, frozen=True):
    servers: Annotated[list[str], Meta(description="Those that workers will list now.")]


class FleetQuery(PageQuery, frozen=True, forbid_unknown_fields=True):
    state: Annotated[tuple[JobState, ...], Meta(description="Only servers in these states.")] = ()


@routes("GET", "/fleet")
async def fleet(request: ApiRequest[FleetQuery]) -> JSONObject:
    """Show the refresh queue of workers."""
    query, status = request.asked, await request.owner.fleet.status()
    jobs, cursor = page(
        status.ordered(query.state or JOB_STATES),
        lambda job: (str(attention(job)[0]), job.server),
        query.cursor,
        query.limit,
    )
    return fleet_form(status, jobs) | {"next_cursor": cursor}


@routes("POST", "/fleet")
async def ask_fleet(request: ApiRequest[FleetServers]) -> FleetAnswer:
    """Have workers list servers now, or try again those that failed."""
    body, fleet = request.asked, request.owner.fleet
    ask = fleet.retry if body.action == "retry" else fleet.refresh
    return FleetAnswer([*await ask(body.servers)])


class WebhookAction(Struct, frozen=True, forbid_unknown_fields=True):
    action: Annotated[
        Literal["test", "retry"],
        Meta(description="Send a signed test message, or dead deliveries again."),
    ]
    names: Annotated[
        list[str] | None, Meta(description="Of which webhooks; of all without it.")
    ] = None


class WebhookAnswer(Struct, frozen=True):
    tests: Annotated[list[JSONObject], Meta(description="How each receiver answered.")]
    retried: Annotated[int, Meta(description="How many dead deliveries are sent again now.")]


@routes("GET", "/webhooks")
async def webhooks(request: ApiRequest[Nothing]) -> JSONObject:
    """Show webhooks, and what waits for each."""
    hooks = request.owner.webhooks
    return webhooks_form(await hooks.list(), await hooks.refusal())


@routes("POST", "/webhooks")
async def send_webhooks(request: ApiRequest[WebhookAction]) -> WebhookAnswer:
    """Send a test message to webhooks, or their dead deliveries again."""
    body, hooks = request.asked, request.owner.webhooks
    if body.action == "retry":
        return WebhookAnswer([], await hooks.retry(body.names))
    names = body.names
    if names is None:
        names = [hook.name for hook in request.owner.settings.webhooks]
    return WebhookAnswer([webhook_test_form(await hooks.test(name)) for name in names], 0)


class Forget(Struct, frozen=True, forbid_unknown_fields=True):
    server: Annotated[tuple[str, ...], Meta(description="Which; all without one.")] = ()


class Forgotten(Struct, frozen=True):
    forgotten: Annotated[int, Meta(description="Tools.")]


@routes("GET", "/cache")
async def cache(request: ApiRequest[Nothing]) -> JSONObject:
    """Show what is remembered of servers."""
    owner = request.owner
    path, now = owner.registry_file, owner.call_log.now()
    return await anyio.to_thread.run_sync(cache_form, owner.view, path, now)


@routes("DELETE", "/cache")
async def clear_cache(request: ApiRequest[Forget]) -> Forgotten:
    """Forget the tools of servers, which are listed again when needed."""
    return Forgotten(await request.owner.forget(request.asked.server or None))


@routes("POST", "/cache/reindex")
async def reindex(request: ApiRequest[Nothing]) -> JSONObject:
    """Make the search index and the vectors of all tools anew."""
    return reindex_form(await request.owner.reindex())
