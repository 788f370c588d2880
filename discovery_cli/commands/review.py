"""`discovery review`: everything that waits for the owner's decision."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import click
from msgspec import to_builtins

from discovery_cli.command_group import Group
from discovery_cli.exit_codes import ExitCode
from discovery_cli.finding_output import suspicion_lines
from discovery_cli.install_commands import (
    NO_TERMINAL,
    may_ask_person,
    planned_installation,
    secret_option,
    with_option,
    yes_option,
)
from discovery_cli.invocation import Invocation, named
from discovery_cli.options import complete_server, pass_invocation
from discovery_cli.output import Cell, Output
from discovery_cli.server_changes import show_sync
from discovery_cli.terminal_input import is_agreed
from discovery_engine._util.quantities import ago, counted
from discovery_engine._util.text import one_line, visible
from discovery_engine.config.settings import RemoteTransport, StdioTransport
from discovery_engine.engine.json_forms.owner_forms import oauth_facts, place_of
from discovery_engine.engine.owner.agent_requests import written_entry
from discovery_engine.engine.owner.candidates import (
    Candidate,
    findings_in,
    shell_word,
    visible_line,
)
from discovery_engine.engine.owner.setup_sync import SyncPlan
from discovery_engine.secrets.references import redact_literals
from discovery_engine.upstream.identity import shown_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from discovery_cli.rendering import Row
    from discovery_engine._util.json import JSONObject
    from discovery_engine.config.settings import Settings
    from discovery_engine.engine import Engine
    from discovery_engine.marketplace.installer.plan import InstallPlan
    from discovery_engine.store.stored_records import AgentRequest
    from discovery_engine.tools.model import ServerName
    from discovery_engine.trust.review import Review
    from discovery_engine.trust.scanner import Finding
    from discovery_engine.upstream.stdio.sandbox.choice import Choice


class Inbox(Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Read a word that is no command as a server: `review git` is `review tools git`."""
        is_server = args[0] not in self.list_commands(ctx) and not args[0].startswith("-")
        return super().resolve_command(ctx, ["tools", *args] if is_server else args)


@click.group("review", cls=Inbox, invoke_without_command=True)
@pass_invocation
@click.pass_context
def command(context: click.Context, invocation: Invocation) -> ExitCode | None:
    """Show everything that waits for your decision.

    These are servers to approve, changed tools to accept, and requests of agents. The commands
    below show each in full, and ask before they accept anything. Exits with 4 while something
    waits.

    \b
      discovery review
      discovery review servers time
      discovery review tools github --yes
      discovery review decline 3 --reason "use the registry"
    """
    if context.invoked_subcommand is not None:
        return None
    candidates, changes, agent_requests = invocation.run(_waiting)
    output = invocation.output
    if output.as_json:
        from discovery_engine.engine.json_forms.owner_forms import (
            candidate_form,
            reviewed_server_form,
        )

        output.answer(
            {
                "servers": list(map(candidate_form, candidates)),
                "tools": [reviewed_server_form(*item) for item in changes.items()],
                "requests": to_builtins(agent_requests),
            }
        )
    else:
        rows = list(_rows(candidates, changes, agent_requests))
        output.table(rows)
        output.say(
            f"{counted(len(rows), 'decision')} waiting"
            if rows
            else "nothing waits for your decision"
        )
    return ExitCode.DISABLED if candidates or changes or agent_requests else ExitCode.OK


async def _waiting(
    engine: Engine,
) -> tuple[Sequence[Candidate], Mapping[ServerName, tuple[Review, ...]], Sequence[AgentRequest]]:
    return (
        await engine.trust.candidates(()),
        await engine.review.changes(()),
        await engine.requests.list("waiting"),
    )


def _rows(
    candidates: Sequence[Candidate],
    changes: Mapping[ServerName, tuple[Review, ...]],
    agent_requests: Sequence[AgentRequest],
) -> Iterator[Row]:
    """Yield a row for each decision, with the command that shows it in full."""
    for candidate in candidates:
        name = candidate.server.name
        yield _row("server", name, candidate.refused.reason, f"servers {name}")
    for server, reviews in changes.items():
        yield _row("tools", server, counted(len(reviews), "change"), f"tools {server}")
    for request in agent_requests:
        subject = f"{request.action} {visible(request.name)}".strip()
        yield _row("request", request.id, subject, f"accept {request.id}")


