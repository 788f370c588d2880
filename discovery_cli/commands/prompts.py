"""`discovery prompts`: the prompts of servers."""

from __future__ import annotations

import click

from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation
from discovery_cli.offering_output import say_unlisted, show_lists
from discovery_cli.options import complete_server, in_view, pass_invocation, view_option
from discovery_cli.targets import exit_code_of_server, one_server
from discovery_engine._util.quantities import counted
from discovery_engine.tools.offering import OfferingKind


@click.command("prompts")
@click.option(
    "--server", metavar="SERVER", shell_complete=complete_server, help="Only those of this one."
)
@click.option("--all", "include_disabled", is_flag=True, help="Also those that are disabled.")
@view_option
@pass_invocation
def command(
    invocation: Invocation, *, server: str | None, include_disabled: bool, view_name: str | None
) -> ExitCode:
    """Show the prompts of servers, with their arguments; optional ones are in brackets.

    `discovery prompt` gets one by the name that is shown.
    """
    output = invocation.output
    view = in_view(invocation.view(one_server(server) if server else None), view_name)
    prompts = view.list_offerings(OfferingKind.PROMPT, server, include_disabled=include_disabled)
    show_lists(output, view, [("prompts", prompts)])
    say_unlisted(output, view, [OfferingKind.PROMPT])
    output.say(counted(len(prompts.entries), "prompt"))
    return exit_code_of_server(view, server)
