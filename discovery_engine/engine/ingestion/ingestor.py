"""Applies rules, overrides and trust to the tools, resources and prompts of servers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from discovery_engine.catalog import Entry, OfferingEntry, ServerPart
from discovery_engine.rules.overrides.applying import Overrides
from discovery_engine.rules.rule import WITHHELD, Verdict
from discovery_engine.rules.ruleset import OfferingRules, ServerRules, ToolRules
from discovery_engine.tools.model import NO_OVERRIDE, Tool, ToolName
from discovery_engine.tools.offering import Definition, Offering, OfferingKind
from discovery_engine.trust.effective_trust import SUSPICIOUS, Trust, suspects
from discovery_engine.trust.server_identity import known_as
from discovery_engine.upstream.connection import connection_fingerprint

if TYPE_CHECKING:
    from discovery_engine.config.settings import ServerSettings, Settings
    from discovery_engine.errors import Diagnostic
    from discovery_engine.rules.rule import Rule, Withheld
    from discovery_engine.store.snapshot import Snapshot

_RESOURCES = (OfferingKind.RESOURCE, OfferingKind.TEMPLATE, OfferingKind.SKILL)
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
        """Return why each of these entries is withheld, and whether the instructions are."""
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
        """Yield the entries in the order of kinds and identifiers."""
        ordered = sorted(offerings, key=lambda offering: offering.identifier)
        for rules, kinds in (
            (self.rulebook.resource_rules, _RESOURCES),
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
    given_name = ToolName(prefix + tool.upstream_name)
    return replace(tool, given_name=given_name, overridden=NO_OVERRIDE)


def _has_prefix(tool: Tool, prefix: str) -> bool:
    return tool.given_name == prefix + tool.upstream_name


class Rulebook(Struct, frozen=True, dict=True):
    settings: Settings

    @cached_property
    def tool_rules(self) -> ToolRules:
        return ToolRules(self.settings.tool_rules)

    @cached_property
    def resource_rules(self) -> OfferingRules:
        return OfferingRules(self.settings.resource_rules, "resource")

    @cached_property
    def prompt_rules(self) -> OfferingRules:
        return OfferingRules(self.settings.prompt_rules, "prompt")

    @cached_property
    def server_rules(self) -> ServerRules:
        return ServerRules(self.settings.server_rules)

    @cached_property
    def overrides(self) -> Overrides:
        return Overrides(self.settings.overrides)

    @property
    def problems(self) -> tuple[Diagnostic, ...]:
        """Patterns that were too slow and overrides that cannot be applied, each once."""
        rules = self.server_rules.problems + self.tool_rules.problems
        rules += self.resource_rules.problems + self.prompt_rules.problems
        return rules + self.overrides.problems


def carried_over(
    snapshot: Snapshot, ingestor: Ingestor, touched: Collection[str] | None = None
) -> tuple[ServerPart, ...]:
    """The parts of a snapshot that still hold under the ingestor's settings, judged by its rules.

    A server whose transport changed gets an empty part. Where nothing changed that a verdict
    depends on, no tool is looked at.

    Args:
        snapshot: The parts, with the settings and decisions that they were judged by.
        ingestor: The present settings and decisions.
        touched: The keys of servers whose tools newer decisions concern; None for any.
    """
    settings = ingestor.rulebook.settings
    before = snapshot.settings
    # Not known, if processes with different rules have saved listings.
    is_known = snapshot.decided is not None
    same_rules = _rules_of(before) == _rules_of(settings) and _same_overrides(before, settings)
    if snapshot.decided == ingestor.trust.decisions.number:
        touched = ()
    same_trust = touched is not None and _same_trust(before, settings)
    return tuple(
        _carried_over(
            snapshot.catalog.parts.get(server.name),
            server,
            ingestor,
            same_rules=is_known and same_rules,
            is_judged=same_trust
            and known_as(server, settings.path) not in (touched or ())
            and _is_judged_alike(before, settings, server),
        )
        for server in settings.servers
    )


def _carried_over(
    part: ServerPart | None,
    server: ServerSettings,
    ingestor: Ingestor,
    *,
    same_rules: bool,
    is_judged: bool,
) -> ServerPart:
    verdict = ingestor.server_verdict(server)
    if part is None or part.connection != connection_fingerprint(server):
        return ServerPart(server.name, verdict=verdict, connection=connection_fingerprint(server))
    if part.listed_at is None:  # nothing to judge; another process may have listed it meanwhile
        return part if verdict == part.verdict else replace(part, verdict=verdict)
    is_same = same_rules and verdict == part.verdict
    if is_same and (is_judged or ingestor.makes_same(server, part)):
        return part
    tools = [entry.tool for entry in part.entries]
    return ingestor.make_part(server, part, tools, [entry.offering for entry in part.offerings])


def _same_trust(left: Settings, right: Settings) -> bool:
    """Return whether the same decisions withhold the same tools under both settings."""
    ours, theirs = ((s.trust, s.name, s.path, s.frozen) for s in (left, right))
    # The digest of the lock file is among the inputs.
    return ours == theirs and (not left.frozen or left.inputs == right.inputs)


def _is_judged_alike(before: Settings, settings: Settings, server: ServerSettings) -> bool:
    """Return whether a server's settings are equal as far as its tools' verdicts depend on them."""
    old_server = before.by_name.get(server.name)
    if old_server is None or (old_server.prefix, old_server.trust) != (server.prefix, server.trust):
        return False
    return known_as(old_server, before.path) == known_as(server, settings.path)


def _rules_of(settings: Settings) -> tuple[tuple[Rule, ...], ...]:
    return settings.tool_rules, settings.resource_rules, settings.prompt_rules


def _same_overrides(left: Settings, right: Settings) -> bool:
    """Compares overrides without argument values: stored overrides have none."""
    ours, theirs = (
        [override.without_values() for override in settings.overrides] for settings in (left, right)
    )
    return ours == theirs
