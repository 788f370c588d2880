"""The catalog made searchable.

A searcher is immutable and answers from one catalog. The next one is built from the last, and
works anew only on servers that changed.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from discovery_engine._util import gc_pause
from discovery_engine.search.index.index import Index, Place, sources_of
from discovery_engine.search.index.storage import dumped, loaded
from discovery_engine.search.index.tags import Tags, TagTable
from discovery_engine.search.query.analyzer import Question, Reader
from discovery_engine.search.query.name_match import Naming, Nearness, is_spelled, named
from discovery_engine.search.query.passages import passages_of
from discovery_engine.search.ranking.confidence import (
    FIRST,
    Signals,
    default_model,
    in_all,
    says_all,
    signals_of,
)
from discovery_engine.search.ranking.fusion import Fusion
from discovery_engine.search.ranking.hit import Hit, ScoreParts
from discovery_engine.search.ranking.inverse_document_frequency import default_weights
from discovery_engine.search.ranking.retrieval import candidates
from discovery_engine.search.ranking.scoring import scores
from discovery_engine.search.text.lexicon import Lexicon, lexicon_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from discovery_engine.catalog import Catalog, Entry
    from discovery_engine.config.settings import SearchSettings, Weights
    from discovery_engine.search.ranking.explanation import Explanation
    from discovery_engine.search.vectors import Likeness
    from discovery_engine.tools.model import ServerName, Tool, ToolKey

_NOTHING: Mapping[ServerName, str] = MappingProxyType({})
_POOL = 60  # tools that are scored in full
_ALIKE = 0.03  # of the best relevance; of so close ones each third is the wrong way round
_OF_USAGE = 0.02  # the most that former uses add: less than sets apart tools that fit unalike
_UNUSED: Mapping[ToolKey, float] = MappingProxyType({})
_NOT_NAMED = Naming(Nearness.NOT, 0.0)


class Judgement(Struct, frozen=True):
    """What to think of the hits of a query."""

    confidence: float
    """The probability that one of the first hits serves the query; 0 without one."""
    alike: int
    """How many of the first hits fit about as well; 1 if the first stands out."""
    unknown: tuple[str, ...]
    """Words of the query that no tool mentions."""


class Reading(NamedTuple):
    """A query, read against the catalog."""

    query: str
    question: Question
    names: Mapping[Place, Naming]


class Searcher:
    """Made by `build_searcher`."""

    judged = FIRST
    """How many of the first hits `judge` looks at."""

    def __init__(self, index: Index, weights: Weights, tags: TagTable, lexicon: Lexicon) -> None:
        self._index = index
        self._weights = weights
        self._tags = tags
        self._lexicon = lexicon
        self._last: Reading | None = None

    @property
    def index(self) -> Index:
        return self._index

    def reads_as(self, lexicon: Lexicon) -> bool:
        """Whether the index was made with `lexicon`, or one that reads every text alike."""
        return self._lexicon is lexicon or self._lexicon.digest == lexicon.digest

    def names(self, query: str) -> bool:
        """Whether `query` is the name of a tool, in whatever spelling."""
        return is_spelled(self._index, query)

    def dump(self) -> bytes:
        """The index as bytes for `load_searcher`; keep them where no one else can write."""
        return dumped(self._index, self._lexicon)

    def search(
        self,
        query: str,
        *,
        limit: int,
        accepts: Callable[[Entry], bool],
        likeness: Likeness | None = None,
        usage: Mapping[ToolKey, float] = _UNUSED,
    ) -> tuple[Hit, ...]:
        """The accepted tools that fit `query`, the best first, at most `limit`.

        With a `likeness` to the query's vector, tools are found by meaning, too. `usage` is how
        much tools are used, from 0 to 1: it puts the more used before others that fit as well.
        """
        if limit < 1 or not query.strip():
            return ()
        reading = self._read(query)
        _, question, names = reading
        tagged = self._tags.shares(question.stems)
        found = self._found(reading, tagged, max(_POOL, 2 * limit), accepts, likeness)
        fused = self._fusion(question, likeness) if likeness else _words_alone
        ranked = []
        for place, words in self._partial(found, question):
            entry = found[place]
            nearness, sameness = names.get(place, _NOT_NAMED)
            by_words, by_meaning = fused(max(words, sameness), entry.tool)
            partial = by_words + by_meaning
            parts = self._parts(
                exact=float(nearness >= Nearness.SPELLED),
                partial=partial,
                tag=tagged.get(entry.verdict.tags, 0.0),
            )
            by_usage = self._by_usage(parts, nearness, usage.get(entry.key, 0.0)) if usage else 0.0
            order = (-nearness, -sum(parts) - by_usage, entry.tool.server, entry.tool.name)
            of_meaning = by_meaning / partial if partial else 0.0
            ranked.append((order, entry, parts, of_meaning, by_usage))
        best = heapq.nsmallest(limit, ranked, key=itemgetter(0))
        return tuple(_hit(entry, parts, *others) for _, entry, parts, *others in best)

    def explain(self, query: str, hit: Hit) -> Explanation:
        """Why `query` found `hit`."""
        # Loaded where it is wanted, so that a search on the command line starts quickly.
        from discovery_engine.search.ranking.explanation import Explainer  # noqa: PLC0415

        _, question, names = self._read(query)
        place = self._index.place(hit.entry.tool)
        naming = names.get(place, _NOT_NAMED) if place else _NOT_NAMED
        sources = Reader(self._lexicon, self._index.count, self._index.size).sources(query)
        explainer = Explainer(self._index, self._lexicon, question, sources)
        tags = self._tags.named(hit.entry.verdict.tags, question.stems)
        return explainer.explain(hit, naming, tags)

    def judge(self, query: str, hits: Sequence[Hit], likeness: Likeness | None = None) -> Judgement:
        """What to think of `hits`, which `query` found: `judged` at least, if there are so many."""
        _, question, names = self._read(query)
        if not hits:
            return Judgement(0.0, 0, question.unknown)
        signals = self.signals(query, hits, default_weights(), likeness)
        model = default_model(with_vectors=signals[0].meant is not None)
        nearness = [self._nearness(hit, names) for hit in hits]
        return Judgement(
            confidence=in_all(
                model(signals),
                nearness=nearness[0],
                tagged=self._tags.shares(question.stems).get(hits[0].entry.verdict.tags, 0.0),
                says_all=says_all(question, self._said(hits[0], question), self._lexicon),
            ),
            alike=sum(
                near is nearness[0] and hit.relevance >= hits[0].relevance * (1 - _ALIKE)
                for near, hit in zip(nearness, hits, strict=True)
            ),
            unknown=question.unknown,
        )

    def signals(
        self,
        query: str,
        hits: Sequence[Hit],
        weights: Mapping[str, float],
        likeness: Likeness | None = None,
    ) -> tuple[Signals, ...]:
        """What speaks for the first of `hits`, of which there is one at least.

        One `Signals` for each passage of the query: a single one, unless it is long. `weights` are
        of words, from 0 to 1.
        """
        first = hits[: self.judged]
        meant = likeness.height([hit.entry.tool for hit in first]) if likeness else None
        questions = self._passages(query)
        return tuple(
            signals_of(
                question,
                [self._said(hit, question) for hit in first],
                lexicon=self._lexicon,
                weights=weights,
                size=self._index.size,
                meant=meant,
            )
            for question in questions
        )

    def _passages(self, query: str) -> Sequence[Question]:
        passages = passages_of(query)
        if len(passages) == 1:
            return (self._read(query).question,)
        reader = Reader(self._lexicon, self._index.count, self._index.size)
        return [reader.read(passage) for passage in passages]

    def _found(
        self,
        reading: Reading,
        tagged: Mapping[Tags, float],
        most: int,
        accepts: Callable[[Entry], bool],
        likeness: Likeness | None,
    ) -> dict[Place, Entry]:
        """The accepted tools for which words, a name, a tag or meaning speaks: those to weigh."""
        index = self._index
        seen: dict[Place, Entry] = {}

        def allowed(place: Place) -> bool:
            entry = seen[place] = index.entry(place)
            return accepts(entry)

        _, question, names = reading
        places = set(candidates(index, question, least=most, allowed=allowed))
        places.update(filter(allowed, names))
        places.update(self._best_tagged(question, tagged, most, allowed))
        if likeness:
            places.update(self._likest(likeness, most, allowed))
        return {place: seen[place] for place in places}

    def _said(self, hit: Hit, question: Question) -> dict[str, int]:
        """The impacts on a tool of the question's terms."""
        place = self._index.place(hit.entry.tool)
        return self._index.impacts(place, question.weights) if place else {}

    def _nearness(self, hit: Hit, names: Mapping[Place, Naming]) -> Nearness:
        place = self._index.place(hit.entry.tool)
        return names.get(place, _NOT_NAMED).nearness if place else Nearness.NOT

    def _read(self, query: str) -> Reading:
        """A query as it was read last; whoever asks twice at once may read it twice."""
        last = self._last
        if last is None or last.query != query:
            index = self._index
            question = Reader(self._lexicon, index.count, index.size).read(query)
            last = self._last = Reading(query, question, named(index, query, question))
        return last

    def _fusion(
        self, question: Question, likeness: Likeness
    ) -> Callable[[float, Tool], tuple[float, float]]:
        """Joins words and meaning as befits the question, whatever is filtered out."""
        places = candidates(self._index, question, least=_POOL, allowed=lambda _: True)
        best = max((words for _, words in self._partial(places, question)), default=0.0)
        fusion = Fusion(best, likeness.best, likeness.mean)
        return lambda words, tool: fusion(words, likeness.of(tool))

    def _likest(
        self, likeness: Likeness, most: int, allowed: Callable[[Place], bool]
    ) -> Iterable[Place]:
        def is_allowed(tool: Tool) -> bool:
            place = self._index.place(tool)
            return place is not None and allowed(place)

        likest = likeness.nearest(most, is_allowed)
        return (place for tool in likest if (place := self._index.place(tool)))

    def _best_tagged(
        self,
        question: Question,
        tagged: Mapping[Tags, float],
        most: int,
        allowed: Callable[[Place], bool],
    ) -> list[Place]:
        """Tools of which the query names a tag, in the order of names if they fit equally well."""
        places = [
            place
            for server in self._tags.servers(tagged)
            for place in self._index.places(server)
            if self._index.entry(place).verdict.tags in tagged and allowed(place)
        ]
        if len(places) <= most:
            return places
        partial = dict(self._partial(places, question))

        def fit(place: Place) -> float:
            tag = tagged[self._index.entry(place).verdict.tags]
            return sum(self._parts(exact=0.0, partial=partial[place], tag=tag))

        return heapq.nlargest(most, places, key=fit)

    def _partial(
        self, places: Iterable[Place], question: Question
    ) -> Iterable[tuple[Place, float]]:
        by_layer: defaultdict[int, list[int]] = defaultdict(list)
        for layer, doc in sorted(places):
            by_layer[layer].append(doc)
        for layer, docs in by_layer.items():
            found = scores(self._index.layers[layer].block, docs, question)
            for doc, score in zip(docs, found, strict=True):
                yield Place(layer, doc), score

    @staticmethod
    def _by_usage(parts: tuple[float, ...], nearness: Nearness, share: float) -> float:
        """Of what fits at all; a tool that is named needs no help, and none may pass it."""
        fits = any(parts) and nearness is Nearness.NOT
        return (1 - sum(parts)) * _OF_USAGE * share if fits else 0.0

    def _parts(self, *, exact: float, partial: float, tag: float) -> tuple[float, float, float]:
        """Noisy-or: each part closes its share of what the parts before it left open."""
        by_exact = self._weights.exact * exact
        by_partial = (1 - by_exact) * self._weights.partial * partial
        by_tag = (1 - by_exact - by_partial) * self._weights.tag * tag
        return by_exact, by_partial, by_tag


