"""JSON-RPC messages between plain JSON and structs; params and results stay plain JSON."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeGuard

from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.rpc.peer import InvalidAnswerError, RequestId, RpcError


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
    if not isinstance(method, str):
        return _answer(value)
    if is_request_id(id_):
        return Request(id_, method, _params(value))
    return None if "id" in value else Notification(method, _params(value))


def _answer(value: JSONObject) -> Response | ErrorResponse | None:
    if (id_ := _request_id(value.get("id"))) is None:
        return None
    if isinstance(result := value.get("result"), dict):
        return Response(id_, result)
    if isinstance(error := value.get("error"), dict | str):
        return ErrorResponse(id_, as_error(error))
    return None


def answered_id(value: JSONValue) -> RequestId | None:
    """The id of the request that a value answers, valid or not; None if it shows none."""
    is_answer = isinstance(value, dict) and "method" not in value
    return _request_id(value.get("id")) if is_answer else None


def fault_of(value: JSONValue) -> str:
    """Return what is wrong with a value that came as an answer and is not one."""
    if not isinstance(value, dict):
        return f"it is {_kind(value)}, not a message of JSON-RPC"
    if "method" in value:
        return "it is a request of JSON-RPC, not an answer"
    for member in ("result", "error"):
        if value.get(member) is not None:
            return f"its `{member}` is {_kind(value[member])}"
    return "it has neither `result` nor `error`"


def _kind(value: JSONValue) -> str:
    match value:
        case None:
            return "null"
        case str():
            return "a text"
        case list():
            return "a list"
        case dict():
            return "an object, and it has no `id`"
        case _:
            return "a boolean" if isinstance(value, bool) else "a number"


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
    return None if request_id is None else ErrorResponse(request_id, InvalidAnswerError(reason))


def is_request_id(value: Any) -> TypeGuard[RequestId]:
    """Return whether a value is a JSON-RPC id; MCP does not allow fractions or null."""
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


def _request_id(id_: JSONValue) -> RequestId | None:
    """The id in an answer; some languages write every number as a float."""
    if isinstance(id_, float) and id_.is_integer():
        return int(id_)
    return id_ if is_request_id(id_) else None


def as_error(error: JSONObject | str) -> RpcError:
    """The `error` of an answer; without a code, its code is 0."""
    if isinstance(error, str):
        return RpcError(0, error)
    code, message = error.get("code"), error.get("message")
    if isinstance(code, float) and code.is_integer():
        code = int(code)
    return RpcError(
        code if isinstance(code, int) and not isinstance(code, bool) else 0,
        message if isinstance(message, str) else "it gave no message",
        error.get("data"),
    )
