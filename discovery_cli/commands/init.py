"""`discovery init`: a first discovery.yaml."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct
from msgspec.structs import asdict, replace

from discovery_cli.invocation import Invocation
from discovery_cli.options import pass_invocation
from discovery_cli.output import Output
from discovery_engine._util.json import JSONObject
from discovery_engine._util.quantities import counted
from discovery_engine.config.settings import RemoteTransport, ServerSettings, StdioTransport
from discovery_engine.secrets.references import references_in

if TYPE_CHECKING:
    from discovery_engine.config.settings import Settings, Source
    from discovery_engine.config.sources import ClientFile


@click.command("init")
@click.option(
    "--from",
    "origins",
    metavar="CLIENT|PATH",
    multiple=True,
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
@click.option("--dry-run", is_flag=True, help="Print the file instead of writing it.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@pass_invocation
def command(
    invocation: Invocation,
    origins: tuple[str, ...],
    *,
    yes: bool,
    is_global: bool,
    dry_run: bool,
    force: bool,
) -> None:
    """Create a discovery.yaml from the files of your MCP clients.

    The files of other MCP clients are read only if you agree. They are used where they are: no
    secret is copied, and no server is started. At the end the entry is printed that connects an MCP
    client.

    \b
      discovery init --global
      discovery init --from cursor --dry-run
    """
    from discovery_cli import client_files, value_prompts
    from discovery_engine.config.editing.edit import first_configuration, new_file
    from discovery_engine.config.files.location import FILE_NAME, user_config_path
    from discovery_engine.config.loading.loader import load_settings
    from discovery_engine.engine.owner.approvals import approve_file

    output = invocation.output
    if is_global and invocation.config:
        raise click.UsageError("--global and --config cannot be combined")
    target = Path(user_config_path(os.environ) if is_global else invocation.config or FILE_NAME)
    if target.exists() and not (force or dry_run):
        raise click.UsageError(
            f"{target} is there already; --force replaces it, `discovery config import` adds to it"
        )
    sources = _sources(output, origins, yes=yes or dry_run)
    _preview(output, sources)
    with_rules = client_files.confirm(
        "Switch off tools that may destroy something?", yes=yes or dry_run
    )
    text = first_configuration(sources, with_rules=with_rules)
    writes = not dry_run and client_files.confirm(f"Write {target}?", yes=yes)
    if writes:
        new_file(target, text).apply()
        at, data_dir = invocation.clock(), invocation.data_dir
        approve_file(target, only=None, environ=os.environ, data_dir=data_dir, at=at)
    needs = _needs_of(load_settings(target.absolute()), os.environ) if writes else None
    if needs and needs.unset and client_files.may_ask() and not (yes or output.as_json):
        value_prompts.ask_for(replace(invocation, config=str(target)))
        needs = _needs_of(load_settings(target.absolute()), os.environ)
    if output.as_json:
        types = [source.type for source in sources]
        form = {"path": str(target), "written": writes, "sources": types, "text": text}
        form |= {"needs": needs and asdict(needs)}
        output.answer({**form, "client_entry": _client_entry(target, os.environ)})
        return
    if dry_run:
        output.text(text.rstrip())
    steps = needs and _next_steps(target, needs, is_empty=not sources, is_global=is_global)
    for line in steps or [f"nothing was written to {target}"]:
        output.say(line)


def _sources(output: Output, origins: tuple[str, ...], *, yes: bool) -> list[Source]:
    from discovery_cli import client_files

    if origins:
        return [client_files.source_named(origin) for origin in origins]
    files = client_files.found_files()
    if not files:
        output.say("no configuration of another client was found on this machine")
        return []
    return _chosen(output, files, yes=yes)


def _chosen(output: Output, files: Sequence[ClientFile], *, yes: bool) -> list[Source]:
    from discovery_cli import client_files
    from discovery_engine.config.settings import Source

    sources = []
    for client, label in {file.client: file.label for file in files}.items():
        output.say(f"{label}:")
        for file in files:
            if file.client == client:
                output.say(f"  {file.path}")
        if client_files.confirm(f"Use the servers of {label}?", yes=yes):
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
    yield from _connecting_lines(target, os.environ, needs)


_NAME = "discovery"
_OF_NETWORK = re.compile(
    r"(?i:https?|no)_(?i:proxy)|NODE_EXTRA_CA_CERTS|REQUESTS_CA_BUNDLE|SSL_CERT_(?:DIR|FILE)"
)


class Needs(Struct, frozen=True):
    """The requirements of a configuration before all its servers can be started."""

    variables: tuple[str, ...]
    """Variables without a default that its servers need; a client passes none on by itself."""
    unset: tuple[str, ...]
    """The `variables` that have no value here."""
    unapproved: tuple[str, ...]
    """The servers that come from a project's file."""


