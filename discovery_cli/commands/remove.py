"""`discovery remove`: a server gone from discovery.yaml or the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation
from discovery_cli.options import complete_server, pass_invocation

if TYPE_CHECKING:
    from discovery_engine.engine import Engine
    from discovery_engine.engine.owner.server_plans import ServerPlan


@click.command("remove")
@click.argument("server", shell_complete=complete_server)
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
@click.option(
    "--secrets",
    type=click.Choice(["keep", "delete"]),
    help="Keep or delete the secrets stored for the server; by default, you are asked.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_invocation
def command(
    invocation: Invocation,
    *,
    server: str,
    dry_run: bool,
    secrets: Literal["keep", "delete"] | None,
    yes: bool,
) -> ExitCode:
    """Remove a server from discovery.yaml, or from the registry.

    Its approval is revoked, and running gateways end its sessions. The private folder of an
    installed server is deleted as well. To stop using a server of another client's file, use
    `discovery disable`.

    \b
      discovery remove time
      discovery remove github --secrets delete --yes
    """
    from discovery_cli.client_files import confirm, may_ask
    from discovery_cli.server_changes import place_of, say_kept_secrets, say_warnings, show_diff
    from discovery_engine.engine.json_forms.owner_forms import server_plan_form

    output = invocation.output

    async def plan_and_apply(engine: Engine) -> tuple[ServerPlan, bool, list[str]]:
        plan = await engine.servers.plan_remove(server)
        installed = await engine.installer.find(plan.name)
        if not output.as_json:
            show_diff(output, plan)
            say_warnings(output, plan)
        with_package = f", with its copy of {installed.current.pin}" if installed else ""
        question = f"Remove {plan.name!r} from {place_of(plan)}{with_package}?"
        agreed = not dry_run and confirm(question, yes=yes)
        own = f"{plan.dropped or plan.name}/"
        stored = [name for name in engine.secrets.names() if name.startswith(own)]
        if not agreed:
            return plan, agreed, stored
        deletes = secrets == "delete"
        if stored and secrets is None and may_ask() and not (yes or output.as_json):
            deletes = click.confirm(f"Delete its secrets {', '.join(stored)}?", err=True)
        await engine.installer.remove(plan, stored if deletes else ())
        return plan, agreed, [] if deletes else stored

    plan, agreed, kept_secrets = invocation.run(plan_and_apply)
    if output.as_json:
        output.answer({**server_plan_form(plan, is_written=agreed), "secrets": kept_secrets})
    elif agreed:
        output.say(f"removed {plan.name} from {place_of(plan)}")
        say_kept_secrets(output, kept_secrets)
    else:
        output.say(f"{place_of(plan)} was not changed")
    return ExitCode.OK
