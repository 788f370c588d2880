"""Confidence: the probability that one of the first hits serves the query.

Relevance orders tools, and does not show whether the first ones are any good: some tool is
always the nearest. Confidence is a logistic model of these signals (`ranking.signals`), each of
which can only raise it or only lower it; words weigh by their inverse document frequency (idf) in
published tools:

    fit         up     the share of the highest possible score that the best tool has
    asked       up     the idf of all words of the query
    pair        up     the idf of the two rarest words of the query that one of the first tools has
    several     up     whether the query has several clauses: a tool for one of them serves it
    explained   up     the share of the words asked for, arguments aside, that the best tool has
    name        up     the share of the best tool's name that the query has
    lead        up     how far the relevance of the best tool is above that of the fifth
    operation   up     how well the best tool does what is asked: creates, lists, deletes …
    operations  up     the same of the best of the first tools in this
    types       up     whether the best tool takes an argument of a kind that the query gives
    strange     down   the idf of the words that published tools have, and none in this catalog
    size        down   the number of tools: among many, some fit by chance
    similarity  up     with vectors: how similar the best tool is
    accord      up     with vectors: whether words and vectors have the same tool first

The passages of a long request (see `passages`) have log odds each. Those of the request are those
of the best, plus a share of the second best, since a task is about one thing over several
sentences, and less the more passages there are, since among many one fits by chance.

There is a model for each way to find tools: by words alone or by vectors, too, and with or without
examples of requests for the best tool. The coefficients and the idf are data, fitted by
`scripts/fit_confidence.py`, which also shows how well the probabilities hold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import astuple

from discovery_engine.search.query.name_match import NameMatchKind

if TYPE_CHECKING:
    from discovery_engine.search.ranking.signals import Signals

_DATA = Path(__file__).parents[1] / "data"
FIRST = 5
"""How many hits the confidence is about."""
_NAMED_CONFIDENCE = {
    NameMatchKind.EXACT: 0.99,
    NameMatchKind.SPELLING: 0.99,
    NameMatchKind.TYPO: 0.9,
    NameMatchKind.NONE: 0.0,
}
# Of 59 tools with all words, 47 were right, and 3 were found for queries that nothing serves.
_ALL_WORDS_CONFIDENCE = 0.6
_TAG_CONFIDENCE = 0.5  # of a query that names all tags of the tool, and nothing else
# On servers that nothing was fitted to, 60 % of the near misses were a match, and 80 % as an agent
# asks; most of their first tools did something else. With this 25 % are, and 10 % of the served
# requests of agents are unsure.
UNSURE_CONFIDENCE = 0.6
"""Below what a match needs, by words and by a model."""
_LEAST_FIT = 0.01
_LEAST_IDF = 0.1
_LEAST_LEAD = 0.05
# Of 1,700 tools the best one for a request is at 0.4 to 0.9; as a logit of this the signal gains
# 2 to 3 % of log loss beside the similarity itself.
_SIMILARITIES = (0.05, 0.98)
_SIZES = (200, 4_000)  # tools; beyond these, the sets show, a size makes no difference


class Assessment(Struct, frozen=True):
    """How good the hits of a query are."""

    confidence: float
    """The probability that one of the first hits serves the query; 0 without hits."""
    alike: int
    """How many of the first hits fit about equally well; 1 if the first stands out."""
    unknown: tuple[str, ...]
    """Words of the query that no tool has."""


class ConfidenceModel(Struct, frozen=True):
    """Coefficients; those of signals, `second` and `passages` are not below 0."""

    fit: float
    asked: float
    pair: float
    several: float
    explained: float
    name: float
    lead: float
    operation: float
    operations: float
    types: float
    strange: float
    size: float
    similarity: float
    accord: float
    offset: float
    second: float
    """Coefficient of the log odds of the second best passage of a long request."""
    passages: float
    """Coefficient of the logarithm of the number of passages, which is subtracted."""
    long_offset: float
    """Added for a request of several passages."""

    def probability(self, passages: Sequence[Signals]) -> float:
        """The probability that one of the first hits serves the request, from 0 to 1.

        Args:
            passages: The signals of each passage, at least one.
        """
        best, *others = sorted(map(self.log_odds, passages), reverse=True)
        if others:
            best += self.second * others[0] - self.passages * math.log(len(passages))
            best += self.long_offset
        return (1 + math.tanh(best / 2)) / 2  # the logistic; never overflows

    def log_odds(self, signals: Signals) -> float:
        """Return the log odds of a request of one passage."""
        weighed = zip(astuple(self), features(signals), strict=False)
        return self.offset + math.fsum(weight * feature for weight, feature in weighed)


def features(signals: Signals) -> tuple[float, ...]:
    """Return the values that the coefficients apply to, in their order, without the offset."""
    least, most = _SIZES
    answer = signals.answer
    return (
        math.log(max(signals.fit, _LEAST_FIT)),
        math.log(signals.asked + _LEAST_IDF),
        math.log(signals.pair + _LEAST_IDF),
        float(signals.several),
        signals.explained,
        signals.name,
        math.log(answer.lead + _LEAST_LEAD),
        answer.operation,
        answer.operations,
        float(answer.types),
        -signals.strange,
        -math.log(min(max(answer.size, least), most)),
        _logit(answer.similarity or 0.0),
        float(answer.accord),
    )


def _logit(similarity: float) -> float:
    """Return the logit, since a similarity counts more the nearer it is to identity."""
    bounded = min(max(similarity, _SIMILARITIES[0]), _SIMILARITIES[1])
    return math.log(bounded / (1 - bounded))


def overall_confidence(
    by_words: float,
    *,
    name_match: NameMatchKind,
    tagged: float,
    has_all_words: bool,
    does_another: bool,
) -> float:
    """The confidence of the model, raised for a query that is a name, a tag, or a few words.

    Set by hand: hardly any query that the model is fitted on is a name, a tag, or a keyword or two.
    It is bounded for a tool that does something else than the query says, unless it is named.

    Args:
        by_words: The confidence by the model.
        name_match: How the query names the tool.
        tagged: The share of the tool's tags that the query names.
        has_all_words: Whether `contains_all_words` holds.
        does_another: Whether `operation_differs` holds.
    """
    by_words = 1 - (1 - by_words) * (1 - _TAG_CONFIDENCE * tagged)
    by_all_words = _ALL_WORDS_CONFIDENCE if has_all_words else 0.0
    by_content = max(by_words, by_all_words)
    if does_another:
        by_content = min(by_content, UNSURE_CONFIDENCE)
    return max(by_content, _NAMED_CONFIDENCE[name_match])


@cache
def default_model(*, with_vectors: bool = False, with_examples: bool = False) -> ConfidenceModel:
    """The model for tools found by words alone, or by vectors, too."""
    file = model_file(with_vectors=with_vectors, with_examples=with_examples)
    lines = file.read_text(encoding="utf-8").splitlines()
    pairs = (line.split() for line in lines if line and not line.startswith("#"))
    return ConfidenceModel(**{name: float(value) for name, value in pairs})


def model_file(*, with_vectors: bool, with_examples: bool) -> Path:
    added = [name for name, has in (("vectors", with_vectors), ("examples", with_examples)) if has]
    return _DATA / f"{'_'.join(('confidence', *added))}.txt"
