"""`discovery trust`: the owner's word that servers of a found configuration may be started."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation
from discovery_cli.options import complete_server, pass_invocation
from discovery_cli.output import Output
from discovery_engine._util.quantities import counted

if TYPE_CHECKING:
    from discovery_engine.config.settings import Settings
    from discovery_engine.engine import Engine
    from discovery_engine.owner.candidates import Candidate


@click.command("trust")
@click.argument("servers", metavar="[SERVER]...", nargs=-1, shell_complete=complete_server)
@click.option("--yes", is_flag=True, help="Do not ask: approve what is shown.")
@click.option("--revoke", is_flag=True, help="Take approvals back; of all servers without a name.")
@pass_invocation
def command(
    invocation: Invocation, servers: tuple[str, ...], *, yes: bool, revoke: bool
) -> ExitCode:
    """Show what a discovered configuration would start, and approve it.

    A configuration that lies in the working folder, and a project's file of another client, start
    nothing before this. An approval is bound to what is shown: when the command, an argument, a
    variable, an address or a file of the project that runs changes, it ends. The value of
    a variable may be set and changed at any time. Without approval the exit code is 4.
    """
    if yes and revoke:
        raise click.UsageError("either --yes or --revoke, not both")
    if revoke:
        return _revoke(invocation, servers)
    candidates, settings = invocation.run(partial(_candidates, servers=servers))
    output = invocation.output
    if not output.as_json:
        _show(output, candidates, settings)
    approved = bool(candidates) and _is_confirmed(output, len(candidates), yes=yes)
    if approved:
        invocation.run(lambda engine: engine.trust.approve(candidates))
    if output.as_json:
        from discovery_engine.json_forms.candidate_form import candidate_form

        output.answer({"servers": list(map(candidate_form, candidates)), "approved": approved})
    elif approved:
        output.say(f"approved {counted(len(candidates), 'server')}")
    elif candidates:
        output.say(f"nothing was approved; {counted(len(candidates), 'server')} still waiting")
    return ExitCode.DISABLED if candidates and not approved else ExitCode.OK


async def _candidates(
    engine: Engine, *, servers: tuple[str, ...]
) -> tuple[tuple[Candidate, ...], Settings]:
    return await engine.trust.candidates(servers), engine.settings


def _show(output: Output, found: tuple[Candidate, ...], settings: Settings) -> None:
    from discovery_cli.approval_output import candidate_lines, override_lines

    for candidate in found:
        for line in candidate_lines(candidate):
            output.line(line)
    for line in override_lines(settings) if found else ():
        output.line(line)
    if not found:
        output.say("no server waits for approval")


def _is_confirmed(output: Output, count: int, *, yes: bool) -> bool:
    from discovery_cli.client_files import may_ask

    if yes:
        return True
    if output.as_json or not may_ask():
        output.say("there is no terminal to ask on; use --yes to approve what is shown")
        return False
    return click.confirm(f"May {counted(count, 'server')} be started as shown?", err=True)


def _revoke(invocation: Invocation, servers: tuple[str, ...]) -> ExitCode:
    count = invocation.run(lambda engine: engine.trust.revoke(servers or None))
    if invocation.output.as_json:
        invocation.output.answer({"revoked": count})
    else:
        invocation.output.say(f"took back {counted(count, 'approval')}")
    return ExitCode.OK
