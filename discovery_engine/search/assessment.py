"""Assessment of a query's hits: the certainty that one fits, and how many fit equally well."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine.search.operations.english_requests import object_of, objects
from discovery_engine.search.operations.operation import (
    CHANGING,
    ArgumentKind,
    Operation,
    ToolProfile,
    operation_words,
    relation,
)
from discovery_engine.search.operations.request_reading import intent_of, without
from discovery_engine.search.query.analyzer import SAY_NOTHING
from discovery_engine.search.ranking.confidence import (
    DIFFERENT,
    FIRST,
    AnswerSignals,
    Assessment,
    FirstHitModel,
    Signals,
    calibrated,
    contains_all_words,
    default_model,
    first_hit_model,
    lead,
    measure_signals,
    operation_agreement,
    operation_differs,
    overall_confidence,
)
from discovery_engine.search.ranking.relevance import without_elsewhere
from discovery_engine.search.text.lexicon import SUBJECT
from discovery_engine.search.text.tokenizer import words

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Sequence

    from discovery_engine.config.settings import Calibration
    from discovery_engine.search.index.index import DocId, Index, TagTable
    from discovery_engine.search.operations.request_reading import RequestReading
    from discovery_engine.search.query.analyzer import QueryTerms
    from discovery_engine.search.query.retrieval import AnalyzedQuery, NameMatch
    from discovery_engine.search.ranking.relevance import Hit
    from discovery_engine.search.text.lexicon import Lexicon
    from discovery_engine.search.vectors import Similarities
    from discovery_engine.tools.model import ServerName, Tool

_SHORT = 2  # letters; no shorter word is taken for a product
_COMMON = 0.5  # idf; nor are the words that many tools have
_PRODUCT_AT_END = lazy_pattern(r", ([A-Z][\w.'-]*(?: [\w.'-]+){0,2})$")  # create issue, Jira
_PRODUCT = lazy_pattern(r"(?<![A-Za-z0-9_./:@])[A-Za-z0-9]+(?![A-Za-z0-9_/@]|\.\w)")
_RUN = lazy_pattern(r"[^\W_]+")
_PRODUCT_TEXT = 300  # characters of a description that may say which product a tool is for
_OF_PRODUCT = 0.25  # of a server's tools mention a product that the server is of
_ORDER = 12  # words of a request that is a verb with its object
_TIE = 0.03  # of the best relevance; of tools that close, each third pair is in the wrong order


class Mentions(NamedTuple):
    """The names in a query that say which products are meant, in lower case and without spaces."""

    of_servers: set[str]
    """The names of servers, whole or in parts."""
    telling: set[str]
    """Names that are whole, or no words of published tools: the `mail` of `zoho-mail` is one."""
    certain: set[str]
    """Names of products alone: listed ones, and servers of rare names."""
    likely: set[str]
    """The `certain` names, and the name behind a comma at the end."""
    written: Mapping[str, str]
    """Names that may be of products, as they are written."""
    servers: set[ServerName]
    """The servers of products that a short query names."""


class Assessor:
    """`analyze` gives the terms of a text."""

    def __init__(
        self,
        index: Index,
        tags: TagTable,
        lexicon: Lexicon,
        analyze: Callable[[str], QueryTerms],
    ) -> None:
        self._index = index
        self._tags = tags
        self._lexicon = lexicon
        self._analyze = analyze
        self._last: tuple[AnalyzedQuery, Mentions] | None = None
        self._names_of_servers: dict[ServerName, Counter[str]] = {}
        self._is_common = lru_cache(maxsize=256)(partial(_is_mentioned_often, index))

    def assess(
        self,
        query: AnalyzedQuery,
        hits: Sequence[Hit],
        similarities: Similarities | None = None,
        calibration: Calibration | None = None,
    ) -> Assessment:
        """Assess a query by its hits, of which the first `FIRST` are needed."""
        terms = query.terms
        if not hits:
            return Assessment(0.0, 0, self._unknown(query))
        signals = self.signals(query, hits, default_idf(), similarities)
        doc_id = self._index.doc_id(hits[0].entry.tool)
        answer = signals[0].answer
        model = default_model(
            with_vectors=answer.similarity is not None, with_examples=answer.has_examples
        )
        probability, first_hit = model.probability(signals), first_hit_model()
        if calibration and calibration.with_vectors is (answer.similarity is not None):
            probability = calibrated(probability, calibration)
            first_hit = FirstHitModel(*calibration.first)
        kinds = [self.name_match(query, hit).kind for hit in hits]
        impacts = self._impacts(doc_id, terms)
        return Assessment(
            confidence=overall_confidence(
                probability,
                name_match=kinds[0],
                tagged=self._tags.shares(terms.stems).get(hits[0].entry.verdict.tags, 0.0),
                has_all_words=contains_all_words(terms, impacts, self._lexicon),
                is_first_right=first_hit.is_right(signals)
                and not self._is_of_another_product(query, hits[0].entry.tool)
                and not operation_differs(query.reading, self._profile(doc_id))
                and not self._has_other_object(query, hits[0].entry.tool),
            ),
            alike=sum(
                kind is kinds[0] and hit.relevance >= hits[0].relevance * (1 - _TIE)
                for kind, hit in zip(kinds, hits, strict=True)
            ),
            unknown=self._unknown(query),
        )

    def gaps(self, query: AnalyzedQuery, hits: Sequence[Hit]) -> Gaps:
        """Return what `hits` all lack of `query`; there is at least one hit.

        Where a query is about one server, its words are looked for in all tools of that server.
        """
        server = hits[0].entry.tool.server
        own = [hit for hit in hits if hit.entry.tool.server == server]
        undone = _undone(query.reading, [*map(self._profile, self._doc_ids(own))])
        product = self._foreign_product(query, hits)
        named = self.mentions(query).servers
        meant = next(iter(named)) if len(named) == 1 else None
        searched: Sequence[DocId | None] = self._doc_ids(hits)
        if meant:
            searched = [*self._index.doc_ids(meant)]
        missing = self._missing_words(query, searched, product, with_verbs=not undone)
        elsewhere = self._server_elsewhere(query, hits[0].entry.tool)
        is_about_other = self._has_other_object(query, hits[0].entry.tool)
        return Gaps(
            missing,
            meant or "",
            undone,
            elsewhere,
            product,
            self._object(query) if is_about_other and not elsewhere else "",
        )

    def is_order(self, query: AnalyzedQuery) -> bool:
        """Return whether an English query is a verb with its object, and little else."""
        reading = query.reading
        if not (reading.is_short and self._is_english(query)):
            return False
        said = words(reading.text)
        return len(said) <= _ORDER and bool(object_of(reading.text, self._lexicon.stem))

    def _missing_words(
        self,
        query: AnalyzedQuery,
        doc_ids: Sequence[DocId | None],
        product: str,
        *,
        with_verbs: bool,
    ) -> tuple[str, ...]:
        """The words of an English query that none of some tools has, products and values aside."""
        if not self._is_english(query):
            return ()
        held = {term for doc_id in doc_ids for term in self._impacts(doc_id, query.terms)}
        stem, verbs = self._lexicon.stem, operation_words().verbs
        aside = self._argument_stems(query)
        products = {_joined(product), *self.mentions(query).of_servers}
        return tuple(
            run
            for run in dict.fromkeys(_RUN.findall(query.reading.text))
            if run.lower() not in products
            and (missing := _words_without(held, run, self._lexicon))
            and len(missing) == len(words(run))
            and aside.isdisjoint(map(stem, missing))
            and (with_verbs or stem(run.lower()) not in verbs)
        )

    def _foreign_product(self, query: AnalyzedQuery, hits: Sequence[Hit]) -> str:
        """The product that a query names, as it is written there, if no server and no hit is."""
        products, written = self.mentions(query).likely, self.mentions(query).written
        if not products.isdisjoint(self._products):
            return ""
        if any(self._is_of(hit.entry.tool, products) for hit in hits):
            return ""
        return next((as_it_is for name, as_it_is in written.items() if name in products), "")

    def _unknown(self, query: AnalyzedQuery) -> tuple[str, ...]:
        """The words of a query that no tool has, and that a tool for it would have."""
        if not self._is_english(query):
            return ()
        return tuple(word for word in query.terms.unknown if word not in SAY_NOTHING)

    def _is_english(self, query: AnalyzedQuery) -> bool:
        """Return whether tools may have the query's words; foreign words are in no tool."""
        return query.text.isascii() and not self._lexicon.detect_language(query.text)

    def signals(
        self,
        query: AnalyzedQuery,
        hits: Sequence[Hit],
        idf: Mapping[str, float],
        similarities: Similarities | None = None,
    ) -> tuple[Signals, ...]:
        """The signals of the first of `hits`, of which there is at least one.

        One `Signals` for each passage of the query: a single one, unless the query is long. `idf`
        has the inverse document frequencies of stems, from 0 to 1.
        """
        first = hits[:FIRST]
        doc_ids = self._doc_ids(first)
        answer = self._answer_signals(query, first, doc_ids, similarities)
        arguments = self._argument_stems(query)
        name = self._name(first[0].entry.tool)
        return tuple(
            measure_signals(
                terms,
                [self._impacts(doc_id, terms) for doc_id in doc_ids],
                name=name,
                arguments=arguments,
                lexicon=self._lexicon,
                idf=idf,
                answer=answer,
            )
            for terms in self._passages(query)
        )

    def _answer_signals(
        self,
        query: AnalyzedQuery,
        first: Sequence[Hit],
        doc_ids: Sequence[DocId | None],
        similarities: Similarities | None,
    ) -> AnswerSignals:
        reading = query.reading
        profiles = [self._profile(doc_id) for doc_id in doc_ids]
        agreements = [operation_agreement(reading, profile) for profile in profiles]
        # A lead that the name of the server alone gives says nothing of what its tools do.
        named = self.mentions(query).servers
        relevances = [
            hit.relevance
            if not named or hit.entry.tool.server in named
            else min(without_elsewhere(hit.relevance), first[0].relevance)
            for hit in first
        ]
        return AnswerSignals(
            size=self._index.size,
            lead=lead(relevances),
            gap=lead(relevances, 2),
            is_elsewhere=self._is_elsewhere(query, first[0].entry.tool),
            has_examples=profiles[0].has_examples,
            operation=agreements[0],
            operations=max(agreements),
            types=bool(reading.given & profiles[0].takes),
            similarity=_similarity(similarities, first[0]),
            accord=similarities is not None and _is_first_by_both(first),
        )

    def _is_elsewhere(self, query: AnalyzedQuery, tool: Tool) -> bool:
        """Return whether a query names products, and a tool says nothing of any of them."""
        mentions = self.mentions(query)
        if not (mentions.likely or mentions.of_servers):
            return False
        said = self._names(f"{tool.server} {tool.name} {tool.description[:_PRODUCT_TEXT]}")
        others = mentions.of_servers - mentions.likely
        return said.isdisjoint(others) and not self._is_of(tool, mentions.likely)

    def _is_of_another_product(self, query: AnalyzedQuery, tool: Tool) -> bool:
        """Return whether a query certainly names products, and a tool's server is of none."""
        mentions = self.mentions(query)
        if not mentions.certain or self._is_of(tool, mentions.certain):
            return False
        return mentions.telling.isdisjoint(self._names(tool.server))

    def _is_of(self, tool: Tool, products: Iterable[str]) -> bool:
        """Return whether a tool is of one of `products`, and does not only mention it.

        The server says it, the beginning of the tool's name, or many tools of the server:
        `application-saveGithubProvider` of Dokploy is no tool of GitHub.
        """
        server = self._names(tool.server)
        verbs, stem = operation_words().verbs, self._lexicon.stem
        name = "".join(word for word in words(tool.name) if stem(word) not in verbs)
        return any(
            product in server or name.startswith(product) or self._is_common(product, tool.server)
            for product in products
        )

    def _has_other_object(self, query: AnalyzedQuery, tool: Tool) -> bool:
        """Return whether other tools of the server are about a request's object, and not this one.

        So it is with `delete_label` for `delete board`, if there are `get_board` and `add_board`.
        What changes something is about the object of its summary: `Create an item in a vault`
        creates no vault.
        """
        lexicon, reading = self._lexicon, query.reading
        if not (noun := self._object(query)):
            return False
        summary = words(tool.summary)
        said = objects(summary) if reading.operations & CHANGING else summary
        stems = (*self._name(tool), *map(lexicon.stem, said))
        held = {term for stem in stems for term in lexicon.terms_of_stem(stem)}
        if any(term in held for term in lexicon.terms(noun) if not term.startswith(SUBJECT)):
            return False
        names = self._name_stems(tool.server)
        # Most names have what is the server's own name, whatever they are about.
        return 0 < names[lexicon.stem(noun)] < len(self._index.servers[tool.server].tools) / 2

    def _object(self, query: AnalyzedQuery) -> str:
        """The noun that an order in English is about; empty if there is none."""
        reading = query.reading
        order = without(reading.text, reading.arguments) if self._is_english(query) else ""
        return object_of(order, self._lexicon.stem)

    def _name_stems(self, server: ServerName) -> Counter[str]:
        """The stems of the names of a server's tools, with the number of tools that have each."""
        if server not in self._names_of_servers:
            names = (tool.name for tool in self._index.servers[server].tools)
            counts = Counter(stem for name in names for stem in {*self._stems(name)})
            self._names_of_servers[server] = counts
        return self._names_of_servers[server]

    def _server_elsewhere(self, query: AnalyzedQuery, tool: Tool) -> str:
        """The server that a query names as a whole, where the best tool is of another product."""
        if not self._is_elsewhere(query, tool):
            return ""
        for name in self.mentions(query).of_servers:
            for server in self._products[name]:
                if name == _joined(server):
                    return server
        return ""

    def mentions(self, query: AnalyzedQuery) -> Mentions:
        """The names in a query that say which products are meant; a search asks several times."""
        last = self._last
        if last is None or last[0] is not query:
            last = self._last = query, self._read_mentions(query)
        return last[1]

    def _read_mentions(self, query: AnalyzedQuery) -> Mentions:
        of_servers = self._names(query.text) & self._products.keys()
        whole = {n for n in of_servers if any(n == _joined(s) for s in self._products[n])}
        idf, stem = default_idf(), self._lexicon.stem
        written = _product_names(query.text)
        certain = {name for name in written.keys() & whole if stem(name) not in idf}
        certain |= _listed(written)
        at_end = _PRODUCT_AT_END.search(query.text)
        return Mentions(
            of_servers,
            {name for name in of_servers if name in whole or stem(name) not in idf},
            certain,
            certain | ({_joined(at_end[1])} if at_end else set()),
            written,
            self._named_servers(query.reading, whole) if whole else set(),
        )

    def _named_servers(self, reading: RequestReading, whole: set[str]) -> set[ServerName]:
        """The servers of products that a short query names, in any spelling: `Digital Ocean`.

        Such a name is that of a server, and part of the names of others: `youtube-transcript`. One
        is capitalized, or no word of published tools: `insurance` alone names nobody's server.
        """
        if not reading.is_short:
            return set()
        names = (a for a in reading.arguments if a.kind & ArgumentKind.NAME)
        capitalized = self._names(" ".join(name.text(reading.text) for name in names))
        named = whole & self._names(intent_of(reading.text, reading.arguments))
        stem, idf = self._lexicon.stem, default_idf()
        if not any(name in capitalized or stem(name) not in idf for name in named):
            return set()
        return {server for name in named for server in self._products[name]}

    @cached_property
    def _products(self) -> Mapping[str, Sequence[ServerName]]:
        """The servers by the names, whole and in parts, that say which product is meant."""
        idf = default_idf()
        products: defaultdict[str, list[ServerName]] = defaultdict(list)
        for server in self._index.servers:
            for name in self._names(server):
                if len(name) > _SHORT and idf.get(name, 1.0) > _COMMON:
                    products[name].append(server)
        return products

    def _names(self, text: str) -> set[str]:
        """The stems of a text, and up to three words as one: `Digital Ocean` is digitalocean."""
        runs = _RUN.findall(text.lower())
        joined = (
            "".join(runs[start:end])
            for start in range(len(runs))
            for end in range(start + 1, min(start + 4, len(runs) + 1))
        )
        return {*self._stems(text), *joined}

    def _doc_ids(self, hits: Sequence[Hit]) -> list[DocId | None]:
        return [self._index.doc_id(hit.entry.tool) for hit in hits]

    def _profile(self, doc_id: DocId | None) -> ToolProfile:
        return ToolProfile.unpacked(self._index.profile(doc_id) if doc_id else 0)

    def _argument_stems(self, query: AnalyzedQuery) -> set[str]:
        """The stems of arguments that the rest of the query has not."""
        reading = query.reading
        if not reading.arguments:
            return set()
        said = {
            stem
            for argument in reading.arguments
            for stem in self._stems(argument.text(reading.text))
        }
        return said.difference(self._stems(intent_of(reading.text, reading.arguments)))

    def _stems(self, text: str) -> list[str]:
        return self._lexicon.stems(text)

    def _name(self, tool: Tool) -> list[str]:
        """The stems of a tool's name without those of its server's, unless there are no others."""
        stems = self._stems(tool.name)
        server = set(self._stems(tool.server))
        return [stem for stem in stems if stem not in server] or stems

    def _passages(self, query: AnalyzedQuery) -> Sequence[QueryTerms]:
        passages = split_passages(query.text)
        return (
            [query.terms]
            if len(passages) == 1
            else [self._analyze(passage) for passage in passages]
        )

    def _impacts(self, doc_id: DocId | None, terms: QueryTerms) -> dict[str, int]:
        """The impacts of a query's terms on a tool."""
        return self._index.impacts(doc_id, terms.weights) if doc_id else {}

    def name_match(self, query: AnalyzedQuery, hit: Hit) -> NameMatch:
        """The match of a query with the name of a hit."""
        # To look up a tool takes 5 us, for each hit, and few queries are names.
        return query.name_match(self._index.doc_id(hit.entry.tool) if query.name_matches else None)


