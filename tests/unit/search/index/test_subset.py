from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.search.index.index import DocId, Index
from discovery_engine.search.index.subset import Subset
from discovery_engine.search.query.analyzer import QueryAnalyzer
from discovery_engine.search.query.retrieval import Retrieval
from discovery_engine.search.text.lexicon import default_lexicon
from tests.factories import make_catalog, make_entry, make_part

_WORDS = ("zebra", "yak", "fox", "lion", "owl")
_DESCRIPTIONS = st.lists(st.sampled_from(_WORDS), max_size=4).map(" ".join)
_SERVERS = st.lists(st.lists(_DESCRIPTIONS, min_size=1, max_size=25), min_size=1, max_size=4)


def index_of(servers: list[list[str]]) -> Index:
    """An index to which the servers are added one by one, and the first is changed at last."""
    index = Index()
    for count in range(1, len(servers) + 1):
        catalog = make_catalog(*(part(str(n), texts) for n, texts in enumerate(servers[:count])))
        index = index.update(catalog, {}, default_lexicon())
    changed = part("0", [*servers[0], "gnu"])
    return index.update(catalog.with_parts([changed]), {}, default_lexicon())


def part(server: str, descriptions: list[str]):
    entries = [make_entry(f"t{n}", server, description=d) for n, d in enumerate(descriptions)]
    return make_part(server, *entries)


def all_doc_ids(index: Index) -> list[DocId]:
    return [doc_id for server in index.servers for doc_id in index.doc_ids(server)]


@given(_SERVERS, st.integers(1, 9), st.lists(st.sampled_from(_WORDS), min_size=1), st.data())
def test_a_subset_changes_no_candidate(
    servers: list[list[str]], least: int, words: list[str], data: st.DataObject
) -> None:
    index = index_of(servers)
    doc_ids = all_doc_ids(index)
    some = data.draw(st.sets(st.sampled_from(doc_ids)))
    allowed = data.draw(st.sets(st.sampled_from(sorted(some)))) if some else set()
    analyzer = QueryAnalyzer(default_lexicon(), index)
    query = analyzer.analyze(" ".join(words))

    def find(within: Subset | None) -> list[DocId]:
        retrieval = Retrieval(index, query)
        found = retrieval.find_candidates(least=least, allowed=allowed.__contains__, within=within)
        return sorted(found)

    assert find(Subset(index, some)) == find(None)


@given(_SERVERS, st.data())
def test_the_postings_of_a_subset_are_those_of_its_tools(
    servers: list[list[str]], data: st.DataObject
) -> None:
    index = index_of(servers)
    some = data.draw(st.sets(st.sampled_from(all_doc_ids(index))))
    subset = Subset(index, some)

    for number, level in enumerate(index.levels):
        for term in (*level.postings.lists, "absent"):
            docs, impacts = subset.postings(number, term)
            held = dict(zip(memoryview(docs).cast("I"), impacts, strict=True))
            own = sorted(doc for n, doc in some if n == number)
            every = {doc: level.postings.impact(term, doc) for doc in own}
            assert held == {doc: impact for doc, impact in every.items() if impact}


def test_a_subset_of_accepted_tools_is_in_the_order_of_servers_and_names() -> None:
    index = index_of([["zebra", "yak"], ["fox"], ["owl"]])

    subset = Subset.of(index, lambda entry: entry.tool.name == "t0")

    servers = [index.entry(doc_id).tool.server for doc_id in subset.doc_ids]
    assert servers == ["0", "1", "2"]
    assert len(subset) == 3
