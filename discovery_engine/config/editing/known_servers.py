"""The servers that a configuration has already, so that a further import adds none twice."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from discovery_engine.config.editing.import_entries import ImportCandidate, import_entry
from discovery_engine.config.loading.endpoints import Endpoint, endpoint
from discovery_engine.config.settings import ServerSettings
from discovery_engine.secrets.references import Reference, UnsetReference
from discovery_engine.secrets.resolver import SecretResolver
from discovery_engine.tools.model import ServerName


class KnownServers:
    def __init__(self, servers: Iterable[ServerSettings], secrets: SecretResolver) -> None:
        self._secrets = secrets
        self._by_name = {server.name: server for server in servers}
        self._by_endpoint: dict[Endpoint, ServerName] = {}
        for server in self._by_name.values():
            self._by_endpoint.setdefault(self._endpoint(server), server.name)
        self._sourced = [one for one in self._by_name.values() if one.is_sourced]
        self.names = {name.casefold() for name in self._by_name}

    def claim(self, found: Iterable[ServerSettings]) -> None:
        """Note which entries are surely those of servers that are in clients' files."""
        endpoints = map(self._endpoint, found)
        claimed = {self._by_endpoint.get(one) for one in endpoints}
        self._by_name = {name: one for name, one in self._by_name.items() if name not in claimed}

    def same_as(self, server: ServerSettings) -> ServerName | None:
        """The entry of the same server.

        That is one with the same values, or else one that an import has written from an entry of
        this name. Its secret may have been replaced since, in the store or in the client's file.
        """
        if (same := self._by_endpoint.get(self._endpoint(server))) is not None:
            return same
        return next((one.name for one in self._by_name.values() if _is_copy(one, server)), None)

    def live(self, client: str, server: ServerSettings) -> ServerSettings | None:
        """The server in force that stands in a client's file as this one; None if none does."""
        same = self.same_as(server)
        exact = (
            one
            for one in self._sourced
            if (one.source, one.origin.file) == (client, server.origin.file)
            and (one.renamed_from or one.name) == server.name
        )
        return next(exact, None) or next((one for one in self._sourced if one.name == same), None)

    def add(self, server: ServerSettings, name: ServerName) -> None:
        self._by_endpoint[self._endpoint(server)] = name
        self.names.add(name.casefold())

    def _endpoint(self, server: ServerSettings) -> Endpoint:
        return endpoint(server, self._value) or ("", server.name)

    def _value(self, reference: Reference) -> str:
        if reference.kind not in {"variable", "secret"}:
            return str(reference)
        try:
            return self._secrets.value(reference, base_dir=None) or str(reference)
        except UnsetReference:
            return str(reference)


def _is_copy(entry: ServerSettings, server: ServerSettings) -> bool:
    """Whether an import writes the endpoint of `entry` for a server of another file."""
    if entry.name != server.name and not entry.name.startswith(f"{server.name}@"):
        return False
    copy = import_entry(replace(server, name=entry.name), is_stored=True)
    return isinstance(copy, ImportCandidate) and endpoint(copy.server, str) == endpoint(entry, str)
