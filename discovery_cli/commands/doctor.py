"""`discovery doctor`: checks of the set-up, with a next step for each problem."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import click

from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation
from discovery_cli.options import pass_invocation
from discovery_cli.output import Cell, Output
from discovery_cli.rendering import last_lines
from discovery_engine._util.quantities import counted
from discovery_engine.errors import ConfigurationError, RegistryError

if TYPE_CHECKING:
    from discovery_engine.engine import Engine
    from discovery_engine.engine.doctor.checks import Check


@click.command("doctor")
@click.option("--online", is_flag=True, help="Also connect to every server.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if there are problems.")
@pass_invocation
def command(invocation: Invocation, *, online: bool, exit_zero: bool) -> ExitCode:
    """Check the installation, the configuration and the servers.

    Each problem comes with its next step. No server is started without --online. Exits with 7 if
    there are problems.

    \b
      discovery doctor
      discovery doctor --online
    """
    output = invocation.output
    try:
        checks = invocation.run(
            partial(_check, invocation=invocation, online=online), with_lines=online
        )
    except ConfigurationError as error:
        from discovery_engine.engine.doctor.setup import check_invalid_configuration

        checks = check_invalid_configuration(
            error, environ=os.environ, data_dir=invocation.data_dir
        )
    if output.as_json:
        output.answer({"checks": [check.to_json() for check in checks]})
    else:
        _show(output, checks)
    sick = any(check.level == "problem" for check in checks)
    return ExitCode.UNHEALTHY if sick and not exit_zero else ExitCode.OK


async def _check(engine: Engine, *, invocation: Invocation, online: bool) -> tuple[Check, ...]:
    from discovery_engine.engine.doctor.setup import check_setup

    if online:
        await engine.refresh()
    await engine.complete_settings()  # programs and secrets are looked for
    view = engine.view
    checks = await check_setup(
        view,
        await engine.health(invocation.observed(view)),
        environ=os.environ,
        now=invocation.clock(),
        data_dir=invocation.data_dir,
    )
    return (
        *checks,
        *await _webhooks(engine),
        *_reserved(engine, invocation),
    )


async def _webhooks(engine: Engine) -> tuple[Check, ...]:
    if not engine.view.settings.webhooks:
        return ()
    from discovery_engine.engine.doctor import checks

    try:
        return tuple(map(checks.webhook, await engine.webhooks.list()))
    except RegistryError:  # which has a check of its own
        return ()


def _reserved(engine: Engine, invocation: Invocation) -> Iterator[Check]:
    """Check whether tokens stand for the teams and users; nothing if nothing is reserved."""
    settings = engine.view.settings
    if not (principals := settings.principals):
        return
    from discovery_engine.engine.doctor import checks
    from discovery_server.access_tokens import AccessTokens
    from discovery_server.stored_tokens import SharedTokens

    try:
        tokens = AccessTokens.of_data_folder(invocation.data_dir, os.environ).all()
        if store := engine.gateway_store:
            folder = engine.registry_file.parent
            tokens += SharedTokens.of_settings(settings, store, folder).all()
    except RegistryError:  # which has a check of its own
        return
    except ConfigurationError as error:
        yield from map(checks.of_problem, error.problems)
        return
    now = invocation.clock()
    valid = (token.principals for token in tokens if not token.is_expired(now))
    yield checks.reserved(principals, frozenset(chain.from_iterable(valid)))


def _show(output: Output, checks: Sequence[Check]) -> None:
    output.table([row for check in checks for row in _rows(output, check)])
    problems = sum(check.level == "problem" for check in checks)
    notes = sum(check.level == "note" for check in checks)
    output.say(f"{counted(problems, 'problem')}, {counted(notes, 'note')}")


def _message(check: Check) -> str:
    return check.message if check.level == "good" else f"{check.message} [{check.code}]"


def _rows(output: Output, check: Check) -> Iterator[list[Cell | str]]:
    mark = Cell("!") if check.level == "note" else output.mark(good=check.level == "good")
    yield [mark, Cell(check.subject, "strong"), _message(check)]
    if check.hint:
        yield ["", "", Cell(f"hint: {output.hint(check.hint)}", "faint")]
    if lines := last_lines(check.stderr):
        yield ["", "", "stderr (last lines):"]
        for line in lines:
            yield ["", "", Cell(line, "faint")]
