"""Turns listings of servers into parts of the catalog: verdicts, failures, due times.

All functions are pure, over frozen values; the engine does the waiting.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from discovery_engine.catalog import CatalogDiff, Entry, Failure, OfferingEntry, ServerPart
from discovery_engine.errors import (
    NeedsConfigError,
    UnavailableError,
    UntrustedServerError,
    UpstreamError,
)
from discovery_engine.events import ServerConnected, ServerFailed
from discovery_engine.overrides.applying import Overrides
from discovery_engine.rules import OfferingRules, ServerRules, ToolRules
from discovery_engine.rules.rule import WITHHELD, Verdict
from discovery_engine.tools.model import AppliedOverride, ServerName, Tool, ToolName
from discovery_engine.tools.offering import Definition, Offering, OfferingKind
from discovery_engine.trust.effective_trust import ListedServer, Trust
from discovery_engine.trust.server_identity import known_as
from discovery_engine.trust.suspicion import SUSPICIOUS, suspects, suspicions
from discovery_engine.upstream.connection import connection_fingerprint

if TYPE_CHECKING:
    from discovery_engine.config.settings import CacheSettings, ServerSettings, Settings
    from discovery_engine.diagnostics import Diagnostic
    from discovery_engine.registry.protocols import Snapshot
    from discovery_engine.rules.rule import Rule, Withheld
    from discovery_engine.scanner import Findings
    from discovery_engine.upstream.listing import Listing

E = TypeVar("E", bound=Entry | OfferingEntry)

_RETRY_AFTER = 60.0  # seconds until a server that failed is listed again by itself


class RefreshReport(Struct, frozen=True):
    """The outcome of a refresh."""

    servers: tuple[tuple[ServerName, Failure | None], ...]
    """Every server that was listed, in the order of names, with its failure if any."""
    diff: CatalogDiff
    starting: tuple[ServerName, ...] = ()
    """Those of them that had not answered yet; they go on starting."""


class ListingResult(Struct, frozen=True):
    """The outcome of listing a server."""

    server: ServerSettings
    """Its settings when it was listed."""
    outcome: Listing | UpstreamError
    at: float
    """Unix time in seconds."""
    tools: tuple[Tool, ...] = ()
    """Its tools, once parsed by `read`."""
    offerings: tuple[Offering, ...] = ()
    """The same of all else; of a kind that could not be listed, the last known ones."""
    findings: Findings | None = None

    @property
    def listed_server(self) -> ListedServer | None:
        """The listing for the trust store; None if it failed."""
        if isinstance(self.outcome, UpstreamError):
            return None
        instructions = self.outcome.instructions
        offered = self.tools + self.offerings
        return ListedServer(self.server, offered, instructions, suspects(self.findings))

    @property
    def event(self) -> ServerConnected | ServerFailed:
        if isinstance(self.outcome, UpstreamError):
            return ServerFailed(self.server.name, self.outcome.code, self.outcome.message)
        tools, dropped = self.outcome.tools, self.outcome.dropped
        return ServerConnected(self.server.name, len(tools), len(dropped))


class Rulebook(Struct, frozen=True, dict=True):
    """The rules and overrides of one configuration, compiled on first use."""

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

    def rules_of(self, kind: OfferingKind) -> OfferingRules:
        return self.prompt_rules if kind is OfferingKind.PROMPT else self.resource_rules

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


class Ingestor(Struct, frozen=True):
    """Applies rules, overrides and trust to the tools of servers."""

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
        """`part` with these tools and offerings, and their current verdicts."""
        verdict, instructions = self.server_verdict(server), part.said
        entries = [_marked(one, part) for one in self.make_entries(tools, verdict)]
        others = [_marked(one, part) for one in self._judged(offerings, verdict)]
        held, is_held = self._reasons_to_withhold(server, part, [*entries, *others])
        return replace(
            part,
            entries=tuple(map(_withheld, entries, held)),
            offerings=tuple(map(_withheld, others, held[len(entries) :])),
            verdict=verdict,
            instructions="" if is_held else instructions,
            new_instructions=instructions if is_held else None,
        )

    def withholds_same(self, server: ServerSettings, part: ServerPart) -> bool:
        """Whether the withheld tools of a part are those to withhold now."""
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
        instructions, suspected = part.said, suspects(part.findings)
        definitions = list(map(_definition, entries))
        held = self.trust.withheld(server, definitions, instructions, suspected)
        return held, self.trust.holds_back(server, instructions, suspected) is not None

    def make_entries(self, tools: Sequence[Tool], server: Verdict) -> tuple[Entry, ...]:
        known = self.rulebook.overrides.applied(tools)
        ordered = sorted(known, key=lambda tool: tool.name)
        verdicts = self.rulebook.tool_rules.verdicts(ordered, server)
        return tuple(map(_entry, ordered, verdicts))

    def _judged(self, offerings: Sequence[Offering], server: Verdict) -> Iterator[OfferingEntry]:
        """In the order of kinds and identifiers."""
        ordered = sorted(offerings, key=lambda one: one.identifier)
        for rules, kinds in (
            (self.rulebook.resource_rules, (OfferingKind.RESOURCE, OfferingKind.TEMPLATE)),
            (self.rulebook.prompt_rules, (OfferingKind.PROMPT,)),
        ):
            judged = [one for kind in kinds for one in ordered if one.kind is kind]
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


def read(result: ListingResult, known: ServerPart) -> ListingResult:
    """`result` with parsed tools and findings; a long list takes seconds.

    Tools that are unchanged since `known` are not scanned again.
    """
    if isinstance(result.outcome, UpstreamError):
        return result
    tools = tuple(Tool.from_mcp(result.server.name, one) for one in result.outcome.tools)
    offerings = tuple(_offerings(result.server.name, result.outcome, known))
    findings = suspicions((*tools, *offerings), result.outcome.instructions, known)
    return replace(result, tools=tools, offerings=offerings, findings=findings)


def _offerings(server: ServerName, listing: Listing, known: ServerPart) -> Iterator[Offering]:
    """What was listed besides tools; of a kind that failed, what was known before."""
    for kind, listed in listing.offerings.items():
        if listed.failure:
            yield from (entry.offering for entry in known.of_kind(kind))
        for definition in listed.definitions:
            yield Offering.from_mcp(server, kind, definition)


def part_from_result(
    server: ServerSettings, known: ServerPart, result: ListingResult, ingestor: Ingestor
) -> ServerPart:
    """The new part of a server, from its listing and the part known before."""
    if isinstance(result.outcome, UpstreamError):
        return failed(known, result.outcome, result.at)
    return listed(server, result.outcome, result, ingestor)


def listed(
    server: ServerSettings, listing: Listing, result: ListingResult, ingestor: Ingestor
) -> ServerPart:
    """The part of a server that was listed successfully."""
    others = listing.offerings.items()
    part = ServerPart(
        server.name,
        listed_at=result.at,
        ttl=min((ttl for ttl in _ttls(listing) if ttl is not None), default=None),
        dropped=tuple(chain(listing.dropped, *(one.dropped for _, one in others))),
        unlisted={kind.value: one.failure for kind, one in others if one.failure},
        instructions=listing.instructions,
        connection=listing.connection,
        findings=result.findings,
    )
    tools = [_named(tool, server.prefix) for tool in result.tools]
    return ingestor.make_part(server, part, tools, result.offerings)


def _ttls(listing: Listing) -> Iterator[float | None]:
    yield listing.ttl
    yield from (listed.ttl for listed in listing.offerings.values())


def failed(part: ServerPart, error: UpstreamError, now: float) -> ServerPart:
    """The part of a server whose listing failed: its last known tools stay."""
    began = part.failure.since if part.failure else None
    return replace(part, failure=_failure(error, now, began=began))


def _failure(error: UpstreamError, now: float, *, began: float | None = None) -> Failure:
    # While a server is backing off, the error of its last attempt is the cause.
    real = error.__cause__ if isinstance(error.__cause__, UpstreamError) else error
    if not isinstance(real, UnavailableError):
        return Failure(real.code, real.message, real.hint, now, began, detail=real.detail)
    missing = real.missing if isinstance(real, NeedsConfigError) else ()
    references = tuple(one.reference for one in missing)
    return Failure(
        real.code, real.message, real.hint, now, began, real.stderr, real.detail, references
    )


def carried_over(known: Snapshot, ingestor: Ingestor) -> tuple[ServerPart, ...]:
    """The parts of a snapshot that still hold under the ingestor's settings, judged by its rules.

    A server whose transport changed gets an empty part. Where nothing changed that a verdict
    depends on, no tool is looked at.
    """
    settings = ingestor.rulebook.settings
    before = known.settings
    # Not known, if processes with different rules have saved listings.
    is_known = known.decided is not None
    same_rules = _rules_of(before) == _rules_of(settings) and _same_overrides(before, settings)
    same_decisions = known.decided == ingestor.trust.decisions.number
    same_trust = same_decisions and _same_trust(before, settings)
    return tuple(
        _carried_over(
            known.catalog.parts.get(server.name),
            server,
            ingestor,
            same_rules=is_known and same_rules,
            is_judged=same_trust and _is_judged_alike(before, settings, server),
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
    if is_same and (is_judged or _is_named_and_withheld_alike(part, server, ingestor)):
        return part
    tools = [_named(entry.tool, server.prefix) for entry in part.entries]
    return ingestor.make_part(server, part, tools, [entry.offering for entry in part.offerings])


def _is_named_and_withheld_alike(
    part: ServerPart, server: ServerSettings, ingestor: Ingestor
) -> bool:
    return _are_named(part, server.prefix) and ingestor.withholds_same(server, part)


def _same_trust(one: Settings, other: Settings) -> bool:
    """Whether the same decisions withhold the same tools under both settings."""
    ours, theirs = ((s.trust, s.name, s.path, s.frozen) for s in (one, other))
    # The digest of the lock file is among the inputs.
    return ours == theirs and (not one.frozen or one.inputs == other.inputs)


def _is_judged_alike(before: Settings, settings: Settings, server: ServerSettings) -> bool:
    """Whether the settings of a server are, as far as the verdicts of its tools depend on them."""
    known = before.by_name.get(server.name)
    if known is None or (known.prefix, known.trust) != (server.prefix, server.trust):
        return False
    return known_as(known, before.path) == known_as(server, settings.path)


def _rules_of(settings: Settings) -> tuple[tuple[Rule, ...], ...]:
    return settings.tool_rules, settings.resource_rules, settings.prompt_rules


def _same_overrides(one: Settings, other: Settings) -> bool:
    """Compares overrides without argument values: stored overrides have none."""
    ours, theirs = (
        [override.without_values() for override in settings.overrides] for settings in (one, other)
    )
    return ours == theirs


def _are_named(part: ServerPart, prefix: str) -> bool:
    return all(e.tool.given_name == prefix + e.tool.upstream_name for e in part.entries)


def _named(tool: Tool, prefix: str) -> Tool:
    return replace(
        tool, given_name=ToolName(prefix + tool.upstream_name), overridden=AppliedOverride()
    )


def due_in(part: ServerPart, cache: CacheSettings, *, now: float) -> float:
    """Seconds until a server should be listed again.

    A listing with a future time is due at once: the clock was set back, so its age is unknown.
    """
    at = part.failure.at if part.failure else part.listed_at
    if at is None or at > now:
        return 0.0
    return at + _lifetime(part, cache) - now


def _lifetime(part: ServerPart, cache: CacheSettings) -> float:
    if part.failure:
        return _RETRY_AFTER
    # A server may set a shorter time than the owner, down to the retry interval: a `ttlMs` of 0
    # means "do not cache", not "list without pause".
    return cache.ttl if part.ttl is None else min(cache.ttl, max(part.ttl, _RETRY_AFTER))


def report(
    parts: Iterable[ServerPart],
    diff: CatalogDiff,
    *,
    refused: Iterable[UntrustedServerError] = (),
    starting: Iterable[ServerName] = (),
    now: float = 0.0,
) -> RefreshReport:
    """The report on listed servers and on refused ones.

    `starting` have not answered yet; `now` is Unix time in seconds.
    """
    listed_servers = [(part.server, part.failure) for part in parts]
    listed_servers += [(ServerName(error.server), _failure(error, now)) for error in refused]
    return RefreshReport(
        tuple(sorted(listed_servers, key=lambda one: one[0])), diff, tuple(starting)
    )
