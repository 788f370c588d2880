"""The text for how sure a match is, and for "no tool fits", as long as the budget allows.

A tool that is merely near is told in words that no reader takes for a match.
"""

from __future__ import annotations

from discovery_engine._util.text import named, one_line
from discovery_engine.agent.budget import Form, Item
from discovery_engine.view.notices import NoticeKind
from discovery_engine.view.search_answers import Alternative, SearchAnswer

_WEIGHT = 10.0  # beside hits: what to think of them goes before any of them
_NEAREST = 0.5
_WORDS = 6  # words of the query that are named as uncovered
_ADVICE = "Try other words, or list_tools of a likely server."


def nothing_items(answer: SearchAnswer) -> list[Item]:
    """That no tool fits, or that servers are missing; what is uncovered, and what comes nearest."""
    if nothing := _nothing_to_search(answer):
        return [Item(_WEIGHT, tuple(_form(*form) for form in nothing))]
    if gaps := _gaps(answer):
        return [Item(_WEIGHT, tuple(_form(*form) for form in gaps)), *_nearest(answer)]
    missing = ", ".join(repr(one_line(word)) for word in answer.uncovered[:_WORDS])
    why = f"No tool fits: none says {missing}." if missing else "No tool fits."
    head = Item(
        _WEIGHT, (Form("No tool fits.", 0.6), _form(why, 0.8), _form(f"{why} {_ADVICE}", 1.0))
    )
    return [head, *_nearest(answer)]


def _nearest(answer: SearchAnswer) -> list[Item]:
    names = [hit.entry.tool.key.label for hit in answer.nearest]
    forms = tuple(
        _form(f"Nearest, but unlikely to serve: {', '.join(names[:count])}", count / len(names))
        for count in range(1, len(names) + 1)
    )
    return [Item(_NEAREST, forms)] if forms else []


def _gaps(answer: SearchAnswer) -> list[tuple[str, float]]:
    """How many servers are missing from the answer, in short and in full; empty if none is."""
    told = [n.message for n in answer.notices if n.kind is NoticeKind.INCOMPLETE]
    if not told:
        return []
    short, _, _ = told[0].partition(";")
    return [(f"{short}.", 0.6), (f"{told[0]}.", 1.0)]


def _nothing_to_search(answer: SearchAnswer) -> list[tuple[str, float]]:
    """That there is no tool to find, or none is known, in short and in full; empty if one is."""
    told = [n.message for n in answer.notices if n.kind in (NoticeKind.UNKNOWN, NoticeKind.EMPTY)]
    if not told:
        return []
    whole = f"{told[0][:1].upper()}{told[0][1:]}."
    short, colon, _ = whole.partition(": ")
    return [(f"{short}.", 0.6), (whole, 1.0)] if colon else [(whole, 1.0)]


def match_item(answer: SearchAnswer) -> Item:
    """How sure the match is; where the first hits fit about as well, what each alone has."""
    head = f"Match: {answer.certainty}."
    alike = answer.alternatives
    if not alike:
        return Item(_WEIGHT, (_form(head, 1.0),))
    said = f"{head} The first {len(alike)} fit alike"
    only = "; ".join(filter(None, map(_peculiar, alike)))
    forms = (
        _form(head, 0.3),
        _form(f"{said}.", 0.6),
        _form(f"{said}: {only}." if only else f"{said}.", 1.0),
    )
    return Item(_WEIGHT, forms)


def _peculiar(alternative: Alternative) -> str:
    """What only this one has; empty if that is but its server."""
    words = f"is about {' '.join(alternative.words)}" if alternative.words else ""
    required = (
        f"requires {', '.join(map(named, alternative.required))}" if alternative.required else ""
    )
    has = " and ".join(filter(None, (words, required)))
    return f"only {named(alternative.tool, before=f'{alternative.server}:')} {has}" if has else ""


def _form(text: str, value: float) -> Form:
    return Form(one_line(text), value)
