"""Tasks: handles that servers return in place of results, their states, and waiting for them.

While a caller waits, the server is polled at the interval that it requests, from 0.1 to 30 s.
Questions of the task go to the caller's client, changes to the progress callback. A task whose
caller stops waiting is cancelled at the server.

Source: the extension `io.modelcontextprotocol/tasks` of the revision 2026-07-28.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import anyio
from msgspec import Struct

from discovery_engine._util.json import JSONObject
from discovery_engine._util.text import clean, quoted
from discovery_engine.errors import (
    OutcomeUnknownError,
    UnavailableError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamTimeoutError,
)
from discovery_engine.rpc.client import server_meta
from discovery_engine.rpc.in_flight import is_finite_number
from discovery_engine.rpc.messages import OnProgress
from discovery_engine.rpc.protocol import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    TASKS_EXTENSION,
)
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.call import CALL_TOOL, Call, UpstreamRequest

TaskMethod: TypeAlias = Literal["tasks/get", "tasks/update", "tasks/cancel"]

DECLARED: JSONObject = {TASKS_EXTENSION: {}}
"""The `extensions` of a client that understands tasks."""

_NO_RESULT = "its task is over, and has no valid result"
_ACTIVE = ("working", "input_required")
_TERMINAL = ("completed", "failed", "cancelled")
_ID_LENGTH = 1024  # characters; a longer id is invalid
MESSAGE_LENGTH = 500
"""The most characters that are used of a server's message."""
SHORTEST_INTERVAL = 0.1
"""The least seconds between two requests for the state of a task."""
# Seconds; the longest is shorter than the time after which servers should forget a task.
_USUAL, _MAX_POLL_INTERVAL = 1.0, 30.0


