"""The parts of the current view that teams and users are shown."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.catalog import Catalog
from discovery_engine.engine.searcher_source import SearcherSource
from discovery_engine.rules.rule import Rule
from discovery_engine.view.scope import Scope, ScopedCatalogs
from discovery_engine.view.scoped_catalog import ScopedCatalog

if TYPE_CHECKING:
    from discovery_engine.catalog import ServerPart
    from discovery_engine.config.settings import ServerSettings, Settings
    from discovery_engine.tools.model import ServerName
    from discovery_engine.view.scoped_catalog import Flags
    from discovery_engine.view.view import OpenSearcher, View


# What is reserved for others is not only filtered out, as in a view of the configuration: such a
# view has a catalog, an index and statistics of its own. So every answer is what it would be if the
# hidden servers and tools were not configured, down to relevance, confidence, spelling and the
# words that no tool has. The price is an index for each different part of the catalog that is
# looked at.

# Sets of teams and users; most of them share what they are shown with others.
_MAX_CACHED_VIEWS = 32


class _ReservedPart(Struct, frozen=True):
    """The part of a server, whole and as it is shown."""

    whole: ServerPart
    flags: Flags | None
    shown: ServerPart


class VisibleViews:
    """The parts of the current view that sets of teams and users are shown.

    Sets from which the same is hidden share a catalog and an index.
    """

    def __init__(self, current: Callable[[], View]) -> None:
        self._current = current
        self._kept: OrderedDict[frozenset[str], tuple[Settings, _VisibleView]] = OrderedDict()

    def __len__(self) -> int:
        """How many sets are kept."""
        return len(self._kept)

    def view(self, principals: frozenset[str]) -> View:
        """The current view itself if nothing of it is reserved."""
        current = self._current()
        if not current.settings.reserves:
            return current
        relevant = principals & current.settings.principals
        settings, view = self._kept.get(relevant, (None, None))
        if view is None or settings is not current.settings:
            view = self._found(current.settings, relevant, view)
            self._kept[relevant] = current.settings, view
            if len(self._kept) > _MAX_CACHED_VIEWS:
                self._kept.popitem(last=False)
        self._kept.move_to_end(relevant)
        return view.of(current)

    def _found(
        self, settings: Settings, principals: frozenset[str], before: _VisibleView | None
    ) -> _VisibleView:
        scope = _scope_for(settings, principals)
        views = [*([before] if before else []), *(view for _, view in self._kept.values())]
        same = (view for view in views if view.scope == scope)
        return next(same, None) or _VisibleView(scope, before, views)


class _VisibleView:
    """The views that one scope shows, each made of the one before."""

    def __init__(
        self, scope: Scope, before: _VisibleView | None, views: Sequence[_VisibleView]
    ) -> None:
        """Nothing yet.

        Args:
            scope: What is hidden now.
            before: That of the same teams and users, from whom something else was hidden.
            views: Those of any.
        """
        self.scope = scope
        self._earlier = (None, ()) if self.shows_all else (before, views)
        self._catalogs = ScopedCatalogs(scope)
        self._of: View | None = None
        self._shown: View | None = None
        self._parts: Mapping[ServerName, _ReservedPart] = {}
        # It grows with what is shown alone, also when what was kept of it was dropped meanwhile.
        self._revision = time.time_ns() // 1_000_000

    def of(self, current: View) -> View:
        """The same view again, as long as the current one is the same."""
        if self._shown is None or current is not self._of:
            self._shown = self._made(current)
            self._of = current
        return self._shown

    def _made(self, current: View) -> View:
        if self.shows_all:  # they stand for all that anything is reserved for
            return replace(current, is_for_owner=False)
        scoped = self._catalogs.view(current)
        settings = scoped.settings
        if self._shown and self._of and self._of.settings is current.settings:
            settings = self._shown.settings
        catalog = self._catalog(scoped.catalog)
        vectors = current.vectors
        return replace(
            scoped,
            settings=settings,
            catalog=catalog,
            open_searcher=self._searcher(current, catalog, settings),
            vectors=vectors and vectors.only(entry.tool for entry in catalog),
            whole=None,
            is_for_owner=False,
        )

    def _catalog(self, scoped: Catalog) -> Catalog:
        """A catalog of what is shown; the one before if that is the same."""
        if not isinstance(scoped, ScopedCatalog):
            raise TypeError("a scope gives a scoped catalog")
        self._go_on(scoped)
        parts = {name: self._part(scoped, name) for name in scoped.shown}
        is_same = parts.keys() == self._parts.keys() and all(
            part.shown is self._parts[name].shown for name, part in parts.items()
        )
        self._parts = parts
        if is_same and self._shown:
            return self._shown.catalog
        self._revision += 1
        return Catalog.of((part.shown for part in parts.values()), revision=self._revision)

    def _go_on(self, scoped: ScopedCatalog) -> None:
        """Begin with what was shown before, if that is known.

        What is hidden may have changed alone: then neither the revision is another, nor the index.
        """
        (before, views), self._earlier = self._earlier, (None, ())
        if before is None:
            before = next((view for view in views if view._shows(scoped)), None)  # noqa: SLF001
        if before and not before.shows_all:
            self._parts, self._revision = before._parts, before._revision  # noqa: SLF001
            self._shown = before._shown  # noqa: SLF001

    @property
    def shows_all(self) -> bool:
        """True if nothing is hidden, so that the common catalog is shown."""
        return self.scope == Scope()

    def _shows(self, scoped: ScopedCatalog) -> bool:
        """Return whether exactly this was shown last, with something hidden."""
        return (
            not self.shows_all
            and self._parts.keys() == scoped.shown.keys()
            and all(part.shown == scoped.parts[name] for name, part in self._parts.items())
        )

    def _part(self, scoped: ScopedCatalog, name: ServerName) -> _ReservedPart:
        whole, flags = scoped.whole.parts[name], scoped.shown[name]
        old_part = self._parts.get(name)
        if old_part and old_part.whole is whole and old_part.flags == flags:
            return old_part
        part = scoped.parts[name]
        if old_part and old_part.shown == part:  # judged anew, or changed in what is hidden
            part = old_part.shown
        return _ReservedPart(whole, flags, part)

    def _searcher(self, current: View, catalog: Catalog, settings: Settings) -> OpenSearcher:
        before, book = self._shown, current.book
        is_same = before and before.catalog is catalog and before.settings is settings
        if before and is_same and before.book == book:
            return before.open_searcher
        previous = before.open_searcher if before else None
        previous = previous if isinstance(previous, SearcherSource) else None
        return SearcherSource(catalog, settings, book=book, previous=previous)


# A server or tool with `visibleTo` is shown to those who stand for one of its teams and users. Each
# rule that matches can only take away, so that no order of rules, and no further rule, shows more.


def _scope_for(settings: Settings, principals: frozenset[str]) -> Scope:
    """Return the scope of these teams and users; `Scope()` if it shows everything."""
    if not settings.reserves:
        return Scope()
    return Scope(
        hidden_servers=frozenset(_hidden_servers(settings, principals)),
        rules=_hiding(settings.tool_rules, principals),
        resource_rules=_hiding(settings.resource_rules, principals),
        prompt_rules=_hiding(settings.prompt_rules, principals),
    )


def _hidden_servers(settings: Settings, principals: frozenset[str]) -> Iterable[ServerName]:
    # Compiling patterns loads a library that a remembered catalog is read without.
    from discovery_engine.rules.ruleset import ServerRules  # noqa: PLC0415

    rules = ServerRules(_hiding(settings.server_rules, principals))

    def is_hidden(server: ServerSettings) -> bool:
        # Of an entry that cannot be used it is not known what it says about visibility.
        if server.problem or not _admits(server.visible_to, principals):
            return True
        return not rules.verdict(server.name, server.tags, enabled=True).enabled

    return (server.name for server in settings.servers if is_hidden(server))


def _hiding(rules: Iterable[Rule], principals: frozenset[str]) -> tuple[Rule, ...]:
    """Rules that disable what others are reserved for."""
    return tuple(
        Rule(rule.patterns, rule.servers, rule.annotations, rule.has_tags, enabled=False)
        for rule in rules
        if not _admits(rule.visible_to, principals)
    )


def _admits(visible_to: tuple[str, ...], principals: frozenset[str]) -> bool:
    return not visible_to or not principals.isdisjoint(visible_to)
