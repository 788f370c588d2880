"""`discovery fleet`: the refresh queue of workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from discovery_cli.command_group import Group
from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation
from discovery_cli.options import complete_server, pass_invocation
from discovery_cli.output import Cell, Output
from discovery_cli.rendering import say_refusals
from discovery_engine._util.quantities import ago, counted
from discovery_engine._util.text import one_line, visible
from discovery_engine.engine.json_forms.owner_forms import fleet_form
from discovery_engine.errors import plain_reason

if TYPE_CHECKING:
    from discovery_engine.engine import Engine
    from discovery_engine.engine.owner.fleet import FleetStatus
    from discovery_engine.errors import UntrustedServerError
    from discovery_engine.store.fleet.refresh_job import RefreshJob
    from discovery_engine.tools.model import ServerName

_HEADS = ("SERVER", "STATE", "TOOLS", "LISTED", "DUE", "WORKER", "REASON")


@click.group("fleet", cls=Group, modules={"worker": "worker"})
def command() -> None:
    """Run workers that list servers, and manage their queue.

    Any number of workers can share a queue.

    \b
      discovery fleet worker --once
      discovery fleet status
    """


@command.command("status")
@pass_invocation
def status(invocation: Invocation) -> ExitCode:
    """Show the queue: states, due times, workers and failures.

    Exits with 7 if a server is dead: it has failed for too long, and is not tried again.

    \b
      discovery fleet status
    """
    output = invocation.output
    fleet_status, refusals = invocation.run(_status)
    if output.as_json:
        output.answer(fleet_form(fleet_status))
    elif not fleet_status.jobs:
        output.say(
            "the queue is empty; `discovery fleet worker` fills it with the configured servers"
        )
    else:
        _show(output, fleet_status)
        say_refusals(output, refusals)
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


def _show(output: Output, status: FleetStatus) -> None:
    heads = [Cell(head, "faint") for head in _HEADS]
    output.table([heads, *(_row(job, status.now) for job in status.jobs)])
    counts = ", ".join(f"{count} {state}" for state, count in status.counts.items() if count)
    output.say(counts)
    if oldest := status.oldest_due:
        output.say(f"oldest due: {oldest.server}, for {ago(status.seconds_overdue)}")
    newest = ", ".join(job.server for job in status.recent_registrations(3))
    output.say(f"newest: {newest}; {counted(status.embedding_count, 'embedding')} kept")
    if status.counts["dead"]:
        output.say("`discovery fleet retry --all-failed` has what failed tried again")


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
