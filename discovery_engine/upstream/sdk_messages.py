"""Converts JSON-RPC messages between plain JSON and the SDK's types."""

from __future__ import annotations

from sys import float_info

from mcp_types import (
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from discovery_engine._util.json import JSONObject, JSONValue

STRANGE = "its answer is not one of JSON-RPC"


def as_message(value: JSONValue) -> JSONRPCMessage | None:
    """A JSON-RPC message; its params and result are not parsed. None if it is none."""
    match value:
        case {"method": str() as method, "id": id_} if _is_id(id_):
            return JSONRPCRequest.model_construct(
                jsonrpc="2.0", id=id_, method=method, params=_params(value)
            )
        case {"method": str() as method, **rest} if "id" not in rest:
            return JSONRPCNotification.model_construct(
                jsonrpc="2.0", method=method, params=_params(value)
            )
        case {"id": id_, "result": dict() as result} if _is_id(id_):
            return JSONRPCResponse.model_construct(jsonrpc="2.0", id=id_, result=result)
        case {"id": id_, "error": dict() as error} if _is_id(id_):
            return JSONRPCError.model_construct(jsonrpc="2.0", id=id_, error=_error(error))
        case _:
            return None


def answered_id(value: JSONValue) -> RequestId | None:
    """The request id that an invalid message answers; None if it shows none."""
    match value:
        case {"id": id_, **rest} if _is_id(id_) and "method" not in rest:
            identity: RequestId = id_
            return identity
        case _:
            return None


def as_json(message: JSONRPCMessage) -> JSONObject:
    """The members of a message that are set, in the order of the protocol's examples."""
    match message:
        case JSONRPCRequest(id=id_, method=method, params=params):
            members: JSONObject = {"jsonrpc": "2.0", "id": id_, "method": method}
            return members if params is None else members | {"params": params}
        case JSONRPCNotification(method=method, params=params):
            members = {"jsonrpc": "2.0", "method": method}
            return members if params is None else members | {"params": params}
        case JSONRPCResponse(id=id_, result=result):
            return {"jsonrpc": "2.0", "id": id_, "result": result}
        case JSONRPCError(id=id_, error=error):
            return {"jsonrpc": "2.0", "id": id_, "error": error.model_dump(exclude_none=True)}


def is_sdk_safe(message: JSONRPCMessage) -> bool:
    """Whether the SDK can parse a message: it converts progress numbers of any size to float."""
    match message:
        case JSONRPCNotification(method="notifications/progress", params=dict() as params):
            return all(_is_finite(params.get(name)) for name in ("progress", "total"))
        case _:
            return True


def unreadable(request_id: RequestId | None, reason: str) -> JSONRPCMessage | None:
    """An error answer instead of one that cannot be read, so that its caller stops waiting."""
    if request_id is None:
        return None
    error = ErrorData(code=PARSE_ERROR, message=reason)
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


def _is_id(value: JSONValue) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _is_finite(value: JSONValue) -> bool:
    return not isinstance(value, int) or abs(value) <= float_info.max


def _params(message: JSONObject) -> JSONObject | None:
    params = message.get("params")
    return params if isinstance(params, dict) else None


def _error(error: JSONObject) -> ErrorData:
    code, message = error.get("code"), error.get("message")
    return ErrorData(
        code=code if isinstance(code, int) and not isinstance(code, bool) else 0,
        message=message if isinstance(message, str) else "it gave no message",
        data=error.get("data"),
    )
