"""A request to a server, its call in progress, and what the server asks of the client meanwhile."""

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
_MOST_QUESTIONS = 100  # of one call
_MOST_MESSAGES = 1_000  # of one call
_ROOTS: dict[str, JSONObject] = {"roots": {}}
_MOST_ROUNDS = 20
_MOST_PASSED = 100  # questions of one result; of a call no more are asked
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
    """The subject that errors name: a tool's name, a URI."""
    name: str | None = None
    """The value of the HTTP name header, for methods that have one."""
    pinned: frozenset[str] = frozenset()
    """The names of the arguments that the owner gives; they are not recorded."""

    @classmethod
    def call(cls, tool: str, arguments: JSONObject) -> UpstreamRequest:
        """`tools/call`, by the server's own name of the tool."""
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
        """The same request with the answers that the server asked for."""
        return replace(self, params=self.params | continuation.params)


class RequestNotProcessed(Exception):  # noqa: N818 - internal signal
    """The server provably did not process a request, so it may be sent again."""

    def __init__(self, error: UpstreamError) -> None:
        super().__init__(error)
        self.error = error


async def at_most_twice(ask: Callable[[], Awaitable[T]]) -> T:
    """The result of a request, which is sent a second time if it was not processed.

    Raises:
        UpstreamError: If it fails, or was not processed both times.
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
    """Seconds that a question waits for its answer."""
    roots: tuple[JSONObject, ...] | None = None
    """Answers `roots/list`; None to ask the client."""

    @property
    def root_list(self) -> JSONObject | None:
        """The result of `roots/list`; None to ask the client."""
        return None if self.roots is None else {"roots": list(self.roots)}


class CallObserver(Protocol):
    """Gets what happens in the course of a call."""

    def record_wait(self, seconds: float) -> None:
        """The call has waited so long for others."""

    def record_question(
        self, method: str, params: JSONObject, answer: JSONObject | Exception, seconds: float
    ) -> None:
        """Its server has asked the client something, and got an answer, or an error."""


Send: TypeAlias = Callable[[UpstreamRequest], Awaitable[JSONObject]]
"""Sends a request of a call."""
QuestionsOf: TypeAlias = Callable[[ServerName], QuestionSettings]
"""The settings of a server's questions at this moment."""


_WITHDRAWN = RpcError(INTERNAL_ERROR, "the question was withdrawn")


class _Held:
    """A context manager; one made by a generator takes three times as long, twice in each call."""

    __slots__ = ("_held", "_slot")

    def __init__(self, held: list[CallLimiter], slot: CallLimiter) -> None:
        self._held = held
        self._slot = slot

    def __enter__(self) -> None:
        self._held.append(self._slot)

    def __exit__(self, *exc: object) -> None:
        self._held.remove(self._slot)
        self._slot.release()


