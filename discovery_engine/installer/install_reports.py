"""What an installation or an update reports while it goes on: to its caller, and as events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from discovery_engine.errors import DiscoveryError
from discovery_engine.events import (
    InstallFailed,
    InstallProgressed,
    ServerInstalled,
    ServerUninstalled,
)
from discovery_engine.tools.model import ServerName

if TYPE_CHECKING:
    from discovery_engine.installer.installed_change import PlannedServerChange
    from discovery_engine.installer.preparation import OnProgress
    from discovery_engine.registry.server_records import PackagePin

InstallEvent: TypeAlias = InstallProgressed | InstallFailed | ServerInstalled | ServerUninstalled
Publish: TypeAlias = Callable[[InstallEvent], object]


class InstallReports:
    """Reports of one installer."""

    def __init__(self, publish: Publish) -> None:
        self._publish = publish

    @contextmanager
    def of(self, server: str, on_progress: OnProgress) -> Iterator[OnProgress]:
        """A block of work on a server: yields what reports a step; a failure is published."""

        def report(step: str) -> None:
            self._publish(InstallProgressed(server, step))
            on_progress(step)

        try:
            yield report
        except DiscoveryError as error:
            self._publish(InstallFailed(server, error.code))
            raise

    def installed(self, change: PlannedServerChange, pin: PackagePin) -> None:
        """A server was entered; the registry publishes that itself, the file knows no package."""
        if change.where == "file":
            self._publish(ServerInstalled(ServerName(change.name), str(pin)))

    def uninstalled(self, change: PlannedServerChange, pin: PackagePin) -> None:
        if change.where == "file":
            self._publish(ServerUninstalled(ServerName(change.name), str(pin)))
