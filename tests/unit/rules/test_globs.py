from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from wcmatch import fnmatch

from discovery_engine.rules.globs import Glob
from discovery_engine.rules.name_index import Names
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


def test_long_s_in_a_glob_is_an_s() -> None:
    assert selected("\u017fafe_*", "safe_read") == ["safe_read"]


def test_glob_sees_through_a_disguise() -> None:
    full_width, zero_width, accented = "\uff44elete_x", "del\u200bete", "d\u00c9lete"

    assert selected("*delete*", full_width, zero_width, accented) == [full_width, zero_width]


def test_line_break_in_a_name_hides_nothing() -> None:
    assert selected("delete", "delete\n", "x\ndelete", "x") == ["delete\n"]


@rows("glob", ["{1..1000000000}", "{a,b}" * 30])
def test_braces_without_bounds_are_refused(glob: str) -> None:
    with pytest.raises(ValueError, match="256 alternatives"):
        Glob.parse(glob)


@pytest.mark.timeout(10)
@rows("glob", ["*a" * 100 + "*b", "*?" * 100 + "b", "*[a-z]" * 50 + "*1"])
def test_many_stars_do_not_multiply(glob: str) -> None:
    assert selected(glob, "a" * 2000) == []


@rows(
    ("glob", "tried"),
    [
        pytest.param("*delete*", 0, id="letters that suffice"),
        pytest.param("delete*", 0, id="letters at the start"),
        pytest.param("*delete", 0, id="letters at the end"),
        pytest.param("delete_1", 0, id="letters alone"),
        pytest.param("*", 0, id="everything"),
        pytest.param("*e*delete*", 3, id="two runs, the longer one looked for"),
        pytest.param("del?te*", 2, id="a question mark"),
        pytest.param("?", 100, id="no letters"),
        pytest.param("*[d]elete*", 100, id="a class"),
    ],
)
def test_names_without_its_letters_are_not_tried_one_by_one(glob: str, tried: int) -> None:
    parsed, count = Glob.parse(glob), 0

    def counted(name: str) -> object:
        nonlocal count
        count += 1
        return parsed.matches(name)

    texts = [*(f"get_page_{n}" for n in range(97)), "delete_1", "page_delete", "delete"]
    found = replace(parsed, matches=counted).select(Names(texts))

    assert found == {at for at, text in enumerate(texts) if parsed.matches(text)}
    assert count == tried


def test_glob_that_holds_a_line_break_keeps_to_names() -> None:
    assert selected("a\nb", "a", "b", "a\nb") == ["a\nb"]


def test_a_backslash_and_another_platform_mean_the_same_everywhere() -> None:
    assert selected("a/b", "a\\b", "a/b") == ["a/b"]
