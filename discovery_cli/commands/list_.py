"""`discovery list`: the configured servers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation
from discovery_cli.options import in_view, pass_invocation, view_option
from discovery_cli.output import Cell, Output
from discovery_cli.rendering import (
    LONG_COLUMNS,
    long_server_row,
    say_held_back,
    say_last_lines,
    say_notices,
    server_row,
    short_detail,
    tool_row,
    wanted_server_row,
)
from discovery_engine._util.quantities import counted
from discovery_engine.config.files.data_folder import data_folder
from discovery_engine.engine.doctor.next_steps import advice
from discovery_engine.engine.gateway_reports import with_observations
from discovery_engine.engine.json_forms.catalog_forms import server_form, visible_to_form
from discovery_engine.view.explanations import reservations_of_server

if TYPE_CHECKING:
    from discovery_engine.tools.model import ServerName
    from discovery_engine.view.status import ServerReport
    from discovery_engine.view.view import View


@click.command("list")
@click.argument("query", nargs=-1)
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="Only servers with this tag.")
@click.option(
    "--source",
    "sources",
    metavar="SOURCE",
    multiple=True,
    help="Only servers of discovery.yaml, registry, or a client such as cursor.",
)
@click.option(
    "--installed",
    "installed_only",
    is_flag=True,
    help="Only servers that were installed from the marketplace.",
)
@click.option(
    "--status", is_flag=True, help="Also show whether each server is enabled, its state, and why."
)
@click.option("--long", "-l", "is_long", is_flag=True, help="Show all columns.")
@click.option("--tools", is_flag=True, help="Also show the enabled tools of each server.")
@view_option
@pass_invocation
def command(
    invocation: Invocation,
    /,
    *,
    query: tuple[str, ...],
    status: bool,
    is_long: bool,
    tools: bool,
    view_name: str | None,
    **filters: Any,
) -> ExitCode:
    """List the configured servers.

    With QUERY, only servers whose name, description or tags match its words are shown, the best
    match first. Exits with 2 if none matches.

    \b
      discovery list
      discovery list --status
      discovery list issue tracker --tools
    """
    output = invocation.output
    view = in_view(invocation.view(), view_name)
    view = with_observations(view, invocation.observed(view))
    servers: Sequence[ServerReport] = view.servers()
    if output.as_json or is_long or filters["installed_only"]:
        from discovery_engine.engine.owner.server_listing import with_packages
        from discovery_engine.store.install_records import installed_packages

        data = Path(data_folder(invocation.data_dir, os.environ))
        servers = with_packages(servers, installed_packages(view.settings, data))
    if query or any(filters.values()):
        from discovery_engine.engine.owner.server_search import chosen

        servers = chosen(servers, " ".join(query), **filters)
    if output.as_json:
        forms = [_form(server, view, with_tools=tools) for server in servers]
        output.answer({"servers": forms, "decisions_lost_at": view.lost_at or None})
    else:
        _show(output, servers, view, status=status, is_long=is_long, tools=tools)
    return ExitCode.OK if servers or not view.servers() else ExitCode.USAGE


def _show(
    output: Output,
    servers: Sequence[ServerReport],
    view: View,
    *,
    status: bool,
    is_long: bool,
    tools: bool,
) -> None:
    for server in servers if tools else ():
        _show_with_tools(output, server, view)
    if is_long and servers and not tools:
        heads = [Cell(head, "faint") for head in LONG_COLUMNS]
        output.table([heads, *(long_server_row(output, server) for server in servers)])
    elif not tools:
        row = wanted_server_row if status else partial(server_row, with_status=False)
        output.table([row(output, server) for server in servers])
    if not servers and view.servers():
        output.say(
            f"none of {counted(len(view.servers()), 'server')} fits; `discovery list` shows all"
        )
    else:
        _say_sum(output, view, servers)


def _form(server: ServerReport, view: View, *, with_tools: bool) -> dict[str, object]:
    settings = view.settings
    reserved = reservations_of_server(settings, settings.by_name[server.name])
    form: dict[str, object] = {**server_form(server), **visible_to_form(reserved)}
    if with_tools:
        form["tools"] = [entry.tool.name for entry in view.catalog.part(server.name).visible]
    return form


def _show_with_tools(output: Output, server: ServerReport, view: View) -> None:
    output.table([server_row(output, server, with_status=True)])
    tools = view.catalog.part(server.name).visible
    output.table([tool_row(output, entry, view) for entry in tools], indent=2)


def _say_sum(output: Output, view: View, servers: Sequence[ServerReport]) -> None:
    if not servers:
        say_notices(output, view.general_notices())
        return
    tools = sum(server.tool_count for server in servers)
    enabled = sum(server.enabled_count for server in servers)
    off = f" ({tools - enabled} disabled)" if tools > enabled else ""
    skills = sum(server.skill_count for server in servers)
    also = f", {counted(skills, 'skill')}" if skills else ""
    output.say(f"{counted(len(servers), 'server')}, {counted(tools, 'tool')}{off}{also}")
    for alike in _alike(servers):
        _say_reason(output, alike)
    for server in servers:
        _say_reserved(output, server.name, view)
    say_notices(output, view.general_notices())
    say_held_back(output, view, [server.name for server in servers])


def _say_reserved(output: Output, name: ServerName, view: View) -> None:
    settings = view.settings
    if reserved := reservations_of_server(settings, settings.by_name[name]):
        output.say(f"{name}: visible to {', and to '.join(hold.text for hold in reserved)}")


def _alike(servers: Iterable[ServerReport]) -> Iterable[list[ServerReport]]:
    """Group servers with the same reason and next step, so that both are shown once."""
    groups: dict[tuple[str, ...], list[ServerReport]] = {}
    for server in servers:
        if server.reason and server.state != "disabled":
            whose = server.name if server.stderr else ""
            groups.setdefault((server.reason, server.hint, whose), []).append(server)
    return groups.values()


def _say_reason(output: Output, servers: Sequence[ServerReport]) -> None:
    names, first = ", ".join(server.name for server in servers), servers[0]
    step = advice(*servers)
    output.say(f"{names}: {first.reason}{f' ({step})' if step else ''}")
    for server in servers:
        if detail := short_detail(server.detail):
            whose = f"{server.name}: " if len(servers) > 1 else ""
            output.say(f"  {whose}{detail}")
        say_last_lines(output, server.stderr)