def _is_mentioned_often(index: Index, product: str, server: ServerName) -> bool:
    """Return whether many tools of a server mention a product."""
    tools = index.servers[server].tools
    texts = (f"{tool.name} {tool.description[:_PRODUCT_TEXT]}".lower() for tool in tools)
    return sum(product in text for text in texts) >= len(tools) * _OF_PRODUCT


def _joined(name: str) -> str:
    return "".join(_RUN.findall(name.lower()))


def _similarity(similarities: Similarities | None, hit: Hit) -> float | None:
    """Similarity of a hit; None with word vectors too: the model of words does better without."""
    if similarities is None or similarities.is_static:
        return None
    return similarities.relative(hit.entry.tool)


def _is_first_by_both(hits: Sequence[Hit]) -> bool:
    """Return whether the first hit is the best both by words and by vectors."""
    best = hits[0].parts
    return all(
        hit.parts.meaning <= best.meaning
        and hit.parts.partial - hit.parts.meaning <= best.partial - best.meaning
        for hit in hits
    )


# Confidence is estimated passage by passage. In a whole task description, the words that no tool
# mentions add up, whatever fits; a passage is about as long as the requests that the confidence
# model is fitted with. To score a text by its best passage is known as MaxP (Dai and Callan,
# "Deeper Text Understanding for IR with Contextual Neural Language Modeling", 2019).

