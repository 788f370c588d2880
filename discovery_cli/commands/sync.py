"""`discovery config sync`: servers of a setup file, registered once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation
from discovery_cli.options import pass_invocation
from discovery_cli.server_changes import show_sync
from discovery_engine._util.quantities import counted

if TYPE_CHECKING:
    from discovery_engine.engine import Engine
    from discovery_engine.engine.owner.setup_sync import SyncPlan


@click.command("sync")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Show what would be registered, and write nothing.")
@click.option("--yes", is_flag=True, help="Do not ask: register, and approve, what is shown.")
@pass_invocation
def command(invocation: Invocation, *, file: Path | None, dry_run: bool, yes: bool) -> ExitCode:
    """Register and approve the servers of a setup file.

    Servers that are registered already are not changed. FILE, or $DISCOVERY_SETUP_FILE, is a JSON
    list of servers with `name`, `command` and `args`, or `url`; optional are `env`, `headers`,
    `description`, `tags`, `secrets` and `auto_activate`. NAME.local.json beside NAME.json adds to
    it. `$NAME` refers to an environment variable; other `secrets` are stored encrypted. Exits with
    2 if an entry is invalid; the others are registered.

    \b
      discovery config sync servers.json --dry-run
    """
    from discovery_cli.client_files import confirm
    from discovery_engine.engine.json_forms.owner_forms import sync_plan_form

    output = invocation.output

    async def plan_and_apply(engine: Engine) -> tuple[SyncPlan, bool]:
        plan = await engine.servers.plan_sync(file)
        if not output.as_json:
            show_sync(output, plan)
        question = f"Register {_count(plan)}, and approve what they run?"
        agreed = bool(plan.plans) and not dry_run and confirm(question, yes=yes)
        if agreed:
            await engine.servers.apply(*plan.plans)
        return plan, agreed

    plan, agreed = invocation.run(plan_and_apply)
    if output.as_json:
        output.answer(sync_plan_form(plan, is_written=agreed))
    elif plan.plans:
        output.say(f"registered {_count(plan)}" if agreed else "nothing was registered")
    else:
        output.say("nothing is to be registered")
    return ExitCode.USAGE if plan.report.errors else ExitCode.OK


def _count(plan: SyncPlan) -> str:
    return counted(len(plan.plans), "server")
