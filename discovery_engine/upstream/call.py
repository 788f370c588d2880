"""Requests to servers, calls in progress, and the questions that servers ask during a call."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Protocol, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine.errors import (
    InputRequiredError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamTimeoutError,
)
from discovery_engine.rpc.client import (
    CAPABILITIES,
    ELICIT,
    LIST_ROOTS,
    CallbackClient,
    Client,
    Continuation,
    declarable,
)
from discovery_engine.rpc.messages import RequestTimeout, RpcError
from discovery_engine.rpc.protocol import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
)
from discovery_engine.rpc.request_timer import PausableClock, RequestTimeLimit
from discovery_engine.rpc.scheduling import FairScheduler
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.concurrency import CallLimiter
from discovery_engine.upstream.notifications import presented_message
from discovery_engine.upstream.question import Question

T = TypeVar("T")

CALL_TOOL = "tools/call"
_MOST_QUESTIONS = 100  # questions of one call
_MOST_MESSAGES = 1_000  # log messages of one call
_ROOTS: dict[str, JSONObject] = {"roots": {}}
_MOST_ROUNDS = 20
_MOST_PASSED = 100  # questions of one result
_INPUT_REQUIRED = "input_required"
_LATER_HINT = (
    "call it again once those calls are over; `session: per_client` for the server gives each"
    " client a session of its own"
)

CLIENT_HINT = (
    "give everything it may need as arguments, use another tool, or call it with a client that"
    " declares `{capability}`"
)
_SESSION_HINT = "set `session: per_client` for server {server!r}, and call it again"
_AGAIN_HINT = "call it again when a person can answer, or raise `server.questionTimeout`"


class UpstreamRequest(Struct, frozen=True):
    """A request that a caller waits for."""

    method: str
    params: JSONObject
    subject: str
    """The tool name, URI or prompt name that errors mention."""
    name: str | None = None
    """The value of the HTTP name header, for methods that have one."""
    pinned: frozenset[str] = frozenset()
    """The names of arguments that the owner has set; they are not recorded."""

    @classmethod
    def call(cls, tool: str, arguments: JSONObject) -> UpstreamRequest:
        """Create a `tools/call` request; `tool` is the server's own name of the tool."""
        return cls(CALL_TOOL, {"name": tool, "arguments": arguments}, tool, tool)

    @classmethod
    def read(cls, uri: str) -> UpstreamRequest:
        return cls("resources/read", {"uri": uri}, uri, uri)

    @classmethod
    def get_prompt(cls, name: str, arguments: JSONObject) -> UpstreamRequest:
        members = {"arguments": arguments} if arguments else {}
        return cls("prompts/get", {"name": name, **members}, name, name)

    @classmethod
    def complete(cls, params: JSONObject) -> UpstreamRequest:
        return cls("completion/complete", params, "completion/complete")

    def continued(self, continuation: Continuation) -> UpstreamRequest:
        """Return the request with the responses that the server requires."""
        return replace(self, params=self.params | continuation.params)


class RequestNotProcessed(Exception):  # noqa: N818 - internal signal
    """The server provably did not process a request, so it may be sent again."""

    def __init__(self, error: UpstreamError) -> None:
        super().__init__(error)
        self.error = error


async def at_most_twice(ask: Callable[[], Awaitable[T]]) -> T:
    """Send a request, again if it was not processed, and return its result.

    Raises:
        UpstreamError: If the request fails, or was not processed twice.
    """
    try:
        return await ask()
    except RequestNotProcessed:
        pass
    try:
        return await ask()
    except RequestNotProcessed as again:
        raise again.error from again


class QuestionSettings(Struct, frozen=True):
    """The owner's settings for the questions of servers."""

    timeout: float = 120.0
    """Seconds to wait for the answer to a question."""
    roots: tuple[JSONObject, ...] | None = None
    """The roots that the owner has set; None to ask the client."""

    @property
    def root_list(self) -> JSONObject | None:
        """The result of `roots/list`; None to ask the client."""
        return None if self.roots is None else {"roots": list(self.roots)}


class CallObserver(Protocol):
    """Records waits and questions of a call."""

    def record_wait(self, seconds: float) -> None:
        """Record that the call waited for a slot for `seconds`."""

    def begin_question(self, question: Question) -> None:
        """Note that a question to the client waits for its answer."""

    def record_question(
        self, question: Question, answer: JSONObject | Exception, seconds: float
    ) -> None:
        """Record a question to the client, with its answer or error, after `seconds`."""


Send: TypeAlias = Callable[[UpstreamRequest], Awaitable[JSONObject]]
"""Sends a request of a call."""
QuestionsOf: TypeAlias = Callable[[ServerName], QuestionSettings]
"""Returns the current settings for the questions of a server."""


_WITHDRAWN = RpcError(INTERNAL_ERROR, "the question was withdrawn")


