"""`discovery list`: the configured servers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from discovery_cli.invocation import Invocation
from discovery_cli.json_output import server_form
from discovery_cli.options import in_view, pass_invocation, view_option
from discovery_cli.output import Output
from discovery_cli.rendering import (
    say_held_back,
    say_last_lines,
    say_notices,
    server_row,
    short_detail,
    tool_row,
)
from discovery_engine._util.quantities import counted
from discovery_engine.runtime.gateway_reports import with_observations

if TYPE_CHECKING:
    from discovery_engine.view.status import ServerReport
    from discovery_engine.view.view import View


@click.command("list")
@click.option("--status", is_flag=True, help="Also show each server's status, and why.")
@click.option("--tools", is_flag=True, help="Also show the enabled tools of each server.")
@view_option
@pass_invocation
def command(invocation: Invocation, *, status: bool, tools: bool, view_name: str | None) -> None:
    """Show the configured servers."""
    output = invocation.output
    view = in_view(invocation.view(), view_name)
    view = with_observations(view, invocation.observed(view))
    if output.as_json:
        forms = [_form(server, view, with_tools=tools) for server in view.servers()]
        output.answer({"servers": forms, "decisions_lost_at": view.lost_at})
        return
    for server in view.servers() if tools else ():
        _show_with_tools(output, server, view)
    if not tools:
        output.table([server_row(output, s, with_status=status) for s in view.servers()])
    _say_sum(output, view)


def _form(server: ServerReport, view: View, *, with_tools: bool) -> dict[str, object]:
    form = server_form(server)
    if with_tools:
        form["tools"] = [entry.tool.name for entry in view.catalog.part(server.name).visible]
    return form


def _show_with_tools(output: Output, server: ServerReport, view: View) -> None:
    output.table([server_row(output, server, with_status=True)])
    tools = view.catalog.part(server.name).visible
    output.table([tool_row(output, entry, view) for entry in tools], indent=2)


def _say_sum(output: Output, view: View) -> None:
    servers = view.servers()
    if not servers:
        say_notices(output, view.general_notices())
        return
    tools = sum(server.tool_count for server in servers)
    enabled = sum(server.enabled_count for server in servers)
    off = f" ({tools - enabled} disabled)" if tools > enabled else ""
    output.say(f"{counted(len(servers), 'server')}, {counted(tools, 'tool')}{off}")
    for alike in _alike(servers):
        _say_reason(output, alike)
    say_notices(output, view.general_notices())
    say_held_back(output, view, [server.name for server in servers])


def _alike(servers: Iterable[ServerReport]) -> Iterable[list[ServerReport]]:
    """Servers with one reason and one next step together, for both are then shown once."""
    groups: dict[tuple[str, ...], list[ServerReport]] = {}
    for server in servers:
        if server.reason and server.state != "disabled":
            whose = server.name if server.stderr else ""
            groups.setdefault((server.reason, server.hint, whose), []).append(server)
    return groups.values()


def _say_reason(output: Output, servers: Sequence[ServerReport]) -> None:
    names, one = ", ".join(server.name for server in servers), servers[0]
    output.say(f"{names}: {one.reason}{f' ({one.hint})' if one.hint else ''}")
    for server in servers:
        if detail := short_detail(server.detail):
            whose = f"{server.name}: " if len(servers) > 1 else ""
            output.say(f"  {whose}{detail}")
        say_last_lines(output, server.stderr)
