"""What a setup file adds to the registry: each server once, whatever is wrong with the others."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine.config.own_entry import OWN_ENTRY, is_own_entry
from discovery_engine.errors import ConfigurationError
from discovery_engine.owner.server_plans import NewServer, ServerPlan, plan_registrations
from discovery_engine.owner.setup_file import VARIABLE, SetupEntry, read_setup
from discovery_engine.registry.server_records import RegisteredServer

if TYPE_CHECKING:
    from discovery_engine.config.settings import Settings
    from discovery_engine.runtime.registered_servers import Registrations


class SyncProblem(Struct, frozen=True):
    """A server of the file that was not registered."""

    name: str
    reason: str


class SyncReport(Struct, frozen=True):
    registered: tuple[str, ...] = ()
    """The names by which the new servers are addressed."""
    activated: tuple[str, ...] = ()
    """Those of them that are switched on."""
    skipped: tuple[SyncProblem, ...] = ()
    """Those that are there already; they stay as they are."""
    errors: tuple[SyncProblem, ...] = ()


class SyncPlan(Struct, frozen=True):
    path: Path
    plans: tuple[ServerPlan, ...]
    report: SyncReport
    """What will have been done."""


def setup_path(path: str | Path | None, environ: Mapping[str, str]) -> Path:
    """The setup file that is meant.

    Raises:
        ConfigurationError: If none is named, or no file can have that name.
    """
    if named := path or environ.get(VARIABLE):
        if not _is_possible(str(named)):
            message = "no file can have that name"
            raise ConfigurationError.of_file("CONFIG_UNREADABLE", repr(str(named)), message)
        return Path(os.path.expanduser(named)).absolute()  # noqa: PTH111 - it knows `~nobody`, too
    hint = f"name a file, or set {VARIABLE}"
    raise ConfigurationError.of_file("CONFIG_UNREADABLE", "sync", "no setup file is named", hint)


def _is_possible(path: str) -> bool:
    """Whether the system can be asked for a path at all."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def plan_sync(
    settings: Settings,
    known: Registrations,
    path: Path,
    environ: Mapping[str, str],
    *,
    at: float,
    data: Path,
) -> SyncPlan:
    """The servers of the file that are not registered yet; `at` is Unix time in seconds.

    Raises:
        ConfigurationError: If the file is not there, or cannot be read.
    """
    entries = read_setup(path)
    there = {name.casefold() for name in known.servers}
    skipped: list[SyncProblem] = []
    errors: list[SyncProblem] = []
    new: list[NewServer] = []
    for one in entries:
        if one.problem:
            errors.append(SyncProblem(one.name, one.problem))
        elif one.name.casefold() in there:
            skipped.append(SyncProblem(one.name, "it is registered already"))
        else:
            new.append(_new(one, at))
    found = plan_registrations(settings, known, new, environ)
    skipped += [SyncProblem(name, why) for name, why in found.duplicates.items()]
    errors += [SyncProblem(name, _reason(error)) for name, error in found.errors.items()]
    own = [one.name for one in found.plans.values() if _is_own(one, data)]
    skipped += [SyncProblem(name, OWN_ENTRY) for name in own]
    plans = tuple(one for one in found.plans.values() if one.name not in own)
    report = SyncReport(
        tuple(plan.name for plan in plans),
        tuple(plan.name for plan in plans if not plan.switches),
        tuple(skipped),
        tuple(errors),
    )
    return SyncPlan(path, plans, report)


def _is_own(plan: ServerPlan, data: Path) -> bool:
    return plan.server is not None and is_own_entry(plan.server.transport, data)


def _new(one: SetupEntry, at: float) -> NewServer:
    record = RegisteredServer(one.name, one.entry, "setup", created_at=at, updated_at=at)
    return NewServer(record, one.is_wanted, one.secrets)


def _reason(error: ConfigurationError) -> str:
    return "; ".join(problem.message for problem in error.problems)
