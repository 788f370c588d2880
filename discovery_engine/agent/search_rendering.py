"""The answer of `search_tools`, for one query or several."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine._util.text import clean, cut, named, one_line, quoted
from discovery_engine.agent.answer_rendering import (
    left_out_note,
    line_variant,
    make_result,
    notice_lines,
    notices_budget,
    render_items,
    search_fields,
)
from discovery_engine.agent.budget import Budget, Item, Plan, first_fitting, shares
from discovery_engine.agent.cutting import member_path
from discovery_engine.agent.tool_text import Detail, hit_items
from discovery_engine.tools.model import Parameter, Tool, ToolKey
from discovery_engine.tools.offering import OfferingKind
from discovery_engine.view.notices import Notice
from discovery_engine.view.search_answers import Alternative, Decision, SearchAnswer

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
        return render_items(_no_match_items(answer), others, budget, _no_note)
    head = _match_item if answer.decision is Decision.MATCH else _unsure_item
    items = [head(answer), *hit_items(answer.hits, richest, names), *offerings]
    return render_items(items, notices, budget, left_out_note(budget.more()))


def _answerable(queries: int, budget: Budget) -> int:
    """Return the number of queries that fit; if not all do, one line counts the others."""
    if queries * _MIN_BLOCK <= budget.tokens:
        return queries
    return max(1, budget.less(_more_queries(queries, budget)).tokens // _MIN_BLOCK)


def _more_queries(count: int, budget: Budget) -> str:
    return f"{count} more {'query' if count == 1 else 'queries'}: {budget.more()}"


def _blocks(
    answers: Sequence[SearchAnswer], budget: Budget, richest: Detail, names: Names
) -> list[str]:
    """Return a text for each answer; tokens that one of them does not need go to the others."""
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
    OfferingKind.SKILL: "get_tool_details, or resources/read",
}


def offering_items(hits: Sequence[OfferingHit]) -> list[Item]:
    """Items for a plan, weighed as hits of tools are."""
    return [_item(hit, rank) for rank, hit in enumerate(hits, start=1)]


def _item(hit: OfferingHit, rank: int) -> Item:
    offering = hit.entry.offering
    is_skill = offering.kind is OfferingKind.SKILL
    head = f"{'how to: skill' if is_skill else offering.kind.label} {_address(hit)}"
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


#     github:list_issues structuredContent.issues[*].number -> github:get_issue issue_number
#
# A wrong hint costs a call, and a missing one nothing: so there is one only if the type and the
# format agree, and the names leave little doubt. A name of two words or more is the same in both,
# or the field's with the noun of its list before it (`issues[*].number` is an `issue_number`); a
# single word counts within one server, unless it is one that means something else in each tool
# (`name`). By chance two tools of different servers are hinted in 0.00 to 0.07 % of pairs of
# thirteen real catalogs (`benchmarks/steps.py`).

MOST = 3
"""Hints in one answer."""
_DEPTH = 3  # levels of an output schema
_FIELDS = 60  # of an output schema
_PAIRED = ("id", "number", "key", "slug", "name", "uri", "url", "path", "sha")
"""Fields that are named in full by the noun of what they belong to."""
# In one server as well these name another thing in each tool.
_VAGUE = frozenset(
    [
        "id",
        "name",
        "type",
        "kind",
        "query",
        "text",
        "content",
        "limit",
        "page",
        "offset",
        "cursor",
        "status",
        "state",
        "title",
        "value",
        "description",
        "message",
        "count",
        "total",
        "size",
        "data",
        "date",
        "result",
        "item",
        "format",
        "body",
        "code",
        "key",
        "url",
        "number",
        "start",
        "end",
        "enabled",
        "sort",
        "order",
        "first",
        "last",
        "next",
        "tag",
        "label",
    ]
)
_OWN = frozenset({"id", "key", "number", "slug"})
"""Fields that identify a thing within one server; in another server they mean another thing."""
_SECRET = frozenset({"token", "secret", "password", "credential", "authorization"})
_WORDS = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


class Feed(Struct, frozen=True):
    source: Tool
    path: str
    """The JMESPath expression of the field within the result."""
    target: Tool
    argument: str
    reason: str


class _OutputField(Struct, frozen=True):
    path: str
    name: str
    noun: str
    """The thing that it belongs to, for instance `issue` of `issues[*].number`; may be empty."""
    schema: JSONObject


def feeds(tools: Sequence[Tool]) -> list[Feed]:
    """The hints among `tools`, at most one for each argument."""
    best_hints = []
    for target in tools:
        for argument in target.parameters:
            sources = (source for source in tools if source.key != target.key)
            hints = (hint for source in sources if (hint := _hint(source, target, argument)))
            best_hints += [hint for hint in [next(hints, None)] if hint]
    return best_hints[:MOST]


def _hint(source: Tool, target: Tool, argument: Parameter) -> Feed | None:
    is_near = source.server == target.server
    for field in _fields(source):
        reason = _reason(field, argument, is_near=is_near)
        if reason:
            return Feed(source, field.path, target, argument.name, reason)
    return None


def _reason(field: _OutputField, argument: Parameter, *, is_near: bool) -> str:
    """The reason why the field fits the argument; empty if that is not sure."""
    kind = _kind(field.schema)
    formats = {field.schema.get("format"), argument.schema.get("format")} - {None}
    if not kind or kind != _kind(argument.schema) or len(formats) > 1:
        return ""
    own, target = _words(field.name), _words(argument.name)
    is_foreign = not is_near and target[-1:] and target[-1] in _OWN
    if is_foreign or _SECRET & set(target) or target == ("api", "key"):
        return ""
    if own == target and (len(own) > 1 or (is_near and not _VAGUE & set(own))):
        return f"same name, {kind}"
    if field.name in _PAIRED and field.noun and (*_words(field.noun), *own) == target:
        return f"{field.name} of {field.noun}, {kind}"
    return ""


def _kind(schema: JSONObject) -> str:
    """The one type of a schema that a reference can carry; empty if it has several or none."""
    kind = schema.get("type")
    return kind if kind in ("string", "integer", "number") else ""


@lru_cache(maxsize=1000)
def _fields(tool: Tool) -> tuple[_OutputField, ...]:
    schema = tool.definition.get("outputSchema")
    fields = _walk(schema, "structuredContent", "", _DEPTH)
    return tuple(field for field, _ in zip(fields, range(_FIELDS), strict=False))


def _walk(schema: JSONValue, path: str, noun: str, depth: int) -> Iterator[_OutputField]:
    match schema:
        case {"properties": dict(members)} if depth:
            for name, member in members.items():
                inner = member_path(path, name)
                if isinstance(member, dict):
                    yield _OutputField(inner, name, noun, member)
                    yield from _walk(member, inner, name, depth - 1)
        case {"items": dict(item)} if depth:
            yield from _walk(item, f"{path}[*]", _singular(noun), depth)


def _words(name: str) -> tuple[str, ...]:
    return tuple(_singular(word.lower()) for word in _WORDS.findall(name))


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:  # noqa: PLR2004 - "series", "ties" stay words
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


# The text of an answer without a match is worded so that no reader takes its tools for one.

_WEIGHT = 10.0  # above every hit: the certainty is read before the first of them
_NEAREST = 0.5
_NEAREST_ARE = "Nearest, but unlikely to fit:"
_MOST_UNCOVERED_WORDS = 6  # words of the query that are named as uncovered
_NOTHING_THERE = (
    "ANSWER_UNKNOWN",
    "ANSWER_NO_TOOLS",
    "CONFIG_NO_SERVERS",
    "CONFIG_SWITCHED_OFF",
)
_CHECK = "Unsure: these are only the nearest tools. Check before calling."
_ADVICE = "Ask again with verb, object and product, in English, such as 'create issue github'."


def _no_match_items(answer: SearchAnswer) -> list[Item]:
    """No tool fits, or servers are missing: the words without a match, and the nearest tools."""
    if nothing := _nothing_to_search(answer):
        return [Item(_WEIGHT, tuple(line_variant(*variant) for variant in nothing))]
    if missing_servers := _missing_servers(answer):
        head = Item(_WEIGHT, tuple(line_variant(*variant) for variant in missing_servers))
        return [head, *_nearest_items(answer)]
    missing = _uncovered(answer)
    why = f"No tool fits: none mentions {missing}." if missing else "No tool fits."
    heads = (("No tool fits.", 0.6), (why, 0.8), (_advised(why, answer), 1.0))
    head = Item(_WEIGHT, tuple(line_variant(*variant) for variant in heads))
    return [head, *_nearest_items(answer)]


def _nearest_items(answer: SearchAnswer) -> list[Item]:
    names = [hit.entry.tool.key.label for hit in answer.nearest]
    variants = tuple(
        line_variant(f"{_NEAREST_ARE} {', '.join(names[:count])}", count / len(names))
        for count in range(1, len(names) + 1)
    )
    return [Item(_NEAREST, variants)] if variants else []


def _missing_servers(answer: SearchAnswer) -> list[tuple[str, float]]:
    """The number of servers that the answer lacks, in short and in full; empty if it lacks none."""
    messages = [n.message for n in answer.notices if n.code == "ANSWER_INCOMPLETE"]
    if not messages:
        return []
    short, _, _ = messages[0].partition(";")
    return [(f"{short}.", 0.6), (f"{messages[0]}.", 1.0)]


def _nothing_to_search(answer: SearchAnswer) -> list[tuple[str, float]]:
    """That there is no tool to find, or none is known, in short and in full; empty if one is."""
    reasons = [n.message for n in answer.notices if n.code in _NOTHING_THERE]
    if not reasons:
        return []
    whole = f"{reasons[0][:1].upper()}{reasons[0][1:]}."
    short, colon, _ = whole.partition(": ")
    return [(f"{short}.", 0.6), (whole, 1.0)] if colon else [(whole, 1.0)]


def _unsure_item(answer: SearchAnswer) -> Item:
    """That the hits are to be checked first, and what none of them has."""
    verbs = " or ".join(answer.undone)
    server = named(answer.hits[0].entry.tool.server)
    undone = f"no tool of {server} seems to {verbs}" if verbs else ""
    elsewhere = f"the first is not of {named(answer.elsewhere)}" if answer.elsewhere else ""
    foreign = f"none of these is of {named(answer.product)}" if answer.product else ""
    about = f"the first is not about {answer.about!r}" if answer.about else ""
    missing = _uncovered(answer)
    scope = f"tool of {named(answer.uncovered_by)}" if answer.uncovered_by else "of these"
    lacking = f"{'no' if answer.uncovered_by else 'none'} {scope} mentions {missing}"
    reasons = "; ".join(
        filter(None, (elsewhere, foreign, about, undone, lacking if missing else ""))
    )
    whole = f"{_CHECK} {reasons[:1].upper()}{reasons[1:]}." if reasons else _CHECK
    heads = ((_CHECK, 0.6), (whole, 0.8), (_advised(whole, answer), 1.0))
    return Item(_WEIGHT, tuple(line_variant(*variant) for variant in heads))


def _advised(text: str, answer: SearchAnswer) -> str:
    """Add how to ask again, unless the query is of that form already."""
    return text if answer.is_order else f"{text} {_ADVICE}"


def _match_item(answer: SearchAnswer) -> Item:
    """The certainty of the match; if the first hits fit about equally, also what each alone has."""
    head = f"Match: {answer.certainty}."
    alike = answer.alternatives
    if not alike:
        return Item(_WEIGHT, (line_variant(head, 1.0),))
    sentence = f"{head} The first {len(alike)} fit equally well"
    only = "; ".join(filter(None, map(_peculiar, alike)))
    variants = (
        line_variant(head, 0.3),
        line_variant(f"{sentence}.", 0.6),
        line_variant(f"{sentence}: {only}." if only else f"{sentence}.", 1.0),
    )
    return Item(_WEIGHT, variants)


def _uncovered(answer: SearchAnswer) -> str:
    """The first words of the query that no tool has."""
    return ", ".join(repr(one_line(word)) for word in answer.uncovered[:_MOST_UNCOVERED_WORDS])


def _peculiar(alternative: Alternative) -> str:
    """Say what only this alternative has; empty if that is only its server."""
    words = f"is about {' '.join(alternative.words)}" if alternative.words else ""
    required = (
        f"requires {', '.join(map(named, alternative.required))}" if alternative.required else ""
    )
    has = " and ".join(filter(None, (words, required)))
    return f"only {named(alternative.tool, before=f'{alternative.server}:')} {has}" if has else ""
