"""JSON Merge Patch (RFC 7396)."""

from __future__ import annotations

from discovery_engine._util.json import JSONObject


def merge_patch(value: JSONObject, patch: JSONObject) -> JSONObject:
    """The value with a patch applied: null removes a member, maps are merged."""
    merged = dict(value)
    for name, one in patch.items():
        if one is None:
            merged.pop(name, None)
        elif isinstance(one, dict):
            known = merged.get(name)
            merged[name] = merge_patch(known if isinstance(known, dict) else {}, one)
        else:
            merged[name] = one
    return merged
