"""`discovery tools`: the tools of a server."""

from __future__ import annotations

import click

from discovery_cli.agent_text import max_tokens_option, show_result
from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation
from discovery_cli.options import complete_server, pass_invocation
from discovery_cli.rendering import say_notices, tool_row
from discovery_cli.targets import exit_code_of_server, one_server
from discovery_engine._util.quantities import counted
from discovery_engine.json_forms.notice_form import notice_forms
from discovery_engine.json_forms.tool_form import tool_form
from discovery_engine.view.view import ToolList, View


@click.command("tools")
@click.argument("server", shell_complete=complete_server)
@click.option("--all", "include_disabled", is_flag=True, help="Also tools that are disabled.")
@click.option("--tags", "with_tags", is_flag=True, help="Also show the tags.")
@max_tokens_option
@pass_invocation
def command(
    invocation: Invocation,
    server: str,
    *,
    include_disabled: bool,
    with_tags: bool,
    max_tokens: int | None,
) -> ExitCode:
    """Show the tools of a server.

    If it was never reached, the exit code is 5, or 6 if only a secret is missing; it is 2 if
    its entry in the configuration cannot be used.
    """
    output = invocation.output
    view = invocation.view(one_server(server))
    listed = view.list_tools(server, include_disabled=include_disabled)
    tools = [tool_form(entry, view) for entry in listed.entries] if output.as_json else []
    form = {
        "server": listed.server,
        "tools": tools,
        "notices": notice_forms(listed.notices),
    }
    if max_tokens:
        from discovery_engine.agent.budget import Budget
        from discovery_engine.agent.render.tools import tools_result
        from discovery_engine.agent.tool_text import Detail

        show_result(output, tools_result(listed, Budget(max_tokens), Detail.SCHEMA), form)
    elif output.as_json:
        output.answer(form)
    else:
        output.table([tool_row(output, e, view, with_tags=with_tags) for e in listed.entries])
        say_notices(output, listed.notices)
        output.say(_sum(listed, view, include_disabled=include_disabled))
    return exit_code_of_server(view, listed.server)


def _sum(listed: ToolList, view: View, *, include_disabled: bool) -> str:
    shown = counted(len(listed.entries), "tool")
    part = view.catalog.parts.get(listed.server)
    hidden = len(part.entries) - len(listed.entries) if part else 0
    if hidden and not include_disabled:
        return f"{shown}; {hidden} disabled (--all shows them)"
    return shown
