"""`discovery disable`: a server switched off, in discovery.yaml or the registry."""

from __future__ import annotations

import click

from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation
from discovery_cli.options import complete_server, pass_invocation
from discovery_cli.server_switching import Place, switch


@click.command("disable")
@click.argument("server", shell_complete=complete_server)
@click.option(
    "--to",
    type=click.Choice(["file", "registry"]),
    help="Change discovery.yaml, or the registry; the file, if the server stands there.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be changed, and change nothing.")
@pass_invocation
def command(invocation: Invocation, *, server: str, to: Place | None, dry_run: bool) -> ExitCode:
    """Switch a server off, and end its sessions. Also called `deactivate`.

    A server of discovery.yaml is switched in the file of this machine, which no other switch
    undoes; with `--to registry` in the registry, for all machines that share it, and in no file.
    A registered server is switched in the registry. One of another client's file is copied into
    discovery.yaml, with its secrets stored, and is off there; that file stays as it is.
    """
    return switch(invocation, server, is_wanted=False, to=to, dry_run=dry_run)
