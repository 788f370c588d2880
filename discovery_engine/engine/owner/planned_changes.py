"""Differences for clients between two views of a catalog: servers, tools, offerings, views."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TypeAlias

from msgspec import Struct

from discovery_engine.catalog import Entry, OfferingEntry
from discovery_engine.config.serve_settings import ViewLimits, ViewSettings, replaced_settings
from discovery_engine.config.settings import Settings
from discovery_engine.tools.model import ServerName
from discovery_engine.tools.offering import OfferingKind
from discovery_engine.view.scope import ScopedViews, scope_or_nothing
from discovery_engine.view.view import View

_ToolId: TypeAlias = tuple[str, str]
"""Server and the upstream's own name, which no change of the owner's touches."""
_OfferingId: TypeAlias = tuple[str, OfferingKind, str]
"""Server, kind and identifier."""


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
    """The reason why it appears or vanishes."""
    changes: Mapping[str, tuple[object, object]] = {}
    """`name`, `tags`, `description`, `arguments`: before and after."""


class OfferingChange(Struct, frozen=True):
    server: str
    kind: OfferingKind
    identifier: str
    """A URI, a URI template or the name of a prompt."""
    what: str
    """`appears`, `vanishes` or `changes`."""
    reason: str = ""
    changes: Mapping[str, tuple[object, object]] = {}
    """`tags`: before and after."""


class ViewChange(Struct, frozen=True):
    name: str
    what: str
    """`appears`, `vanishes` or `changes`."""
    visible: tuple[int, int]
    """Tools, before and after."""
    tools: tuple[ToolChange, ...] = ()
    offerings: tuple[OfferingChange, ...] = ()
    settings: tuple[str, ...] = ()
    """The keys of its entry whose effect on its clients changes."""


class Sight(Struct, frozen=True, dict=True):
    """The view that clients see at one moment, and the whole of which it is a part."""

    whole: View
    shown: View
    scoped: ScopedViews | None = None
    """The catalogs that make `shown` of `whole`; None if they are the same."""

    @classmethod
    def of(cls, whole: View, view: str | None = None) -> Sight:
        """Return what the clients of a view see, or clients without a view if it is None."""
        if view is None:
            return cls(whole, whole)
        scoped = ScopedViews(scope_or_nothing(whole.settings, view))
        return cls(whole, scoped.view(whole), scoped)

    @cached_property
    def tools(self) -> Mapping[_ToolId, Entry]:
        return _tools(self.shown)

    @cached_property
    def offerings(self) -> Mapping[_OfferingId, OfferingEntry]:
        return _offerings(self.shown)

    @cached_property
    def all_tools(self) -> Mapping[_ToolId, Entry]:
        return self.tools if self.scoped is None else _tools(self.whole)

    @cached_property
    def all_offerings(self) -> Mapping[_OfferingId, OfferingEntry]:
        return self.offerings if self.scoped is None else _offerings(self.whole)

    def why_missing(self, server: str, entry: Entry | OfferingEntry | None) -> str:
        """Return why clients do not see an entry; None stands for an entry that is not known."""
        if entry is None:
            is_on = _is_on(self.whole, server)
            return "its server is listed again" if is_on else "its server vanishes"
        if entry.is_visible and self.scoped:
            return f"the view hides it: {self.scoped.why_hidden(self.whole, entry)}"
        return self.whole.reason(entry)


def server_changes(before: View, after: View) -> Iterator[ServerChange]:
    names = {*before.settings.by_name, *after.settings.by_name}
    for name in sorted(names):
        was, will = (_is_on(view, name) for view in (before, after))
        had, has = (_problem(view, name) for view in (before, after))
        if has and has != had:
            yield ServerChange(name, f"cannot be used: {has}")
        elif was != will:
            yield ServerChange(name, "appears" if will else "vanishes")
        elif will and (what := ", ".join(_differences(before, after, name))):
            yield ServerChange(name, what)


def tool_changes(before: Sight, after: Sight) -> Iterator[ToolChange]:
    for key in sorted(before.tools.keys() | after.tools.keys()):
        entry, other = before.tools.get(key), after.tools.get(key)
        if not _is_visible(entry) and other and _is_visible(other):
            yield ToolChange(key[0], other.tool.name, "appears", after.whole.reason(other))
        elif entry and _is_visible(entry) and not _is_visible(other):
            reason = after.why_missing(key[0], after.all_tools.get(key))
            yield ToolChange(key[0], entry.tool.name, "vanishes", reason)
        elif entry and other and _is_visible(other) and (changes := _changes(entry, other)):
            yield ToolChange(key[0], other.tool.name, "changes", changes=changes)


def offering_changes(before: Sight, after: Sight) -> Iterator[OfferingChange]:
    for key in sorted(before.offerings.keys() | after.offerings.keys()):
        entry, other = before.offerings.get(key), after.offerings.get(key)
        if not _is_visible(entry) and other and _is_visible(other):
            yield OfferingChange(*key, "appears", after.whole.reason(other))
        elif entry and _is_visible(entry) and not _is_visible(other):
            reason = after.why_missing(key[0], after.all_offerings.get(key))
            yield OfferingChange(*key, "vanishes", reason)
        elif entry and other and _is_visible(other) and entry.verdict.tags != other.verdict.tags:
            tags = list(entry.verdict.tags), list(other.verdict.tags)
            yield OfferingChange(*key, "changes", changes={"tags": tags})


def view_changes(before: View, after: View) -> Iterator[ViewChange]:
    """The views of which something changes, in the order of their names."""
    names = [{view.name for view in side.settings.views} for side in (before, after)]
    for name in sorted(names[0] | names[1]):
        sight, other = Sight.of(before, name), Sight.of(after, name)
        is_new, is_gone = name not in names[0], name not in names[1]
        change = ViewChange(
            name,
            "appears" if is_new else "vanishes" if is_gone else "changes",
            (visible_count(sight.shown), visible_count(other.shown)),
            tuple(tool_changes(sight, other)),
            tuple(offering_changes(sight, other)),
            client_settings_changes(sight.shown.settings, other.shown.settings),
        )
        if is_new or is_gone or change.tools or change.offerings or change.settings:
            yield change


def client_settings_changes(before: Settings, after: Settings) -> tuple[str, ...]:
    """The keys of a view's entry whose effect differs."""
    entry, other = _client_settings(before), _client_settings(after)
    return tuple(key for key in entry if entry[key] != other[key])


