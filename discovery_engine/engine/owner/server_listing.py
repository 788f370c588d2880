"""The configured servers as their owner sees them: what is wanted, and what is observed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from discovery_engine.config.settings import ServerSettings
    from discovery_engine.engine.registered_servers import Registrations
    from discovery_engine.store.server_records import PackagePin, RegisteredServer
    from discovery_engine.tools.model import ServerName
    from discovery_engine.view.status import ServerReport
    from discovery_engine.view.view import View


class OwnedServer(Struct, frozen=True):
    """A configured server, wherever it stands."""

    settings: ServerSettings
    report: ServerReport
    record: RegisteredServer | None = None
    """Its record in the registry; None if it stands in a file."""
    package: PackagePin | None = None
    """The package that it runs, if it was installed from a marketplace."""

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def source(self) -> str:
        """`discovery.yaml`, `registry`, or the id of another source."""
        return self.settings.source

    @property
    def is_wanted(self) -> bool:
        """True if its owner wants it; a failure of the server changes nothing about that."""
        return self.settings.enabled

    @property
    def state(self) -> str:
        """The observed `ServerState`."""
        return self.report.state

    @property
    def description(self) -> str:
        return self.report.description or self.settings.description

    @property
    def tags(self) -> tuple[str, ...]:
        return self.report.tags or self.settings.tags

    @property
    def created_at(self) -> float | None:
        """Unix time in seconds; None if it stands in a file."""
        return self.settings.created_at

    @property
    def updated_at(self) -> float | None:
        return self.settings.updated_at


def owned_servers(
    view: View,
    reports: Iterable[ServerReport],
    registrations: Registrations,
    installed: Mapping[ServerName, PackagePin],
) -> Iterator[OwnedServer]:
    """The servers of these reports, in their order; `installed` are packages of install records."""
    by_name = view.settings.by_name
    for report in reports:
        server = by_name[report.name]
        name = server.renamed_from or server.name
        record = registrations.servers.get(name) if server.is_registered else None
        package = (record.package if record else None) or installed.get(report.name)
        yield OwnedServer(server, report, record, package)
