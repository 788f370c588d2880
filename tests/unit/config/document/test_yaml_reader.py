from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.config.document.tree import PlainScalar, Position
from discovery_engine.config.document.yaml_reader import read_document
from tests.rows import rows


@pytest.mark.requirement("CFG-3")
@rows(
    ("written", "meaning"),
    [
        ("true", True),
        ("True", True),
        ("FALSE", False),
        ("tRue", "tRue"),
        ("null", None),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-0", 0),
        ("+7", 7),
        ("012", "012"),
        ("0x1F", "0x1F"),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("9" * 40, "9" * 40),
        ("1.5", 1.5),
        (".5", 0.5),
        ("2.", 2.0),
        ("1e3", 1000.0),
        (".inf", ".inf"),
        ("yes", "yes"),
        ("2026-11-21", "2026-11-21"),
    ],
)
def test_an_unquoted_scalar_means_what_yaml_1_2_says(written: str, meaning: object) -> None:
    found = PlainScalar(written).meaning

    assert found == meaning
    assert type(found) is type(meaning)


def test_each_node_knows_where_it_stands() -> None:
    root = read_document(b"a: 1\nb:\n  - {c: x}\n").root
    assert root is not None

    b = root.child("b")
    assert b is not None
    item = b.child(0)
    assert item is not None
    c = item.child("c")
    assert c is not None

    assert (b.key, b.start) == (Position(2, 1), Position(3, 3))
    assert (item.key, item.start, item.end) == (None, Position(3, 5), Position(3, 11))
    assert (c.key, c.start, c.value) == (Position(3, 6), Position(3, 9), "x")


def test_what_was_read_before_the_fault_is_kept() -> None:
    document = read_document(b"a: 1\nb: [\n")

    assert document.is_broken
    assert document.root is not None
    assert document.root.plain() == {"a": "1", "b": []}


# A key takes at most 1024 characters in YAML, and an escaped one six for each.
JSON_KEYS = st.text(max_size=80)
JSON = st.recursive(
    st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(JSON_KEYS, inner, max_size=4),
)


@pytest.mark.requirement("CFG-3")
@given(value=JSON, indent=st.sampled_from([None, 2, "\t"]))
def test_json_is_read_as_json_says(value: object, indent: int | str | None) -> None:
    document = read_document(json.dumps(value, indent=indent).encode())

    assert document.faults == []
    assert document.root is not None
    assert document.root.plain() == value
