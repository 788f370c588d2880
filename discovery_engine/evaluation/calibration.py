"""The confidence of answers, fitted to the owner's catalog: `engine.calibration`.

Each request is asked three times: as it is, with the right tools hidden, and with their servers
hidden. In the last two nothing serves it, so the answer must not be a match. Half of the typical
requests of each tool are asked of a catalog that knows the other half alone. The figures of a
calibration are those of requests that it was not fitted with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Literal
from zlib import crc32

import anyio.to_thread
from msgspec import Struct, json
from msgspec.structs import astuple, replace

from discovery_engine.catalog import Catalog
from discovery_engine.config.settings import Calibration
from discovery_engine.engine.registered_servers import CALIBRATION
from discovery_engine.evaluation.queries import Query
from discovery_engine.search.assessment import default_idf
from discovery_engine.search.examples.book import OWN_EXAMPLES
from discovery_engine.search.query.retrieval import NameMatchKind
from discovery_engine.search.ranking.confidence import (
    FIRST,
    calibration_key,
    default_model,
    first_hit_features,
    first_hit_model,
    log_odds,
)
from discovery_engine.search.searcher import Searcher, build_searcher
from discovery_engine.view.search_answers import LEAST_MATCH

if TYPE_CHECKING:
    from discovery_engine.catalog import Entry, ServerPart
    from discovery_engine.config.settings import SearchSettings
    from discovery_engine.engine.core import EngineCore
    from discovery_engine.engine.engine import Engine
    from discovery_engine.search.embedders import Vector
    from discovery_engine.search.query.retrieval import AnalyzedQuery
    from discovery_engine.search.ranking.confidence import Signals
    from discovery_engine.search.ranking.relevance import Hit
    from discovery_engine.search.vectors import Similarities, ToolVectors
    from discovery_engine.view.view import View

MOST_REQUESTS = 600
LEAST_REQUESTS = 40
"""The least requests that a tool serves; with fewer, the figures vary by ten points."""
LEAST_RIGHT = 15  # of these, whose right tool is first
_EMBEDDING_TIMEOUT = 60.0  # seconds for a request; nobody waits for its answer
_UNSERVED = 0.7  # the weight of all requests that nothing serves, as a share of the others'
# The squared distance from a shipped coefficient counts half of this; with 4, first right of a
# match is 1 point lower (`benchmarks/unseen`), and with 40 requests nothing runs away.
_PRECISION = 1.0
_SCALE_PRECISION = 0.5
_STEPS = 25  # of Newton's method; five are usual
_CONVERGED = 1e-6

_Kind = Literal["served", "near", "foreign"]


class Figure(StrEnum):
    """A share that a calibration is judged by."""

    NEAR = "near called match"
    """Of requests whose right tools are hidden, those that are answered by a match."""
    FOREIGN = "foreign called match"
    """Of requests that no server is for, those that are answered by a match."""
    MISSED = "told none though found"
    """Of requests with a right tool among the first five, those that are answered by none."""
    RIGHT = "first right where match"
    """Of matches for requests that a tool serves, those whose first tool is right."""
    MATCHED = "served called match"
    """Of requests that a tool serves, those that are answered by a match."""


class FigureChange(Struct, frozen=True):
    figure: Figure
    before: float | None
    """From 0 to 1; None if there is no such request."""
    after: float | None
    count: int
    """The requests that the share is of; of `RIGHT`, the matches after."""


class CalibrationReport(Struct, frozen=True):
    """The result of a calibration."""

    requests: int
    """How many requests a tool serves that were asked."""
    source: Literal["typical requests", "queries"]
    figures: tuple[FigureChange, ...] = ()
    problem: str = ""
    """Why nothing was changed; empty if the calibration is in use."""

    @property
    def is_applied(self) -> bool:
        return not self.problem


class _Sample(Struct, frozen=True):
    """A request, and the answer to it."""

    kind: _Kind
    fold: int
    query: AnalyzedQuery
    hits: Sequence[Hit]
    similarities: Similarities | None
    signals: Sequence[Signals]
    """Of each passage of the request; empty if there are no hits."""
    is_first_right: bool
    is_found: bool
    is_named: bool
    """True if the request names the first tool, which decides whatever the models say."""

    @property
    def first_features(self) -> tuple[float, ...]:
        return (*first_hit_features(first_hit_model().best(self.signals)), 1.0)

    @property
    def odds(self) -> float:
        answer = self.signals[0].answer
        model = default_model(
            with_vectors=answer.similarity is not None, with_examples=answer.has_examples
        )
        return log_odds(model.probability(self.signals))


class Calibrator:
    """Fits the confidence of answers to the catalog; available as `engine.calibration`."""

    def __init__(self, engine: Engine, core: EngineCore) -> None:
        self._engine = engine
        self._core = core
        self._clock = core.environment.clock
        self._store = core.store
        self._semantic = core.semantic

    async def fit(self, queries: Sequence[Query] = ()) -> CalibrationReport:
        """Fit the confidence to the catalog, and use it if it is better on other requests.

        Args:
            queries: The owner's; without any, the typical requests of the tools are asked.

        Raises:
            EmbeddingError: If search by meaning is configured, and its embedder fails.
            RegistryError: If the calibration cannot be kept.
        """
        await self._engine.complete_settings()
        view = self._engine.view
        if queries:
            report = CalibrationReport(0, "queries")
            catalog, book, searcher = view.catalog, view.book, view.searcher
        else:
            report = CalibrationReport(0, "typical requests")
            book = OWN_EXAMPLES
            catalog, queries = await anyio.to_thread.run_sync(_halved, view)
            searcher = await anyio.to_thread.run_sync(_searcher_of, view, catalog)
        vectors = await self._semantic.vectors_of(catalog, book)
        queries = sorted(queries, key=lambda query: _number(query.text))[:MOST_REQUESTS]
        served = sum(bool(query.tools) for query in queries)
        asker = Asker(searcher, vectors)
        samples: list[_Sample] = []
        for query in queries if served >= LEAST_REQUESTS else ():
            embedding = await self._semantic.embed_query(query.text, timeout=_EMBEDDING_TIMEOUT)
            samples += await anyio.to_thread.run_sync(asker.ask, query, embedding.vectors)
        report, fitted = await anyio.to_thread.run_sync(
            judged, replace(report, requests=served), samples, searcher, view.settings.search
        )
        if fitted:
            tools = sum(entry.is_visible for entry in view.catalog)
            fitted = replace(fitted, tools=tools, at=self._clock())
            await self._save(json.encode(fitted).decode())
        return report

    async def reset(self) -> bool:
        """Use the shipped confidence again; False if it is in use.

        Raises:
            RegistryError: If the calibration cannot be deleted.
        """
        rules = await anyio.to_thread.run_sync(self._store.shared_rules, self._core.decision_scope)
        if CALIBRATION not in rules:
            return False
        await self._save("")
        return True

    async def _save(self, text: str) -> None:
        def save() -> None:
            scope, texts, is_saved = self._core.decision_scope, {CALIBRATION: text}, False
            while not is_saved:  # another owner may have saved one since it was read
                before = self._store.shared_rules(scope)
                is_saved = self._store.set_rules(scope, texts, before=before, at=self._clock())

        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(save)
            await self._engine.reload()


def _number(text: str) -> int:
    return crc32(text.encode())


def _halved(view: View) -> tuple[Catalog, list[Query]]:
    """Return the catalog with every second typical request, and the others as queries."""
    parts: list[ServerPart] = []
    queries: list[Query] = []
    for part in view.catalog.parts.values():
        examples = (
            view.book.of_tools([entry.tool for entry in part.entries]) if part.entries else {}
        )
        entries: list[Entry] = []
        for entry in part.entries:
            tool = entry.tool
            texts = examples[tool.upstream_name].texts if tool.upstream_name in examples else ()
            overridden = replace(tool.overridden, examples=texts[::2])
            entries.append(replace(entry, tool=replace(tool, overridden=overridden)))
            if entry.is_visible:
                queries += [Query(text, text, (entry.key,)) for text in texts[1::2]]
        parts.append(replace(part, entries=tuple(entries)))
    return Catalog.of(parts), queries


def _searcher_of(view: View, catalog: Catalog) -> Searcher:
    settings = view.settings
    return build_searcher(catalog, settings.search, descriptions=settings.descriptions)


class Asker(Struct, frozen=True):
    searcher: Searcher
    vectors: ToolVectors | None

    def ask(self, query: Query, embedding: Sequence[Vector]) -> list[_Sample]:
        similarities = self.vectors.compare(embedding) if self.vectors else None
        return self.samples(query, similarities)

    def samples(self, query: Query, similarities: Similarities | None) -> list[_Sample]:
        right, servers = set(query.tools), {key.server for key in query.tools}

        def serves(entry: Entry) -> bool:
            return entry.is_visible and query.server in (None, entry.tool.server)

        def sample(kind: _Kind, accepts: Callable[[Entry], bool]) -> _Sample:
            return self._sample(query, kind, accepts, similarities)

        if not right:
            return [sample("foreign", serves)]
        return [
            sample("served", serves),
            sample("near", lambda entry: serves(entry) and entry.key not in right),
            sample("foreign", lambda entry: serves(entry) and entry.tool.server not in servers),
        ]

    def _sample(
        self,
        query: Query,
        kind: _Kind,
        accepts: Callable[[Entry], bool],
        similarities: Similarities | None,
    ) -> _Sample:
        searcher = self.searcher
        analyzed = searcher.analyze(query.text)
        hits = searcher.search(analyzed, limit=FIRST, accepts=accepts, similarities=similarities)
        keys = [hit.entry.key for hit in hits]
        assessor = searcher.assessor
        return _Sample(
            kind,
            _number(query.text) // 2 % 2,
            analyzed,
            hits,
            similarities,
            assessor.signals(analyzed, hits, default_idf(), similarities) if hits else (),
            is_first_right=bool(keys) and keys[0] in query.tools,
            is_found=any(key in query.tools for key in keys),
            is_named=bool(hits)
            and assessor.name_match(analyzed, hits[0]).kind is not NameMatchKind.NONE,
        )


def judged(
    report: CalibrationReport,
    samples: Sequence[_Sample],
    searcher: Searcher,
    settings: SearchSettings,
) -> tuple[CalibrationReport, Calibration | None]:
    """Return the report with figures, and the calibration if it is to be used."""
    right = sum(sample.is_first_right for sample in samples)
    if report.requests < LEAST_REQUESTS or right < LEAST_RIGHT:
        problem = (
            f"too little data, as {report.requests} of the {report.source} name a tool that agents "
            f"may use, and {right} find it first; {LEAST_REQUESTS} and {LEAST_RIGHT} are needed"
        )
        return replace(report, problem=problem), None
    halves = [_fitted([s for s in samples if s.fold != fold], settings) for fold in (0, 1)]
    least = settings.min_confidence
    before = [_decision(searcher, sample, None, least) for sample in samples]
    after = [_decision(searcher, sample, halves[sample.fold], least) for sample in samples]
    report = replace(report, figures=tuple(_figures(samples, before, after)))
    usable = _usable(samples)
    weights = _weights(usable)
    losses = [
        [_loss(sample, halves[sample.fold] if is_new else None) for sample in usable]
        for is_new in (True, False)
    ]
    if _dot(weights, losses[0]) >= _dot(weights, losses[1]):
        problem = "the shipped confidence is as good on requests that this one was not fitted with"
        return replace(report, problem=problem), None
    return report, replace(_fitted(samples, settings), requests=report.requests)


def _decision(
    searcher: Searcher, sample: _Sample, calibration: Calibration | None, least: float
) -> Literal["match", "unsure", "none"]:
    confidence = searcher.assess(
        sample.query, sample.hits, sample.similarities, calibration
    ).confidence
    if not sample.hits or confidence < least:
        return "none"
    return "match" if confidence >= LEAST_MATCH else "unsure"


def _figures(
    samples: Sequence[_Sample], before: Sequence[str], after: Sequence[str]
) -> Iterator[FigureChange]:
    def change(
        figure: Figure, of: Callable[[_Sample, str], bool], holds: Callable[[_Sample, str], bool]
    ) -> FigureChange:
        old, new = (
            [holds(s, d) for s, d in zip(samples, decisions, strict=True) if of(s, d)]
            for decisions in (before, after)
        )
        return FigureChange(figure, _share(old), _share(new), len(new))

    def is_match(_: _Sample, decision: str) -> bool:
        return decision == "match"

    yield change(Figure.NEAR, lambda s, _: s.kind == "near", is_match)
    yield change(Figure.FOREIGN, lambda s, _: s.kind == "foreign", is_match)
    yield change(Figure.MISSED, lambda s, _: s.is_found, lambda _, d: d == "none")
    yield change(
        Figure.RIGHT,
        lambda s, d: s.kind == "served" and d == "match",
        lambda s, _: s.is_first_right,
    )
    yield change(Figure.MATCHED, lambda s, _: s.kind == "served", is_match)


def _share(answers: Sequence[bool]) -> float | None:
    return sum(answers) / len(answers) if answers else None


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def _loss(sample: _Sample, calibration: Calibration | None) -> float:
    """Return the log loss of both models."""
    first, odds = astuple(first_hit_model()), sample.odds
    if calibration:
        first, odds = calibration.first, calibration.slope * odds + calibration.offset
    of_first = _dot(first, sample.first_features)
    pairs = (of_first, sample.is_first_right), (odds, sample.is_found)
    return sum(math.log1p(math.exp(-z if is_so else z)) for z, is_so in pairs)


def _usable(samples: Iterable[_Sample]) -> list[_Sample]:
    """Return the samples of which the models decide."""
    return [sample for sample in samples if sample.signals and not sample.is_named]


def _weights(samples: Sequence[_Sample]) -> list[float]:
    served = sum(sample.kind == "served" for sample in samples)
    unserved = _UNSERVED * served / max(len(samples) - served, 1)
    return [1.0 if sample.kind == "served" else unserved for sample in samples]


def _fitted(samples: Iterable[_Sample], settings: SearchSettings) -> Calibration:
    usable = _usable(samples)
    weights = _weights(usable)
    first = _regression(
        [sample.first_features for sample in usable],
        [sample.is_first_right for sample in usable],
        weights,
        astuple(first_hit_model()),
        _PRECISION,
    )
    first = _no_bolder(first, [sample for sample in usable if sample.kind == "near"])
    slope, offset = _regression(
        [(sample.odds, 1.0) for sample in usable],
        [sample.is_found for sample in usable],
        weights,
        (1.0, 0.0),
        _SCALE_PRECISION,
    )
    with_vectors = any(sample.signals[0].answer.similarity is not None for sample in usable)
    return Calibration(calibration_key(settings), first, slope, offset, with_vectors)


def _no_bolder(first: tuple[float, ...], near: Sequence[_Sample]) -> tuple[float, ...]:
    """Return coefficients by which no more near misses are a match than by the shipped ones."""
    shipped = astuple(first_hit_model())
    allowed = sum(_dot(shipped, sample.first_features) > 0 for sample in near)
    odds = sorted((_dot(first, sample.first_features) for sample in near), reverse=True)
    excess = max(odds[allowed], 0.0) if allowed < len(odds) else 0.0
    return (*first[:-1], first[-1] - excess)


def _regression(
    rows: Sequence[Sequence[float]],
    labels: Sequence[bool],
    weights: Sequence[float],
    prior: Sequence[float],
    precision: float,
) -> tuple[float, ...]:
    """Return the coefficients of a logistic regression, drawn to `prior`, by Newton's method."""
    size = len(prior)
    found = [*prior]
    for _ in range(_STEPS):
        gradient = [precision * (b - p) for b, p in zip(found, prior, strict=True)]
        hessian = [[precision * (i == j) for j in range(size)] for i in range(size)]
        for row, label, weight in zip(rows, labels, weights, strict=True):
            share = (1 + math.tanh(_dot(found, row) / 2)) / 2
            slope, bend = weight * (share - label), weight * share * (1 - share)
            for i, value in enumerate(row):
                gradient[i] += slope * value
                scaled, line = bend * value, hessian[i]
                for j in range(i + 1):
                    line[j] += scaled * row[j]
        step = _solved(hessian, gradient)
        longest = max(map(abs, step))
        scale = 1 / max(1.0, longest)  # a whole step can go astray where nearly all labels agree
        found = [b - scale * s for b, s in zip(found, step, strict=True)]
        if longest < _CONVERGED:
            break
    return tuple(found)


def _solved(lower: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """Solve a symmetric, positive definite system, of which the lower triangle is given."""
    size = len(right)
    rows = [[lower[max(i, j)][min(i, j)] for j in range(size)] + [right[i]] for i in range(size)]
    for i, pivot in enumerate(rows):
        for row in rows[i + 1 :]:
            factor = row[i] / pivot[i]
            row[i:] = [a - factor * b for a, b in zip(row[i:], pivot[i:], strict=True)]
    solution = [0.0] * size
    for i in reversed(range(size)):
        known = _dot(rows[i][i + 1 : size], solution[i + 1 :])
        solution[i] = (rows[i][size] - known) / rows[i][i]
    return solution
