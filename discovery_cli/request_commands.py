"""`discovery review requests`, `accept` and `decline`: what agents asked for."""

from __future__ import annotations

import json
import os
import shlex
from typing import TYPE_CHECKING

import click
from msgspec import to_builtins

from discovery_cli.exit_codes import ExitCode
from discovery_cli.install_commands import (
    NO_TERMINAL,
    is_agreed,
    may_ask_person,
    planned_installation,
    secret_option,
    with_option,
    yes_option,
)
from discovery_cli.invocation import Invocation
from discovery_cli.options import pass_invocation
from discovery_cli.output import Cell
from discovery_cli.server_changes import show_sync
from discovery_engine._util.quantities import ago, counted
from discovery_engine._util.text import one_line, visible
from discovery_engine.engine.owner.agent_requests import written_entry
from discovery_engine.engine.owner.setup_sync import SyncPlan

if TYPE_CHECKING:
    from discovery_cli.output import Output
    from discovery_engine._util.json import JSONObject
    from discovery_engine.engine import Engine
    from discovery_engine.marketplace.installer.plan import InstallPlan
    from discovery_engine.store.request_records import AgentRequest
    from discovery_engine.upstream.stdio.sandbox.choice import Choice


@click.command("requests")
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


@click.command("accept")
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
        if not is_agreed(f"{request.action} as shown?", yes=yes, asks=asks):
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


@click.command("decline")
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
        from discovery_cli.install_output import show_plan

        show_plan(output, plan)
    elif entry := written_entry(request):
        words = [str(entry.get("command", "")), *map(str, entry.get("args", ()))]
        output.line(f"  it would run  {visible(shlex.join(words))}")
        output.line(f"  in a sandbox  auto; here confined by {_confinement(request, entry)}")
        output.line("  these words are the agent's own: no marketplace knows them")
        output.line(f"  entry         {visible(json.dumps(entry))}")


def _confinement(request: AgentRequest, entry: JSONObject) -> Choice:
    """Return the sandbox that an entry has on this system."""
    from discovery_engine.marketplace.installer.install_records import Grants
    from discovery_engine.marketplace.installer.planner import confinement

    command = str(entry.get("command", ""))
    return confinement(request.name, Grants(network=False), command, os.environ)


def _about(request: AgentRequest) -> str:
    return one_line(request.outcome or str(request.arguments.get("description", "")))
