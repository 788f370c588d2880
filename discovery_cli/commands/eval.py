"""`discovery tune eval`: the owner's queries against the owner's catalog, with gates for CI."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click
from msgspec import Struct

from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation
from discovery_cli.options import pass_invocation, query_text
from discovery_cli.output import Cell, Output, json_text
from discovery_cli.rendering import Row as Cells
from discovery_engine._util.quantities import counted

if TYPE_CHECKING:
    from discovery_engine.evaluation.baseline import Baseline, QueryChange
    from discovery_engine.evaluation.gates import Gate, GateResult
    from discovery_engine.evaluation.report import Report, ReportRow
    from discovery_engine.evaluation.suggest import Suggestion

_MAX_BASELINE_BYTES = 64 * 1024 * 1024  # of what may be a device without an end
_DRAFTS = """\
# Drafts, made from the descriptions of the tools; they prove nothing as they are.
# Rewrite each in the words of a user, and name every tool that would be right.
# Add requests that no tool can serve, so that false answers are counted, too:
#   - query: order a pizza
#     none: true
"""


class _Options(Struct, frozen=True):
    queries: BinaryIO | None
    baseline: BinaryIO | None
    save: str | None
    least: tuple[str, ...]
    most: tuple[str, ...]
    junit: str | None
    as_markdown: bool
    allow_missing: bool
    wants_drafts: bool
    per_tool: int


@click.command("eval")
@click.argument("queries", type=click.File("rb"), required=False)
@click.option(
    "--baseline", metavar="FILE", type=click.File("rb"), help="Show what changed since FILE."
)
@click.option(
    "--save",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Save this run in FILE, for --baseline.",
)
@click.option(
    "--fail-under",
    "least",
    metavar="METRIC=VALUE",
    multiple=True,
    help="Exit with 7 if METRIC is less: recall@5=0.9 or recall@5=baseline; may be repeated.",
)
@click.option(
    "--fail-over",
    "most",
    metavar="METRIC=VALUE",
    multiple=True,
    help="Exit with 7 if METRIC is more: false_match_rate=0.1; may be repeated.",
)
@click.option(
    "--junit", metavar="FILE", type=click.Path(dir_okay=False), help="Write JUnit XML to FILE."
)
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown.")
@click.option("--allow-missing", is_flag=True, help="Ignore tools that are not in the catalog.")
@click.option("--suggest", "wants_drafts", is_flag=True, help="Draft queries for you to edit.")
@click.option(
    "--per-tool",
    metavar="N",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="With --suggest: write at most N drafts for a tool.",
)
@pass_invocation
def command(invocation: Invocation, /, **values: Any) -> ExitCode:
    """Run your own queries, and measure how well search answers them.

    QUERIES is a YAML file:

    \b
      queries:
        - query: what time is it in Tokyo
          tools: [time:get_current_time]
        - query: order a pizza
          none: true

    \b
      discovery tune eval queries.yaml --fail-under recall@5=0.9
      discovery tune eval --suggest > queries.yaml

    Without QUERIES, discovery-queries.yaml beside the configuration is read, which is where the
    page saves queries. No server is started. Exits with 7 if a limit is missed.
    """
    options = _Options(**values)
    if options.as_markdown and invocation.as_json:
        raise click.UsageError("--markdown and --json are two forms of one answer; choose one")
    if options.wants_drafts:
        if options.queries:
            raise click.UsageError("--suggest drafts queries and reads none")
        return _suggest(invocation, options.per_tool)
    queries = query_text(invocation, options.queries)
    if queries is None:
        raise click.UsageError("give a file of queries; `discovery tune eval --suggest` drafts one")
    return _evaluate(invocation, options, *queries)


def _evaluate(invocation: Invocation, options: _Options, content: bytes, file: str) -> ExitCode:
    gates = [
        *_gates(options.least, more_is_better=True),
        *_gates(options.most, more_is_better=False),
    ]
    baseline = _baseline(options.baseline) if options.baseline else None
    report = _run(invocation, content, file, allow_missing=options.allow_missing)
    gate_results = _judged(gates, report, baseline)
    if options.save:
        _save(options.save, report)
    if options.junit:
        _write_junit(options.junit, report, gate_results)
    _answer(invocation.output, report, baseline, gate_results, as_markdown=options.as_markdown)
    return ExitCode.OK if all(result.held for result in gate_results) else ExitCode.UNHEALTHY


def _run(invocation: Invocation, content: bytes, file: str, *, allow_missing: bool) -> Report:
    from discovery_engine.agent.context_costs import answer_tokens
    from discovery_engine.evaluation.queries import read_queries
    from discovery_engine.evaluation.report import run

    view = invocation.view()
    query_set = read_queries(content, file=file, view=view, allow_missing=allow_missing)
    return run(query_set, view, cost=answer_tokens)


def _gates(texts: Iterable[str], *, more_is_better: bool) -> list[Gate]:
    from discovery_engine.evaluation.gates import Gate, InvalidGateError

    option = "--fail-under" if more_is_better else "--fail-over"
    try:
        return [Gate.parse(text, more_is_better=more_is_better) for text in texts]
    except InvalidGateError as error:
        raise click.UsageError(f"{option}: {error}") from error


def _judged(gates: Iterable[Gate], report: Report, baseline: Baseline | None) -> list[GateResult]:
    from discovery_engine.evaluation.gates import InvalidGateError

    before = baseline.totals if baseline else None
    try:
        return [gate.check(report.totals, before) for gate in gates]
    except InvalidGateError as error:
        raise click.UsageError(str(error)) from error


def _baseline(file: BinaryIO) -> Baseline:
    from discovery_engine.evaluation.baseline import read_baseline

    return read_baseline(file.read(_MAX_BASELINE_BYTES), file=file.name)


def _save(path: str, report: Report) -> None:
    from discovery_cli.output import replace_file

    replace_file(Path(path), json_text(report.to_json(), indent=2) + "\n")


def _write_junit(path: str, report: Report, gate_results: Sequence[GateResult]) -> None:
    from discovery_cli.output import writing
    from discovery_engine.evaluation.report_formats import to_junit

    text = to_junit(report, gate_results=gate_results)
    with writing(Path(path)):
        # Not private, as a baseline is: another program of the CI reads it.
        Path(path).write_text(text, encoding="utf-8")


def _answer(
    output: Output,
    report: Report,
    baseline: Baseline | None,
    gate_results: Sequence[GateResult],
    *,
    as_markdown: bool,
) -> None:
    from discovery_engine.evaluation.baseline import Baseline, metric_changes, query_changes
    from discovery_engine.evaluation.report_formats import to_markdown

    now = Baseline.of(report)
    moved = query_changes(baseline, now) if baseline else ()
    changed = metric_changes(baseline, now) if baseline else ()
    if as_markdown:
        output.text(to_markdown(report, baseline=baseline, gate_results=gate_results).rstrip())
    elif output.as_json:
        since = {
            "changes": [change.to_json() for change in changed],
            "moves": [move.to_json() for move in moved],
        }
        gates = [result.to_json() for result in gate_results]
        output.answer({**report.to_json(), **since, "gates": gates})
    else:
        output.table([_query_row(output, row) for row in report.rows])
        output.line()
        output.table(_measure_rows(report, baseline))
        if moved:
            output.line()
            output.table([_move_row(move) for move in moved])
        _say_sum(output, report, gate_results)


def _query_row(output: Output, row: ReportRow) -> Cells:
    """Return a mark, the ranks of the right tools, the query, and what came first instead."""
    right = ", ".join(row.right) or "none"
    first = row.found[0] if row.found else "none"
    about = right if first in (*row.right, right) else f"{right}, not {first}"
    return [output.mark(good=row.is_good), row.standing, Cell(row.id, "strong"), about]


def _measure_rows(report: Report, baseline: Baseline | None) -> list[Cells]:
    from discovery_engine.evaluation.report import METRICS, shown

    rows = []
    for metric in METRICS:
        row: Cells = [Cell(metric.name, "strong"), shown(report.totals[metric.name], metric)]
        if baseline:
            row.append(Cell(f"was {shown(baseline.totals[metric.name], metric)}", "faint"))
        rows.append(row)
    return rows


def _move_row(move: QueryChange) -> Cells:
    style = {"better": "good", "worse": "bad"}.get(move.direction, "plain")
    direction = Cell(move.direction, style)  # type: ignore[arg-type]
    return [direction, f"{move.before or '-'} -> {move.after or '-'}", Cell(move.id, "strong")]


def _say_sum(output: Output, report: Report, gate_results: Iterable[GateResult]) -> None:
    for result in gate_results:
        if not result.held:
            output.say(f"error: {result}")
    good, skipped = sum(row.is_good for row in report.rows), len(report.skipped)
    left = f"; {skipped} not asked, as their tools are not in the catalog" if skipped else ""
    served = "query" if len(report.rows) == 1 else "queries"
    output.say(f"{good} of {len(report.rows)} {served} served{left}")


def _suggest(invocation: Invocation, per_tool: int) -> ExitCode:
    from discovery_engine.evaluation.suggest import suggest

    output = invocation.output
    suggestions = suggest(invocation.view(), per_tool=per_tool)
    drafts = [draft.to_json() for draft in suggestions.drafts]
    if output.as_json:
        silent = [str(key) for key in suggestions.silent]
        output.answer({"queries": drafts, "without_draft": silent})
    else:
        from discovery_engine.config.editing.yaml_text import block

        output.text(_DRAFTS + block({"queries": drafts}).rstrip())
        _say_drafts(output, suggestions)
    return ExitCode.OK if drafts else ExitCode.USAGE


def _say_drafts(output: Output, suggestion: Suggestion) -> None:
    silent_count = len(suggestion.silent)
    rest = (
        f"; {counted(silent_count, 'tool')} without, as their descriptions are too short"
        if silent_count
        else ""
    )
    output.say(f"{counted(len(suggestion.drafts), 'draft')}{rest}")
