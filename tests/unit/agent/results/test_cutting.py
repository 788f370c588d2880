"""Results that are too long are cut such that they stay valid, and every cut is named."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.agent.budget import end_within, estimated_tokens
from discovery_engine.agent.cutting import (
    Cut,
    cut_result,
    exceeds,
    head_and_tail,
    json_text,
    prune,
    result_tokens,
    with_documents,
)
from discovery_engine.agent.execution import NOTE_TOKENS, Asked, cut_note, read
from discovery_engine.agent.result_query import PathQuery
from discovery_engine.rpc.json_codec import encode_finite

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(TEXTS, inner, max_size=8),
    max_leaves=40,
)
BLOCKS = st.one_of(
    TEXTS.map(lambda text: {"type": "text", "text": text}),
    JSON.map(lambda value: {"type": "text", "text": json.dumps(value)}),
    st.text("ABCD", max_size=600).map(
        lambda data: {"type": "image", "mimeType": "image/png", "data": data}
    ),
    st.builds(
        lambda uri, text: {"type": "resource", "resource": {"uri": uri, "text": text}},
        TEXTS,
        TEXTS,
    ),
    st.builds(
        lambda data: {"type": "resource", "resource": {"uri": "x:y", "blob": data}},
        st.text("ABCD", max_size=600),
    ),
)
RESULTS = st.builds(
    lambda content, structured: {"content": content, **structured},
    st.lists(BLOCKS, max_size=8),
    st.just({}) | st.dictionaries(TEXTS, JSON, max_size=5).map(lambda v: {"structuredContent": v}),
)


def note_of(result: JSONObject, tokens: int) -> Any:
    size = len(encode_finite(result))

    def note(cuts: Sequence[Cut]) -> str:
        return cut_note(cuts, size=size, handle="ab" * 12, tokens=tokens, budget=NOTE_TOKENS)

    return note


@given(TEXTS, st.integers(0, 200), st.integers(0, 50))
def test_the_longest_part_of_a_text_that_fits_does_fit(text: str, tokens: int, start: int) -> None:
    start = min(start, len(text))
    end = end_within(text, tokens, start)

    assert start <= end <= len(text)
    assert estimated_tokens(text[start:end]) <= tokens


@pytest.mark.requirement("RSL-1")
@given(JSON, st.integers(0, 400))
def test_pruned_json_is_json_within_its_tokens_and_whole_only_if_nothing_was_cut(
    value: JSONValue, tokens: int
) -> None:
    made = prune(value, tokens, "")

    assert estimated_tokens(json_text(made.value)) <= tokens or made.value is None
    assert (json_text(made.value) == json_text(value)) or made.cuts


@pytest.mark.requirement("RSL-1")
@settings(max_examples=40)
@given(RESULTS, st.integers(200, 600))
def test_a_cut_result_is_valid_and_never_longer_than_its_limit(
    result: JSONObject, tokens: int
) -> None:
    if not exceeds(result, tokens):
        return
    made = cut_result(result, tokens, note_of(result, tokens), reserve=NOTE_TOKENS)

    assert result_tokens(made.result) <= tokens
    *shown, note = made.result["content"]
    assert note["text"].startswith("Note: cut to" if made.cuts else "Note: JSON was")
    for before, after in zip(result["content"], shown, strict=False):
        if before["type"] != "text":
            continue
        kept = after["text"]
        try:
            whole = json.loads(before["text"])
        except ValueError:
            assert before["text"].startswith(kept)
        else:
            if isinstance(whole, dict | list):
                json.loads(kept)


@pytest.mark.requirement("RSL-2")
@settings(max_examples=40)
@given(RESULTS, st.integers(200, 600))
def test_each_cut_names_how_much_of_what_is_shown(result: JSONObject, tokens: int) -> None:
    if not exceeds(result, tokens):
        return
    made = cut_result(result, tokens, note_of(result, tokens), reserve=NOTE_TOKENS)
    whole, shown = with_documents(result), with_documents(made.result)

    for cut in made.cuts:
        assert cut.shown < cut.total
        value = PathQuery(cut.path).search(whole)
        if cut.unit == "bytes":
            assert len(encode_finite(value)) - 1 == cut.total
        elif isinstance(value, str | list | dict) and cut.path != "content":
            kept = PathQuery(cut.path).search(shown)
            counted = len(value)
            assert counted == cut.total or not isinstance(value, str | list)
            if isinstance(kept, str | list | dict) and kept:
                assert len(kept) == cut.shown


@pytest.mark.requirement("RSL-4")
@settings(max_examples=40)
@given(RESULTS, st.integers(200, 400))
def test_reads_by_offset_give_back_the_whole_to_the_last_character(
    result: JSONObject, tokens: int
) -> None:
    data = encode_finite(result)
    for part in ("content[0].text", "structuredContent", "@"):
        value = PathQuery(part).search(result)
        if value is None:
            continue
        text, offset = value if isinstance(value, str) else json_text(value), 0
        pieces = []
        for _ in range(len(text) + 1):
            answer = read(data, Asked("h", part, tokens, offset=offset))
            assert sum(map(estimated_tokens, answer.texts)) <= tokens
            pieces.append(answer.texts[0])
            offset = answer.fields["end"]
            if offset == len(text):
                break

        assert "".join(pieces) == text


@pytest.mark.requirement("RSL-8")
@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (200, "a" * 118 + " <truncated> " + "b" * 50),
        (55, "a" * 55 + " <truncated>"),
        (300, "a" * 150 + "b" * 150),
    ],
)
def test_head_and_tail_keep_the_beginning_and_the_last_characters(
    length: int, expected: str
) -> None:
    text = "a" * 150 + "b" * 150

    kept = head_and_tail(text, length, marker=" <truncated> ", tail=50)

    assert kept == (expected if length != 200 else "a" * 137 + " <truncated> " + "b" * 50)


@pytest.mark.requirement("RSL-4")
def test_a_search_for_one_letter_is_bounded() -> None:
    data = encode_finite({"content": [{"type": "text", "text": "a" * 200_000}]})

    answer = read(data, Asked("h", "content[0].text", 500, search="A"))

    assert answer.texts[0].startswith("10,000 or more matches, the first ")
    assert estimated_tokens(answer.texts[0]) <= 500