LONG = 60
"""Words; a request of no more is one passage."""
_PASSAGE = 25  # words; with 40, half as many again of the requests that are served are lost
# Also those of Chinese and Japanese.
_SENTENCE_END = lazy_pattern(r"(?<=[.;?!\n])\s+|(?<=[\u3002\uff01\uff1f\uff1b])")


def split_passages(request: str) -> tuple[str, ...]:
    """The passages of a request of more than `LONG` words; otherwise the request alone."""
    if len(request) <= LONG or len(words(request)) <= LONG:
        return (request,)
    passages: list[str] = []
    passage: list[str] = []
    length = 0
    for sentence in _sentences(request):
        size = len(words(sentence))
        if passage and length + size > _PASSAGE:
            passages.append(" ".join(passage))
            passage, length = [], 0
        passage.append(sentence)
        length += size
    return (*passages, " ".join(passage))


def _sentences(request: str) -> Iterator[str]:
    """The sentences; one that is longer than a passage in runs of as many words as it has."""
    for sentence in _SENTENCE_END.split(request):
        spaced = sentence.split()
        for start in range(0, len(spaced), _PASSAGE):
            yield " ".join(spaced[start : start + _PASSAGE])


_LISTED = Path(__file__).parent / "data" / "products.txt"
_MOST_WORDS = 3  # of the name of a product


