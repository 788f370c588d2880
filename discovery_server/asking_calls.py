"""Calls that ask their client questions, in the revision of MCP without requests to clients.

The questions are returned as the result of the call. The call is parked in its own task until the
client sends it again with the responses. A call that is not continued in time is cancelled.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Protocol, TypeAlias

import anyio
from msgspec import Struct

from discovery_engine.rpc.messages import RpcError
from discovery_engine.rpc.protocol import ASKING_SERVER, INTERNAL_ERROR
from discovery_server.request_state import InvalidStateError

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject

logger = logging.getLogger(__name__)

_GATHERING = 0.01  # seconds for which further questions are collected into one round
_ROUNDS = 64  # rounds of one call; the SDK's client gives up after ten
_QUESTIONS = 16  # open questions of one call


class ParkingLimits(Struct, frozen=True):
    calls: int = 128
    """The most calls of all clients that have asked; each holds a task and a server session."""
    calls_of_client: int = 32


class CallChannel(Protocol):
    """The receiver of a call's progress and notifications, until its request is answered."""

    async def report_progress(
        self, progress: float, total: float | None, message: str | None
    ) -> None:
        """Report the progress of the call; see `OnProgress`."""

    def notify(self, method: str, params: JSONObject) -> None:
        """Pass on a notification of the call; see `Client.notify`."""


Work: TypeAlias = Callable[["AskingCall"], Awaitable["JSONObject"]]
"""Executes the call, and asks questions through the `AskingCall` that it gets."""


class InputRequired(Struct, frozen=True):
    """The questions of a call, returned instead of its result."""

    requests: JSONObject
    """The method and params of each question, by a key that is unique within the call."""
    call: str
    round: int


class _Question(Struct):
    request: JSONObject
    response: asyncio.Future[JSONObject]


