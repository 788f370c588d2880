"""Rules that do nothing: found by trying them on a catalog, and by comparing what they ask.

A diagnostic is advice. The rules hold as they are written; the owner may have meant something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TypeAlias

from discovery_engine.diagnostics import Diagnostic
from discovery_engine.rules.rule import Rule
from discovery_engine.rules.rule_explanation import rule_name
from discovery_engine.rules.ruleset import ToolRules
from discovery_engine.tools.model import Tool, ToolKey

_Matches: TypeAlias = list[frozenset[ToolKey]]


def lint_rules(rules: Sequence[Rule], tools: Iterable[Tool]) -> tuple[Diagnostic, ...]:
    """At most one diagnostic for each of `rules`, in their order.

    `tools` are all that are known, in any order; without any, only the rules are compared.

    Raises:
        PatternError: If a pattern cannot be used.
    """
    known = sorted(tools, key=attrgetter("key"))
    matches = _matches(rules, known)
    found = (
        _unmatched(index, rules)
        if known and not matches[index]
        else _needless(index, rules, matches)
        for index in range(len(rules))
    )
    return tuple(finding for finding in found if finding)


def _matches(rules: Sequence[Rule], tools: Sequence[Tool]) -> _Matches:
    """For each rule, which of the tools it matches; they come server by server."""
    compiled = ToolRules(rules)
    matches: list[set[ToolKey]] = [set() for _ in rules]
    for _, group in groupby(tools, key=attrgetter("server")):
        batch = list(group)
        for keys, positions in zip(matches, compiled.matches(batch), strict=True):
            keys.update(batch[position].key for position in positions)
    return [frozenset(keys) for keys in matches]


def _unmatched(index: int, rules: Sequence[Rule]) -> Diagnostic:
    return Diagnostic(
        "RULE_UNMATCHED",
        f"{rule_name(index, rules)} matches no tool of the catalog",
        "check how it is spelled, and whether its server has been listed",
        f"toolRules.{index}",
        rules[index].origin,
    )


def _needless(index: int, rules: Sequence[Rule], matches: _Matches) -> Diagnostic | None:
    name = rule_name(index, rules)
    if broader := list(_broader(index, rules)):
        return _shadowed(index, broader[:1], rules, f"{name} can never decide")
    if deciding := _deciding_before(index, rules, matches):
        return _shadowed(index, deciding, rules, f"{name} decides nothing in this catalog")
    return None


def _shadowed(index: int, earlier: Sequence[int], rules: Sequence[Rule], claim: str) -> Diagnostic:
    rule = rules[index]
    opposed = any(rules[other].enabled is not rule.enabled for other in earlier)
    names = " and ".join(rule_name(other, rules) for other in earlier)
    if opposed:
        hint = f"move it before {rule_name(earlier[0], rules)}, or remove it"
    else:
        hint = "leave out its `enabled`; its tags hold anyway" if rule.tags else "remove it"
    return Diagnostic(
        "RULE_CONTRADICTED" if opposed else "RULE_SHADOWED",
        f"{claim}: what it matches is decided by {names}" + (", the other way" if opposed else ""),
        hint,
        f"toolRules.{index}",
        rule.origin,
    )


def _deciding_before(index: int, rules: Sequence[Rule], matches: _Matches) -> list[int]:
    """The earlier rules that decide all that a rule matches; none if it decides something."""
    left = matches[index]
    deciding = []
    for other in range(index if rules[index].enabled is not None else 0):
        if rules[other].enabled is not None and left & matches[other]:
            deciding.append(other)
            left -= matches[other]
    return [] if left else deciding


def _broader(index: int, rules: Sequence[Rule]) -> Iterator[int]:
    """The earlier rules that decide all that a rule can match in any catalog."""
    rule = rules[index]
    for other in range(index if rule.enabled is not None else 0):
        earlier = rules[other]
        if (
            earlier.enabled is not None
            and _is_as_broad(earlier.patterns, rule.patterns)
            and _is_as_broad(earlier.servers, rule.servers)
            and earlier.annotations.items() <= rule.annotations.items()
        ):
            yield other


def _is_as_broad(earlier: Sequence[str], later: Sequence[str]) -> bool:
    """Whether a list matches all that another does, as far as their texts show it."""
    positive, negated = _split(earlier)
    later_positive, later_negated = _split(later)
    matches_all = not positive or "*" in positive
    covers = matches_all or bool(later_positive and later_positive <= positive)
    return covers and negated <= later_negated


def _split(patterns: Sequence[str]) -> tuple[set[str], set[str]]:
    negated = {pattern for pattern in patterns if pattern.startswith("!")}
    return set(patterns) - negated, negated
