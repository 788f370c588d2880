"""`discovery config import`: servers of another client's file, copied into discovery.yaml."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
from msgspec.structs import replace

from discovery_cli.command_group import did_you_mean
from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation
from discovery_cli.options import pass_invocation
from discovery_cli.output import Cell, Output
from discovery_engine._util.quantities import counted
from discovery_engine.config.serialization import serialize_server_redacted
from discovery_engine.engine.json_forms.error_form import problem_form
from discovery_engine.secrets.stored_values import length_class

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.config.editing.import_plan import ImportCandidate, ImportPlan, Stores
    from discovery_engine.config.settings import Settings, Source
    from discovery_engine.config.sources import SourceResult

_STORES: Mapping[str, Stores] = {"store": "all", "ask": "live", "keep": "none"}


@click.command("import")
@click.option(
    "--from",
    "origins",
    metavar="CLIENT|PATH",
    multiple=True,
    help="A client, or the path of its file; may be repeated. By default, the files of all clients."
    " CLIENT:PATH names the client of a file that is not recognised.",
)
@click.option(
    "--only", metavar="NAME", multiple=True, help="Copy only this server; may be repeated."
)
@click.option(
    "--secrets",
    type=click.Choice(["store", "keep", "ask"]),
    default="ask",
    show_default=True,
    help="`store` encrypts and stores secrets, `keep` replaces them by variables for you to set.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_invocation
def command(
    invocation: Invocation,
    origins: tuple[str, ...],
    *,
    only: tuple[str, ...],
    secrets: Literal["store", "keep", "ask"],
    dry_run: bool,
    yes: bool,
) -> ExitCode:
    """Copy servers from another client's file into discovery.yaml.

    The client's file is not changed, existing entries are kept, and no server is started. Secrets
    are replaced by references: to stored secrets if you agree or say `--secrets store`, otherwise
    to environment variables. A server that is already used from its client's file is copied with
    its secrets stored, and the copy takes its place. Exits with 2 if the given files have no usable
    server.

    \b
      discovery config import --from cursor
      discovery config import --from ~/Downloads/mcp.json --only github --secrets store
    """
    from discovery_cli import client_files
    from discovery_cli.invocation import stored_values
    from discovery_engine.config.editing.import_plan import plan_import

    output = invocation.output
    imported = client_files.read(_sources(output, origins, dry_run=dry_run, yes=yes))
    _require(only, imported)
    target = _target(invocation)
    settings = _in_force(invocation, target)
    plan_with = partial(plan_import, imported, settings, only, stored_values(invocation))
    plan = plan_with(stores=_STORES[secrets])
    if not output.as_json:
        show_plan(output, plan)
    if secrets == "ask" and plan.has_literals:
        asks = client_files.may_ask() and not (yes or dry_run or output.as_json)
        plan = _agreed(output, plan, plan_with(stores="all"), asks=asks)
    writes = bool(plan.servers) and not dry_run
    if writes := writes and client_files.confirm(f"Write {_servers(plan)} into {target}?", yes=yes):
        with _stored(invocation, plan):
            _write(invocation, target, plan, settings)
        say_variables(output, plan)
    if output.as_json:
        output.answer({"path": str(target), "written": writes, **plan_form(plan)})
    else:
        output.say(
            f"wrote {_servers(plan)} into {target}" if writes else f"{target} was not changed"
        )
    return ExitCode.USAGE if origins and plan.has_failed else ExitCode.OK


def _require(names: Iterable[str], imported: Sequence[tuple[str, SourceResult]]) -> None:
    """Check that there are servers of these names to import.

    Raises:
        UsageError: For the first that is not there.
    """
    there = [server.name for _, result in imported for server in result.servers]
    for name in names:
        if imported and name not in there:
            question = did_you_mean(name, there)
            raise click.UsageError(f"there is no server {name!r} to import{question}")


def _in_force(invocation: Invocation, target: Path) -> Settings:
    """Load the settings of the file and its sources, as the owner switched them."""
    from discovery_engine.config.loading.loader import load_settings
    from discovery_engine.config.settings import Settings
    from discovery_engine.engine.registered_servers import with_registered

    if not target.exists():
        return Settings()
    settings = load_settings(str(target))
    settings = with_registered(settings, data_dir=invocation.data_dir, environ=os.environ)
    in_files = tuple(server for server in settings.servers if not server.is_registered)
    return replace(settings, servers=in_files)


def _write(invocation: Invocation, target: Path, plan: ImportPlan, settings: Settings) -> None:
    from discovery_engine.config.editing.edit import add_servers
    from discovery_engine.engine.owner.approvals import approve_file, taking_over_in_file

    servers = [candidate.server for candidate in plan.servers]
    at, data_dir = invocation.clock(), invocation.data_dir
    edit = add_servers(target, servers, plan.rules)
    originals = [candidate.original for candidate in plan.servers if candidate.original]
    with taking_over_in_file(originals, settings, environ=os.environ, data_dir=data_dir, at=at):
        edit.apply()
    named = [server.name for server in servers if not server.is_untrusted_origin]
    approve_file(target, only=named, environ=os.environ, data_dir=data_dir, at=at)


def _agreed(output: Output, plan: ImportPlan, stored: ImportPlan, *, asks: bool) -> ImportPlan:
    """The plan that stores secrets, if the owner wants that; else the other one."""
    from discovery_cli import client_files

    if not stored.secrets:
        return plan
    if not asks:
        output.say(f"hint: --secrets store encrypts and stores {_secrets(stored)}")
        return plan
    question = f"Encrypt and store {_secrets(stored)}, and refer to them?"
    if not client_files.confirm(question, yes=False):
        return plan
    show_plan(output, stored)
    return stored


def _stored(invocation: Invocation, plan: ImportPlan) -> AbstractContextManager[None]:
    """A block with the secrets of the plan stored before it."""
    if not plan.secrets:
        return nullcontext()
    from discovery_cli.invocation import owner_secrets

    return owner_secrets(invocation).storing(plan.secrets)


def _servers(plan: ImportPlan) -> str:
    return counted(len(plan.servers), "server")


def _secrets(plan: ImportPlan) -> str:
    return counted(len(plan.secrets), "secret")


def _sources(output: Output, origins: tuple[str, ...], *, dry_run: bool, yes: bool) -> list[Source]:
    """Return the sources that were named, or those that are found if their owner agrees."""
    from discovery_cli import client_files
    from discovery_engine.config.settings import Source

    if origins:
        return [client_files.source_named(origin) for origin in origins]
    files = client_files.found_files()
    if not files:
        output.say("no configuration of another MCP client was found; name a file with --from")
        return []
    output.say("files of other clients:")
    client_files.say_files(output, files)
    if not client_files.confirm("Read them?", yes=yes or dry_run):
        return []
    return [Source(client) for client in dict.fromkeys(file.client for file in files)]


def _target(invocation: Invocation) -> Path:
    """The configuration to write into."""
    from discovery_engine.config.files.location import FILE_NAME, locate

    return Path(locate(invocation.config).path or FILE_NAME)


_ADVICE = "`sources: [{type: …}]` in discovery.yaml uses the file as it is"


def plan_form(plan: ImportPlan) -> JSONObject:
    return {
        "servers": [
            {
                "name": candidate.server.name,
                "from": candidate.server.source,
                "entry": serialize_server_redacted(candidate.server),
                "variables": list(candidate.variables),
            }
            for candidate in plan.servers
        ],
        "skipped": [{"name": server.name, "reason": server.reason} for server in plan.skipped],
        "variables": plan.variables,
        "secrets": [
            {"name": name, "length": length_class(text)} for name, text in plan.secrets.items()
        ],
        "rule_count": len(plan.rules),
        "warnings": [problem_form(problem) for problem in plan.warnings],
    }


def show_plan(output: Output, plan: ImportPlan) -> None:
    rows: list[list[Cell | str]] = [
        [output.mark(good=True), Cell(candidate.server.name, "strong"), _about(candidate)]
        for candidate in plan.servers
    ]
    rows += [[output.mark(good=False), Cell(o.name, "strong"), o.reason] for o in plan.skipped]
    output.table(rows)
    for name, text in plan.secrets.items():
        output.say(f"stores {name}: ••••  {length_class(text)} characters")
    for candidate in plan.servers:
        if candidate.is_seen:
            output.say(
                f"note: {candidate.server.name} gets a secret in its arguments, where other"
                " programs of this machine can see it"
            )
    for problem in plan.warnings:
        output.say(f"note: {problem}")
    if any(server.is_secret for server in plan.skipped):
        output.say(f"hint: {_ADVICE}")


def say_variables(output: Output, plan: ImportPlan) -> None:
    if names := plan.variables:
        output.say(
            f"set {', '.join(names)}: secrets are referred to, and were not copied;"
            " `discovery secrets set` asks for them"
        )


def _about(candidate: ImportCandidate) -> str:
    entry = serialize_server_redacted(candidate.server)
    reached = [entry["command"], *entry.get("args", ())] if "command" in entry else [entry["url"]]
    off = "" if candidate.server.enabled else " (disabled)"
    origin = candidate.original.origin.file if candidate.original else ""
    whose = f"{origin}, in place of that entry" if origin else candidate.server.source
    return f"{' '.join(reached)}{off}, from {whose}"
