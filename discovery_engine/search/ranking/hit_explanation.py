"""Reasons why a tool was found: what each word adds to its relevance, and which field has it.

    'cancel' means the same as 'revoke', in its name      +0.21
    'token' is in its description                         +0.08

The shares add up to the relevance.
"""

from __future__ import annotations

from collections import defaultdict
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from discovery_engine.search.index.documents import term_origins
from discovery_engine.search.query.analyzer import Derivation, TermSource
from discovery_engine.search.query.retrieval import NameMatch, NameMatchKind
from discovery_engine.search.ranking.relevance import Agreement, Trait, contributions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from discovery_engine.search.index.documents import TermOrigin
    from discovery_engine.search.index.index import DocId, Index
    from discovery_engine.search.query.analyzer import QueryTerms
    from discovery_engine.search.ranking.relevance import Hit
    from discovery_engine.search.text.lexicon import Lexicon
    from discovery_engine.tools.model import Tool


class Reason(StrEnum):
    NAMED = "named"
    """The query is the tool's name."""
    NAMED_WITH_TYPO = "named_with_typo"
    """It is the name with a typo."""
    LITERAL = "literal"
    """The tool has the word."""
    TRANSLATED = "translated"
    """It has the English for the word."""
    SYNONYM = "synonym"
    """It has a synonym."""
    RELATED = "related"
    """It has a word of the same subject."""
    TYPO = "typo"
    """It has a word that the query's word may be a typo of."""
    MEANING = "meaning"
    """Its vector is similar to that of the query."""
    TAG = "tag"
    """The query names tags of it."""
    USED = "used"
    """It was used before, after it had been found."""
    RERANKED = "reranked"
    """The owner's reranker moved it."""
    AGREEMENT = "agreement"
    """It does what the request asks for, to as many things; or it does not."""


_REASONS = {
    Derivation.LITERAL: Reason.LITERAL,
    Derivation.TRANSLATED: Reason.TRANSLATED,
    Derivation.SYNONYM: Reason.SYNONYM,
    Derivation.RELATED: Reason.RELATED,
    Derivation.TYPO: Reason.TYPO,
}
_SENTENCES = {
    Reason.NAMED: "the query is its name",
    Reason.NAMED_WITH_TYPO: "the query is its name with a typo",
    Reason.LITERAL: "{word!r} is in {field}",
    Reason.TRANSLATED: "{word!r} means {found!r}, in {field}",
    Reason.SYNONYM: "{word!r} means the same as {found!r}, in {field}",
    Reason.RELATED: "{word!r} is about the same as {found!r}, in {field}",
    Reason.TYPO: "{word!r} is a typo of {found!r}, in {field}",
    Reason.MEANING: "what it does is near in meaning",
    Reason.TAG: "the query names its tags: {word}",
    Reason.USED: "it was found and used before",
    Reason.RERANKED: "the reranker moved it",
}
_AGREEMENTS = {
    Trait.SAME: "it does what the request asks for",
    Trait.KINDRED: "it does nearly what the request asks for",
    Trait.OTHER: "it does something else than the request asks for",
    Trait.CHANGES: "the request asks to read, and it changes something",
    Trait.READS: "the request asks for a change, and it only reads",
    Trait.OPPOSITE: "it does the opposite of what the request asks for",
    Trait.BOTH_MANY: "it is for many things, and the request is about many",
    Trait.TOOL_MANY: "it is for many things, and the request is not about many",
    Trait.REQUEST_MANY: "it is for one thing, and the request is about many",
    Trait.BOTH_ONE: "it is for one thing, and the request identifies one",
    Trait.UNIDENTIFIED: "it needs an identifier, and the request has none",
    Trait.LACKS_KIND: "it takes no values of the kinds that the request has",
    Trait.TAKES_IDENTIFIER: "it takes an identifier, and the request has one",
    Trait.ELSEWHERE: "the request names another server",
    Trait.SHIPPED_EXAMPLES: "typical requests for it ship with the program, as for few servers",
}
_FIELDS = {
    "name": "its name",
    "server": "its server's name",
    "description": "its description",
    "server_description": "what describes its server",
    "parameter_names": "the names of its parameters",
    "parameter_texts": "what its parameters are for",
    "example": "an example of a request for it",
    "enriched_example": "a request that was written for it",
    "shipped_example": "a typical request that ships with the program",
}


class Share(Struct, frozen=True):
    """One reason why a tool was found."""

    reason: Reason
    adds: float
    """The addition to the relevance; below 0 for a disagreement."""
    word: str = ""
    """The word of the query, folded; for a tag, the tags; for agreement, the `Trait`; empty for
    the query as a whole."""
    tool_word: str = ""
    """The word of the tool."""
    field: str = ""
    """The field that has it: `name`, `server`, `description`, `parameter_names`, …"""
    weight: float = 0.0
    """The word's share of the query, from 0 to 1."""

    def __str__(self) -> str:
        if self.reason is Reason.AGREEMENT:
            return _AGREEMENTS[Trait(self.word)]
        field = _FIELDS.get(self.field, "")
        return _SENTENCES[self.reason].format(word=self.word, found=self.tool_word, field=field)


