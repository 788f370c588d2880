from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.search.index.index import DocId, Index, Subset
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


@given(_SERVERS, st.data())
def test_a_subset_has_the_tools_that_it_was_made_of(
    servers: list[list[str]], data: st.DataObject
) -> None:
    index = index_of(servers)
    doc_ids = all_doc_ids(index)
    one, other = (data.draw(st.sets(st.sampled_from(doc_ids))) for _ in range(2))

    first, second = (subset_of(index, some) for some in (one, other))

    assert set(first) == one
    assert first.size == len(one)
    assert {doc_id for doc_id in doc_ids if doc_id in first} == one
    assert set(first & second) == one & other


def subset_of(index: Index, some: set[DocId]) -> Subset:
    keys = {index.entry(doc_id).key for doc_id in some}
    return Subset.of(index, lambda entry: entry.key in keys)
