"""`discovery logs`: what was called, read, asked and written."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from discovery_cli.invocation import Invocation, log_database, log_reader
from discovery_cli.options import complete_server, duration_or_date, pass_invocation, past
from discovery_cli.output import Cell, Output, writing
from discovery_engine._util.quantities import ago
from discovery_engine._util.suggestions import nearest
from discovery_engine.errors.codes import CODES
from discovery_engine.store.call_log.log_entry import KINDS, NO_ERRORS, LogEntry, LogFilter

if TYPE_CHECKING:
    from discovery_cli.output import Style
    from discovery_cli.rendering import Row
    from discovery_engine.store.call_log.log_entry import ExportForm
    from discovery_engine.store.call_log.log_reader import LogReader

_DEFAULT_LOG_LIMIT = 50
_POLL_INTERVAL = 0.25  # seconds
_DAY = 86_400.0  # seconds
# Characters of arguments and of a result, before a terminal cuts them further.
_MAX_SHOWN_ENTRY_LENGTH = 500
_PRIVATE = 0o600
_WIDTHS = (14, 4, 24, 4, 9)
"""The least widths of columns, so that further lines are aligned with the earlier ones."""

_STATUSES = ("error", *NO_ERRORS, *CODES)


@click.command("logs")
@click.argument("servers", metavar="[SERVER]...", nargs=-1, shell_complete=complete_server)
@click.option("-f", "--follow", is_flag=True, help="Also show new entries, until Ctrl-C.")
@click.option(
    "--tool",
    "tools",
    metavar="TOOL",
    multiple=True,
    help="Only entries of this tool; may be repeated, like --kind and --status.",
)
@click.option(
    "--view", "views", metavar="NAME", multiple=True, help="Only entries of clients of this view."
)
@click.option(
    "--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Only entries of this kind."
)
@click.option(
    "--status",
    "statuses",
    metavar="STATUS",
    multiple=True,
    shell_complete=lambda _, __, begins: [word for word in _STATUSES if word.startswith(begins)],
    help="Only entries with this outcome: ok, error, or a code such as TOOL_DISABLED.",
)
@click.option(
    "--since",
    metavar="WHEN",
    callback=duration_or_date,
    help="Only entries since then: 15m, 12h, 30d, or a date (UTC).",
)
@click.option("--until", metavar="WHEN", callback=duration_or_date, help="Only entries until then.")
@click.option("--text", metavar="WORDS", default="", help="Only entries with these words.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"Show the newest N entries.  [default: {_DEFAULT_LOG_LIMIT}; with --export: all]",
)
@click.option(
    "--export",
    "form",
    type=click.Choice(["ndjson", "csv"]),
    help="Print whole entries in this format.",
)
@click.option(
    "-o", "--output", "file", type=click.Path(dir_okay=False), help="With --export: write to FILE."
)
@click.option("--clear", is_flag=True, help="Delete all entries of this configuration.")
@pass_invocation
def command(
    invocation: Invocation,
    /,
    *,
    follow: bool,
    since: float | datetime | None,
    until: float | datetime | None,
    limit: int | None,
    form: str | None,
    file: str | None,
    clear: bool,
    **conditions: Any,
) -> None:
    """Show calls, reads, questions and stderr of servers.

    Each call of a tool, read of a resource, prompt, ping, notification, progress message, question
    and line of stderr is an entry. Entries come from every process that uses this configuration and
    data folder, running ones too. Arguments and results are redacted, and shortened as `log.calls`
    says.

    \b
      discovery logs -f
      discovery logs github --status error --since 2h
      discovery logs --export csv -o calls.csv
    """
    _check_options(follow=follow, form=form, file=file, clear=clear)
    if clear:
        _clear(invocation)
        return
    now = invocation.clock()
    chosen = LogFilter(since=past(since, now), until=past(until, now), **conditions)
    reader = log_reader(invocation)
    if form:
        _export(invocation, _entries(reader, chosen, limit), cast("ExportForm", form), file)
    elif follow:
        _follow(invocation.output, reader, chosen, limit or _DEFAULT_LOG_LIMIT)
    else:
        _show(invocation, reader, chosen, limit or _DEFAULT_LOG_LIMIT)


def _check_options(*, follow: bool, form: str | None, file: str | None, clear: bool) -> None:
    if sum((follow, clear, form is not None)) > 1:
        raise click.UsageError("--follow, --export and --clear cannot be combined")
    if file is not None and form is None:
        raise click.UsageError("--output needs --export ndjson or --export csv")


def _clear(invocation: Invocation) -> None:
    output = invocation.output
    count = log_database(invocation).clear()
    output.report({"cleared": count}, f"{_entries_counted(count)} deleted")


def _entries(reader: LogReader, conditions: LogFilter, limit: int | None) -> Iterable[LogEntry]:
    return reader.all(conditions) if limit is None else reader.entries(conditions, limit=limit)


def _export(
    invocation: Invocation, entries: Iterable[LogEntry], form: ExportForm, file: str | None
) -> None:
    from discovery_engine.store.call_log.export import exported

    output = invocation.output
    if file is None:
        for line in exported(entries, form):
            output.write(line)
        return
    path, count = Path(file), 0
    with writing(path):
        path.touch(_PRIVATE)
        with path.open("w", encoding="utf-8", newline="") as stream:
            for line in exported(entries, form):
                stream.write(line)
                count += 1
    output.say(f"{_entries_counted(count - (form == 'csv'))} written to {path}")


def _show(invocation: Invocation, reader: LogReader, conditions: LogFilter, limit: int) -> None:
    output = invocation.output
    entries = reader.entries(conditions, limit=limit)
    losses = [loss for loss in reader.losses() if loss.at > invocation.clock() - _DAY]
    lost = sum(loss.entries for loss in losses)
    if output.as_json:
        output.answer(
            {
                "entries": [entry.to_json() for entry in entries],
                "lost": lost,
                "others_have_their_own": invocation.shares_registry,
            }
        )
        return
    _table(output, entries)
    if not entries:
        output.say(_why_empty(invocation, conditions))
    elif len(entries) == limit:
        output.say(f"the newest {limit}; --limit shows more")
    invocation.say_of_this_machine("calls are logged")
    if losses:
        last = losses[-1]
        when = ago(invocation.clock() - last.at)
        what = _entries_counted(lost)
        output.say(f"note: {what} could not be written; last {when} ago: {last.reason}")


def _why_empty(invocation: Invocation, conditions: LogFilter) -> str:
    """Return why no entry is shown.

    Raises:
        UsageError: If a status does not exist.
        ServerNotFoundError: If a server does not exist.
    """
    view = invocation.recall()
    for status in conditions.statuses:
        _require_status(status)
    if view is not None:
        for server in conditions.servers:
            view.server(server)
    if conditions != LogFilter():
        return "no such entries; without options all are shown"
    if view is not None and view.settings.log.calls == "off":
        return "nothing is logged: `log.calls` is off"
    return "nothing was called yet with this configuration; `discovery logs -f` waits for it"


def _require_status(status: str) -> None:
    if status not in _STATUSES:
        meant = nearest(status, _STATUSES)
        guess = f"; did you mean {meant[0]}?" if meant else "; it is ok, error, or a code"
        raise click.UsageError(f"there is no status {status!r}{guess}")


def _follow(output: Output, reader: LogReader, conditions: LogFilter, limit: int) -> None:
    for page in _pages(reader, conditions, limit):
        if output.as_json:
            for entry in page:
                output.write(json.dumps(entry.to_json()) + "\n")
        else:
            _table(output, page)
        sys.stdout.flush()


def _pages(reader: LogReader, conditions: LogFilter, limit: int) -> Iterator[Iterable[LogEntry]]:
    """Yield the newest entries, then new ones as they are written, forever."""
    last = reader.last_id()
    yield [entry for entry in reader.entries(conditions, limit=limit) if entry.id <= last]
    while True:
        if page := reader.after(last, conditions):
            last = page[-1].id
            yield page
        else:
            time.sleep(_POLL_INTERVAL)


def _table(output: Output, entries: Iterable[LogEntry]) -> None:
    """Write a line for each entry, which a terminal may cut; `--json` and `--export` cut none."""
    if rows := [_row(entry) for entry in entries]:
        output.table(rows, least_widths=_WIDTHS)


def _row(entry: LogEntry) -> Row:
    style: Style = "bad" if entry.is_error else "plain"
    duration = f"{entry.seconds:.3f} s" if entry.outcome and entry.seconds else ""
    return [
        Cell(_time(entry.at), "faint"),
        entry.kind,
        Cell(_address(entry), "strong"),
        Cell(entry.outcome, style),
        Cell(duration, to_the_right=True),
        Cell(_details(entry), "faint", is_summary=True),
    ]


def _time(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%m-%d %H:%M:%S")


def _address(entry: LogEntry) -> str:
    if entry.kind == "stderr":
        return entry.server
    return f"{entry.server or '?'}:{entry.tool}"


def _details(entry: LogEntry) -> str:
    is_servers_own = entry.by == "agent" or entry.kind == "notification"
    who = "" if is_servers_own else f"({entry.by}) "
    arguments, result = _shown(entry.arguments), _shown(entry.result)
    if entry.kind == "stderr":
        return result
    return who + (f"{arguments} → {result}" if arguments and result else arguments or result)


def _shown(value: object) -> str:
    if value is None or value == {}:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN_ENTRY_LENGTH else text[:_MAX_SHOWN_ENTRY_LENGTH] + "…"


def _entries_counted(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"
