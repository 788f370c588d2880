from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.rules.name_index import Names
from discovery_engine.rules.patterns import Pattern, PatternError, PatternList
from discovery_engine.rules.regexes import DEFAULT_LIMIT, Selection, TimeLimit
from tests.rows import rows

SLOW = "/(a|aa)+$/"
SLOW_NAME = "a" * 50 + "!"
BRIEF = TimeLimit(search=0.002, total=0.02)
texts = st.lists(st.sampled_from(["get_*", "*issue", "!*delete*", "/^a/", "!/b$/i", "*"]))


def selected(patterns: list[str], names: list[str], limit: TimeLimit = DEFAULT_LIMIT) -> Selection:
    subject = Names(names)
    return PatternList.parse(patterns).select(
        subject.everything, lambda pattern: pattern.select(subject, limit)
    )


@rows(
    ("text", "reason"),
    [
        pytest.param("", "it is empty", id="nothing"),
        pytest.param("!", "it is empty", id="nothing behind the negation"),
        pytest.param("!!x", "more than one leading", id="two negations"),
        pytest.param("x" * 1001, "longer than 1000", id="too long"),
        pytest.param("/get", "ends with `/`", id="no closing slash"),
        pytest.param("//i", "the regular expression is empty", id="an empty expression"),
        pytest.param("/a/ig", "flag 'g' is unknown", id="an unknown flag"),
        pytest.param("!/[/", "no regular expression", id="an open class"),
        pytest.param("{1..999}", "256 alternatives", id="too many alternatives"),
    ],
)
def test_unusable_pattern_gives_the_reason(text: str, reason: str) -> None:
    with pytest.raises(PatternError, match=reason) as caught:
        Pattern.parse(text)

    assert caught.value.text == text
    assert str(caught.value).isprintable()


@rows(
    ("text", "reason"),
    [
        ("", "it is empty"),
        ("!!x", "it has more than one leading `!`"),
        ("/get", "a regular expression ends with `/` and its flags"),
        ("//", "the regular expression is empty"),
    ],
)
def test_unusable_pattern_gives_the_reason_in_whole_words(text: str, reason: str) -> None:
    with pytest.raises(PatternError) as caught:
        Pattern.parse(text)

    assert caught.value.reason == reason


def test_a_pattern_may_be_as_long_as_is_said_and_hold_slashes() -> None:
    assert selected(["x" * 1000], ["x" * 1000]).hits == {0}
    assert selected(["/a/b/i"], ["A/B", "a", "b"]).hits == {0}


@rows(
    ("text", "is_qualified"),
    [
        pytest.param("get_*", False, id="a glob without"),
        pytest.param("github:*", True, id="a glob with"),
        pytest.param("!github:*", True, id="a negated glob"),
        pytest.param("{github:*,jira:*}_x", True, id="in braces"),
        pytest.param("x[[:digit:]]", False, id="a character class by name"),
        pytest.param("x[_:]y", False, id="in a class"),
        pytest.param("[x:y", True, id="behind a bracket that opens no class"),
        pytest.param("/^github:.*/", True, id="an expression with"),
        pytest.param(r"/^github\:get/", True, id="an escaped colon"),
        pytest.param(r"/\\:/", True, id="a colon behind an escaped backslash"),
        pytest.param("/^(?:get|list)_/", False, id="a group that does not capture"),
        pytest.param("/(?i-s:get)_/", False, id="a group with flags"),
        pytest.param("/^(?:github|jira):get/", True, id="both"),
        pytest.param("/[[:alpha:]_:]+/", False, id="in a class of an expression"),
        pytest.param(r"/[\]:]x/", False, id="in a class behind an escaped bracket"),
        pytest.param("/[]:]x/", False, id="in a class behind a bracket"),
        pytest.param(r"/\p{Script:Greek}/", False, id="a property"),
    ],
)
def test_colon_qualifies_unless_it_is_syntax(text: str, *, is_qualified: bool) -> None:
    assert Pattern.parse(text).is_qualified is is_qualified


def test_pattern_is_composed_as_names_are() -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"

    assert selected([decomposed], [composed, decomposed]).hits == {0, 1}
    assert selected([f"/^{decomposed}$/"], [composed, decomposed]).hits == {0, 1}


@rows(
    ("patterns", "hits"),
    [
        pytest.param([], {0, 1, 2}, id="no pattern matches everything"),
        pytest.param(["get_*"], {0}, id="one pattern"),
        pytest.param(["get_*", "set_*"], {0, 1}, id="either of two"),
        pytest.param(["!get_*"], {1, 2}, id="only a negation: all but"),
        pytest.param(["!get_*", "!set_*"], {2}, id="two negations: neither"),
        pytest.param(["*_x", "!set_*"], {0}, id="a pattern but not a negated one"),
    ],
)
def test_list_of_patterns(patterns: list[str], hits: set[int]) -> None:
    assert selected(patterns, ["get_x", "set_x", "run"]).hits == hits


@given(texts, st.lists(st.text("abdeilst_"), max_size=5), st.randoms(use_true_random=False))
def test_order_in_a_list_does_not_matter(patterns, names, chance) -> None:
    shuffled = chance.sample(patterns, len(patterns))

    assert selected(shuffled, names) == selected(patterns, names)


@rows(
    ("patterns", "expected"),
    [
        pytest.param([SLOW], Selection(set(), {0}), id="alone"),
        pytest.param(["!" + SLOW], Selection(set(), {0}), id="negated"),
        pytest.param([SLOW, "a*"], Selection({0}), id="another one matches anyway"),
        pytest.param(["!" + SLOW, "!a*"], Selection(set()), id="another one refuses anyway"),
        pytest.param([SLOW, "!a*"], Selection(set()), id="a negated one refuses anyway"),
        pytest.param(["a*", "!" + SLOW], Selection(set(), {0}), id="refused, perhaps"),
    ],
)
def test_slow_pattern_leaves_open_only_what_hangs_on_it(patterns, expected) -> None:
    assert selected(patterns, [SLOW_NAME], BRIEF) == expected


def test_libraries_are_loaded_by_the_first_pattern_that_needs_them() -> None:
    code = (
        "import sys\n"
        "from discovery_engine.rules import Pattern, Rule, ToolRules, describe\n"
        "ToolRules([Rule()])\n"
        "print({'wcmatch', 'regex'} & sys.modules.keys())\n"
        "Pattern.parse('get_*')\n"
        "print({'wcmatch', 'regex'} & sys.modules.keys())\n"
    )

    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert loaded.stdout.split("\n")[:2] == ["set()", "{'wcmatch'}"]
