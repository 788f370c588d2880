from __future__ import annotations

import pytest

from discovery_engine.search.text.languages import Token
from discovery_engine.search.text.lexicon import Lexicon, default_lexicon
from discovery_engine.search.text.tokenizer import runs

LEXICON = default_lexicon()


def tokens(text: str) -> list[Token]:
    return LEXICON.tokens(text, LEXICON.detect_language(text))


@pytest.mark.parametrize(
    ("text", "english"),
    [
        pytest.param("Bitte lösche die Datei", ["delete", "file"], id="german"),
        pytest.param("die Wetterberichte von Köln", ["weather", "report", "koln"], id="compound"),
        pytest.param("eine Einkaufsliste schreiben", ["buy", "list", "write"], id="linked"),
        pytest.param("envoyer les fichiers", ["send", "file"], id="french"),
        pytest.param("¿Dónde está mi pedido?", ["order"], id="spanish"),
        pytest.param("请帮我删除文件", ["delete", "file"], id="chinese"),
        pytest.param("删除篮球场", ["delete", "篮球", "球场"], id="chinese with unknown words"),
        pytest.param("send it to the repository", ["send", "repository"], id="english"),
    ],
)
def test_words_are_translated_to_english(text: str, english: list[str]) -> None:
    assert [word for token in tokens(text) for word in token.english] == english


def test_a_token_keeps_the_word_beside_its_english() -> None:
    assert tokens("Rechnungen anzeigen") == [
        Token("rechnungen", ("invoice",)),
        Token("anzeigen", ("show",)),
    ]


def test_a_word_of_the_owner_is_not_looked_up() -> None:
    lexicon = Lexicon(groups=[("Rechnung", "bill")])

    [first, _] = lexicon.tokens("Rechnung anzeigen", lexicon.detect_language("Rechnung anzeigen"))

    assert first.english == ("rechnung",)


def test_an_indicator_of_a_language_is_no_english_word() -> None:
    for language in LEXICON.languages.supported:
        assert not language.indicators & {"list", "images", "notes", "in", "a", "die", "comment"}


def test_every_entry_of_the_dictionaries_is_one_word() -> None:
    for language in LEXICON.languages.supported:
        translations = language.dictionary.translations
        assert [text for text in translations if len(runs(text)) != 1] == []


@pytest.mark.parametrize("code", ["de", "es", "fr"])
def test_no_translation_is_a_stop_word(code: str) -> None:
    [language] = [one for one in LEXICON.languages.supported if one.code == code]
    translations = language.dictionary.translations.values()
    english = {word for translation in translations for word in translation}

    assert [word for word in english if LEXICON.is_stop_word(word)] == []
