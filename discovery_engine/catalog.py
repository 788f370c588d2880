"""The catalog: every known tool with its verdict, as one immutable snapshot.

A refresh builds a new catalog and swaps it in; a reader that holds the old one is not affected.
Each server has its own part, so that unchanged parts are reused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cached_property
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct, field

from discovery_engine._util import digests
from discovery_engine.rules.rule import WITHHELD, Verdict
from discovery_engine.tools.model import AppliedOverride, ServerName, Tool, ToolKey, ToolName
from discovery_engine.tools.offering import Offering, OfferingKind

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.tools.findings import Finding, Findings


REMOVED_FOR = 30 * 86_400.0  # seconds for which a tool is known as removed


class _Judged:
    """An item that has a verdict."""

    __slots__ = ()
    verdict: Verdict

    @property
    def is_visible(self) -> bool:
        """True if an agent may find, inspect and use it. Nothing else decides this."""
        return self.verdict.enabled

    @property
    def is_withheld(self) -> bool:
        """True if its own words must reach no agent, not even in a list of what is disabled."""
        return self.verdict.reason in WITHHELD


class Entry(_Judged, Struct, frozen=True, gc=False):
    """A tool in the catalog."""

    tool: Tool
    verdict: Verdict

    @property
    def key(self) -> ToolKey:
        return self.tool.key


class OfferingEntry(_Judged, Struct, frozen=True, gc=False):
    """A resource, a resource template or a prompt in the catalog."""

    offering: Offering
    verdict: Verdict


class DroppedTool(Struct, frozen=True):
    """A tool that an upstream listed and that cannot be used, and why."""

    name: str
    reason: str


class RemovedTool(Struct, frozen=True):
    """A tool that its server no longer lists; shown for `REMOVED_FOR` seconds."""

    name: str
    at: float
    """Unix time in seconds of the first listing without it."""


class Failure(Struct, frozen=True):
    """The reason why a server's last listing failed."""

    code: str
    """The `code` of the error."""
    message: str
    hint: str
    at: float
    """Unix time in seconds."""
    began: float | None = None
    """Unix time of the first failure in a row, if that was an earlier one."""
    stderr: str = ""
    """The last lines that its program wrote, cleaned, and without its secrets."""
    detail: str = ""
    """More of the message, for the owner alone: it may name files of the owner's disk."""
    missing: tuple[str, ...] = ()
    """The names of variables that had no value, or `file:` and a path."""
    is_of_worker: bool = False
    """True if a worker could not list it, which says so for all who share the registry."""

    @property
    def since(self) -> float:
        """Unix time in seconds from which on it has failed."""
        return self.at if self.began is None else self.began