class Call:
    """One call of a server, which may take several requests."""

    def __init__(
        self,
        server: ServerName,
        caller: Client | None,
        settings_of: QuestionsOf,
        scheduler: FairScheduler,
        observer: CallObserver | None = None,
    ) -> None:
        self.server = server
        self._observer = observer
        self.scheduler = scheduler
        """The scheduler for processing questions."""
        self.client = caller or CallbackClient()
        self._settings_of = settings_of
        capabilities = declarable(self.client.capabilities) if self.client.capabilities else {}
        self.capabilities: Mapping[str, JSONObject] = (
            capabilities if settings_of(server).roots is None else capabilities | _ROOTS
        )
        """The capabilities of the client that are declared to the server."""
        self.clock = PausableClock()
        """A clock that is paused while a question waits for its answer."""
        self.problem: InputRequiredError | None = None
        """The error of the first question that was not answered; None if there is none."""
        self._slots: list[CallLimiter] = []
        self._lent: ExitStack | None = None
        self._waiting = 0  # blocks of `lending`: questions that wait, and pauses between polls
        self._messages = 0
        self._asked = 0
        self._is_abandoned = (
            False  # a question was not answered in time, so no further one is asked
        )

    @property
    def _settings(self) -> QuestionSettings:
        return self._settings_of(self.server)

    def hold(self, slot: CallLimiter) -> None:
        """Hold an acquired slot until `release`.

        While a question waits, the slot is lent to other calls: otherwise a few clients that never
        answer would block a server.
        """
        self._slots.append(slot)

    def release(self, slot: CallLimiter) -> None:
        self._slots.remove(slot)
        slot.release()

    @contextmanager
    def lending(self) -> Iterator[None]:
        """Lend the slots of the call to other calls for the duration of the block."""
        if not self._waiting:
            self._lent = ExitStack()
            for slot in self._slots:
                self._lent.enter_context(slot.lent())
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            if not self._waiting and self._lent:
                self._lent.close()

    async def ask(self, question: Question) -> JSONObject:
        """Ask the client a question, and return its answer; without one, `problem` is set.

        Raises:
            RpcError: If the client cannot be asked, answers with an error, or does not answer a
                question other than an elicitation in time.
        """
        began = time.monotonic()
        answer: JSONObject | Exception = _WITHDRAWN
        if self._observer:
            self._observer.begin_question(question)
        try:
            answer = await self._ask(question)
        except RpcError as error:
            answer = error
            raise
        else:
            return answer
        finally:
            if self._observer:
                seconds = time.monotonic() - began
                self._observer.record_question(question, answer, seconds)

    async def _ask(self, question: Question) -> JSONObject:
        settings = self._settings
        if question.method == LIST_ROOTS and (roots := settings.root_list):
            return roots
        self._asked += 1
        self._check(question)
        try:
            with RequestTimeLimit(RequestTimeout(settings.timeout)), self.lending():
                params = await question.annotated(self.server, self.scheduler)
                return await self.client.ask(question.method, params)
        except TimeoutError:
            self._is_abandoned = True
            why = f"no answer came within {settings.timeout:g} s"
            if question.method == ELICIT:
                self.note(question, why, hint=_AGAIN_HINT)
                return {"action": "decline"}
            raise self.refused(question, why, code=INTERNAL_ERROR, hint=_AGAIN_HINT) from None
        except RpcError as error:
            self.note(question, f"its client answered error {error.code}: {error.message[:200]}")
            raise

    def log(self, params: JSONObject) -> None:
        """Pass a log message of the server to the client; dropped after 1,000 messages."""
        self._messages += 1
        if self._messages <= _MOST_MESSAGES:
            self.client.notify("notifications/message", presented_message(self.server, params))

    def refused(
        self, question: Question, why: str, *, code: int = INVALID_PARAMS, hint: str = ""
    ) -> RpcError:
        """Return the error answer to a question, and note it as the call's problem."""
        self.note(question, why, hint=hint)
        return RpcError(code, f"{question.method} was not answered: {why}")

    def note(self, question: Question, why: str, *, hint: str = "") -> InputRequiredError:
        """Note why a question was not answered, and return the call's first problem."""
        if self.problem is None:
            hint = hint or "give everything it may need as arguments, or use another tool"
            self.problem = InputRequiredError(self.server, question.summary, why, hint=hint)
        return self.problem

    def _check(self, question: Question) -> None:
        if missing := question.missing(self.client.capabilities):
            why = f"its client cannot be asked for it (`{missing}`)"
            hint = CLIENT_HINT.format(capability=missing)
            raise self.refused(question, why, code=METHOD_NOT_FOUND, hint=hint)
        if self._asked > _MOST_QUESTIONS:
            raise self.refused(question, f"it asked more than {_MOST_QUESTIONS} times in one call")
        if self._is_abandoned:
            raise self.refused(question, "an earlier question was not answered", hint=_AGAIN_HINT)
        if question.is_too_large:
            raise self.refused(question, "it is too large")

    async def complete(
        self, send: Send, request: UpstreamRequest, continuation: Continuation | None
    ) -> JSONObject:
        """Send a request until it has a result, in at most 20 rounds of questions.

        A server may first return questions (`input_required`). The client is asked each, and the
        request is sent again with the answers and the server's unchanged `requestState`. A client
        that continues calls itself gets the questions as the result.

        Raises:
            InputRequiredError: If a question was not answered and the request failed, or the server
                asks in too many rounds.
            UpstreamError: Any other error of `send`.
        """
        sent = request.continued(continuation) if continuation else request
        try:
            for _ in range(_MOST_ROUNDS):
                result = await send(sent)
                if result.get("resultType") != _INPUT_REQUIRED:
                    break
                questions = self.read_questions(result)
                if self.client.takes_input_required:
                    return await self.annotated(result, questions)
                responses = await self.answers(questions)
                sent = request.continued(Continuation(responses, result.get("requestState")))
            else:
                why = f"it wants input again after {_MOST_ROUNDS} rounds"
                hint = "give everything it may need as arguments, or use another tool"
                raise InputRequiredError(self.server, "input from its user", why, hint=hint)
        except (UpstreamProtocolError, UpstreamTimeoutError) as error:
            if problem := self.problem or self._missing_capability(error):
                problem.detail = error.message
                raise problem from error
            raise
        if self.problem and result.get("isError"):
            raise self.problem
        return result

    def _missing_capability(self, error: UpstreamError) -> InputRequiredError | None:
        """Return the error of a call that was refused since its client lacks a capability.

        None if the server's error is another one.
        """
        if not isinstance(error, UpstreamProtocolError):
            return None
        if error.rpc_code != MISSING_CLIENT_CAPABILITY:
            return None
        cause = error.__cause__
        data = cause.data if isinstance(cause, RpcError) else None
        capabilities = data.get("requiredCapabilities") if isinstance(data, dict) else None
        names = [name for name in CAPABILITIES if name in (capabilities or ())]
        if capabilities and not names:  # an extension: nothing that its client could be asked for
            return None
        if names and self.capabilities.keys() >= set(names):
            return InputRequiredError(
                self.server,
                "input during the call",
                "calls of others use its session, which was opened without "
                f"`{'` and `'.join(names)}`",
                hint=_LATER_HINT,
            )
        capability = " and ".join(names) or "the capability"
        return InputRequiredError(
            self.server,
            "input during the call",
            f"its client cannot be asked for it (`{capability}`)",
            hint=CLIENT_HINT.format(capability=capability),
            capabilities=names,
        )

    def read_questions(self, result: JSONObject) -> dict[str, Question]:
        """Return the questions of a result by key; none if the server only needs more time.

        Raises:
            UpstreamProtocolError: If they are invalid, too many or too large.
        """
        requests = result.get("inputRequests")
        state = result.get("requestState")
        if isinstance(requests, dict | None) and isinstance(state, str | None):
            questions = {k: Question.from_json(request) for k, request in (requests or {}).items()}
            valid_questions = {
                key: question for key, question in questions.items() if question is not None
            }
            if len(valid_questions) == len(questions) and (valid_questions or state is not None):
                self._check_bounds(valid_questions)
                return valid_questions
        reason = "its input_required result is not one of MCP"
        raise UpstreamProtocolError(self.server, reason)

    def _check_bounds(self, questions: Mapping[str, Question]) -> None:
        if len(questions) > _MOST_PASSED:
            reason = f"it asks more than {_MOST_PASSED} questions at once"
            raise UpstreamProtocolError(self.server, reason)
        if any(question.is_too_large for question in questions.values()):
            raise UpstreamProtocolError(self.server, "a question of it is too large")

    async def annotated(self, result: JSONObject, questions: Mapping[str, Question]) -> JSONObject:
        """Return a result with its questions annotated for a client that answers them itself."""
        if not questions:
            return result
        requests = {
            key: result["inputRequests"][key]
            | {"params": await question.annotated(self.server, self.scheduler)}
            for key, question in questions.items()
        }
        return result | {"inputRequests": requests}

    async def answers(self, questions: Mapping[str, Question]) -> JSONObject:
        """Ask the client each question, and return its answers by the keys of the questions.

        Raises:
            InputRequiredError: If the client cannot be asked, or answers with an error.
        """
        responses: JSONObject = {}
        for key, question in questions.items():
            try:
                responses[key] = await self.ask(question)
            except RpcError as error:
                raise self.note(question, f"error {error.code}") from error
        return responses


def refuse_ambiguous(question: Question, calls: Sequence[Call]) -> RpcError:
    """Return the error answer to a question that calls of several clients may have caused.

    It is noted as a problem of each call.
    """
    hint = _SESSION_HINT.format(server=calls[0].server)
    why = "several clients use its session, so it cannot be known whose call asked"
    for call in calls:
        call.note(question, why, hint=hint)
    return RpcError(INVALID_PARAMS, f"{question.method} was not answered: {why}")
