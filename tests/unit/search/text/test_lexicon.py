from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.search.text import lexicon as module
from discovery_engine.search.text.languages import Language
from discovery_engine.search.text.lexicon import Lexicon, default_lexicon
from tests.rows import rows

LEXICON = default_lexicon()
WORDS = st.sampled_from(
    ["die", "Dateien", "löschen", "Wetterberichte", "supprimer", "le", "borrar", "the", "getKPIs"]
)
TEXTS = st.lists(WORDS | st.text(max_size=4)).map(" ".join)
LANGUAGES = st.sampled_from([None, *LEXICON.languages.supported])


@given(TEXTS, LANGUAGES)
def test_a_text_has_the_terms_of_its_chunks(text: str, language: Language | None) -> None:
    by_chunk = LEXICON.analyze(text, language)
    whole = LEXICON._analyze_text(text, language)

    assert Counter(by_chunk.terms) == Counter(whole.terms)
    assert by_chunk.length == whole.length


@pytest.mark.requirement("REL-23")
@rows(
    ("one", "other"),
    [
        pytest.param("create", "generating", id="made"),
        pytest.param("repositories", "repo", id="repository"),
        pytest.param("delete", "removes", id="removed"),
        pytest.param("search", "lookup", id="found"),
    ],
)
def test_words_that_mean_the_same_share_a_concept(one: str, other: str) -> None:
    assert LEXICON.terms(one)[1] == LEXICON.terms(other)[1]


def test_a_word_has_its_stem_then_its_concept_then_its_subjects() -> None:
    assert LEXICON.terms("songs") == ("song", "@song", "#music")


def test_stop_words_are_left_out_of_text_and_kept_in_names() -> None:
    assert LEXICON.analyze("the weather of a").length == 1
    assert LEXICON.analyze_name("what_is_it").length == 3


def test_the_length_counts_words_and_not_their_concepts() -> None:
    text = LEXICON.analyze("create songs")

    assert text.length == 2
    assert len(text.terms) > 2


def test_groups_of_ones_own_come_before_those_that_ship() -> None:
    lexicon = Lexicon(groups=[["parcel", "Sendung"]])

    assert lexicon.terms("parcel")[1] == lexicon.terms("sendung")[1] == "@parcel"


def test_what_is_read_is_forgotten_when_it_is_too_much() -> None:
    lexicon = Lexicon(memory=2)

    assert lexicon.analyze("alpha beta gamma delta").length == 4
    assert lexicon.analyze("alpha").terms == ["alpha"]


def test_a_word_stands_in_one_group_of_synonyms_only() -> None:
    stems = Counter(
        stem
        for group in module._lines(module._SYNONYMS)
        for stem in {LEXICON.stem(word) for word in group}
    )

    assert [stem for stem, count in stems.items() if count > 1] == []


def test_tables_are_folded_as_words_are() -> None:
    for file in (module._STOP_WORDS, module._SYNONYMS, module._TOPICS):
        for line in module._lines(file):
            assert [word for word in line if word != word.lower()] == []


def test_a_text_of_another_language_is_read_in_english_and_any_other_as_it_is() -> None:
    lexicon = default_lexicon()

    assert lexicon.in_english("crée un nouveau dossier") == "create new folder"
    assert lexicon.in_english("Create a new folder, please") == "Create a new folder, please"
