"""`discovery config import`: copies servers of another client's file into discovery.yaml."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from discovery_cli.command_group import did_you_mean
from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation
from discovery_cli.options import complete_client, pass_invocation
from discovery_cli.output import Output
from discovery_cli.terminal_input import confirm, may_ask
from discovery_engine._util.quantities import counted

if TYPE_CHECKING:
    from discovery_engine.config.settings import Source
    from discovery_engine.config.sources import SourceResult


@click.command("import")
@click.option(
    "--from",
    "origins",
    metavar="CLIENT|PATH",
    multiple=True,
    shell_complete=complete_client,
    help="A client, or the path of its file; may be repeated. By default, the files of all clients."
    " CLIENT:PATH names the client of a file that is not recognised.",
)
@click.option(
    "--only", metavar="NAME", multiple=True, help="Copy only this server; may be repeated."
)
@click.option(
    "--secrets",
    type=click.Choice(["store", "keep", "ask"]),
    default="ask",
    show_default=True,
    help="`store` encrypts and stores secrets, `keep` replaces them by variables for you to set.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_invocation
def command(
    invocation: Invocation,
    origins: tuple[str, ...],
    *,
    only: tuple[str, ...],
    secrets: Literal["store", "keep", "ask"],
    dry_run: bool,
    yes: bool,
) -> ExitCode:
    """Copy servers from another client's file into discovery.yaml.

    The client's file is not changed, existing entries are kept, and no server is started. Secrets
    are replaced by references: to stored secrets if you agree or say `--secrets store`, otherwise
    to environment variables. A server that is already used from its client's file is copied with
    its secrets stored, and the copy takes its place. Exits with 2 if the given files have no usable
    server.

    \b
      discovery config import --from cursor
      discovery config import --from ~/Downloads/mcp.json --only github --secrets store
    """
    from discovery_cli import client_files
    from discovery_cli.importing import ask_for_copies, plan_form, write_copies

    output = invocation.output
    imported = client_files.read(_sources(output, origins, dry_run=dry_run, yes=yes))
    _require(only, imported)
    target = _target(invocation)
    asks = may_ask() and not (yes or dry_run or output.as_json)
    plan, settings = ask_for_copies(invocation, target, imported, secrets, only=only, asks=asks)
    writes = bool(plan.servers) and not dry_run
    what = counted(len(plan.servers), "server")
    if writes := writes and confirm(f"Write {what} into {target}?", yes=yes):
        write_copies(invocation, target, plan, settings)
    if output.as_json:
        output.answer({"path": str(target), "written": writes, **plan_form(plan)})
    else:
        output.say(f"wrote {what} into {target}" if writes else f"{target} was not changed")
    return ExitCode.USAGE if origins and plan.has_failed else ExitCode.OK


def _require(names: Iterable[str], imported: Sequence[tuple[str, SourceResult]]) -> None:
    """Check that servers of these names can be imported.

    Raises:
        UsageError: For the first name without a server.
    """
    there = [server.name for _, result in imported for server in result.servers]
    for name in names:
        if imported and name not in there:
            question = did_you_mean(name, there)
            raise click.UsageError(f"there is no server {name!r} to import{question}")


def _sources(output: Output, origins: tuple[str, ...], *, dry_run: bool, yes: bool) -> list[Source]:
    """Return the named sources, or those that were found if their owner agrees."""
    from discovery_cli import client_files
    from discovery_engine.config.settings import Source

    if origins:
        return [client_files.source_named(origin) for origin in origins]
    files = client_files.found_files()
    if not files:
        output.say("no configuration of another MCP client was found; name a file with --from")
        return []
    output.say("files of other clients:")
    client_files.say_files(output, files)
    if not confirm("Read them?", yes=yes or dry_run):
        return []
    return [Source(client) for client in dict.fromkeys(file.client for file in files)]


def _target(invocation: Invocation) -> Path:
    """Return the path of the configuration to write."""
    from discovery_engine.config.files.location import FILE_NAME, locate

    return Path(locate(invocation.config).path or FILE_NAME)
