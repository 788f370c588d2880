"""The short version of what `fuzz/frames.py` does at length."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discovery_engine.rpc.json_codec import edges, sniffed_id
from fuzz.agreement import check, check_line
from tests.rows import rows

WORDS = st.sampled_from(
    [
        *(b'{"jsonrpc":"2.0","id":', b'"result":', b'"error":{"code":', b'"method":"ping"', b"1,"),
        *(b'"a",', b"}", b"{", b"[", b"]", b",", b":", b"\n", b"\r\n", b" ", b'"', b"\\", b"007"),
        *(b"\\ud83d", b"\\ude00", b"\\u0000", b"\\uD800", b"\xff", b"\xc3\xa9", b"\xef\xbb\xbf"),
        *(b"NaN", b"-Infinity", b"1e999", b"-0.0", b"9" * 5000, b"\0", b"x" * 70, b"null", b"true"),
    ]
)
STREAMS = st.lists(WORDS | st.binary(max_size=8), max_size=40).map(b"".join)


@pytest.mark.thorough
@settings(max_examples=400)
@given(STREAMS, st.binary(max_size=8), st.sampled_from([16, 64, 4096]))
def test_framing_and_decoding_agree_with_the_model(data: bytes, cuts: bytes, limit: int) -> None:
    check(data, cuts, limit)


@rows(
    "line",
    [
        pytest.param(b'{"id":007,"result":', id="number-that-is-none"),
        pytest.param(b'{"id":"\xff","result":', id="not-utf-8"),
        pytest.param(b'{"id":"a\tb","result":', id="control-character"),
        pytest.param(b'{"result":[[,"id":007}', id="at-the-end"),
    ],
)
def test_an_id_that_cannot_be_read_is_none(line: bytes) -> None:
    check_line(line)

    assert sniffed_id(*edges(line)) is None
