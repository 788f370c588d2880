"""The messages of clients, checked more strictly than those of servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discovery_engine.rpc.messages import Notification, Request, is_request_id

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONValue
    from discovery_engine.rpc.messages import RequestId


def as_incoming(value: JSONValue) -> Request | Notification | None:
    """A request or notification; None if it is neither."""
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        return None
    method, params = value.get("method"), value.get("params")
    if not isinstance(method, str) or not (params is None or isinstance(params, dict)):
        return None
    if "id" not in value:
        return Notification(method, params)
    return Request(value["id"], method, params) if is_request_id(value["id"]) else None


def is_response(value: JSONValue) -> bool:
    return (
        isinstance(value, dict)
        and "method" not in value
        and ("result" in value or "error" in value)
    )


def id_of(value: JSONValue) -> RequestId | None:
    """The id of an invalid request, so that its sender stops waiting."""
    if isinstance(value, dict) and is_request_id(value.get("id")):
        identity: RequestId = value["id"]
        return identity
    return None
