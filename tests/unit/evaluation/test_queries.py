from __future__ import annotations

import pytest

from discovery_engine.errors import ConfigurationError
from discovery_engine.evaluation.queries import QuerySet, read_queries
from tests.rows import rows
from tests.unit.evaluation.runs import usual_view


def read(text: str, *, allow_missing: bool = False) -> QuerySet:
    return read_queries(
        text.encode(), file="q.yaml", view=usual_view(), allow_missing=allow_missing
    )


def problems(text: str) -> list[tuple[int, int, str, str]]:
    with pytest.raises(ConfigurationError) as caught:
        read(text)
    found = caught.value.problems
    return [(p.origin.line, p.origin.column, p.message, p.hint) for p in found]


@pytest.mark.requirement("EVA-2")
@rows(
    ("entry", "message"),
    [
        pytest.param("{query: a}", "has neither `tools` nor `none`", id="neither"),
        pytest.param("{query: a, none: false}", "has neither `tools` nor `none`", id="false"),
        pytest.param("{query: a, tools: []}", "has neither `tools` nor `none`", id="no tool"),
        pytest.param(
            "{query: a, tools: convert_time, none: true}",
            "has both `tools` and `none`",
            id="both",
        ),
        pytest.param("{none: true}", "is missing", id="no words"),
        pytest.param("{query: '', none: true}", "must not be empty", id="empty words"),
        pytest.param(
            f"{{query: {'a' * 8193}, none: true}}",
            "the query is too long: 8,193 characters, at most 8,192 bytes of UTF-8",
            id="long words",
        ),
    ],
)
def test_an_entry_says_what_is_asked_and_what_is_right(entry: str, message: str) -> None:
    assert [found[2] for found in problems(f"queries: [{entry}]")] == [message]


@pytest.mark.requirement("EVA-2")
@rows(
    ("text", "expected"),
    [
        pytest.param("", "has no query", id="an empty file"),
        pytest.param("queries: []", "has no query", id="no query"),
        pytest.param("a: 1", "unknown key 'a'", id="something else"),
        pytest.param("queries: [", "is not valid YAML", id="no YAML"),
        pytest.param("- query: a", "must be a mapping", id="a bare list"),
    ],
)
def test_a_file_of_another_kind_is_refused(text: str, expected: str) -> None:
    assert problems(text)[0][2].startswith(expected)
