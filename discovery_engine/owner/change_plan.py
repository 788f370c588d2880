"""What a change of the configuration would do, computed from the stored catalog.

No server is started, and nothing is written: what is known of each server's tools is judged once
by the rules before the change, and once by those after it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.suggestions import nearest
from discovery_engine.catalog import Catalog, Entry, ServerPart
from discovery_engine.config.files.location import catalog_key_of
from discovery_engine.config.settings import Settings
from discovery_engine.errors import RegistryError, ViewNotFoundError
from discovery_engine.owner.planned_changes import (
    OfferingChange,
    ServerChange,
    Sight,
    ToolChange,
    ViewChange,
    client_settings_changes,
    offering_changes,
    server_changes,
    tool_changes,
    view_changes,
    visible_count,
)
from discovery_engine.registry.backends import open_registry, sqlite_url
from discovery_engine.registry.protocols import Snapshot
from discovery_engine.runtime.ingestion.carry_over import carried_over
from discovery_engine.runtime.ingestion.ingestor import Ingestor
from discovery_engine.runtime.ingestion.rulebook import Rulebook
from discovery_engine.runtime.restore import registry_path
from discovery_engine.runtime.searcher_source import SearcherSource
from discovery_engine.runtime.trust_store import TrustStore
from discovery_engine.secrets.resolver import EnvironmentResolver
from discovery_engine.view.view import View

if TYPE_CHECKING:
    from discovery_engine.registry.protocols import DecisionStore, Registry

TokenPrice: TypeAlias = Callable[[Entry], int]
"""The tokens of a tool's definition."""

_PATIENCE = 2.0  # seconds to wait for other processes
_FIRST = 3  # hits of a query
_PLACES = frozenset({"inputs", "warnings", "path", "view"})  # of settings: where they stand


class QueryMove(Struct, frozen=True):
    query: str
    before: tuple[str, ...]
    """The first tools that it finds."""
    after: tuple[str, ...]


class ChangePlan(Struct, frozen=True):
    servers: tuple[ServerChange, ...]
    tools: tuple[ToolChange, ...]
    settings: tuple[str, ...]
    """Other keys that change, such as `search`; of a view, those of its entry."""
    tokens: tuple[int, int]
    """Of the definitions of all visible tools, before and after."""
    visible: tuple[int, int]
    queries: tuple[QueryMove, ...] = ()
    unknown: tuple[str, ...] = ()
    """Servers whose tools are not known before they are listed."""
    offerings: tuple[OfferingChange, ...] = ()
    views: tuple[ViewChange, ...] = ()
    """The views of which something changes; none if the plan is for one view."""

    @property
    def is_empty(self) -> bool:
        changes = self.servers, self.tools, self.offerings, self.views
        return not (any(changes) or self.settings or self.queries)

    def to_json(self) -> JSONObject:
        form: JSONObject = to_builtins(self)
        for pairs in (form, *form["views"]):
            for key in ("tokens", "visible"):
                if key in pairs:
                    pairs[key] = dict(zip(("before", "after"), pairs[key], strict=True))
        return {**form, "changed": not self.is_empty}


class Projection(Struct, frozen=True):
    """The views before and after a change."""

    before: View
    after: View

    def plan(
        self, *, price: TokenPrice, queries: Sequence[str] = (), view: str | None = None
    ) -> ChangePlan:
        """What changes.

        Args:
            price: The tokens of a tool's definition.
            queries: Of which the first tools are compared.
            view: What changes for the clients of this view only.

        Raises:
            ViewNotFoundError: If there is no such view, neither before nor after the change.
        """
        if view is not None:
            self._require_view(view)
        one, other = Sight.of(self.before, view), Sight.of(self.after, view)
        before, after = one.shown, other.shown
        if view is None:
            settings = tuple(_setting_changes(before.settings, after.settings))
            views = tuple(view_changes(before, after))
        else:
            settings, views = client_settings_changes(before.settings, after.settings), ()
        return ChangePlan(
            servers=tuple(server_changes(before, after)),
            tools=tuple(tool_changes(one, other)),
            offerings=tuple(offering_changes(one, other)),
            settings=settings,
            views=views,
            tokens=(_total(before, price), _total(after, price)),
            visible=(visible_count(before), visible_count(after)),
            queries=tuple(_query_moves(before, after, queries)),
            unknown=tuple(_unknown(after)),
        )

    def _require_view(self, name: str) -> None:
        known = {one.name for side in (self.before, self.after) for one in side.settings.views}
        if name not in known:
            raise ViewNotFoundError(name, nearest(name, known))


