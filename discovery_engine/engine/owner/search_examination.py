"""A search with all that its owner may know of it: what it finds, what is hidden, and by what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine.rules.rule import describe
from discovery_engine.view.scope import ScopedViews, named_scope

if TYPE_CHECKING:
    from discovery_engine.catalog import Entry
    from discovery_engine.rules.rule import Rule
    from discovery_engine.search.embedders import Vector
    from discovery_engine.search.ranking.relevance import Hit
    from discovery_engine.view.search_answers import SearchAnswer
    from discovery_engine.view.view import View


class HiddenHit(Struct, frozen=True):
    """A tool that fits, and that agents do not see."""

    hit: Hit
    rank: int
    """Where it would be if nothing was hidden; 1 is the first."""
    reason: str
    """The reason why it is hidden, in a few words, with the place in the configuration."""
    rule: Rule | None = None
    """The rule that hides it; None if something else does."""
    view: str | None = None
    """The view that hides it; None if it is hidden without one, too."""


class SearchExamination(Struct, frozen=True):
    answer: SearchAnswer
    """The answer that an agent gets."""
    shown: View
    """The view that the agent sees."""
    hidden: tuple[HiddenHit, ...]
    """Tools that would be in the answer and are hidden, the best first."""


def hidden_hits(
    whole: View,
    visible: View,
    query: str,
    *,
    view: str | None,
    server: str | None,
    tags: Sequence[str],
    limit: int | None,
    vectors: Sequence[Vector],
) -> tuple[HiddenHit, ...]:
    """The tools that would be in the answer to a query if nothing was hidden.

    Args:
        whole: All there is.
        visible: What the agent sees that asks.
        query: What is asked.
        view: The view of the configuration that the agent is in; None for none.
        server: As for the search, and so are the others.
        tags: Only tools that carry all of these.
        limit: The most hits of the answer.
        vectors: Those of the query.
    """
    most = visible.settings.search.limit if limit is None else limit
    answer = whole.search_everything(
        query, server=server, tags=tags, limit=most, query_vectors=vectors
    )
    scoped = ScopedViews(named_scope(whole.settings, view)) if view is not None else None
    return tuple(_hidden(whole, answer.hits or answer.nearest, scoped))


def _hidden(whole: View, ranked: Sequence[Hit], scoped: ScopedViews | None) -> Iterator[HiddenHit]:
    for rank, hit in enumerate(ranked, 1):
        by_view = scoped.why_hidden(whole, hit.entry) if scoped else ""
        name = scoped.scope.name if scoped and by_view else None
        if not hit.entry.is_visible:
            reason, rule = _decider(whole, hit.entry)
            both = f"{reason}; in the view {name}: {by_view}" if by_view else reason
            yield HiddenHit(hit, rank, both, rule)
        elif scoped and by_view:
            yield HiddenHit(hit, rank, by_view, scoped.hiding_rule(whole, hit.entry), name)


def _decider(whole: View, entry: Entry) -> tuple[str, Rule | None]:
    """Return what hides a tool from all agents, and the rule if it is one."""
    verdict, rules = entry.verdict, whole.settings.tool_rules
    if verdict.reason != "server":
        return whole.reason(entry), None if verdict.rule is None else rules[verdict.rule]
    verdict, rules = whole.catalog.part(entry.tool.server).verdict, whole.settings.server_rules
    rule = None if verdict.rule is None else rules[verdict.rule]
    return describe(verdict, rules, subject="server"), rule
