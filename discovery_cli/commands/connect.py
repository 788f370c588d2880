"""`discovery connect`: this gateway in the files of MCP clients."""

from __future__ import annotations

from typing import Any, get_args

import click

from discovery_cli.invocation import Invocation
from discovery_cli.options import complete_client, pass_invocation
from discovery_engine.config.serve_settings import ServeMode


@click.command("connect")
@click.argument("clients", metavar="[CLIENT]...", nargs=-1, shell_complete=complete_client)
@click.option("--view", metavar="NAME", default="", help="Serve only what this view shows.")
@click.option(
    "--mode",
    type=click.Choice(get_args(ServeMode)),
    help="Also set server.mode in discovery.yaml: auto shows all tools to clients that search tools"
    " themselves.",
)
@click.option(
    "--project",
    "in_project",
    is_flag=True,
    help="Use the client's file of this project, not that of your user.",
)
@click.option(
    "--move",
    is_flag=True,
    help="Also move the client's own servers into discovery.yaml, their secrets encrypted.",
)
@click.option("--undo", is_flag=True, help="Restore the client's file as it was before.")
@click.option(
    "--link", is_flag=True, help="Print links that add the entry to Cursor and VS Code instead."
)
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_invocation
def command(
    invocation: Invocation, /, *, clients: tuple[str, ...], link: bool, **options: Any
) -> None:
    """Add this gateway to the configuration of MCP clients.

    Each client then starts `discovery serve`. The difference is shown first; comments, order and
    line ends of the file stay, and a copy of it is kept for --undo. Without a CLIENT, those on this
    machine are listed.

    \b
      discovery connect
      discovery connect cursor vscode
      discovery connect claude-code --move
      discovery connect claude-code --mode auto
      discovery connect cursor --undo
    """
    from discovery_cli import connecting
    from discovery_engine.engine.owner.connected_clients import Machine

    output, chosen = invocation.output, connecting.Options(**options)
    if chosen.undo and (chosen.move or chosen.view or chosen.mode or link):
        raise click.UsageError("--undo cannot be combined with --move, --view, --mode or --link")
    machine = Machine.here(invocation.data_dir)
    if link:
        _show_links(invocation, clients, connecting.links(invocation, chosen.view))
        return
    if not clients:
        _refuse_without_client(options)
        forms = machine.forms()
        if output.as_json:
            output.answer({"clients": forms})
        else:
            connecting.show_found(invocation, forms)
        return
    names = dict.fromkeys(clients)
    places = [connecting.find_client(machine, name, in_project=chosen.in_project) for name in names]
    forms = connecting.connect(invocation, machine, places, chosen)
    if output.as_json:
        output.answer({"clients": forms})


def _refuse_without_client(options: dict[str, Any]) -> None:
    names = [name for name in ("view", "mode", "move", "undo") if options[name]]
    if names:
        raise click.UsageError(f"--{names[0]} needs a CLIENT; `discovery connect` lists them")


def _show_links(invocation: Invocation, clients: tuple[str, ...], links: dict[str, str]) -> None:
    if unknown := [name for name in clients if name not in links]:
        raise click.UsageError(f"there are links for cursor and vscode, not for {unknown[0]!r}")
    links = {name: link for name, link in links.items() if not clients or name in clients}
    if invocation.as_json:
        invocation.output.answer({"links": links})
        return
    for link in links.values():
        invocation.output.line(link)
