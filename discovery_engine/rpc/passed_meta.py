"""The members of `_meta` that pass: to a server from a client's request, and the other way."""

from __future__ import annotations

import logging
from types import MappingProxyType

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.rpc.json_codec import encode

logger = logging.getLogger(__name__)

_HOPS = ("io.modelcontextprotocol/", "discovery/")
"""Prefixes of keys that two neighbours agree on: what they say of us is not said of the client."""
_TRACE = frozenset({"traceparent", "tracestate", "baggage"})
_SIZE = 16 * 1024  # bytes of all members; a trace and the ids of a host take a few hundred

NOTHING: JSONObject = MappingProxyType({})  # type: ignore[assignment]  # never changed


def passed_meta(meta: JSONValue) -> JSONObject:
    """The members that pass, unchanged; beyond 16 KiB they are dropped, those of a trace last.

    The token of progress and the keys of the protocol are ours towards the server.
    """
    if not isinstance(meta, dict):
        return NOTHING
    passed = {key: value for key, value in meta.items() if _passes(key)}
    return _bounded(passed) if passed else NOTHING


def server_meta(meta: JSONValue) -> JSONObject:
    """The members that a server may say something with; the same object if that are all.

    The gateway's own fields, and what the protocol says of a connection, are ours to say.
    """
    if not isinstance(meta, dict):
        return {}
    passed = {key: value for key, value in meta.items() if _passes(key)}
    return meta if len(passed) == len(meta) else passed


def _passes(key: str) -> bool:
    return key != "progressToken" and not key.startswith(_HOPS)


def _bounded(members: JSONObject) -> JSONObject:
    if len(encode(members)) <= _SIZE:
        return members
    selection, left = {}, _SIZE
    for key in sorted(members, key=lambda key: key not in _TRACE):
        size = len(encode({key: members[key]}))
        if size <= left:
            selection[key] = members[key]
            left -= size
    logger.debug(
        "%d members of a client's _meta are too large to pass", len(members) - len(selection)
    )
    return {key: value for key, value in members.items() if key in selection}
