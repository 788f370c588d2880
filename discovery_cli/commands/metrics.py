"""`discovery metrics`: how often tools were called, how long they took, and how many failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation, log_database, log_reader
from discovery_cli.options import complete_server, in_view, pass_invocation, view_option
from discovery_cli.output import Cell, Output
from discovery_engine._util.quantities import ago, counted
from discovery_engine.tools.offering import OfferingKind

if TYPE_CHECKING:
    from discovery_cli.rendering import Row
    from discovery_engine.store.call_log.tally import ServerMetrics, ToolMetrics
    from discovery_engine.view.view import View

_FIGURES = ("CALLS", "ERRORS", "MEAN", "P50", "P95", "LAST CALL", "SINCE")
_UNKNOWN = "(unknown)"
_SECOND = 1.0


@click.command("metrics")
@click.argument("server", required=False, shell_complete=complete_server)
@click.option("--reset", is_flag=True, help="Reset the errors to zero.")
@view_option
@pass_invocation
def command(
    invocation: Invocation, *, server: str | None, reset: bool, view_name: str | None
) -> ExitCode:
    """Show calls, durations and errors of servers, or of the tools of one.

    Calls of every process that uses this configuration and data folder are counted. Half of the
    calls took at most P50, and 95 % at most P95. Calls of tools that do not exist are counted as
    (unknown).

    \b
      discovery metrics
      discovery metrics github
    """
    output, now = invocation.output, invocation.clock()
    if reset:
        log_database(invocation).reset_errors(server, now=now)
        output.say(f"errors of {server or 'all servers'} count from zero")
    keys = None if view_name is None else _shown(in_view(invocation.known(), view_name))
    metrics = log_reader(invocation).metrics(server, keys)
    if output.as_json:
        servers = [server_metrics.to_json() for server_metrics in metrics]
        output.answer({"servers": servers, "others_have_their_own": invocation.shares_registry})
    else:
        if metrics:
            _show(output, metrics, now, is_one=server is not None)
        invocation.say_of_this_machine("calls are counted")
    if metrics or server is None:
        if not metrics:
            output.say("no call was counted yet; `discovery execute` makes one")
        return ExitCode.OK
    invocation.known().server(server)
    output.say(f"no call of {server} was counted yet; `discovery execute` makes one")
    return ExitCode.USAGE


def _shown(view: View) -> set[tuple[str, str]]:
    """Return the keys of what a view shows, in the form in which calls are counted."""
    keys: set[tuple[str, str]] = {(e.tool.server, e.tool.name) for e in view.catalog.visible}
    for kind in OfferingKind:
        offerings = (entry.offering for entry in view.offerings.visible(kind))
        keys |= {(offering.server, offering.decision_key) for offering in offerings}
    return keys


def _show(output: Output, metrics: Sequence[ServerMetrics], now: float, *, is_one: bool) -> None:
    heads: Row = [Cell("TOOL" if is_one else "SERVER", "faint")]
    heads += [Cell(head, "faint", to_the_right=True) for head in _FIGURES]
    rows = [heads]
    for server in metrics:
        if is_one:
            rows += [_row(tool.tool or _UNKNOWN, tool, now) for tool in server.tools]
        else:
            rows.append(_row(server.total.server or _UNKNOWN, server.total, now))
    output.table(rows)
    calls = sum(server.total.calls for server in metrics)
    errors = sum(server.total.errors for server in metrics)
    output.say(f"{counted(calls, 'call')}, {counted(errors, 'error')}")
    names = [server.total.server for server in metrics if server.total.server]
    if names and not is_one:
        output.say(f"`discovery metrics {names[0]}` shows its tools")


def _row(name: str, metrics: ToolMetrics, now: float) -> Row:
    figures = [
        f"{metrics.calls:,}",
        _errors(metrics),
        *map(_duration, (metrics.mean_seconds, metrics.p50_seconds, metrics.p95_seconds)),
        *(_age(moment, now) for moment in (metrics.last_called_at, metrics.since)),
    ]
    has_errors = metrics.errors > 0
    return [
        Cell(name, "strong"),
        *(
            Cell(figure, "bad" if has_errors and head == "ERRORS" else "plain", to_the_right=True)
            for head, figure in zip(_FIGURES, figures, strict=True)
        ),
    ]


def _errors(metrics: ToolMetrics) -> str:
    if not metrics.errors:
        return "0"
    return f"{metrics.errors:,} ({metrics.errors / metrics.calls:.0%})"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds * 1000:.1f} ms" if seconds < _SECOND else f"{seconds:.1f} s"


def _age(moment: float | None, now: float) -> str:
    return "" if moment is None else f"{ago(now - moment)} ago"
