"""`discovery refresh`: lists the tools of servers again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from discovery_cli.exit_codes import ExitCode, exit_code_of_failure
from discovery_cli.invocation import Invocation
from discovery_cli.options import complete_server, pass_invocation
from discovery_cli.output import Cell, Output
from discovery_cli.rendering import say_held_back, say_not_embedded, say_notices, with_last_line
from discovery_engine._util.quantities import counted
from discovery_engine.engine.doctor.next_steps import with_detail
from discovery_engine.engine.json_forms.catalog_forms import notice_forms, refresh_form
from discovery_engine.errors import UnavailableError, plain_reason

if TYPE_CHECKING:
    from discovery_engine.catalog import Failure, RefreshReport
    from discovery_engine.engine import Engine
    from discovery_engine.tools.model import ServerName
    from discovery_engine.view.notices import Notice
    from discovery_engine.view.view import View


@click.command("refresh")
@click.argument("servers", metavar="[SERVER]...", nargs=-1, shell_complete=complete_server)
@pass_invocation
def command(invocation: Invocation, servers: tuple[str, ...]) -> ExitCode:
    """List the tools of servers again.

    Exits with 5 if a server cannot be reached, with 6 if a secret is missing, and with 7 if a
    server lists tools that cannot be used.

    \b
      discovery refresh
      discovery refresh github
    """
    from discovery_cli.progress import embedded

    output = invocation.output

    async def work(engine: Engine) -> tuple[RefreshReport, View, Notice | None]:
        report = await engine.refresh(servers or None)
        missing = await embedded(engine, output)
        return report, engine.view.snapshot(), missing

    report, view, missing = invocation.run(work)
    if output.as_json:
        notices = notice_forms([missing] if missing else [])
        output.answer(refresh_form(report, view) | {"notices": notices})
    else:
        _show(output, report, view)
        say_not_embedded(output, missing)
        if not servers:
            _say_broken(output, view)
    codes = [exit_code_of_failure(failure.code) for _, failure in report.servers if failure]
    if any(view.catalog.part(name).dropped for name, _ in report.servers):
        codes.append(ExitCode.UNHEALTHY)
    return min(codes, default=ExitCode.OK)


def _show(output: Output, report: RefreshReport, view: View) -> None:
    output.table([_row(output, view, name, failure) for name, failure in report.servers])
    for name, failure in report.servers:
        if failure and (advice := _advice(failure)):
            output.say(f"{name}: {advice}")
    say_notices(output, view.general_notices())
    say_held_back(output, view, [name for name, _ in report.servers])
    diff = report.diff
    servers, added = counted(len(report.servers), "server"), counted(len(diff.added), "tool")
    removed, changed = len(diff.removed), len(diff.changed)
    output.say(f"{servers} asked: {added} added, {removed} removed, {changed} changed")


def _advice(failure: Failure) -> str:
    """Return the hint, with the detail unless it is of a program, which `health` shows."""
    is_of_program = failure.code == UnavailableError.code
    return failure.hint if is_of_program else with_detail(failure.hint, failure.detail)


def _say_broken(output: Output, view: View) -> None:
    """Print the servers whose entries are unusable, and which were therefore not listed."""
    for server in view.settings.servers:
        if server.problem:
            output.say(f"{server.name}: not asked: {server.problem.sentence}")


def _row(output: Output, view: View, name: ServerName, failure: Failure | None) -> list[Cell | str]:
    part = view.catalog.part(name)
    about = counted(len(part.entries), "tool")
    about += f", {len(part.dropped)} unusable" if part.dropped else ""
    if failure:
        about = with_last_line(plain_reason(name, failure.message), failure.stderr)
    return [output.mark(good=not (failure or part.dropped)), Cell(name, "strong"), about]
