"""Examinations of a search for the owner: its answer, the hidden tools, and what hides them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine.rules.rule import describe
from discovery_engine.view.scope import Scope, ScopedViews, named_scope

if TYPE_CHECKING:
    from discovery_engine.catalog import Entry
    from discovery_engine.rules.rule import Rule
    from discovery_engine.search.embedders import Vector
    from discovery_engine.search.ranking.relevance import Hit
    from discovery_engine.view.search_answers import SearchAnswer
    from discovery_engine.view.view import View


class HiddenHit(Struct, frozen=True):
    """A tool that fits the query, and that is hidden from agents."""

    hit: Hit
    rank: int
    """Its rank among all tools if none was hidden; 1 is the best."""
    reason: str
    """The reason why it is hidden, in a few words, with its place in the configuration."""
    rule: Rule | None = None
    """The rule that hides it; None if something else does."""
    view: str | None = None
    """The name of the view that hides it; None if it is hidden without a view, too."""


class SearchExamination(Struct, frozen=True):
    answer: SearchAnswer
    """The answer that an agent gets."""
    shown: View
    """The view that the agent sees."""
    hidden: tuple[HiddenHit, ...]
    """Hidden tools that would otherwise be in the answer, the best first."""


def hidden_hits(
    whole: View,
    query: str,
    *,
    view: str | None,
    principal: str | None,
    server: str | None,
    tags: Sequence[str],
    limit: int,
    vectors: Sequence[Vector],
) -> tuple[HiddenHit, ...]:
    """Return the hidden tools that would otherwise be in the answer to a query, the best first.

    Args:
        whole: The view of everything.
        query: The text of the search.
        view: The name of the view in the configuration that the agent has; None for none.
        principal: The team or user that the agent stands for; None for the owner.
        server: The only server to search; None for all.
        tags: Only tools that carry all of these.
        limit: The most hits of the answer.
        vectors: The vectors of the query.
    """
    answer = whole.search_everything(
        query, server=server, tags=tags, limit=limit, query_vectors=vectors
    )
    scoped = ScopedViews(named_scope(whole.settings, view)) if view is not None else None
    principals = frozenset([principal]) if principal is not None else frozenset()
    scope = Scope() if principal is None else Scope.of_principals(whole.settings, principals)
    return tuple(_hidden(whole, answer.hits or answer.nearest, scoped, ScopedViews(scope)))


def _hidden(
    whole: View, ranked: Sequence[Hit], scoped: ScopedViews | None, reserved: ScopedViews
) -> Iterator[HiddenHit]:
    for rank, hit in enumerate(ranked, 1):
        by_view = scoped.why_hidden(whole, hit.entry) if scoped else ""
        name = scoped.scope.name if scoped and by_view else None
        if not hit.entry.is_visible:
            reason, rule = _decider(whole, hit.entry)
            both = f"{reason}; in the view {name}: {by_view}" if by_view else reason
            yield HiddenHit(hit, rank, both, rule)
        elif scoped and by_view:
            yield HiddenHit(hit, rank, by_view, scoped.hiding_rule(whole, hit.entry), name)
        elif reserved.why_hidden(whole, hit.entry):
            yield HiddenHit(hit, rank, "visibleTo reserves it for others")


def _decider(whole: View, entry: Entry) -> tuple[str, Rule | None]:
    """Return the reason why a tool is hidden from all agents, and its rule, if it is a rule."""
    verdict, rules = entry.verdict, whole.settings.tool_rules
    if verdict.reason != "server":
        return whole.reason(entry), None if verdict.rule is None else rules[verdict.rule]
    verdict, rules = whole.catalog.part(entry.tool.server).verdict, whole.settings.server_rules
    rule = None if verdict.rule is None else rules[verdict.rule]
    return describe(verdict, rules, subject="server"), rule
