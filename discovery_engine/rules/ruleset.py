"""The rules of a configuration at work: verdicts on tools and on servers, and why.

The first rule that matches and says `enabled` decides; tags come from every rule that matches. If
any rule enables, what no rule decides is disabled. Where a pattern is too slow to tell, a rule
that disables is taken to match and any other is not: in doubt, a tool stays disabled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Literal

from discovery_engine.errors import Problem
from discovery_engine.rules.conditions import (
    LoneServer,
    Searches,
    ServerCondition,
    ToolBatch,
    ToolCondition,
)
from discovery_engine.rules.explanation import Explanation, Step, Subject, describe
from discovery_engine.rules.names import Positions
from discovery_engine.rules.patterns import Pattern
from discovery_engine.rules.regexes import DEFAULT_LIMIT, Selection, TimeLimit
from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.tools import ServerName, Tool


class ToolRules:
    """Judges tools, those of one server at a time."""

    def __init__(self, rules: Sequence[Rule], *, limit: TimeLimit = DEFAULT_LIMIT) -> None:
        """Compile the rules.

        Raises:
            PatternError: For the first pattern that cannot be used.
        """
        self._rules = tuple(rules)
        self._conditions = [ToolCondition.of(rule) for rule in rules]
        self._limit = limit
        self._slow = _SlowPatterns("toolRules", self._rules)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The patterns that were too slow so far, each once."""
        return self._slow.problems

    def verdicts(self, tools: Sequence[Tool], server: Verdict) -> list[Verdict]:
        """The verdict on each of one server's tools; `server` is the one on the server.

        Tags begin with the server's. The tools of a disabled server are disabled.
        """
        matched = [0] * len(tools)  # for each tool, the rules that match it as bits of a number
        for index, positions in enumerate(self.matches(tools)):
            bit = 1 << index
            for position in positions:
                matched[position] |= bit
        verdicts = {bits: self._judge(_indices(bits), server) for bits in set(matched)}
        return [verdicts[bits] for bits in matched]

    def matches(self, tools: Sequence[Tool]) -> Iterator[Positions]:
        """For each rule in turn, the positions of those of one server's tools that it matches."""
        for rule, selection in zip(self._rules, self._selections(tools), strict=True):
            yield _taken(rule, selection)

    def explain(self, tool: Tool, server: Verdict) -> Explanation:
        """The verdict on one tool, with the part that each rule had in it."""
        selections = list(self._selections([tool]))
        verdict = self._judge(_matching(self._rules, selections), server)
        return _explanation(verdict, self._rules, selections, server.tags, "tool")

    def _selections(self, tools: Sequence[Tool]) -> Iterator[Selection]:
        searches = Searches(self._limit)
        batch = ToolBatch(tools, searches)
        for index, condition in enumerate(self._conditions):
            yield condition.select(batch)
            self._slow.note(index, searches)

    def _judge(self, matching: Sequence[int], server: Verdict) -> Verdict:
        verdict = _judge(self._rules, matching, server.tags)
        return verdict if server.enabled else Verdict(False, verdict.tags, "server")


class ServerRules:
    """Judges servers by their names and their own tags."""

    def __init__(self, rules: Sequence[Rule], *, limit: TimeLimit = DEFAULT_LIMIT) -> None:
        """Compile the rules.

        Raises:
            PatternError: For the first pattern that cannot be used.
        """
        self._rules = tuple(rules)
        self._conditions = [ServerCondition.of(rule) for rule in rules]
        self._limit = limit
        self._slow = _SlowPatterns("serverRules", self._rules)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The patterns that were too slow so far, each once."""
        return self._slow.problems

    def verdict(
        self,
        name: ServerName,
        own_tags: Sequence[str],
        enabled: bool,  # noqa: FBT001 - not a switch: what the server's entry says
    ) -> Verdict:
        """The verdict on a server; `enabled: false` in its own entry is final."""
        return self.explain(name, own_tags, enabled).verdict

    def explain(
        self,
        name: ServerName,
        own_tags: Sequence[str],
        enabled: bool,  # noqa: FBT001 - not a switch: what the server's entry says
    ) -> Explanation:
        """The verdict on a server, with the part that each rule had in it."""
        selections = list(self._selections(name, own_tags))
        verdict = _judge(self._rules, _matching(self._rules, selections), own_tags)
        if not enabled:
            verdict = Verdict(False, verdict.tags, "server")
        return _explanation(verdict, self._rules, selections, own_tags, "server")

    def _selections(self, name: ServerName, own_tags: Sequence[str]) -> Iterator[Selection]:
        searches = Searches(self._limit)
        server = LoneServer(name, own_tags, searches)
        for index, condition in enumerate(self._conditions):
            yield condition.select(server)
            self._slow.note(index, searches)


class _SlowPatterns:
    """What was too slow in one list of rules, each pattern once."""

    def __init__(self, path: Literal["toolRules", "serverRules"], rules: Sequence[Rule]) -> None:
        self._path = path
        self._rules = rules
        self._problems: dict[tuple[int, str], Problem] = {}

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(self._problems.values())

    def note(self, index: int, searches: Searches) -> None:
        for pattern, name in searches.cut_off:
            self._problems.setdefault((index, pattern.text), self._problem(index, pattern, name))
        searches.cut_off.clear()

    def _problem(self, index: int, pattern: Pattern, name: str) -> Problem:
        rule = self._rules[index]
        taken = "as a match, since the rule disables" if rule.enabled is False else "as no match"
        return Problem(
            rule.origin,
            f"{self._path}.{index}",
            f"pattern {pattern.text!r} was too slow on {name!r} and cut off; this counts {taken}",
            "write it as a glob, or without a repetition inside a repetition",
        )


def _taken(rule: Rule, selection: Selection) -> Positions:
    return selection.hits | selection.slow if rule.enabled is False else selection.hits


def _matching(rules: Sequence[Rule], selections: Iterable[Selection]) -> list[int]:
    """The rules that matched, where there was one thing to select."""
    pairs = enumerate(zip(rules, selections, strict=True))
    return [index for index, (rule, selection) in pairs if _taken(rule, selection)]


def _indices(bits: int) -> list[int]:
    return [index for index, bit in enumerate(reversed(f"{bits:b}")) if bit == "1"]


def _judge(rules: Sequence[Rule], matching: Sequence[int], own_tags: Sequence[str]) -> Verdict:
    """Where the language of rules is decided: `matching` are the rules that match, in order."""
    tags = tuple(dict.fromkeys(chain(own_tags, *(rules[index].tags for index in matching))))
    for index in matching:
        if (enabled := rules[index].enabled) is not None:
            return Verdict(enabled, tags, "rule", index)
    if any(rule.enabled for rule in rules):
        return Verdict(False, tags, "whitelist")
    return Verdict(True, tags)


def _explanation(
    verdict: Verdict,
    rules: Sequence[Rule],
    selections: Sequence[Selection],
    own_tags: Sequence[str],
    subject: Subject,
) -> Explanation:
    steps: list[Step] = []
    given = set(own_tags)
    for index, (rule, selection) in enumerate(zip(rules, selections, strict=True)):
        matched = bool(_taken(rule, selection))
        tags = tuple(t for t in dict.fromkeys(rule.tags) if matched and t not in given)
        given.update(tags)
        decided = index == verdict.rule
        steps.append(Step(index, rule, matched, decided, bool(selection.slow), tags))
    return Explanation(verdict, tuple(steps), describe(verdict, rules, subject=subject))
