from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.rpc.messages import (
    ErrorResponse,
    Notification,
    Request,
    Response,
    answered_id,
    as_json,
    as_message,
    correlated,
)
from tests.rows import rows

IDS = st.integers() | st.text()
OBJECTS = st.dictionaries(st.text(), st.integers() | st.text())
MESSAGES = (
    st.builds(Request, IDS, st.text(), st.none() | OBJECTS)
    | st.builds(Notification, st.text(), st.none() | OBJECTS)
    | st.builds(Response, IDS, OBJECTS)
)


@given(MESSAGES)
def test_every_message_is_read_as_it_was_written(message) -> None:
    assert as_message(as_json(message)) == message


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_what_is_no_object_is_no_message(value) -> None:
    assert as_message(value) is None
    assert answered_id(value) is None


@rows(
    "value",
    [
        {},
        {"id": 1},
        {"id": None, "method": "x"},
        {"id": True, "method": "x"},
        {"id": 1.5, "result": {}},
        {"id": 1, "result": []},
        {"id": 1, "error": ["no"]},
        {"method": 1},
    ],
)
def test_an_object_that_is_no_message_of_json_rpc_is_refused(value) -> None:
    assert as_message(value) is None


def test_an_error_without_code_or_message_is_still_an_error() -> None:
    message = as_message({"id": "a", "error": {"data": 1}})
    assert isinstance(message, ErrorResponse)
    assert as_json(message)["error"] == {"code": 0, "message": "it gave no message", "data": 1}


def test_an_error_may_be_a_text() -> None:
    message = as_message({"id": 1, "error": "no"})
    assert isinstance(message, ErrorResponse)
    assert as_json(message)["error"] == {"code": 0, "message": "no"}


@rows(
    ("code", "expected"), [(-32601.0, -32601), (1e300, int(1e300)), (1.5, 0), ("7", 0), (True, 0)]
)
def test_the_code_of_an_error_may_be_written_as_a_float(code, expected: int) -> None:
    message = as_message({"id": 1, "error": {"code": code, "message": "no"}})
    assert isinstance(message, ErrorResponse)
    assert (message.error.code, type(message.error.code)) == (expected, int)


def test_the_id_of_an_answer_that_is_invalid_otherwise_is_found() -> None:
    assert answered_id({"id": 3, "result": []}) == 3
    assert answered_id({"id": 3, "method": 7}) is None


def test_an_id_is_recognized_in_quotes() -> None:
    assert [correlated(one) for one in (7, "7", "seven", "")] == [7, 7, "seven", ""]