class ServerPart(Struct, frozen=True, dict=True, weakref=True):
    """One server's part of the catalog: all that it is known to offer."""

    server: ServerName
    entries: tuple[Entry, ...] = ()
    """In the order of their names."""
    verdict: Verdict = Verdict()
    """The verdict on the server itself: whether it is enabled, and its tags."""
    listed_at: float | None = None
    """Unix time in seconds of the last good listing; None if there has been none."""
    ttl: float | None = None
    """The time to live of the list, in seconds, as the upstream set it; None if it did not."""
    failure: Failure | None = None
    """Set when the newest attempt failed: the entries are then the last known ones."""
    dropped: tuple[DroppedTool, ...] = ()
    offerings: tuple[OfferingEntry, ...] = ()
    """Its resources, templates and prompts, in the order of kinds and identifiers."""
    unlisted: Mapping[str, str] = MappingProxyType({})
    """The kinds of these whose last listing failed, with the reason; the last known ones stay."""
    instructions: str = ""
    """Its instructions, if they were accepted."""
    new_instructions: str | None = None
    """Its changed instructions, which wait for review; never shown to an agent."""
    connection: str = ""
    """Fingerprint of how the server was reached; another one makes the listing out of date."""
    declared: Mapping[str, JSONObject] = MappingProxyType({})
    """The capabilities of clients that it was listed for."""
    extensions: tuple[str, ...] = ()
    """The extensions of the protocol that it declares and that are not passed on."""
    removed: tuple[RemovedTool, ...] = ()
    """Its tools of the last 30 days that it no longer lists, in the order of their names."""
    findings: Findings | None = None
    """The suspicious parts of its texts, by the keys of definitions in decisions.

    The key of the instructions is "". None if the texts were never read.
    """

    @property
    def present_instructions(self) -> str:
        """Its present instructions, accepted or not."""
        return self.instructions if self.new_instructions is None else self.new_instructions

    @property
    def is_stale(self) -> bool:
        return self.failure is not None and self.listed_at is not None

    @property
    def visible(self) -> tuple[Entry, ...]:
        return tuple(self.iter_visible())

    def iter_visible(self) -> Iterator[Entry]:
        return (entry for entry in self.entries if entry.is_visible)

    @cached_property
    def verdicts(self) -> Mapping[Verdict, int]:
        """The number of its tools by verdict; few verdicts differ, however many tools there are."""
        return Counter(map(attrgetter("verdict"), self.entries))

    @property
    def visible_count(self) -> int:
        """The number of its visible tools."""
        return sum(tools for verdict, tools in self.verdicts.items() if verdict.enabled)

    @property
    def has_hidden(self) -> bool:
        """True if any of its tools is not visible."""
        return self.visible_count < len(self.entries)

    @property
    def is_any_hidden(self) -> bool:
        """True if any of its tools, resources, templates and prompts is dropped or not visible."""
        if self.dropped or self.has_hidden:
            return True
        return not all(entry.is_visible for entry in self.offerings)

    def held_back(self, reasons: Container[str]) -> int:
        """Return the number of its tools that are withheld for one of these reasons."""
        return sum(tools for verdict, tools in self.verdicts.items() if verdict.reason in reasons)

    def offerings_held_back(self, reasons: Container[str]) -> int:
        """Return the same number of its resources, templates and prompts."""
        return sum(entry.verdict.reason in reasons for entry in self.offerings)

    def of_kind(self, kind: OfferingKind) -> tuple[OfferingEntry, ...]:
        """Its resources, its templates or its prompts, in the order of their identifiers."""
        return tuple(entry for entry in self.offerings if entry.offering.kind is kind)

    @property
    def resources(self) -> tuple[OfferingEntry, ...]:
        return self.of_kind(OfferingKind.RESOURCE)

    @property
    def templates(self) -> tuple[OfferingEntry, ...]:
        return self.of_kind(OfferingKind.TEMPLATE)

    @property
    def prompts(self) -> tuple[OfferingEntry, ...]:
        return self.of_kind(OfferingKind.PROMPT)

    def found_in(self, key: str) -> tuple[Finding, ...]:
        """Return what is suspicious in the definition of that key; "" is for the instructions."""
        return self.findings.get(key, ()) if self.findings else ()

    @cached_property
    def names(self) -> tuple[ToolName, ...]:
        """The names of its tools, in order."""
        return tuple(entry.tool.name for entry in self.entries)

    @cached_property
    def by_name(self) -> Mapping[ToolName, Entry]:
        return {entry.tool.name: entry for entry in self.entries}

    @cached_property
    def digest(self) -> bytes:
        """A digest of what its tools are, as their owner would have it; no verdict is in it."""
        fields: list[str] = []
        for tool in (entry.tool for entry in self.entries):
            fields += tool.name, tool.upstream_name, tool.source
            if tool.overridden.by:
                fields += tool.overridden.description or "", *sorted(tool.overridden.pinned)
                fields += tool.overridden.examples
        return digests.digest("\0".join(fields).encode("utf-8", "backslashreplace"))

    def with_digest(self, digest: bytes) -> ServerPart:
        """The same part, of which the digest is known; so it need not be made."""
        self.__dict__["digest"] = digest
        return self


class CatalogDiff(Struct, frozen=True):
    added: tuple[ToolKey, ...] = ()
    removed: tuple[ToolKey, ...] = ()
    changed: tuple[ToolKey, ...] = ()
    """Another definition, another override or another verdict."""
    kinds: frozenset[OfferingKind] = frozenset()
    """The kinds of which something else is visible now."""
    has_visible: bool = False
    """True if a tool that differs is visible now, or was."""

    def __bool__(self) -> bool:
        """Return whether any tool is different."""
        return bool(self.added or self.removed or self.changed)


