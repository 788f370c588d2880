"""`discovery tune calibrate`: the confidence of answers, fitted to the owner's catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import click

from discovery_cli.invocation import Invocation
from discovery_cli.options import pass_invocation, query_text
from discovery_cli.output import Cell

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.engine import Engine
    from discovery_engine.evaluation.calibration import CalibrationReport


@click.command("calibrate")
@click.argument("queries", type=click.File("rb"), required=False)
@click.option("--reset", is_flag=True, help="Use the confidence that ships with the program again.")
@pass_invocation
def command(invocation: Invocation, queries: BinaryIO | None, *, reset: bool) -> None:
    """Fit to your own tools when search says `match`, `unsure` or `none`.

    The confidence that ships with the program was fitted on servers of others. This command asks
    requests of which it knows the right tools, as they are and with these tools hidden, and fits it
    anew. QUERIES is a file as for `discovery tune eval`, by default discovery-queries.yaml beside
    the configuration; with fewer than forty requests there, the typical requests of your tools are
    asked. Do it again after you change servers or `search.embeddings`; `discovery doctor` says
    when.

    Nothing changes with too little data, or if the new confidence is no better for requests that it
    was not fitted with. The order of tools never changes. No server is called.

    \b
      discovery tune calibrate
      discovery tune calibrate queries.yaml --json
      discovery tune calibrate --reset
    """
    if reset and queries:
        raise click.UsageError("--reset reads no queries")
    output = invocation.output
    if reset:
        is_reset = invocation.run(lambda engine: engine.calibration.reset())
        words = "the shipped confidence is used again" if is_reset else "nothing was calibrated"
        output.report({"reset": is_reset}, words)
        return

    async def fit(engine: Engine) -> CalibrationReport:
        from discovery_engine.evaluation.calibration import LEAST_REQUESTS
        from discovery_engine.evaluation.queries import Query, read_queries

        chosen: tuple[Query, ...] = ()
        if text := query_text(invocation, queries):
            content, file = text
            chosen = read_queries(content, file=file, view=engine.view).queries
        if not queries and sum(bool(query.tools) for query in chosen) < LEAST_REQUESTS:
            chosen = ()
        return await engine.calibration.fit(chosen)

    invocation.view()  # lists the servers that never were
    report = invocation.run(fit)
    if output.as_json:
        output.answer(_form(report))
        return
    output.table(
        [
            [
                Cell(change.figure, "strong"),
                _percent(change.before),
                "to",
                _percent(change.after),
                f"of {change.count}",
            ]
            for change in report.figures
        ]
    )
    if report.is_applied:
        asked = f"{report.requests} {report.source}"
        output.line(f"fitted to {asked}, and used from now on; `--reset` undoes it")
    else:
        output.line(f"nothing was changed: {report.problem}")


def _form(report: CalibrationReport) -> JSONObject:
    return {
        "applied": report.is_applied,
        "problem": report.problem or None,
        "requests": report.requests,
        "source": report.source,
        "figures": [
            {"figure": c.figure, "before": c.before, "after": c.after, "count": c.count}
            for c in report.figures
        ],
    }


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
