from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.view.uris import keys, matches
from tests.rows import rows

VALUES = st.text(alphabet="ab/%. é?", min_size=1, max_size=8)
LITERALS = st.text(alphabet="ab/-:", max_size=5)


@pytest.mark.requirement("RES-22")
@rows(
    ("template", "uri", "expected"),
    [
        ("file:///{path}", "file:///a", True),
        ("file:///{path}", "file:///a/b", False),
        ("file:///{path}", "file:///", False),
        ("file:///{path}", "http:///a", False),
        ("file:///{+path}", "file:///a/b", True),
        ("file:///{path*}", "file:///a/b", True),
        ("db://{table}/rows/{id}", "db://users/rows/7", True),
        ("db://{table}/rows/{id}", "db://users/cols/7", False),
        ("db://{table}{?limit,offset}", "db://users", True),
        ("db://{table}{?limit,offset}", "db://users?limit=1&offset=2", True),
        ("db://t{?limit}", "db://t&limit=1", False),
        ("db://t?a=1{&b}", "db://t?a=1&b=2", True),
        ("a://b{/c,d}", "a://b/c/d", True),
        ("a://b{/c}", "a://b/c/d", False),
        ("a://b{.type}", "a://b.json", True),
        ("a://b{;v}", "a://b;v=1", True),
        ("a://b{#part}", "a://b#one/two", True),
        ("{+whole}", "any:thing", True),
        ("a://b", "a://b", True),
        ("a://{unclosed", "a://x", False),
        ("a://{x}b{y}b", "a://1b2b", True),
        ("a://{x}b{y}b", "a://1b2", False),
    ],
)
def test_a_uri_is_one_of_a_template(template: str, uri: str, *, expected: bool) -> None:
    assert matches(template, uri) is expected


@pytest.mark.requirement("RES-22")
@given(LITERALS, VALUES, LITERALS, VALUES, LITERALS)
def test_every_expansion_matches(a: str, one: str, b: str, two: str, c: str) -> None:
    assert matches(f"{a}{{x}}{b}{{+y}}{c}", f"{a}{quote(one, safe='')}{b}{quote(two)}{c}")


@pytest.mark.requirement("RES-22")
@given(st.text(alphabet="{}+/ab*,?", max_size=30), st.text(alphabet="ab/?", max_size=30))
def test_any_template_is_compared_with_any_uri(template: str, uri: str) -> None:
    assert isinstance(matches(template, uri), bool)


@pytest.mark.requirement("RES-22")
def test_a_template_of_many_parts_takes_no_exponential_time() -> None:
    assert not matches("a:" + "{x}" * 60, "a:" + "b" * 1000 + "/")
    assert not matches("a:" + "{x}" * 30_000, "a:b")


@pytest.mark.requirement("RES-23")
@rows(
    "written",
    [
        "file:///a/../secret",
        "file:///./secret",
        "file:////secret",
        "file:///%73ecret",
        "file:///%2573ecret",
        "file:///a/%2e%2e/secret",
        "file:///a/..%2fsecret",
        "file:///a\\..\\secret",
        "file:///a%5c..%5csecret",
        "FILE:///SECRET",
        "file:///\uff53ecret",
        "file://../secret",
        "file:/secret/",
    ],
)
def test_spellings_of_one_uri_have_a_key_in_common(written: str) -> None:
    assert keys(written) & keys("file:///secret")
    assert not keys(written) & keys("file:///other")
