"""`discovery lock`: the whole catalog pinned in a file, and compared with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from discovery_cli.failures import ExitCode, exit_code_of_failure
from discovery_cli.invocation import Invocation
from discovery_cli.options import pass_invocation
from discovery_cli.output import Output, counted
from discovery_engine.errors import plain_reason

if TYPE_CHECKING:
    from discovery_engine.catalog import Failure
    from discovery_engine.config.settings import ServerSettings
    from discovery_engine.engine import Engine
    from discovery_engine.runtime.ingest import RefreshReport
    from discovery_engine.tools.model import ServerName
    from discovery_engine.trust.lockfile import Deviation
    from discovery_engine.view.view import View


@click.command("lock")
@click.option("--check", is_flag=True, help="Write nothing; leave with 7 if anything differs.")
@pass_invocation
def command(invocation: Invocation, *, check: bool) -> ExitCode:
    """Pin every server and tool in discovery.lock, beside the configuration.

    All servers are asked first. With --frozen any command uses only what is pinned. Nothing is
    written while a server cannot be asked, or a tool waits for review.
    """
    invocation.frozen = False
    report, view = invocation.run(_listed)
    failed = [(name, failure) for name, failure in report.servers if failure]
    if failed:
        return _refuse(invocation.output, failed)
    return _check(invocation.output, view) if check else _write(invocation.output, view)


async def _listed(engine: Engine) -> tuple[RefreshReport, View]:
    return await engine.refresh(), engine.view


def _refuse(output: Output, failed: list[tuple[ServerName, Failure]]) -> ExitCode:
    for name, failure in failed:
        output.say(f"{name}: {plain_reason(name, failure.message)} ({failure.hint})")
    if output.as_json:
        names = [name for name, _ in failed]
        output.answer({"path": None, "written": False, "deviations": [], "failed": names})
    output.say("nothing can be said of the whole catalog before every server was asked")
    return min(exit_code_of_failure(failure.code) for _, failure in failed)


def _write(output: Output, view: View) -> ExitCode:
    from discovery_cli.writing import replace_file
    from discovery_engine.trust.lockfile import lock_of_parts, to_text

    path = _path(view)
    waiting = sum(server.withheld_count for server in view.servers())
    if not waiting:
        lock = lock_of_parts(_locked(view), view.catalog)
        replace_file(path, to_text(lock))
    if output.as_json:
        form = {"path": str(path), "written": not waiting, "deviations": [], "failed": []}
        output.answer(form)
    elif waiting:
        tools = counted(waiting, "tool")
        output.say(
            f"nothing is pinned while {tools} wait for review; `discovery review` shows them"
        )
    else:
        output.say(f"pinned {counted(len(view.catalog), 'tool')} in {path}")
    return ExitCode.DISABLED if waiting else ExitCode.OK


def _check(output: Output, view: View) -> ExitCode:
    from discovery_cli.differences import deviation_form, deviation_lines
    from discovery_engine.runtime.trust_store import read_lock
    from discovery_engine.trust.lockfile import deviations, lock_of_parts

    found = deviations(read_lock(view.settings), lock_of_parts(_locked(view), view.catalog))
    if output.as_json:
        forms = list(map(deviation_form, found))
        output.answer(
            {"path": str(_path(view)), "written": False, "deviations": forms, "failed": []}
        )
    else:
        for one in found:
            for line in deviation_lines(one):
                output.line(line)
        output.say(_sum(found))
    return ExitCode.UNHEALTHY if found else ExitCode.OK


def _sum(found: tuple[Deviation, ...]) -> str:
    from discovery_engine.trust.difference import WEIGHTS

    if not found:
        return "everything is as it is pinned"
    counts = {weight: sum(one.weight == weight for one in found) for weight in WEIGHTS}
    return ", ".join(f"{count} {weight}" for weight, count in counts.items() if count)


def _locked(view: View) -> list[ServerSettings]:
    """The servers that are used."""
    parts = view.catalog.parts
    return [s for s in view.settings.servers if s.name in parts and parts[s.name].verdict.enabled]


def _path(view: View) -> Path:
    from discovery_engine.config.files.location import lock_path

    if view.settings.path is None:
        raise click.UsageError("there is no discovery.yaml to write a lock file beside")
    return Path(lock_path(view.settings.path))
