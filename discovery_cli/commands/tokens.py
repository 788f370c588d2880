"""`discovery tune tokens`: how many tokens tools cost an agent, by the way they are offered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation
from discovery_cli.options import in_view, pass_invocation, view_option
from discovery_cli.output import Cell
from discovery_engine._util.quantities import counted

if TYPE_CHECKING:
    from discovery_cli.rendering import Row
    from discovery_engine.agent.context_costs import ContextCost
    from discovery_engine.view.view import View

_COLUMNS = ("tools", "definitions", "answers", "calls")
_WAYS = {
    "all": "all tools up front",
    "meta": "meta: the meta-tools",
    "select": "select: search_tools, and the tools that fit",
}


@click.command("tokens")
@click.argument("words", metavar="[REQUEST]", nargs=-1)
@view_option
@pass_invocation
def command(invocation: Invocation, words: tuple[str, ...], *, view_name: str | None) -> ExitCode:
    """Show how many tokens the tools take of an agent's context.

    All tools up front are compared with the meta-tools, and with the mode `select` of a toolset,
    which binds only tools that match. `definitions` are sent to the model at every turn; `answers`
    are read once for a request, until the schema of the best tool is known. Without REQUEST, the
    figures are the mean of requests drafted from the descriptions of the tools. Tokens are
    estimated.

    \b
      discovery tune tokens create an issue
      discovery tune tokens --view readers
    """
    from discovery_engine.agent.context_costs import context_costs
    from discovery_engine.evaluation.suggest import drafted_requests

    output, view = invocation.output, in_view(invocation.view(), view_name)
    requests = [" ".join(words)] if words else drafted_requests(view)
    if not requests:
        output.say("no tool is known; `discovery list` shows the servers")
        return ExitCode.USAGE
    costs = context_costs(view, requests)
    if output.as_json:
        form = {"drafted": not words, "requests": len(requests)}
        output.answer({**form, "ways": [cost.to_json() for cost in costs]})
        return ExitCode.OK
    head: Row = ["", *(Cell(column, "faint", to_the_right=True) for column in _COLUMNS)]
    output.table([head, *map(_row, costs)])
    tools, servers = counted(round(costs[0].tools), "tool"), counted(_servers(view), "server")
    of = (
        f"the mean of {counted(len(requests), 'drafted request')}"
        if not words
        else "for this request"
    )
    output.say(f"{tools} of {servers}; estimated tokens, {of}")
    return ExitCode.OK


def _servers(view: View) -> int:
    return len({entry.key.server for entry in view.catalog.visible})


def _row(cost: ContextCost) -> Row:
    figures = [
        _decimal(cost.tools),
        f"{cost.definitions:,}",
        f"{cost.answers:,}",
        _decimal(cost.calls),
    ]
    return [_WAYS[cost.way], *(Cell(figure, to_the_right=True) for figure in figures)]


def _decimal(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")
