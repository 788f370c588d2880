"""Applies rules, overrides and trust to the tools, resources and prompts of servers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from discovery_engine.catalog import Entry, OfferingEntry, ServerPart
from discovery_engine.rules.rule import WITHHELD, Verdict
from discovery_engine.tools.model import AppliedOverride, Tool, ToolName
from discovery_engine.tools.offering import Definition, Offering, OfferingKind
from discovery_engine.trust.effective_trust import SUSPICIOUS, Trust, suspects

if TYPE_CHECKING:
    from discovery_engine.config.settings import ServerSettings
    from discovery_engine.engine.ingestion.rulebook import Rulebook
    from discovery_engine.rules.rule import Withheld

E = TypeVar("E", bound=Entry | OfferingEntry)


class Ingestor(Struct, frozen=True):
    """The present settings and decisions, applied to one server at a time."""

    rulebook: Rulebook
    trust: Trust = field(default_factory=Trust)

    def server_verdict(self, server: ServerSettings) -> Verdict:
        verdict = self.rulebook.server_rules.verdict(server.name, server.tags, server.enabled)
        if not self.rulebook.settings.enabled:
            return Verdict(enabled=False, tags=verdict.tags, reason="off")
        if verdict.enabled and (refused := self.trust.refusal(server)):
            reason, detail = refused
            return Verdict(enabled=False, tags=verdict.tags, reason=reason, detail=detail)
        return verdict

    def make_part(
        self,
        server: ServerSettings,
        part: ServerPart,
        tools: Sequence[Tool],
        offerings: Sequence[Offering],
    ) -> ServerPart:
        """`part` with these tools and offerings: their names and verdicts are the present ones."""
        verdict, instructions = self.server_verdict(server), part.present_instructions
        named = [_named(tool, server.prefix) for tool in tools]
        entries = [_marked(entry, part) for entry in self.make_entries(named, verdict)]
        others = [_marked(entry, part) for entry in self._judged(offerings, verdict)]
        held, is_held = self._reasons_to_withhold(server, part, [*entries, *others])
        return replace(
            part,
            entries=tuple(map(_withheld, entries, held)),
            offerings=tuple(map(_withheld, others, held[len(entries) :])),
            verdict=verdict,
            instructions="" if is_held else instructions,
            new_instructions=instructions if is_held else None,
        )

    def makes_same(self, server: ServerSettings, part: ServerPart) -> bool:
        """Return whether `make_part` would keep the tool names of `part`, and withhold the same.

        Verdicts of rules are not compared.
        """
        if not all(_has_prefix(entry.tool, server.prefix) for entry in part.entries):
            return False
        entries: list[Entry | OfferingEntry] = [*part.entries, *part.offerings]
        held, is_held = self._reasons_to_withhold(server, part, entries)
        same = (
            _withheld(entry, reason) is entry for entry, reason in zip(entries, held, strict=True)
        )
        return is_held == (part.new_instructions is not None) and all(same)

    def _reasons_to_withhold(
        self, server: ServerSettings, part: ServerPart, entries: Sequence[Entry | OfferingEntry]
    ) -> tuple[list[Withheld | None], bool]:
        """Why each of these is withheld, and whether the instructions are."""
        instructions, suspected = part.present_instructions, suspects(part.findings)
        definitions = list(map(_definition, entries))
        held = self.trust.withheld(server, definitions, instructions, suspected)
        return held, self.trust.holds_back(server, instructions, suspected) is not None

    def make_entries(self, tools: Sequence[Tool], server: Verdict) -> tuple[Entry, ...]:
        overridden_tools = self.rulebook.overrides.applied(tools)
        ordered = sorted(overridden_tools, key=lambda tool: tool.name)
        verdicts = self.rulebook.tool_rules.verdicts(ordered, server)
        return tuple(map(_entry, ordered, verdicts))

    def _judged(self, offerings: Sequence[Offering], server: Verdict) -> Iterator[OfferingEntry]:
        """In the order of kinds and identifiers."""
        ordered = sorted(offerings, key=lambda offering: offering.identifier)
        for rules, kinds in (
            (self.rulebook.resource_rules, (OfferingKind.RESOURCE, OfferingKind.TEMPLATE)),
            (self.rulebook.prompt_rules, (OfferingKind.PROMPT,)),
        ):
            judged = [offering for kind in kinds for offering in ordered if offering.kind is kind]
            if judged:
                yield from map(OfferingEntry, judged, rules.verdicts(judged, server))


def _definition(entry: Entry | OfferingEntry) -> Definition:
    return entry.tool if isinstance(entry, Entry) else entry.offering


def _entry(tool: Tool, verdict: Verdict) -> Entry:
    """An entry with the tags of overrides after those of the rules."""
    return Entry(tool, _tagged(verdict, *tool.overridden.tags))


def _marked(entry: E, part: ServerPart) -> E:
    """The entry, tagged if it has suspicious findings."""
    if not part.found_in(_definition(entry).decision_key):
        return entry
    return replace(entry, verdict=_tagged(entry.verdict, SUSPICIOUS))


def _tagged(verdict: Verdict, *more: str) -> Verdict:
    tags = tuple(dict.fromkeys(verdict.tags + more))
    return verdict if tags == verdict.tags else replace(verdict, tags=tags)


def _withheld(entry: E, reason: Withheld | None) -> E:
    """The entry, withheld if there is a reason."""
    verdict = entry.verdict
    if reason == (verdict.reason if verdict.reason in WITHHELD else None):
        return entry
    if not (verdict.enabled or verdict.reason in WITHHELD):
        return entry
    return replace(entry, verdict=Verdict(reason is None, verdict.tags, reason or "default"))


def _named(tool: Tool, prefix: str) -> Tool:
    return replace(
        tool, given_name=ToolName(prefix + tool.upstream_name), overridden=AppliedOverride()
    )


def _has_prefix(tool: Tool, prefix: str) -> bool:
    return tool.given_name == prefix + tool.upstream_name
