"""Plans of imports: what `discovery.yaml` gets from other clients' files, and what is skipped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from discovery_engine.config.editing.import_entries import (
    ImportCandidate,
    SkippedServer,
    import_entry,
    own_copy,
)
from discovery_engine.config.loading.endpoints import Endpoint, endpoint, value_of
from discovery_engine.config.loading.merging import unique_name
from discovery_engine.config.settings import ServerSettings, Settings
from discovery_engine.config.sources import SourceResult
from discovery_engine.diagnostics import Diagnostic
from discovery_engine.rules.rule import Rule
from discovery_engine.secrets.resolver import SecretResolver
from discovery_engine.secrets.stored_values import SecretText
from discovery_engine.tools.model import ServerName

Stores: TypeAlias = Literal["all", "live", "none"]
"""Whose secrets are stored: those of all servers, of those in force, or of none."""


class ImportPlan(Struct):
    servers: list[ImportCandidate] = field(default_factory=list)
    skipped: list[SkippedServer] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)

    def add(self, candidate: ImportCandidate | SkippedServer, name: str) -> bool:
        """Add what became of the server of a name; whether it is imported."""
        if isinstance(candidate, SkippedServer):
            self.skipped.append(replace(candidate, name=name))
            return False
        self.servers.append(candidate)
        self.rules += candidate.rules
        return True

    @property
    def names(self) -> set[ServerName]:
        return {candidate.server.name for candidate in self.servers}

    @property
    def has_failed(self) -> bool:
        """True if the import achieves nothing: no server is added, and none is there already."""
        is_there = any(warning.code == "SOURCE_ITSELF" for warning in self.warnings)
        return not (self.servers or is_there) and all(server.is_problem for server in self.skipped)

    @property
    def variables(self) -> list[str]:
        return sorted({name for candidate in self.servers for name in candidate.variables})

    @property
    def secrets(self) -> dict[str, SecretText]:
        """All secrets to store, by name."""
        return {
            name: text for candidate in self.servers for name, text in candidate.secrets.items()
        }

    @property
    def has_literals(self) -> bool:
        """True if the files hold secrets that could be stored."""
        return bool(self.variables) or any(server.is_secret for server in self.skipped)


def plan_import(
    found: Sequence[tuple[str, SourceResult]],
    settings: Settings,
    only: Sequence[str],
    secrets: SecretResolver,
    *,
    stores: Stores = "live",
) -> ImportPlan:
    """Plan the import of each client's servers; `only` names the wanted ones, if not all.

    One that is in force from its client's file is copied as it is in force, and takes its place.

    Args:
        found: What the files of clients have.
        settings: Those in force.
        only: The wanted servers; all if there are none.
        secrets: What gives the values with which entries are compared, and has the names that new
            secrets do not take.
        stores: Whose secrets are to be stored, see `import_entry`: those of servers in force have
            to be, for these to go on as they are.
    """
    plan = ImportPlan()
    known_servers = KnownServers(settings.servers, secrets)
    known_servers.claim([server for _, imported in found for server in imported.servers])
    for client, imported in found:
        _add_client(plan, client, imported, known_servers, only, settings, secrets, stores=stores)
    return plan


def _add_client(
    plan: ImportPlan,
    client: str,
    imported: SourceResult,
    known: KnownServers,
    only: Sequence[str],
    settings: Settings,
    secrets: SecretResolver,
    *,
    stores: Stores,
) -> None:
    names: dict[ServerName, ServerName] = {}
    twins: dict[ServerName, ServerName] = {}
    for server in imported.servers:
        if only and server.name not in only:
            continue
        live = known.live(client, server)
        if live and live.name not in plan.names:
            plan.add(own_copy(settings, live, secrets, is_stored=stores != "none"), live.name)
            continue
        if (same := known.same_as(server)) is not None:
            reason = f"it is there already, as {same!r}"
            plan.skipped.append(SkippedServer(server.name, reason, is_problem=False))
            twins |= {server.name: same} if same in plan.names else {}
            continue
        name = unique_name(server.name, client, known.names)
        renamed = replace(server, name=name, source=client)  # secrets are kept for that name
        candidate = import_entry(renamed, is_stored=stores == "all", secrets=secrets)
        if plan.add(candidate, server.name):
            known.add(server, name)
            names[server.name] = name
    others = frozenset(server.name for server in imported.servers) - names.keys()
    plan.rules += imported.without(others).renamed(names).tool_rules
    plan.rules += imported.restrictions(twins)
    plan.warnings += imported.warnings
    plan.skipped += [SkippedServer(name, reason) for name, reason in imported.skipped]


# The servers that a configuration has already, so that a further import adds none twice.


class KnownServers:
    def __init__(self, servers: Iterable[ServerSettings], secrets: SecretResolver) -> None:
        self._value_of = partial(value_of, secrets=secrets, kinds=("variable", "secret"))
        self._by_name = {server.name: server for server in servers}
        self._by_endpoint: dict[Endpoint, ServerName] = {}
        for server in self._by_name.values():
            self._by_endpoint.setdefault(self._endpoint(server), server.name)
        self._sourced = [server for server in self._by_name.values() if server.is_sourced]
        self.names = {name.casefold() for name in self._by_name}

    def claim(self, found: Iterable[ServerSettings]) -> None:
        """Note which entries are surely those of servers that are in clients' files."""
        endpoints = map(self._endpoint, found)
        claimed = {self._by_endpoint.get(endpoint) for endpoint in endpoints}
        self._by_name = {
            name: server for name, server in self._by_name.items() if name not in claimed
        }

    def same_as(self, server: ServerSettings) -> ServerName | None:
        """The entry of the same server.

        That is one with the same values, or else one that an import has written from an entry of
        this name. Its secret may have been replaced since, in the store or in the client's file.
        """
        if (same := self._by_endpoint.get(self._endpoint(server))) is not None:
            return same
        return next(
            (entry.name for entry in self._by_name.values() if _is_copy(entry, server)), None
        )

    def live(self, client: str, server: ServerSettings) -> ServerSettings | None:
        """The server in force that stands in a client's file as this one; None if none does."""
        same = self.same_as(server)
        exact = (
            entry
            for entry in self._sourced
            if (entry.source, entry.origin.file) == (client, server.origin.file)
            and (entry.renamed_from or entry.name) == server.name
        )
        return next(exact, None) or next(
            (entry for entry in self._sourced if entry.name == same), None
        )

    def add(self, server: ServerSettings, name: ServerName) -> None:
        self._by_endpoint[self._endpoint(server)] = name
        self.names.add(name.casefold())

    def _endpoint(self, server: ServerSettings) -> Endpoint:
        return endpoint(server, self._value_of) or ("", server.name)


def _is_copy(entry: ServerSettings, server: ServerSettings) -> bool:
    """Return whether an import of `server`, from another file, writes the endpoint of `entry`."""
    if entry.name != server.name and not entry.name.startswith(f"{server.name}@"):
        return False
    copy = import_entry(replace(server, name=entry.name), is_stored=True)
    return isinstance(copy, ImportCandidate) and endpoint(copy.server, str) == endpoint(entry, str)
