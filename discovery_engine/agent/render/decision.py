"""The decision of an answer, as text within a budget.

The text of an answer without a match is worded so that no reader takes its tools for one.
"""

from __future__ import annotations

from discovery_engine._util.text import named, one_line
from discovery_engine.agent.budget import Item
from discovery_engine.agent.render.result import line_variant
from discovery_engine.view.search_answers import Alternative, SearchAnswer

_WEIGHT = 10.0  # above every hit: the certainty is read before the first of them
_NEAREST = 0.5
_NEAREST_ARE = "Nearest, but unlikely to fit:"
_WORDS = 6  # words of the query that are named as uncovered
_NOTHING_THERE = (
    "ANSWER_UNKNOWN",
    "ANSWER_NO_TOOLS",
    "CONFIG_NO_SERVERS",
    "CONFIG_SWITCHED_OFF",
)
_CHECK = "Unsure: these are only the nearest tools. Check before calling."
_ADVICE = "Ask again with verb, object and product, in English, such as 'create issue github'."


def no_match_items(answer: SearchAnswer) -> list[Item]:
    """No tool fits, or servers are missing: the words without a match, and the nearest tools."""
    if nothing := _nothing_to_search(answer):
        return [Item(_WEIGHT, tuple(line_variant(*variant) for variant in nothing))]
    if missing_servers := _missing_servers(answer):
        head = Item(_WEIGHT, tuple(line_variant(*variant) for variant in missing_servers))
        return [head, *_nearest_items(answer)]
    missing = _uncovered(answer)
    why = f"No tool fits: none mentions {missing}." if missing else "No tool fits."
    heads = (("No tool fits.", 0.6), (why, 0.8), (f"{why} {_ADVICE}", 1.0))
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
    """How many servers are missing from the answer, in short and in full; empty if none is."""
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


def unsure_item(answer: SearchAnswer) -> Item:
    """That the hits are to be checked first, and what none of them has."""
    verbs = " or ".join(answer.undone)
    server = named(answer.hits[0].entry.tool.server)
    undone = f"no tool of {server} seems to {verbs}" if verbs else ""
    missing = _uncovered(answer)
    reasons = "; ".join(filter(None, (undone, f"none mentions {missing}" if missing else "")))
    whole = f"{_CHECK} {reasons[:1].upper()}{reasons[1:]}." if reasons else _CHECK
    heads = ((_CHECK, 0.6), (whole, 0.8), (f"{whole} {_ADVICE}", 1.0))
    return Item(_WEIGHT, tuple(line_variant(*variant) for variant in heads))


def match_item(answer: SearchAnswer) -> Item:
    """How sure the match is; where the first hits fit about as well, what each alone has."""
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
    return ", ".join(repr(one_line(word)) for word in answer.uncovered[:_WORDS])


def _peculiar(alternative: Alternative) -> str:
    """Say what only this alternative has; empty if that is only its server."""
    words = f"is about {' '.join(alternative.words)}" if alternative.words else ""
    required = (
        f"requires {', '.join(map(named, alternative.required))}" if alternative.required else ""
    )
    has = " and ".join(filter(None, (words, required)))
    return f"only {named(alternative.tool, before=f'{alternative.server}:')} {has}" if has else ""
