"""Agreement of a tool with a request: in the operation, the number of things, the kinds of values.

Agreement moves the score of a tool by words: its odds are multiplied by a factor for each trait
that request and tool have together. So a sibling with the wrong operation falls, and no score
leaves the range from 0 to 1.

    delete the branch old      delete_branch    the same operation
                               create_branch    the opposite one
    open issues                list_issues      the same operation, of many
                               close_issue      needs the identifier of one

The weights of the traits are data, fitted by `scripts/fit_agreement.py`, which also shows what they
are worth.
"""

from __future__ import annotations

import math
from enum import StrEnum
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from discovery_engine.search.operations.operation import ALL, Relation, relation
from discovery_engine.search.operations.request_arguments import ArgumentKind
from discovery_engine.search.operations.tool_profile import ToolProfile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from discovery_engine.search.operations.request_reading import RequestReading

_FILE = Path(__file__).parents[1] / "data" / "agreement.txt"
# In log odds. Of the everyday requests with the pack for half of the servers, those of the others
# are right first in 57 % (54 % without this), of that half in 72 % (74 %), of both in 75 % (73 %).
_SHIPPED_EXAMPLES = -0.26
_READINGS = 64  # whose factors are kept: to weigh the traits of a dozen kinds of tools takes 50 us
_IDENTIFIER = int(ArgumentKind.IDENTIFIER)
_TYPED = int(
    ArgumentKind.URL
    | ArgumentKind.PATH
    | ArgumentKind.EMAIL
    | ArgumentKind.DATE
    | ArgumentKind.COORDINATES
    | ArgumentKind.REPOSITORY
    | ArgumentKind.CHANNEL
    | ArgumentKind.PERSON
)
"""The kinds that hardly any parameter takes unless it is made for them."""
_TEXT = int(ArgumentKind.QUOTE | ArgumentKind.NAME)


class Trait(StrEnum):
    """A trait that a request and a tool may have together."""

    SAME = "same"
    """The tool does what the request asks for. Where no verb says what is asked for, and in a long
    request, which asks for several things, this and its contraries count for nothing."""
    KINDRED = "kindred"
    OTHER = "other"
    CHANGES = "changes"
    """The request asks to read, and the tool changes something."""
    READS = "reads"
    """The request asks to change something, and the tool reads."""
    OPPOSITE = "opposite"
    BOTH_MANY = "both_many"
    TOOL_MANY = "tool_many"
    """The tool is for many things, the request about one or a few."""
    REQUEST_MANY = "request_many"
    """The request is about many things, the tool for one."""
    BOTH_ONE = "both_one"
    UNIDENTIFIED = "unidentified"
    """The tool needs an identifier, and the request has no argument that may be one."""
    LACKS_KIND = "lacks_kind"
    """The request has an address, a path, a date …, and the tool takes nothing of the kind."""
    TAKES_IDENTIFIER = "takes_identifier"
    SHIPPED_EXAMPLES = "shipped_examples"
    """The tool has shipped requests: more text, by which it would score above an equal tool."""


_RELATED = {
    Relation.SAME: Trait.SAME,
    Relation.KINDRED: Trait.KINDRED,
    Relation.OTHER: Trait.OTHER,
    Relation.CHANGES: Trait.CHANGES,
    Relation.READS: Trait.READS,
    Relation.OPPOSITE: Trait.OPPOSITE,
}


def traits(reading: RequestReading, tool: ToolProfile) -> Iterator[Trait]:
    """The traits that a request and a tool have together."""
    related = _RELATED.get(relation(reading.operations, tool.operations))
    if related and reading.is_explicit:
        yield related
    if reading.is_short:
        yield from _of_number(reading, tool)
    if reading.is_single:
        yield from _of_kinds(reading.given, tool)
    if tool.has_shipped_examples:
        yield Trait.SHIPPED_EXAMPLES


def _of_number(reading: RequestReading, tool: ToolProfile) -> Iterator[Trait]:
    if tool.is_for_many and reading.is_of_many is not None:
        yield Trait.BOTH_MANY if reading.is_of_many else Trait.TOOL_MANY
    if tool.is_for_one and reading.is_of_many:
        yield Trait.REQUEST_MANY
    if tool.is_for_one and reading.is_of_one:
        yield Trait.BOTH_ONE
    if tool.is_for_one and not reading.given & ~_TEXT:
        yield Trait.UNIDENTIFIED


def _of_kinds(given: int, tool: ToolProfile) -> Iterator[Trait]:
    typed = given & _TYPED
    if typed and not typed & tool.takes:
        yield Trait.LACKS_KIND
    if given & _IDENTIFIER & tool.takes:
        yield Trait.TAKES_IDENTIFIER


class TraitShare(NamedTuple):
    trait: Trait
    adds: float
    """To the score; below 0 if it speaks against the tool."""


class Agreement:
    """The agreement of one request with tools."""

    def __init__(self, reading: RequestReading, weights: Mapping[Trait, float]) -> None:
        self._reading = reading
        self._weights = weights
        # Of a profile only the kinds of arguments count that are given, so that the tools of a
        # query share a dozen factors.
        self._counted = ToolProfile(
            int(ALL),
            reading.given,
            is_for_many=True,
            is_for_one=True,
            has_shipped_examples=True,
        ).packed()
        self._factors: dict[int, float] = {}

    def adjusted(self, score: float, profile: int) -> float:
        """The score of a tool, moved by its agreement; `profile` is packed."""
        return _moved(score, self._factor(profile & self._counted))

    def adjusted_all(self, scores: Iterable[float], profiles: Iterable[int]) -> list[float]:
        """The same of many tools."""
        counted = self._counted
        kinds = [profile & counted for profile in profiles]
        factors = {kind: self._factor(kind) for kind in set(kinds)}
        return [
            score * factor / (1 + score * (factor - 1))
            for score, factor in zip(scores, map(factors.__getitem__, kinds), strict=True)
        ]

    def _factor(self, counted: int) -> float:
        if counted not in self._factors:
            weights = (weight for _, weight in self._weighed(counted))
            self._factors[counted] = math.exp(math.fsum(weights))
        return self._factors[counted]

    def shares(self, score: float, profile: int) -> list[TraitShare]:
        """Return what each trait adds to the score of a tool, the traits of most weight first."""
        shares = []
        log_odds = 0.0
        for trait, weight in sorted(self._weighed(profile), key=lambda pair: -abs(pair[1])):
            before = _moved(score, math.exp(log_odds))
            log_odds += weight
            shares.append(TraitShare(trait, _moved(score, math.exp(log_odds)) - before))
        return shares

    def _weighed(self, profile: int) -> Iterator[tuple[Trait, float]]:
        for trait in traits(self._reading, ToolProfile.unpacked(profile)):
            if weight := self._weights.get(trait):
                yield trait, weight


def _moved(score: float, factor: float) -> float:
    """A score with `factor` times the odds."""
    return score * factor / (1 + score * (factor - 1))


def agreement_with(reading: RequestReading) -> Agreement:
    """By the default weights; requests that are read alike share what was computed for one."""
    return _agreement(reading._replace(arguments=(), text=""))  # `given` has the kinds


@lru_cache(_READINGS)
def _agreement(reading: RequestReading) -> Agreement:
    return Agreement(reading, default_weights())


@cache
def default_weights() -> Mapping[Trait, float]:
    lines = _FILE.read_text(encoding="utf-8").splitlines()
    pairs = (line.split() for line in lines if line and not line.startswith("#"))
    fitted = {Trait(name): float(value) for name, value in pairs}
    return {Trait.SHIPPED_EXAMPLES: _SHIPPED_EXAMPLES, **fitted}
