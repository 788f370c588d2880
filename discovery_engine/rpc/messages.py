"""JSON-RPC messages between plain JSON and structs; params and results stay plain JSON."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeGuard

from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.rpc.peer import RequestId, RpcError, UnreadableAnswerError

INVALID_MESSAGE = "its answer is not one of JSON-RPC"


class Request(Struct):
    id: RequestId
    method: str
    params: JSONObject | None = None


class Notification(Struct):
    method: str
    params: JSONObject | None = None


class Response(Struct):
    id: RequestId
    result: JSONObject


class ErrorResponse(Struct):
    id: RequestId
    error: RpcError


Message: TypeAlias = Request | Notification | Response | ErrorResponse


def as_message(value: JSONValue) -> Message | None:
    """A message whose params and result are not checked; None if it is not JSON-RPC."""
    if not isinstance(value, dict):
        return None
    method, id_ = value.get("method"), value.get("id")
    if not is_request_id(id_):
        if isinstance(method, str) and "id" not in value:
            return Notification(method, _params(value))
        return None
    if isinstance(method, str):
        return Request(id_, method, _params(value))
    return _answer(id_, value)


def _answer(id_: RequestId, value: JSONObject) -> Response | ErrorResponse | None:
    if isinstance(result := value.get("result"), dict):
        return Response(id_, result)
    if isinstance(error := value.get("error"), dict):
        return ErrorResponse(id_, _error(error))
    return None


def answered_id(value: JSONValue) -> RequestId | None:
    """The request id that an invalid message answers; None if it shows none."""
    if isinstance(value, dict) and "method" not in value and is_request_id(value.get("id")):
        identity: RequestId = value["id"]
        return identity
    return None


def as_json(message: Message) -> JSONObject:
    """The members of a message that are set, in the order of the protocol's examples."""
    match message:
        case Request(id_, method, params):
            members: JSONObject = {"jsonrpc": "2.0", "id": id_, "method": method}
            return members if params is None else members | {"params": params}
        case Notification(method, params):
            members = {"jsonrpc": "2.0", "method": method}
            return members if params is None else members | {"params": params}
        case Response(id_, result):
            return {"jsonrpc": "2.0", "id": id_, "result": result}
        case ErrorResponse(id_, error):
            return error_answer(id_, error)


def error_answer(request_id: RequestId | None, error: RpcError) -> JSONObject:
    """An error as plain JSON; the id is None if the request shows none."""
    return {"jsonrpc": "2.0", "id": request_id, "error": error.to_json()}


def unreadable(request_id: RequestId | None, reason: str) -> ErrorResponse | None:
    """An error answer instead of one that cannot be read, so that its caller stops waiting."""
    error = UnreadableAnswerError(reason)
    return None if request_id is None else ErrorResponse(request_id, error)


def is_request_id(value: Any) -> TypeGuard[RequestId]:
    """Whether it is an id of JSON-RPC; fractions and null are not allowed in MCP."""
    return isinstance(value, str | int) and not isinstance(value, bool)


def correlated(request_id: RequestId) -> RequestId:
    """An id as it is compared: some servers return the id 7 as "7"."""
    if isinstance(request_id, str):
        try:
            return int(request_id)
        except ValueError:
            return request_id
    return request_id


def _params(message: JSONObject) -> JSONObject | None:
    params = message.get("params")
    return params if isinstance(params, dict) else None


def _error(error: JSONObject) -> RpcError:
    code, message = error.get("code"), error.get("message")
    if isinstance(code, float) and code.is_integer():  # as some languages write every number
        code = int(code)
    return RpcError(
        code if isinstance(code, int) and not isinstance(code, bool) else 0,
        message if isinstance(message, str) else "it gave no message",
        error.get("data"),
    )