@cache
def _listed_products() -> tuple[frozenset[str], frozenset[str]]:
    """Return the products in any spelling, and those that only a capital tells from words."""
    lines = _LISTED.read_text(encoding="utf-8").splitlines()
    names = [name for line in lines if not line.startswith("#") for name in line.split()]
    capitalized = frozenset(name.lower() for name in names if name[0].isupper())
    return frozenset(names) - capitalized, capitalized


def _listed(names: Mapping[str, str]) -> set[str]:
    plain, capitalized = _listed_products()
    return {
        name
        for name, written in names.items()
        if name in plain or (written[0].isupper() and name in capitalized)
    }


def _product_names(text: str) -> dict[str, str]:
    """Words of a text that may name a product, also several as one; no part of a path or address.

    Each with the way it is written; a capital that begins the text does not count.
    """
    names: dict[str, str] = {}
    found = [*_PRODUCT.finditer(text)]
    for at, first in enumerate(found):
        for last in found[at : at + _MOST_WORDS]:
            run = text[first.start() : last.end()]
            names[_joined(run)] = run if first.start() else run.lower()
    return names


# A small catalog does not show that `information` is a common word of tools and `almanac` a rare
# one, or that `checkout` is something that tools do and `Zhang` a name in a request. The table is
# counted by `scripts/fit_confidence.py` over the catalogs of the development sets; words that fewer
# than three tools contain are left out.

