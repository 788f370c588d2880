from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.view.status import first_sentence
from tests.rows import rows


@pytest.mark.requirement("MET-5")
@rows(
    ("text", "first"),
    [
        pytest.param("Code and issues. Be kind.", "Code and issues.", id="plain"),
        pytest.param("Issues of a team", "Issues of a team", id="no end"),
        pytest.param(
            "# Everything Server - Server Instructions\n\nAudience: All who test. More.",
            "Everything Server - Server Instructions",
            id="a heading above what is about the text",
        ),
        pytest.param(
            "# Files\n\nReads all files. More.", "Reads all files.", id="behind a heading"
        ),
        pytest.param("These instructions are short.\n\nReads.", "Reads.", id="about the text"),
        pytest.param("Audience: an LLM.", "Audience: an LLM.", id="nothing but that"),
        pytest.param("Title\n=====\nWhat it does.", "What it does.", id="behind an underlined one"),
        pytest.param("## A\n### B\n\n- **Reads** files.", "Reads files.", id="in a list"),
        pytest.param("> Reads\n> your files! Now.", "Reads your files!", id="in a quotation"),
        pytest.param("---\n<!-- x -->\n![logo](x)\nIt reads.", "It reads.", id="behind ornaments"),
        pytest.param("```\nrun me\n```\nIt reads files.", "It reads files.", id="behind code"),
        pytest.param("Reads files, e.g. text. More.", "Reads files, e.g. text.", id="abbreviated"),
        pytest.param("Reads v1.2 files.\nMore.", "Reads v1.2 files.", id="a number"),
        pytest.param(
            "读取文件和目录里的所有内容。更多。", "读取文件和目录里的所有内容。", id="Chinese"
        ),
        pytest.param("# Only a title", "Only a title", id="nothing but a heading"),
        pytest.param("#\n---\n```\n", "", id="nothing at all"),
        pytest.param("", "", id="empty"),
    ],
)
def test_a_text_is_about_what_its_first_sentence_says(text: str, first: str) -> None:
    assert first_sentence(text) == first


@given(st.text(alphabet=st.sampled_from("aB .!?#=-\n`>*|")))
def test_a_first_sentence_is_one_line_and_no_longer_than_the_text(text: str) -> None:
    first = first_sentence(text)

    assert "\n" not in first
    assert len(first) <= len(text)
