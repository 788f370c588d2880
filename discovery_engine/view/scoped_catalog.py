"""The part of a catalog that a scope shows: for each server, which of its tools.

It holds a byte for each tool, resource, template and prompt of servers that are shown in part, and
nothing for those shown whole. Their parts are made when they are read: kept for each of ten views,
they would take half as much memory as the catalog with its index.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import compress
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine.catalog import Catalog, Entry, OfferingEntry, ServerPart
from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.tools.model import ServerName, ToolName
from discovery_engine.tools.offering import Offering, OfferingKind
from discovery_engine.view.uris import UriRules, keys, without_query

if TYPE_CHECKING:
    from discovery_engine.rules.rule import RuleExplanation
    from discovery_engine.rules.ruleset import OfferingRules

Flags: TypeAlias = bytes
"""A byte for each tool of a server, then for each of its other offerings: 1 if it is shown. Tools
that are unusable or gone are not."""

_MAX_CACHED_PARTS = 8  # parts: what is asked of one server is asked several times


class ScopedCatalog(Catalog, frozen=True, kw_only=True):
    whole: Catalog
    """The catalog with all that is known; no scope of it."""
    shown: Mapping[ServerName, Flags | None]
    """Flags by server, in the order of the catalog; None if all of it is shown."""

    @classmethod
    def part_of(cls, whole: Catalog, flags: Mapping[ServerName, Flags | None]) -> ScopedCatalog:
        parts = ScopedParts(whole.parts, flags)
        return cls(whole.revision, parts, whole=whole, shown=flags)

    def without_empty(self) -> ScopedCatalog:
        """The same without the servers of which nothing is shown."""
        remainder = {
            server: flags
            for server, flags in self.shown.items()
            if (any(flags) if flags is not None else _offers(self.whole.part(server)))
        }
        return self if len(remainder) == len(self.shown) else self.part_of(self.whole, remainder)

    def get(self, server: ServerName, tool: ToolName) -> Entry | None:
        if server not in self.shown:
            return None
        if (flags := self.shown[server]) is None:
            return self.whole.get(server, tool)
        entries = self.whole.part(server).entries
        at = bisect_left(entries, tool, key=lambda entry: entry.tool.name)
        is_shown = at < len(entries) and entries[at].tool.name == tool and flags[at]
        return entries[at] if is_shown else None

    def named(self, tool: ToolName) -> tuple[Entry, ...]:
        return tuple(e for e in self.whole.named(tool) if self.get(e.tool.server, tool))

    def parts_with_hidden(self) -> Iterator[ServerPart]:
        names = (part.server for part in self.whole.parts_with_hidden())
        return (part for name in names if (part := self.parts.get(name)) and part.is_any_hidden)

    def parts_unlike(self, other: Catalog) -> Iterator[ServerPart]:
        if not isinstance(other, ScopedCatalog):
            return super().parts_unlike(other)
        parts, other_flags = other.whole.parts, other.shown
        return (
            self.parts[server]
            for server, flags in self.shown.items()
            if self.whole.parts[server] is not parts.get(server)
            or server not in other_flags
            or other_flags[server] != flags
        )

    def tools_shown(self) -> dict[ServerName, bytes | None]:
        """Return a byte for each tool, by server; None if all are shown."""
        return {
            server: flags and flags[: len(self.whole.part(server).entries)]
            for server, flags in self.shown.items()
        }


class ScopedParts(Mapping[ServerName, ServerPart]):
    """The parts of the servers that are shown."""

    def __init__(
        self,
        whole: Mapping[ServerName, ServerPart],
        flags: Mapping[ServerName, Flags | None],
    ) -> None:
        self._whole = whole
        self._shown = flags
        self._kept: dict[ServerName, ServerPart] = {}

    def __getitem__(self, server: ServerName) -> ServerPart:
        if (flags := self._shown[server]) is None:
            return self._whole[server]
        part = self._kept.get(server)
        if part is None:
            part = _reduced(self._whole[server], flags)
            if len(self._kept) == _MAX_CACHED_PARTS:
                self._kept.clear()
            self._kept[server] = part
        return part

    def __iter__(self) -> Iterator[ServerName]:
        return iter(self._shown)

    def __len__(self) -> int:
        return len(self._shown)


def _reduced(part: ServerPart, flags: Flags) -> ServerPart:
    tools, others = flags[: len(part.entries)], flags[len(part.entries) :]
    offerings = part.offerings
    if not all(others):
        offerings = tuple(compress(offerings, others))
    entries = tuple(compress(part.entries, tools))
    remainder = replace(part, entries=entries, offerings=offerings, dropped=(), removed=())
    return replace(remainder, instructions=scoped_instructions(part, remainder))


def _offers(part: ServerPart) -> bool:
    return bool(part.entries or part.offerings)


# A server's instructions for those who see a part of what it offers.

_WORD = lazy_pattern(r"[\w.:/{}+*%~@-]+")
_ENDS = ".:/-"


def scoped_instructions(whole: ServerPart, part: ServerPart) -> str:
    """Return the instructions of `whole`; empty if they name something that is not in `part`.

    They are one text of a server, of which no part can be left out.
    """
    if not whole.instructions:
        return ""
    tokens = _WORD.findall(whole.instructions)
    words = {form for word in tokens for form in (word, word.strip(_ENDS))}
    hidden = set(_names(whole)) - set(_names(part))
    return whole.instructions if words.isdisjoint(hidden) else ""


def _names(part: ServerPart) -> Iterator[str]:
    yield from (tool.name for tool in part.dropped)
    yield from (tool.name for tool in part.removed)
    for entry in part.entries:
        yield entry.tool.name
        yield entry.tool.given_name
    for offering_entry in part.offerings:
        yield offering_entry.offering.identifier


# What a scope hides is taken out of the catalog. A template leads to URIs that are in no list, so
# those it would lead to are compared with what was taken out, and with the rules of the scope.


class ScopedOfferings:
    """Judges by the rules and the tags of a scope."""

    def __init__(
        self, resource_rules: Sequence[Rule], prompt_rules: Sequence[Rule], tags: Sequence[str]
    ) -> None:
        self._resource_rules = resource_rules
        self._prompt_rules = prompt_rules
        self._tags = frozenset(tags)
        self._uri_rules = UriRules(resource_rules)

    def shown(self, part: ServerPart) -> list[bool]:
        """Return the shown ones of a server, in their order."""
        entries = part.offerings
        flags = [not self._tags or self._is_tagged(entry) for entry in entries]
        server = _judged(part.verdict)
        for is_prompt, rules in ((False, self._resource_rules), (True, self._prompt_rules)):
            places = [at for at, entry in enumerate(entries) if _is_prompt(entry) is is_prompt]
            if rules and places:
                judge = self._prompts if is_prompt else self._resources
                verdicts = judge.verdicts([entries[at].offering for at in places], server)
                for at, verdict in zip(places, verdicts, strict=True):
                    flags[at] &= verdict.enabled
        return flags

    def why_hidden(self, part: ServerPart, entry: OfferingEntry) -> str:
        """The reason why an entry is not shown, in a few words; empty if it is shown."""
        if self._tags and not self._is_tagged(entry):
            return f"it is for what is tagged {', '.join(map(repr, sorted(self._tags)))}"
        explained = self._explained(part, entry)
        return "" if explained is None or explained.verdict.enabled else explained.sentence

    def guard(self, whole: Catalog, catalog: Catalog) -> UriGuard:
        """Return the guard of the URIs that templates lead to, with only `catalog` visible."""
        return UriGuard(whole, catalog, self._uri_rules)

    def _is_tagged(self, entry: OfferingEntry) -> bool:
        return not self._tags.isdisjoint(entry.verdict.tags)

    def _explained(self, part: ServerPart, entry: OfferingEntry) -> RuleExplanation | None:
        is_prompt = _is_prompt(entry)
        if not (self._prompt_rules if is_prompt else self._resource_rules):
            return None
        rules = self._prompts if is_prompt else self._resources
        return rules.explain(entry.offering, _judged(part.verdict))

    @cached_property
    def _resources(self) -> OfferingRules:
        # Compiling patterns loads a library that a remembered catalog is read without.
        from discovery_engine.rules.ruleset import OfferingRules  # noqa: PLC0415

        return OfferingRules(self._resource_rules, "resource")

    @cached_property
    def _prompts(self) -> OfferingRules:
        from discovery_engine.rules.ruleset import OfferingRules  # noqa: PLC0415

        return OfferingRules(self._prompt_rules, "prompt")


class UriGuard(Struct, frozen=True, dict=True):
    """Keeps templates from leading out of a scope."""

    whole: Catalog
    shown: Catalog
    rules: UriRules

    def admits(self, uri: str, of: Offering) -> bool:
        """Return whether a URI may be seen.

        Args:
            uri: Of a resource that is not listed.
            of: What leads to it: a template, or a resource that it is part of.
        """
        if (removed := self._removed(of.server)) and not removed.isdisjoint(
            keys(uri) | keys(without_query(uri))
        ):
            return False
        server = _judged(self.whole.part(of.server).verdict)
        return self.rules.denial(uri, of, server) is None

    def _removed(self, server: ServerName) -> frozenset[str]:
        """The URIs of a server's resources that are not shown, in every spelling."""
        spellings = self._removed_by_server.get(server)
        if spellings is None:
            spellings = self._removed_by_server[server] = frozenset(
                key for uri in self._removed_uris(server) for key in keys(uri)
            )
        return spellings

    def _removed_uris(self, server: ServerName) -> set[str]:
        whole, part = self.whole.part(server), self.shown.part(server)
        if whole.offerings is part.offerings:
            return set()
        return _uris(whole) - _uris(part)

    @cached_property
    def _removed_by_server(self) -> dict[ServerName, frozenset[str]]:
        return {}


def _uris(part: ServerPart) -> set[str]:
    return {entry.offering.identifier for entry in part.resources}


def _is_prompt(entry: OfferingEntry) -> bool:
    return entry.offering.kind is OfferingKind.PROMPT


def _judged(server: Verdict) -> Verdict:
    """The verdict on a server as the rules of a scope need it: they only read its tags."""
    return Verdict(tags=server.tags)
