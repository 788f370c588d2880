"""What specs/relevance.md promises, asked of a searcher as the rest of the engine asks it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import astuple
from rapidfuzz.distance import OSA

from discovery_engine.config.settings import SearchSettings, Weights
from discovery_engine.search.ranking.hit import Hit
from discovery_engine.search.ranking.relevance import name_likeness
from discovery_engine.search.searcher import Searcher, build_searcher, load_searcher
from discovery_engine.search.text.lexicon import default_lexicon
from discovery_engine.search.text.spelling import name_spellings
from discovery_engine.search.text.tokenizer import fold, words
from discovery_engine.tools.model import ServerName
from tests.factories import make_catalog, make_entry, make_part
from tests.rows import rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from discovery_engine.catalog import Catalog, Entry, ServerPart

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
    within: Catalog | Searcher, query: str, *, limit: int = 1000, accepts=lambda _: True
) -> tuple[Hit, ...]:
    searcher = within if isinstance(within, Searcher) else build_searcher(within, SearchSettings())
    return searcher.search(searcher.analyze(query), limit=limit, accepts=accepts)


def found(within: Catalog | Searcher, query: str, **options) -> list[str]:
    return [str(hit.entry.key) for hit in search(within, query, **options)]


def described(**tools: str) -> Catalog:
    entries = [make_entry(name, "one", description=text) for name, text in tools.items()]
    return make_catalog(make_part("one", *entries))


@pytest.mark.thorough
@pytest.mark.requirement("REL-1")
@given(catalogs(), queries, weights)
def test_parts_add_up_to_a_relevance_between_nothing_and_one(catalog, query, chosen) -> None:
    searcher = build_searcher(catalog, SearchSettings(weights=chosen))

    for hit in search(searcher, query):
        exact, partial, tag = hit.parts.exact, hit.parts.partial, hit.parts.tag
        assert exact + partial + tag == hit.relevance
        assert min(exact, partial, tag) >= 0
        assert hit.relevance <= 1
        assert exact in (0, chosen.exact)


@pytest.mark.requirement("REL-1")
def test_the_parts_are_joined_by_noisy_or() -> None:
    catalog = make_catalog(make_part("one", make_entry("song", "one", tags=["song", "x"])))
    searcher = build_searcher(catalog, SearchSettings(weights=Weights(0.5, 0.0, 0.4)))

    [hit] = search(searcher, "song")

    assert (hit.parts.exact, hit.parts.partial) == (0.5, 0)
    assert hit.parts.tag == pytest.approx((1 - 0.5) * 0.4 * 0.5)


@pytest.mark.thorough
@pytest.mark.requirement("REL-2", "REL-3")
@given(catalogs(), st.sampled_from(QUERIES))
def test_hits_fall_in_relevance_and_ties_are_in_the_order_of_names(catalog, query) -> None:
    hits = [hit for hit in search(catalog, query) if not hit.parts.exact]
    likeness = name_likeness(query)

    order = [
        (-hit.relevance, -likeness(hit.entry.tool.name), *astuple(hit.entry.key)) for hit in hits
    ]
    assert order == sorted(order)


@pytest.mark.requirement("REL-3")
@rows(
    ("query", "right", "twin"),
    [
        ("turn text to speech", "text_to_speech", "speech_to_text"),
        ("turn speech to text", "speech_to_text", "text_to_speech"),
        ("euro into dollar", "euro_dollar", "dollar_euro"),
        ("dollar into euro", "dollar_euro", "euro_dollar"),
    ],
)
def test_of_twins_the_one_with_the_order_of_the_query_is_first(
    query: str, right: str, twin: str
) -> None:
    assert found(make_catalog(make_part("a", right, twin)), query)[0] == f"a:{right}"


@pytest.mark.thorough
@pytest.mark.requirement("REL-2")
@given(catalogs(), weights, st.data())
def test_an_exact_name_is_first_whatever_the_weights(catalog, chosen, data) -> None:
    assume(len(catalog))
    wanted = data.draw(st.sampled_from([entry.key for entry in catalog]))
    searcher = build_searcher(catalog, SearchSettings(weights=chosen))

    assert found(searcher, str(wanted))[0] == str(wanted)


@pytest.mark.requirement("REL-2")
@given(names, st.lists(names, min_size=1, max_size=3), weights)
def test_a_name_comes_before_the_tags_and_words_of_others_whatever_the_weights(
    name, others, chosen
) -> None:
    rivals = [
        make_entry(f"a_{n}_{other}", "a", description=name, tags=[name, *name.split("_")])
        for n, other in enumerate(others)
    ]
    catalog = make_catalog(make_part("a", *rivals), make_part("b", make_entry(name, "b")))
    searcher = build_searcher(catalog, SearchSettings(weights=chosen))

    for query in (name, f"b:{name}", f"b__{name}", name.replace("_", "-"), name.upper()):
        assert found(searcher, query)[0] == f"b:{name}", query


@pytest.mark.requirement("REL-3")
def test_many_that_fit_alike_are_in_the_order_of_server_and_name() -> None:
    catalog = make_catalog(
        *(make_part(s, *(f"zebra_{n:03}" for n in range(100))) for s in ("c", "a", "b"))
    )

    assert found(catalog, "zebra", limit=3) == ["a:zebra_000", "a:zebra_001", "a:zebra_002"]


@pytest.mark.requirement("REL-4")
def test_a_tool_that_only_a_tag_speaks_for_is_found() -> None:
    catalog = make_catalog(
        make_part("one", make_entry("x", "one", tags=["read-only"]), make_entry("y", "one"))
    )

    [hit] = search(catalog, "anything read only")

    assert hit.entry.tool.name == "x"
    assert hit.parts.tag == hit.relevance == pytest.approx(0.3)
    assert search(catalog, "read") == ()


@pytest.mark.requirement("REL-4")
def test_of_many_tagged_tools_the_best_are_found() -> None:
    entries = [make_entry(f"x{n:03}", "one", tags=["vcs"]) for n in range(200)]
    best = make_entry("zebra", "one", tags=["vcs"])
    catalog = make_catalog(make_part("one", *entries, best))

    assert found(catalog, "vcs zebras", limit=2) == ["one:zebra", "one:x000"]


@pytest.mark.requirement("REL-5")
@rows("query", ["", "  ", "quux", "?!"])
def test_nothing_known_finds_nothing(query: str) -> None:
    assert search(described(song="plays"), query) == ()


@pytest.mark.requirement("REL-5")
def test_no_hits_are_given_when_none_are_wanted() -> None:
    assert search(described(song=""), "song", limit=0) == ()


@pytest.mark.requirement("REL-10")
@rows(
    "query",
    [
        "create_issue",
        "createIssue",
        "create-issue",
        "create issue",
        "CREATE_ISSUE",
        " Create Issue ",
        "github:create_issue",
        "github__create_issue",
        "mcp__github__create_issue",
        "GitHub create issue",
    ],
)
def test_every_spelling_names_the_tool(query: str) -> None:
    catalog = make_catalog(
        make_part(
            "github",
            "create_issue",
            make_entry("create_issue_comment", "github", description="create issue, create issue"),
        )
    )

    first, *others = search(catalog, query)

    assert first.entry.tool.name == "create_issue"
    assert first.parts.exact == 1
    assert all(other.parts.exact == 0 for other in others)


@pytest.mark.requirement("REL-10")
def test_the_name_that_the_server_uses_names_the_tool() -> None:
    catalog = make_catalog(make_part("github", make_entry("create", "github", prefix="gh_")))

    assert search(catalog, "github:create")[0].parts.exact == 1
    assert search(catalog, "gh_create")[0].parts.exact == 1


@pytest.mark.requirement("REL-10")
@given(catalogs(), st.data())
def test_any_spelling_of_any_name_is_first(catalog, data) -> None:
    assume(len(catalog))
    tool = data.draw(st.sampled_from([entry.tool for entry in catalog]))
    camel = "".join(map(str.title, tool.name.split("_")))
    spelled = [camel, tool.name.upper(), tool.name.replace("_", "-"), tool.name.replace("_", " ")]
    query = f"{tool.server}__{data.draw(st.sampled_from(spelled))}"

    [first, *_] = search(catalog, query)

    assert fold(first.entry.tool.server + first.entry.tool.name) == fold(query)


@pytest.mark.requirement("REL-11")
@rows("query", ["get_user", "getUser"])
def test_of_two_spellings_the_one_asked_for_is_first(query: str) -> None:
    assert found(described(getUser="", get_user=""), query)[0] == f"one:{query}"


@pytest.mark.requirement("REL-12")
@rows(
    "query", ["create_isue", "craete_issue", "create_issues", "github:creat_issue", "creat isuse"]
)
def test_a_mistyped_name_is_first(query: str) -> None:
    rivals = [
        make_entry(name, "jira", description="create issue issues create") for name in ("a", "b")
    ]
    catalog = make_catalog(make_part("github", "create_issue"), make_part("jira", *rivals))

    [first, *_] = search(catalog, query)

    assert str(first.entry.key) == "github:create_issue"
    assert first.parts.exact == 0


@pytest.mark.thorough
@pytest.mark.requirement("REL-12")
@given(catalogs(), st.data())
def test_one_slip_still_finds_the_name_first(catalog, data) -> None:
    assume(len(catalog))
    entry = data.draw(st.sampled_from(list(catalog)))
    query = data.draw(slipped(entry.tool.name))
    near = {e.tool.name for e in catalog if reaches(e, query)}
    assume(near == {entry.tool.name} and len(fold(query)) > 4)

    assert search(catalog, query)[0].entry.tool.name == entry.tool.name


@st.composite
def slipped(draw: st.DrawFn, name: str) -> str:
    at = draw(st.integers(1, len(name) - 1))
    letter = draw(st.sampled_from("bdkqz"))
    left, right = name[:at], name[at:]
    return draw(
        st.sampled_from([left + right[1:], left + letter + right, left + letter + right[1:]])
    )


def reaches(entry: Entry, query: str) -> bool:
    return any(OSA.distance(fold(query), name) <= 1 for name in name_spellings(entry.tool))


@pytest.mark.requirement("REL-12")
def test_a_slip_between_two_names_favours_neither() -> None:
    catalog = described(send_mail1="", send_mail2="", compose="send mailx, send mailx")

    assert found(catalog, "send_mailx")[0] == "one:compose"


@pytest.mark.requirement("REL-20", "REL-21", "REL-22")
@rows(
    ("name", "description", "query"),
    [
        pytest.param("getUserByID", "", "the id of a user", id="camel case"),
        pytest.param("HTTPServerError", "", "server errors", id="acronym"),
        pytest.param("x", "在目录中搜索文件内容", "搜索文件", id="chinese"),
        pytest.param("x", "在目录中搜索文件内容", "搜", id="one character"),
        pytest.param("x", "Café finder", "CAFE", id="accents"),
        pytest.param("wetter", "Zeigt die Höhe", "hohe", id="german"),
    ],
)
def test_words_are_found_in_every_writing(name: str, description: str, query: str) -> None:
    assert found(described(**{name: description, "other": "zebra"}), query) == [f"one:{name}"]


@pytest.mark.requirement("REL-23")
def test_the_very_word_counts_for_more_than_one_that_means_the_same() -> None:
    catalog = described(a="revoke it", b="cancel it", c="paint it")

    assert found(catalog, "cancel") == ["one:b", "one:a"]
    assert found(catalog, "revoking") == ["one:a", "one:b"]


@pytest.mark.requirement("REL-24")
def test_a_subject_alone_is_found_behind_those_that_say_more() -> None:
    catalog = described(a="plays music", b="edit a playlist", c="paint it")

    assert found(catalog, "playlist") == ["one:b", "one:a"]


@pytest.mark.thorough
@pytest.mark.requirement("REL-25")
@given(catalogs())
def test_polite_words_change_nothing(catalog) -> None:
    plain, polite = "create issue", "Could you please create the issue for me, thanks?"

    scored = [[(h.entry.key, h.parts.partial) for h in search(catalog, q)] for q in (plain, polite)]

    assume(not any(hit.parts.exact for hit in search(catalog, plain)))
    assert scored[0] == scored[1]


@pytest.mark.requirement("REL-26")
@rows(
    ("query", "expected"),
    [("web page", "one:a"), ("filesystem", "one:b"), ("zebrra", "one:c")],
)
def test_compounds_and_slips_are_understood(query: str, expected: str) -> None:
    catalog = described(a="opens a webpage", b="a file system", c="zebra")

    assert found(catalog, query)[0] == expected


@pytest.mark.requirement("REL-27")
def test_the_path_of_an_address_counts_for_nothing() -> None:
    catalog = described(a="reddit posts", b="weather forecast")

    assert found(catalog, "look at https://www.reddit.com/weather/forecast") == ["one:a"]


@pytest.mark.requirement("REL-28")
@rows("query", ["what time is it in Tokyo", "Which time?", "how much time"])
def test_a_question_asks_to_get_something(query: str) -> None:
    catalog = described(convert_time="the time elsewhere", get_current_time="the time elsewhere")

    assert found(catalog, query)[0] == "one:get_current_time"


@pytest.mark.requirement("REL-30")
def test_a_name_counts_more_than_a_description_and_that_more_than_a_parameter() -> None:
    schema = {"type": "object", "properties": {"p": {"description": "a zebra"}}}
    catalog = make_catalog(
        make_part(
            "one",
            make_entry("zebra_z", "one"),
            make_entry("y", "one", description="Stripes on a zebra in the yard"),
            make_entry("x", "one", inputSchema=schema),
            make_entry("zebra_with_stripes", "one"),
        )
    )

    order = found(catalog, "zebras")

    assert order == ["one:zebra_z", "one:zebra_with_stripes", "one:y", "one:x"]


@pytest.mark.requirement("REL-30")
def test_what_a_server_is_for_counts_for_its_tools() -> None:
    catalog = make_catalog(make_part("a", "x"), make_part("b", "x"))
    searcher = build_searcher(catalog, SearchSettings(), descriptions={"b": "about zebras"})

    assert found(searcher, "zebra") == ["b:x"]


@pytest.mark.requirement("REL-31")
def test_a_tool_for_one_clause_stands_above_one_with_a_little_of_each() -> None:
    catalog = described(a="alpha bravo delta", b="alpha bravo charlie")
    clauses, one_piece = "alpha bravo charlie, then delta echo", "alpha bravo charlie delta echo"

    assert found(catalog, clauses) == ["one:b", "one:a"]
    assert found(catalog, one_piece) == ["one:a", "one:b"]


@pytest.mark.requirement("REL-40")
@given(catalogs(), queries)
def test_a_filter_only_takes_away(catalog, query) -> None:
    def accepts(entry) -> bool:
        return entry.tool.server in {"github", "jira"}

    everything = search(catalog, query)

    assert search(catalog, query, accepts=accepts) == tuple(
        hit for hit in everything if accepts(hit.entry)
    )


@pytest.mark.thorough
@pytest.mark.requirement("REL-40")
@given(catalogs(), queries, st.data())
def test_a_search_within_some_tools_finds_what_a_search_of_all_finds_of_them(
    catalog, query, data
) -> None:
    keys = [entry.key for entry in catalog]
    chosen = set(data.draw(st.lists(st.sampled_from(keys)))) if keys else set()
    searcher = build_searcher(catalog, SearchSettings())
    flags = {
        part.server: bytes(entry.key in chosen for entry in part.entries)
        for part in catalog.parts.values()
    }

    within = searcher.search(
        searcher.analyze(query),
        limit=30,
        accepts=lambda _: True,
        within=searcher.tools_of(flags),
    )

    assert within == search(searcher, query, limit=30, accepts=lambda e: e.key in chosen)


@pytest.mark.requirement("REL-40")
@rows("share", [2, 10, 40])
def test_a_search_within_many_tools_finds_what_a_filter_of_all_leaves(share: int) -> None:
    words = ("zebra", "yak", "fox", "lion", "owl", "gnu", "ape")
    entries = [
        make_entry(f"t{n:04}", "s", description=" ".join(words[n % 7 : n % 5 + 2]))
        for n in range(2000)
    ]
    searcher = build_searcher(make_catalog(make_part("s", *entries)), SearchSettings())
    is_chosen = [n % share == 0 for n in range(len(entries))]
    subset = searcher.tools_of({ServerName("s"): bytes(is_chosen)})
    chosen = {entry.key for entry, is_one in zip(entries, is_chosen, strict=True) if is_one}

    for query in ("zebra fox", "an owl and a lion", "ape"):
        asked = searcher.analyze(query)
        found = searcher.search(asked, limit=10, accepts=lambda _: True, within=subset)
        expected = searcher.search(asked, limit=10, accepts=lambda entry: entry.key in chosen)
        assert found == expected


@pytest.mark.requirement("REL-40")
def test_a_narrow_filter_finds_what_a_crowd_would_hide() -> None:
    crowd = make_part("a", *(f"zebra_{n}" for n in range(500)))
    lone = make_part("b", make_entry("x", "b", description="something about a zebra"))
    catalog = make_catalog(crowd, lone)

    assert found(catalog, "zebra", accepts=lambda e: e.tool.server == "b", limit=5) == ["b:x"]


@pytest.mark.thorough
@pytest.mark.requirement("REL-41")
@given(catalogs(), queries, st.integers(0, 30))
def test_a_smaller_limit_gives_the_first_hits(catalog, query, limit) -> None:
    assert search(catalog, query, limit=limit) == search(catalog, query, limit=30)[:limit]


@pytest.mark.thorough
@pytest.mark.requirement("REL-3", "REL-42")
@given(st.lists(parts(), min_size=1, max_size=8), st.sets(st.sampled_from(SERVERS)), st.data())
def test_a_searcher_made_by_updates_finds_what_a_fresh_one_finds(changes, gone, data) -> None:
    catalog = make_catalog()
    updated = build_searcher(catalog, SearchSettings())
    for part in changes:
        catalog = catalog.with_parts([part])
        updated = build_searcher(catalog, SearchSettings(), previous=updated)
    catalog = catalog.only(set(catalog.parts) - gone)
    updated = build_searcher(catalog, SearchSettings(), previous=updated)

    query = data.draw(queries)
    assert search(updated, query) == search(catalog, query)


@pytest.mark.thorough
@pytest.mark.requirement("REL-42")
def test_a_large_catalog_finds_the_same_after_many_updates() -> None:
    def part(server: int, version: int) -> ServerPart:
        entries = [
            make_entry(
                f"{WORDS[(n + version) % 10]}_{n}",
                f"s{server}",
                description=" ".join(WORDS[(n * k + server) % 10] for k in range(5)),
            )
            for n in range(12)
        ]
        return make_part(f"s{server}", *entries)

    catalog = make_catalog(*(part(n, 0) for n in range(30)))
    updated = build_searcher(catalog, SearchSettings())
    for n in range(30):
        catalog = catalog.with_parts([part((n * 7) % 30, 1)])
        updated = build_searcher(catalog, SearchSettings(), previous=updated)
        if n in (1, 15, 29):
            for query in [*QUERIES, *WORDS]:
                assert search(updated, query, limit=10) == search(catalog, query, limit=10)


@pytest.mark.thorough
@pytest.mark.requirement("REL-44")
@given(catalogs(), queries)
def test_a_saved_index_finds_the_same(catalog, query) -> None:
    saved = build_searcher(catalog, SearchSettings()).dump()

    loaded = load_searcher(saved, catalog, SearchSettings())

    assert loaded is not None
    assert search(loaded, query) == search(catalog, query)


@pytest.mark.requirement("REL-44")
def test_a_saved_index_leaves_out_what_was_struck() -> None:
    catalog = make_catalog(make_part("a", *(f"x{n}" for n in range(30))), make_part("b", "zebra"))
    first = build_searcher(catalog, SearchSettings())
    catalog = catalog.with_parts([make_part("b", "yak")])
    saved = build_searcher(catalog, SearchSettings(), previous=first).dump()

    loaded = load_searcher(saved, catalog, SearchSettings())

    assert loaded is not None
    assert found(loaded, "zebra") == []
    assert found(loaded, "yak") == ["b:yak"]


@pytest.mark.requirement("REL-44")
@rows(
    ("descriptions", "damage", "catalog"),
    [
        pytest.param({}, b"x", described(song="plays"), id="damaged"),
        pytest.param({}, b"", described(song="sings"), id="another tool"),
        pytest.param({"one": "music"}, b"", described(song="plays"), id="another description"),
        pytest.param({}, b"", make_catalog(), id="fewer servers"),
    ],
)
def test_a_saved_index_that_does_not_fit_is_not_used(descriptions, damage, catalog) -> None:
    saved = build_searcher(described(song="plays"), SearchSettings()).dump()

    options = {"descriptions": descriptions}
    assert load_searcher(saved + damage, catalog, SearchSettings(), **options) is None


@pytest.mark.requirement("REL-70")
@rows(
    "name",
    ["MySQL", "GitHub", "BibTeX", "OpenAPI", "YouTube", "iPhone", "GraphQL", "NoSQL", "macOS"],
)
@rows("spelled", [str, str.lower])
def test_a_name_in_mixed_case_finds_its_tool_before_those_with_a_part_of_it(
    name: str, spelled: Callable[[str], str]
) -> None:
    partly = [
        make_entry(f"search_{part}", "part", description=f"Search the {part} for entries.")
        for part in words(name)
    ]
    rightly = make_entry("search_items", "right", description=f"Search {name} for entries.")
    other = make_entry("search_files", "other", description="Search files.")
    catalog = make_catalog(
        make_part("right", rightly), make_part("part", *partly), make_part("other", other)
    )

    hits = search(catalog, f"search {spelled(name)} for entries about cats")

    assert hits[0].entry.tool.server == "right"


@pytest.mark.requirement("REL-46")
@rows("request_", ["ls -la", "ps aux", "rm CA sid", "list indices"])
def test_commands_are_not_taken_for_another_language(request_: str) -> None:
    assert default_lexicon().detect_language(request_) is None


@pytest.mark.thorough
@pytest.mark.requirement("REL-73")
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
        ]
    ),
)
def test_what_is_not_wanted_finds_nothing_more(catalog, wanted, form) -> None:
    searcher = build_searcher(catalog, SearchSettings())
    assume(not searcher.analyze(wanted).name_matches)

    alone = {hit.entry.key: hit.relevance for hit in search(searcher, wanted)}

    assert {h.entry.key: h.relevance for h in search(searcher, form.format(wanted))} == alone


@pytest.mark.requirement("REL-73")
@rows(
    ("query", "first"),
    [
        ("put the mail into my drafts, but don't send it", "create_draft"),
        ("archive the channel of the team without deleting it", "archive_channel"),
        ("show the files instead of deleting them", "list_files"),
        ("zeig mir die Dateien, ohne sie zu löschen", "list_files"),
        ("lista los archivos sin borrarlos", "list_files"),
        ("liste les fichiers sans les supprimer", "list_files"),
        ("покажи файлы, не удаляй их", "list_files"),
        ("列出文件\uff0c不要删除", "list_files"),
    ],
)
def test_a_tool_that_does_what_is_not_wanted_is_not_first(query: str, first: str) -> None:
    catalog = described(
        create_draft="Put a mail into the drafts.",
        send_mail="Send a mail, also one of the drafts.",
        archive_channel="Archive a channel of a team.",
        delete_channel="Delete a channel of a team for good.",
        list_files="Show the files of a folder.",
        delete_files="Delete files for good, without a trace.",
    )

    assert found(catalog, query)[0] == f"one:{first}"
