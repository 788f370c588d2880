"""`discovery fleet`: the refresh queue of servers, and workers that list them."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING, get_args

import click

from discovery_cli.command_group import Group
from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation
from discovery_cli.log_output import logged
from discovery_cli.options import complete_server, pass_invocation
from discovery_cli.output import Cell, Output
from discovery_cli.rendering import say_not_embedded, say_refusals
from discovery_engine._util.quantities import ago, counted
from discovery_engine._util.text import one_line, visible
from discovery_engine.engine.json_forms.owner_forms import fleet_form
from discovery_engine.errors import RegistryError, plain_reason
from discovery_engine.store import schedule
from discovery_engine.store.refresh_job import JobState

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.config.settings import ServerSettings
    from discovery_engine.engine import Engine
    from discovery_engine.engine.owner.fleet import FleetStatus
    from discovery_engine.engine.refresh_worker import Outcome, WorkerOptions, WorkerReport
    from discovery_engine.errors import UntrustedServerError
    from discovery_engine.store.refresh_job import RefreshJob
    from discovery_engine.tools.model import ServerName

_STATES = get_args(JobState)
_SHOWN = 100  # servers
_HEADS = ("SERVER", "STATE", "TOOLS", "LISTED", "DUE", "WORKER", "REASON")


@click.group("fleet", cls=Group)
def command() -> None:
    """Run workers that list servers, and manage their queue.

    Any number of workers can share a queue.

    \b
      discovery fleet worker --once
      discovery fleet status
    """


@command.command("status")
@click.option(
    "--state", "states", multiple=True, type=click.Choice(_STATES), help="Only this state."
)
@click.option("--all", "show_all", is_flag=True, help="Show all servers, not the first 100.")
@pass_invocation
def status(invocation: Invocation, *, states: tuple[str, ...], show_all: bool) -> ExitCode:
    """Show the queue: states, due times, workers and failures.

    Dead and failing servers come first, then those that are listed now. Exits with 7 if a server is
    dead: it has failed for too long, and is not tried again.

    \b
      discovery fleet status
      discovery fleet status --state dead --state error
    """
    output = invocation.output
    fleet_status, refusals = _stored_status(invocation) or invocation.run(_status)
    if output.as_json:
        jobs = fleet_status.ordered(states or _STATES)
        output.answer(fleet_form(fleet_status, jobs[: None if show_all else _SHOWN]))
    elif not fleet_status.jobs:
        output.say(
            "the queue is empty; `discovery fleet worker` fills it with the configured servers"
        )
    else:
        _show(output, fleet_status, states or _STATES, most=None if show_all else _SHOWN)
        say_refusals(output, refusals)
    if not output.as_json:
        _say_gateways(output, fleet_status)
    return ExitCode.UNHEALTHY if fleet_status.counts["dead"] else ExitCode.OK


@command.command("retry")
@click.argument("servers", metavar="[SERVER]...", nargs=-1, shell_complete=complete_server)
@click.option(
    "--all-failed", is_flag=True, help="Retry all servers in the states `error` and `dead`."
)
@pass_invocation
def retry(invocation: Invocation, *, servers: tuple[str, ...], all_failed: bool) -> None:
    """Try failed and dead servers again.

    \b
      discovery fleet retry github
      discovery fleet retry --all-failed
    """
    if bool(servers) == all_failed:
        raise click.UsageError("name servers, or give --all-failed")
    named = None if all_failed else servers
    _answer(invocation.output, invocation.run(lambda engine: engine.fleet.retry(named)), "retry")


@command.command("refresh")
@click.argument(
    "servers", metavar="SERVER...", nargs=-1, required=True, shell_complete=complete_server
)
@pass_invocation
def refresh(invocation: Invocation, *, servers: tuple[str, ...]) -> None:
    """Make workers list servers now, ahead of all others.

    To list them without a worker, use `discovery refresh`.

    \b
      discovery fleet refresh github linear
    """
    due_servers = invocation.run(lambda engine: engine.fleet.refresh(servers))
    _answer(invocation.output, due_servers, "refresh")


def _stored_status(
    invocation: Invocation,
) -> tuple[FleetStatus, list[UntrustedServerError]] | None:
    """Return the status under the settings of the last run; None if these do not suffice.

    To read a file with 20,000 servers and their tools takes ten times as long.
    """
    if invocation.frozen or invocation.only_server:
        return None
    from discovery_engine.engine.owner.fleet import read_status
    from discovery_engine.engine.restore import last_registry

    registry = last_registry(invocation.config, environ=os.environ, data_dir=invocation.data_dir)
    with suppress(RegistryError), registry as last:
        if last and not any(_is_foreign(server) for server in last[1].servers):
            return read_status(*last), []
    return None


def _is_foreign(server: ServerSettings) -> bool:
    """Return whether the server waits for approval: refusals take the engine to find."""
    return server.is_untrusted_origin and not server.is_registered


async def _status(engine: Engine) -> tuple[FleetStatus, list[UntrustedServerError]]:
    return await engine.fleet.status(), engine.view.refusals()


def _answer(output: Output, servers: tuple[ServerName, ...], verb: str) -> None:
    if output.as_json:
        output.answer({"servers": [*servers]})
    elif servers:
        output.say(f"due now: {', '.join(servers)}")
    elif verb == "retry":
        output.say("nothing to do: none of these has failed; `discovery fleet status` shows them")
    else:
        output.say(
            "nothing to do: no worker has these in its queue, or they are dead or disabled; "
            "`discovery fleet status` shows which"
        )


def _show(
    output: Output, status: FleetStatus, states: Collection[str], *, most: int | None
) -> None:
    heads = [Cell(head, "faint") for head in _HEADS]
    jobs = status.ordered(states)
    shown = jobs[:most]
    output.table([heads, *(_row(job, status.now) for job in shown)])
    if len(shown) < len(jobs):
        output.say(f"{counted(len(jobs) - len(shown), 'more server')}: `--state`, or `--all`")
    counts = ", ".join(f"{count} {state}" for state, count in status.counts.items() if count)
    output.say(counts)
    if oldest := status.oldest_due:
        output.say(f"oldest due: {oldest.server}, for {ago(status.seconds_overdue)}")
    newest = ", ".join(job.server for job in status.recent_registrations(3))
    output.say(f"newest: {newest}; {counted(status.embedding_count, 'embedding')} kept")
    if status.counts["dead"]:
        output.say("`discovery fleet retry --all-failed` has what failed tried again")


def _say_gateways(output: Output, status: FleetStatus) -> None:
    for gateway in status.gateways:
        behind = status.newest_decision - gateway.decided
        state = "all decisions in force" if behind <= 0 else f"{counted(behind, 'decision')} behind"
        silent = "; silent since: killed, or without the database" if gateway.is_silent else ""
        output.say(f"gateway on {gateway.machine}: {state}, {ago(gateway.age)} ago{silent}")


def _row(job: RefreshJob, now: float) -> list[str | Cell]:
    is_waiting = job.claimable_at is not None and job.state != "processing"
    due = f"in {ago(job.due_at - now)}" if job.due_at > now else f"{ago(now - job.due_at)} ago"
    return [
        Cell(visible(job.server), "strong"),
        Cell(job.state, "bad" if job.state in ("dead", "error") else "plain"),
        "" if job.tool_count is None else str(job.tool_count),
        f"{ago(now - job.listed_at)} ago" if job.listed_at else "never",
        due if is_waiting else "",
        job.holder if job.state == "processing" else "",
        Cell(one_line(visible(_reason(job, now))), "faint", is_summary=True),
    ]


def _reason(job: RefreshJob, now: float) -> str:
    reason = plain_reason(job.server, job.error_message)
    if job.failing_since is None:
        return reason
    return f"failing for {ago(now - job.failing_since)}: {reason}"


_FAILED = frozenset({"failed", "dead"})


@command.command("worker")
@click.option("--once", is_flag=True, help="Exit when nothing is due, with 1 if a server failed.")
@click.option("--daemon", is_flag=True, help="Work until SIGTERM or Ctrl-C (the default).")
@click.option(
    "--slots",
    metavar="N",
    type=click.IntRange(1, 256),
    default=8,
    show_default=True,
    help="List this many servers at once.",
)
@click.option(
    "--lease",
    metavar="SECONDS",
    type=click.FloatRange(1.0, schedule.LONGEST_LEASE),
    default=schedule.LEASE,
    show_default=True,
    help="Let another worker take over a server after this time without a heartbeat.",
)
@click.option(
    "--every",
    metavar="HOURS",
    type=click.FloatRange(0.1, schedule.LONGEST_INTERVAL / 3600.0),
    default=schedule.INTERVAL / 3600.0,
    show_default=True,
    help="List each server this often, or sooner if its entry says so.",
)
@pass_invocation
def worker(
    invocation: Invocation, /, *, once: bool, daemon: bool, slots: int, lease: float, every: float
) -> ExitCode:
    """List the servers that are due, as one of any number of workers.

    Workers share the registry of the configuration: the data folder of one machine, or a database
    (`registry.url`) of many. Each server is listed by one worker at a time, under the same rules of
    trust as in a gateway: it must be approved, and a tool whose meaning changed waits for
    `discovery review`. Gateways use the new tools at once.

    A failed server is tried again, first within 30 seconds and later within an hour. It is given up
    after 24 hours of failures and at least 8 attempts.

    SIGTERM and Ctrl-C return unfinished work to the queue. With --json, each line of output is an
    event.

    \b
      discovery fleet worker
      discovery fleet worker --once --json
    """
    if once and daemon:
        raise click.UsageError("--once and --daemon cannot be combined")
    from discovery_engine.engine.refresh_worker import WorkerOptions

    options = WorkerOptions(slots, lease, every * 3600.0, is_once=once)
    reports = Reports(invocation.output, invocation.clock)
    with logged(invocation.output, invocation.verbose, invocation.shown_notes):
        invocation.interrupts.run(lambda: _work(invocation, options, reports))
    if once:
        reports.summarize()
    return ExitCode.UNEXPECTED if once and reports.failed else ExitCode.OK


async def _work(invocation: Invocation, options: WorkerOptions, reports: Reports) -> None:
    import anyio

    from discovery_cli.progress import embedded
    from discovery_engine._util.tasks import open_task_group
    from discovery_engine.engine import open_engine

    async def end_at_signal(scope: anyio.CancelScope) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM) as signals:
            async for _ in signals:
                scope.cancel()

    async with open_task_group() as tasks:
        if sys.platform != "win32":
            tasks.start_soon(end_at_signal, tasks.cancel_scope)
        async with open_engine(
            invocation.config, data_dir=invocation.data_dir, frozen=invocation.frozen, worker=True
        ) as engine:
            if not options.is_once:
                servers = counted(len(engine.view.settings.servers), "server")
                invocation.output.say(f"working on {servers} as they get due; Ctrl-C ends it")
            say_refusals(invocation.output, engine.view.refusals())
            await engine.work(options, reports.show)
            say_not_embedded(invocation.output, await embedded(engine, invocation.output))
        tasks.cancel_scope.cancel()


class Reports:
    """Prints one line for each event: text, or with `--json` an object."""

    def __init__(self, output: Output, clock: Callable[[], float]) -> None:
        self._output = output
        self._clock = clock
        self._last: dict[ServerName, Outcome] = {}
        """The last result of each server."""

    @property
    def failed(self) -> int:
        """The number of servers whose last listing failed."""
        return sum(outcome in _FAILED for outcome in self._last.values())

    def show(self, report: WorkerReport) -> None:
        self._last[report.server] = report.outcome
        if self._output.as_json:
            self._output.write(json.dumps(_form(report, at=self._clock())) + "\n")
        elif report.outcome != "claimed":
            mark = self._output.mark(good=report.outcome not in _FAILED)
            self._output.line(f"{mark.text} {one_line(report.server)}: {_words(report)}")
        sys.stdout.flush()

    def summarize(self) -> None:
        outcomes = Counter(self._last.values())
        listed = counted(outcomes["changed"] + outcomes["unchanged"], "server")
        changed = outcomes["changed"]
        self._output.say(f"{listed} listed, {changed} changed; {self.failed} failed")


def _words(report: WorkerReport) -> str:
    reason = plain_reason(report.server, report.message)
    match report.outcome:
        case "changed" | "unchanged":
            tools = counted(report.tools or 0, "tool")
            return f"{tools}, {report.outcome}; again in {ago(report.due_in or 0.0)}"
        case "failed":
            return f"{reason}; tried again in {ago(report.due_in or 0.0)}"
        case "dead":
            return f"{reason}; no more attempts: `discovery fleet retry {report.server}`"
        case "lost":
            return "nothing was written: another worker has it, or the registry does not answer"
        case _:
            return f"given back: {reason}" if reason else "given back"


def _form(report: WorkerReport, *, at: float) -> JSONObject:
    """Return a report as JSON; `at` is Unix time in seconds."""
    return {
        "at": at,
        "event": report.outcome,
        "server": report.server,
        "fence": report.fence,
        "seconds": round(report.seconds, 3),
        "tools": report.tools,
        "due_in_seconds": report.due_in,
        "code": report.code,
        "message": report.message,
    }
