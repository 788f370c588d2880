"""`discovery enable`: a server switched on, in discovery.yaml or the registry."""

from __future__ import annotations

import click

from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation
from discovery_cli.options import complete_server, pass_invocation
from discovery_cli.server_switching import Place, switch


@click.command("enable")
@click.argument("server", shell_complete=complete_server)
@click.option(
    "--to",
    type=click.Choice(["file", "registry"]),
    help="Change discovery.yaml, or the registry; the file, if the server stands there.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be changed, and change nothing.")
@pass_invocation
def command(invocation: Invocation, *, server: str, to: Place | None, dry_run: bool) -> ExitCode:
    """Switch a server on; it is started when it is needed. Also called `activate`.

    A server of discovery.yaml is switched in the file, a registered one in the registry. One of
    another client's file is copied into discovery.yaml, with its secrets stored, and used in place
    of that entry; with `--to registry` it stays where it is. What fails stays switched on, and is
    tried again.
    """
    return switch(invocation, server, is_wanted=True, to=to, dry_run=dry_run)
