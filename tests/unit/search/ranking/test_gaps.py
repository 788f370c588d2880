from __future__ import annotations

import pytest

from discovery_engine.search.operations.operation import Operation
from discovery_engine.search.operations.request_reading import RequestReading, read_request
from discovery_engine.search.operations.tool_profile import ToolProfile
from discovery_engine.search.ranking.gaps import undone, words_without
from discovery_engine.search.text.lexicon import default_lexicon
from tests.rows import rows

LEXICON = default_lexicon()


def reading_of(operations: Operation, *, is_explicit: bool = True) -> RequestReading:
    reading = read_request("", default_lexicon(), None)
    return reading._replace(operations=int(operations), is_explicit=is_explicit)


def profile_of(operations: Operation) -> ToolProfile:
    return ToolProfile(int(operations), 0, is_for_many=False, is_for_one=False)


@rows(
    ("text", "expected"),
    [
        pytest.param("cancel the order", [], id="a synonym is enough"),
        pytest.param("orders of zebras", ["zebras"], id="stop words aside"),
        pytest.param("zebra order 42 x zebra", ["zebra"], id="each once, no numbers, no letters"),
    ],
)
def test_words_without_are_those_that_no_tool_has(text: str, expected: list[str]) -> None:
    held = {term for word in ("revoke", "order") for term in LEXICON.terms(word)}

    assert words_without(held, text, LEXICON) == expected


@rows(
    ("reading", "done", "expected"),
    [
        pytest.param(
            reading_of(Operation.DELETE),
            [Operation.LIST, Operation.CREATE],
            ("delete or remove",),
            id="others do something else",
        ),
        pytest.param(
            reading_of(Operation.DELETE), [Operation.LIST, Operation.DELETE], (), id="one does it"
        ),
        pytest.param(
            reading_of(Operation.READ), [Operation.LIST], (), id="a kindred one may do, too"
        ),
        pytest.param(
            reading_of(Operation.DELETE), [Operation(0)], (), id="nothing is known of the tool"
        ),
        pytest.param(
            reading_of(Operation.DELETE, is_explicit=False), [Operation.LIST], (), id="a guess"
        ),
        pytest.param(
            reading_of(Operation.SEND | Operation.RUN | Operation.COPY),
            [Operation.DELETE],
            (),
            id="too many that may be meant",
        ),
        pytest.param(reading_of(Operation.DELETE), [], (), id="no tool"),
    ],
)
def test_undone_is_what_is_clearly_asked_for_and_no_tool_does(
    reading: RequestReading, done: list[Operation], expected: tuple[str, ...]
) -> None:
    assert undone(reading, [profile_of(one) for one in done]) == expected