class HitExplanation(Struct, frozen=True):
    relevance: float
    shares: tuple[Share, ...]
    """The reasons, those that add most first; they add up to the relevance."""
    uncovered: tuple[str, ...]
    """Words of the query that the tool lacks, stop words aside."""
    request: str = ""
    """The tool's known request that has most of the matched words; empty if none has one."""


class _MatchedTerm(NamedTuple):
    """A term of the query that a tool holds."""

    source: TermSource
    score: float
    """The amount that the term adds to the score by words."""
    weight: float
    origins: Sequence[TermOrigin]


class Explainer(Struct, frozen=True):
    """Explains the hits of one query."""

    index: Index
    lexicon: Lexicon
    terms: QueryTerms
    sources: Mapping[str, TermSource]
    agreement: Agreement
    partial_weight: float
    """The weight of the score in the relevance."""
    profile_of: Callable[[DocId], int]
    """Gives the profile of a tool for this query."""

    def explain(self, hit: Hit, name_match: NameMatch, tags: Sequence[str]) -> HitExplanation:
        """Explain why a tool was found; `tags` are those of its tags that the query names."""
        terms = self._matched_terms(hit.entry.tool)
        shares = (
            *self._by_words(hit, name_match, terms),
            *self._by_agreement(hit),
            *_by_others(hit, tags),
        )
        ordered = sorted((share for share in shares if share.adds), key=lambda s: -s.adds)
        is_named = name_match.kind is not NameMatchKind.NONE
        uncovered = () if is_named else self._uncovered(terms, tags)
        request = self._request(hit.entry.tool, ordered)
        return HitExplanation(hit.relevance, tuple(ordered), uncovered, request)

    def _request(self, tool: Tool, shares: Iterable[Share]) -> str:
        words = {share.tool_word for share in shares if share.field.endswith("example")}
        if not words:
            return ""
        stems = set(map(self.lexicon.stem, words))
        examples = self.index.servers[tool.server].examples.get(tool.upstream_name)
        texts = examples.texts if examples else ()
        return max(texts, key=lambda text: len(stems & {*self.lexicon.stems(text)}), default="")

    def _matched_terms(self, tool: Tool) -> list[_MatchedTerm]:
        doc_id = self.index.doc_id(tool)
        if doc_id is None:
            return []
        query = self.terms
        impacts = self.index.impacts(doc_id, query.weights)
        server = self.index.servers[tool.server]
        examples = server.examples.get(tool.upstream_name)
        fields = term_origins(tool, tool.server, server.description, self.lexicon, examples)
        whole = sum(query.weights.values()) + query.unknown_weight
        return [
            _MatchedTerm(self.sources[term], score, query.weights[term] / whole, fields[term])
            for term, score in contributions(impacts, query).items()
        ]

    def _by_words(
        self, hit: Hit, name_match: NameMatch, terms: Sequence[_MatchedTerm]
    ) -> Iterator[Share]:
        by_words = hit.parts.partial - hit.parts.meaning - hit.parts.agreement
        is_name = name_match.kind >= NameMatchKind.SPELLING
        if name_match.similarity >= sum(term.score for term in terms):
            reason = Reason.NAMED if is_name else Reason.NAMED_WITH_TYPO
            yield Share(reason, hit.parts.exact + by_words)
        else:
            yield Share(Reason.NAMED, hit.parts.exact)
            yield from _of_words(terms, by_words)

    def _by_agreement(self, hit: Hit) -> Iterator[Share]:
        doc_id = self.index.doc_id(hit.entry.tool)
        if hit.parts.agreement and doc_id is not None:
            before = (hit.parts.partial - hit.parts.agreement) / self.partial_weight
            for trait, adds in self.agreement.shares(before, self.profile_of(doc_id)):
                yield Share(Reason.AGREEMENT, adds * self.partial_weight, trait)

    def _uncovered(self, terms: Iterable[_MatchedTerm], tags: Iterable[str]) -> tuple[str, ...]:
        covered = {term.source.word for term in terms}
        named = {stem for tag in tags for stem in self.lexicon.stems(tag)}
        query_words = dict.fromkeys(source.word for source in self.sources.values())
        left = (word for word in query_words if word not in covered)
        return tuple(word for word in left if self.lexicon.stem(word) not in named)


def _of_words(terms: Iterable[_MatchedTerm], total: float) -> Iterator[Share]:
    """Yield what words add, `total` together: a share for each pair of words in each field."""
    met: defaultdict[tuple[str, str, str], list[tuple[_MatchedTerm, float]]] = defaultdict(list)
    whole = 0.0
    for term in terms:
        whole += term.score
        for field, word, share in term.origins:
            met[term.source.word, word, field].append((term, share))
    for (word, tool_word, field), matches in met.items():
        closest = min(term.source.derivation for term, _ in matches)
        adds = total * sum(term.score * share for term, share in matches) / whole
        weight = sum(term.weight for term, _ in matches)
        yield Share(_REASONS[closest], adds, word, tool_word, field, weight)


def _by_others(hit: Hit, tags: Sequence[str]) -> Iterator[Share]:
    yield Share(Reason.MEANING, hit.parts.meaning)
    yield Share(Reason.TAG, hit.parts.tag, ", ".join(tags))
    yield Share(Reason.USED, hit.parts.usage)
    yield Share(Reason.RERANKED, hit.parts.rerank)
