"""Why a tool was found: what each word of a query adds to its relevance, and where it was met.

    'cancel' means the same as 'revoke', in its name      +0.21
    'token' is in its description                         +0.08

The shares add up to the relevance.
"""

from __future__ import annotations

from collections import defaultdict
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from discovery_engine.search.index.documents import origins
from discovery_engine.search.query.analyzer import How, Source
from discovery_engine.search.query.name_match import Naming, Nearness
from discovery_engine.search.ranking.scoring import contributions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from discovery_engine.search.index.documents import Origin
    from discovery_engine.search.index.index import Index
    from discovery_engine.search.query.analyzer import Question
    from discovery_engine.search.ranking.hit import Hit
    from discovery_engine.search.text.lexicon import Lexicon
    from discovery_engine.tools.model import Tool


class Reason(StrEnum):
    NAMED = "named"
    """The query is the tool's name."""
    MISTYPED = "mistyped"
    """It is the name but for a slip of the keyboard."""
    SAID = "said"
    """The tool says the word."""
    TRANSLATED = "translated"
    """It says what the word means in English."""
    SAME = "same"
    """It says a word that means the same."""
    RELATED = "related"
    """It says a word about the same subject."""
    SLIP = "slip"
    """It says a word that is a slip of the keyboard away."""
    MEANING = "meaning"
    """Its vector is near to that of the query."""
    TAG = "tag"
    """The query names tags of it."""
    USED = "used"
    """It was used before, after it had been found."""


_REASONS = {
    How.SAID: Reason.SAID,
    How.TRANSLATED: Reason.TRANSLATED,
    How.SAME: Reason.SAME,
    How.RELATED: Reason.RELATED,
    How.SLIP: Reason.SLIP,
}
_SENTENCES = {
    Reason.NAMED: "the query is its name",
    Reason.MISTYPED: "the query is its name but for a slip",
    Reason.SAID: "{word!r} is in {field}",
    Reason.TRANSLATED: "{word!r} means {says!r}, in {field}",
    Reason.SAME: "{word!r} means the same as {says!r}, in {field}",
    Reason.RELATED: "{word!r} is about the same as {says!r}, in {field}",
    Reason.SLIP: "{word!r} is a slip away from {says!r}, in {field}",
    Reason.MEANING: "what it does is near in meaning",
    Reason.TAG: "the query names its tags: {word}",
    Reason.USED: "it was found and used before",
}
_FIELDS = {
    "name": "its name",
    "server": "its server's name",
    "description": "its description",
    "server_description": "its server's description",
    "parameter_names": "the names of its parameters",
    "parameter_texts": "what its parameters are for",
}


class Share(Struct, frozen=True):
    """One thing that speaks for a tool."""

    reason: Reason
    adds: float
    """To the relevance."""
    word: str = ""
    """The word of the query, folded; for a tag, the tags; empty for the query as a whole."""
    says: str = ""
    """The word of the tool."""
    field: str = ""
    """Which of its texts says it: `name`, `server`, `description`, `parameter_names`, …"""
    weight: float = 0.0
    """How much of the query the word is, from 0 to 1."""

    def __str__(self) -> str:
        field = _FIELDS.get(self.field, "")
        return _SENTENCES[self.reason].format(word=self.word, says=self.says, field=field)


class Explanation(Struct, frozen=True):
    relevance: float
    shares: tuple[Share, ...]
    """What adds most comes first; they add up to the relevance."""
    uncovered: tuple[str, ...]
    """Words of the query that say something, of which the tool says nothing."""


class _Met(NamedTuple):
    """A term of the query that a tool holds."""

    source: Source
    score: float
    """What it adds to the score by words."""
    weight: float
    origins: Sequence[Origin]


class Explainer(Struct, frozen=True):
    """Explains the hits of one query."""

    index: Index
    lexicon: Lexicon
    question: Question
    sources: Mapping[str, Source]

    def explain(self, hit: Hit, naming: Naming, tags: Sequence[str]) -> Explanation:
        """Why a tool was found that the query names so, and whose `tags` it names."""
        terms = self._met(hit.entry.tool)
        shares = (*self._by_words(hit, naming, terms), *_by_others(hit, tags))
        ordered = sorted((share for share in shares if share.adds), key=lambda s: -s.adds)
        is_named = naming.nearness is not Nearness.NOT
        uncovered = () if is_named else self._uncovered(terms, tags)
        return Explanation(hit.relevance, tuple(ordered), uncovered)

    def _met(self, tool: Tool) -> list[_Met]:
        place = self.index.place(tool)
        if place is None:
            return []
        question = self.question
        impacts = self.index.impacts(place, question.weights)
        about = self.index.sources[tool.server].description
        fields = origins(tool, tool.server, about, self.lexicon)
        whole = sum(question.weights.values()) + question.unmet
        return [
            _Met(self.sources[term], score, question.weights[term] / whole, fields[term])
            for term, score in contributions(impacts, question).items()
        ]

    def _by_words(self, hit: Hit, naming: Naming, terms: Sequence[_Met]) -> Iterator[Share]:
        by_words = hit.parts.partial - hit.parts.meaning
        is_name = naming.nearness >= Nearness.SPELLED
        if naming.likeness >= sum(one.score for one in terms):
            reason = Reason.NAMED if is_name else Reason.MISTYPED
            yield Share(reason, hit.parts.exact + by_words)
        else:
            yield Share(Reason.NAMED, hit.parts.exact)
            yield from _of_words(terms, by_words)

    def _uncovered(self, terms: Iterable[_Met], tags: Iterable[str]) -> tuple[str, ...]:
        covered = {one.source.word for one in terms}
        named = {stem for tag in tags for stem in self.lexicon.stems(tag)}
        said = dict.fromkeys(source.word for source in self.sources.values())
        left = (word for word in said if word not in covered)
        return tuple(word for word in left if self.lexicon.stem(word) not in named)


def _of_words(terms: Iterable[_Met], total: float) -> Iterator[Share]:
    """What words add, `total` together: a share for each two that met in a field."""
    met: defaultdict[tuple[str, str, str], list[tuple[_Met, float]]] = defaultdict(list)
    whole = 0.0
    for one in terms:
        whole += one.score
        for field, says, share in one.origins:
            met[one.source.word, says, field].append((one, share))
    for (word, says, field), found in met.items():
        nearest = min(one.source.how for one, _ in found)
        adds = total * sum(one.score * share for one, share in found) / whole
        weight = sum(one.weight for one, _ in found)
        yield Share(_REASONS[nearest], adds, word, says, field, weight)


def _by_others(hit: Hit, tags: Sequence[str]) -> Iterator[Share]:
    yield Share(Reason.MEANING, hit.parts.meaning)
    yield Share(Reason.TAG, hit.parts.tag, ", ".join(tags))
    yield Share(Reason.USED, hit.parts.usage)
