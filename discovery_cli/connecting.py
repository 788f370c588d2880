"""Connects MCP clients to this gateway: shows the entry for a client's file, and writes it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct
from msgspec.structs import replace

from discovery_cli import client_files
from discovery_cli.command_group import did_you_mean
from discovery_cli.importing import ask_for_copies, write_copies
from discovery_cli.invocation import Invocation
from discovery_cli.server_changes import show_diff
from discovery_cli.terminal_input import confirm
from discovery_engine._util.quantities import counted
from discovery_engine.engine.owner.connected_clients import (
    ClientPlace,
    Connection,
    Machine,
    Records,
    find_place,
    links_of,
    names_in,
    plan_connection,
    plan_undo,
)
from discovery_engine.engine.owner.gateway_command import gateway_command, needs_of, of_network
from discovery_engine.engine.owner.server_export import program_entry

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.config.editing.import_plan import ImportPlan
    from discovery_engine.config.serve_settings import ServeMode
    from discovery_engine.config.settings import Settings


class Options(Struct, frozen=True):
    view: str = ""
    mode: ServeMode | None = None
    in_project: bool = False
    move: bool = False
    undo: bool = False
    dry_run: bool = False
    yes: bool = False


def find_client(machine: Machine, name: str, *, in_project: bool) -> ClientPlace:
    """Find the file of a client.

    Raises:
        UsageError: If there is no such client, or it is not on this machine.
    """
    clients = machine.clients
    if name not in clients:
        names = did_you_mean(name, clients) or f"; clients: {', '.join(clients)}"
        raise click.UsageError(f"{name!r} is no client that can be connected{names}")
    client = clients[name]
    place = find_place(machine.locator, client, in_project=in_project)
    if place is None:
        raise click.UsageError(f"{client.label} has no file for a project: omit --project")
    if not place.is_here:
        looked = ", ".join(map(str, place.looked))
        raise click.UsageError(
            f"{client.label} was not found: looked for {looked}; start it once, then connect it"
        )
    return place


def connect(
    invocation: Invocation, machine: Machine, places: Sequence[ClientPlace], options: Options
) -> list[JSONObject]:
    """Connect clients, or remove their entries; return one JSON form for each client.

    Raises:
        UsageError: If the configuration or a client's file cannot be used; nothing is written.
    """
    output = replace(invocation, config=None).output  # its hints concern the files of clients
    config = None if options.undo else _config(invocation, options)
    target = _target(config, options)
    for place in places:
        _planned(invocation, machine, place, target, options)
    forms = []
    for place in places:
        # One by one: a server moved from one client's file may be in the next one's, too.
        copies = _copies(invocation, place, target) if options.move and target else None
        moved = _moved(place, copies[0]) if copies else []
        connection = _planned(invocation, machine, place, target, options, moved)
        if not output.as_json:
            output.say(f"{place.client.label}: {place.path}")
            show_diff(output, connection.diff())
        question = f"{'Remove' if connection.is_deleted else 'Write'} {place.path}?"
        writes = not (connection.is_empty or options.dry_run)
        if writes := writes and confirm(question, yes=options.yes):
            if copies and target:
                write_copies(invocation, target, *copies)
            connection.apply()
        for line in _outcome(connection, machine.records, is_written=writes):
            output.say(line)
        forms.append(_form(connection, machine.records, is_written=writes))
    if options.mode and target:
        _set_mode(invocation, target, options.mode, yes=options.yes, dry_run=options.dry_run)
    if target and target.exists():
        _say_needs(invocation, target, () if options.mode else places)
    elif not (target or options.undo):
        output.say("note: there is no configuration yet; `discovery init --global` writes one")
    return forms


def _config(invocation: Invocation, options: Options) -> Path | None:
    """Return the configuration that the entry names; None if there is none yet.

    Raises:
        UsageError: If the configuration was only found in the current folder, or there is none
            although a view is requested.
        ConfigurationError: If it is missing or invalid.
        ViewNotFoundError: If it lacks the view.
    """
    from discovery_engine.config.files.location import locate
    from discovery_engine.config.loading.loader import load_settings
    from discovery_engine.view.scope import named_scope

    location = locate(invocation.config)
    if location.is_discovered:
        path = shlex.quote(str(location.path))
        raise click.UsageError(
            f"{location.path} was only found in this folder, and clients would start what it has;"
            f" `discovery connect --config {path} CLIENT` names it"
        )
    is_new = options.move and location.path and not Path(location.path).exists()
    settings = load_settings(location.path) if location.path and not is_new else None
    if options.view:
        if settings is None:
            raise click.UsageError("there is no configuration, so it has no view")
        named_scope(settings, options.view)
    return Path(location.path) if location.path else None


def _target(config: Path | None, options: Options) -> Path | None:
    """Return the configuration to write to; None if nothing is written to any.

    Raises:
        UsageError: If there is none to set a mode in.
    """
    target = config or (_own_config() if options.move else None)
    if options.mode and target is None:
        raise click.UsageError("--mode needs a configuration; `discovery init --global` writes one")
    return target


def _own_config() -> Path:
    from discovery_engine.config.files.location import user_config_path

    return Path(user_config_path(os.environ))


def _planned(
    invocation: Invocation,
    machine: Machine,
    place: ClientPlace,
    config: Path | None,
    options: Options,
    moved: Sequence[str] = (),
) -> Connection:
    if options.undo:
        return plan_undo(place, machine.records, machine.locator)
    command = gateway_command(config, os.environ, data_dir=invocation.data_dir, view=options.view)
    entry_of = partial(program_entry, place.client, words=command.words, env=command.env)
    return plan_connection(place, entry_of, machine.records, machine.locator, without=moved)


def _copies(
    invocation: Invocation, place: ClientPlace, config: Path
) -> tuple[ImportPlan, Settings]:
    """Return the plan that copies a client's servers, with the settings of the configuration."""
    imported = []
    for name, result in client_files.read([place.source] if place.exists else []):
        warnings = tuple(w for w in result.warnings if w.code != "SOURCE_ITSELF")
        imported.append((name, replace(result, warnings=warnings)))
    return ask_for_copies(invocation, config, imported, "store", asks=False)


