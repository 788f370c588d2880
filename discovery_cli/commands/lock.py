"""`discovery lock`: the whole catalog pinned in a file, and compared with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from discovery_cli.failures import ExitCode, exit_code_of_failure
from discovery_cli.invocation import Invocation
from discovery_cli.options import pass_invocation
from discovery_cli.output import Output
from discovery_engine._util.quantities import counted
from discovery_engine.errors import UnavailableError, plain_reason

if TYPE_CHECKING:
    from anyio import CancelScope

    from discovery_engine.catalog import Failure
    from discovery_engine.config.settings import ServerSettings
    from discovery_engine.engine import Engine
    from discovery_engine.events import Subscription
    from discovery_engine.runtime.ingest import RefreshReport
    from discovery_engine.tools.model import ServerName
    from discovery_engine.trust.lockfile import Deviation
    from discovery_engine.view.view import View

    Unlisted = dict[ServerName, Failure | None]
    """The servers that did not list their tools, and why; None for one that is still starting."""

_PATIENCE = 10.0  # seconds


@click.command("lock")
@click.option("--check", is_flag=True, help="Write nothing; leave with 7 if anything differs.")
@pass_invocation
def command(invocation: Invocation, *, check: bool) -> ExitCode:
    """Pin every server and tool in discovery.lock, beside the configuration.

    All servers are asked first. With --frozen any command uses only what is pinned. Nothing is
    written while a server cannot be asked, or a tool waits for review.
    """
    invocation.frozen = False
    unlisted, view = invocation.run(listed)
    if unlisted:
        return _refuse(invocation.output, unlisted)
    return _check(invocation.output, view) if check else _write(invocation.output, view)


async def listed(engine: Engine, *, patience: float = _PATIENCE) -> tuple[Unlisted, View]:
    """The view once all servers were asked, and those that did not list their tools.

    One that failed the last time too is asked first, as nothing can be pinned without it. It is
    waited for `patience` seconds at most, and so are all others once one has failed.
    """
    import anyio

    parts = [engine.view.catalog.part(name) for name in engine.view.connectable]
    if doubtful := [part.server for part in parts if part.failure]:
        report = await engine.refresh(doubtful, patience=patience)
        if unlisted := _unlisted(report):
            return unlisted, engine.view
    unlisted = {}
    with engine.subscribe() as events:
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as wait:
                tasks.start_soon(_hurry, events, wait, patience)
                unlisted = _unlisted(await engine.refresh())
            tasks.cancel_scope.cancel()
    if wait.cancelled_caught:
        parts = [engine.view.catalog.part(name) for name in engine.view.connectable]
        unlisted = {part.server: part.failure for part in parts if part.failure}
        starting = [one.name for one in engine.view.servers() if one.state == "starting"]
        unlisted |= dict.fromkeys(starting)
    return unlisted, engine.view


async def _hurry(events: Subscription, wait: CancelScope, patience: float) -> None:
    """End `wait` soon after a server has failed."""
    import anyio

    from discovery_engine.events import ServerFailed

    async for event in events:
        if isinstance(event, ServerFailed):
            wait.deadline = anyio.current_time() + patience
            return


def _unlisted(report: RefreshReport) -> Unlisted:
    failed = {name: failure for name, failure in report.servers if failure}
    return {**failed, **dict.fromkeys(report.starting)}


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
