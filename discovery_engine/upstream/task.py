"""A task: the handle that a server returns in place of a result, and what it reports of it.

Source: the extension `io.modelcontextprotocol/tasks` of the revision 2026-07-28.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from discovery_engine._util.json import JSONObject
from discovery_engine._util.text import clean, quoted
from discovery_engine.errors import UpstreamError, UpstreamProtocolError
from discovery_engine.rpc.client import server_meta
from discovery_engine.rpc.pending import is_finite_number
from discovery_engine.rpc.protocol import TASKS_EXTENSION
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.requests import CALL_TOOL, UpstreamRequest

TaskMethod: TypeAlias = Literal["tasks/get", "tasks/update", "tasks/cancel"]

DECLARED: JSONObject = {TASKS_EXTENSION: {}}
"""The `extensions` of a client that understands tasks."""

_NO_RESULT = "its task is over, and has no valid result"
_ACTIVE = ("working", "input_required")
_TERMINAL = ("completed", "failed", "cancelled")
_ID_LENGTH = 1024  # characters; longer ones are no ids
MESSAGE_LENGTH = 500
"""Characters of a server's message."""
SHORTEST_INTERVAL = 0.1
"""Seconds between two requests for the state of a task, however often a client asks."""
# Seconds; the longest is shorter than any task should be forgotten in.
_USUAL, _MAX_POLL_INTERVAL = 1.0, 30.0


class TaskState(Struct, frozen=True):
    """The state of a task at one moment, as its server reported it."""

    id: str
    status: str
    """`working`, `input_required`, `completed`, `failed` or `cancelled`."""
    message: str
    """The server's own words, shortened; empty if it gave none."""
    interval: float
    """Seconds until it should be asked for again."""
    fields: JSONObject
    """All of it, as the server sent it."""

    @classmethod
    def from_json(cls, server: ServerName, reported: JSONObject) -> TaskState:
        """Parse the result of `tasks/get`, or one with `resultType: task`.

        Raises:
            UpstreamProtocolError: If it is not one of MCP.
        """
        match reported:
            case {"taskId": str(id_), "status": str(status)} if (
                0 < len(id_) <= _ID_LENGTH and status in _ACTIVE + _TERMINAL
            ):
                return cls(id_, status, _message(reported), _interval(reported), reported)
        raise invalid_task(server, "what it reports of its task is not one of MCP")

    def seed(self, handle: str, most_seconds: float) -> JSONObject:
        """It as a call returns it that becomes a task: under another id, and without a result.

        Members that MCP demands and the server left out are added. The task is not known for
        longer than `most_seconds` after it was created.
        """
        fields = self.fields
        life, most = fields.get("ttlMs"), int(most_seconds * 1000)
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        times = {
            name: fields[name] if isinstance(fields.get(name), str) else now
            for name in ("createdAt", "lastUpdatedAt")
        }
        answer: JSONObject = {
            "taskId": handle,
            "status": self.status,
            **({"statusMessage": self.message} if self.message else {}),
            **times,
            "ttlMs": min(int(life), most) if is_finite_number(life) and life >= 1 else most,
            "pollIntervalMs": int(self.interval * 1000),
        }
        if meta := server_meta(fields.get("_meta")):
            answer["_meta"] = meta
        return answer

    def shown(self, server: ServerName, handle: str, most_seconds: float) -> JSONObject:
        """Return the same as `seed`, with the result or the error, and without the questions.

        Raises:
            UpstreamProtocolError: If it is over, and has no valid result.
        """
        answer = self.seed(handle, most_seconds)
        match self.fields:
            case {"status": "completed", "result": dict(result)} if _is_complete(result):
                answer["result"] = {"resultType": "complete", **result}
            case {"status": "failed", "error": {"code": int(code), "message": str(message)}}:
                answer["error"] = {"code": code, "message": message[:MESSAGE_LENGTH]}
            case {"status": "completed" | "failed"}:
                raise invalid_task(server, _NO_RESULT)
        return answer

    def outcome(self, server: ServerName, subject: str) -> JSONObject:
        """The result of a task that is over.

        Raises:
            UpstreamProtocolError: If it failed, or has no valid result.
            UpstreamError: If it was cancelled.
        """
        match self.fields:
            case {"status": "completed", "result": dict(result)} if _is_complete(result):
                return result
            case {"status": "failed", "error": {"code": int(code), "message": str(message)}}:
                raise UpstreamProtocolError(server, message[:MESSAGE_LENGTH], code)
            case {"status": "cancelled"}:
                said = f": {quoted(self.message)}" if self.message else ""
                text = f"server {server!r} cancelled the task of {subject!r}{said}"
                raise UpstreamError(server, text, hint="call it again if it is still needed")
        raise invalid_task(server, _NO_RESULT)

    @property
    def is_over(self) -> bool:
        return self.status in _TERMINAL


def is_task(result: JSONObject) -> bool:
    """Return whether a result is the handle of a task."""
    return result.get("resultType") == "task"


def unexpected_task(server: ServerName, method: str) -> UpstreamProtocolError:
    """The error for a request that cannot become a task, and has become one all the same."""
    if method == CALL_TOOL:
        reason = "it returned a task and does not declare the extension for them"
    else:
        reason = f"it returned a task for {method}"
    return invalid_task(server, reason)


def offers_tasks(capabilities: JSONObject) -> bool:
    """Return whether a server with these capabilities may return tasks, if clients know them."""
    extensions = capabilities.get("extensions")
    return isinstance(extensions, dict) and TASKS_EXTENSION in extensions


def task_request(
    method: TaskMethod, task: str, subject: str, responses: JSONObject | None = None
) -> UpstreamRequest:
    """A request about a task; `subject` is the tool that it belongs to."""
    params: JSONObject = {"taskId": task}
    if responses is not None:
        params["inputResponses"] = responses
    return UpstreamRequest(method, params, subject, task)


def invalid_task(server: ServerName, reason: str) -> UpstreamProtocolError:
    return UpstreamProtocolError(server, reason)


def _is_complete(result: JSONObject) -> bool:
    return bool(result.get("resultType", "complete") == "complete")


def _message(reported: JSONObject) -> str:
    message = reported.get("statusMessage")
    return clean(message[:MESSAGE_LENGTH]) if isinstance(message, str) else ""


def _interval(reported: JSONObject) -> float:
    interval = reported.get("pollIntervalMs")
    if not is_finite_number(interval):
        return _USUAL
    return min(max(interval / 1000, SHORTEST_INTERVAL), _MAX_POLL_INTERVAL)
