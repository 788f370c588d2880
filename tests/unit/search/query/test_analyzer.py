from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from discovery_engine.search.query.analyzer import QueryAnalyzer, QueryTerms
from discovery_engine.search.text.languages import WordTable, dictionary_files
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


def test_a_request_is_cut_into_clauses() -> None:
    query = read("check the weather in Yak town, and then buy zebra food for me")

    assert [{"weather"} <= clause for clause in query.clauses] == [True, False]
    assert "zebra" in query.clauses[1]


def test_nothing_is_guessed_in_a_long_request() -> None:
    words = "alpha bravo charlie delta echo foxtrot golf hotel"

    assert "zebra" not in read(f"{words} zebta").weights


def test_a_compound_weighs_more_than_its_parts_and_not_more_than_the_word() -> None:
    counts = COUNTS | {"mysql": 2, "sql": 6}
    analyzer = QueryAnalyzer(default_lexicon(), TermCounts(counts))
    whole, mixed = analyzer.analyze("mysql"), analyzer.analyze("MySQL")

    assert mixed.weights["sql"] < mixed.weights["mysql"] < whole.weights["mysql"]
    assert mixed.unknown == ()


def test_when_something_is_and_the_verb_of_a_question_say_less_than_what_it_is_about() -> None:
    counts = COUNTS | {"friday": 1, "get": 1, "zebra": 1}
    analyzer = QueryAnalyzer(default_lexicon(), TermCounts(counts))
    asked, ordered = (
        analyzer.analyze(text).weights
        for text in ("which zebra is here on friday", "get zebra for friday")
    )

    assert asked["friday"] < asked["zebra"] == ordered["zebra"]
    assert asked["get"] < ordered["get"]


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
