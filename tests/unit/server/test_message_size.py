"""The parts of a message, counted without parsing it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_server.client_messages import counted, refusal
from tests.rows import rows

texts = st.text(st.sampled_from('a"\\\\[]{}:,'), max_size=8)
values = st.recursive(
    st.none() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def parts(value: Any) -> int:
    """Arrays, objects and members of objects."""
    match value:
        case list():
            return 1 + sum(map(parts, value))
        case dict():
            return 1 + sum(1 + parts(one) for one in value.values())
    return 0


def strings(value: Any) -> int:
    match value:
        case str():
            return 1
        case list():
            return sum(map(strings, value))
        case dict():
            return sum(1 + strings(one) for one in value.values())
    return 0


@given(values, st.integers(1, 20))
def test_parts_are_counted_as_they_are_wherever_slices_end(value: Any, step: int) -> None:
    message = json.dumps(value, ensure_ascii=False).encode()

    *_, last = counted(message, step=step)

    assert last == (parts(value), strings(value))


def test_a_message_of_too_many_parts_is_not_read_to_its_end() -> None:
    message = b'{"jsonrpc":"2.0","id":1,"params":' + b"[" * 2_000_000 + b"]" * 2_000_000 + b"}"
    read = 0
    for found, _ in counted(message):
        read += 1
        if found > 50_000:
            break

    assert read == 1


@rows(
    ("members", "identity"),
    [
        pytest.param('"jsonrpc": "2.0", "id": -1, "method": "x", "params": MANY', -1, id="first"),
        pytest.param(
            '"method": "x", "params": MANY, "id": "a b", "jsonrpc": "2.0"', "a b", id="last"
        ),
        pytest.param('"a": MANY, "id": 7, "b": MANY', 7, id="between"),
        pytest.param('"id": "\\u0061", "params": MANY', "a", id="escaped"),
        pytest.param('"params": {"id": 1, "x": MANY}', None, id="none"),
        pytest.param('"params": {"x": MANY, "id": 1}', None, id="none, but one inside"),
    ],
)
def test_a_message_of_too_many_parts_is_answered_under_its_id(
    members: str, identity: int | str | None
) -> None:
    message = f"{{{members}}}".replace("MANY", "[" + "[]," * 60_000 + "[]]")

    refused = refusal(message.encode())

    assert refused is not None
    assert refused["error"]["message"].startswith("INPUT_TOO_LONG")
    assert refused["id"] == identity
