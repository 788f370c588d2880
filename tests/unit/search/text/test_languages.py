from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.search.text import languages
from discovery_engine.search.text.languages import Token, WordTable, dictionary_files
from discovery_engine.search.text.lexicon import Lexicon, default_lexicon
from tests.rows import rows

LEXICON = default_lexicon()
CODES = [file.stem for file in dictionary_files()]
ENGLISH = sorted(
    {
        word
        for name in ("stopwords", "synonyms", "topics")
        for line in Path(languages.__file__)
        .parents[1]
        .joinpath("data", f"{name}.txt")
        .read_text("utf-8")
        .splitlines()
        if not line.startswith("#")
        for word in line.split()
    }
)


def tokens(text: str) -> list[Token]:
    return LEXICON.tokens(text, LEXICON.detect_language(text))


@rows(
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
        pytest.param("dateien loeschen", ["file", "delete"], id="german without umlauts"),
        pytest.param(
            "Muéstramelo en el calendario", ["get", "list", "calendar"], id="spanish verb"
        ),
        pytest.param("mesclar a PR", ["merge", "pr"], id="portuguese beside an acronym"),
        pytest.param("Mandagli i documenti", ["send", "document"], id="italian verb"),
        pytest.param(
            "klantgegevens bekijken", ["customer", "data", "get", "list"], id="dutch compound"
        ),
        pytest.param(
            "Покажи новые файлы в Slack", ["get", "list", "new", "file", "slack"], id="russian"
        ),
        pytest.param("файлом", ["file"], id="russian inflected"),
        pytest.param("PRをマージしてください", ["pr", "merge"], id="japanese"),
        pytest.param("添付ファイルを保存", ["attachment", "save"], id="japanese compound"),
        pytest.param("予約 一覧 作成", ["book", "list", "create"], id="kanji alone"),
        pytest.param("コンテストのページ", ["コン", "ンテ", "テス", "スト", "page"], id="loanword"),
        pytest.param("파일에서 삭제하고 싶어요", ["file", "delete"], id="korean"),
        pytest.param("나이키를 검색해 주세요", ["나이", "이키", "search"], id="korean unknown"),
        pytest.param("행사를 추가", ["event", "add"], id="korean syllable in a word"),
    ],
)
def test_words_are_translated_to_english(text: str, english: list[str]) -> None:
    assert [word for token in tokens(text) for word in token.english] == english


@given(st.lists(st.sampled_from(ENGLISH), min_size=1, max_size=8).map(" ".join))
def test_words_of_the_english_tables_are_english(text: str) -> None:
    assert LEXICON.detect_language(text) is None


@rows(
    ("text", "code"),
    [
        pytest.param("apagar o ficheiro antigo", "pt", id="portuguese"),
        pytest.param("borrar el fichero antiguo", "es", id="spanish"),
        pytest.param("mostrar o calendario do projeto", "pt", id="portuguese words of spanish"),
        pytest.param("mostra il calendario", "it", id="italian"),
        pytest.param("toon de bestanden in deze map", "nl", id="dutch"),
        pytest.param("zeig die Dateien in diesem Ordner", "de", id="german"),
        pytest.param("открой Jira", "ru", id="cyrillic"),
        pytest.param("Slackで検索", "ja", id="kana"),
        pytest.param("Jira 검색", "ko", id="hangul"),
        pytest.param("the API of the service is called プロジェクト", "ja", id="kana in english"),
        pytest.param("weather in Los Angeles", None, id="a name"),
        pytest.param("Leonardo da Vinci paintings", None, id="an article in a name"),
        pytest.param("删除文件", None, id="chinese, which needs no detection"),
    ],
)
def test_a_language_is_told_from_its_neighbours(text: str, code: str | None) -> None:
    language = LEXICON.detect_language(text)

    assert (language.code if language else None) == code


def test_an_english_text_reads_no_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lexicon = Lexicon()
    monkeypatch.setattr(languages, "_DATA", tmp_path)  # without the tables of languages

    text = "please create a new issue in the repository of the Kubernetes project"

    assert lexicon.detect_language(text) is None
    with pytest.raises(FileNotFoundError):
        lexicon.detect_language("Datei löschen")


@given(st.text(st.sampled_from("删除文件搜ファイルを消して予約ー파일을삭제해줘가방"), min_size=1))
def test_no_character_of_a_run_is_lost(run: str) -> None:
    tokens_of_run = list(LEXICON.languages.split(run, None))

    assert set(run) == set("".join(token.text for token in tokens_of_run))


@rows("file", dictionary_files(), ids=lambda file: file.stem)
def test_no_word_of_a_table_stands_twice(file: Path) -> None:
    lines = [line for line in file.read_text("utf-8").splitlines() if not line.startswith("#")]
    marked = [word for line in lines if line[:2] in {"= ", "~ "} for word in line[2:].split()]
    translated = [word for line in lines if ":" in line for word in line.split(":")[1].split()]

    twice = Counter([*set(marked), *translated])
    assert [word for word, count in twice.items() if count > 1] == []


@rows("code", CODES)
def test_no_translation_is_a_stop_word(code: str) -> None:
    translations = WordTable(code).dictionary.translations.values()
    english = {word for translation in translations for word in translation}

    assert [word for word in english if LEXICON.is_stop_word(word)] == []
