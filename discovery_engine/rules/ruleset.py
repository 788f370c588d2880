"""Evaluates rules: verdicts on tools, servers, resources and prompts, with explanations.

The first rule that matches and has `enabled` decides; every rule that matches adds its tags. If
any rule enables, items without a deciding rule are disabled. In doubt, a tool stays disabled: if a
pattern times out, a rule counts as matching only if it disables. For a tool that the owner has
renamed, a rule that enables is matched with the server's name of the tool only, any other rule with
both names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Literal

from msgspec import Struct, field

from discovery_engine.errors import Diagnostic
from discovery_engine.rules.patterns import (
    DEFAULT_LIMIT,
    Names,
    Pattern,
    PatternList,
    Positions,
    Selection,
    TimeLimit,
    any_of,
)
from discovery_engine.rules.rule import Rule, RuleExplanation, Step, Subject, Verdict, describe
from discovery_engine.tools.model import ServerName, Tool
from discovery_engine.tools.offering import Offering

_ITSELF = frozenset({0})  # the position of a lone server
_NOTHING = Selection(frozenset())


class PatternMatcher(Struct):
    """Matches patterns with names, and records each pattern that timed out, with the name."""

    limit: TimeLimit
    cut_off: list[tuple[Pattern, str]] = field(default_factory=list)

    def select(self, pattern: Pattern, names: Names) -> Selection:
        selection = pattern.select(names, self.limit)
        if selection.slow:
            self.cut_off.append((pattern, names.texts[min(selection.slow)]))
        return selection

    def any(self, pattern: Pattern, names: Names) -> Selection:
        """Return the position of the single server if the pattern matches any of `names`."""
        selection = self.select(pattern, names)
        if selection.hits:
            return Selection(_ITSELF)
        return Selection(frozenset(), _ITSELF if selection.slow else frozenset())


class ToolBatch:
    """Tools of one server, to be matched by the given names and selected by position."""

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
    """Resources, templates or prompts of one server, to be matched by identifier or by name.

    A pattern matches an item if it matches either of them.
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
    """A server, to be matched by its name and its own tags."""

    def __init__(self, name: ServerName, tags: Sequence[str], matcher: PatternMatcher) -> None:
        self._name = Names([name])
        self._tags = Names(tags)
        self._matcher = matcher

    def select(self, pattern: Pattern) -> Selection:
        return self._matcher.select(pattern, self._name)

    def select_by_tag(self, pattern: Pattern) -> Selection:
        return self._matcher.any(pattern, self._tags)


class ToolCondition(Struct, frozen=True):
    """The condition of a rule of `toolRules`."""

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
    """The condition of a rule of `serverRules`."""

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
    """Return whether a tool's annotations have the expected values and types; 1 is not true."""
    stated = tool.annotations
    return all(
        type(stated.get(name)) is type(value) and stated[name] == value
        for name, value in expected.items()
    )


