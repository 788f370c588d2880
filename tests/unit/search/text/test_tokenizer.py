from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.search.text.tokenizer import Compound, compounds, fold, words
from tests.rows import rows


@pytest.mark.requirement("REL-20")
@rows(
    ("text", "expected"),
    [
        pytest.param("getUserByID", ["get", "user", "by", "id"], id="camel case"),
        pytest.param("listPullRequests", ["list", "pull", "requests"], id="three humps"),
        pytest.param("HTTPServerError", ["http", "server", "error"], id="acronym first"),
        pytest.param("parseURLsOfPDFs", ["parse", "url", "of", "pdf"], id="plural acronyms"),
        pytest.param("create_issue", ["create", "issue"], id="snake case"),
        pytest.param("create-issue", ["create", "issue"], id="kebab case"),
        pytest.param("/v1/users/{id}", ["v", "1", "users", "id"], id="a path"),
        pytest.param("s3.getObject2", ["s", "3", "get", "object", "2"], id="digits stand alone"),
        pytest.param("  ", [], id="nothing"),
    ],
)
def test_names_are_cut_into_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@rows(
    ("text", "expected"),
    [
        pytest.param("Query MySQL.", Compound("mysql", ("my", "sql")), id="a capital inside"),
        pytest.param("BibTeX", Compound("bibtex", ("bib", "te", "x")), id="three parts"),
        pytest.param("QRCode", Compound("qrcode", ("qr", "code")), id="an acronym first"),
        pytest.param("my iPhone", Compound("iphone", ("i", "phone")), id="a small letter first"),
        pytest.param("macOS", Compound("macos", ("mac", "os")), id="a system"),
        pytest.param("Wi-Fi", Compound("wifi", ("wi", "fi")), id="a hyphen"),
        pytest.param("an add-on", Compound("addon", ("add", "on")), id="a short word behind"),
    ],
)
def test_a_word_with_capitals_or_a_hyphen_inside_is_read_whole_too(
    text: str, expected: Compound
) -> None:
    assert compounds(text) == [expected]


@rows(
    ("text", "expected"),
    [
        pytest.param("Café crème", ["cafe", "creme"], id="accents"),
        pytest.param("Straße Übersetzung", ["strasse", "ubersetzung"], id="german"),
        pytest.param("łódź SMØR", ["lodz", "smor"], id="letters that stay in one piece"),
        pytest.param("\uff21\uff30\uff29 \uff12", ["api", "2"], id="full width"),
        pytest.param("ПОГОДА", ["погода"], id="another alphabet"),
        pytest.param("НОВЫЙ ёж", ["новый", "еж"], id="a letter that is no accented one"),
        pytest.param("\uff8a\uff9e\uff7d ハス", ["バス", "ハス"], id="voiced kana"),
    ],
)
def test_words_are_folded(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@rows(
    ("text", "expected"),
    [
        pytest.param("搜索文件", ["搜索", "索文", "文件"], id="chinese"),
        pytest.param("搜", ["搜"], id="one character"),
        pytest.param("검색", ["검색"], id="korean"),
        pytest.param("get天气 now", ["get", "天气", "now"], id="mixed"),
    ],
)
def test_text_without_spaces_is_cut_into_pairs(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@given(st.text())
def test_words_are_folded_for_good(text: str) -> None:
    for word in words(text):
        assert word
        assert word == word.casefold()


@given(st.lists(st.sampled_from(["get", "user", "pull", "http"]), min_size=1, max_size=4))
def test_every_spelling_of_a_name_folds_alike(parts: list[str]) -> None:
    camel = parts[0] + "".join(map(str.title, parts[1:]))

    folded = {fold("_".join(parts)), fold("-".join(parts)), fold(" ".join(parts)), fold(camel)}

    assert folded == {"".join(parts)}
