from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.config.document.scalars import PlainScalar
from discovery_engine.config.document.tree import Position
from discovery_engine.config.document.yaml_reader import read_document
from tests.rows import rows


@pytest.mark.requirement("CFG-4")
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


@rows(
    ("content", "place"),
    [
        pytest.param(b"a: \xff", Position(1, 4), id="at once"),
        pytest.param(
            "\ufeffé\né: é".encode() + b"\xff", Position(2, 5), id="behind a byte order mark"
        ),
    ],
)
def test_bytes_that_are_no_text_are_reported_with_their_place(
    content: bytes, place: Position
) -> None:
    document = read_document(content)

    [fault] = document.faults
    assert (fault.message, fault.at) == ("is not UTF-8 text", place)


def test_places_hold_behind_characters_that_json_spells_as_two() -> None:
    smile = json.dumps("\N{SMILING FACE WITH OPEN MOUTH}" * 3)
    root = read_document(f'{{"a": {smile}, "b": {smile},\n"c": "x"}}'.encode()).root
    assert root is not None
    nodes = [node for _, node in root.children()]

    assert [node.start for node in nodes] == [Position(1, 7), Position(1, 52), Position(2, 6)]
    assert [node.end.column - node.start.column for node in nodes] == [len(smile), len(smile), 3]


def test_quotes_distinguish_text_from_plain_scalars() -> None:
    root = read_document(b"- a\n- 'b'\n- \"c\"\n- |\n  d\n- >\n  e\n").root
    assert root is not None

    kinds = [type(node.value) for _, node in root.children()]

    assert kinds == [PlainScalar, str, str, str, str]


def test_what_was_read_before_the_fault_is_kept() -> None:
    document = read_document(b"a: 1\nb: [\n")

    assert document.is_broken
    assert document.root is not None
    assert document.root.plain() == {"a": "1", "b": []}


def test_an_alias_as_a_key_ends_the_reading() -> None:
    document = read_document(b"*a : 1\n")

    assert document.is_broken
    assert [fault.message for fault in document.faults] == ["aliases are not allowed"]


def test_an_alias_for_the_whole_document_leaves_nothing() -> None:
    document = read_document(b"*a")

    assert document.root is None
    assert [fault.message for fault in document.faults] == ["aliases are not allowed"]


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
