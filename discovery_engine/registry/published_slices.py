"""What a server lists, cut by who may see it: each slice is for one audience.

Made apart from the filter of the views (`view.reserved`), which hides in a gateway what this keeps
apart in a database: a mistake in one is none in the other. Only what agents may use is in it, and
nothing that its owner alone is shown: no failures, findings, removed or withheld tools.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.catalog import Entry, OfferingEntry, ServerPart
from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.rules.ruleset import OfferingRules, ServerRules, ToolRules
from discovery_engine.tools.model import AppliedOverride
from discovery_engine.tools.offering import OfferingKind

if TYPE_CHECKING:
    from discovery_engine.config.settings import Settings
    from discovery_engine.rules.name_index import Positions
    from discovery_engine.tools.model import Tool

Audience: TypeAlias = tuple[tuple[str, ...], ...]
"""Lists of teams and users: those belong to it who stand for one of each. Empty for all."""

_Admitted: TypeAlias = tuple[str, ...]

_KINDS = tuple(OfferingKind)


class Slice(Struct, frozen=True):
    audience: Audience
    part: ServerPart


class PublishedSlices:
    """Cuts servers by the `visibleTo` of some settings."""

    def __init__(self, settings: Settings) -> None:
        self._servers = settings.by_name
        self._server_rules = _reserving(settings.server_rules)
        self._tool_rules = _reserving(settings.tool_rules)
        self._resource_rules = _reserving(settings.resource_rules)
        self._prompt_rules = _reserving(settings.prompt_rules)
        self._of_servers = [ServerRules([rule]) for rule in self._server_rules]
        self._tools = ToolRules(self._tool_rules)
        self._resources = OfferingRules(self._resource_rules, "resource")
        self._prompts = OfferingRules(self._prompt_rules, "prompt")

    def of(self, part: ServerPart) -> tuple[Slice, ...]:
        """The slices of a server; none if it is for its owner alone, or must not be used."""
        server = self._servers.get(part.server)
        # Of an entry that cannot be used it is not known what it says about visibility.
        if server is None or server.problem or not part.verdict.enabled or part.listed_at is None:
            return ()
        common = [server.visible_to] if server.visible_to else []
        for rule, judge in zip(self._server_rules, self._of_servers, strict=True):
            if not judge.verdict(server.name, server.tags, enabled=True).enabled:
                common.append(rule.visible_to)
        # One for the server itself, even if nothing of it is for all to whom the server is shown.
        tools: defaultdict[Audience, list[Entry]] = defaultdict(list, {_audience(common): []})
        others: defaultdict[Audience, list[OfferingEntry]] = defaultdict(list)
        for entry, admitted in self._reserved_tools(part):
            tools[_audience([*common, *admitted])].append(entry)
        for other, admitted in self._reserved_offerings(part):
            others[_audience([*common, *admitted])].append(other)
        audiences = sorted({*tools, *others})
        slices = (_slice(part, one, tools[one], others[one]) for one in audiences)
        if not (self._tool_rules and _names_a_gone_tool(part)):
            return tuple(slices)
        # Which of them are reserved cannot be judged by a name alone.
        return tuple(replace(one, part=replace(one.part, instructions="")) for one in slices)

    def _reserved_tools(self, part: ServerPart) -> Iterator[tuple[Entry, list[_Admitted]]]:
        entries = part.visible
        matches = self._tools.matches([entry.tool for entry in entries]) if entries else ()
        return zip(entries, _by_position(len(entries), self._tool_rules, matches), strict=True)

    def _reserved_offerings(
        self, part: ServerPart
    ) -> Iterator[tuple[OfferingEntry, list[_Admitted]]]:
        server = Verdict(tags=part.verdict.tags)
        for is_prompt, rules, judge in (
            (False, self._resource_rules, self._resources),
            (True, self._prompt_rules, self._prompts),
        ):
            entries = [
                one
                for one in part.offerings
                if one.is_visible and (one.offering.kind is OfferingKind.PROMPT) is is_prompt
            ]
            offered = [one.offering for one in entries]
            matches = judge.matches(offered, server) if entries else ()
            yield from zip(entries, _by_position(len(entries), rules, matches), strict=True)


def merged(slices: Sequence[ServerPart]) -> ServerPart:
    """One server, of all its slices that a reader sees."""
    first = slices[0]
    entries = [entry for one in slices for entry in one.entries]
    others = [entry for one in slices for entry in one.offerings]
    return replace(
        first,
        entries=tuple(sorted(entries, key=lambda entry: entry.tool.name)),
        offerings=tuple(sorted(others, key=_order)),
        instructions=next((one.instructions for one in slices if one.instructions), ""),
    )


def _reserving(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules that reserve something, as ones that disable: then a slow pattern matches."""
    return tuple(
        Rule(
            rule.patterns,
            rule.servers,
            rule.annotations,
            rule.has_tags,
            enabled=False,
            visible_to=rule.visible_to,
        )
        for rule in rules
        if rule.visible_to
    )


def _by_position(
    count: int, rules: Sequence[Rule], matches: Iterable[Positions]
) -> list[list[_Admitted]]:
    found: list[list[_Admitted]] = [[] for _ in range(count)]
    if count:
        for rule, positions in zip(rules, matches, strict=True):
            for at in positions:
                found[at].append(rule.visible_to)
    return found


def _audience(admitted: Iterable[_Admitted]) -> Audience:
    return tuple(sorted({tuple(sorted(set(one))) for one in admitted}))


def _slice(
    part: ServerPart, audience: Audience, tools: list[Entry], others: list[OfferingEntry]
) -> Slice:
    shown = ServerPart(
        part.server,
        tuple(Entry(_plain(one), Verdict(tags=one.verdict.tags)) for one in tools),
        Verdict(tags=part.verdict.tags),
        listed_at=part.listed_at,
        ttl=part.ttl,
        offerings=tuple(replace(one, verdict=Verdict(tags=one.verdict.tags)) for one in others),
        connection=part.connection,
    )
    names = set(_names(part)) - set(_names(shown))
    # They are one text, of which no part can be left out.
    is_free = not any(name in part.instructions for name in names)
    return Slice(audience, replace(shown, instructions=part.instructions if is_free else ""))


def _plain(entry: Entry) -> Tool:
    """The tool, with what its owner calls it, and without where that is written."""
    known = entry.tool.overridden
    if not known.by:
        return entry.tool
    called = AppliedOverride(known.name, known.description, known.tags, known.examples, by=(0,))
    return replace(entry.tool, overridden=called)


def _names(part: ServerPart) -> Iterator[str]:
    for entry in part.entries:
        yield entry.tool.name
        yield entry.tool.upstream_name
    for one in part.offerings:
        yield one.offering.identifier


def _names_a_gone_tool(part: ServerPart) -> bool:
    """Whether the instructions name a tool that cannot be used, or is not listed any more."""
    gone = [*(one.name for one in part.dropped), *(one.name for one in part.removed)]
    return any(name in part.instructions for name in gone)


def _order(entry: OfferingEntry) -> tuple[int, str]:
    """As the catalog has them: in the order of kinds and identifiers."""
    return _KINDS.index(entry.offering.kind), entry.offering.identifier
