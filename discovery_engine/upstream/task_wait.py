"""Waits for the result of a task, for callers that take nothing else.

    result = await TaskWait(state, call, subject, server, progress, seconds=600.0).result()

The server is asked for the state of the task at the interval that it wishes, within bounds. Its
questions go to the caller's client, its changes to the caller's progress callback. A task that is
not waited for to its end is cancelled at the server.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Protocol

import anyio

from discovery_engine._util.json import JSONObject
from discovery_engine.errors import (
    OutcomeUnknownError,
    UnavailableError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamTimeoutError,
)
from discovery_engine.rpc.messages import OnProgress
from discovery_engine.rpc.protocol import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
)
from discovery_engine.upstream.call import Call
from discovery_engine.upstream.requests import UpstreamRequest
from discovery_engine.upstream.task import (
    TaskMethod,
    TaskState,
    invalid_task,
    task_request,
)

_MOST_FAILURES = 3  # of the requests for a task, one after another
_HEARTBEAT = 10.0  # seconds; clients that hear nothing for a minute give up
_CANCELLING = 2.0  # seconds that the caller waits for the server to acknowledge
_UNKNOWN = (INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_CLIENT_CAPABILITY)

_FAILURES = (OutcomeUnknownError, UnavailableError, UpstreamProtocolError, UpstreamTimeoutError)

logger = logging.getLogger(__name__)


class TaskServer(Protocol):
    """The session with the server that has the task."""

    @property
    def is_lost(self) -> bool:
        """True if the session has ended, and the task with it."""

    async def ask(self, request: UpstreamRequest, seconds: float) -> JSONObject:
        """The answer to a request about the task, within so many seconds.

        Raises:
            UpstreamError: If there is none.
        """


class RisingProgress:
    """The progress of a call: of its request, then of its task. It never falls, as MCP demands."""

    def __init__(self, on_progress: OnProgress) -> None:
        self._on_progress = on_progress
        self._highest = 0.0

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Report the progress of the request; see `OnProgress`."""
        self._highest = max(self._highest, progress)
        await self._on_progress(progress, total, message)

    async def advance(self, message: str) -> None:
        """Report that the task goes on; its progress is unknown."""
        self._highest += 1
        try:
            await self._on_progress(self._highest, None, message)
        except Exception:  # of the caller's own code: its call continues
            logger.debug("A progress callback failed", exc_info=True)


class TaskWait:
    """One wait for one task; its time stands still while a question waits for its answer."""

    def __init__(
        self,
        state: TaskState,
        call: Call,
        subject: str,
        server: TaskServer,
        progress: RisingProgress | None,
        *,
        seconds: float,
    ) -> None:
        """Nothing is sent yet.

        Args:
            state: What the server returned in place of the result.
            call: The call that it belongs to.
            subject: The tool, as errors name it.
            server: What has the task.
            progress: Gets the changes of the task.
            seconds: The most that the task may take.
        """
        self._state = state
        self._call = call
        self._subject = subject
        self._server = server
        self._progress = progress
        self._seconds = seconds
        self._deadline = call.clock.time() + seconds
        self._failures = 0
        self._responses: JSONObject = {}
        self._delivered: set[str] = set()
        self._reported = ("", "")
        self._reported_at = 0.0

    async def result(self) -> JSONObject:
        """The result of the call that became a task.

        Raises:
            UpstreamProtocolError: If the task failed, or what the server reports is not valid.
            UpstreamError: If it was cancelled at the server.
            OutcomeUnknownError: If the server went away, or does not know the task any more.
            UpstreamTimeoutError: If it does not end in time.
            InputRequiredError: If it needs input that the client does not give.
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
        """The seconds that are left."""
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
        """Have each open question answered, once; the answers are sent until they are taken."""
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
        """The answer of the server; None if there is none, and it should be tried again."""
        request = task_request(method, self._state.id, self._subject, responses)
        try:
            answer = await self._server.ask(request, self._rest())
        except _FAILURES as error:
            self._failures += 1
            if method == "tasks/get" and is_unknown(error):
                reason = "it does not know the task any more"
                raise OutcomeUnknownError(self._call.server, self._subject, reason) from error
            if self._failures < _MOST_FAILURES and not self._server.is_lost:
                return None
            if isinstance(error, UnavailableError):  # the work may be done all the same
                raise OutcomeUnknownError(self._call.server, self._subject, error.reason) from error
            raise
        self._failures = 0
        return answer

    async def _report(self) -> None:
        """Report a change, or after a while that there is none."""
        if self._progress is None:
            return
        now = self._call.clock.time()
        report = self._state.status, self._state.message
        if report != self._reported or now >= self._reported_at + _HEARTBEAT:
            self._reported, self._reported_at = report, now
            with anyio.move_on_after(self._rest()):  # the caller may read slowly
                await self._progress.advance(self._state.message or self._state.status)

    async def _cancel(self) -> None:
        """The server may go on all the same; its result is discarded."""
        request = task_request("tasks/cancel", self._state.id, self._subject)
        with anyio.move_on_after(_CANCELLING, shield=True), suppress(UpstreamError):
            await self._server.ask(request, _CANCELLING)


def is_unknown(error: UpstreamError) -> bool:
    """Return whether an error means that the server does not know the task."""
    return isinstance(error, UpstreamProtocolError) and error.rpc_code in _UNKNOWN
