"""JSON as the standard has it."""

from __future__ import annotations

import pytest

from discovery_engine._util.json import parse_json
from tests.rows import rows


def test_what_the_standard_knows_is_read() -> None:
    assert parse_json(' {"a": [1, 2.5, null, true, "é"]} ') == {"a": [1, 2.5, None, True, "é"]}


@rows(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("{", id="a part"),
        pytest.param("[NaN]", id="no number"),
        pytest.param("-Infinity", id="no end"),
        pytest.param("1e999", id="beyond what a float holds"),
        pytest.param("[" * 100_000, id="too deep"),
    ],
)
def test_what_cannot_be_read_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - which one does not matter
        parse_json(text)
