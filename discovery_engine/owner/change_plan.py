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
from discovery_engine.catalog import Catalog, Entry, ServerPart
from discovery_engine.config.files.location import catalog_key_of
from discovery_engine.config.settings import Settings
from discovery_engine.errors import RegistryError
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
_Known: TypeAlias = Mapping[tuple[str, str], Entry]
"""The tools by server and the upstream's own name, which no change of the owner's touches."""

_PATIENCE = 2.0  # seconds to wait for other processes
_FIRST = 3  # hits of a query
_PLACES = frozenset({"inputs", "warnings", "path"})  # of settings: where they stand


class ServerChange(Struct, frozen=True):
    name: str
    what: str
    """`appears`, `vanishes`, or in a few words what changes."""


class ToolChange(Struct, frozen=True):
    server: str
    tool: str
    """Its name after the change, or before it if it vanishes."""
    what: str
    """`appears`, `vanishes` or `changes`."""
    reason: str = ""
    """Why it appears or vanishes."""
    changes: Mapping[str, tuple[object, object]] = {}
    """`name`, `tags`, `description`, `arguments`: before and after."""


class QueryMove(Struct, frozen=True):
    query: str
    before: tuple[str, ...]
    """The first tools that it finds."""
    after: tuple[str, ...]


class ChangePlan(Struct, frozen=True):
    servers: tuple[ServerChange, ...]
    tools: tuple[ToolChange, ...]
    settings: tuple[str, ...]
    """Other keys that change, such as `search`."""
    tokens: tuple[int, int]
    """Of the definitions of all visible tools, before and after."""
    visible: tuple[int, int]
    queries: tuple[QueryMove, ...] = ()
    unknown: tuple[str, ...] = ()
    """Servers whose tools are not known before they are listed."""

    @property
    def is_empty(self) -> bool:
        return not (self.servers or self.tools or self.settings or self.queries)

    def to_json(self) -> JSONObject:
        form: JSONObject = to_builtins(self)
        keys = ("tokens", "visible")
        return {
            **form,
            **{key: {"before": form[key][0], "after": form[key][1]} for key in keys},
            "changed": not self.is_empty,
        }


class Projection(Struct, frozen=True):
    """The views before and after a change."""

    before: View
    after: View

    def plan(self, *, price: TokenPrice, queries: Sequence[str] = ()) -> ChangePlan:
        before, after = self.before, self.after
        known, then = _tools(before.catalog), _tools(after.catalog)
        return ChangePlan(
            servers=tuple(_server_changes(before, after)),
            tools=tuple(_tool_changes(after, known, then)),
            settings=tuple(_setting_changes(before.settings, after.settings)),
            tokens=(_total(before, price), _total(after, price)),
            visible=(sum(1 for _ in _visible(before)), sum(1 for _ in _visible(after))),
            queries=tuple(_query_moves(before, after, queries)),
            unknown=tuple(_unknown(after)),
        )


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


def _tools(catalog: Catalog) -> _Known:
    return {
        (part.server, entry.tool.upstream_name): entry
        for part in catalog.parts.values()
        for entry in part.entries
    }


def _visible(view: View) -> Iterator[Entry]:
    return (entry for entry in view.catalog if entry.is_visible)


def _total(view: View, price: TokenPrice) -> int:
    return sum(map(price, _visible(view)))


def _server_changes(before: View, after: View) -> Iterator[ServerChange]:
    names = {*before.settings.by_name, *after.settings.by_name}
    for name in sorted(names):
        was, will = (_is_on(view, name) for view in (before, after))
        if was != will:
            yield ServerChange(name, "appears" if will else "vanishes")
        elif will and (what := ", ".join(_differences(before, after, name))):
            yield ServerChange(name, what)


def _is_on(view: View, name: str) -> bool:
    server = next((one for one in view.settings.servers if one.name == name), None)
    return server is not None and view.catalog.part(server.name).verdict.enabled


def _differences(before: View, after: View, name: str) -> Iterator[str]:
    one, other = (next(s for s in v.settings.servers if s.name == name) for v in (before, after))
    parts = before.catalog.part(one.name), after.catalog.part(other.name)
    if parts[0].connection and parts[0].connection != parts[1].connection:
        yield "its command or address changes: it is listed again"
    if parts[0].verdict.tags != parts[1].verdict.tags:
        yield "its tags change"
    keys = ("description", "prefix", "timeouts", "limits", "session", "trust")
    yield from (f"its {key} changes" for key in keys if getattr(one, key) != getattr(other, key))


def _tool_changes(after: View, known: _Known, then: _Known) -> Iterator[ToolChange]:
    for key in sorted(known.keys() | then.keys()):
        one, other = known.get(key), then.get(key)
        was, will = (entry is not None and entry.is_visible for entry in (one, other))
        if other is not None and will and not was:
            yield ToolChange(key[0], other.tool.name, "appears", after.reason(other))
        elif one is not None and was and not will:
            reason = after.reason(other) if other is not None else _why_gone(after, key[0])
            yield ToolChange(key[0], one.tool.name, "vanishes", reason)
        elif one and other and will and (changes := _changes(one, other)):
            yield ToolChange(key[0], other.tool.name, "changes", changes=changes)


def _why_gone(after: View, server: str) -> str:
    return "its server is listed again" if _is_on(after, server) else "its server vanishes"


def _changes(one: Entry, other: Entry) -> dict[str, tuple[object, object]]:
    pairs = {
        "name": (one.tool.name, other.tool.name),
        "tags": (list(one.verdict.tags), list(other.verdict.tags)),
        "description": (one.tool.description, other.tool.description),
        "arguments": tuple([p.name for p in entry.tool.parameters] for entry in (one, other)),
    }
    return {name: (pair[0], pair[1]) for name, pair in pairs.items() if pair[0] != pair[1]}


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
