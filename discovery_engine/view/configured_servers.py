"""The configured servers of a view, each with its part of the catalog and its live state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.state import StateInfo
from discovery_engine.view.status import ConfiguredServer, ServerReport, tool_counts

if TYPE_CHECKING:
    from discovery_engine.catalog import Catalog
    from discovery_engine.config.settings import Settings
    from discovery_engine.tools.model import ServerName
    from discovery_engine.upstream.state import StateInfo
    from discovery_engine.view.addresses import AddressBook
    from discovery_engine.view.notices import Notice

T = TypeVar("T")


class ServerMemo(Struct):
    """Values computed from the servers, so that an answer looks only at servers that changed."""

    configured: dict[ServerName, ConfiguredServer] = {}
    """Each as of its last live state."""
    reports: PerServer[ServerReport] | None = None
    outages: PerServer[Notice | None] | None = None
    scoped: tuple[Sequence[ServerReport], tuple[ServerReport, ...]] = ((), ())
    """The reports of all servers, and those of a scope that were made of them."""


class ConfiguredServers(Struct, frozen=True):
    settings: Settings
    catalog: Catalog
    addresses: AddressBook
    live: Mapping[ServerName, StateInfo]
    memo: ServerMemo
    whole: ConfiguredServers | None = None
    """The servers of the view of which this is a scope. Only tool counts, and descriptions that
    name hidden things, are different within it."""

    def __iter__(self) -> Iterator[ConfiguredServer]:
        """Every configured server, in the order of the settings."""
        return map(self.get, self.settings.by_name)

    def get(self, name: ServerName) -> ConfiguredServer:
        """The server of exactly that name; all of it, also within a scope."""
        if self.whole:
            return self.whole.get(name)
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

    def report(self, name: ServerName) -> ServerReport:
        """The server of exactly that name."""
        return self._counted(self.get(name).report)

    def reports(self) -> tuple[ServerReport, ...]:
        """Every server, in the order of names."""
        if self.whole:
            return self._scoped_reports(self.whole.reports())
        reports = self.memo.reports = self._for_all(_report, self.memo.reports)
        return reports.all

    def outages(self, only: ServerName | None) -> list[Notice]:
        """Notices about servers in scope whose tools are missing or stale."""
        if only:
            return [notice] if (notice := self.get(only).outage) else []
        if self.whole:
            names = self.settings.by_name
            return [notice for notice in self.whole.outages(None) if notice.server in names]
        outages = self.memo.outages = self._for_all(_outage, self.memo.outages)
        return [notice for notice in outages.all if notice]

    def _scoped_reports(self, everything: tuple[ServerReport, ...]) -> tuple[ServerReport, ...]:
        before, earlier_reports = self.memo.scoped
        if everything is before:
            return earlier_reports
        names = self.settings.by_name
        unchanged = zip(
            (report for report in before if report.name in names), earlier_reports, strict=True
        )
        reused = {id(report): scoped for report, scoped in unchanged}
        reports = tuple(
            reused.get(id(report)) or self._counted(report)
            for report in everything
            if report.name in names
        )
        self.memo.scoped = everything, reports
        return reports

    def _counted(self, report: ServerReport) -> ServerReport:
        """The report with what a scope shows of the server."""
        part = self.catalog.part(report.name)
        if not self.whole or part is self.whole.catalog.part(report.name):
            return report
        description = self.get(report.name).description_with(part.instructions)
        return replace(report, description=description, **tool_counts(part))

    def _for_all(
        self, compute: Callable[[ConfiguredServer], T], known: PerServer[T] | None
    ) -> PerServer[T]:
        known = known or PerServer(tuple(sorted(self.settings.by_name)))
        return known.updated(self.live, lambda name: compute(self.get(name)))


def _report(server: ConfiguredServer) -> ServerReport:
    return server.report


def _outage(server: ConfiguredServer) -> Notice | None:
    return server.outage


# With 1,500 servers, computing what an answer needs of all of them took 100 ms each time.


class PerServer(Struct, Generic[T], frozen=True):
    names: tuple[ServerName, ...]
    """The configured servers, in the order of names."""
    live: Mapping[ServerName, StateInfo] | None = None
    """The live states that the values were computed from; None before that."""
    values: Mapping[ServerName, T] = {}
    all: tuple[T, ...] = ()
    """The values in the order of names; the same tuple as long as no live state changes."""

    def updated(
        self, live: Mapping[ServerName, StateInfo], compute: Callable[[ServerName], T]
    ) -> PerServer[T]:
        """The values as of `live`, which has the servers used so far; only they can change."""
        now = dict(live)
        if now == self.live:
            return self
        changed = self.names if self.live is None else _changed(self.live, now, self.values)
        values = {**self.values, **{name: compute(name) for name in changed}}
        return PerServer(self.names, now, values, tuple(values.values()))


def _changed(
    before: Mapping[ServerName, StateInfo],
    now: Mapping[ServerName, StateInfo],
    configured: Mapping[ServerName, object],
) -> list[ServerName]:
    used = {**before, **now}
    return [n for n in used if n in configured and before.get(n) != now.get(n)]
