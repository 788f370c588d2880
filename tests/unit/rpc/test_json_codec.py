from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.rpc.json_codec import decode, encode, is_clean
from tests.rows import rows

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(JSON)
def test_what_is_encoded_decodes_to_the_same_but_for_what_is_no_text(value: object) -> None:
    line = encode(value)

    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    if b"\\u0000" not in line:
        assert decode(line) == json.loads(line)
    if is_text(value):
        assert decode(line) == value


def is_text(value: object) -> bool:
    shown = json.dumps(value, ensure_ascii=False)
    return "\\u0000" not in shown and not any(0xD800 <= ord(c) < 0xE000 for c in shown)


@given(JSON)
def test_nothing_decoded_holds_a_lone_surrogate(value: object) -> None:
    escaped = json.dumps(value).encode()

    json.dumps(decode(escaped), ensure_ascii=False).encode("utf-8")
    assert is_clean(encode(decode(escaped))) or rb"\\u" in escaped


@given(st.binary(max_size=200))
def test_any_bytes_decode_or_raise_a_value_error(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        decode(data)


@rows(
    "line",
    [
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b"[" * 100_000 + b"]" * 100_000, id="deep-and-whole"),
        pytest.param(b"9" * 5000, id="long-number"),
        pytest.param(b"NaN", id="nan"),
        pytest.param(b"[1e999]", id="beyond-floats"),
        pytest.param(b"-Infinity", id="infinity"),
        pytest.param(b"{", id="half"),
        pytest.param(b"", id="empty"),
    ],
)
def test_what_is_beyond_bounds_is_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the parser's own words
        decode(line)
