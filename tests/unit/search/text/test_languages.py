from __future__ import annotations

import pytest

from discovery_engine.search.text.languages import Heard
from discovery_engine.search.text.lexicon import Lexicon, default_lexicon
from discovery_engine.search.text.tokens import runs

LEXICON = default_lexicon()


def heard(text: str) -> list[Heard]:
    return LEXICON.heard(text, LEXICON.language(text))


@pytest.mark.parametrize(
    ("text", "meant"),
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
def test_words_are_heard_in_english(text: str, meant: list[str]) -> None:
    assert [word for one in heard(text) for word in one.meant] == meant


def test_what_was_said_is_kept_beside_what_was_meant() -> None:
    assert heard("Rechnungen anzeigen") == [
        Heard("rechnungen", ("invoice",)),
        Heard("anzeigen", ("show",)),
    ]


def test_a_word_of_the_owner_is_not_looked_up() -> None:
    lexicon = Lexicon(groups=[("Rechnung", "bill")])

    [first, _] = lexicon.heard("Rechnung anzeigen", lexicon.language("Rechnung anzeigen"))

    assert first.meant == ("rechnung",)


def test_evidence_of_a_language_is_no_english_word() -> None:
    for language in LEXICON.languages.spoken:
        assert not language.evidence & {"list", "images", "notes", "in", "a", "die", "comment"}


def test_every_entry_of_the_tables_is_one_word() -> None:
    for language in LEXICON.languages.spoken:
        table = language.table
        assert [text for text in table.meanings if len(runs(text)) != 1] == []


@pytest.mark.parametrize("code", ["de", "es", "fr"])
def test_what_tables_mean_is_english_that_says_something(code: str) -> None:
    [language] = [one for one in LEXICON.languages.spoken if one.code == code]
    meant = {word for meaning in language.table.meanings.values() for word in meaning}

    assert [word for word in meant if LEXICON.is_silent(word)] == []
