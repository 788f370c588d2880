"""`discovery init`: creates a first discovery.yaml."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import asdict, replace

from discovery_cli.invocation import Invocation
from discovery_cli.options import complete_client, pass_invocation
from discovery_cli.output import Output
from discovery_cli.terminal_input import confirm, may_ask
from discovery_engine._util.json import JSONObject
from discovery_engine._util.quantities import counted
from discovery_engine.engine.owner.gateway_command import NAME, Needs, gateway_command, needs_of

if TYPE_CHECKING:
    from discovery_engine.config.settings import Source
    from discovery_engine.config.sources import ClientFile


@click.command("init")
@click.option(
    "--from",
    "origins",
    metavar="CLIENT|PATH",
    multiple=True,
    shell_complete=complete_client,
    help="Use the servers of a client, or of its file; may be repeated. By default, you are asked."
    " CLIENT:PATH names the client of a file that is not recognised.",
)
@click.option(
    "--yes",
    is_flag=True,
    help="Do not ask: use every client, and disable tools that may destroy something.",
)
@click.option(
    "--global",
    "is_global",
    is_flag=True,
    help="Write the configuration of your user, which is trusted and used in every folder.",
)
@click.option(
    "--connect",
    "clients",
    metavar="CLIENT",
    multiple=True,
    shell_complete=complete_client,
    help="Add the gateway to the file of this client; may be repeated. By default, you are asked.",
)
@click.option(
    "--demo", is_flag=True, help="Show what this is with made-up servers, and keep nothing."
)
@click.option("--dry-run", is_flag=True, help="Print the file instead of writing it.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@pass_invocation
def command(
    invocation: Invocation,
    origins: tuple[str, ...],
    *,
    clients: tuple[str, ...],
    yes: bool,
    is_global: bool,
    demo: bool,
    dry_run: bool,
    force: bool,
) -> None:
    """Create a discovery.yaml from the files of your MCP clients.

    The files of other MCP clients are read only if you agree. They are used where they are: no
    secret is copied, and no server is started. At the end you are asked which clients are to use
    this gateway, as `discovery connect` does it.

    \b
      discovery init --global --connect cursor
      discovery init --from cursor --dry-run
      discovery init --demo
    """
    from discovery_cli import value_prompts
    from discovery_engine.config.editing.edit import first_configuration, new_file
    from discovery_engine.config.files.location import FILE_NAME, user_config_path
    from discovery_engine.config.loading.loader import load_settings
    from discovery_engine.engine.owner.approvals import approve_file

    output = invocation.output
    if demo:
        _show_demo(output)
        return
    if is_global and invocation.config:
        raise click.UsageError("--global and --config cannot be combined")
    target = Path(user_config_path(os.environ) if is_global else invocation.config or FILE_NAME)
    if target.exists() and not (force or dry_run):
        raise click.UsageError(
            f"{target} is there already; --force replaces it, `discovery config import` adds to it"
        )
    _require_here(invocation, clients)
    sources = _sources(output, origins, yes=yes or dry_run)
    _preview(output, sources)
    with_rules = confirm("Switch off tools that may destroy something?", yes=yes or dry_run)
    text = first_configuration(sources, with_rules=with_rules)
    writes = not dry_run and confirm(f"Write {target}?", yes=yes)
    if writes:
        new_file(target, text).apply()
        at, data_dir = invocation.clock(), invocation.data_dir
        approve_file(target, only=None, environ=os.environ, data_dir=data_dir, at=at)
    needs = needs_of(load_settings(target.absolute()), os.environ) if writes else None
    if needs and needs.unset and may_ask() and not (yes or output.as_json):
        value_prompts.ask_for(replace(invocation, config=str(target)))
        needs = needs_of(load_settings(target.absolute()), os.environ)
    if output.as_json:
        types = [source.type for source in sources]
        form = {"path": str(target), "written": writes, "sources": types, "text": text}
        connected = (
            _connect(invocation, target, clients, yes=True, is_global=is_global) if writes else []
        )
        form |= {"needs": needs and asdict(needs), "client_entry": _client_entry(target)}
        output.answer({**form, "connected": connected})
        return
    if dry_run:
        output.text(text.rstrip())
    steps = needs and _next_steps(target, needs, is_empty=not sources, is_global=is_global)
    for line in steps or [f"nothing was written to {target}"]:
        output.say(line)
    if writes:
        _connect(invocation, target, clients, yes=yes, is_global=is_global)


def _sources(output: Output, origins: tuple[str, ...], *, yes: bool) -> list[Source]:
    from discovery_cli import client_files

    if origins:
        return [client_files.source_named(origin) for origin in origins]
    files = client_files.found_files()
    if not files:
        output.say("no configuration of another client was found on this machine")
        if yes or output.as_json or not may_ask():
            output.say("`discovery init --demo` shows what this is, with made-up servers")
        elif click.confirm("See what this is, with made-up servers?", err=True):
            _show_demo(output)
        return []
    return _chosen(output, files, yes=yes)


def _show_demo(output: Output) -> None:
    from discovery_cli.demo import run_demo

    if output.as_json:
        output.answer({"steps": [asdict(step) for step in run_demo()]})
        return
    for step in run_demo():
        output.line(step.about, "strong")
        output.line(f"$ {step.command}", "faint")
        output.text(f"{step.shown}")
    output.say("nothing of it was kept; next: `discovery init --global`")


def _chosen(output: Output, files: Sequence[ClientFile], *, yes: bool) -> list[Source]:
    from discovery_engine.config.settings import Source

    sources = []
    for client, label in {file.client: file.label for file in files}.items():
        output.say(f"{label}:")
        for file in files:
            if file.client == client:
                output.say(f"  {file.path}")
        if confirm(f"Use the servers of {label}?", yes=yes):
            sources.append(Source(client))
    return sources


def _preview(output: Output, sources: Sequence[Source]) -> None:
    from discovery_cli import client_files

    for name, imported in client_files.read(sources):
        output.say(f"{name}: {counted(len(imported.servers), 'server')}")
        for server in imported.servers:
            wrong = f": {server.problem.message}" if server.problem else ""
            output.say(f"  {server.name}{wrong}")
        for skipped, reason in imported.skipped:
            output.say(f"  not used: {skipped}: {reason}")
        for problem in imported.warnings:
            output.say(f"  note: {problem}")


def _next_steps(target: Path, needs: Needs, *, is_empty: bool, is_global: bool) -> Iterator[str]:
    from discovery_engine.view.notices import ADDING

    yield f"wrote {target}"
    if needs.unapproved:
        whose = ", ".join(needs.unapproved)
        yield f"next: `discovery review servers` approves what comes from a project's file: {whose}"
    if needs.unset:
        words = " ".join(f"{name}=…" for name in needs.unset)
        ask = "`discovery secrets set` asks for what your servers refer to"
        yield f"next: {ask}; or `export {words}`"
    if is_empty:
        yield f"next: {ADDING}"
    yield "next: `discovery list` connects and shows the servers, `discovery search` finds tools"
    if not is_global:
        yield "it is used in this folder; `discovery init --global` writes one for every folder"


def _connect(
    invocation: Invocation, config: Path, names: Sequence[str], *, yes: bool, is_global: bool
) -> list[JSONObject]:
    """Connect the named clients, or those of this machine that the owner agrees to."""
    from discovery_cli import connecting
    from discovery_engine.engine.owner.connected_clients import Machine

    output = invocation.output
    machine = Machine.here(invocation.data_dir)
    places = [connecting.find_client(machine, name, in_project=False) for name in names]
    if not names:
        here = [place for place in machine.here_now() if place.spec.scope == "user"]
        listed = ", ".join(place.client.id for place in here)
        if here and may_ask() and not yes:
            output.say(f"clients on this machine: {listed}")
            question = (
                "Which of them shall use this gateway? Names with spaces between, or Enter for none"
            )
            typed: str = click.prompt(question, default="", show_default=False, err=True)
            places = [
                connecting.find_client(machine, name, in_project=False)
                for name in filter(None, re.split(r"[\s,]+", typed))
            ]
        elif here:
            # A file that is only found in a folder must be named to the clients.
            is_named = is_global or invocation.config
            named = "" if is_named else f" --config {shlex.quote(str(config.absolute()))}"
            output.say(
                f"next: `discovery connect{named} CLIENT` adds the gateway to one of: {listed}"
            )
        else:
            output.say("to connect an MCP client, put this into its file:")
            entry = {"mcpServers": {NAME: _client_entry(config)}}
            for line in json.dumps(entry, indent=2).splitlines():
                output.say(f"  {line}")
    target = replace(invocation, config=str(config.absolute()))
    return connecting.connect(target, machine, places, connecting.Options(yes=yes))


def _require_here(invocation: Invocation, names: Sequence[str]) -> None:
    """Check that clients can be connected, before anything is written.

    Raises:
        UsageError: For the first client that cannot be connected.
    """
    from discovery_cli import connecting
    from discovery_engine.engine.owner.connected_clients import Machine

    machine = Machine.here(invocation.data_dir)
    for name in names:
        connecting.find_client(machine, name, in_project=False)


def _client_entry(config: Path) -> JSONObject:
    """Return the gateway's entry in the form of most clients."""
    command = gateway_command(config, os.environ)
    program, *args = command.words
    return {"command": program, "args": args, "env": {**command.env}}