class TaskState(Struct, frozen=True):
    """The state of a task at one moment, as its server reported it."""

    id: str
    status: str
    """`working`, `input_required`, `completed`, `failed` or `cancelled`."""
    message: str
    """The server's status message, at most 500 characters; may be empty."""
    interval: float
    """Seconds to wait before the next request for the state."""
    fields: JSONObject
    """All members of the state, as the server sent them."""

    @classmethod
    def from_json(cls, server: ServerName, reported: JSONObject) -> TaskState:
        """Parse the result of `tasks/get`, or a result with `resultType: task`.

        Raises:
            UpstreamProtocolError: If the id or the status is invalid.
        """
        match reported:
            case {"taskId": str(id_), "status": str(status)} if (
                0 < len(id_) <= _ID_LENGTH and status in _ACTIVE + _TERMINAL
            ):
                return cls(id_, status, _message(reported), _interval(reported), reported)
        raise invalid_task(server, "what it reports of its task is not one of MCP")

    def seed(self, handle: str, most_seconds: float) -> JSONObject:
        """Return the task as the result of a call, with the id `handle` and without an outcome.

        Members that MCP requires and the server left out are added. The time to live is at most
        `most_seconds`.
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
        """Return the task as `seed` does, with its result or error if it has ended.

        Raises:
            UpstreamProtocolError: If it has completed or failed without a valid result or error.
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
        """Return the result of a task that has ended.

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


def unexpected_task(server: ServerName, method: str) -> UpstreamProtocolError:
    """Return the error for a server that returned a task where it must not."""
    if method == CALL_TOOL:
        reason = "it returned a task and does not declare the extension for them"
    else:
        reason = f"it returned a task for {method}"
    return invalid_task(server, reason)


def offers_tasks(capabilities: JSONObject) -> bool:
    """Return whether these capabilities of a server declare the extension for tasks."""
    extensions = capabilities.get("extensions")
    return isinstance(extensions, dict) and TASKS_EXTENSION in extensions


def task_request(
    method: TaskMethod, task: str, subject: str, responses: JSONObject | None = None
) -> UpstreamRequest:
    """Return a request about a task of the tool `subject`."""
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


_MOST_FAILURES = 3  # consecutive failed requests about a task
_HEARTBEAT = 10.0  # seconds between reports; clients give up after a minute without one
_CANCELLING = 2.0  # seconds to wait for the server to acknowledge a cancellation
_UNKNOWN = (INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_CLIENT_CAPABILITY)

_FAILURES = (OutcomeUnknownError, UnavailableError, UpstreamProtocolError, UpstreamTimeoutError)

logger = logging.getLogger(__name__)


AskServer: TypeAlias = Callable[[UpstreamRequest, float], Awaitable[JSONObject]]
"""Sends a request and returns the answer, within seconds; raises UpstreamError if it fails."""


class RisingProgress:
    """The progress of a call's request and then of its task, which never falls, as MCP requires."""

    def __init__(self, on_progress: OnProgress) -> None:
        self._on_progress = on_progress
        self._highest = 0.0

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Report the progress of the request; see `OnProgress`."""
        self._highest = max(self._highest, progress)
        await self._on_progress(progress, total, message)

    async def advance(self, message: str) -> None:
        """Report that the task goes on, with a progress one higher than the last."""
        self._highest += 1
        try:
            await self._on_progress(self._highest, None, message)
        except Exception:  # an error of the caller's own code must not end its call
            logger.debug("A progress callback failed", exc_info=True)


class TaskWait:
    """Waits for one task; its timeout is paused while a question waits for its answer."""

    def __init__(
        self,
        state: TaskState,
        call: Call,
        subject: str,
        ask: AskServer,
        progress: RisingProgress | None,
        *,
        seconds: float,
        is_lost: Callable[[], bool],
    ) -> None:
        """Create a waiter, which sends nothing until `result`.

        Args:
            state: The state that the server returned in place of the result.
            call: The call that the task belongs to.
            subject: The name of the tool in errors.
            ask: Sends a request about the task to the server.
            progress: Receives changes of the task; may be None.
            seconds: The time limit of the task.
            is_lost: Returns whether the session, and with it the task, has ended.
        """
        self._state = state
        self._call = call
        self._subject = subject
        self._ask = ask
        self._is_lost = is_lost
        self._progress = progress
        self._seconds = seconds
        self._deadline = call.clock.time() + seconds
        self._failures = 0
        self._responses: JSONObject = {}
        self._delivered: set[str] = set()
        self._reported = ("", "")
        self._reported_at = 0.0

    async def result(self) -> JSONObject:
        """Wait for the task, and return the result of the call.

        Raises:
            UpstreamProtocolError: If the task failed, or the server's report is invalid.
            UpstreamError: If the server cancelled the task.
            OutcomeUnknownError: If the session was lost, or the server has forgotten the task.
            UpstreamTimeoutError: If the task does not end in time.
            InputRequiredError: If the client does not give the input that the task needs.
        """
        try:
            await self._follow()
        finally:
            if not self._state.is_over:
                await self._cancel()
        return self._state.outcome(self._call.server, self._subject)

    async def _follow(self) -> None:
        interval = self._state.interval if self._state.status == "working" else 0.0
        is_known = False  # the handle of a task has no result, even if the task is over
        while not (is_known and self._state.is_over):
            await self._report()
            with self._call.lending():
                await anyio.sleep(min(interval, self._rest()))
            if (reported := await self._request("tasks/get")) is not None:
                self._state, is_known = self._read(reported), True
                if self._state.status == "input_required":
                    await self._answer()
            interval = self._state.interval

    def _rest(self) -> float:
        """Return the seconds that are left; raises UpstreamTimeoutError if there are none."""
        rest = self._deadline - self._call.clock.time()
        if rest <= 0:
            raise UpstreamTimeoutError(self._call.server, repr(self._subject), self._seconds)
        return rest

    def _read(self, reported: JSONObject) -> TaskState:
        state = TaskState.from_json(self._call.server, reported)
        if state.id != self._state.id:
            raise invalid_task(self._call.server, "what it reports is about another task")
        return state

    async def _answer(self) -> None:
        """Ask the client each new question, and send responses until the server accepts them."""
        questions = self._call.read_questions(self._state.fields)
        new = {key: question for key, question in questions.items() if key not in self._responses}
        if new:
            with self._call.clock.paused():
                self._responses |= await self._call.answers(new)
        due = {key: self._responses[key] for key in questions if key not in self._delivered}
        if due and await self._request("tasks/update", due) is not None:
            self._delivered |= due.keys()

    async def _request(
        self, method: TaskMethod, responses: JSONObject | None = None
    ) -> JSONObject | None:
        """Return the answer to a request about the task; None if it should be retried."""
        request = task_request(method, self._state.id, self._subject, responses)
        try:
            answer = await self._ask(request, self._rest())
        except _FAILURES as error:
            self._failures += 1
            if method == "tasks/get" and is_unknown(error):
                reason = "it does not know the task any more"
                raise OutcomeUnknownError(self._call.server, self._subject, reason) from error
            if self._failures < _MOST_FAILURES and not self._is_lost():
                return None
            if isinstance(error, UnavailableError):  # the work may be done all the same
                raise OutcomeUnknownError(self._call.server, self._subject, error.reason) from error
            raise
        self._failures = 0
        return answer

    async def _report(self) -> None:
        """Report a change of the task, or after 10 s without one that it goes on."""
        if self._progress is None:
            return
        now = self._call.clock.time()
        report = self._state.status, self._state.message
        if report != self._reported or now >= self._reported_at + _HEARTBEAT:
            self._reported, self._reported_at = report, now
            with anyio.move_on_after(self._rest()):  # the caller may read slowly
                await self._progress.advance(self._state.message or self._state.status)

    async def _cancel(self) -> None:
        """Cancel the task at the server; no-op if that fails within 2 s."""
        request = task_request("tasks/cancel", self._state.id, self._subject)
        with anyio.move_on_after(_CANCELLING, shield=True), suppress(UpstreamError):
            await self._ask(request, _CANCELLING)


def is_unknown(error: UpstreamError) -> bool:
    """Return whether an error means that the server does not know the task."""
    return isinstance(error, UpstreamProtocolError) and error.rpc_code in _UNKNOWN
