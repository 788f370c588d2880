from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.rules.patterns import DEFAULT_LIMIT, Names, Regex, Selection, TimeLimit
from tests.rows import rows

SLOW = "(a|aa)+$"
SLOW_NAME = "a" * 50 + "!"
BRIEF = TimeLimit(search=0.002, total=1.0)
LINE_BOUND = ["a", "b", "_", ".", "^", "$", r"\b", r"\w", "[ab]", "(a|b)", "(?:ab)", "|", r"\."]
OTHERS = [r"\s", r"\D", "[^a]", "(?=b)", "(?<!a)", r"\Z", "(?i)", r"\n", "*", "+", "?", "{2}"]
pieces = st.sampled_from(LINE_BOUND + OTHERS)


def selected(body: str, flags: str, *texts: str) -> list[str]:
    selection = Regex.parse(body, flags).select(Names(texts), DEFAULT_LIMIT)
    assert not selection.slow
    return [texts[position] for position in sorted(selection.hits)]


@rows(
    ("body", "flags", "name", "matches"),
    [
        pytest.param("issue", "", "get_issue_x", True, id="it is searched for"),
        pytest.param("^(create|update)_", "", "update_x", True, id="anchored"),
        pytest.param("^(create|update)_", "", "my_update_x", False, id="anchored elsewhere"),
        pytest.param(r"\b(read|list)\b", "i", "files-LIST", True, id="flag i ignores case"),
        pytest.param(r"\b(read|list)\b", "", "files-LIST", False, id="else case counts"),
        pytest.param("read # a comment", "x", "read_file", True, id="flag x"),
        pytest.param("a.b", "s", "a\nb", True, id="flag s"),
        pytest.param("^b", "m", "a\nb", True, id="flag m"),
        pytest.param("^b", "", "a\nb", False, id="without flag m"),
        pytest.param("(?<=get_)issue", "", "get_issue", True, id="look-behind"),
        pytest.param("", "", "x", True, id="nothing is found everywhere"),
    ],
)
def test_regular_expression(body: str, flags: str, name: str, *, matches: bool) -> None:
    assert selected(body, flags, name) == ([name] if matches else [])


@given(
    st.lists(pieces, min_size=1, max_size=5).map("".join),
    st.sampled_from(["", "i", "m", "s", "x", "im"]),
    st.lists(st.text("abAB_. ", min_size=1, max_size=5), max_size=8),
)
def test_selecting_among_many_is_searching_in_each(body: str, flags: str, texts: list[str]) -> None:
    try:
        expression = Regex.parse(body, flags)
    except ValueError:
        return

    found = expression.select(Names(texts), DEFAULT_LIMIT).hits
    assert found == {at for at, text in enumerate(texts) if expression.compiled.search(text)}


@rows(
    ("body", "flags", "reason"),
    [
        pytest.param("a", "g", "flag 'g' is unknown", id="a flag of another language"),
        pytest.param("(", "", "no regular expression", id="an open group"),
        pytest.param("(" * 600 + ")" * 600, "", "no regular expression", id="too deep"),
        pytest.param("((a{1000}){1000}){1000}", "", "repetitions", id="repetitions multiply"),
        pytest.param("a{0,1000000}", "", "repetitions", id="one huge repetition"),
        pytest.param("a", "X", "flag 'X' is unknown; i, m, s and x are known", id="a big letter"),
    ],
)
def test_unusable_expression_gives_the_reason(body: str, flags: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Regex.parse(body, flags)


@rows("body", [SLOW, f"(?={SLOW})a"])
def test_slow_search_is_cut_off_and_its_neighbours_are_not(body: str) -> None:
    names = Names(["baa", SLOW_NAME, "x", "\uff41", SLOW_NAME + "\u200b"])

    selection = Regex.parse(body, "").select(names, BRIEF)

    assert selection == Selection({0, 3}, {1, 4})


def test_expression_that_used_up_its_time_is_not_tried_again() -> None:
    ticks = count()
    limit = TimeLimit(search=1.0, total=3.0, clock=lambda: float(next(ticks)))

    selection = Regex.parse("(?=a)a", "").select(Names(["a"] * 10), limit)

    assert selection == Selection({0, 1, 2}, set(range(3, 10)))
