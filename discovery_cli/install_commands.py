"""`discovery marketplace install`, `update` and `rollback`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from discovery_cli.exit_codes import ExitCode, exit_code
from discovery_cli.invocation import Invocation
from discovery_cli.options import complete_server, pass_invocation
from discovery_cli.terminal_input import is_agreed, may_ask
from discovery_engine._util.quantities import counted
from discovery_engine.engine.json_forms.error_form import next_step
from discovery_engine.engine.owner.candidates import shell_word, visible_line
from discovery_engine.errors import DiscoveryError
from discovery_engine.marketplace.json_forms import update_form

if TYPE_CHECKING:
    from discovery_cli.output import Output
    from discovery_engine._util.json import JSONObject
    from discovery_engine.engine import Engine
    from discovery_engine.marketplace.installer.installer import Installer
    from discovery_engine.marketplace.installer.offered_inputs import AskedInput
    from discovery_engine.marketplace.installer.plan import (
        Difference,
        InstalledChange,
        InstallPlan,
        UpdatePlan,
    )

yes_option = click.option("--yes", is_flag=True, help="Do not ask: approve what is shown.")
with_option = click.option(
    "--with",
    "values",
    metavar="KEY=VALUE",
    multiple=True,
    help="Set a value of the server, which may be a ${reference}; may be repeated.",
)


def _keys_of_secrets(
    _: click.Context, __: click.Parameter, keys: tuple[str, ...]
) -> tuple[str, ...]:
    for key in keys:
        name, equals, _value = key.partition("=")
        if equals:
            raise click.UsageError(
                f"--secret {name} takes no value, as others can see the arguments of a program;"
                " it is asked for, or read from stdin"
            )
    return keys


secret_option = click.option(
    "--secret",
    "secrets",
    metavar="KEY",
    multiple=True,
    callback=_keys_of_secrets,
    help="Ask for this value without showing it, or read it from stdin; may be repeated.",
)


@click.command("install")
@click.argument("name")
@click.option("--as", "server", metavar="SERVER", default="", help="The name of the server here.")
@click.option(
    "--version",
    metavar="V",
    default="",
    help="The version of the package; by default, that of the marketplace.",
)
@click.option(
    "--offer",
    metavar="TYPE",
    default="",
    help="npm, pypi, oci, nuget, mcpb or remote; by default, the first that runs here.",
)
@with_option
@secret_option
@click.option(
    "--to",
    type=click.Choice(["file", "registry"]),
    help="Add it to discovery.yaml or the registry; by default, to the file if there is one.",
)
@click.option("--no-network", is_flag=True, help="Give its sandbox no network.")
@click.option(
    "--read", metavar="PATH", multiple=True, help="Let its sandbox read PATH; may be repeated."
)
@click.option(
    "--write", metavar="PATH", multiple=True, help="Let its sandbox change PATH; may be repeated."
)
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@yes_option
@pass_invocation
def install(
    invocation: Invocation,
    /,
    *,
    name: str,
    secrets: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    **options: Any,
) -> ExitCode:
    """Install a server of the marketplace.

    You see what would run, with which variables and in which sandbox, before you confirm. Required
    values are asked for, and secrets are stored encrypted. The version is pinned, and its content
    is compared at every update. Exits with 4 if nothing was confirmed, and with 6 if a required
    value is missing.

    \b
      discovery marketplace install io.github.acme/files --with folder=~/notes --secret FILES_KEY
    """
    output, asks = invocation.output, may_ask_person(invocation, yes=yes)

    async def work(engine: Engine) -> tuple[InstallPlan, InstalledChange | None]:
        plan = await planned_installation(engine, name, options, secrets, asks=asks)
        if not output.as_json:
            show_plan(output, plan)
        if not dry_run:
            plan.require_ready()
        if dry_run or not is_agreed(output, f"Install {plan.name!r} as shown?", yes=yes):
            return plan, None
        change = await engine.installer.install(plan, on_progress=_progress_of(invocation))
        while change.needed and asks:
            typed = await answers(change.needed)
            update = await engine.installer.plan_update(
                change.name, values=typed.values, secrets=typed.secrets
            )
            change = await engine.installer.update(update, on_progress=_progress_of(invocation))
        return plan, change

    plan, change = invocation.run(work)
    if output.as_json:
        problem = (change.problem if change else "") or None
        output.answer({**plan.to_json(), "installed": change is not None, "problem": problem})
    elif change:
        _say_installed(output, plan, change)
    elif not dry_run:
        output.say("nothing was installed" if asks else NO_TERMINAL)
    if change and change.needed:
        return ExitCode.SECRET_MISSING
    return ExitCode.OK if change or dry_run else ExitCode.DISABLED


async def planned_installation(
    engine: Engine, name: str, options: Mapping[str, Any], secrets: Iterable[str], *, asks: bool
) -> InstallPlan:
    """Plan an installation with values from options, stdin, and the person at the terminal."""
    from discovery_engine.store.install_records import Grants

    installer, values, to = engine.installer, given_values(options["values"]), options.get("to")
    server, offer = options.get("server", ""), options.get("offer", "")
    inputs = await installer.asked(name, server=server, offer=offer, to=to)
    require_no_secret_value(values, inputs)
    hidden = await secret_values(secrets)
    if asks:
        typed = await answers(field for field in inputs if field.key not in {*values, *hidden})
        values, hidden = values | typed.values, hidden | typed.secrets
    network, read, write = (options.get(key) for key in ("no_network", "read", "write"))
    grants = Grants(network=not network, read=read or (), write=write or ())
    version = options.get("version", "")
    return await installer.plan_install(
        name,
        server=server,
        offer=offer,
        version=version,
        values=values,
        secrets=hidden,
        grants=grants,
        to=to,
    )


@click.command("update")
@click.argument("names", metavar="[SERVER]...", nargs=-1, shell_complete=complete_server)
@with_option
@secret_option
@click.option("--check", is_flag=True, help="Only show what would change; exit code 8 if any.")
@yes_option
@pass_invocation
def update(
    invocation: Invocation,
    /,
    *,
    names: tuple[str, ...],
    values: tuple[str, ...],
    secrets: tuple[str, ...],
    check: bool,
    yes: bool,
) -> ExitCode:
    """Update installed servers.

    You see what would change before you confirm. Values that a new version requires are asked for,
    or given with --with and --secret if you name one server. A server that cannot be updated does
    not stop the others: the exit code is that of the first failure. A version whose content differs
    from what was pinned is refused with exit code 4. `discovery marketplace rollback` undoes an
    update.

    \b
      discovery marketplace update --check
      discovery marketplace update files
    """
    if (values or secrets) and len(names) != 1:
        raise click.UsageError("--with and --secret are for one server: name it")
    asks = may_ask_person(invocation, yes=yes)
    run = UpdateRun(invocation, yes=yes, asks=asks, check=check)

    async def work(engine: Engine) -> None:
        installer = engine.installer
        plain_values, hidden = given_values(values), await secret_values(secrets)
        if plain_values or hidden:
            plans = [await installer.plan_update(names[0], values=plain_values, secrets=hidden)]
            require_no_secret_value(plain_values, plans[0].asked)
        else:
            plans = list(await installer.plan_updates(names))
        for plan in plans:
            await run.update(installer, plan, plain_values, hidden)

    invocation.run(work)
    return run.report()


@click.command("rollback")
@click.argument("name", metavar="SERVER", shell_complete=complete_server)
@yes_option
@pass_invocation
def rollback(invocation: Invocation, name: str, *, yes: bool) -> ExitCode:
    """Restore the version of a server before its last update.

    A second rollback restores the update. Exits with 4 if nothing was confirmed.

    \b
      discovery marketplace rollback files
    """
    output, asks = invocation.output, may_ask_person(invocation, yes=yes)

    async def work(engine: Engine) -> InstalledChange | None:
        record = await engine.installer.installed(name)
        if record.previous:
            now, earlier = record.current.pin, record.previous.pin
            if not output.as_json:
                output.line(f"{record.name}  {now.version} -> {earlier.version}")
            if not is_agreed(output, f"Go back to {earlier.version}?", yes=yes):
                return None
        return await engine.installer.rollback(name)

    change = invocation.run(work)
    if output.as_json:
        pin = change.pin if change else None
        output.answer({"name": name, "version": pin.version if pin else None})
    elif change:
        output.say(f"{change.name} is {change.pin.version} again")
        if change.problem:
            _say_started(output, change)
    else:
        output.say("nothing was changed" if asks else NO_TERMINAL)
    return ExitCode.OK if change else ExitCode.DISABLED


class UpdateRun:
    """A run of updates, with the outcome for each server."""

    def __init__(self, invocation: Invocation, *, yes: bool, asks: bool, check: bool) -> None:
        """`asks` tells whether a person is asked, `check` whether the plans are only shown."""
        self._invocation = invocation
        self._output = invocation.output
        self._yes = yes
        self._asks = asks
        self._check = check
        self._plans: list[UpdatePlan] = []
        self._done: list[str] = []
        self._failures: dict[str, DiscoveryError] = {}

    async def update(
        self,
        installer: Installer,
        plan: UpdatePlan,
        values: Mapping[str, Sequence[str]],
        hidden: Mapping[str, Sequence[str]],
    ) -> None:
        """Show an update, and apply it if its owner agrees; failures are in `report`.

        `values` and `hidden` are the values that it was planned with; `hidden` are secret.
        """
        self._plans.append(plan)
        self._show(plan)
        if plan.problem:
            self._failures[plan.name] = plan.problem
            return
        if self._check or plan.is_empty:
            return
        try:
            await self._update(installer, plan, values, hidden)
        except DiscoveryError as error:
            self._failures[plan.name] = error
            if not self._output.as_json:
                self._output.say(f"{plan.name} was not updated: {error.message}")
                self._output.say(next_step(error))

    async def _update(
        self,
        installer: Installer,
        plan: UpdatePlan,
        values: Mapping[str, Sequence[str]],
        hidden: Mapping[str, Sequence[str]],
    ) -> None:
        if self._asks and plan.missing:
            typed = await answers(plan.missing)
            plan = await installer.plan_update(
                plan.name, values={**values, **typed.values}, secrets={**hidden, **typed.secrets}
            )
            self._plans[-1] = plan
            self._show(plan)
        plan.require_ready()
        if is_agreed(self._output, f"Update {plan.name!r} as shown?", yes=self._yes):
            change = await installer.update(plan, on_progress=_progress_of(self._invocation))
            if change.problem and not self._output.as_json:
                _say_started(self._output, change)
            self._done.append(plan.name)

    def report(self) -> ExitCode:
        """Print the outcome of all updates, and return the exit code."""
        waiting = [
            plan
            for plan in self._plans
            if not plan.is_empty and plan.name not in {*self._done, *self._failures}
        ]
        if self._output.as_json:
            self._output.answer({"servers": [self._form(plan) for plan in self._plans]})
        else:
            self._say(has_no_terminal=bool(waiting) and not (self._check or self._asks))
        if self._failures:
            return exit_code(next(iter(self._failures.values())))
        if not waiting:
            return ExitCode.OK
        return ExitCode.CHANGES if self._check else ExitCode.DISABLED

    def _show(self, plan: UpdatePlan) -> None:
        for line in _update_lines(plan) if not self._output.as_json else ():
            self._output.line(line)

    def _say(self, *, has_no_terminal: bool) -> None:
        output = self._output
        if not self._plans:
            output.say("no server was installed from the marketplace")
        if self._done:
            count = counted(len(self._done), "server")
            output.say(f"updated {count}; `discovery marketplace rollback SERVER` goes back")
        if self._failures:
            count = counted(len(self._failures), "server")
            output.say(f"{count} not updated: {', '.join(self._failures)}")
        if has_no_terminal:
            output.say(NO_TERMINAL)

    def _form(self, plan: UpdatePlan) -> JSONObject:
        failure = self._failures.get(plan.name)
        return update_form(plan, is_done=plan.name in self._done, failure=failure)


NO_TERMINAL = "there is no terminal to ask on; use --yes to approve what is shown"


def may_ask_person(invocation: Invocation, *, yes: bool) -> bool:
    """Return whether a person can be asked, and neither `--yes` nor JSON output rules it out."""
    return may_ask() and not (yes or invocation.as_json)


def given_values(pairs: Iterable[str]) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.UsageError(f"--with {pair!r} is not KEY=VALUE")
        values.setdefault(key, []).append(value)
    return values


def require_no_secret_value(
    values: Mapping[str, Sequence[str]], inputs: Iterable[AskedInput]
) -> None:
    """Refuse secrets as arguments, which other users and the shell's history can show.

    Raises:
        UsageError: If the value of a secret is not a reference.
    """
    from discovery_engine.marketplace.installer.offered_inputs import is_reference

    for field in inputs:
        if field.is_secret and not all(map(is_reference, values.get(field.key, ()))):
            raise click.UsageError(
                f"{field.key} is a secret, and others can see the arguments of a program: use"
                f" `--secret {field.key}`, or a reference such as `--with '{field.key}=${{NAME}}'`"
            )


async def secret_values(keys: Iterable[str]) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for key in keys:
        if sys.stdin.isatty():
            value = await _typed(f"{key} (hidden): ", is_hidden=True)
        elif not (value := sys.stdin.readline().rstrip("\r\n")):
            raise click.UsageError(f"stdin has no line for --secret {key}")
        values[key] = [value]
    return values


class Answers(NamedTuple):
    """The values that the person at the terminal gave."""

    values: dict[str, list[str]]
    secrets: dict[str, list[str]]


async def answers(inputs: Iterable[AskedInput]) -> Answers:
    """Ask the person at the terminal for the required values."""
    replies = Answers({}, {})
    for field in inputs:
        if not field.is_missing:
            continue
        click.echo(_input_line(field), err=True)
        hidden = " (hidden)" if field.is_secret else ""
        text = await _typed(f"{field.key}{hidden}: ", is_hidden=field.is_secret)
        (replies.secrets if field.is_secret else replies.values)[field.key] = [text]
    return replies


async def _typed(prompt: str, *, is_hidden: bool) -> str:
    """Return a line that a person types, and that is not empty."""
    from discovery_cli.terminal_input import TerminalClosedError, TerminalInput

    terminal = TerminalInput()
    try:
        while not (text := await terminal.line(prompt, is_hidden=is_hidden)):
            terminal.write("a value is needed; Ctrl-C ends it")
    except TerminalClosedError as error:
        raise click.Abort from error
    return text


_WIDTH = 8


def _say_installed(output: Output, plan: InstallPlan, change: InstalledChange) -> None:
    """Print what was done, what was checked, and what was not."""
    pin, place = change.pin, "discovery.yaml" if change.where == "file" else "the registry"
    output.say(f"installed {change.name} {pin.version} in {place}")
    if not plan.url:
        kind = pin.integrity.partition(":")[0].partition("-")[0]
        output.say(
            f"its {kind} hash was compared" if kind else "there is no hash to compare it with"
        )
    _say_started(output, change)


def _say_started(output: Output, change: InstalledChange) -> None:
    """Print whether a server was started for the first time in its version."""
    if change.needed:
        keys = ", ".join(field.key for field in change.needed)
        options = " ".join(
            f"--secret {field.key}" if field.is_secret else f"--with {field.key}=…"
            for field in change.needed
        )
        output.say(f"{change.name} could not be started yet: it needs {keys}")
        output.say(f"next: `discovery marketplace update {change.name} {options}`")
    elif change.problem:
        problem = output.hint(visible_line(change.problem))
        output.say(f"{change.name} could not be started yet: {problem}")
        output.say(f"`discovery tools {change.name}` tries again")
    else:
        output.say(f"it was started, and its tools are listed: `discovery tools {change.name}`")


def show_plan(output: Output, plan: InstallPlan) -> None:
    for line in _plan_lines(plan):
        output.line(line)


def _progress_of(invocation: Invocation) -> Callable[[str], None]:
    def say(text: str) -> None:
        if not (invocation.as_json or invocation.no_progress):
            invocation.output.say(text)

    return say


def _plan_lines(plan: InstallPlan) -> Iterator[str]:
    """Yield everything about a plan, one thing per line, uncut."""
    yield f"{plan.name}  ({visible_line(plan.entry.name)})"
    for name, text in _facts(plan):
        yield f"  {name:<{_WIDTH}} {text}"
    for warning in plan.warnings:
        yield f"  {'careful':<{_WIDTH}} {visible_line(warning)}"


def _input_line(field: AskedInput) -> str:
    """Return a line about a value that can be given, with its publisher's description."""
    kind = "secret" if field.is_secret else field.input.format
    state = "required" if field.input.is_required else "optional"
    words = [f"{visible_line(field.key)} ({state} {kind})"]
    if field.input.description:
        words.append(visible_line(field.input.description))
    if field.input.choices:
        words.append(f"one of {', '.join(map(visible_line, field.input.choices))}")
    if field.input.default and not field.is_secret:
        words.append(f"default {visible_line(field.input.default)}")
    return "; ".join(words)


