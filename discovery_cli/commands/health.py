"""`discovery health`: shows the state of every server, and how to repair it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import click

from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation
from discovery_cli.options import (
    complete_server,
    engine_in_view,
    in_view,
    pass_invocation,
    view_option,
)
from discovery_cli.output import Cell, Output
from discovery_cli.rendering import Row, is_open, say_notices, tool_count, with_last_line
from discovery_engine._util.quantities import ago, counted
from discovery_engine._util.text import block, named, quoted, visible
from discovery_engine.engine.doctor.next_steps import advice_in_full, next_command
from discovery_engine.engine.health import health, unhealthy
from discovery_engine.engine.json_forms.catalog_forms import health_form

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.engine import Engine
    from discovery_engine.engine.health import ProbeResult
    from discovery_engine.tools.model import ServerName
    from discovery_engine.upstream.state import SessionStats
    from discovery_engine.view.status import ServerReport
    from discovery_engine.view.view import View

Probed: TypeAlias = "dict[ServerName, ProbeResult]"

_PROBE_TIMEOUT = 10.0  # seconds
_PROBE_HEADS = ("SERVER", "LATENCY", "ERROR")
_HEADS = ("SERVER", "STATE", "SINCE", "NEXT STEP", "REASON")


@click.command("health")
@click.argument("servers", metavar="[SERVER]...", nargs=-1, shell_complete=complete_server)
@click.option("--all", "show_all", is_flag=True, help="Also show the servers that are disabled.")
@click.option("--online", is_flag=True, help="Connect to the servers first.")
@click.option("--probe", is_flag=True, help="Check each server now, and show how fast it answers.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1, max=3600),
    help="With --probe: how long to wait for each server.  [default: 10]",
)
@view_option
@pass_invocation
def command(
    invocation: Invocation,
    *,
    servers: tuple[str, ...],
    show_all: bool,
    online: bool,
    probe: bool,
    timeout: float | None,
    view_name: str | None,
) -> ExitCode:
    """Show the state of each server, and how to repair it.

    With SERVER, everything known about it is shown, and the last lines of its stderr. No server is
    started without --online or --probe. A server that answers --probe has its errors reset. Exits
    with 7 if there are problems.

    \b
      discovery health
      discovery health github
      discovery health --probe
    """
    if timeout is not None and not probe:
        raise click.UsageError("--timeout needs --probe")
    output = invocation.output
    probed: Probed = {}
    if online or probe:
        wait = (timeout or _PROBE_TIMEOUT) if probe else None
        view, reports, probed = _asked(invocation, servers, view_name, wait, online=online)
    else:
        view, reports = _known(invocation, servers, view_name)
    rows = [report for report in reports if servers or show_all or report.state != "disabled"]
    is_bad = bool(unhealthy(rows)) or not all(ping.is_healthy for ping in probed.values())
    if output.as_json:
        forms = [_form(report, probed) if probe else _form(report) for report in rows]
        output.answer({"servers": forms, "decisions_lost_at": view.lost_at or None})
    elif probe and not servers:
        _show_probes(output, rows, probed)
    elif servers:
        for report in rows:
            _show_in_full(output, report, invocation.clock())
            if report.name in probed:
                output.line(f"  {_answered(probed[report.name])}")
    elif reports:
        _show(output, rows, len(reports) - len(rows), invocation.clock())
    else:
        say_notices(output, invocation.known().general_notices())
    return ExitCode.UNHEALTHY if is_bad else ExitCode.OK


def _form(server: ServerReport, probed: Probed | None = None) -> JSONObject:
    form = health_form(server, next_command(server))
    if probed is None:
        return form
    result = probed.get(server.name)
    return form | {"probe": result and result.to_json()}


def _known(
    invocation: Invocation, names: Sequence[str], view_name: str | None
) -> tuple[View, list[ServerReport]]:
    view = in_view(invocation.known(), view_name)
    reports = health(view, now=invocation.clock(), observed=invocation.observed(view))
    return view, _chosen(reports, view, names)


def _asked(
    invocation: Invocation,
    names: Sequence[str],
    view_name: str | None,
    max_wait: float | None,
    *,
    online: bool,
) -> tuple[View, list[ServerReport], Probed]:
    """Return view, reports and probes after connecting to servers, or probing them.

    `max_wait` is the time for probes in seconds; None for no probes.
    """

    async def ask(engine: Engine) -> tuple[View, list[ServerReport], Probed]:
        scoped = engine_in_view(engine, view_name)
        probed: Probed = {}
        reports = _chosen(await engine.health(), scoped.view, names)
        askable = [report.name for report in reports if _may_be_asked(report)]
        if online:
            await engine.refresh(askable)
        if max_wait is not None:
            probed = {ping.server: ping for ping in await engine.probe(askable, max_wait=max_wait)}
        all_reports = await engine.health(invocation.observed(engine.view))
        return engine.view, _chosen(all_reports, scoped.view, names), probed

    return invocation.run(ask, with_lines=True)


def _chosen(
    reports: Iterable[ServerReport], view: View, names: Sequence[str]
) -> list[ServerReport]:
    """Return the reports of the servers with these names, by default of all in the view."""
    visible = {view.server(name).name for name in names} or set(view.settings.by_name)
    return [report for report in reports if report.name in visible]


def _may_be_asked(server: ServerReport) -> bool:
    if server.state in ("disabled", "untrusted"):
        return False
    return server.state != "needs_config" or server.failure is not None


def _show(output: Output, servers: Sequence[ServerReport], hidden: int, now: float) -> None:
    ill, ordered = unhealthy(servers), sorted(servers, key=lambda server: not server.has_problem)
    if servers:
        rows = [_row(output, server, now) for server in ordered]
        output.table([["", *(Cell(head, "faint") for head in _HEADS)], *rows])
    off = f", {hidden} disabled (--all)" if hidden else ""
    output.say(f"{counted(len(servers), 'server')}{off}, {counted(len(ill), 'problem')}")
    if ill:
        output.say(f"`discovery health {ill[0].name}` shows details")


def _show_probes(output: Output, servers: Sequence[ServerReport], probed: Probed) -> None:
    rows: list[Row] = [["", *(Cell(head, "faint") for head in _PROBE_HEADS)]]
    for server in servers:
        result = probed.get(server.name)
        if result is None:
            mark, latency, about = output.open_mark(), "", f"not asked: {server.state}"
        else:
            mark = output.mark(good=result.is_healthy)
            latency = "" if result.seconds is None else _milliseconds(result.seconds)
            about = result.error
        rows.append(
            [
                mark,
                Cell(server.name, "strong"),
                Cell(latency, to_the_right=True),
                Cell(about, "faint", is_summary=True),
            ]
        )
    output.table(rows)
    bad = [ping for ping in probed.values() if not ping.is_healthy]
    output.say(f"{counted(len(probed), 'server')} asked, {counted(len(bad), 'problem')}")
    if bad:
        output.say(f"`discovery health {bad[0].server}` shows details")


def _answered(result: ProbeResult) -> str:
    if result.seconds is not None:
        return f"answered in {_milliseconds(result.seconds)}"
    return f"did not answer: {result.error}"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def _row(output: Output, server: ServerReport, now: float) -> Row:
    reason = with_last_line(server.reason, server.stderr)
    return [
        _mark(output, server),
        Cell(server.name, "strong"),
        str(server.state),
        _since(server, now),
        output.hint(next_command(server)),
        Cell(reason or _what_it_has(server), "faint", is_summary=True),
    ]


def _mark(output: Output, server: ServerReport) -> str | Cell:
    return output.open_mark() if is_open(server) else output.mark(good=not server.has_problem)


def _what_it_has(server: ServerReport) -> str:
    waiting = server.withheld_count
    return tool_count(server) + (f", {waiting} withheld" if waiting else "")


def _since(server: ServerReport, now: float) -> str:
    return ago(now - server.since) if server.since is not None else ""


def _show_in_full(output: Output, server: ServerReport, now: float) -> None:
    since = f" for {_since(server, now)}" if server.since is not None else ""
    name = Cell(server.name, "strong")
    output.table([[_mark(output, server), name, f"{server.state}{since}"]])
    facts = _facts(server, now)
    output.table([[Cell(word, "faint"), output.hint(text)] for word, text in facts], indent=2)
    stderr = server.stderr or (server.stats.stderr if server.stats else "")
    if stderr:
        output.line("  stderr (last lines):")
        for line in block(stderr, before="    | "):
            output.line(line, "faint")


def _facts(server: ServerReport, now: float) -> Iterator[tuple[str, str]]:
    listed = f"{tool_count(server)}, {ago(now - server.listed_at)} ago" if server.listed_at else ""
    facts = {
        "reason": server.reason,
        "detail": server.detail,
        "next step": advice_in_full(server) or next_command(server),
        "next try": f"in {ago(wait)}" if (wait := (server.next_try or 0.0) - now) >= 1 else "",
        "listed": f"{listed or 'never'}{'; these are still used' if server.is_stale else ''}",
        "withheld": f"{counted(server.withheld_count, 'tool')}" if server.withheld_count else "",
        "sandbox": visible(server.sandbox),
        "unusable": "; ".join(f"{named(tool.name)} ({tool.reason})" for tool in server.dropped),
        **(_session_facts(server.stats) if server.stats else {}),
    }
    return ((word, text) for word, text in facts.items() if text)


def _session_facts(stats: SessionStats) -> dict[str, str]:
    counts = {
        counted(stats.calls, "call"): stats.calls,
        counted(stats.failures, "failure"): stats.failures,
        f"{stats.refused} refused": stats.refused,
        counted(stats.restarts, "restart"): stats.restarts,
        counted(stats.garbage, "line") + " of invalid output": stats.garbage,
        counted(stats.strays, "unsolicited response"): stats.strays,
        counted(stats.duplicates, "duplicate response"): stats.duplicates,
        f"{stats.queued} waiting": stats.queued,
    }
    samples = ", ".join(map(quoted, stats.samples))
    return {
        "session": f"process {stats.pid}" if stats.pid else "",
        "runs in": stats.sandbox,
        "protocol": stats.protocol_version,
        "so far": ", ".join(text for text, count in counts.items() if count),
        "invalid output": samples,
    }