class Catalog(Struct, frozen=True, dict=True):
    """The known tools with their verdicts, by server; an immutable snapshot."""

    revision: int = 0
    parts: Mapping[ServerName, ServerPart] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, parts: Iterable[ServerPart], *, revision: int = 0) -> Catalog:
        """A catalog of `parts`, in the order of the servers' names."""
        ordered = sorted(parts, key=lambda part: part.server)
        return cls(revision, MappingProxyType({part.server: part for part in ordered}))

    def with_parts(self, parts: Iterable[ServerPart]) -> Catalog:
        """The next revision, with `parts` in place of what was known of their servers."""
        replaced = {part.server: part for part in parts}
        return Catalog.of({**self.parts, **replaced}.values(), revision=self.revision + 1)

    @property
    def visible(self) -> Iterator[Entry]:
        return (entry for entry in self if entry.is_visible)

    def part(self, server: ServerName) -> ServerPart:
        """Return what is known of a server; an empty part if nothing is."""
        return self.parts.get(server) or ServerPart(server)

    def get(self, server: ServerName, tool: ToolName) -> Entry | None:
        part = self.parts.get(server)
        return part.by_name.get(tool) if part else None

    def named(self, tool: ToolName) -> tuple[Entry, ...]:
        """Return each server's tool of that name, in the order of the servers' names."""
        return tuple(self._named.get(tool, ()))

    def parts_with_hidden(self) -> Iterator[ServerPart]:
        """The parts of which something is not visible."""
        return (part for part in self.parts.values() if part.is_any_hidden)

    @cached_property
    def _named(self) -> Mapping[ToolName, list[Entry]]:
        """All entries by the tool's name: a call that names no server looks at none but its own."""
        named: dict[ToolName, list[Entry]] = {}
        for entry in self:
            named.setdefault(entry.tool.name, []).append(entry)
        return named

    @cached_property
    def has_listings(self) -> bool:
        """True if any server has ever listed its tools."""
        return any(part.listed_at is not None for part in self.parts.values())

    def __iter__(self) -> Iterator[Entry]:
        """All entries, in the order of server and name."""
        for part in self.parts.values():
            yield from part.entries

    def __len__(self) -> int:
        return sum(len(part.entries) for part in self.parts.values())

    def diff(self, newer: Catalog) -> CatalogDiff:
        """Return the changes from this catalog to `newer`."""
        before = self._entries_unlike(newer)
        after = newer._entries_unlike(self)
        added, removed = after.keys() - before.keys(), before.keys() - after.keys()
        changed = {
            key
            for key in before.keys() & after.keys()
            if _identity(before[key]) != _identity(after[key])
        }
        return CatalogDiff(
            added=tuple(sorted(added)),
            removed=tuple(sorted(removed)),
            changed=tuple(sorted(changed)),
            has_visible=any(
                entries[key].is_visible
                for entries, keys in ((before, removed | changed), (after, added | changed))
                for key in keys
            ),
            kinds=self.changed_kinds(newer),
        )

    def changed_kinds(self, newer: Catalog) -> frozenset[OfferingKind]:
        """The kinds of which something else is visible in `newer`."""
        unlike = self._offerings_unlike(newer) ^ newer._offerings_unlike(self)
        return frozenset(entry.offering.kind for entry in unlike)

    def parts_unlike(self, other: Catalog) -> Iterator[ServerPart]:
        """The parts that are not the same in both."""
        return (part for server, part in self.parts.items() if part is not other.parts.get(server))

    def _offerings_unlike(self, other: Catalog) -> frozenset[OfferingEntry]:
        """The visible ones of the parts that are not the same in both."""
        unlike = self.parts_unlike(other)
        return frozenset(e for part in unlike for e in part.offerings if e.is_visible)

    def _entries_unlike(self, other: Catalog) -> dict[ToolKey, Entry]:
        return {entry.key: entry for part in self.parts_unlike(other) for entry in part.entries}


def _identity(entry: Entry) -> tuple[str, AppliedOverride, Verdict]:
    return entry.tool.source, entry.tool.overridden, entry.verdict


class RefreshReport(Struct, frozen=True):
    servers: tuple[tuple[ServerName, Failure | None], ...]
    """The servers that were listed, in the order of names, each with its failure if any."""
    diff: CatalogDiff
    starting: tuple[ServerName, ...] = ()
    """The listed servers that had not answered yet; they go on starting."""