def project(
    current: Settings | None,
    changed: Settings,
    *,
    data_dir: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Projection:
    """The views under two settings; without `current`, before is what was last in force.

    Raises:
        RegistryError: If the stored catalog cannot be read.
    """
    environ = os.environ if environ is None else environ
    base = current or changed
    key = catalog_key_of(base)
    path = registry_path(data_dir, environ)
    if not path.exists():
        empty = Snapshot(current or Settings(), Catalog())
        views = (
            _view(settings, carried_over(empty, Ingestor(Rulebook(settings))))
            for settings in (empty.settings, changed)
        )
        return Projection(*views)
    with closing(open_registry(sqlite_url(path), is_thorough=False, patience=_PATIENCE)) as store:
        stored = store.load(key) or Snapshot(Settings(), Catalog())
        after = _judged(changed, stored, store, environ)
        if current is not None:
            return Projection(_judged(current, stored, store, environ), after)
    source = SearcherSource(stored.catalog, stored.settings)
    return Projection(View(stored.settings, stored.catalog, source), after)


def in_place_of(current: Settings, other: Settings) -> Settings:
    """`other`, as if its file were that of `current`: the same decisions apply."""
    return replace(
        other,
        path=current.path,
        is_untrusted_origin=current.is_untrusted_origin,
        frozen=current.frozen,
        name=other.name or current.name,
    )


class _ReadOnlyStore:
    """Decisions that can be read only; a store that cannot be written to is an expected failure."""

    def __init__(self, store: Registry) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def approve(self, *_: object, **__: object) -> None:
        raise RegistryError("a plan writes nothing")


def _judged(
    settings: Settings, stored: Snapshot, store: Registry, environ: Mapping[str, str]
) -> View:
    decisions = TrustStore(
        cast("DecisionStore", _ReadOnlyStore(store)),
        secrets=EnvironmentResolver(environ),
        environ=environ,
        clock=time.time,
    )
    ingestor = Ingestor(Rulebook(settings), decisions.load(settings))
    return _view(settings, carried_over(stored, ingestor))


def _view(settings: Settings, parts: Sequence[ServerPart]) -> View:
    catalog = Catalog.of(parts, revision=1)
    return View(settings, catalog, SearcherSource(catalog, settings))


def _total(view: View, price: TokenPrice) -> int:
    return sum(map(price, view.catalog.visible))


def _setting_changes(before: Settings, after: Settings) -> Iterator[str]:
    forms = [_placeless(to_builtins(replace(one, servers=()))) for one in (before, after)]
    for key in sorted({*forms[0], *forms[1]} - _PLACES):
        if forms[0].get(key) != forms[1].get(key):
            yield key


def _placeless(value: JSONValue) -> JSONValue:
    """A value without the places of its parts in a file."""
    match value:
        case dict():
            return {name: _placeless(one) for name, one in value.items() if name != "origin"}
        case list() | tuple():
            return list(map(_placeless, value))
    return value


def _query_moves(before: View, after: View, queries: Sequence[str]) -> Iterator[QueryMove]:
    for query in queries:
        first, then = (_first(view, query) for view in (before, after))
        if first != then:
            yield QueryMove(query, first, then)


def _first(view: View, query: str) -> tuple[str, ...]:
    return tuple(str(hit.entry.key) for hit in view.search(query, limit=_FIRST).hits)


def _unknown(view: View) -> Iterator[str]:
    for server in view.settings.servers:
        part = view.catalog.part(server.name)
        if part.verdict.enabled and part.listed_at is None:
            yield server.name
