"""What an import would add to `discovery.yaml` from the files of other clients, and what not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from discovery_engine.config.editing.import_entries import (
    ImportCandidate,
    SkippedServer,
    endpoint,
    import_entry,
)
from discovery_engine.config.loading.merging import unique_name
from discovery_engine.config.settings import ServerSettings
from discovery_engine.config.sources import SourceResult
from discovery_engine.diagnostics import Diagnostic
from discovery_engine.rules.rule import Rule
from discovery_engine.tools.model import ServerName


class ImportPlan(Struct):
    servers: list[ImportCandidate] = field(default_factory=list)
    skipped: list[SkippedServer] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether no server was found at all."""
        return not self.servers and not self.skipped

    @property
    def variables(self) -> list[str]:
        return sorted({name for one in self.servers for name in one.variables})


def plan_import(
    found: Mapping[str, SourceResult], existing: Iterable[ServerSettings], only: Sequence[str]
) -> ImportPlan:
    """Plan the import of each client's servers; `only` names the wanted ones, if not all."""
    plan = ImportPlan()
    taken = {endpoint(server): str(server.name) for server in existing}
    for client, imported in found.items():
        _add_client(plan, client, imported, taken, only)
    return plan


def _add_client(
    plan: ImportPlan,
    client: str,
    imported: SourceResult,
    taken: dict[tuple[str, ...], str],
    only: Sequence[str],
) -> None:
    names: dict[ServerName, ServerName] = {}
    for server in imported.servers:
        if only and server.name not in only:
            continue
        candidate = import_entry(server)
        same = taken.get(endpoint(server))
        if isinstance(candidate, SkippedServer):
            plan.skipped.append(candidate)
        elif same is not None:
            plan.skipped.append(SkippedServer(server.name, f"it is there already, as {same!r}"))
        else:
            name = unique_name(server.name, client, {one.casefold() for one in taken.values()})
            taken[endpoint(server)] = names[server.name] = name
            renamed = replace(candidate.server, name=name, source=client)
            plan.servers.append(replace(candidate, server=renamed))
    others = frozenset(server.name for server in imported.servers) - names.keys()
    plan.rules += imported.without(others).renamed(names).tool_rules
    plan.warnings += imported.warnings
    plan.skipped += [SkippedServer(name, reason) for name, reason in imported.skipped]
