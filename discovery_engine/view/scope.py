"""A scope: the part of a view that some clients see. It hides tools and servers, and shows none.

A scope is a filter over the snapshot, not a copy (see `scoped_catalog`). What it hides is unknown
within it: no answer, notice or suggestion names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from operator import and_
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from discovery_engine._util.suggestions import nearest
from discovery_engine.catalog import Entry, OfferingEntry
from discovery_engine.config.serve_settings import replaced_settings
from discovery_engine.errors import ViewNotFoundError
from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.tools.model import ServerName
from discovery_engine.view.scoped_catalog import Flags, ScopedCatalog, ScopedOfferings

if TYPE_CHECKING:
    from discovery_engine.catalog import Catalog, ServerPart
    from discovery_engine.config.serve_settings import ViewSettings
    from discovery_engine.config.settings import ServerSettings, Settings
    from discovery_engine.rules.ruleset import ServerRules, ToolRules
    from discovery_engine.view.view import View

_ENABLED = Verdict()


class Scope(Struct, frozen=True):
    """Which tools are shown, of those that are visible without it."""

    name: str = ""
    """That of the view in the configuration; empty for another scope."""
    rules: tuple[Rule, ...] = ()
    """Like `toolRules`: what they disable is not shown. What they enable is shown only if it is
    visible without the scope."""
    servers: tuple[str, ...] = ()
    """Patterns of the only servers; all if there is none."""
    tags: tuple[str, ...] = ()
    """The tags of which everything shown carries at least one; no tag is needed if it is empty."""
    resource_rules: tuple[Rule, ...] = ()
    """Like `rules`, for resources and templates."""
    prompt_rules: tuple[Rule, ...] = ()
    """Like `rules`, for prompts."""
    hides_empty_servers: bool = False
    """True if a server of which nothing is shown is unknown, too; so is a server never listed."""
    search: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """The settings of the search that are others within it."""
    server: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """The settings of the gateway that are others within it."""
    hidden_servers: frozenset[ServerName] = frozenset()
    """Servers that are not shown, whatever their names match."""

    @classmethod
    def of_patterns(cls, patterns: Sequence[str]) -> Scope:
        """The tools that a list of patterns matches, as in a rule; all if there is none."""
        return cls(rules=(Rule(patterns=tuple(patterns), enabled=True),) if patterns else ())

    @classmethod
    def of_view(cls, view: ViewSettings) -> Scope:
        """The scope of a view in the configuration."""
        replaced: dict[str, dict[str, Any]] = {"search": {}, "server": {}}
        for name, (section, setting) in replaced_settings().items():
            if (value := getattr(view, name)) is not None:
                replaced[section][setting] = value
        return cls(
            view.name,
            view.rules,
            view.servers,
            view.tags,
            view.resource_rules,
            view.prompt_rules,
            search=replaced["search"],
            server=replaced["server"],
        )


def named_scope(settings: Settings, name: str) -> Scope:
    """The scope of the view of that name.

    Raises:
        ViewNotFoundError: With the nearest names.
    """
    names = [view.name for view in settings.views]
    if name not in names:
        raise ViewNotFoundError(name, nearest(name, names))
    return Scope.of_view(settings.views[names.index(name)])


def scope_or_nothing(settings: Settings, name: str) -> Scope:
    """Return the scope of a view by its name; a view that the owner has removed shows nothing."""
    if any(view.name == name for view in settings.views):
        return named_scope(settings, name)
    return Scope(name, servers=("!*",))


class ShownView:
    """The part of the current view that a scope shows."""

    def __init__(self, scope: Callable[[View], Scope], current: Callable[[], View]) -> None:
        """`scope` is looked up in each view: the owner may change it."""
        self._scope = scope
        self._current = current
        self._catalogs: ScopedCatalogs | None = None
        self._of: View | None = None
        self._shown: View | None = None

    def view(self) -> View:
        """The same view again, as long as the current one is the same."""
        current = self._current()
        if self._shown is None or current is not self._of:
            scope = self._scope(current)
            if self._catalogs is None or self._catalogs.scope != scope:
                self._catalogs = ScopedCatalogs(scope)
            self._shown = self._catalogs.view(current)
            self._of = current
        return self._shown


class ScopedCatalogs:
    """The catalogs of a scope, each made of the one before: only changed servers are judged."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._of: Mapping[ServerName, ServerPart] = {}
        self._shown: Mapping[ServerName, Flags | None] = {}
        """The flags of what is shown of each of these; None if all of it is."""
        self._offerings = ScopedOfferings(scope.resource_rules, scope.prompt_rules, scope.tags)

    def view(self, whole: View) -> View:
        """Return the part of a view that the scope shows."""
        settings = self._settings(whole.settings)
        catalog = self._catalog(whole.catalog, settings)
        if self.scope.hides_empty_servers:
            catalog = catalog.without_empty()
            servers = (server for server in settings.servers if server.name in catalog.shown)
            settings = replace(settings, servers=tuple(servers))
        guard = self._offerings.guard(whole.catalog, catalog)
        return whole.within(catalog, settings, guard)

    def why_hidden(self, whole: View, entry: Entry | OfferingEntry) -> str:
        """Why one is not shown within the scope, in a few words; empty if it is."""
        name = entry.tool.server if isinstance(entry, Entry) else entry.offering.server
        if self._is_of_other_server(whole.settings.by_name[name]):
            return "it is for other servers"
        if isinstance(entry, OfferingEntry):
            return self._offerings.why_hidden(whole.catalog.part(name), entry)
        tags = self.scope.tags
        if tags and set(tags).isdisjoint(entry.verdict.tags):
            return f"it is for tools tagged {', '.join(map(repr, tags))}"
        if self.scope.rules:
            explained = self._rules.explain(entry.tool, _ENABLED)
            if not explained.verdict.enabled:
                return explained.sentence
        return ""

    def hiding_rule(self, whole: View, entry: Entry) -> Rule | None:
        """The rule of the scope that hides a tool; None if something else does, or nothing."""
        if not self.scope.rules or not self.why_hidden(whole, entry):
            return None
        explained = self._rules.explain(entry.tool, _ENABLED)
        is_by_rule = explained.sentence == self.why_hidden(whole, entry)
        return explained.deciding.rule if is_by_rule and explained.deciding else None

    def _settings(self, settings: Settings) -> Settings:
        scope = self.scope
        if scope.name:
            settings = replace(settings, view=scope.name)
        if scope.servers or scope.hidden_servers:
            servers = (s for s in settings.servers if not self._is_of_other_server(s))
            settings = replace(settings, servers=tuple(servers))
        if scope.search:
            settings = replace(settings, search=replace(settings.search, **scope.search))
        if scope.server:
            settings = replace(settings, server=replace(settings.server, **scope.server))
        return settings

    def _is_of_other_server(self, server: ServerSettings) -> bool:
        if server.name in self.scope.hidden_servers:
            return True
        if not self.scope.servers:
            return False
        return not self._server_rules.verdict(server.name, server.tags, enabled=True).enabled

    def _catalog(self, catalog: Catalog, settings: Settings) -> ScopedCatalog:
        whole, outer = catalog, None
        if isinstance(catalog, ScopedCatalog):
            whole, outer = catalog.whole, catalog.shown
        earlier_flags, before = self._shown, self._of
        servers = settings.by_name
        shows_every_server = not (self.scope.servers or self.scope.hidden_servers)
        self._shown = {
            name: earlier_flags[name]
            if name in earlier_flags and before[name] is part
            else self._flags(part)
            for name, part in whole.parts.items()
            if (outer is None or name in outer) and (shows_every_server or name in servers)
        }
        self._of = whole.parts
        flags = self._shown if outer is None else _both(self._shown, outer)
        return ScopedCatalog.part_of(whole, flags)

    def _flags(self, part: ServerPart) -> Flags | None:
        """Return the flags of what is shown of a server; None if all of it is."""
        entries = part.entries
        flags = [True] * len(entries)
        if self.scope.rules and entries:
            verdicts = self._rules.verdicts([entry.tool for entry in entries], _ENABLED)
            flags = [verdict.enabled for verdict in verdicts]
        if tags := set(self.scope.tags):
            tagged = (not tags.isdisjoint(entry.verdict.tags) for entry in entries)
            flags = list(map(and_, flags, tagged))
        flags += self._offerings.shown(part)
        # No rule can judge tools of which only names are known, so none of these is shown.
        is_named_only = (self.scope.rules or self.scope.tags) and (part.dropped or part.removed)
        return None if all(flags) and not is_named_only else bytes(flags)

    @cached_property
    def _rules(self) -> ToolRules:
        # Compiling patterns loads a library that a remembered catalog is read without.
        from discovery_engine.rules.ruleset import ToolRules  # noqa: PLC0415

        return ToolRules(self.scope.rules)

    @cached_property
    def _server_rules(self) -> ServerRules:
        from discovery_engine.rules.ruleset import ServerRules  # noqa: PLC0415

        return ServerRules((Rule(patterns=self.scope.servers, enabled=True),))


def _both(
    left: Mapping[ServerName, Flags | None], right: Mapping[ServerName, Flags | None]
) -> Mapping[ServerName, Flags | None]:
    """Return the flags of what a scope shows within another."""
    return {name: _all_of(flags, right[name]) for name, flags in left.items()}


def _all_of(left: Flags | None, right: Flags | None) -> Flags | None:
    if left is None or right is None:
        return right if left is None else left
    return bytes(map(and_, left, right))