def _update_lines(plan: UpdatePlan) -> Iterator[str]:
    """Yield lines on what is different after an update."""
    pin = plan.record.current.pin
    if plan.problem is not None:
        yield f"{plan.name}  {pin.version}: {visible_line(plan.problem.message)}"
        if plan.problem.hint:
            yield f"  {'next':<11} {visible_line(plan.problem.hint)}"
        return
    if plan.is_empty:
        yield f"{plan.name}  {pin.version} is the newest"
    else:
        yield f"{plan.name}  ({visible_line(plan.record.entry_name)})"
    for difference in plan.differences:
        yield f"  {difference.what:<11} {_change(difference)}"
    if plan.install:
        for warning in plan.install.warnings:
            yield f"  {'careful':<11} {visible_line(warning)}"
        for missing in plan.install.missing:
            yield f"  {'needs':<11} {_input_line(missing)}"


def _facts(plan: InstallPlan) -> Iterator[tuple[str, str]]:
    yield from _remote_facts(plan) if plan.url else _local_facts(plan)
    if description := plan.server_entry.get("description"):
        yield "about", visible_line(str(description))
    pin = plan.pin
    package = filter(None, (pin.registry_type, pin.identifier, pin.version, pin.integrity))
    yield "package", visible_line(" ".join(package))
    sources = ", ".join(f"{origin.source} ({origin.trust})" for origin in plan.entry.origins)
    yield "origin", visible_line(sources)
    for name in ("publisher", "repository"):
        if text := getattr(plan.entry, name):
            yield name, visible_line(text)
    for name in plan.secrets:
        yield "stores", f"the secret {visible_line(name)}, encrypted"
    for program in plan.prerequisites:
        state = program.version or "is there"
        yield "needs", f"{program.program}: {program.problem or state}"
    for field in plan.asked:
        if not field.is_given:
            yield "takes", _input_line(field)