def _moved(place: ClientPlace, plan: ImportPlan) -> list[str]:
    """Return the client's names of the servers that the configuration will contain."""
    there = [server.name for server in plan.skipped if not server.is_problem]
    taken = [(c.original or c.server) for c in plan.servers]
    names = [server.renamed_from or server.name for server in taken]
    return names_in(place, {*there, *names})


def _outcome(connection: Connection, records: Records, *, is_written: bool) -> Iterable[str]:
    place = connection.place
    label = place.client.label
    if connection.is_undo:
        yield from _undone(connection, records, is_written=is_written)
    elif connection.is_empty:
        yield f"{label} is connected already"
    elif not is_written:
        yield f"{place.path} was not changed"
    else:
        own = " --project" if place.spec.scope == "project" else ""
        yield f"connected {label}; restart it, or reload its servers"
        yield f"to undo: `discovery connect {place.client.id}{own} --undo`"
        if own:
            yield "note: the entry has paths of this machine; do not commit it"


def _undone(connection: Connection, records: Records, *, is_written: bool) -> Iterable[str]:
    path, label = connection.place.path, connection.place.client.label
    if connection.is_empty:
        yield f"{label} is not connected: {path} has no entry of this gateway"
    elif not is_written:
        yield f"{path} was not changed"
    elif connection.is_deleted:
        yield f"removed {path}, which was not there before"
    elif connection.is_restored:
        yield f"{path} is as it was before"
        if connection.moved:
            names = ", ".join(connection.moved)
            yield f"note: {names} stay in discovery.yaml, too; `discovery remove` removes them"
    else:
        yield f"{path} was changed by others: only the entry {connection.name!r} is taken out"
        if (original := records.original(path)).exists():
            yield f"the file as it was before is {original}"


def _form(connection: Connection, records: Records, *, is_written: bool) -> JSONObject:
    place, original = connection.place, records.original(connection.place.path)
    return {
        "client": place.client.id,
        "path": str(place.path),
        "entry": connection.name,
        "written": is_written,
        "connected": not connection.is_undo and (is_written or connection.is_empty),
        "restored": connection.is_restored and is_written,
        "moved": list(connection.moved),
        "backup": str(original) if original.exists() else None,
        "diff": connection.diff(),
    }


def _set_mode(
    invocation: Invocation, config: Path, mode: ServeMode, *, yes: bool, dry_run: bool
) -> None:
    """Show what changes in the configuration for `--mode`, and write it if that is agreed to."""
    from discovery_engine.config.editing.edit import set_serve_mode

    edit = set_serve_mode(config, mode)
    if not invocation.as_json:
        show_diff(invocation.output, edit.diff())
    if not (edit.is_empty or dry_run) and confirm(f"Write {config}?", yes=yes):
        edit.apply()


def _say_needs(invocation: Invocation, config: Path, places: Iterable[ClientPlace]) -> None:
    from discovery_engine.config.loading.loader import load_settings
    from discovery_server.surfaces import HOSTS

    settings = load_settings(config)
    needs = needs_of(settings, os.environ)
    if settings.server.mode == "meta":
        hosts = {host.title: host for host in HOSTS.values()}
        for client in (place.client for place in places if place.client.label in hosts):
            invocation.output.say(
                f"note: {client.label} {hosts[client.label].reason}; `discovery connect {client.id}"
                " --mode auto` gives it all tools, and other clients the meta-tools"
            )
    if needs.variables:
        names = ", ".join(needs.variables)
        invocation.output.say(
            f"note: clients pass on no variables; store {names} with `discovery secrets set`"
        )
    if hidden := [name for name in of_network(os.environ) if "@" in os.environ[name]]:
        names = ", ".join(hidden)
        invocation.output.say(f"note: a password in {names} is not written; add it to `env` there")


def show_found(invocation: Invocation, forms: Sequence[JSONObject]) -> None:
    output = invocation.output
    output.table(
        [
            [output.mark(good=form["connected"]), form["client"], _state(form), form["path"]]
            for form in forms
        ]
    )
    for problem in filter(None, (form["problem"] for form in forms)):
        output.say(f"note: {problem}")
    usable = [f for f in forms if not f["problem"]]
    if not forms:
        output.say("no MCP client was found on this machine")
    elif others := [form["client"] for form in usable if not form["connected"]]:
        output.say(f"next: `discovery connect {others[0]}` adds the entry of this gateway")
    if any(form["connected"] and form["servers"] for form in usable):
        output.say("next: with --move, a client's own servers go into discovery.yaml")


def _state(form: JSONObject) -> str:
    if form["problem"]:
        return "cannot be read"
    state = "connected" if form["connected"] else "not connected"
    return f"{state}, {counted(form['servers'], 'server')}" if form["servers"] else state


def links(invocation: Invocation, view: str) -> dict[str, str]:
    """Return, by client, the links that open it with the entry of this gateway to confirm."""
    config = _config(invocation, Options(view=view))
    command = gateway_command(config, os.environ, data_dir=invocation.data_dir, view=view)
    return links_of(command)
