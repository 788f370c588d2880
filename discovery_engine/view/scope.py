"""Scopes: the part of a view that a group of clients sees. A scope only ever hides.

Views of the configuration, teams and users, limits of tokens, and lists of patterns are all scopes.
Scopes nest, and an inner one shows no more than the outer one. Hidden items do not exist for the
clients of a scope: no answer, notice or suggestion names them.

A scope filters the snapshot without copying it (see `scoped_catalog`), and shares its index. The
scope of teams and users is also isolated: every answer is as if the servers and tools reserved for
others were not configured, including relevance, confidence, spelling corrections and unknown words.
This costs one more index for each distinct part of the catalog.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from operator import and_
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from discovery_engine._util.suggestions import nearest
from discovery_engine.catalog import Catalog, Entry, OfferingEntry
from discovery_engine.config.serve_settings import replaced_settings
from discovery_engine.errors import ViewNotFoundError
from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.tools.model import ServerName
from discovery_engine.view.scoped_catalog import Flags, ScopedCatalog, ScopedOfferings

if TYPE_CHECKING:
    from weakref import WeakSet

    from discovery_engine.catalog import ServerPart
    from discovery_engine.config.serve_settings import ViewSettings
    from discovery_engine.config.settings import ServerSettings, Settings
    from discovery_engine.rules.ruleset import ServerRules, ToolRules
    from discovery_engine.view.searcher_source import SearcherSource
    from discovery_engine.view.view import View

_ENABLED = Verdict()


class Scope(Struct, frozen=True):
    """A filter over the tools, resources and prompts of a view."""

    name: str = ""
    """The name of the view in the configuration; empty for any other scope."""
    rules: tuple[Rule, ...] = ()
    """Rules like `toolRules`: a tool that they disable is hidden. One that they enable is shown
    only if it is visible without the scope."""
    servers: tuple[str, ...] = ()
    """Patterns of the names of the servers that are shown; empty for all."""
    tags: tuple[str, ...] = ()
    """Tags of which every item shown has at least one; empty for no such condition."""
    resource_rules: tuple[Rule, ...] = ()
    """Rules for resources and templates."""
    prompt_rules: tuple[Rule, ...] = ()
    """Rules for prompts."""
    hides_empty_servers: bool = False
    """True to hide servers without a visible item as well, such as those that were never listed."""
    search: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """The settings of `search` that the scope replaces."""
    server: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """The settings of `server` that the scope replaces."""
    hidden_servers: frozenset[ServerName] = frozenset()
    """Servers that are hidden, even if `servers` matches their names."""
    is_isolated: bool = False
    """True if answers are as if the hidden items were not configured, without anything that is for
    the owner alone."""

    @classmethod
    def of_patterns(cls, patterns: Sequence[str]) -> Scope:
        """Return the scope of the tools that a list of patterns matches, all if it is empty."""
        return cls(rules=(Rule(patterns=tuple(patterns), enabled=True),) if patterns else ())

    @classmethod
    def of_view(cls, view: ViewSettings) -> Scope:
        """Return the scope of a view in the configuration."""
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

    @classmethod
    def of_principals(cls, settings: Settings, principals: frozenset[str]) -> Scope:
        """Return the scope of teams and users; `Scope()`, the owner's, if nothing is reserved.

        A server or a rule with `visibleTo` admits a client with at least one of the teams and users
        that it names. Each rule that matches can only hide, so neither the order of rules nor an
        additional rule shows more.
        """
        if not settings.reserves:
            return cls()
        return cls(
            hidden_servers=frozenset(_hidden_servers(settings, principals)),
            rules=_hiding(settings.tool_rules, principals),
            resource_rules=_hiding(settings.resource_rules, principals),
            prompt_rules=_hiding(settings.prompt_rules, principals),
            is_isolated=True,
        )


_OTHERS = Scope(is_isolated=True)
"""The scope of a client that is admitted everywhere, without being the owner."""


def _hidden_servers(settings: Settings, principals: frozenset[str]) -> Iterable[ServerName]:
    # Compiling patterns loads a library that a remembered catalog is read without.
    from discovery_engine.rules.ruleset import ServerRules  # noqa: PLC0415

    rules = ServerRules(_hiding(settings.server_rules, principals))

    def is_hidden(server: ServerSettings) -> bool:
        # The `visibleTo` of an invalid entry is unknown.
        if server.problem or not _admits(server.visible_to, principals):
            return True
        return not rules.verdict(server.name, server.tags, enabled=True).enabled

    return (server.name for server in settings.servers if is_hidden(server))


def _hiding(rules: Iterable[Rule], principals: frozenset[str]) -> tuple[Rule, ...]:
    """Return rules that disable the items that these rules reserve for other principals."""
    return tuple(
        Rule(rule.patterns, rule.servers, rule.annotations, rule.has_tags, enabled=False)
        for rule in rules
        if not _admits(rule.visible_to, principals)
    )


def _admits(visible_to: tuple[str, ...], principals: frozenset[str]) -> bool:
    return not visible_to or not principals.isdisjoint(visible_to)


def named_scope(settings: Settings, name: str) -> Scope:
    """Return the scope of the view of that name.

    Raises:
        ViewNotFoundError: If there is no such view; the error suggests the nearest names.
    """
    names = [view.name for view in settings.views]
    if name not in names:
        raise ViewNotFoundError(name, nearest(name, names))
    return Scope.of_view(settings.views[names.index(name)])


def scope_or_nothing(settings: Settings, name: str) -> Scope:
    """Return the scope of a view by its name; one that shows nothing if there is no such view."""
    if any(view.name == name for view in settings.views):
        return named_scope(settings, name)
    return Scope(name, servers=("!*",))


class ShownView:
    """Narrows the current view to a scope, again whenever the view changes."""

    def __init__(
        self,
        scope: Callable[[Settings], Scope],
        current: Callable[[], View],
        shared: WeakSet[ScopedViews],
    ) -> None:
        """Create it; nothing is computed before the first call of `view`.

        Args:
            scope: Returns the scope under given settings; called again when they change.
            current: Returns the current view.
            shared: The narrowed views of all scopes of this engine; equal scopes share them.
        """
        self._scope = scope
        self._current = current
        self._shared = shared
        self._settings: Settings | None = None
        self._views: ScopedViews | None = None

    def view(self) -> View:
        """Return the narrowed current view; the same object while the current view is the same."""
        current = self._current()
        if self._views is None or current.settings is not self._settings:
            self._views = self._views_of(self._scope(current.settings))
            self._settings = current.settings
        return self._views.view(current)

    def _views_of(self, scope: Scope) -> ScopedViews:
        if self._views and self._views.scope == scope:
            return self._views
        views = next((views for views in self._shared if views.scope == scope), None)
        if views is None:
            views = ScopedViews(scope, self._views)
            self._shared.add(views)
        return views


class ScopedViews:
    """Narrows successive views to one scope; only servers that changed in between are judged."""

    def __init__(self, scope: Scope, before: ScopedViews | None = None) -> None:
        """Create it; `before` served the same clients under their previous scope."""
        self.scope = scope
        self._of: View | None = None
        self._shown: View | None = None
        self._settings: Settings | None = None
        self._flags: Mapping[ServerName, Flags | None] = {}
        """A byte for each item of each server, 1 if it is shown; None if all items are."""
        self._isolated: _IsolatedView | None = before._isolated if before else None  # noqa: SLF001
        self._offerings = ScopedOfferings(scope.resource_rules, scope.prompt_rules, scope.tags)

    def view(self, whole: View) -> View:
        """Return the part of a view that the scope shows; the same one for the same view."""
        if self._shown is None or whole is not self._of:
            self._shown = self._made(whole)
            self._of = whole
        return self._shown

    def _made(self, whole: View) -> View:
        if self.scope == Scope():
            return whole
        if self.scope == _OTHERS:
            return replace(whole, is_for_owner=False)
        if self._settings is None or self._of is None or self._of.settings is not whole.settings:
            self._settings = self._narrowed(whole.settings)
        settings = self._settings
        catalog = self._catalog(whole.catalog, settings)
        if self.scope.hides_empty_servers:
            catalog = catalog.without_empty()
            servers = (server for server in settings.servers if server.name in catalog.shown)
            settings = replace(settings, servers=tuple(servers))
        guard = self._offerings.guard(whole.catalog, catalog)
        shown = whole.within(catalog, settings, guard)
        if not self.scope.is_isolated:
            return shown
        self._isolated = _IsolatedView.of(shown, catalog, self._isolated)
        return self._isolated.view

    def why_hidden(self, whole: View, entry: Entry | OfferingEntry) -> str:
        """Explain in a few words why an item is hidden; return an empty text if it is shown."""
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
        """Return the rule of the scope that hides a tool; None if no rule of it does."""
        if not self.scope.rules or not self.why_hidden(whole, entry):
            return None
        explained = self._rules.explain(entry.tool, _ENABLED)
        is_by_rule = explained.sentence == self.why_hidden(whole, entry)
        return explained.deciding.rule if is_by_rule and explained.deciding else None

    def _narrowed(self, settings: Settings) -> Settings:
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
        before, flags = self._of.catalog if self._of else Catalog(), self._flags
        if isinstance(before, ScopedCatalog):
            before = before.whole
        servers = settings.by_name
        shows_every_server = not (self.scope.servers or self.scope.hidden_servers)
        self._flags = {
            name: flags[name]
            if name in flags and before.parts[name] is part
            else self._judged(part)
            for name, part in whole.parts.items()
            if (outer is None or name in outer) and (shows_every_server or name in servers)
        }
        return ScopedCatalog.part_of(
            whole, self._flags if outer is None else _both(self._flags, outer)
        )

    def _judged(self, part: ServerPart) -> Flags | None:
        """Return a byte for each item of a server, 1 if it is shown; None if all items are."""
        entries = part.entries
        flags = [True] * len(entries)
        if self.scope.rules and entries:
            verdicts = self._rules.verdicts([entry.tool for entry in entries], _ENABLED)
            flags = [verdict.enabled for verdict in verdicts]
        if tags := set(self.scope.tags):
            tagged = (not tags.isdisjoint(entry.verdict.tags) for entry in entries)
            flags = list(map(and_, flags, tagged))
        flags += self._offerings.shown(part)
        # Rules cannot judge tools of which only the names are known, so these are hidden.
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


class _IsolatedView(Struct, frozen=True):
    """A view whose catalog contains the items of its scope only, with an index of its own.

    Changes of hidden items change neither its revision nor its index.
    """

    scoped: ScopedCatalog
    """The catalog that the scope shows."""
    source: SearcherSource
    view: View

    @classmethod
    def of(cls, shown: View, scoped: ScopedCatalog, before: _IsolatedView | None) -> _IsolatedView:
        """Isolate the narrowed view `shown`; what has not changed is taken from `before`."""
        # It loads the search, which most programs that read a remembered catalog do not need.
        from discovery_engine.view.searcher_source import SearcherSource  # noqa: PLC0415

        catalog, book, vectors = _own_catalog(scoped, before), shown.book, shown.vectors
        own, source = (before.view, before.source) if before else (None, None)
        is_same = own and own.catalog is catalog and own.settings is shown.settings
        if source is None or own is None or not is_same or own.book != book:
            source = SearcherSource(catalog, shown.settings, book=book, previous=source)
        view = replace(
            shown,
            catalog=catalog,
            open_searcher=source,
            vectors=vectors and vectors.only(entry.tool for entry in catalog),
            whole=None,
            is_for_owner=False,
        )
        return cls(scoped, source, view)


def _own_catalog(scoped: ScopedCatalog, before: _IsolatedView | None) -> Catalog:
    """Return a catalog of the shown items only; that of `before` if they are the same."""
    # The revision counts changes of shown items. It starts with the time in milliseconds, so that
    # it also grows when the previous view was dropped.
    own = before.view.catalog if before else Catalog(time.time_ns() // 1_000_000)
    unlike = scoped.parts_unlike(before.scoped if before else own)
    # A part that was judged again, or changed in hidden items only, may equal its predecessor.
    changed = {part.server: part for part in unlike if part != own.parts.get(part.server)}
    if before and not changed and scoped.shown.keys() == own.parts.keys():
        return own
    parts = (changed.get(name) or own.parts[name] for name in scoped.shown)
    return Catalog.of(parts, revision=own.revision + 1)


def _both(
    left: Mapping[ServerName, Flags | None], right: Mapping[ServerName, Flags | None]
) -> Mapping[ServerName, Flags | None]:
    """Return the flags of the items that both scopes show, for the servers of `left`."""
    return {name: _all_of(flags, right[name]) for name, flags in left.items()}


def _all_of(left: Flags | None, right: Flags | None) -> Flags | None:
    if left is None or right is None:
        return right if left is None else left
    return bytes(map(and_, left, right))
