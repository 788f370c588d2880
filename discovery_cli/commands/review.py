"""`discovery review`: what tools say now, beside what was accepted of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import click

from discovery_cli.failures import ExitCode
from discovery_cli.invocation import Invocation, every_server, named, unasked
from discovery_cli.options import complete_server, pass_invocation
from discovery_cli.output import Output
from discovery_engine._util.quantities import counted
from discovery_engine._util.suggestions import nearest
from discovery_engine.errors import ToolNotFoundError
from discovery_engine.rules.rule import REFUSALS

if TYPE_CHECKING:
    from discovery_engine.engine import Engine
    from discovery_engine.tools.model import ServerName
    from discovery_engine.trust.decisions import Acceptance
    from discovery_engine.trust.review import Review
    from discovery_engine.view.view import View

    Waiting: TypeAlias = dict[ServerName, tuple[Review, ...]]


@click.command("review")
@click.argument("servers", metavar="[SERVER]...", nargs=-1, shell_complete=complete_server)
@click.option("--tool", "tools", metavar="TOOL", multiple=True, help="Only this one; repeatable.")
@click.option("--accept", is_flag=True, help="Do not ask: accept what is shown.")
@click.option(
    "--all",
    "is_over",
    is_flag=True,
    help="After decisions were lost: also end that for servers that cannot be asked.",
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
    """Look at tools that are held back, and accept them as they are now.

    A tool whose meaning has changed is neither found nor executed before this; nor is a new one
    that says what no honest tool says, or is of a server with `trust: quarantine`. What is
    suspicious in it is told first. While something waits, the exit code is 4.

    After earlier decisions were lost every tool that is not known to be accepted is held back. That
    ends once every server has been asked again and nothing is left to review.
    """
    if is_over and (servers or tools):
        raise click.UsageError("--all is for all servers and tools, name none")
    output = invocation.output
    waiting = invocation.run(partial(_waiting, servers=servers, tools=tools))
    accepted: list[Acceptance] = []
    for server, found in waiting.items():
        if not output.as_json:
            _show(output, server, found)
        if accept or _is_confirmed(output, server, len(found)):
            accepted += [review.acceptance for review in found]
    if accepted:
        invocation.run(partial(_accept, accepted=accepted))
    left = sum(map(len, waiting.values())) - len(accepted)
    unasked_of: tuple[ServerName, ...] | None = None
    if not (left or servers or tools):
        unasked_of = invocation.run(partial(_acknowledge, is_over=is_over))
    _answer(output, waiting, accepted=len(accepted), left=left)
    if unasked_of is not None:
        _say_whether_over(output, unasked_of)
    return ExitCode.DISABLED if left or unasked_of else ExitCode.OK


async def _waiting(engine: Engine, *, servers: tuple[str, ...], tools: tuple[str, ...]) -> Waiting:
    from discovery_engine.scanner import Neighbours
    from discovery_engine.trust.identity import known_as
    from discovery_engine.trust.review import reviews

    names = [engine.view.server(name).name for name in servers] or every_server(engine.view)
    if missing := [*unasked(engine.view, names), *_not_asked_since_loss(engine.view, names)]:
        await engine.refresh(missing)
    view, trustee = engine.view, engine.current.trust_store
    wanted = _upstream_names(view, names, tools)
    neighbours = Neighbours.of(entry.tool for entry in view.catalog)
    found: Waiting = {}
    for name in names:
        server, part = view.server_settings(name), view.catalog.parts.get(name)
        if part is None:
            continue
        history = trustee.history(view.settings, known_as(server, view.settings.path))
        chosen = reviews(server, part, trustee.trust, history, neighbours=neighbours)
        found[name] = tuple(one for one in chosen if not tools or (name, one.tool) in wanted)
    return {name: reviewed for name, reviewed in found.items() if reviewed}


def _upstream_names(
    view: View, servers: Collection[ServerName], tools: Iterable[str]
) -> set[tuple[ServerName, str]]:
    """The servers' own names of the tools that are meant, in whatever way they are named.

    Raises:
        ToolNotFoundError: For one that none of the servers has.
    """
    known: defaultdict[str, set[tuple[ServerName, str]]] = defaultdict(set)
    for tool in (entry.tool for entry in view.catalog if entry.tool.server in servers):
        for name in (tool.name, tool.upstream_name, str(tool.key)):
            known[name].add((tool.server, tool.upstream_name))
    for name in tools:
        if name not in known:
            raise ToolNotFoundError(None, name, nearest(name, known))
    return {meant for name in tools for meant in known[name]}


async def _accept(engine: Engine, *, accepted: list[Acceptance]) -> None:
    engine.current.trust_store.accept(engine.settings, accepted)
    await engine.reconsider()


async def _acknowledge(engine: Engine, *, is_over: bool) -> tuple[ServerName, ...] | None:
    """Let tools be accepted at first sight again, if decisions were lost.

    Returns the servers that stand against it, as nobody knows what they say now; None if nothing
    was lost.
    """
    view, trustee = engine.view, engine.current.trust_store
    if view.lost_at is None:
        return None
    unknown = () if is_over else _unknown_since_loss(view)
    if not unknown:
        trustee.acknowledge_loss(engine.settings)
        await engine.reconsider()
    return unknown


def _not_asked_since_loss(view: View, names: Iterable[ServerName]) -> list[ServerName]:
    """Those of `names` that can be asked, and were listed before decisions were lost."""
    may_be_asked = view.connectable
    return [name for name in names if name in may_be_asked and not _is_known_since_loss(view, name)]


def _unknown_since_loss(view: View) -> tuple[ServerName, ...]:
    """The servers that are switched on, and were not listed since decisions were lost."""
    is_on = (name for name in every_server(view) if _is_on(view, name))
    return tuple(name for name in is_on if not _is_known_since_loss(view, name))


def _is_known_since_loss(view: View, name: ServerName) -> bool:
    part = view.catalog.part(name)
    is_listed = part.listed_at is not None and part.failure is None
    return view.lost_at is None or (is_listed and (part.listed_at or 0.0) >= view.lost_at)


def _is_on(view: View, name: ServerName) -> bool:
    verdict = view.catalog.part(name).verdict
    return view.server_settings(name).enabled and (verdict.enabled or verdict.reason in REFUSALS)


def _say_whether_over(output: Output, unknown: tuple[ServerName, ...]) -> None:
    if not unknown:
        output.say("the loss of decisions is over: new tools are accepted at first sight again")
        return
    output.say(
        f"new tools are held back still, since {named(unknown)} could not be asked: mend, approve"
        " (`discovery trust`) or disable what is named, or end it with `discovery review --all`"
    )


def _show(output: Output, server: ServerName, found: tuple[Review, ...]) -> None:
    from discovery_cli.differences import review_lines

    output.line(server, "strong")
    for review in found:
        for line in review_lines(review):
            output.line(line)


def _is_confirmed(output: Output, server: ServerName, count: int) -> bool:
    from discovery_cli.files import may_ask

    if output.as_json or not may_ask():
        return False
    return click.confirm(f"Accept {counted(count, 'change')} of {server}?", err=True)


def _answer(output: Output, waiting: Waiting, *, accepted: int, left: int) -> None:
    from discovery_cli.differences import review_form

    if output.as_json:
        servers = [
            {"name": name, "reviews": list(map(review_form, found))}
            for name, found in waiting.items()
        ]
        output.answer({"servers": servers, "accepted_count": accepted, "waiting_count": left})
    elif accepted:
        output.say(f"accepted {counted(accepted, 'change')}")
    elif left:
        output.say("nothing was accepted; --accept accepts what is shown")
    else:
        output.say("nothing waits for review")