def _needs_of(settings: Settings, environ: Mapping[str, str]) -> Needs:
    enabled = [server for server in settings.servers if server.enabled]
    names = dict.fromkeys(name for server in enabled for name in _variables(server))
    return Needs(
        tuple(names),
        tuple(name for name in names if not environ.get(name)),
        tuple(server.name for server in enabled if server.is_untrusted_origin),
    )


def _variables(server: ServerSettings) -> Iterator[str]:
    match server.transport:
        case StdioTransport(command, args, env, cwd):
            texts = [command, *args, *env.values(), cwd or ""]
        case RemoteTransport(url, headers, _, oauth):
            texts = [url, *headers.values(), oauth.client_id, oauth.client_secret]
        case None:
            texts = []
    for reference in (reference for text in texts for reference in references_in(text)):
        if reference.kind == "variable" and reference.default is None:
            yield reference.name


def _client_entry(config: Path, environ: Mapping[str, str]) -> JSONObject:
    """The entry with which a client starts `discovery serve` with this configuration.

    Clients start programs in any folder and with few variables: so every path is absolute, and the
    PATH of this moment, its certificates and its proxies go along, for the servers need them.
    """
    command, *args = _command(environ)
    args += ["--config", str(config.absolute()), "serve"]
    network = {name: environ[name] for name in _of_network(environ) if "@" not in environ[name]}
    env = {"PATH": environ.get("PATH", os.defpath), **network}
    return {"command": command, "args": args, "env": env}


def _of_network(environ: Mapping[str, str]) -> list[str]:
    """The variables that programs reach the network by; a password may stand before an `@`."""
    return [name for name, value in environ.items() if value and _OF_NETWORK.fullmatch(name)]


def _connecting_lines(config: Path, environ: Mapping[str, str], needs: Needs) -> Iterator[str]:
    """How to connect each kind of client, ready to paste; without values of variables."""
    entry = _client_entry(config, environ)
    yield "to connect Claude Desktop, Cursor, Windsurf and most others, put this into their file:"
    yield from _json({"mcpServers": {_NAME: entry}})
    yield "VS Code (`.vscode/mcp.json`):"
    yield from _json({"servers": {_NAME: {"type": "stdio", **entry}}})
    words = ["claude", "mcp", "add", "--scope", "user", _NAME]
    variables = (word for name, value in entry["env"].items() for word in ("-e", f"{name}={value}"))
    words += [*variables, "--", entry["command"], *entry["args"]]
    yield f"Claude Code: {shlex.join(words)}"
    if names := [*needs.variables, *(n for n in _of_network(environ) if n not in entry["env"])]:
        yield f"add to `env`, beside PATH, with their values: {', '.join(names)}"
        yield "  (your servers refer to them, and clients pass on only what stands there)"


def _json(entry: JSONObject) -> Iterator[str]:
    yield from (f"  {line}" for line in json.dumps(entry, indent=2).splitlines())


def _command(environ: Mapping[str, str]) -> list[str]:
    """The command that starts this program from any folder."""
    started = Path(sys.argv[0]).absolute()
    beside = Path(sys.executable).parent / _NAME
    for program in (started, beside):
        if program.stem == _NAME and os.access(program, os.X_OK) and program.is_file():
            return [str(program)]
    path = shutil.which(_NAME, path=environ.get("PATH"))
    return [path] if path else [sys.executable, "-m", "discovery_cli"]