def _remote_facts(plan: InstallPlan) -> Iterator[tuple[str, str]]:
    yield "reaches", shell_word(plan.url)
    for name, text in plan.shown(plan.headers).items():
        yield "header", f"{shell_word(name)}: {shell_word(text)}"


def _local_facts(plan: InstallPlan) -> Iterator[tuple[str, str]]:
    yield "starts", " ".join(map(shell_word, plan.argv))
    if cwd := plan.server_entry.get("cwd"):
        yield "in", shell_word(str(cwd))
    for name, text in plan.shown(plan.environment).items():
        yield "env", f"{shell_word(name)}={shell_word(text)}"
    yield "sandbox", visible_line(_sandbox(plan.server_entry.get("sandbox")))
    if plan.confinement:
        yield "here", f"confined by {plan.confinement}"


def _sandbox(entry: object) -> str:
    if not isinstance(entry, dict):
        return str(entry)
    words = [str(entry.get("kind", "auto"))]
    words += (f"reads {path}" for path in entry.get("read", ()))
    words += (f"changes {path}" for path in entry.get("write", ()))
    words.append("network" if entry.get("network") else "no network")
    return "; ".join(words)


def _change(difference: Difference) -> str:
    before, after = visible_line(difference.before), visible_line(difference.after)
    if not before or not after:
        return f"+ {after}" if after else f"- {before}"
    return f"{before} -> {after}"
