"""The tools that a query names: in any spelling, or but for a slip of the keyboard."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from discovery_engine.search.index.index import Index, Place
from discovery_engine.search.text.spelling import most_slips, nearest, readings, spelling

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from discovery_engine.search.query.analyzer import Question
    from discovery_engine.tools.model import Tool

_LONGEST_NAME = 80  # characters
_MOST_WORDS = 6  # in what may be a mistyped name


class Nearness(IntEnum):
    """How a query names a tool; the nearer ranks first, whatever the scores."""

    NOT = 0
    MISTYPED = 1
    SPELLED = 2
    """In another spelling."""
    LITERAL = 3


class Naming(NamedTuple):
    nearness: Nearness
    likeness: float
    """The share of the characters that are right."""


def named(index: Index, query: str, question: Question) -> dict[Place, Naming]:
    """Every tool that `query` names, and how."""
    found = dict(_spelled(index, query))
    if found or not _may_be_mistyped(query, question):
        return found
    return _mistyped(index, query)


def is_spelled(index: Index, query: str) -> bool:
    """Whether `query` is the name of a tool, in whatever spelling."""
    return any(True for _ in _spelled(index, query))


def _spelled(index: Index, query: str) -> Iterator[tuple[Place, Naming]]:
    literally = query.strip()
    for reading in readings(query):
        for place in _places(index, reading):
            is_literal = literally in _literal_names(index.entry(place).tool)
            yield place, Naming(Nearness.LITERAL if is_literal else Nearness.SPELLED, 1.0)


def _literal_names(tool: Tool) -> tuple[str, ...]:
    server, name = tool.server, tool.name
    return name, f"{server}:{name}", f"{server}__{name}", f"mcp__{server}__{name}"


def _may_be_mistyped(query: str, question: Question) -> bool:
    said = query.split()
    if len(query) > _LONGEST_NAME or len(said) > _MOST_WORDS:
        return False
    return len(said) == 1 or bool(question.unknown)


def _mistyped(index: Index, query: str) -> dict[Place, Naming]:
    """The tools of the nearest name, if no other name is as near."""
    near = [
        (distance / len(reading), place)
        for reading in readings(query)
        for name, distance in _within_reach(index, reading)
        for place in _places(index, name)
    ]
    best = min((distance for distance, _ in near), default=0.0)
    places = [place for distance, place in near if distance == best]
    names = {spelling(index.entry(place).tool.name) for place in places}
    if len(names) != 1:
        return {}
    return dict.fromkeys(places, Naming(Nearness.MISTYPED, 1 - best))


def _within_reach(index: Index, reading: str) -> Iterator[tuple[str, int]]:
    reach = most_slips(len(reading))
    for layer in index.layers:
        for length in range(len(reading) - reach, len(reading) + reach + 1):
            if names := layer.block.names.get(length):
                yield from nearest(reading, list(names))


def _places(index: Index, reading: str) -> Iterable[Place]:
    return (
        Place(number, doc)
        for number, layer in enumerate(index.layers)
        for doc in layer.block.named(reading)
        if doc not in layer.struck
    )
