"""Copies servers from other clients' files into discovery.yaml: plans, shows and writes them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec.structs import replace

from discovery_cli.invocation import Invocation, owner_secrets, stored_values
from discovery_cli.output import Cell, Output
from discovery_cli.terminal_input import confirm
from discovery_engine._util.quantities import counted
from discovery_engine.config.editing.import_plan import plan_import
from discovery_engine.config.serialization import serialize_server_redacted
from discovery_engine.engine.json_forms.error_form import problem_form
from discovery_engine.secrets.stored_values import length_class

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.config.editing.import_plan import ImportCandidate, ImportPlan, Stores
    from discovery_engine.config.settings import Settings
    from discovery_engine.config.sources import SourceResult

Secrets: TypeAlias = Literal["store", "keep", "ask"]

_STORES: Mapping[Secrets, Stores] = {"store": "all", "ask": "live", "keep": "none"}


def ask_for_copies(
    invocation: Invocation,
    target: Path,
    imported: Sequence[tuple[str, SourceResult]],
    secrets: Secrets,
    *,
    only: Sequence[str] = (),
    asks: bool,
) -> tuple[ImportPlan, Settings]:
    """Show the planned copies, and ask whether to store their secrets.

    Returns:
        The plan, and the settings of the target as it is now.
    """
    output, settings = invocation.output, _in_force(invocation, target)
    plan_with = partial(plan_import, imported, settings, only, stored_values(invocation))
    plan = plan_with(stores=_STORES[secrets])
    if not output.as_json:
        show_plan(output, plan)
    if secrets == "ask" and plan.has_literals:
        plan = _agreed(output, plan, plan_with(stores="all"), asks=asks)
    return plan, settings


def write_copies(
    invocation: Invocation, target: Path, plan: ImportPlan, settings: Settings
) -> None:
    """Write the planned entries, store their secrets, and print which variables are needed."""
    with _stored(invocation, plan):
        _write(invocation, target, plan, settings)
    say_variables(invocation.output, plan)


def _in_force(invocation: Invocation, target: Path) -> Settings:
    """Load the settings of a file with its sources and the owner's switches."""
    from discovery_engine.config.loading.loader import load_settings
    from discovery_engine.config.settings import Settings
    from discovery_engine.engine.restore import with_registered

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
    """Return the plan `stored`, which stores secrets, if the owner agrees; else `plan`."""
    if not stored.secrets:
        return plan
    if not asks:
        output.say(f"hint: --secrets store encrypts and stores {_secrets(stored)}")
        return plan
    question = f"Encrypt and store {_secrets(stored)}, and refer to them?"
    if not confirm(question, yes=False):
        return plan
    show_plan(output, stored)
    return stored


def _stored(invocation: Invocation, plan: ImportPlan) -> AbstractContextManager[None]:
    """Store the secrets of the plan before the block."""
    if not plan.secrets:
        return nullcontext()
    return owner_secrets(invocation).storing(plan.secrets)


def _secrets(plan: ImportPlan) -> str:
    return counted(len(plan.secrets), "secret")


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
    for server in plan.skipped:
        mark = output.mark(good=not server.is_problem)
        rows.append([mark, Cell(server.name, "strong"), server.reason])
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
