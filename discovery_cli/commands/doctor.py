"""`discovery doctor`: the set-up checked, and what to do about it."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from discovery_cli import checks
from discovery_cli.checks import Check
from discovery_cli.failures import ExitCode
from discovery_cli.findings import findings_of_overrides, findings_of_rules
from discovery_cli.invocation import Invocation
from discovery_cli.options import pass_invocation
from discovery_cli.output import Cell, Output, counted
from discovery_cli.rendering import last_lines
from discovery_engine.errors import ConfigurationError, RegistryError
from discovery_engine.view.notices import lost

if TYPE_CHECKING:
    from discovery_engine.config.settings import ServerSettings
    from discovery_engine.config.sources import ClientFile
    from discovery_engine.engine import Engine
    from discovery_engine.view.notices import Notice
    from discovery_engine.view.status import ServerReport
    from discovery_engine.view.view import View


@click.command("doctor")
@click.option("--online", is_flag=True, help="Also connect to every server.")
@click.option("--exit-zero", is_flag=True, help="Leave with 0 even if there are problems.")
@pass_invocation
def command(invocation: Invocation, *, online: bool, exit_zero: bool) -> ExitCode:
    """Check the set-up and say what to do.

    Without --online nothing is started and nothing is reached. With problems the exit code is 7.
    """
    output = invocation.output
    found = [checks.runtime(sys.version_info[:3], sqlite3.sqlite_version)]
    loss = None
    try:
        look = partial(_look, invocation=invocation, online=online)
        view, servers = invocation.run(look, with_lines=online)
        found += _of_view(view, servers, invocation.clock())
        is_needed = view.settings.cache.enabled
        loss = lost(view.lost_at) if view.lost_at is not None else None
    except ConfigurationError as error:
        found += [checks.of_problem("configuration", p, "problem") for p in error.problems]
        is_needed = False
    found.append(_of_registry(invocation, loss, is_needed=is_needed))
    if output.as_json:
        output.answer({"checks": [check.to_json() for check in found]})
    else:
        _show(output, found)
    sick = any(check.level == "problem" for check in found)
    return ExitCode.UNHEALTHY if sick and not exit_zero else ExitCode.OK


async def _look(
    engine: Engine, *, invocation: Invocation, online: bool
) -> tuple[View, tuple[ServerReport, ...]]:
    if online:
        await engine.refresh()
    return engine.view, await engine.health(invocation.observed(engine.view))


def _of_view(view: View, servers: Iterable[ServerReport], now: float) -> Iterator[Check]:
    settings, catalog = view.settings, view.catalog
    yield from checks.configuration(settings)
    for health in servers:
        yield checks.server(view.server_settings(health.name), health, _try_out)
    yield from checks.effects("rules", findings_of_rules(view))
    if view.settings.overrides:
        yield from checks.effects("overrides", findings_of_overrides(view))
    yield from checks.schemas(entry.tool for entry in catalog.visible)
    if settings.servers:
        yield checks.age(catalog, ttl=settings.cache.ttl, now=now)
    yield checks.clients(_client_files(), [source.type for source in settings.sources])


def _try_out(server: ServerSettings) -> None:
    """Find a server's secrets and its program, without starting it.

    Raises:
        UnavailableError: If one of them is not there.
    """
    from discovery_engine.config.settings import StdioTransport
    from discovery_engine.errors import UnavailableError
    from discovery_engine.redaction.server_output import OutputRedactor
    from discovery_engine.secrets.resolver import EnvironmentResolver
    from discovery_engine.upstream.connection import resolved_transport
    from discovery_engine.upstream.stdio.executable import child_environment, find_program

    secrets = EnvironmentResolver(os.environ)
    transport = resolved_transport(server, secrets)
    if isinstance(transport, StdioTransport):
        try:
            find_program(server.name, transport, child_environment(os.environ, transport.env))
        except UnavailableError as error:
            OutputRedactor.for_server(server, secrets).redact_error(error)
            raise


def _client_files() -> tuple[ClientFile, ...]:
    from discovery_engine.config.sources import client_files

    return client_files(environ=os.environ, home=Path.home(), cwd=Path.cwd(), platform=sys.platform)


def _of_registry(invocation: Invocation, loss: Notice | None, *, is_needed: bool) -> Check:
    from discovery_engine.registry.backends import open_registry, sqlite_url
    from discovery_engine.runtime.restore import registry_path

    path = registry_path(invocation.data_dir, os.environ)
    error = None
    try:
        if is_needed or path.exists():
            open_registry(sqlite_url(path)).close()
    except RegistryError as reason:
        error = reason
    return checks.registry(path, path.stat().st_mode if path.exists() else None, error, loss)


def _show(output: Output, found: Sequence[Check]) -> None:
    output.table([row for check in found for row in _rows(output, check)])
    problems = sum(check.level == "problem" for check in found)
    notes = sum(check.level == "note" for check in found)
    output.say(f"{counted(problems, 'problem')}, {counted(notes, 'note')}")


def _rows(output: Output, check: Check) -> Iterator[list[Cell | str]]:
    mark = Cell("!") if check.level == "note" else output.mark(good=check.level == "good")
    yield [mark, Cell(check.subject, "strong"), check.message]
    if check.hint:
        yield ["", "", Cell(f"hint: {check.hint}", "faint")]
    if lines := last_lines(check.stderr):
        yield ["", "", "stderr (last lines):"]
        for line in lines:
            yield ["", "", Cell(line, "faint")]
