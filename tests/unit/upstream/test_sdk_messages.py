from __future__ import annotations

import pytest

from discovery_engine.upstream.sdk_messages import as_json, as_message

MESSAGES = [
    {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
    {"jsonrpc": "2.0", "id": "a", "method": "tools/list", "params": {"cursor": "x"}},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}},
    {"jsonrpc": "2.0", "id": 1, "result": {"x": [1, {"y": None}]}},
    {"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "no", "data": {"z": 1}}},
    {"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "no"}},
]


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_comes_through_unchanged(message: dict) -> None:
    envelope = as_message(message)

    assert envelope is not None
    assert as_json(envelope) == message


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(1, id="number"),
        pytest.param([], id="list"),
        pytest.param({}, id="empty"),
        pytest.param({"id": 1}, id="id-alone"),
        pytest.param({"id": True, "result": {}}, id="boolean-id"),
        pytest.param({"id": 1.5, "method": "x"}, id="fraction-id"),
        pytest.param({"id": None, "method": "x"}, id="null-id"),
        pytest.param({"id": 1, "result": "text"}, id="bare-result"),
        pytest.param({"id": 1, "error": "text"}, id="bare-error"),
        pytest.param({"method": 1}, id="method-number"),
    ],
)
def test_anything_else_is_no_message(value: object) -> None:
    assert as_message(value) is None


def test_parameters_that_are_no_object_are_left_out() -> None:
    envelope = as_message({"method": "x", "params": [1]})

    assert envelope is not None
    assert as_json(envelope) == {"jsonrpc": "2.0", "method": "x"}