class AskingCall:
    """One call, across the several requests in which its client sends it."""

    def __init__(self, calls: AskingCalls, client: str | None, work: Work) -> None:
        """Start the call, which runs until it ends or is cancelled."""
        self.id = ""
        """Empty until the first question."""
        self.client = client
        self.round = 0
        """The number of the latest round of questions that was returned to the client."""
        self.servers: set[str] = set()
        """The servers that have asked the client."""
        self._calls = calls
        self._output: CallChannel | None = None
        """The channel of the request that waits for the result; None while the call is parked."""
        self._questions: dict[str, _Question] = {}
        self._numbers = count(1)
        self._wake: asyncio.Future[None] | None = None
        """The future that `attend` awaits; resolved by a question or the end of the call."""
        self._scope = anyio.CancelScope()
        self._task = asyncio.get_running_loop().create_task(self._run(work))
        self._task.add_done_callback(self._end)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_parked(self) -> bool:
        """True if no request of the client waits for the result."""
        return self._output is None

    async def ask(self, method: str, params: JSONObject) -> JSONObject:
        """Ask the client a question, and return its response.

        Raises:
            RpcError: If too many questions of this call are open, or too many calls have asked.
        """
        self._calls.admit(self)
        if len(self._questions) >= _QUESTIONS:
            raise RpcError(INTERNAL_ERROR, f"a call may ask {_QUESTIONS} questions at once")
        key = f"question-{next(self._numbers)}"
        if isinstance(server := params.get("_meta", {}).get(ASKING_SERVER), str):
            self.servers.add(server)
        request: JSONObject = {"method": method, "params": params}
        question = _Question(request, asyncio.get_running_loop().create_future())
        self._questions[key] = question
        self._wake_up()
        try:
            return await question.response
        finally:
            self._questions.pop(key, None)

    async def report_progress(
        self, progress: float, total: float | None, message: str | None
    ) -> None:
        """Report progress to the request that waits for the result; dropped if none does."""
        if self._output:
            await self._output.report_progress(progress, total, message)

    def notify(self, method: str, params: JSONObject) -> None:
        """Send a notification to the request that waits for the result; dropped if none does."""
        if self._output:
            self._output.notify(method, params)

    def respond(self, responses: Mapping[str, object]) -> None:
        """Answer open questions by key; unknown keys, and responses but objects, are ignored."""
        for key, response in responses.items():
            if isinstance(response, dict) and (question := self._questions.pop(key, None)):
                question.response.set_result(response)

    async def attend(self, output: CallChannel) -> JSONObject | InputRequired:
        """Wait for the result of the call, or for its next questions.

        If the caller is cancelled, so is the call.

        Raises:
            RpcError: If the call failed, or asked in too many rounds.
            InvalidStateError: If it was cancelled by its timer or a shutdown.
        """
        self._stop_timer()
        self._output = output
        try:
            return await self._next_outcome()
        except BaseException:
            await self.cancel()
            raise
        finally:
            self._output = None

    def park(self, seconds: float) -> None:
        """Cancel the call unless the client continues it within `seconds`."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(seconds, self._scope.cancel)

    async def cancel(self) -> None:
        """Cancel the call, and wait until it has ended."""
        self._scope.cancel()
        if not self._task.done():
            with anyio.CancelScope(shield=True):
                await asyncio.wait([self._task])

    async def _next_outcome(self) -> JSONObject | InputRequired:
        while not self._task.done():
            if self._questions:
                await anyio.sleep(_GATHERING)
                if self._questions and not self._task.done():
                    return self._input_required()
            else:
                self._wake = asyncio.get_running_loop().create_future()
                await self._wake
        result = self._task.result()
        if result is None:  # it was cancelled by its timer, or on shutdown
            raise InvalidStateError
        return result

    def _input_required(self) -> InputRequired:
        if self.round >= _ROUNDS:
            raise RpcError(INTERNAL_ERROR, f"the call asked its client more than {_ROUNDS} times")
        self.round += 1
        requests = {key: question.request for key, question in self._questions.items()}
        return InputRequired(requests, self.id, self.round)

    async def _run(self, work: Work) -> JSONObject | None:
        """Return the result; None if the call was cancelled."""
        # A scope, because cancelling the task would also interrupt shielded clean-up.
        with self._scope:
            if not self._scope.cancel_called:  # checked: a cancellation acts only at an await
                return await work(self)
        return None

    def _end(self, task: asyncio.Task[JSONObject | None]) -> None:
        self._stop_timer()
        self._calls.remove(self)
        if not task.cancelled() and task.exception() and self.is_parked:
            logger.debug("A parked call failed: %s", task.exception())
        self._wake_up()

    def _wake_up(self) -> None:
        if self._wake and not self._wake.done():
            self._wake.set_result(None)

    def _stop_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None


class AskingCalls:
    """All calls that have asked their client and have not ended."""

    def __init__(self, limits: ParkingLimits | None = None) -> None:
        self._limits = limits or ParkingLimits()
        self._calls: dict[str, AskingCall] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def begin(self, client: str | None, work: Work) -> AskingCall:
        """Start a call of a client; the caller then awaits `attend`."""
        return AskingCall(self, client, work)

    def admit(self, call: AskingCall) -> None:
        """Register a call that is about to ask; no-op if it is registered.

        Raises:
            RpcError: If too many calls have asked already, of this client or of all.
        """
        if call.id:
            return
        of_client = sum(other.client == call.client for other in self._calls.values())
        if of_client >= self._limits.calls_of_client or len(self) >= self._limits.calls:
            text = (
                f"too many calls wait for responses of their clients ({of_client} of this one);"
                " respond to one of them, or call again later"
            )
            raise RpcError(INTERNAL_ERROR, text)
        call.id = os.urandom(16).hex()
        self._calls[call.id] = call

    def parked(self, call: str, number: int) -> AskingCall:
        """Return the parked call that waits for the responses of round `number`.

        Raises:
            InvalidStateError: If there is none, since it has ended or was continued already.
        """
        candidate = self._calls.get(call)
        if candidate is None or not candidate.is_parked or candidate.round != number:
            raise InvalidStateError
        return candidate

    def remove(self, call: AskingCall) -> None:
        """Remove a call that has ended; no-op if it never asked."""
        self._calls.pop(call.id, None)

    async def end(self, client: str | None) -> None:
        """Cancel all calls of a client that has disconnected."""
        for call in [call for call in self._calls.values() if call.client == client]:
            await call.cancel()

    async def close(self) -> None:
        """Cancel all calls."""
        for call in list(self._calls.values()):
            await call.cancel()
