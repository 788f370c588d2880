from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from discovery_engine.search.query.analyzer import QueryAnalyzer, QueryTerms
from discovery_engine.search.text.dictionaries import WordTable, dictionary_files
from discovery_engine.search.text.lexicon import default_lexicon
from tests.rows import rows
from tests.unit.search.term_counts import TermCounts

COUNTS = {
    "weather": 2,
    "@weather": 3,
    "#weather": 5,
    "zebra": 1,
    "yak": 50,
    "url": 9,
    "@url": 9,
    "webpag": 1,
    "file": 4,
    "system": 3,
    "reddit": 1,
}


def read(query: str) -> QueryTerms:
    return QueryAnalyzer(default_lexicon(), TermCounts(COUNTS)).analyze(query)


def getting(query: str) -> QueryTerms:
    """As `read`, in a catalog with tools that get things."""
    counts = COUNTS | {"get": 20, "@get": 25}
    return QueryAnalyzer(default_lexicon(), TermCounts(counts)).analyze(query)


def test_a_rare_term_weighs_more_than_a_common_one() -> None:
    weights = read("yak zebra").weights

    assert list(weights) == ["zebra", "yak"]


def test_terms_that_no_tool_has_are_unmet_and_not_weighed() -> None:
    query = read("zebra quux 42")

    assert list(query.weights) == ["zebra"]
    assert query.unknown == ("quux", "42")
    assert query.unknown_weight == read("quux").unknown_weight > 0


def test_a_word_said_twice_counts_once() -> None:
    assert read("zebra zebra").weights == read("zebra").weights


@pytest.mark.requirement("REL-25")
def test_what_asks_for_nothing_changes_nothing() -> None:
    assert read("could you please show me the zebra?").weights == read("show zebra").weights


def test_silent_words_count_when_nothing_else_is_said() -> None:
    assert read("what is it").unknown == ("what", "is", "it")


def test_a_question_asks_to_get_something_only_where_tools_say_so() -> None:
    assert list(read("what zebra").weights) == ["zebra"]
    assert "get" in getting("what zebra").weights
    assert getting("tell me what zebra").weights == getting("zebra").weights


def test_a_request_is_cut_into_clauses() -> None:
    query = read("check the weather in Yak town, and then buy zebra food for me")

    assert [{"weather"} <= clause for clause in query.clauses] == [True, False]
    assert "zebra" in query.clauses[1]


def test_a_request_of_one_clause_has_none() -> None:
    assert read("weather for the zebra").clauses == ()


@pytest.mark.requirement("REL-26")
@rows(
    ("query", "term"),
    [
        pytest.param("web page", "webpag", id="joined"),
        pytest.param("filesystem", "system", id="parted"),
        pytest.param("zebta", "zebra", id="mistyped"),
    ],
)
def test_unknown_words_are_joined_parted_or_guessed(query: str, term: str) -> None:
    assert term in read(query).weights


def test_a_guess_weighs_less_than_the_word() -> None:
    assert read("zebta").weights["zebra"] < read("zebra").weights["zebra"]


def test_nothing_is_guessed_in_a_long_request() -> None:
    words = "alpha bravo charlie delta echo foxtrot golf hotel"

    assert "zebra" not in read(f"{words} zebta").weights


@pytest.mark.requirement("REL-27")
def test_of_an_address_only_the_site_counts() -> None:
    query = read("https://www.reddit.com/r/zebra?yak=weather")

    assert {"reddit", "url"} <= set(query.weights)
    assert not {"zebra", "yak", "weather"} & set(query.weights)


@pytest.mark.requirement("REL-70")
def test_a_compound_weighs_more_than_its_parts_and_not_more_than_the_word() -> None:
    counts = COUNTS | {"mysql": 2, "sql": 6}
    analyzer = QueryAnalyzer(default_lexicon(), TermCounts(counts))
    whole, mixed = analyzer.analyze("mysql"), analyzer.analyze("MySQL")

    assert mixed.weights["sql"] < mixed.weights["mysql"] < whole.weights["mysql"]
    assert mixed.unknown == ()


def test_a_compound_that_no_tool_has_counts_by_its_parts() -> None:
    assert read("ZebraYak").weights == read("zebra yak").weights


@pytest.mark.requirement("REL-71")
def test_a_colloquial_word_means_what_tools_say() -> None:
    query = read("k8s yak")

    assert query.unknown == ("k 8 s",)
    assert read("web page gh").unknown == ("web", "page", "gh")
    counts = COUNTS | {"kubernet": 2}
    assert "kubernet" in QueryAnalyzer(default_lexicon(), TermCounts(counts)).analyze("k8s").weights


@pytest.mark.requirement("REL-71")
def test_a_colloquial_word_that_tools_have_weighs_more_than_what_it_means() -> None:
    counts = COUNTS | {"drag": 2, "move": 2, "@move": 2}
    weights = QueryAnalyzer(default_lexicon(), TermCounts(counts)).analyze("drag").weights

    assert weights["drag"] > weights["@move"] > 0


@pytest.mark.requirement("REL-72")
def test_show_me_asks_to_get_something() -> None:
    counts = COUNTS | {"show": 2, "@show": 3, "get": 20, "@get": 25, "list": 20, "@list": 22}
    analyzer = QueryAnalyzer(default_lexicon(), TermCounts(counts))

    for query in (
        "show me the zebra",
        "could you please show us the zebra",
        "zeig mir zebra bitte",
    ):
        assert "@show" not in analyzer.analyze(query).weights
        assert {"@get", "zebra"} <= analyzer.analyze(query).weights.keys()
    assert "@show" in analyzer.analyze("a zebra to show").weights


@pytest.mark.requirement("REL-72")
@rows(
    "query",
    [
        "zebra, could you find that out for me?",
        "I was wondering whether there is a zebra. Thanks in advance!",
        "Let me know what you find: zebra",
        "Is there a way to zebra? That would be great.",
        "zebra, lass es mich wissen, vielen Dank im Voraus",
        "je me demandais si zebra, merci d'avance",
        "necesito la zebra, hazme saber, muchas gracias de antemano",
        "mi chiedevo se zebra, fammi sapere, grazie mille",
        "estava me perguntando se zebra, muito obrigado",
        "ik vroeg me af of zebra, alvast bedankt",
        "zebra, дайте знать, заранее спасибо",
        "zebra よろしくお願いします",
        "zebra 부탁드립니다",
        "zebra 提前谢谢 告诉我结果",
    ],
)
def test_openings_and_closings_ask_for_nothing(query: str) -> None:
    counts = COUNTS | {"find": 9, "@find": 9, "@search": 9, "advanc": 2, "great": 2, "way": 3}

    analyzer = QueryAnalyzer(default_lexicon(), TermCounts(counts))

    assert list(analyzer.analyze(query).weights) == ["zebra"]
    assert analyzer.analyze(query).unknown == ()


class EveryTerm(TermCounts):
    """The vocabulary of tools that hold every word there is."""

    def __init__(self) -> None:
        super().__init__({})

    def document_frequency(self, term: str) -> int:
        return 1

    def known_terms(self, terms: Collection[str]) -> Collection[str]:
        return terms


WORDS = sorted(set().union(*(WordTable(path.stem).words for path in dictionary_files())))


@pytest.mark.requirement("REL-50")
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join))
@example("show history")
def test_each_term_of_a_query_follows_from_one_of_its_words(query: str) -> None:
    analyzer = QueryAnalyzer(default_lexicon(), EveryTerm())
    assert analyzer.analyze(query).weights.keys() <= analyzer.term_sources(query).keys()
