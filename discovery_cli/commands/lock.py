"""`discovery config lock`: the whole catalog pinned in a file, and compared with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from discovery_cli.exit_codes import ExitCode, exit_code_of_failure
from discovery_cli.invocation import Invocation
from discovery_cli.options import pass_invocation
from discovery_cli.output import Output
from discovery_engine._util.quantities import counted
from discovery_engine.errors import UnavailableError, plain_reason

if TYPE_CHECKING:
    from discovery_engine.engine.owner.catalog_lock import LockReport, Unlisted
    from discovery_engine.trust.lockfile import Deviation


@click.command("lock")
@click.option("--check", is_flag=True, help="Write nothing; exit with 7 if anything differs.")
@pass_invocation
def command(invocation: Invocation, *, check: bool) -> ExitCode:
    """Pin every server and tool in discovery.lock, beside the configuration.

    All servers are listed first. Nothing is written while a server cannot be listed or a tool waits
    for review. With --frozen, every command uses only what is pinned.

    \b
      discovery config lock
      discovery config lock --check
    """
    invocation.frozen = False
    if check:
        return _show_check(invocation.output, invocation.run(lambda engine: engine.lock.check()))
    return _show_write(invocation.output, invocation.run(lambda engine: engine.lock.write()))


def _refuse(output: Output, unlisted: Unlisted) -> ExitCode:
    for name, failure in unlisted.items():
        if failure:
            output.say(f"{name}: {plain_reason(name, failure.message)} ({failure.hint})")
        else:
            output.say(
                f"{name}: it is still starting (`discovery refresh {name}` waits for it to the end)"
            )
    if output.as_json:
        output.answer({"path": None, "written": False, "deviations": [], "failed": [*unlisted]})
    output.say("nothing is pinned before every enabled server has listed its tools")
    return min(
        exit_code_of_failure(failure.code if failure else UnavailableError.code)
        for failure in unlisted.values()
    )


def _show_write(output: Output, report: LockReport) -> ExitCode:
    if report.unlisted:
        return _refuse(output, report.unlisted)
    waiting = report.waiting_count
    if output.as_json:
        form = {"path": str(report.path), "written": report.is_written}
        output.answer({**form, "deviations": [], "failed": []})
    elif waiting:
        tools = counted(waiting, "tool")
        output.say(
            f"nothing is pinned while {tools} wait for review; `discovery review` shows them"
        )
    else:
        output.say(f"pinned {counted(report.tool_count, 'tool')} in {report.path}")
    return ExitCode.DISABLED if waiting else ExitCode.OK


def _show_check(output: Output, report: LockReport) -> ExitCode:
    from discovery_cli.finding_output import deviation_lines
    from discovery_engine.engine.json_forms.owner_forms import deviation_form

    if report.unlisted:
        return _refuse(output, report.unlisted)
    deviations = report.deviations
    if output.as_json:
        forms = list(map(deviation_form, deviations))
        output.answer(
            {"path": str(report.path), "written": False, "deviations": forms, "failed": []}
        )
    else:
        for deviation in deviations:
            for line in deviation_lines(deviation):
                output.line(line)
        output.say(_sum(deviations))
    return ExitCode.UNHEALTHY if deviations else ExitCode.OK


def _sum(deviations: tuple[Deviation, ...]) -> str:
    from discovery_engine.trust.definition_diff import WEIGHTS

    if not deviations:
        return "everything is as it is pinned"
    counts = {
        weight: sum(deviation.weight == weight for deviation in deviations) for weight in WEIGHTS
    }
    return ", ".join(f"{count} {weight}" for weight, count in counts.items() if count)