def _row(kind: str, name: str, about: str, step: str) -> Row:
    return [kind, Cell(visible(name), "strong"), about, Cell(f"discovery review {step}", "faint")]


@command.command("servers")
@click.argument("servers", metavar="[SERVER]...", nargs=-1, shell_complete=complete_server)
@click.option("--yes", is_flag=True, help="Do not ask: approve what is shown.")
@click.option("--revoke", is_flag=True, help="Revoke approvals; without SERVER, of all servers.")
@pass_invocation
def servers_(
    invocation: Invocation, servers: tuple[str, ...], *, yes: bool, revoke: bool
) -> ExitCode:
    """Show what untrusted servers would run, and approve them.

    Servers of a configuration in the working folder, or of a project's file of another client, are
    not started before you approve them. An approval covers what is shown: it ends when the command,
    an argument, a variable, an address or a program file of the project changes. Values of
    variables may change. Exits with 4 if servers are left unapproved.

    \b
      discovery review servers
      discovery review servers time --yes
      discovery review servers time --revoke
    """
    if yes and revoke:
        raise click.UsageError("--yes and --revoke cannot be combined")
    if revoke:
        return _revoke(invocation, servers)
    candidates, settings = invocation.run(partial(_candidates, servers=servers))
    output = invocation.output
    if not output.as_json:
        _show_candidates(output, candidates, settings)
    approved = bool(candidates) and is_agreed(
        output, f"May {counted(len(candidates), 'server')} be started as shown?", yes=yes
    )
    if approved:
        invocation.run(lambda engine: engine.trust.approve(candidates))
    if output.as_json:
        from discovery_engine.engine.json_forms.owner_forms import candidate_form

        output.answer({"servers": list(map(candidate_form, candidates)), "approved": approved})
    elif approved:
        output.say(f"approved {counted(len(candidates), 'server')}")
    elif candidates:
        output.say(f"nothing was approved; --yes approves the {counted(len(candidates), 'server')}")
    return ExitCode.DISABLED if candidates and not approved else ExitCode.OK


async def _candidates(
    engine: Engine, *, servers: tuple[str, ...]
) -> tuple[tuple[Candidate, ...], Settings]:
    return await engine.trust.candidates(servers), engine.settings


def _show_candidates(output: Output, candidates: tuple[Candidate, ...], settings: Settings) -> None:

    for candidate in candidates:
        for line in candidate_lines(candidate):
            output.line(line)
    for line in override_lines(settings) if candidates else ():
        output.line(line)
    if not candidates:
        output.say("no server waits for approval")


def _revoke(invocation: Invocation, servers: tuple[str, ...]) -> ExitCode:
    count = invocation.run(lambda engine: engine.trust.revoke(servers or None))
    invocation.output.report({"revoked": count}, f"revoked {counted(count, 'approval')}")
    return ExitCode.OK


@command.command("tools")
@click.argument("servers", metavar="[SERVER]...", nargs=-1, shell_complete=complete_server)
@click.option(
    "--tool", "tools", metavar="TOOL", multiple=True, help="Only this tool; may be repeated."
)
@click.option("--yes", "accept", is_flag=True, help="Do not ask: accept what is shown.")
@click.option(
    "--all",
    "is_over",
    is_flag=True,
    help="After lost decisions: stop withholding tools, even if a server cannot be listed.",
)
@pass_invocation
def tools_(
    invocation: Invocation,
    servers: tuple[str, ...],
    *,
    tools: tuple[str, ...],
    accept: bool,
    is_over: bool,
) -> ExitCode:
    """Show changed and withheld tools, and accept them as they are now.

    A tool whose meaning has changed is neither found nor called until you accept it. So is a new
    tool with severe findings, or of a server with `trust: quarantine`. Suspicious texts are shown
    first. Exits with 4 while something waits.

    If earlier decisions were lost, every tool that is not known to be accepted is withheld until
    every server has been listed again and nothing is left to review.

    \b
      discovery review tools github
      discovery review tools github --tool create_issue --yes
    """
    if is_over and (servers or tools):
        raise click.UsageError("--all is for all servers and tools, name none")
    output = invocation.output
    waiting = invocation.run(lambda engine: engine.review.changes(servers, tools=tools))
    accepted: dict[ServerName, tuple[Review, ...]] = {}
    for server, reviews in waiting.items():
        if not output.as_json:
            _show_changes(output, server, reviews)
        question = f"Accept {counted(len(reviews), 'change')} of {server}?"
        if is_agreed(output, question, yes=accept):
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
        " (`discovery review servers`) or disable it, or run `discovery review tools --all`"
    )


