from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.search.text import lexicon as module
from discovery_engine.search.text.languages import Language
from discovery_engine.search.text.lexicon import Lexicon, default_lexicon

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
