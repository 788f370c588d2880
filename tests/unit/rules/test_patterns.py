from __future__ import annotations

import pytest

from discovery_engine.rules.patterns import (
    DEFAULT_LIMIT,
    Names,
    Pattern,
    PatternList,
    Selection,
    TimeLimit,
)
from tests.rows import rows

SLOW = "/(a|aa)+$/"
SLOW_NAME = "a" * 50 + "!"
BRIEF = TimeLimit(search=0.002, total=0.02)


def selected(patterns: list[str], names: list[str], limit: TimeLimit = DEFAULT_LIMIT) -> Selection:
    subject = Names(names)
    return PatternList.parse(patterns).select(
        subject.everything, lambda pattern: pattern.select(subject, limit)
    )


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
