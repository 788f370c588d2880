"""Values that servers wait for, asked for at the terminal, and stored as secrets."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from discovery_cli.server_changes import say_secrets, show_copy, show_diff
from discovery_cli.terminal_input import typed_value
from discovery_engine._util.text import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from discovery_cli.invocation import Invocation
    from discovery_engine.config.settings import ServerSettings
    from discovery_engine.engine import Engine
    from discovery_engine.engine.owner.server_plans import ServerPlan
    from discovery_engine.view.status import ServerReport


def ask_for(invocation: Invocation, *, lists: bool = False) -> bool:
    """Ask for every missing value, and store what is typed; returns whether one was missing.

    With `lists` the servers that got one are listed, as far as they wait for none.
    """
    waiting = invocation.run(_waiting)
    values: dict[str, dict[str, str]] = {}
    for address, servers in waiting.items():
        name, whose = address.removeprefix("secret:"), ", ".join(server.name for server in servers)
        prompt = next((entry.prompts[address] for entry in servers if address in entry.prompts), "")
        what = f"{name} ({quoted(prompt)})" if prompt else name
        value = typed_value(f"value of {what} for {whose}, kept encrypted (Enter leaves it out)")
        for server in servers if value else ():
            values.setdefault(server.name, {})[address] = value
    if values:
        changed = invocation.run(partial(_give, values_of_servers=values, lists=lists))
        for plan, report in changed:
            _say(invocation, plan, report, is_listed=lists)
    return bool(waiting)


async def _waiting(engine: Engine) -> Mapping[str, Sequence[ServerSettings]]:
    """The servers that are wanted, by what they wait for."""
    waiting: dict[str, list[ServerSettings]] = {}
    for server in engine.view.servers():
        for address in await engine.servers.missing(server.name) if server.is_wanted else ():
            waiting.setdefault(address, []).append(engine.view.server_settings(server.name))
    return waiting


async def _give(
    engine: Engine, *, values_of_servers: Mapping[str, Mapping[str, str]], lists: bool
) -> list[tuple[ServerPlan, ServerReport]]:
    plans = []
    for server, values in values_of_servers.items():
        plan = await engine.servers.plan_values(server, values)
        await engine.servers.apply(plan)
        plans.append(plan)
    if lists:
        await engine.refresh([plan.name for plan in plans])
    return [(plan, engine.view.server(plan.name)) for plan in plans]


def _say(
    invocation: Invocation, plan: ServerPlan, report: ServerReport, *, is_listed: bool
) -> None:
    output = invocation.output
    if not is_listed:
        say_secrets(output, plan)
        return
    show_copy(output, plan)
    if not plan.original:
        show_diff(output, plan.diff)
        say_secrets(output, plan)
    output.say(f"{plan.name} is {report.state}{f': {report.reason}' if report.reason else ''}")
