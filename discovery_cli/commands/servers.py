"""`discovery add`, `remove`, `enable` and `disable`, in discovery.yaml or the registry."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import click

from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation, get_to_know
from discovery_cli.options import complete_server, complete_target, pass_invocation
from discovery_cli.server_changes import (
    place_of,
    say_kept_secrets,
    say_obstacle,
    say_secrets,
    say_warnings,
    show_copy,
    show_diff,
)
from discovery_cli.targets import server_named, servers_of, tool_named

if TYPE_CHECKING:
    from discovery_cli.output import Output
    from discovery_engine._util.json import JSONObject
    from discovery_engine.catalog import Entry
    from discovery_engine.config.editing.section_edit import EditableSection
    from discovery_engine.config.settings import Settings
    from discovery_engine.engine import Engine
    from discovery_engine.engine.owner.configuration_changes import PlannedChange
    from discovery_engine.engine.owner.server_plans import ServerPlan
    from discovery_engine.view.status import ServerReport


class AddCommand(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            hint = "put `--` before the command of the server"
            raise click.UsageError(f"there is no option {error.option_name}; {hint}", ctx) from None


@click.command("add", cls=AddCommand)
@click.argument("name")
@click.argument("program", metavar="[-- COMMAND [ARG]...]", nargs=-1, type=click.UNPROCESSED)
@click.option("--url", metavar="URL", help="The URL of a remote server.")
@click.option(
    "--openapi",
    metavar="DOCUMENT",
    help="The path or address of an OpenAPI document, whose operations become tools.",
)
@click.option(
    "--env",
    "variables",
    metavar="NAME[=VALUE]",
    multiple=True,
    help="An environment variable of the program; NAME alone passes on its value at each start.",
)
@click.option("--header", "headers", metavar="NAME: VALUE", multiple=True, help="An HTTP header.")
@click.option("--cwd", metavar="DIR", help="The working directory of the program.")
@click.option(
    "--transport",
    type=click.Choice(["auto", "http", "sse"]),
    help="The transport of a remote server.",
)
@click.option("--description", metavar="TEXT", help="What the server is for; agents read it.")
@click.option(
    "--tag", "tags", metavar="TAG", multiple=True, help="A tag of the server; may be repeated."
)
@click.option(
    "--to",
    type=click.Choice(["file", "registry"]),
    help="Add it to discovery.yaml or the registry; by default, to the file if there is one.",
)
@click.option("--off", is_flag=True, help="Add it disabled.")
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@click.option("--yes", is_flag=True, help="Do not ask: add and approve what is shown.")
@pass_invocation
def add(
    invocation: Invocation,
    /,
    *,
    name: str,
    program: tuple[str, ...],
    to: Literal["file", "registry"] | None,
    off: bool,
    dry_run: bool,
    yes: bool,
    **entry: Any,
) -> ExitCode:
    """Add a server, and approve what it runs.

    Values that look like secrets are stored encrypted, and the entry refers to them. `--env NAME`
    and `${NAME}` refer to an environment variable, `${secret:NAME}` to a stored secret. Comments
    and the order of discovery.yaml are kept, and the previous file is saved as discovery.yaml.bak.
    A file that --config names is created if it does not exist. Running gateways use the server at
    once.

    \b
      discovery add time -- uvx mcp-server-time
      discovery add mail --url https://mail.example.com/mcp --header "Authorization: Bearer ${T}"
      discovery add pets --openapi https://petstore3.swagger.io/api/v3/openapi.json
    """
    from discovery_cli.terminal_input import confirm
    from discovery_engine.engine.json_forms.owner_forms import server_plan_form

    output, server_entry, has_file = invocation.output, _entry(program, **entry), True

    async def plan_and_apply(engine: Engine) -> tuple[ServerPlan, ServerReport | None]:
        nonlocal has_file
        has_file = engine.settings.path is not None
        plan = await engine.servers.plan_add(name, server_entry, to=to, wanted=not off)
        if not output.as_json:
            show_diff(output, plan.diff)
            say_secrets(output, plan)
            say_warnings(output, plan)
        question = f"Add {plan.name!r} to {place_of(plan)}, and approve what it runs?"
        if dry_run or not confirm(question, yes=yes):
            return plan, None
        await engine.servers.apply(plan)
        return plan, None if new else engine.view.server(plan.name)

    new = None if to == "registry" else _new_file(invocation.config)
    plan, report = invocation.run(plan_and_apply, settings=new)
    if new and _new_file(invocation.config) is None:
        report = invocation.run(partial(_report, name=plan.name))
    if output.as_json:
        output.answer(server_plan_form(plan, is_written=report is not None))
    elif report is None:
        output.say(f"{place_of(plan)} was not changed")
    else:
        output.say(f"added {plan.name} to {place_of(plan)}")
        if not has_file and plan.where == "registry":
            output.say("it is used wherever no discovery.yaml is found, as here")
        _say_next(output, name, report)
    return ExitCode.OK


def _new_file(path: str | None) -> Settings | None:
    """Return settings to create the file that `--config` names; None if it exists or is unset."""
    from discovery_engine.config.files.inputs import observe
    from discovery_engine.config.settings import Settings

    if path is None or Path(path).exists():
        return None
    place = str(Path(path).absolute())
    return Settings(path=place, inputs=(observe(place),))


async def _report(engine: Engine, name: str) -> ServerReport:
    return engine.view.server(name)


def _entry(  # noqa: PLR0913 - the options of `add`
    program: Sequence[str],
    *,
    url: str | None,
    openapi: str | None,
    variables: Sequence[str],
    headers: Sequence[str],
    cwd: str | None,
    transport: str | None,
    description: str | None,
    tags: Sequence[str],
) -> JSONObject:
    """Return the entry that the options describe.

    Raises:
        UsageError: If neither or both of COMMAND and --url are given, or an option does not fit.
    """
    is_reached = url is not None or openapi is not None
    if bool(program) is is_reached:
        raise click.UsageError("give either `-- COMMAND [ARG]...`, --url URL or --openapi DOCUMENT")
    entry: JSONObject
    if not is_reached:
        stray = {"--header": headers, "--transport": transport}
        command, *args = program
        entry = {
            "command": command,
            "args": args,
            "env": dict(map(_variable, variables)),
            "cwd": cwd,
        }
    else:
        stray = {"--env": variables, "--cwd": cwd}
        entry = {
            "openapi": openapi,
            "url": url,
            "headers": dict(map(_header, headers)),
            "transport": transport,
        }
    if misplaced := next((option for option, value in stray.items() if value), None):
        needed = "a program" if is_reached else "--url"
        raise click.UsageError(f"{misplaced} needs {needed}")
    entry |= {"description": description, "tags": list(tags)}
    return {key: value for key, value in entry.items() if value}


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    return name, value if equals else f"${{{name}}}"


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise click.UsageError(f'--header {text!r} has no colon; write "Name: value"')
    return name.strip(), value.strip()


def _say_next(output: Output, name: str, report: ServerReport) -> None:
    if report.name != name:
        output.say(f"it is called {report.name} here, because discovery.yaml has a server {name}")
    if not report.is_wanted:
        output.say(f"it is disabled; `discovery enable {report.name}` enables it")
    elif report.state == "pending":
        output.say(f"`discovery inspect {report.name}` starts it, and shows its tools")
    else:
        say_obstacle(output, report)


@click.command("remove")
@click.argument("server", shell_complete=complete_server)
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
@click.option(
    "--secrets",
    type=click.Choice(["keep", "delete"]),
    help="Keep or delete the secrets stored for the server; by default, you are asked.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_invocation
def remove(
    invocation: Invocation,
    *,
    server: str,
    dry_run: bool,
    secrets: Literal["keep", "delete"] | None,
    yes: bool,
) -> ExitCode:
    """Remove a server from discovery.yaml, or from the registry.

    Its approval is revoked, and running gateways end its sessions. The private folder of an
    installed server is deleted as well. To stop using a server of another client's file, use
    `discovery disable`.

    \b
      discovery remove time
      discovery remove github --secrets delete --yes
    """
    from discovery_cli.terminal_input import confirm, may_ask
    from discovery_engine.engine.json_forms.owner_forms import server_plan_form

    output = invocation.output

    async def plan_and_apply(engine: Engine) -> tuple[ServerPlan, bool, list[str]]:
        plan = await engine.servers.plan_remove(server)
        installed = await engine.installer.find(plan.name)
        if not output.as_json:
            show_diff(output, plan.diff)
            say_warnings(output, plan)
        with_package = f", with its copy of {installed.current.pin}" if installed else ""
        question = f"Remove {plan.name!r} from {place_of(plan)}{with_package}?"
        agreed = not dry_run and confirm(question, yes=yes)
        own = f"{plan.dropped or plan.name}/"
        stored = [name for name in engine.secrets.names() if name.startswith(own)]
        if not agreed:
            return plan, agreed, stored
        deletes = secrets == "delete"
        if stored and secrets is None and may_ask() and not (yes or output.as_json):
            deletes = click.confirm(f"Delete its secrets {', '.join(stored)}?", err=True)
        await engine.installer.remove(plan, stored if deletes else ())
        return plan, agreed, [] if deletes else stored

    plan, agreed, kept_secrets = invocation.run(plan_and_apply)
    if output.as_json:
        output.answer({**server_plan_form(plan, is_written=agreed), "secrets": kept_secrets})
    elif agreed:
        output.say(f"removed {plan.name} from {place_of(plan)}")
        say_kept_secrets(output, kept_secrets)
    else:
        output.say(f"{place_of(plan)} was not changed")
    return ExitCode.OK


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
    help="Change discovery.yaml or the registry; by default a shared registry, else where it is.",
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
    place; with `--to registry`, the default where it is a database, it is not copied. An enabled
    server is started when it is needed. SERVER:TOOL removes the rule that `disable` wrote for the
    tool.

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
    there. With `--to registry`, the default where it is a database, no file is changed, and the
    server is disabled on every machine that shares the registry. SERVER:TOOL adds a rule for the
    tool before all others, there or to discovery.yaml.

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
        return _switch_tool(invocation, server, is_wanted=is_wanted, to=to, dry_run=dry_run)
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
    word = "enabled" if is_wanted else "disabled"
    show_copy(output, plan)
    if dry_run:
        if not plan.original:
            show_diff(output, plan.diff)
        output.say(f"{place_of(plan)} was not changed")
    elif plan.is_empty:
        output.say(f"{plan.name} is already {word}")
    else:
        output.say(f"{word} {plan.name} in {place_of(plan)}")
        if has_database and plan.where == "file":
            output.say("other machines that share the database keep their own files")
        elif has_database:
            output.say("it holds for all machines that share it")
    if is_wanted and not dry_run:
        say_obstacle(output, report)
    return ExitCode.OK


def _switch_tool(
    invocation: Invocation, word: str, *, is_wanted: bool, to: Place | None, dry_run: bool
) -> ExitCode:
    """Write or take back the rule that disables one tool."""
    output = invocation.output

    async def plan_and_apply(engine: Engine) -> tuple[PlannedChange, Entry]:
        await get_to_know(engine, concerned=servers_of([word], None))
        entry, _ = tool_named(engine.view, [word], None)
        rule = json.dumps({"pattern": str(entry.key), "enabled": False}, ensure_ascii=False)
        section = _rules_section(await engine.changes.sections(), to, rule if is_wanted else "")
        text = section.text
        if is_wanted:
            text = _without(text, rule)
        elif entry.verdict.enabled:
            text = _with(text, rule)
        planned = await engine.changes.plan({section.name: text})
        if not dry_run:
            await engine.changes.apply(planned)
            entry, _ = tool_named(engine.view, [word], None)
        return planned, entry

    planned, entry = invocation.run(plan_and_apply)
    is_shared, is_enabled = bool(planned.rules), entry.verdict.enabled
    reason = invocation.known().reason(entry)
    if output.as_json:
        form: JSONObject = {"name": str(entry.key), "where": "registry" if is_shared else "file"}
        form["path"] = None if is_shared else str(planned.edit.edit.path)
        form |= {"status": _STATUS[is_wanted, not planned.is_empty], "diff": planned.diff}
        form["written"] = not planned.is_empty and not dry_run
        output.answer(form | {"enabled": is_enabled, "reason": reason})
    else:
        show_diff(output, planned.diff)
        if planned.is_empty or dry_run:
            output.say(f"{planned.place} was not changed")
        elif is_shared:
            output.say("it holds for all machines that share the registry")
        output.say(f"{entry.key.label} is {'enabled' if is_enabled else f'disabled: {reason}'}")
        if is_wanted and not is_enabled:
            output.say(f"hint: `discovery why {entry.key.label}` shows the rule that decides")
    return ExitCode.DISABLED if is_wanted and not (is_enabled or dry_run) else ExitCode.OK


def _rules_section(
    sections: Iterable[EditableSection], to: Place | None, rule: str
) -> EditableSection:
    """Return the rules to change: those of `to`, else those with the rule, else the usual ones."""
    rules = [section for section in sections if section.name.endswith("toolRules")]
    if to and not (rules := [section for section in rules if section.where == to]):
        raise click.UsageError("only a registry that machines share has rules")
    having = [section for section in rules if rule and rule in section.text]
    usual = [section for section in rules if section.name == "toolRules"]
    return (having or usual or rules)[0]


def _with(rules: str, rule: str) -> str:
    """Rules as they are written, in block style or as a list in brackets, with one before them."""
    start, bracket, rest = rules.partition("[") if rules.lstrip().startswith("[") else ("", "", "")
    if not bracket:
        return f"- {rule}\n{rules}"
    return f"{start}[{rule}{'' if rest.lstrip().startswith(']') else ', '}{rest}"


def _without(rules: str, rule: str) -> str:
    """The rules without the one that `_with` put before them."""
    for text in (f"- {rule}\n", f"{rule}, ", rule):
        if text in rules:
            return rules.replace(text, "", 1)
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
