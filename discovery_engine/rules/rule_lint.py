"""Finds rules without effect, by matching them against a catalog and comparing their patterns.

Its diagnostics are advice, and change no rule: the owner may have had another reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Literal, TypeAlias

from discovery_engine.errors import Diagnostic
from discovery_engine.rules.patterns import Positions
from discovery_engine.rules.rule import Rule, Subject, Verdict, rule_name
from discovery_engine.rules.ruleset import OfferingRules, ToolRules
from discovery_engine.tools.model import Tool
from discovery_engine.tools.offering import Offering

_Matches: TypeAlias = list[frozenset[tuple[str, str]]]
"""For each rule, the server and the decision key of everything that it matches."""


def lint_rules(rules: Sequence[Rule], tools: Iterable[Tool]) -> tuple[Diagnostic, ...]:
    """Return at most one diagnostic for each of `rules`, in their order.

    `tools` are all known tools, in any order; without any, the rules are only compared.

    Raises:
        PatternError: If a pattern is invalid or too large.
    """
    sorted_tools = sorted(tools, key=attrgetter("key"))
    compiled = ToolRules(rules)
    batches = [list(group) for _, group in groupby(sorted_tools, key=attrgetter("server"))]
    matches = _matches(len(rules), [(batch, compiled.matches(batch)) for batch in batches])
    return _findings(rules, matches, "tool", is_known=bool(sorted_tools))


def lint_offering_rules(
    rules: Sequence[Rule],
    subject: Literal["resource", "prompt"],
    offered: Iterable[tuple[Sequence[Offering], Verdict]],
) -> tuple[Diagnostic, ...]:
    """Check `resourceRules` or `promptRules`; see `lint_rules`.

    `offered` has the offerings of each server that these rules decide about, with the verdict on
    the server.

    Raises:
        PatternError: If a pattern is invalid or too large.
    """
    compiled = OfferingRules(rules, subject)
    batches = [(batch, compiled.matches(batch, server)) for batch, server in offered if batch]
    matches = _matches(len(rules), batches)
    return _findings(rules, matches, subject, is_known=bool(batches))


def _findings(
    rules: Sequence[Rule], matches: _Matches, subject: Subject, *, is_known: bool
) -> tuple[Diagnostic, ...]:
    findings = (
        _unmatched(index, rules, subject)
        if is_known and not matches[index] and not _is_precaution(rule)
        else _needless(index, rules, matches, subject)
        for index, rule in enumerate(rules)
    )
    return tuple(finding for finding in findings if finding)


def _is_precaution(rule: Rule) -> bool:
    """Return whether a rule disables future tools of any server, by `*word*` or by annotations.

    Such a rule matches nothing yet, and that is no misspelling.
    """
    is_wide = all(pattern.startswith("*") and pattern.endswith("*") for pattern in rule.patterns)
    return rule.enabled is False and is_wide and not rule.servers


def _matches(
    count: int, batches: Iterable[tuple[Sequence[Tool | Offering], Iterable[Positions]]]
) -> _Matches:
    """Return, for each of `count` rules, what it matches in the batches, one for each server."""
    matches: list[set[tuple[str, str]]] = [set() for _ in range(count)]
    for batch, selected in batches:
        for keys, positions in zip(matches, selected, strict=True):
            keys.update((batch[at].server, batch[at].decision_key) for at in positions)
    return [frozenset(keys) for keys in matches]


def _unmatched(index: int, rules: Sequence[Rule], subject: Subject) -> Diagnostic:
    return Diagnostic(
        "RULE_UNMATCHED",
        f"{rule_name(index, rules)} matches no {subject} of the catalog",
        "check how it is spelled, and whether its server has been listed",
        f"{subject}Rules.{index}",
        rules[index].origin,
    )


def _needless(
    index: int, rules: Sequence[Rule], matches: _Matches, subject: Subject
) -> Diagnostic | None:
    name, path = rule_name(index, rules), f"{subject}Rules.{index}"
    if broader := list(_broader(index, rules)):
        return _shadowed(index, broader[:1], rules, f"{name} can never decide", path)
    deciding = _deciding_before(index, rules, matches)
    is_opposed = any(rules[other].enabled for other in deciding)
    if deciding and (is_opposed or not _is_precaution(rules[index])):
        return _shadowed(index, deciding, rules, f"{name} decides nothing in this catalog", path)
    return None


def _shadowed(
    index: int, earlier: Sequence[int], rules: Sequence[Rule], claim: str, path: str
) -> Diagnostic:
    rule = rules[index]
    opposed = any(rules[other].enabled is not rule.enabled for other in earlier)
    names = " and ".join(rule_name(other, rules) for other in earlier)
    if whose := rule.origin.client:
        changed = f"change it in that file of {whose}"
        hint = (
            f"{changed}, or {rule_name(earlier[0], rules)}"
            if opposed
            else f"{changed}, or leave it"
        )
    elif opposed:
        hint = f"move it before {rule_name(earlier[0], rules)}, or remove it"
    else:
        effect = "its `visibleTo` holds" if rule.visible_to else "its tags hold"
        is_needed = rule.tags or rule.visible_to
        hint = f"leave out its `enabled`; {effect} anyway" if is_needed else "remove it"
    return Diagnostic(
        "RULE_CONTRADICTED" if opposed else "RULE_SHADOWED",
        f"{claim}: what it matches is decided by {names}" + (", the other way" if opposed else ""),
        hint,
        path,
        rule.origin,
    )


def _deciding_before(index: int, rules: Sequence[Rule], matches: _Matches) -> list[int]:
    """Return the earlier rules that decide all matches of a rule; empty if it decides any."""
    left = matches[index]
    deciding = []
    for other in range(index if rules[index].enabled is not None else 0):
        if rules[other].enabled is not None and left & matches[other]:
            deciding.append(other)
            left -= matches[other]
    return [] if left else deciding


def _broader(index: int, rules: Sequence[Rule]) -> Iterator[int]:
    """Yield the earlier rules that decide everything a rule can match, in any catalog."""
    rule = rules[index]
    for other in range(index if rule.enabled is not None else 0):
        earlier = rules[other]
        if (
            earlier.enabled is not None
            and _is_as_broad(earlier.patterns, rule.patterns)
            and _is_as_broad(earlier.servers, rule.servers)
            and _is_as_broad(earlier.has_tags, rule.has_tags)
            and earlier.annotations.items() <= rule.annotations.items()
        ):
            yield other


def _is_as_broad(earlier: Sequence[str], later: Sequence[str]) -> bool:
    """Return whether one list of patterns covers another, as far as comparing texts can tell."""
    positive, negated = _split(earlier)
    later_positive, later_negated = _split(later)
    matches_all = not positive or "*" in positive
    covers = matches_all or bool(later_positive and later_positive <= positive)
    return covers and negated <= later_negated


def _split(patterns: Sequence[str]) -> tuple[set[str], set[str]]:
    negated = {pattern for pattern in patterns if pattern.startswith("!")}
    return set(patterns) - negated, negated