def visible_count(view: View) -> int:
    return sum(part.visible_count for part in view.catalog.parts.values())


def _client_settings(settings: Settings) -> dict[str, object]:
    limits = (view.limits for view in settings.views if view.name == settings.view)
    keys = dict(
        zip(ViewSettings.__struct_fields__, ViewSettings.__struct_encode_fields__, strict=True)
    )
    replaced = {
        keys[name]: getattr(getattr(settings, setting.section), setting.field)
        for name, setting in replaced_settings().items()
    }
    return {**replaced, "limits": next(limits, ViewLimits())}


def _tools(view: View) -> Mapping[_ToolId, Entry]:
    return {
        (part.server, entry.tool.upstream_name): entry
        for part in view.catalog.parts.values()
        for entry in part.entries
    }


def _offerings(view: View) -> Mapping[_OfferingId, OfferingEntry]:
    return {
        (part.server, entry.offering.kind, entry.offering.identifier): entry
        for part in view.catalog.parts.values()
        for entry in part.offerings
    }


def _is_visible(entry: Entry | OfferingEntry | None) -> bool:
    return entry is not None and entry.is_visible


def _is_on(view: View, name: str) -> bool:
    server = next(
        (candidate for candidate in view.settings.servers if candidate.name == name), None
    )
    return server is not None and view.catalog.part(server.name).verdict.enabled


def _problem(view: View, name: ServerName) -> str:
    """Return why a server's entry cannot be used; empty if it can."""
    server = view.settings.by_name.get(name)
    return server.problem.sentence if server and server.problem else ""


def _differences(before: View, after: View, name: str) -> Iterator[str]:
    server, other = (next(s for s in v.settings.servers if s.name == name) for v in (before, after))
    parts = before.catalog.part(server.name), after.catalog.part(other.name)
    if parts[0].connection and parts[0].connection != parts[1].connection:
        yield "its command or address changes: it is listed again"
    if parts[0].verdict.tags != parts[1].verdict.tags:
        yield "its tags change"
    keys = ("description", "context", "prefix", "timeouts", "limits", "session", "trust")
    yield from (f"its {key} changes" for key in keys if getattr(server, key) != getattr(other, key))


def _changes(before: Entry, after: Entry) -> dict[str, tuple[object, object]]:
    pairs = {
        "name": (before.tool.name, after.tool.name),
        "tags": (list(before.verdict.tags), list(after.verdict.tags)),
        "description": (before.tool.description, after.tool.description),
        "arguments": tuple([p.name for p in entry.tool.parameters] for entry in (before, after)),
    }
    return {name: (pair[0], pair[1]) for name, pair in pairs.items() if pair[0] != pair[1]}
