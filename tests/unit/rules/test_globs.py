from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from wcmatch import fnmatch

from discovery_engine.rules.patterns import Glob, Names
from tests.rows import rows

FLAGS = fnmatch.IGNORECASE | fnmatch.BRACE | fnmatch.DOTMATCH | fnmatch.FORCEUNIX
names = st.lists(st.text("abAB_.:-", min_size=1, max_size=6), max_size=6)
globs = st.text("abAB_.*?[]{},!-\\", min_size=1, max_size=7)


def selected(glob: str, *texts: str) -> list[str]:
    return [texts[position] for position in sorted(Glob.parse(glob).select(Names(texts)))]


@rows(
    ("glob", "name", "matches"),
    [
        pytest.param("*", "anything", True, id="a lone star"),
        pytest.param("*", ".hidden", True, id="a star takes a leading dot"),
        pytest.param("github_*", "GitHub_Get", True, id="case is ignored"),
        pytest.param("github_*", "my_github_get", False, id="the whole name must match"),
        pytest.param("*_issue", "get_issue", True, id="at the end"),
        pytest.param("*_issue", "get_issues", False, id="not at the end"),
        pytest.param("*delete*", "delete", True, id="stars take nothing too"),
        pytest.param("get_?", "get_", False, id="a question mark takes one"),
        pytest.param("get_?", "get_x", True, id="a question mark"),
        pytest.param("?", "x", True, id="a lone question mark"),
        pytest.param("get_[abc]", "get_B", True, id="a class"),
        pytest.param("get_[!abc]", "get_b", False, id="a negated class"),
        pytest.param("{create,update}_*", "update_x", True, id="braces"),
        pytest.param("{create,update}_*", "delete_x", False, id="braces that do not match"),
        pytest.param("get_*_by_*", "get_issue_by_id", True, id="two stars inside"),
        pytest.param("get_*_by_*", "get_by_id", False, id="a part too few"),
        pytest.param(r"\*x", "*x", True, id="an escaped star"),
        pytest.param("a/b*", "a/bc", True, id="a slash is a character"),
    ],
)
def test_glob(glob: str, name: str, *, matches: bool) -> None:
    assert selected(glob, name) == ([name] if matches else [])


@given(globs, names)
@example("*?", ["a"])
@example("?*a", ["a", "ba"])
@example("a*a", ["a", "aa"])
@example("[!a]", ["a", "b"])
def test_selecting_among_many_is_what_wcmatch_says_of_each(glob: str, texts: list[str]) -> None:
    expected = [t for t in texts if fnmatch.fnmatch(t, glob, flags=FLAGS)]

    assert selected(glob, *texts) == expected


@rows("glob", ["{1..1000000000}", "{a,b}" * 30])
def test_braces_without_bounds_are_refused(glob: str) -> None:
    with pytest.raises(ValueError, match="256 alternatives"):
        Glob.parse(glob)


@pytest.mark.timeout(10)
@rows("glob", ["*a" * 100 + "*b", "*?" * 100 + "b", "*[a-z]" * 50 + "*1"])
def test_many_stars_do_not_multiply(glob: str) -> None:
    assert selected(glob, "a" * 2000) == []
