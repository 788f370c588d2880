"""Laws of the ranking, for any catalog and any query."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jellyfish import damerau_levenshtein_distance
from msgspec.structs import astuple

from discovery_engine.catalog import Catalog, Entry, ServerPart
from discovery_engine.config.settings import SearchSettings, Weights
from discovery_engine.search.ranking.hit_explanation import Reason
from discovery_engine.search.ranking.relevance import Hit, name_likeness
from discovery_engine.search.searcher import Searcher, build_searcher, load_searcher
from discovery_engine.search.text.tokenizer import fold, name_spellings
from discovery_engine.search.vectors import Vectors, pack
from tests.factories import make_catalog, make_entry, make_part

SERVERS = ["github", "jira", "weather", "files"]
WORDS = ["create", "list", "issue", "issues", "pull", "user", "file", "forecast", "mail", "song"]
TAGS = ["vcs", "read-only", "home"]
QUERIES = [
    "create issue",
    "list the users, then send a mail",
    "forecast",
    "vcs song",
    "github file",
]
MOST = 0.02  # what usage adds at most

names = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map("_".join)
texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
queries = st.one_of(st.sampled_from(QUERIES), texts, names)
weights = st.builds(Weights, *[st.floats(0, 1)] * 3)


@st.composite
def parts(draw: st.DrawFn, server: str | None = None) -> ServerPart:
    server = server or draw(st.sampled_from(SERVERS))
    chosen = draw(st.dictionaries(names, st.tuples(texts, st.sets(st.sampled_from(TAGS)))))
    entries = [
        make_entry(name, server, description=text, tags=sorted(tags))
        for name, (text, tags) in chosen.items()
    ]
    return make_part(server, *entries)


@st.composite
def catalogs(draw: st.DrawFn) -> Catalog:
    servers = draw(st.sets(st.sampled_from(SERVERS), min_size=1))
    return make_catalog(*(draw(parts(server)) for server in sorted(servers)))


def search(
    of: Catalog | Searcher, query: str, *, limit: int = 1000, accepts=lambda _: True, **more
) -> tuple[Hit, ...]:
    searcher = of if isinstance(of, Searcher) else build_searcher(of, SearchSettings())
    return searcher.search(searcher.analyze(query), limit=limit, accepts=accepts, **more)


@given(catalogs(), queries, weights)
def test_parts_and_shares_add_up_to_a_relevance_from_0_to_1(catalog, query, chosen) -> None:
    searcher = build_searcher(catalog, SearchSettings(weights=chosen))

    for hit in search(searcher, query):
        exact, partial, tag = hit.parts.exact, hit.parts.partial, hit.parts.tag
        assert exact + partial + tag == hit.relevance <= 1
        assert min(exact, partial, tag) >= 0
        explanation = searcher.explain(searcher.analyze(query), hit)
        assert sum(share.adds for share in explanation.shares) == pytest.approx(
            hit.relevance, abs=1e-9
        )
        others = [one for one in explanation.shares if one.reason is not Reason.AGREEMENT]
        assert all(share.adds > 0 for share in others)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=2), queries)
def test_the_shares_add_up_with_vectors_too(vector, query) -> None:
    tools = [make_entry("create_issue", "one").tool, make_entry("list_songs", "one").tool]
    vectors = Vectors(tools, [pack((1.0, 0.0)), pack((0.6, 0.8))])
    entries = [make_entry(tool) for tool in tools]
    searcher = build_searcher(make_catalog(make_part("one", *entries)), SearchSettings())

    for hit in search(searcher, query, limit=9, similarities=vectors.compare([vector])):
        shares = searcher.explain(searcher.analyze(query), hit).shares
        assert sum(share.adds for share in shares) == pytest.approx(hit.relevance, abs=1e-9)
        by_meaning = sum(share.adds for share in shares if share.reason is Reason.MEANING)
        assert by_meaning == hit.parts.meaning


@given(catalogs(), st.sampled_from(QUERIES))
def test_hits_fall_in_relevance_and_ties_are_in_the_order_of_names(catalog, query) -> None:
    hits = [hit for hit in search(catalog, query) if not hit.parts.exact]
    likeness = name_likeness(query)

    order = [
        (-hit.relevance, -likeness(hit.entry.tool.name), *astuple(hit.entry.key)) for hit in hits
    ]
    assert order == sorted(order)


@given(catalogs(), weights, st.data())
def test_any_spelling_of_any_name_is_first_whatever_the_weights(catalog, chosen, data) -> None:
    assume(len(catalog))
    tool = data.draw(st.sampled_from([entry.tool for entry in catalog]))
    camel = "".join(map(str.title, tool.name.split("_")))
    spelled = [camel, tool.name.upper(), tool.name.replace("_", "-"), tool.name.replace("_", " ")]
    query = f"{tool.server}__{data.draw(st.sampled_from(spelled))}"

    [first, *_] = search(build_searcher(catalog, SearchSettings(weights=chosen)), query)

    assert fold(first.entry.tool.server + first.entry.tool.name) == fold(query)


@given(catalogs(), st.data())
def test_one_typo_still_finds_the_name_first(catalog, data) -> None:
    assume(len(catalog))
    entry = data.draw(st.sampled_from(list(catalog)))
    query = data.draw(mistyped(entry.tool.name))
    near = {e.tool.name for e in catalog if reaches(e, query)}
    assume(near == {entry.tool.name} and len(fold(query)) > 4)

    assert search(catalog, query)[0].entry.tool.name == entry.tool.name


@st.composite
def mistyped(draw: st.DrawFn, name: str) -> str:
    at = draw(st.integers(1, len(name) - 1))
    letter = draw(st.sampled_from("bdkqz"))
    left, right = name[:at], name[at:]
    return draw(
        st.sampled_from([left + right[1:], left + letter + right, left + letter + right[1:]])
    )


def reaches(entry: Entry, query: str) -> bool:
    return any(
        damerau_levenshtein_distance(fold(query), name) <= 1 for name in name_spellings(entry.tool)
    )


@given(catalogs(), queries, st.integers(0, 30), st.data())
def test_a_filter_and_a_limit_only_take_away(catalog, query, limit, data) -> None:
    keys = [entry.key for entry in catalog]
    chosen = set(data.draw(st.lists(st.sampled_from(keys)))) if keys else set()
    searcher = build_searcher(catalog, SearchSettings())
    flags = {
        part.server: bytes(entry.key in chosen for entry in part.entries)
        for part in catalog.parts.values()
    }
    within = searcher.tools_of(flags)

    def accepts(entry: Entry) -> bool:
        return entry.key in chosen

    everything, accepted = search(searcher, query), search(searcher, query, accepts=accepts)
    assert accepted == tuple(hit for hit in everything if accepts(hit.entry))
    first = search(searcher, query, limit=30, accepts=accepts)
    assert search(searcher, query, limit=30, within=within) == first
    assert search(searcher, query, limit=limit) == search(searcher, query, limit=30)[:limit]


@given(st.lists(parts(), min_size=1, max_size=8), st.sets(st.sampled_from(SERVERS)), queries)
def test_an_index_that_was_updated_or_saved_finds_what_a_fresh_one_finds(
    changes, gone, query
) -> None:
    catalog = make_catalog()
    updated = build_searcher(catalog, SearchSettings())
    for part in changes:
        catalog = catalog.with_parts([part])
        updated = build_searcher(catalog, SearchSettings(), previous=updated)
    left = [part for name, part in catalog.parts.items() if name not in gone]
    catalog = Catalog.of(left, revision=catalog.revision + 1)
    updated = build_searcher(catalog, SearchSettings(), previous=updated)

    loaded = load_searcher(updated.dump(), catalog, SearchSettings())

    assert loaded is not None
    assert search(updated, query) == search(loaded, query) == search(catalog, query)


@given(
    catalogs(),
    st.sampled_from(["list the users", "find the forecast of a song", "show me the files"]),
    st.sampled_from(
        [
            "{}, but don't send the mail",
            "{} without creating an issue",
            "{}, not the issues",
            "never send a mail, {}",
            "{}. Do not create a user.",
            "Could you please {} for me, thanks?",
        ]
    ),
)
def test_what_is_not_wanted_and_polite_words_find_nothing_more(catalog, wanted, form) -> None:
    searcher = build_searcher(catalog, SearchSettings())
    assume(not searcher.analyze(wanted).name_matches)

    alone = {hit.entry.key: hit.relevance for hit in search(searcher, wanted)}

    assert {h.entry.key: h.relevance for h in search(searcher, form.format(wanted))} == alone


@given(catalogs(), queries, weights, st.data())
def test_usage_adds_little_and_never_passes_what_fits_clearly_better(
    catalog, query, chosen, data
) -> None:
    usage = {entry.key: data.draw(st.floats(0, 1, exclude_max=True)) for entry in catalog}
    searcher = build_searcher(catalog, SearchSettings(weights=chosen))

    plain = {hit.entry.key: hit for hit in search(searcher, query, usage={})}
    used = search(searcher, query, usage=usage)

    assert {hit.entry.key for hit in used} == plain.keys()
    for hit in used:
        before = plain[hit.entry.key]
        assert 0 <= hit.relevance - before.relevance <= MOST + 1e-12
        assert hit.relevance <= 1 + 1e-12
        if before.parts.exact:
            assert hit == before
    rest = [plain[hit.entry.key].relevance for hit in used if not hit.parts.exact]
    assert all(later <= earlier + MOST for earlier, later in pairwise(rest))