class _RuleEvaluator:
    """Computes verdicts from the rules that match, and records the patterns that timed out."""

    def __init__(
        self, rules: Sequence[Rule], path: str, subject: Subject, limit: TimeLimit
    ) -> None:
        self._limit = limit
        self._rules = tuple(rules)
        self._path = path
        self._subject = subject
        self._is_whitelist = any(rule.enabled for rule in rules)
        self._problems: dict[tuple[int, str], Diagnostic] = {}

    @property
    def problems(self) -> tuple[Diagnostic, ...]:
        """The patterns that were too slow so far, each once."""
        return tuple(self._problems.values())

    def _taken(self, index: int, selection: Selection) -> Positions:
        """Return the positions that a rule matches, including slow ones if the rule disables."""
        if self._rules[index].enabled is False:
            return selection.hits | selection.slow
        return selection.hits

    def _verdicts(self, count: int, matches: Iterable[Positions], server: Verdict) -> list[Verdict]:
        """Return the verdicts on `count` items of a server.

        `matches` has the positions that match, for each rule in order.
        """
        matching: list[list[int]] = [[] for _ in range(count)]
        for index, positions in enumerate(matches):
            for position in positions:
                matching[position].append(index)
        keys = [tuple(indices) for indices in matching]
        verdicts = {
            key: self._verdict(key, server.tags, enabled=server.enabled) for key in set(keys)
        }
        return [verdicts[key] for key in keys]

    def _verdict(
        self, matching: Sequence[int], own_tags: Sequence[str], *, enabled: bool
    ) -> Verdict:
        """Compute a verdict.

        Args:
            matching: The indices of the rules that match, in order.
            own_tags: The tags of the server, which come first.
            enabled: Whether the server is enabled.
        """
        tag_lists = (self._rules[index].tags for index in matching)
        tags = tuple(dict.fromkeys(chain(own_tags, *tag_lists)))
        if not enabled:
            return Verdict(False, tags, "server")
        for index in matching:
            if (decision := self._rules[index].enabled) is not None:
                return Verdict(decision, tags, "rule", index)
        return Verdict(False, tags, "whitelist") if self._is_whitelist else Verdict(True, tags)

    def _explanation(
        self, selections: Sequence[Selection], own_tags: Sequence[str], *, enabled: bool
    ) -> RuleExplanation:
        """Explain the verdict on one item; `selections` are those of all rules, in order."""
        matching = [at for at, selection in enumerate(selections) if self._taken(at, selection)]
        verdict = self._verdict(matching, own_tags, enabled=enabled)
        steps: list[Step] = []
        earlier_tags = set(own_tags)
        for index, (rule, selection) in enumerate(zip(self._rules, selections, strict=True)):
            matched = index in matching
            tags = tuple(t for t in dict.fromkeys(rule.tags) if matched and t not in earlier_tags)
            earlier_tags.update(tags)
            decided = index == verdict.rule
            steps.append(Step(index, rule, matched, decided, bool(selection.slow), tags))
        sentence = describe(verdict, self._rules, subject=self._subject)
        return RuleExplanation(verdict, tuple(steps), sentence)

    def _note_slow(self, index: int, matcher: PatternMatcher) -> None:
        """Record the patterns of a rule that timed out in a matcher, and clear them there."""
        for pattern, name in matcher.cut_off:
            self._problems.setdefault((index, pattern.text), self._problem(index, pattern, name))
        matcher.cut_off.clear()

    def _problem(self, index: int, pattern: Pattern, name: str) -> Diagnostic:
        rule = self._rules[index]
        taken = "a match, since the rule disables" if rule.enabled is False else "no match"
        return Diagnostic(
            "RULE_PATTERN_SLOW",
            f"pattern {pattern.text!r} was too slow on {name!r} and cut off: taken as {taken}",
            "write it as a glob, or without a repetition inside a repetition",
            f"{self._path}.{index}",
            rule.origin,
        )


class ToolRules(_RuleEvaluator):
    """Judges tools, those of one server at a time."""

    def __init__(self, rules: Sequence[Rule], *, limit: TimeLimit = DEFAULT_LIMIT) -> None:
        """Compile the rules.

        Raises:
            PatternError: For the first pattern that cannot be used.
        """
        super().__init__(rules, "toolRules", "tool", limit)
        self._conditions = [ToolCondition.of(rule) for rule in rules]

    def verdicts(self, tools: Sequence[Tool], server: Verdict) -> list[Verdict]:
        """Return the verdict on each of one server's tools, in order.

        `server` is the verdict on their server: its tags come first, and if it is disabled, so are
        the tools.
        """
        return self._verdicts(len(tools), self.matches(tools), server)

    def matches(self, tools: Sequence[Tool]) -> Iterator[Positions]:
        """Yield, for each rule in order, the positions of the tools of one server it matches."""
        for index, selection in enumerate(self._selections(tools)):
            yield self._taken(index, selection)

    def explain(self, tool: Tool, server: Verdict) -> RuleExplanation:
        """Explain the verdict on one tool, with the part of each rule in it."""
        selections = list(self._selections([tool]))
        return self._explanation(selections, server.tags, enabled=server.enabled)

    def _selections(self, tools: Sequence[Tool]) -> Iterator[Selection]:
        matcher = PatternMatcher(self._limit)
        batch = ToolBatch(tools, [tool.given_name for tool in tools], matcher)
        renamed = None
        if any(tool.overridden.name for tool in tools):
            renamed = ToolBatch(tools, [tool.name for tool in tools], matcher)
        for index, condition in enumerate(self._conditions):
            selection = condition.select(batch)
            if renamed and self._rules[index].enabled is not True:
                selection = any_of([selection, condition.select(renamed)])
            yield selection
            self._note_slow(index, matcher)


