"""The answer of `search_tools`, for one query or several."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine._util.text import clean, named, one_line, quoted
from discovery_engine.agent.budget import Budget, Item, Plan, first_fitting, shares
from discovery_engine.agent.feeds import Feed, feeds
from discovery_engine.agent.render.decision import match_item, no_match_items, unsure_item
from discovery_engine.agent.render.notice_text import notice_lines
from discovery_engine.agent.render.result import (
    left_out_note,
    line_variant,
    make_result,
    notices_budget,
    render_items,
)
from discovery_engine.agent.structured import search_fields
from discovery_engine.agent.tool_text import Detail, cut, hit_items
from discovery_engine.tools.model import ToolKey
from discovery_engine.tools.offering import OfferingKind
from discovery_engine.view.notices import Notice
from discovery_engine.view.search_answers import Decision, SearchAnswer

if TYPE_CHECKING:
    from discovery_engine.view.search_answers import OfferingHit

Names: TypeAlias = Mapping[ToolKey, str]
_NO_NAMES: Names = MappingProxyType({})
_MIN_BLOCK = 25  # tokens; an answer to one of several queries needs as many to name a tool
_FEEDS_SHARE = 5  # hints on what feeds what take at most a fifth of an answer
_QUERY = (60, 20)  # characters of a query that is repeated above its answer

_HEADINGS = (
    "ANSWER_NO_MATCH",
    "ANSWER_INCOMPLETE",
    "ANSWER_UNKNOWN",
    "ANSWER_NO_TOOLS",
    "CONFIG_NO_SERVERS",
    "CONFIG_SWITCHED_OFF",
)
"""An answer without a hit begins with these, so they are not repeated below it."""


def search_result(
    answer: SearchAnswer, budget: Budget, richest: Detail, names: Names = _NO_NAMES
) -> JSONObject:
    """The hits of one query; none in more detail than `richest`.

    A tool that is in `names` has that name in the text.
    """
    text = _render_answer(answer, answer.notices, budget, richest, names)
    return make_result(text, budget, search_fields(answer))


def searches_result(
    answers: Sequence[SearchAnswer], budget: Budget, richest: Detail, names: Names = _NO_NAMES
) -> JSONObject:
    """The hits of several queries, each below its query; equal notices are merged."""
    common = list(dict.fromkeys(n for answer in answers for n in answer.notices if n.server))
    notes = notice_lines(common, notices_budget(budget))
    rest = budget.less(*notes)
    hints = _feeds(answers)
    feed_lines = _feed_lines(hints, rest, names)
    if len(answers) * _MIN_BLOCK <= rest.less(*feed_lines).tokens:
        rest = rest.less(*feed_lines)
    else:
        feed_lines = []
    count = _answerable(len(answers), rest)
    left = [_more_queries(len(answers) - count, budget)] if count < len(answers) else []
    blocks = _blocks(answers[:count], rest.less(*left), richest, names)
    fields = [{"query": clean(answer.query), **search_fields(answer)} for answer in answers]
    members: JSONObject = {"answers": fields}
    if hints:
        members["feeds"] = [_feed_fields(hint) for hint in hints]
    return make_result("\n".join([*blocks, *left, *feed_lines, *notes]), budget, members)


def _feeds(answers: Sequence[SearchAnswer]) -> list[Feed]:
    """Return how the best tools of the queries feed one another; only matches count."""
    best = [a.hits[0].entry.tool for a in answers if a.decision is Decision.MATCH]
    return feeds(list({tool.key: tool for tool in best}.values()))


def _feed_lines(hints: Sequence[Feed], budget: Budget, names: Names) -> list[str]:
    """A line for each hint, in at most a fifth of the budget."""
    rest, lines = replace(budget, tokens=budget.tokens // _FEEDS_SHARE), []
    for hint in hints:
        source, target = (
            names.get(tool.key, tool.key.label) for tool in (hint.source, hint.target)
        )
        line = one_line(
            f"Hint: {source} {hint.path} -> {target} {named(hint.argument)} ({hint.reason})"
        )
        if rest.price(line) <= rest.tokens:
            lines.append(line)
            rest = rest.less(line)
    return lines


def _feed_fields(hint: Feed) -> JSONObject:
    return {
        "from": str(hint.source.key),
        "path": hint.path,
        "to": str(hint.target.key),
        "argument": hint.argument,
        "reason": clean(hint.reason),
    }


def _render_answer(
    answer: SearchAnswer,
    notices: Sequence[Notice],
    budget: Budget,
    richest: Detail,
    names: Names,
) -> str:
    """The decision and the hits of one query; without hits, the nearest tools."""
    offerings = offering_items(answer.offerings)
    others = [notice for notice in notices if notice.code not in _HEADINGS]
    if answer.decision is Decision.NONE and offerings:
        return render_items(offerings, others, budget, left_out_note(budget.more()))
    if answer.decision is Decision.NONE:
        return render_items(no_match_items(answer), others, budget, _no_note)
    head = match_item if answer.decision is Decision.MATCH else unsure_item
    items = [head(answer), *hit_items(answer.hits, richest, names), *offerings]
    return render_items(items, notices, budget, left_out_note(budget.more()))


def _answerable(queries: int, budget: Budget) -> int:
    """How many queries fit; if not all, one line counts the others."""
    if queries * _MIN_BLOCK <= budget.tokens:
        return queries
    return max(1, budget.less(_more_queries(queries, budget)).tokens // _MIN_BLOCK)


def _more_queries(count: int, budget: Budget) -> str:
    return f"{count} more {'query' if count == 1 else 'queries'}: {budget.more()}"


def _blocks(
    answers: Sequence[SearchAnswer], budget: Budget, richest: Detail, names: Names
) -> list[str]:
    """One text for each answer; tokens that one of them does not need go to the others."""
    endless = replace(budget, tokens=sys.maxsize)
    whole = [_block(answer, endless, richest, names).split("\n") for answer in answers]
    needs = [sum(map(budget.price, lines)) for lines in whole]
    parts = shares(budget.tokens, needs)
    return [
        _block(answer, replace(budget, tokens=part), richest, names)
        for answer, part in zip(answers, parts, strict=True)
    ]


def _block(answer: SearchAnswer, budget: Budget, richest: Detail, names: Names) -> str:
    heads = (f"{quoted(cut(answer.query, length))}:" for length in _QUERY)
    half = replace(budget, tokens=budget.tokens // 2)
    head = first_fitting((*heads, "…:"), half)
    own = [notice for notice in answer.notices if not notice.server]
    text = _render_answer(answer, own, budget.less(head), richest, names)
    return f"{head}\n{text}" if text else head


def _no_note(_: Plan) -> str:
    return ""


# Lines of resources and prompts that a search found, with how each is used.

_USES = {
    OfferingKind.RESOURCE: "resources/read",
    OfferingKind.TEMPLATE: "resources/read",
    OfferingKind.PROMPT: "prompts/get",
}


def offering_items(hits: Sequence[OfferingHit]) -> list[Item]:
    """Items for a plan, weighed as hits of tools are."""
    return [_item(hit, rank) for rank, hit in enumerate(hits, start=1)]


def _item(hit: OfferingHit, rank: int) -> Item:
    offering = hit.entry.offering
    head = f"{offering.kind.label} {_address(hit)}"
    use = f"{head} ({_USES[offering.kind]})"
    about = one_line(offering.summary or offering.name)
    whole = f"{use} - {about}" if about else use
    variants = (line_variant(head, 0.4), line_variant(use, 0.6), line_variant(whole, 1.0))
    return Item(hit.relevance / rank, variants)


def _address(hit: OfferingHit) -> str:
    """The address, in quotes if it has blanks; of a prompt with its arguments."""
    address = clean(hit.address, newlines=False)
    text = repr(address) if any(map(str.isspace, address)) else address
    if hit.entry.offering.kind is not OfferingKind.PROMPT:
        return text
    parameters = (
        named(p.name) + ("" if p.required else "?") for p in hit.entry.offering.parameters
    )
    return f"{text}({', '.join(parameters)})"
