"""When a rule applies: its conditions, compiled, and what they are tried on.

A condition picks out of many at once. Its answer keeps apart what matches and what a slow regular
expression left open; `ruleset` decides what follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from msgspec import Struct, field

from discovery_engine.rules.name_index import Names, Positions
from discovery_engine.rules.patterns import Pattern, PatternList, any_of
from discovery_engine.rules.regexes import Selection, TimeLimit
from discovery_engine.rules.rule import Rule
from discovery_engine.tools.model import ServerName, Tool
from discovery_engine.tools.offering import Offering

_ITSELF = frozenset({0})  # the position of a lone server
_NOTHING = Selection(frozenset())


class PatternMatcher(Struct):
    """Tries patterns on names, and notes which were too slow and on what name."""

    limit: TimeLimit
    cut_off: list[tuple[Pattern, str]] = field(default_factory=list)

    def select(self, pattern: Pattern, names: Names) -> Selection:
        selection = pattern.select(names, self.limit)
        if selection.slow:
            self.cut_off.append((pattern, names.texts[min(selection.slow)]))
        return selection

    def any(self, pattern: Pattern, names: Names) -> Selection:
        """The lone server itself, if the pattern matches any of `names`."""
        selection = self.select(pattern, names)
        if selection.hits:
            return Selection(_ITSELF)
        return Selection(frozenset(), _ITSELF if selection.slow else frozenset())


class ToolBatch:
    """Some tools of one server, known by their positions, and read by the names given here."""

    def __init__(
        self, tools: Sequence[Tool], names: Sequence[str], matcher: PatternMatcher
    ) -> None:
        self.tools = tools
        self.names = Names(names)
        self._server = Names([tools[0].server] if tools else [])
        self._matcher = matcher

    def select(self, pattern: Pattern) -> Selection:
        names = self._qualified if pattern.is_qualified else self.names
        return self._matcher.select(pattern, names)

    def select_server(self, pattern: Pattern) -> Selection:
        return self._matcher.select(pattern, self._server)

    @cached_property
    def _qualified(self) -> Names:
        server = self.tools[0].server if self.tools else ""
        return Names([f"{server}:{name}" for name in self.names.texts])


class OfferingBatch:
    """Some resources, templates or prompts of one server, read by identifier and by short name.

    Both are the server's, so a pattern matches if it matches either.
    """

    def __init__(
        self, offerings: Sequence[Offering], server_tags: Sequence[str], matcher: PatternMatcher
    ) -> None:
        self.everything = frozenset(range(len(offerings)))
        self.server = ServerTarget(
            offerings[0].server if offerings else ServerName(""), server_tags, matcher
        )
        self._identifiers = Names([offering.identifier for offering in offerings])
        self._names = Names([offering.name for offering in offerings])
        self._offerings = offerings
        self._matcher = matcher

    def select(self, pattern: Pattern) -> Selection:
        if pattern.is_address:
            return self._matcher.select(pattern, self._identifiers)
        plain = self._identifiers, self._names
        read = self._qualified if pattern.is_qualified else plain
        return any_of([self._matcher.select(pattern, names) for names in read])

    @cached_property
    def _qualified(self) -> tuple[Names, Names]:
        identifiers = Names(
            [f"{offering.server}:{offering.identifier}" for offering in self._offerings]
        )
        return identifiers, Names(
            [f"{offering.server}:{offering.name}" for offering in self._offerings]
        )


class ServerTarget:
    """One server by its name and its own tags."""

    def __init__(self, name: ServerName, tags: Sequence[str], matcher: PatternMatcher) -> None:
        self._name = Names([name])
        self._tags = Names(tags)
        self._matcher = matcher

    def select(self, pattern: Pattern) -> Selection:
        return self._matcher.select(pattern, self._name)

    def select_by_tag(self, pattern: Pattern) -> Selection:
        return self._matcher.any(pattern, self._tags)


class ToolCondition(Struct, frozen=True):
    """The condition that a rule of `toolRules` puts on a tool."""

    patterns: PatternList
    servers: PatternList
    annotations: Mapping[str, bool | str]

    @classmethod
    def of(cls, rule: Rule) -> ToolCondition:
        patterns, servers = PatternList.parse(rule.patterns), PatternList.parse(rule.servers)
        return cls(patterns, servers, rule.annotations)

    def select(self, batch: ToolBatch) -> Selection:
        server = self.servers.select(_ITSELF, batch.select_server)
        if not server.hits and not server.slow:
            return _NOTHING
        tools = self.patterns.select(batch.names.everything, batch.select)
        if self.annotations:
            tools = Selection(*(self._annotated(some, batch) for some in (tools.hits, tools.slow)))
        return tools if server.hits else Selection(frozenset(), tools.hits | tools.slow)

    def _annotated(self, positions: Positions, batch: ToolBatch) -> Positions:
        return {at for at in positions if _says(batch.tools[at], self.annotations)}


class OfferingCondition(Struct, frozen=True):
    """The condition of a rule of `resourceRules` or `promptRules`."""

    patterns: PatternList
    server: ServerCondition

    @classmethod
    def of(cls, rule: Rule) -> OfferingCondition:
        server = ServerCondition(PatternList.parse(rule.servers), PatternList.parse(rule.has_tags))
        return cls(PatternList.parse(rule.patterns), server)

    def select(self, batch: OfferingBatch) -> Selection:
        server = self.server.select(batch.server)
        if not server.hits and not server.slow:
            return _NOTHING
        selection = self.patterns.select(batch.everything, batch.select)
        return selection if server.hits else Selection(frozenset(), selection.hits | selection.slow)


class ServerCondition(Struct, frozen=True):
    """The condition that a rule of `serverRules` puts on a server."""

    patterns: PatternList
    tags: PatternList

    @classmethod
    def of(cls, rule: Rule) -> ServerCondition:
        return cls(PatternList.parse(rule.patterns), PatternList.parse(rule.has_tags))

    def select(self, server: ServerTarget) -> Selection:
        named = self.patterns.select(_ITSELF, server.select)
        tagged = self.tags.select(_ITSELF, server.select_by_tag)
        hits = named.hits & tagged.hits
        possible = (named.hits | named.slow) & (tagged.hits | tagged.slow)
        return Selection(hits, possible - hits)


def _says(tool: Tool, expected: Mapping[str, bool | str]) -> bool:
    """Return whether the annotations state all that is expected; 1 is not true."""
    stated = tool.annotations
    return all(
        type(stated.get(name)) is type(value) and stated[name] == value
        for name, value in expected.items()
    )
