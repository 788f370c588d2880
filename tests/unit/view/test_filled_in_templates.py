from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.view.uris import expanded, matches
from tests.rows import rows

VALUES = {"a": "x y", "b": "é/1", "empty": "", "n": 3}


@pytest.mark.requirement("RES-23")
@rows(
    ("template", "uri"),
    [
        ("x:/{a}", "x:/x%20y"),
        ("x:/{b}/end", "x:/%C3%A9%2F1/end"),
        ("x:/{+b}", "x:/%C3%A9/1"),
        ("x:{#a}", "x:#x%20y"),
        ("x:/{a,b}", "x:/x%20y,%C3%A9%2F1"),
        ("x:{/a,b}", "x:/x%20y/%C3%A9%2F1"),
        ("x:/f{.a}", "x:/f.x%20y"),
        ("x:/f{;a}", "x:/f;a=x%20y"),
        ("x:/f{?a,b}", "x:/f?a=x%20y&b=%C3%A9%2F1"),
        ("x:/f?z=1{&a}", "x:/f?z=1&a=x%20y"),
        ("x:/{a:1}", "x:/x"),
        ("x:/{a*}", "x:/x%20y"),
        ("x:/{c}", None),
        ("x:/{n}", None),
        ("x:/plain", "x:/plain"),
    ],
)
def test_a_template_is_filled_in(template: str, uri: str | None) -> None:
    assert expanded(template, VALUES) == uri


@pytest.mark.requirement("RES-22")
@given(
    operator=st.sampled_from(["", "+", "#", ".", "/", ";", "?", "&"]),
    value=st.text(min_size=1, max_size=20) | st.just("\ud800"),
    tail=st.sampled_from(["", "/end", ".txt"]),
)
def test_what_a_template_is_filled_in_to_is_an_expansion_of_it(
    operator: str, value: str, tail: str
) -> None:
    template = f"x:/y{{{operator}v}}{tail}"

    uri = expanded(template, {"v": value})

    assert uri is not None
    assert matches(template, uri)
