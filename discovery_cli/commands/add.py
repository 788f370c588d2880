"""`discovery add`: a server of the owner's, into discovery.yaml or the registry."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation
from discovery_cli.options import pass_invocation

if TYPE_CHECKING:
    from discovery_cli.output import Output
    from discovery_engine._util.json import JSONObject
    from discovery_engine.config.settings import Settings
    from discovery_engine.engine import Engine
    from discovery_engine.engine.owner.server_plans import ServerPlan
    from discovery_engine.view.status import ServerReport


class AddCommand(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            hint = "what belongs to the program stands behind `--`"
            raise click.UsageError(f"there is no option {error.option_name}; {hint}", ctx) from None


@click.command("add", cls=AddCommand)
@click.argument("name")
@click.argument("program", metavar="[-- COMMAND [ARG]...]", nargs=-1, type=click.UNPROCESSED)
@click.option("--url", metavar="URL", help="The URL of a remote server.")
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
def command(
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
    """
    from discovery_cli.client_files import confirm
    from discovery_cli.server_changes import place_of, say_secrets, say_warnings, show_diff
    from discovery_engine.engine.json_forms.owner_forms import server_plan_form

    output, server_entry, has_file = invocation.output, _entry(program, **entry), True

    async def plan_and_apply(engine: Engine) -> tuple[ServerPlan, ServerReport | None]:
        nonlocal has_file
        has_file = engine.settings.path is not None
        plan = await engine.servers.plan_add(name, server_entry, to=to, wanted=not off)
        if not output.as_json:
            show_diff(output, plan)
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
    """The settings with which a file that was named, and is not there, is made; else None."""
    from discovery_engine.config.files.inputs import observe
    from discovery_engine.config.settings import Settings

    if path is None or Path(path).exists():
        return None
    place = str(Path(path).absolute())
    return Settings(path=place, inputs=(observe(place),))


async def _report(engine: Engine, name: str) -> ServerReport:
    return engine.view.server(name)


def _entry(
    program: Sequence[str],
    *,
    url: str | None,
    variables: Sequence[str],
    headers: Sequence[str],
    cwd: str | None,
    transport: str | None,
    description: str | None,
    tags: Sequence[str],
) -> JSONObject:
    """The entry that the options describe.

    Raises:
        UsageError: If they describe none, or what belongs to the other kind of server.
    """
    if bool(program) is (url is not None):
        raise click.UsageError("write either `-- COMMAND [ARG]...` or --url URL")
    entry: JSONObject
    if url is None:
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
        entry = {"url": url, "headers": dict(map(_header, headers)), "transport": transport}
    if misplaced := next((option for option, value in stray.items() if value), None):
        needed = "--url" if url is None else "a program"
        raise click.UsageError(f"{misplaced} is of no use without {needed}")
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
    from discovery_cli.server_changes import say_obstacle

    if report.name != name:
        output.say(f"it is called {report.name} here, because discovery.yaml has a server {name}")
    if not report.is_wanted:
        output.say(f"it is off; `discovery enable {report.name}` switches it on")
    elif report.state == "pending":
        output.say(f"`discovery inspect {report.name}` starts it, and shows its tools")
    else:
        say_obstacle(output, report)
