"""Answers of a search, and the hits in them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import to_builtins

from discovery_engine.engine.json_forms.notice_form import notice_forms
from discovery_engine.engine.json_forms.offering_form import offering_form
from discovery_engine.engine.json_forms.tool_form import tool_form

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.engine.owner.search_examination import SearchExamination
    from discovery_engine.rules.rule import Rule
    from discovery_engine.search.query.analyzed_query import AnalyzedQuery
    from discovery_engine.search.ranking.hit import Hit
    from discovery_engine.view.search_answers import SearchAnswer
    from discovery_engine.view.view import View


def search_form(
    answer: SearchAnswer, view: View, *, explain: bool = False, is_owner: bool = False
) -> JSONObject:
    """An answer; with `explain`, each hit with what the words of the query add to it.

    The requests that a tool serves are for its owner alone.
    """
    form_of = hit_form
    if explain:
        query = view.searcher.analyze(answer.query)
        form_of = partial(explained_form, query=query, is_owner=is_owner)
    return {
        "query": answer.query,
        "decision": str(answer.decision),
        "confidence": answer.confidence,
        "certainty": answer.certainty,
        "results": [form_of(hit, view) for hit in answer.hits],
        "offerings": [
            offering_form(hit.entry, view) | {"relevance": hit.relevance}
            for hit in answer.offerings
        ],
        "alternatives": to_builtins(answer.alternatives),
        "nearest": [form_of(hit, view) for hit in answer.nearest],
        "uncovered": list(answer.uncovered),
        "undone": list(answer.undone),
        "notices": notice_forms(answer.notices),
    }


def examination_form(found: SearchExamination, whole: View) -> JSONObject:
    """An answer with all that its owner may know of it; `whole` has what is hidden."""
    query = whole.searcher.analyze(found.answer.query)
    least = found.shown.settings.search.min_confidence
    return search_form(found.answer, found.shown, explain=True, is_owner=True) | {
        "thresholds": {"shown": least, "match": max(least, found.answer.least_match)},
        "hidden": [
            explained_form(hidden_hit.hit, whole, query)
            | {
                "rank": hidden_hit.rank,
                "hidden_by": hidden_hit.reason,
                "view": hidden_hit.view,
                "rule": _rule_form(hidden_hit.rule) if hidden_hit.rule else None,
            }
            for hidden_hit in found.hidden
        ],
    }


def _rule_form(rule: Rule) -> JSONObject:
    origin = rule.origin
    return {
        "patterns": list(rule.patterns),
        "enabled": rule.enabled,
        "file": origin.file or None,
        "line": origin.line or None,
        "column": origin.column or None,
    }


def hit_form(hit: Hit, view: View) -> JSONObject:
    parts = hit.parts
    return tool_form(hit.entry, view) | {
        "relevance": hit.relevance,
        "parts": {
            "exact": parts.exact,
            "partial": parts.partial,
            "tag": parts.tag,
            "usage": parts.usage,
        },
    }


def explained_form(
    hit: Hit, view: View, query: AnalyzedQuery, *, is_owner: bool = False
) -> JSONObject:
    """A hit with the contribution of each word of the query to its relevance."""
    explanation = view.searcher.explain(query, hit)
    shares = [
        {
            "reason": str(share.reason),
            "word": share.word,
            "tool_word": share.tool_word,
            "field": share.field,
            "weight": share.weight,
            "adds": share.adds,
            "text": str(share),
        }
        for share in explanation.shares
    ]
    form: JSONObject = {"shares": shares, "uncovered": list(explanation.uncovered)}
    if is_owner:
        form["request"] = explanation.request
    return hit_form(hit, view) | {"explanation": form}
