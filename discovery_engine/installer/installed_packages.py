"""Which configured servers run a package of a marketplace, wherever they stand.

The registry keeps the package of a registered server; of one that was installed into the file only
the install record has it. Light to import: `discovery list` needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from discovery_engine.config.files.location import decision_scopes
from discovery_engine.installer.install_records import InstallRecords

if TYPE_CHECKING:
    from discovery_engine.config.settings import Settings
    from discovery_engine.registry.server_records import PackagePin
    from discovery_engine.tools.model import ServerName
    from discovery_engine.view.status import ServerReport


def installed_packages(settings: Settings, data: Path) -> Mapping[ServerName, PackagePin]:
    """The packages of installed servers, by the names by which these are addressed. Blocks."""
    records = InstallRecords(data)
    if records.is_empty:
        return {}
    scopes = decision_scopes(settings.path, settings.name)
    found = ((server.name, records.record_of(scopes, server)) for server in settings.servers)
    return {name: record.current.pin for name, record in found if record}


def with_packages(
    reports: Iterable[ServerReport], packages: Mapping[ServerName, PackagePin]
) -> list[ServerReport]:
    """The reports, those of installed servers with their package."""
    return [
        replace(one, package=str(packages[one.name]))
        if one.name in packages and not one.package
        else one
        for one in reports
    ]
