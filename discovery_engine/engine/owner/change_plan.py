"""Computes the effects of a change of the configuration from the stored catalog.

No server is started, and nothing is written: the known tools are judged by the rules before the
change, and by those after it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.suggestions import nearest
from discovery_engine.catalog import Catalog, Entry, ServerPart
from discovery_engine.config.files.location import catalog_key_of
from discovery_engine.config.settings import Settings
from discovery_engine.engine.ingestion.ingestor import Ingestor, Rulebook, carried_over
from discovery_engine.engine.owner.planned_changes import (
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
from discovery_engine.engine.restore import open_store, registry_path
from discovery_engine.engine.trust_store import TrustStore
from discovery_engine.errors import RegistryError, ViewNotFoundError
from discovery_engine.secrets.resolver import EnvironmentResolver
from discovery_engine.store.snapshot import Snapshot
from discovery_engine.view.search_answers import Decision
from discovery_engine.view.searcher_source import SearcherSource
from discovery_engine.view.view import View

if TYPE_CHECKING:
    from discovery_engine.search.embedders import Vector
    from discovery_engine.secrets.resolver import SecretResolver
    from discovery_engine.store.registry import Registry
    from discovery_engine.view.search_answers import SearchAnswer

TokenPrice: TypeAlias = Callable[[Entry], int]
"""The tokens of a tool's definition."""

_FIRST = 3  # hits of a query
# Where settings come from, which is not what they say.
_PLACES = frozenset({"inputs", "registered", "remembered", "warnings", "path", "view"})


class QueryMove(Struct, frozen=True):
    query: str
    before: tuple[str, ...]
    """The first hits; none of an answer that no tool fits."""
    after: tuple[str, ...]
    decision: tuple[Decision, Decision]
    confidence: tuple[float, float]

    @property
    def has_moved(self) -> bool:
        return self.before != self.after


class ChangePlan(Struct, frozen=True):
    servers: tuple[ServerChange, ...]
    tools: tuple[ToolChange, ...]
    settings: tuple[str, ...]
    """Other keys that change, such as `search`; of a view, those of its entry."""
    tokens: tuple[int, int]
    """The tokens of the definitions of all visible tools, before and after."""
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
        for pairs in (form, *form["views"], *form["queries"]):
            for key in ("tokens", "visible", "decision", "confidence"):
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
        """Return what changes.

        Args:
            price: Returns the number of tokens of a tool's definition.
            queries: The queries whose first hits are compared.
            view: The view whose clients are considered; None for clients without one.

        Raises:
            ViewNotFoundError: If there is no such view, neither before nor after the change.
        """
        if view is not None:
            self._require_view(view)
        sight, other = Sight.of(self.before, view), Sight.of(self.after, view)
        before, after = sight.shown, other.shown
        if view is None:
            settings = tuple(_setting_changes(before.settings, after.settings))
            views = tuple(view_changes(before, after))
        else:
            settings, views = client_settings_changes(before.settings, after.settings), ()
        return ChangePlan(
            servers=tuple(server_changes(before, after)),
            tools=tuple(tool_changes(sight, other)),
            offerings=tuple(offering_changes(sight, other)),
            settings=settings,
            views=views,
            tokens=(_total(before, price), _total(after, price)),
            visible=(visible_count(before), visible_count(after)),
            queries=tuple(move for move in self.compare(queries, view=view) if move.has_moved),
            unknown=tuple(_unknown(after)),
        )

    def compare(
        self,
        queries: Iterable[str],
        *,
        view: str | None = None,
        limit: int = _FIRST,
        vectors: Mapping[str, Sequence[Vector]] = MappingProxyType({}),
    ) -> Iterator[QueryMove]:
        """Yield the hits of queries before and after the change, in the order of the queries.

        Args:
            queries: The texts of the queries.
            view: The view of the client; one that does not exist finds nothing.
            limit: The most hits of each query.
            vectors: The vectors of queries, to find tools by meaning, too.
        """
        sides = [Sight.of(side, view).shown for side in (self.before, self.after)]
        for query in queries:
            by_meaning = vectors.get(query, ())
            answers = [side.search(query, limit=limit, query_vectors=by_meaning) for side in sides]
            answer, other = answers
            yield QueryMove(
                query,
                _found(answer),
                _found(other),
                (answer.decision, other.decision),
                (answer.confidence, other.confidence),
            )

    def _require_view(self, name: str) -> None:
        names = {view.name for side in (self.before, self.after) for view in side.settings.views}
        if name not in names:
            raise ViewNotFoundError(name, nearest(name, names))