def _show_changes(output: Output, server: ServerName, reviews: tuple[Review, ...]) -> None:
    from discovery_cli.finding_output import review_lines

    output.line(server, "strong")
    for review in reviews:
        for line in review_lines(review):
            output.line(line)


def _answer(
    output: Output, waiting: Mapping[ServerName, tuple[Review, ...]], *, accepted: int, left: int
) -> None:
    from discovery_engine.engine.json_forms.owner_forms import reviewed_server_form

    if output.as_json:
        servers = [reviewed_server_form(name, reviews) for name, reviews in waiting.items()]
        output.answer({"servers": servers, "accepted_count": accepted, "waiting_count": left})
    elif accepted:
        output.say(f"accepted {counted(accepted, 'change')}")
    elif left:
        output.say("nothing was accepted; --yes accepts what is shown")
    else:
        output.say("nothing waits for review")


def candidate_lines(candidate: Candidate) -> Iterator[str]:
    """Yield everything about a server to approve, one fact a line, with nothing cut."""
    yield f"{candidate.server.name}  ({place_of(candidate)}; {candidate.refused.reason})"
    if candidate.refused.refusal == "altered":
        yield f"  {'changed':<8} {visible_line(candidate.refused.detail)}"
    for name, text in _facts(candidate):
        yield f"  {name:<8} {text}"
    for note in candidate.notes:
        yield f"  {'careful':<8} {note}"
    yield from _suspicions(candidate.findings)


def override_lines(settings: Settings) -> Iterator[str]:
    """Yield the overrides of the file: texts for agents, and pinned arguments."""
    for override in settings.overrides:
        fields = {"name": override.name, "description": override.description, **override.arguments}
        values = ", ".join(f"{k}: {json.dumps(v)}" for k, v in fields.items() if v is not None)
        tools = ", ".join((*override.servers, *override.patterns))
        yield f"override  {visible_line(tools)}  ({override.origin}; {visible_line(values)})"
        yield from _suspicions(findings_in(override.description or ""))


def _facts(candidate: Candidate) -> Iterator[tuple[str, str]]:
    match candidate.server.transport:
        case StdioTransport(command, args, env, cwd, sandbox):
            yield "starts", " ".join(map(shell_word, (command, *args)))
            yield (
                "program",
                shell_word(candidate.subject.program)
                if candidate.subject.program
                else "not found yet",
            )
            if cwd is not None:
                yield "in", shell_word(cwd)
            if sandbox is not None:
                yield "sandbox", visible_line(str(sandbox))
            for name, text in env.items():
                yield (
                    "env",
                    f"{shell_word(name)}={shell_word(shown_value(name, text, is_secret=True))}",
                )
            for path, digest in candidate.files.items():
                yield "file", f"{shell_word(path)}  {shell_word(digest)}"
        case RemoteTransport(url, headers, _):
            yield "reaches", shell_word(url)
            for name, text in headers.items():
                yield "header", f"{shell_word(name)}: {shell_word(redact_literals(text))}"
            for name, text in oauth_facts(candidate.server.transport):
                yield "oauth", f"{name}: {shell_word(text)}"
    if candidate.server.description:
        yield "description", visible_line(candidate.server.description)


def _suspicions(findings: Iterable[Finding]) -> Iterator[str]:
    for line in suspicion_lines(findings):
        yield f"  {'careful':<8} {line}"


