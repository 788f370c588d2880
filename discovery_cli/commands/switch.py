"""`discovery enable` and `disable`: a server switched, in discovery.yaml or the registry."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal, TypeAlias

import click

from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation, get_to_know
from discovery_cli.options import complete_target, pass_invocation
from discovery_cli.server_changes import (
    place_of,
    say_obstacle,
    show_copy,
    show_diff,
    show_diff_lines,
)
from discovery_cli.targets import server_named, servers_of, tool_named

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.catalog import Entry
    from discovery_engine.engine import Engine
    from discovery_engine.engine.owner.configuration_changes import PlannedChange
    from discovery_engine.engine.owner.server_plans import ServerPlan
    from discovery_engine.view.status import ServerReport

Place: TypeAlias = Literal["file", "registry"]

_STATUS = {
    (True, True): "activated",
    (True, False): "already_active",
    (False, True): "deactivated",
    (False, False): "not_active",
}


_server = click.argument("server", metavar="SERVER[:TOOL]", shell_complete=complete_target)
_to = click.option(
    "--to",
    type=click.Choice(["file", "registry"]),
    help="Change discovery.yaml or the registry; by default, where the server is.",
)
_dry_run = click.option(
    "--dry-run", is_flag=True, help="Show what would be changed, and change nothing."
)


@click.command("enable")
@_server
@_to
@_dry_run
@pass_invocation
def enable(invocation: Invocation, *, server: str, to: Place | None, dry_run: bool) -> ExitCode:
    """Enable a server, or a tool.

    A server is enabled where its entry is: in discovery.yaml or in the registry. The entry of
    another client's file is copied into discovery.yaml, with its secrets stored, and used in its
    place; with `--to registry` it is not copied. An enabled server is started when it is needed.
    SERVER:TOOL removes the rule that `disable` wrote for the tool.

    \b
      discovery enable github
      discovery enable git:git_reset
    """
    return _switch(invocation, server, is_wanted=True, to=to, dry_run=dry_run)


@click.command("disable")
@_server
@_to
@_dry_run
@pass_invocation
def disable(invocation: Invocation, *, server: str, to: Place | None, dry_run: bool) -> ExitCode:
    """Disable a server and end its sessions, or disable a tool.

    A server is disabled where its entry is: in discovery.yaml or in the registry. The entry of
    another client's file is copied into discovery.yaml, with its secrets stored, and disabled
    there. With `--to registry` no file is changed, and the server is disabled on every machine that
    shares the registry. SERVER:TOOL adds a rule for the tool to discovery.yaml, before all others.

    \b
      discovery disable github
      discovery disable git:git_reset
      discovery disable github --to registry
    """
    return _switch(invocation, server, is_wanted=False, to=to, dry_run=dry_run)


def _switch(
    invocation: Invocation, server: str, *, is_wanted: bool, to: Place | None, dry_run: bool
) -> ExitCode:
    """Switch a server or a tool on or off, and report what became of it."""
    if ":" in server and server_named(invocation.known(), server) is None:
        if to == "registry":
            raise click.UsageError("a tool is switched in discovery.yaml alone, by a rule")
        return _switch_tool(invocation, server, is_wanted=is_wanted, dry_run=dry_run)
    return _switch_server(invocation, server, is_wanted=is_wanted, to=to, dry_run=dry_run)


def _switch_server(
    invocation: Invocation, server: str, *, is_wanted: bool, to: Place | None, dry_run: bool
) -> ExitCode:
    from discovery_engine.engine.json_forms.owner_forms import copy_form

    output = invocation.output

    async def plan_and_apply(engine: Engine) -> tuple[ServerPlan, ServerReport, bool]:
        plan = await engine.servers.plan_switch(server, is_wanted=is_wanted, to=to)
        if not dry_run:
            await engine.servers.apply(plan)
        return plan, engine.view.server(plan.name), bool(engine.view.settings.registry.url)

    plan, report, has_database = invocation.run(plan_and_apply)
    if output.as_json:
        form = _form(plan, report, is_wanted=is_wanted, dry_run=dry_run)
        output.answer(form | copy_form(plan))
        return ExitCode.OK
    word = "on" if is_wanted else "off"
    show_copy(output, plan)
    if dry_run:
        if not plan.original:
            show_diff(output, plan)
        output.say(f"{place_of(plan)} was not changed")
    elif plan.is_empty:
        output.say(f"{plan.name} is {word} already")
    else:
        output.say(f"{plan.name} is switched {word}, in {place_of(plan)}")
        if has_database and plan.where == "file":
            for_all = "" if is_wanted else "; `--to registry` switches it off on all of them"
            output.say(
                f"the files of other machines that share the database are as before{for_all}"
            )
    if is_wanted and not dry_run:
        say_obstacle(output, report)
    return ExitCode.OK


def _switch_tool(invocation: Invocation, word: str, *, is_wanted: bool, dry_run: bool) -> ExitCode:
    """Write or take back the rule that disables one tool."""
    output = invocation.output

    async def plan_and_apply(engine: Engine) -> tuple[PlannedChange, Entry]:
        await get_to_know(engine, concerned=servers_of([word], None))
        entry, _ = tool_named(engine.view, [word], None)
        rule = json.dumps({"pattern": str(entry.key), "enabled": False}, ensure_ascii=False)
        [text] = [s.text for s in await engine.changes.sections() if s.name == "toolRules"]
        if is_wanted:
            text = _without(text, rule)
        elif entry.verdict.enabled:
            text = _with(text, rule)
        planned = await engine.changes.plan({"toolRules": text})
        if not dry_run:
            await engine.changes.apply(planned)
            entry, _ = tool_named(engine.view, [word], None)
        return planned, entry

    planned, entry = invocation.run(plan_and_apply)
    edit, is_enabled = planned.edit.edit, entry.verdict.enabled
    reason = invocation.known().reason(entry)
    if output.as_json:
        form: JSONObject = {"name": str(entry.key), "where": "file", "path": str(edit.path)}
        form |= {"status": _STATUS[is_wanted, not edit.is_empty], "diff": planned.edit.diff}
        form["written"] = not edit.is_empty and not dry_run
        output.answer(form | {"enabled": is_enabled, "reason": reason})
    else:
        show_diff_lines(output, planned.edit.diff)
        if edit.is_empty or dry_run:
            output.say(f"{edit.path} was not changed")
        output.say(f"{entry.key.label} is {'enabled' if is_enabled else f'disabled: {reason}'}")
        if is_wanted and not is_enabled:
            output.say(f"hint: `discovery why {entry.key.label}` shows the rule that decides")
    return ExitCode.DISABLED if is_wanted and not (is_enabled or dry_run) else ExitCode.OK


def _with(rules: str, rule: str) -> str:
    """Rules as they are written, in block style or as a list in brackets, with one before them."""
    start, bracket, rest = rules.partition("[") if rules.lstrip().startswith("[") else ("", "", "")
    if not bracket:
        return f"- {rule}\n{rules}"
    return f"{start}[{rule}{'' if rest.lstrip().startswith(']') else ', '}{rest}"


def _without(rules: str, rule: str) -> str:
    """The rules without the one that `_with` put before them."""
    for written in (f"- {rule}\n", f"{rule}, ", rule):
        if written in rules:
            return rules.replace(written, "", 1)
    return rules


def _form(plan: ServerPlan, report: ServerReport, *, is_wanted: bool, dry_run: bool) -> JSONObject:
    return {
        "name": plan.name,
        "status": _STATUS[is_wanted, not plan.is_empty],
        "where": plan.where,
        "path": str(plan.edit.path) if plan.edit else None,
        "written": not plan.is_empty and not dry_run,
        "diff": plan.diff,
        "wanted": report.is_wanted,
        "state": str(report.state),
        "reason": report.reason,
        "hint": report.hint,
    }
