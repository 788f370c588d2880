"""`discovery resources`: the resources and resource templates of servers."""

from __future__ import annotations

import click

from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation
from discovery_cli.offering_output import say_unlisted, show_lists
from discovery_cli.options import complete_server, in_view, pass_invocation, view_option
from discovery_cli.targets import exit_code_of_server, one_server
from discovery_engine._util.quantities import counted
from discovery_engine.tools.offering import OfferingKind

_KINDS = (OfferingKind.RESOURCE, OfferingKind.TEMPLATE)


@click.command("resources")
@click.option(
    "--server", metavar="SERVER", shell_complete=complete_server, help="Only those of this one."
)
@click.option("--all", "include_disabled", is_flag=True, help="Also those that are disabled.")
@view_option
@pass_invocation
def command(
    invocation: Invocation, *, server: str | None, include_disabled: bool, view_name: str | None
) -> ExitCode:
    """Show the resources of servers, and their templates.

    `discovery read` reads one by the address that is shown; the variables of a template, such as
    {path}, are filled in.
    """
    output = invocation.output
    view = in_view(invocation.view(one_server(server) if server else None), view_name)
    lists = [
        view.list_offerings(kind, server, include_disabled=include_disabled) for kind in _KINDS
    ]
    show_lists(output, view, zip(("resources", "templates"), lists, strict=True))
    say_unlisted(output, view, _KINDS)
    resources, templates = (len(listing.entries) for listing in lists)
    output.say(f"{counted(resources, 'resource')}, {counted(templates, 'template')}")
    return exit_code_of_server(view, server)