@command.command("requests")
@click.option("--all", "show_all", is_flag=True, help="Also show requests that are decided.")
@pass_invocation
def requests(invocation: Invocation, *, show_all: bool) -> None:
    """List the requests of agents.

    Agents can make requests if `server.registryTool` is `ask`. Nothing is done before you accept
    one.

    \b
      discovery review requests --all
    """
    listed = invocation.run(lambda engine: engine.requests.list(None if show_all else "waiting"))
    output, now = invocation.output, invocation.clock()
    if output.as_json:
        output.answer({"requests": to_builtins(listed)})
        return
    output.table(
        [
            [
                Cell(request.id, "strong"),
                request.state,
                f"{request.action} {visible(request.name)}".strip(),
                f"{ago(now - request.created_at)} ago",
                Cell(_about(request), "faint", is_summary=True),
            ]
            for request in listed
        ]
    )
    waiting = sum(request.state == "waiting" for request in listed)
    output.say(f"{counted(waiting, 'request')} waiting")
    if waiting:
        output.say("`discovery review accept ID` shows what would be done, and asks you")


@command.command("accept")
@click.argument("request_id", metavar="ID")
@with_option
@secret_option
@yes_option
@pass_invocation
def accept(
    invocation: Invocation,
    *,
    request_id: str,
    values: tuple[str, ...],
    secrets: tuple[str, ...],
    yes: bool,
) -> ExitCode:
    """Show the request of an agent, and do it if you agree.

    \b
      discovery review accept 3
    """
    output, asks = invocation.output, may_ask_person(invocation, yes=yes)

    async def work(engine: Engine) -> tuple[AgentRequest, bool]:
        request = await engine.requests.get(request_id)
        plan: InstallPlan | SyncPlan | None = None
        if request.state == "waiting" and _is_of_marketplace(request):
            chosen = {"values": values}
            plan = await planned_installation(engine, request.name, chosen, secrets, asks=asks)
        elif request.state == "waiting" and request.action == "sync":
            plan = await engine.servers.plan_sync()
        if not output.as_json:
            _show(output, request, plan)
        if plan and not isinstance(plan, SyncPlan):
            plan.require_ready()
        if not is_agreed(output, f"{request.action} as shown?", yes=yes):
            return request, False
        return await engine.requests.accept(request.id, plan=plan), True

    request, is_done = invocation.run(work)
    if output.as_json:
        output.answer(to_builtins(request))
    elif is_done:
        output.say(f"done: {request.action} {one_line(request.outcome)}; `discovery list` shows it")
    else:
        output.say("nothing was done" if asks else NO_TERMINAL)
    return ExitCode.OK if is_done else ExitCode.DISABLED


@command.command("decline")
@click.argument("request_id", metavar="ID")
@click.option("--reason", default="", metavar="TEXT", help="The reason, which the agent reads.")
@pass_invocation
def decline(invocation: Invocation, *, request_id: str, reason: str) -> None:
    """Decline the request of an agent.

    The same request is not made again within a day.

    \b
      discovery review decline 3 --reason "use the other one"
    """
    request = invocation.run(lambda engine: engine.requests.decline(request_id, reason=reason))
    invocation.output.report(
        to_builtins(request), f"declined: {request.action} {visible(request.name)}"
    )


def _is_of_marketplace(request: AgentRequest) -> bool:
    return request.action == "install" and written_entry(request) is None


def _show(output: Output, request: AgentRequest, plan: InstallPlan | SyncPlan | None) -> None:
    output.line(f"{request.action} {visible(request.name)}".strip(), "strong")
    if isinstance(plan, SyncPlan):
        show_sync(output, plan)
    elif plan:
        from discovery_cli.install_commands import show_plan

        show_plan(output, plan)
    elif entry := written_entry(request):
        words = [str(entry.get("command", "")), *map(str, entry.get("args", ()))]
        output.line(f"  it would run  {visible(shlex.join(words))}")
        output.line(f"  in a sandbox  auto; here confined by {_confinement(request, entry)}")
        output.line("  these words are the agent's own: no marketplace knows them")
        output.line(f"  entry         {visible(json.dumps(entry))}")


def _confinement(request: AgentRequest, entry: JSONObject) -> Choice:
    """Return the sandbox that an entry gets on this system."""
    from discovery_engine.marketplace.installer.planner import confinement
    from discovery_engine.store.install_records import Grants

    command = str(entry.get("command", ""))
    return confinement(request.name, Grants(network=False), command, os.environ)


def _about(request: AgentRequest) -> str:
    return one_line(request.outcome or str(request.arguments.get("description", "")))