def project(
    current: Settings | None,
    changed: Settings,
    *,
    data_dir: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Projection:
    """Return the views under two settings; without `current`, the first is that last in force.

    Raises:
        RegistryError: If the stored catalog cannot be read.
    """
    environ = os.environ if environ is None else environ
    base = current or changed
    key = catalog_key_of(base)
    if not (base.registry.url or registry_path(data_dir, environ).exists()):
        empty = Snapshot(current or Settings(), Catalog())
        views = (
            _view(settings, carried_over(empty, Ingestor(Rulebook(settings))))
            for settings in (empty.settings, changed)
        )
        return Projection(*views)
    secrets = EnvironmentResolver(environ)
    with closing(open_store(base, data_dir=data_dir, environ=environ)) as store:
        stored = store.load(key) or Snapshot(Settings(), Catalog())
        judged = partial(_judged, snapshot=stored, store=store, secrets=secrets, environ=environ)
        after = _view(changed, judged(changed))
        if current is not None:
            return Projection(_view(current, judged(current)), after)
    before = stored.own
    source = SearcherSource(before.catalog, before.settings)
    return Projection(View(before.settings, before.catalog, source), after)


def project_view(
    view: View,
    changed: Settings,
    *,
    decided: int | None,
    store: Registry,
    secrets: SecretResolver,
    environ: Mapping[str, str],
) -> Projection:
    """Return a view, and the one that other settings would give.

    Tools that the change does not concern are not judged or indexed again.
    """
    stored = Snapshot(view.settings, view.catalog, decided)
    parts = _judged(changed, snapshot=stored, store=store, secrets=secrets, environ=environ)
    catalog = Catalog.of(parts, revision=view.catalog.revision + 1)
    opened = view.open_searcher
    previous = opened if isinstance(opened, SearcherSource) else None
    source = SearcherSource(catalog, changed, book=view.book, previous=previous)
    after = View(
        changed,
        catalog,
        source,
        lost_at=view.lost_at,
        vectors=view.vectors,
        usage=view.usage,
        open_book=view.open_book,
    )
    return Projection(view, after)


def in_place_of(current: Settings, other: Settings) -> Settings:
    """Return `other` with the path and the decisions of `current`."""
    return replace(
        other,
        path=current.path,
        is_untrusted_origin=current.is_untrusted_origin,
        frozen=current.frozen,
        name=other.name or current.name,
    )


class _ReadOnlyStore:
    """A store whose decisions can only be read; users expect that writing may fail."""

    def __init__(self, store: Registry) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def approve(self, *_: object, **__: object) -> None:
        raise RegistryError("a plan writes nothing")


def _judged(
    settings: Settings,
    *,
    snapshot: Snapshot,
    store: Registry,
    secrets: SecretResolver,
    environ: Mapping[str, str],
) -> tuple[ServerPart, ...]:
    """Return the stored parts, judged by other settings."""
    decisions = TrustStore(
        cast("Registry", _ReadOnlyStore(store)),
        secrets=secrets,
        environ=environ,
        clock=time.time,
    )
    return carried_over(snapshot, Ingestor(Rulebook(settings), decisions.load(settings)))


def _view(settings: Settings, parts: Sequence[ServerPart]) -> View:
    catalog = Catalog.of(parts, revision=1)
    return View(settings, catalog, SearcherSource(catalog, settings))


def _total(view: View, price: TokenPrice) -> int:
    return sum(map(price, view.catalog.visible))


def _setting_changes(before: Settings, after: Settings) -> Iterator[str]:
    forms = [_placeless(to_builtins(replace(settings, servers=()))) for settings in (before, after)]
    for key in sorted({*forms[0], *forms[1]} - _PLACES):
        if forms[0].get(key) != forms[1].get(key):
            yield key


def _placeless(value: JSONValue) -> JSONValue:
    """Return a value without the places of its parts in a file."""
    match value:
        case dict():
            return {name: _placeless(member) for name, member in value.items() if name != "origin"}
        case list() | tuple():
            return list(map(_placeless, value))
    return value


def _found(answer: SearchAnswer) -> tuple[str, ...]:
    return tuple(str(hit.entry.key) for hit in answer.hits)


def _unknown(view: View) -> Iterator[str]:
    for server in view.settings.servers:
        part = view.catalog.part(server.name)
        if part.verdict.enabled and part.listed_at is None and not server.problem:
            yield server.name
