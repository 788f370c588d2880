"""JSON Merge Patch (RFC 7396)."""

from __future__ import annotations

from discovery_engine._util.json import JSONObject


def merge_patch(value: JSONObject, patch: JSONObject) -> JSONObject:
    """The value with a patch applied: null removes a member, maps are merged."""
    merged = dict(value)
    for name, change in patch.items():
        if change is None:
            merged.pop(name, None)
        elif isinstance(change, dict):
            member = merged.get(name)
            merged[name] = merge_patch(member if isinstance(member, dict) else {}, change)
        else:
            merged[name] = change
    return merged
