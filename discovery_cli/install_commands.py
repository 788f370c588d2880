"""`discovery marketplace install`, `update`, `rollback` and `uninstall`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import click

from discovery_cli.exit_codes import ExitCode
from discovery_cli.install_questions import (
    NO_TERMINAL,
    answers,
    given_values,
    is_agreed,
    may_ask_person,
    require_no_secret_value,
    secret_values,
)
from discovery_cli.invocation import Invocation
from discovery_cli.options import complete_server, pass_invocation

if TYPE_CHECKING:
    from discovery_engine.engine import Engine
    from discovery_engine.installer.plan import InstalledChange, InstallPlan

yes_option = click.option("--yes", is_flag=True, help="Do not ask: approve what is shown.")
with_option = click.option(
    "--with",
    "values",
    metavar="KEY=VALUE",
    multiple=True,
    help="A value that the server takes; may be repeated, and be a ${reference}.",
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
    help="Ask for this value without showing it; without a terminal, the next line of stdin.",
)


@click.command("install")
@click.argument("name")
@click.option("--as", "server", metavar="SERVER", default="", help="What it will be called.")
@click.option(
    "--version", metavar="V", default="", help="Of the package; else that of the marketplace."
)
@click.option(
    "--offer",
    metavar="TYPE",
    default="",
    help="npm, pypi, oci, nuget, mcpb or remote; else the first that runs here.",
)
@with_option
@secret_option
@click.option(
    "--to",
    type=click.Choice(["file", "registry"]),
    help="Where the server is entered; else in discovery.yaml, if one is in use.",
)
@click.option("--no-network", is_flag=True, help="Its sandbox gives it no network.")
@click.option("--read", metavar="PATH", multiple=True, help="Its sandbox lets it read this.")
@click.option("--write", metavar="PATH", multiple=True, help="Its sandbox lets it change this.")
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
    **chosen: Any,
) -> ExitCode:
    """Install a server of the marketplace, after its approval.

    It is shown what would run, with which variables, in which sandbox, and from where. Required
    values are asked for; secrets are stored encrypted. The version is pinned, and its content
    compared at every update. Without a terminal and without --yes the exit code is 4; with a
    required value missing it is 6, and nothing is installed.

    \b
      discovery marketplace install io.github.acme/files --with folder=~/notes --secret FILES_KEY
    """  # noqa: D301 - click wants the character itself
    from discovery_cli.install_output import progress_of, say_installed, show_plan

    output, asks = invocation.output, may_ask_person(invocation, yes=yes)

    async def work(engine: Engine) -> tuple[InstallPlan, InstalledChange | None]:
        plan = await planned_installation(engine, name, chosen, secrets, asks=asks)
        if not output.as_json:
            show_plan(output, plan)
        if not dry_run:
            plan.require_ready()
        if dry_run or not is_agreed(f"Install {plan.name!r} as shown?", yes=yes, asks=asks):
            return plan, None
        return plan, await engine.installer.install(plan, on_progress=progress_of(invocation))

    plan, done = invocation.run(work)
    if output.as_json:
        problem = (done.problem if done else "") or None
        output.answer({**plan.to_json(), "installed": done is not None, "problem": problem})
    elif done:
        say_installed(output, plan, done)
    elif not dry_run:
        output.say("nothing was installed" if asks else NO_TERMINAL)
    return ExitCode.OK if done or dry_run else ExitCode.DISABLED


async def planned_installation(
    engine: Engine,
    name: str,
    chosen: Mapping[str, Any],
    secrets: Iterable[str],
    *,
    asks: bool,
) -> InstallPlan:
    """The plan with the values of the options, of stdin, and of the person at the terminal."""
    from discovery_engine.installer.install_records import Grants

    installer, values, to = engine.installer, given_values(chosen["values"]), chosen.get("to")
    server, offer = chosen.get("server", ""), chosen.get("offer", "")
    inputs = await installer.asked(name, server=server, offer=offer, to=to)
    require_no_secret_value(values, inputs)
    hidden = await secret_values(secrets)
    if asks:
        typed = await answers(field for field in inputs if field.key not in {*values, *hidden})
        values, hidden = values | typed.values, hidden | typed.secrets
    network, read, write = (chosen.get(key) for key in ("no_network", "read", "write"))
    grants = Grants(network=not network, read=read or (), write=write or ())
    version = chosen.get("version", "")
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
    """Update installed servers, after what would change has been approved; all without a name.

    Shown are versions, arguments, variables, the sandbox, and tools where the marketplace knows
    them. Values that a new version requires are asked for, or given with --with and --secret for
    one server; the others stay. One that cannot be updated holds up no other: the exit code is that
    of the first that failed. A version that has other content than when it was pinned is refused
    with exit code 4. `discovery marketplace rollback` goes back.
    """
    from discovery_cli.install_updates import UpdateRun

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
    """Go back to the version of a server before its last update; once more, and it is back.

    Without a terminal and without --yes nothing is changed, and the exit code is 4.
    """
    from discovery_cli.install_output import say_started

    output, asks = invocation.output, may_ask_person(invocation, yes=yes)

    async def work(engine: Engine) -> InstalledChange | None:
        record = await engine.installer.installed(name)
        if record.previous:
            now, earlier = record.current.pin, record.previous.pin
            if not output.as_json:
                output.line(f"{record.name}  {now.version} -> {earlier.version}")
            if not is_agreed(f"Go back to {earlier.version}?", yes=yes, asks=asks):
                return None
        return await engine.installer.rollback(name)

    done = invocation.run(work)
    if output.as_json:
        pin = done.pin if done else None
        output.answer({"name": name, "version": pin.version if pin else None})
    elif done:
        output.say(f"{done.name} is {done.pin.version} again")
        if done.problem:
            say_started(output, done)
    else:
        output.say("nothing was changed" if asks else NO_TERMINAL)
    return ExitCode.OK if done else ExitCode.DISABLED


@click.command("uninstall")
@click.argument("name", metavar="SERVER", shell_complete=complete_server)
@click.option(
    "--secrets",
    type=click.Choice(["keep", "delete"]),
    help="What becomes of the secrets that are stored for it; else it is asked.",
)
@yes_option
@pass_invocation
def uninstall(
    invocation: Invocation, name: str, *, secrets: Literal["keep", "delete"] | None, yes: bool
) -> ExitCode:
    """Remove an installed server, its private folder, and its secrets if you agree.

    Without a terminal and without --yes nothing is removed, and the exit code is 4.
    """
    output, asks = invocation.output, may_ask_person(invocation, yes=yes)

    async def work(engine: Engine) -> tuple[bool, tuple[str, ...]]:
        installer = engine.installer
        record = await installer.installed(name)
        stored = await installer.secrets_of(record.name)
        if not output.as_json:
            output.line(f"{record.name}  {record.current.pin}")
        if not is_agreed(f"Remove {record.name} ({record.current.pin})?", yes=yes, asks=asks):
            return False, ()
        deletes = secrets == "delete"
        if stored and secrets is None and asks:
            deletes = click.confirm(f"Delete its secrets {', '.join(stored)}?", err=True)
        await installer.uninstall(name, delete_secrets=deletes)
        return True, () if deletes else stored

    is_done, names = invocation.run(work)
    if output.as_json:
        output.answer({"name": name, "removed": is_done, "kept_secrets": list(names)})
    elif is_done:
        output.say(f"removed {name}")
        if names:
            output.say(f"its secrets stay stored: `discovery secrets delete {' '.join(names)}`")
    else:
        output.say("nothing was removed" if asks else NO_TERMINAL)
    return ExitCode.OK if is_done else ExitCode.DISABLED
