"""Results as they leave for a client: valid in its revision, with what its era adds to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discovery_engine.rpc.protocol import MODERN_VERSIONS, SERVER_INFO
from discovery_engine.rpc.validity import sent
from discovery_engine.version import __version__

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject

IMPLEMENTATION: JSONObject = {"name": "discovery", "title": "Discovery", "version": __version__}

_A_DAY: JSONObject = {"ttlMs": 86_400_000, "cacheScope": "public"}
_A_MINUTE: JSONObject = {"ttlMs": 60_000, "cacheScope": "private"}
_CACHE_HINTS: dict[str, JSONObject] = {
    "server/discover": _A_MINUTE,
    "tools/list": _A_DAY,
    "prompts/list": _A_MINUTE,
    "resources/list": _A_MINUTE,
    "resources/templates/list": _A_MINUTE,
    "resources/read": {"ttlMs": 0, "cacheScope": "private"},
}


def completed(method: str, result: JSONObject, version: str) -> JSONObject:
    """A result as a version of the protocol has it, and with the members that it requires.

    Since 2026-07-28 these are `resultType`, the server's name in `_meta`, and for some methods how
    long the result may be cached. A member that the result has itself is kept. The handshake era
    has no `resultType`.
    """
    result = sent(method, result, version)
    if version not in MODERN_VERSIONS:
        if "resultType" not in result:
            return result
        return {name: value for name, value in result.items() if name != "resultType"}
    meta = {SERVER_INFO: IMPLEMENTATION, **(result.get("_meta") or {})}
    hint = _CACHE_HINTS.get(method, {})
    return {"resultType": "complete", **hint, **result, "_meta": meta}