class Call:
    """From its first request to its result, in however many requests."""

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
        """The scheduler for work on the questions."""
        self.client = caller or CallbackClient()
        self._settings_of = settings_of
        capabilities = declarable(self.client.capabilities)
        self.capabilities: Mapping[str, JSONObject] = (
            capabilities if self._settings.roots is None else capabilities | _ROOTS
        )
        """The capabilities that its server may ask the client for."""
        self.clock = PausableClock()
        """It stands still while a question waits for its answer."""
        self.problem: InputRequiredError | None = None
        """Why a question was not answered; the first of several."""
        self._slots: list[CallLimiter] = []
        self._lent: ExitStack | None = None
        self._waiting = 0  # questions
        self._messages = 0
        self._asked = 0
        self._is_abandoned = (
            False  # a question was not answered in time, so no further one is asked
        )

    @property
    def _settings(self) -> QuestionSettings:
        return self._settings_of(self.server)

    def holding(self, slot: CallLimiter) -> _Held:
        """A block in which a slot was acquired; while a question waits, others may use it.

        Otherwise a few clients that never answer would hold up all calls to a server.
        """
        return _Held(self._slots, slot)

    @contextmanager
    def lending(self) -> Iterator[None]:
        """A block in which nothing is asked of the server: others may use the slots of the call."""
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
        """The client's answer; `problem` is set if there is none.

        Raises:
            RpcError: If it cannot be asked, or answers with an error.
        """
        began = time.monotonic()
        answer: JSONObject | Exception = _WITHDRAWN
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
                self._observer.record_question(question.method, question.params, answer, seconds)

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
        """Pass a log message of the server on; dropped if it has written too many."""
        self._messages += 1
        if self._messages <= _MOST_MESSAGES:
            self.client.notify("notifications/message", presented_message(self.server, params))

    def refused(
        self, question: Question, why: str, *, code: int = INVALID_PARAMS, hint: str = ""
    ) -> RpcError:
        """The error answer to a question; notes it as the call's problem."""
        self.note(question, why, hint=hint)
        return RpcError(code, f"{question.method} was not answered: {why}")

    def note(self, question: Question, why: str, *, hint: str = "") -> InputRequiredError:
        """Note why a question was not answered; returns the call's problem."""
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
        """The result of a request, after as many rounds as it takes.

        A server may answer with questions first (`input_required`). Each is asked of the client,
        and the request is sent again with the answers and with the server's `requestState` as it
        was. A client that continues calls itself gets the questions instead.

        Raises:
            InputRequiredError: If a question was not answered, and the request failed.
            UpstreamError: What `send` raises.
        """
        try:
            result = await self._last_result(send, request, continuation)
        except (UpstreamProtocolError, UpstreamTimeoutError) as error:
            if problem := self.problem or self._missing_capability(error):
                problem.detail = error.message
                raise problem from error
            raise
        if self.problem and result.get("isError"):
            raise self.problem
        return result

    async def _last_result(
        self, send: Send, request: UpstreamRequest, continuation: Continuation | None
    ) -> JSONObject:
        sent = request.continued(continuation) if continuation else request
        for _ in range(_MOST_ROUNDS):
            result = await send(sent)
            if result.get("resultType") != _INPUT_REQUIRED:
                return result
            questions = self.read_questions(result)
            if self.client.takes_input_required:
                return await self.annotated(result, questions)
            responses = await self.answers(questions)
            sent = request.continued(Continuation(responses, result.get("requestState")))
        why = f"it wants input again after {_MOST_ROUNDS} rounds"
        hint = "give everything it may need as arguments, or use another tool"
        raise InputRequiredError(self.server, "input from its user", why, hint=hint)

    def _missing_capability(self, error: UpstreamError) -> InputRequiredError | None:
        """The problem of a call that its server refused, because of what its client lacks."""
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
        """The questions of a result, by name; there may be none, if the server only wants time.

        Raises:
            UpstreamProtocolError: If they are not ones of MCP, too many or too large.
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
        """A result with its questions as a client is given them that answers them itself."""
        if not questions:
            return result
        requests = {
            key: result["inputRequests"][key]
            | {"params": await question.annotated(self.server, self.scheduler)}
            for key, question in questions.items()
        }
        return result | {"inputRequests": requests}

    async def answers(self, questions: Mapping[str, Question]) -> JSONObject:
        """Ask the client, and return its answers by the names of the questions.

        Raises:
            InputRequiredError: If it cannot be asked, or answers with an error.
        """
        responses: JSONObject = {}
        for key, question in questions.items():
            try:
                responses[key] = await self.ask(question)
            except RpcError as error:
                raise self.note(question, f"error {error.code}") from error
        return responses


def refuse_ambiguous(question: Question, calls: Sequence[Call]) -> RpcError:
    """The error answer to a question that any of several clients' calls may have caused."""
    hint = _SESSION_HINT.format(server=calls[0].server)
    why = "several clients use its session, so it cannot be known whose call asked"
    for call in calls:
        call.note(question, why, hint=hint)
    return RpcError(INVALID_PARAMS, f"{question.method} was not answered: {why}")