_TABLE = Path(__file__).parent / "data" / "inverse_document_frequency.txt"


@cache
def default_idf() -> Mapping[str, float]:
    """Return the idf of each stem, from 0 for one that every tool contains to nearly 1."""
    return _parse_idf(_TABLE.read_text(encoding="utf-8").splitlines())


def _parse_idf(lines: Iterable[str]) -> dict[str, float]:
    """Parse lines such as `0.45 almanac lunar`."""
    table: dict[str, float] = {}
    for line in lines:
        if not line.startswith("#"):
            idf, *stems = line.split()
            table.update(dict.fromkeys(stems, float(idf)))
    return table


# unarchive the page    no word for 'unarchive'
# delete my workspace   none that deletes, where tools only list and read

_MOST_OPERATIONS = 2  # of a request that asks for one of more, too little is known
# What hardly any word says by chance; `add`, `run` and `get` are said of many things.
_VERBS = {
    Operation.DELETE: "delete or remove",
    Operation.SEND: "send",
    Operation.STOP: "stop, close or cancel",
    Operation.DOWNLOAD: "download or export",
    Operation.UPLOAD: "upload or import",
}


class Gaps(Struct, frozen=True):
    words: tuple[str, ...] = ()
    """Words of the request that none of the tools has, arguments aside."""
    words_server: str = ""
    """The server that is meant, of which no tool has them; empty for the tools that were found."""
    operations: tuple[str, ...] = ()
    """The operations asked for, as verbs, if the best tool's server seems to do none of them."""
    server: str = ""
    """The server that the request names, if the best tool is of another product."""
    product: str = ""
    """The product that the request names, if no tool is of it and no server has its name."""
    object: str = ""
    """The object of the request, if other tools of the server are about it, and not the first."""


def _words_without(held: Container[str], text: str, lexicon: Lexicon) -> list[str]:
    """The words of an English text that have no term among those held."""
    return [
        word
        for word in dict.fromkeys(words(text))
        if word.isalpha()
        and len(word) > 1
        and word not in SAY_NOTHING
        and not lexicon.is_stop_word(word)
        and not any(t in held for t in lexicon.terms(word) if not t.startswith(SUBJECT))
    ]


def _undone(reading: RequestReading, profiles: Sequence[ToolProfile]) -> tuple[str, ...]:
    """Return the operations that a request clearly asks for, as verbs, if no tool does them."""
    operations = [operation for operation in Operation if operation & reading.operations]
    if not reading.is_explicit or len(operations) > _MOST_OPERATIONS:
        return ()
    relations = {relation(reading.operations, profile.operations) for profile in profiles}
    if not relations or not relations <= DIFFERENT or not _VERBS.keys() >= set(operations):
        return ()
    return tuple(_VERBS[operation] for operation in operations)
