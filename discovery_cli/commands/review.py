"""`discovery review`: the definitions of tools now, compared with the accepted ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import click

from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation, named
from discovery_cli.options import complete_server, pass_invocation
from discovery_cli.output import Output
from discovery_engine._util.quantities import counted

if TYPE_CHECKING:
    from discovery_engine.tools.model import ServerName
    from discovery_engine.trust.review import Review

    Waiting: TypeAlias = Mapping[ServerName, tuple[Review, ...]]


@click.command("review")
@click.argument("servers", metavar="[SERVER]...", nargs=-1, shell_complete=complete_server)
@click.option("--tool", "tools", metavar="TOOL", multiple=True, help="Only this one; repeatable.")
@click.option("--yes", "--accept", "accept", is_flag=True, help="Do not ask: accept what is shown.")
@click.option(
    "--all",
    "is_over",
    is_flag=True,
    help="After decisions were lost: also end that for servers that cannot be listed.",
)
@pass_invocation
def command(
    invocation: Invocation,
    servers: tuple[str, ...],
    *,
    tools: tuple[str, ...],
    accept: bool,
    is_over: bool,
) -> ExitCode:
    """Show withheld tools, and accept them as they are now.

    A tool whose meaning has changed is neither found nor executed before this; nor is a new one
    with severe findings, or of a server with `trust: quarantine`. What is
    suspicious in it is shown first. While something waits, the exit code is 4.

    After earlier decisions were lost every tool that is not known to be accepted is withheld. That
    ends once every server has been listed again and nothing is left to review.
    """
    if is_over and (servers or tools):
        raise click.UsageError("--all is for all servers and tools, name none")
    output = invocation.output
    waiting = invocation.run(lambda engine: engine.review.changes(servers, tools=tools))
    accepted: dict[ServerName, tuple[Review, ...]] = {}
    for server, reviews in waiting.items():
        if not output.as_json:
            _show(output, server, reviews)
        if accept or _is_confirmed(output, server, len(reviews)):
            accepted[server] = reviews
    if accepted:
        invocation.run(lambda engine: engine.review.accept(accepted))
    count = sum(map(len, accepted.values()))
    left = sum(map(len, waiting.values())) - count
    unasked_of: tuple[ServerName, ...] | None = None
    if not (left or servers or tools):
        unasked_of = invocation.run(lambda engine: engine.review.end_loss(is_forced=is_over))
    _answer(output, waiting, accepted=count, left=left)
    if unasked_of is not None:
        _say_whether_over(output, unasked_of)
    return ExitCode.DISABLED if left or unasked_of else ExitCode.OK


def _say_whether_over(output: Output, unknown: tuple[ServerName, ...]) -> None:
    if not unknown:
        output.say("the loss of decisions is over: new tools are accepted at first sight again")
        return
    output.say(
        f"new tools are still withheld, since {named(unknown)} could not be listed: repair, approve"
        " (`discovery trust`) or disable it, or run `discovery review --all`"
    )


def _show(output: Output, server: ServerName, found: tuple[Review, ...]) -> None:
    from discovery_cli.differences import review_lines

    output.line(server, "strong")
    for review in found:
        for line in review_lines(review):
            output.line(line)


def _is_confirmed(output: Output, server: ServerName, count: int) -> bool:
    from discovery_cli.client_files import may_ask

    if output.as_json or not may_ask():
        return False
    return click.confirm(f"Accept {counted(count, 'change')} of {server}?", err=True)


def _answer(output: Output, waiting: Waiting, *, accepted: int, left: int) -> None:
    from discovery_engine.json_forms.review_form import reviewed_server_form

    if output.as_json:
        servers = [reviewed_server_form(name, reviews) for name, reviews in waiting.items()]
        output.answer({"servers": servers, "accepted_count": accepted, "waiting_count": left})
    elif accepted:
        output.say(f"accepted {counted(accepted, 'change')}")
    elif left:
        output.say("nothing was accepted; --yes accepts what is shown")
    else:
        output.say("nothing waits for review")
