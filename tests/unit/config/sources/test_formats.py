from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.config.sources.formats import UnreadableError, parse
from tests.rows import rows

# A drive and a line break, `C:\n`, is spelled as the beginning of a path with single backslashes.
TEXT = st.text().filter(lambda text: not re.match(r"[A-Za-z]:[\n\r\t\b\f]", text))
JSON = st.recursive(
    st.none() | st.booleans() | TEXT, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner)
)


@rows(
    ("kind", "text", "value"),
    [
        pytest.param("json", '{"a": 1.10, "b": 007}', None, id="json-bad-number"),
        pytest.param("json", '{"a": 1.10, "b": 7}', {"a": "1.10", "b": "7"}, id="json-numbers"),
        pytest.param(
            "json", '{"a": "//x", /* y */ "b": [1,],}', {"a": "//x", "b": ["1"]}, id="jsonc"
        ),
        pytest.param(
            "json",
            "{a: 'single', b: 0x10, c: +5}",
            {"a": "single", "b": "16", "c": "5"},
            id="json5",
        ),
        pytest.param("json", r'{"a": "A:\u00e9"}', {"a": "A:\u00e9"}, id="letter-before-an-escape"),
        pytest.param("json", '{"a": 1} // unfinished /*', {"a": "1"}, id="comment-at-end"),
        pytest.param(
            "yaml",
            "a: no\nb: 0123\nc: 12:30\nd: ~\ne:",
            {"a": "no", "b": "0123", "c": "12:30", "d": None, "e": None},
            id="yaml-words",
        ),
        pytest.param(
            "yaml",
            "x: &x {k: v}\ny: {<<: *x, l: w}\nz: *x",
            {"x": {"k": "v"}, "y": {"k": "v", "l": "w"}, "z": {"k": "v"}},
            id="yaml-anchors",
        ),
        pytest.param(
            "toml",
            "a = 1.10\nb = 7\n[c]\nd = true",
            {"a": "1.10", "b": 7, "c": {"d": True}},
            id="toml",
        ),
        pytest.param("any", '{"a": 1}', {"a": "1"}, id="any-json"),
        pytest.param("any", "[a]\nb = 'c'", {"a": {"b": "c"}}, id="any-toml"),
        pytest.param("any", "a: b", {"a": "b"}, id="any-yaml"),
        pytest.param("any", '{"a" 1}', None, id="any-broken-json"),
        pytest.param("any", "just words", None, id="any-words"),
        pytest.param("any", "12", None, id="any-number"),
        pytest.param("any", "[1, 2]", ["1", "2"], id="any-list"),
        pytest.param("json", " \n", {}, id="blank"),
    ],
)
def test_a_text_is_read_by_its_format(kind: str, text: str, value: object) -> None:
    if value is None:
        with pytest.raises(UnreadableError):
            parse(text.encode(), kind)  # type: ignore[arg-type]
    else:
        assert parse(text.encode(), kind) == value  # type: ignore[arg-type]


@rows("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_no_part_of_the_text(encoding: str) -> None:
    assert parse('{"a": "ü"}'.encode(encoding), "json") == {"a": "ü"}


@rows("kind", ["json", "toml", "yaml", "any"])
@rows(
    "text",
    [
        pytest.param("[" * 100_000, id="lists"),
        pytest.param('{"a":' * 50_000, id="maps"),
        pytest.param("- " * 100_000, id="items"),
        pytest.param("[a]\nb = " + "[" * 100_000, id="toml-lists"),
    ],
)
def test_what_is_nested_too_deeply_is_not_read(kind: str, text: str) -> None:
    with pytest.raises(UnreadableError):
        parse(text.encode(), kind)  # type: ignore[arg-type]


@rows(
    ("text", "reason"),
    [
        pytest.param(
            "a0: &a0 {k: v}\n"
            + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 30)),
            "too large",
            id="merges",
        ),
        pytest.param(
            "a0: &a0 [x]\n"
            + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 30)),
            "too large",
            id="lists",
        ),
        pytest.param("a: &a [*a]", "nothing before it", id="itself"),
    ],
)
def test_yaml_that_grows_without_end_is_not_read(text: str, reason: str) -> None:
    with pytest.raises(UnreadableError, match=reason):
        parse(text.encode(), "yaml")


@given(JSON)
def test_what_json_writes_is_read_back(value: object) -> None:
    document = {"value": value}

    assert parse(json.dumps(document).encode(), "json") == document
    assert parse(json.dumps(document, indent=1).encode(), "any") == document


@given(JSON)
def test_comments_change_nothing(value: object) -> None:
    text = json.dumps({"value": value}, indent=1).replace("\n", ' // , } ] " \n/* , } */')

    assert parse(text.encode(), "json") == {"value": value}


@pytest.mark.requirement("SRC-23")
@rows(
    "text",
    [
        pytest.param("\n" + "a." * 100_000 + "b = 1", id="key"),
        pytest.param("\n[" + "'a' . " * 100_000 + "b]", id="table"),
    ],
)
def test_a_key_of_toml_with_thousands_of_dots_is_refused_before_it_costs_anything(
    text: str,
) -> None:
    with pytest.raises(UnreadableError) as caught:
        parse(text.encode(), "toml")

    assert (caught.value.reason, caught.value.line) == ("it is nested too deeply", 2)