class OfferingRules(_RuleEvaluator):
    """Judges resources (with templates) or prompts, those of one server at a time."""

    def __init__(
        self,
        rules: Sequence[Rule],
        subject: Literal["resource", "prompt"],
        *,
        limit: TimeLimit = DEFAULT_LIMIT,
    ) -> None:
        """Compile the rules.

        Raises:
            PatternError: For the first pattern that cannot be used.
        """
        super().__init__(rules, f"{subject}Rules", subject, limit)
        self._conditions = [OfferingCondition.of(rule) for rule in rules]

    def verdicts(self, offerings: Sequence[Offering], server: Verdict) -> list[Verdict]:
        """Return the verdict on each of one server's offerings; see `ToolRules.verdicts`."""
        return self._verdicts(len(offerings), self.matches(offerings, server), server)

    def matches(self, offerings: Sequence[Offering], server: Verdict) -> Iterator[Positions]:
        """Yield the positions that each rule matches; see `ToolRules.matches`."""
        for index, selection in enumerate(self._selections(offerings, server)):
            yield self._taken(index, selection)

    def explain(self, offering: Offering, server: Verdict) -> RuleExplanation:
        """Explain the verdict on one offering; see `ToolRules.explain`."""
        selections = list(self._selections([offering], server))
        return self._explanation(selections, server.tags, enabled=server.enabled)

    def _selections(self, offerings: Sequence[Offering], server: Verdict) -> Iterator[Selection]:
        matcher = PatternMatcher(self._limit)
        batch = OfferingBatch(offerings, server.tags, matcher)
        for index, condition in enumerate(self._conditions):
            yield condition.select(batch)
            self._note_slow(index, matcher)


class ServerRules(_RuleEvaluator):
    """Judges servers by their names and their own tags."""

    def __init__(self, rules: Sequence[Rule], *, limit: TimeLimit = DEFAULT_LIMIT) -> None:
        """Compile the rules.

        Raises:
            PatternError: For the first pattern that cannot be used.
        """
        super().__init__(rules, "serverRules", "server", limit)
        self._conditions = [ServerCondition.of(rule) for rule in rules]

    def verdict(
        self,
        name: ServerName,
        own_tags: Sequence[str],
        enabled: bool,  # noqa: FBT001 - not a switch: the value of the server's entry
    ) -> Verdict:
        """Return the verdict on a server; `enabled: false` in its entry is final."""
        return self.explain(name, own_tags, enabled).verdict

    def explain(
        self,
        name: ServerName,
        own_tags: Sequence[str],
        enabled: bool,  # noqa: FBT001 - likewise
    ) -> RuleExplanation:
        """Explain the verdict on a server, with the part of each rule in it."""
        selections = list(self._selections(name, own_tags))
        return self._explanation(selections, own_tags, enabled=enabled)

    def _selections(self, name: ServerName, own_tags: Sequence[str]) -> Iterator[Selection]:
        matcher = PatternMatcher(self._limit)
        server = ServerTarget(name, own_tags, matcher)
        for index, condition in enumerate(self._conditions):
            yield condition.select(server)
            self._note_slow(index, matcher)
