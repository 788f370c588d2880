"""JSON Merge Patch (RFC 7396)."""

from __future__ import annotations

from typing import Any

from discovery_engine.engine.owner.owned_servers import merge_patch
from tests.rows import rows

PATCHED: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@rows(("value", "patch", "merged"), PATCHED)
def test_a_merge_patch_does_what_its_standard_says(
    value: dict[str, Any], patch: dict[str, Any], merged: dict[str, Any]
) -> None:
    assert merge_patch(value, patch) == merged
