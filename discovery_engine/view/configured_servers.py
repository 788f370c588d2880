"""The configured servers of a view, each with its part of the catalog and its live state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from discovery_engine.view.per_server import PerServer
from discovery_engine.view.status import ConfiguredServer, ServerReport

if TYPE_CHECKING:
    from discovery_engine.catalog import Catalog
    from discovery_engine.config.settings import Settings
    from discovery_engine.tools.model import ServerName
    from discovery_engine.upstream.state import StateInfo
    from discovery_engine.view.addresses import AddressBook
    from discovery_engine.view.notices import Notice

T = TypeVar("T")


class ServerMemo(Struct):
    """What was computed of the servers, so that an answer looks only at those that changed."""

    configured: dict[ServerName, ConfiguredServer] = {}
    """Each as of its last live state."""
    reports: PerServer[ServerReport] | None = None
    outages: PerServer[Notice | None] | None = None


class ConfiguredServers(Struct, frozen=True):
    settings: Settings
    catalog: Catalog
    addresses: AddressBook
    live: Mapping[ServerName, StateInfo]
    memo: ServerMemo

    def __iter__(self) -> Iterator[ConfiguredServer]:
        """Every configured server, in the order of the settings."""
        return map(self.get, self.settings.by_name)

    def get(self, name: ServerName) -> ConfiguredServer:
        """The server of exactly that name."""
        configured, live = self.memo.configured, self.live.get(name)
        server = configured.get(name)
        if server is None or server.live != live:
            settings, rules = self.settings.by_name[name], self.settings.server_rules
            server = ConfiguredServer(settings, self.catalog.part(name), rules, live)
            configured[name] = server
        return server

    def find(self, name: str) -> ConfiguredServer:
        """The server of that name, or of a unique one in another case.

        Raises:
            ServerNotFoundError: With the nearest names.
        """
        return self.get(self.addresses.server(name))

    def reports(self) -> tuple[ServerReport, ...]:
        """Every server, in the order of names."""
        found = self.memo.reports = self._for_all(_report, self.memo.reports)
        return found.all

    def outages(self, only: ServerName | None) -> list[Notice]:
        """Notices about servers in scope whose tools are missing or stale."""
        if only:
            return [notice] if (notice := self.get(only).outage) else []
        found = self.memo.outages = self._for_all(_outage, self.memo.outages)
        return [notice for notice in found.all if notice]

    def _for_all(
        self, compute: Callable[[ConfiguredServer], T], known: PerServer[T] | None
    ) -> PerServer[T]:
        known = known or PerServer(tuple(sorted(self.settings.by_name)))
        return known.updated(self.live, lambda name: compute(self.get(name)))


def _report(server: ConfiguredServer) -> ServerReport:
    return server.report


def _outage(server: ConfiguredServer) -> Notice | None:
    return server.outage
