"""What an import would add to `discovery.yaml` from the files of other clients, and what not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from discovery_engine.config.editing.import_entries import (
    ImportCandidate,
    SkippedServer,
    import_entry,
)
from discovery_engine.config.editing.known_servers import KnownServers
from discovery_engine.config.loading.merging import unique_name
from discovery_engine.config.settings import ServerSettings
from discovery_engine.config.sources import SourceResult
from discovery_engine.diagnostics import Diagnostic
from discovery_engine.rules.rule import Rule
from discovery_engine.secrets.resolver import SecretResolver
from discovery_engine.secrets.stored_values import SecretText
from discovery_engine.tools.model import ServerName


class ImportPlan(Struct):
    servers: list[ImportCandidate] = field(default_factory=list)
    skipped: list[SkippedServer] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)

    @property
    def names(self) -> set[ServerName]:
        return {one.server.name for one in self.servers}

    @property
    def has_failed(self) -> bool:
        """Whether nothing came of what was found: no server is added, and none is there already."""
        is_there = any(one.code == "SOURCE_ITSELF" for one in self.warnings)
        return not (self.servers or is_there) and all(one.is_problem for one in self.skipped)

    @property
    def variables(self) -> list[str]:
        return sorted({name for one in self.servers for name in one.variables})

    @property
    def secrets(self) -> dict[str, SecretText]:
        """All secrets to store, by name."""
        return {name: text for one in self.servers for name, text in one.secrets.items()}

    @property
    def has_literals(self) -> bool:
        """Whether secrets stand in the files that could be stored."""
        return bool(self.variables) or any(one.is_secret for one in self.skipped)


def plan_import(
    found: Sequence[tuple[str, SourceResult]],
    existing: Iterable[ServerSettings],
    only: Sequence[str],
    secrets: SecretResolver,
    *,
    is_stored: bool = False,
) -> ImportPlan:
    """Plan the import of each client's servers; `only` names the wanted ones, if not all.

    Entries are compared with the values that `secrets` gives to their references. With `is_stored`
    their secrets are to be stored; see `import_entry`.
    """
    plan = ImportPlan()
    known = KnownServers(existing, secrets)
    known.claim([server for _, imported in found for server in imported.servers])
    for client, imported in found:
        _add_client(plan, client, imported, known, only, is_stored=is_stored)
    return plan


def _add_client(
    plan: ImportPlan,
    client: str,
    imported: SourceResult,
    known: KnownServers,
    only: Sequence[str],
    *,
    is_stored: bool,
) -> None:
    names: dict[ServerName, ServerName] = {}
    twins: dict[ServerName, ServerName] = {}
    for server in imported.servers:
        if only and server.name not in only:
            continue
        if (same := known.same_as(server)) is not None:
            reason = f"it is there already, as {same!r}"
            plan.skipped.append(SkippedServer(server.name, reason, is_problem=False))
            twins |= {server.name: same} if same in plan.names else {}
            continue
        name = unique_name(server.name, client, known.names)
        renamed = replace(server, name=name, source=client)  # secrets are kept for that name
        candidate = import_entry(renamed, is_stored=is_stored)
        if isinstance(candidate, SkippedServer):
            plan.skipped.append(replace(candidate, name=server.name))
        else:
            known.add(server, name)
            names[server.name] = name
            plan.servers.append(candidate)
    others = frozenset(server.name for server in imported.servers) - names.keys()
    plan.rules += imported.without(others).renamed(names).tool_rules
    plan.rules += imported.restrictions(twins)
    plan.warnings += imported.warnings
    plan.skipped += [SkippedServer(name, reason) for name, reason in imported.skipped]