def load_searcher(
    data: bytes,
    catalog: Catalog,
    settings: SearchSettings,
    *,
    descriptions: Mapping[ServerName, str] = _NOTHING,
) -> Searcher | None:
    """The searcher over `catalog` from the bytes of `Searcher.dump`, which is much quicker.

    None if the bytes are damaged, or were made by another version or of another catalog.
    """
    lexicon = lexicon_of(settings.synonyms)
    with gc_pause.paused():
        index = loaded(data, sources_of(catalog, descriptions), lexicon)
    if index is None:
        return None
    return Searcher(index, settings.weights, TagTable(index.sources, lexicon), lexicon)


def _words_alone(words: float, _: Tool) -> tuple[float, float]:
    return words, 0.0


def _hit(
    entry: Entry, parts: tuple[float, float, float], of_meaning: float, by_usage: float
) -> Hit:
    """The hit of a tool; `of_meaning` is the share of `partial` that comes from vectors."""
    exact, partial, tag = parts
    told = ScoreParts(exact, partial, tag, partial * of_meaning, by_usage)
    return Hit(entry, sum(parts) + by_usage, told)


def build_searcher(
    catalog: Catalog,
    settings: SearchSettings,
    *,
    descriptions: Mapping[ServerName, str] = _NOTHING,
    previous: Searcher | None = None,
) -> Searcher:
    """A searcher over `catalog`, disabled tools included.

    Args:
        catalog: What to search.
        settings: The weights of the parts of relevance, and the owner's synonyms.
        descriptions: What each server is for.
        previous: The searcher over an earlier catalog; servers that are the same are not
            indexed again, unless the synonyms are others.
    """
    lexicon = lexicon_of(settings.synonyms)
    earlier = previous.index if previous and previous.reads_as(lexicon) else Index()
    with gc_pause.paused():
        index = earlier.updated(catalog, descriptions, lexicon)
    return Searcher(index, settings.weights, TagTable(index.sources, lexicon), lexicon)
