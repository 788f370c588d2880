"""`discovery tools`: lists the tools of servers."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

import click

from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation
from discovery_cli.options import (
    any_tag_option,
    complete_server,
    in_view,
    one_server_options,
    pass_invocation,
    tag_option,
    view_option,
)
from discovery_cli.output import max_tokens_option, show_result
from discovery_cli.rendering import say_notices, tool_row
from discovery_cli.targets import exit_code_of_server, one_server
from discovery_engine._util.quantities import counted
from discovery_engine.engine.json_forms.catalog_forms import notice_forms, tool_form
from discovery_engine.tools.model import ServerName
from discovery_engine.view.view import ToolList, ToolSelection

if TYPE_CHECKING:
    from discovery_engine.catalog import Entry


@click.command("tools")
@click.argument("server", required=False, shell_complete=complete_server)
@tag_option
@any_tag_option
@click.option("--all", "include_disabled", is_flag=True, help="Also show disabled tools.")
@click.option("--tags", "with_tags", is_flag=True, help="Also show the tags.")
@max_tokens_option
@view_option
@one_server_options
@pass_invocation
def command(
    invocation: Invocation,
    server: str | None,
    *,
    tags: tuple[str, ...],
    any_tag: bool,
    include_disabled: bool,
    with_tags: bool,
    max_tokens: int | None,
    view_name: str | None,
) -> ExitCode:
    """List the tools of a server, or of all servers.

    Exits with 5 if the server was never reached, with 6 if only a secret is missing, and with 2 if
    its entry is invalid.

    \b
      discovery tools
      discovery tools github --tag issues
      discovery tools --view readers
      discovery tools --command "uvx mcp-server-time"
    """
    output, server = invocation.output, server or invocation.only_server
    view = in_view(invocation.view(one_server(server) if server else None), view_name)

    def is_chosen(entry: Entry) -> bool:
        return entry.verdict.carries(tags, any_tag=any_tag)

    if server is None:
        if max_tokens:
            raise click.UsageError("--max-tokens needs a SERVER: agents list one at a time")
        selection = view.all_tools(tags=tags, any_tag=any_tag, include_disabled=include_disabled)
        entries: Iterable[Entry] = view.catalog
    else:
        tool_list = view.list_tools(server, include_disabled=include_disabled)
        selection = ToolSelection(tuple(filter(is_chosen, tool_list.entries)), tool_list.notices)
        server, entries = tool_list.server, view.catalog.part(tool_list.server).entries
    form = {
        "server": server,
        "tools": [tool_form(e, view) for e in selection.entries] if output.as_json else [],
        "notices": notice_forms(selection.notices),
    }
    if max_tokens and server:
        from discovery_engine.agent.budget import Budget
        from discovery_engine.agent.list_rendering import tools_result
        from discovery_engine.agent.tool_text import Detail

        answer = ToolList(ServerName(server), selection.entries, selection.notices)
        show_result(output, tools_result(answer, Budget(max_tokens), Detail.SCHEMA), form)
    elif output.as_json:
        output.answer(form)
    else:
        row = partial(tool_row, output, view=view, with_tags=with_tags, with_server=not server)
        output.table([row(entry) for entry in selection.entries])
        say_notices(output, selection.notices)
        listable = [entry for entry in entries if is_chosen(entry) and not entry.is_withheld]
        hidden = 0 if include_disabled else len(listable) - len(selection.entries)
        rest = f"; {hidden} disabled (--all shows them)" if hidden else ""
        output.say(f"{counted(len(selection.entries), 'tool')}{rest}")
    return exit_code_of_server(view, server)
