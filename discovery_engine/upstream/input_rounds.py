"""Requests whose server answers with questions first: `input_required` results.

Each question is asked of the client that makes the call, and the request is sent again with the
answers and with the server's `requestState` as it was. A client that continues calls itself gets
the result instead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from discovery_engine._util.json import JSONObject
from discovery_engine.errors import (
    InputRequiredError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamTimeoutError,
)
from discovery_engine.rpc.client import Continuation
from discovery_engine.rpc.peer import RpcError
from discovery_engine.rpc.protocol import MISSING_CLIENT_CAPABILITY
from discovery_engine.upstream.call import CLIENT_HINT, Call
from discovery_engine.upstream.question import CAPABILITIES, Question
from discovery_engine.upstream.requests import UpstreamRequest

_MOST_ROUNDS = 20
_MOST_PASSED = 100  # questions of one result; of a call no more are asked
_INPUT_REQUIRED = "input_required"
_LATER_HINT = (
    "call it again once those calls are over; `session: per_client` for the server gives each"
    " client a session of its own"
)

Send = Callable[[UpstreamRequest], Awaitable[JSONObject]]


async def complete_result(
    send: Send, request: UpstreamRequest, call: Call, continuation: Continuation | None
) -> JSONObject:
    """The result of a request, after as many rounds as it takes.

    Raises:
        InputRequiredError: If a question was not answered, and the request failed.
        UpstreamError: What `send` raises.
    """
    try:
        result = await _last_result(send, request, call, continuation)
    except (UpstreamProtocolError, UpstreamTimeoutError) as error:
        if problem := call.problem or _missing_capability(call, error):
            problem.detail = error.message
            raise problem from error
        raise
    if call.problem and result.get("isError"):
        raise call.problem
    return result


async def _last_result(
    send: Send, request: UpstreamRequest, call: Call, continuation: Continuation | None
) -> JSONObject:
    sent = request.continued(continuation) if continuation else request
    for _ in range(_MOST_ROUNDS):
        result = await send(sent)
        if result.get("resultType") != _INPUT_REQUIRED:
            return result
        questions = read_questions(call, result)
        if call.client.takes_input_required:
            return await annotated(call, result, questions)
        responses = await answers(call, questions)
        sent = request.continued(Continuation(responses, result.get("requestState")))
    why = f"it wants input again after {_MOST_ROUNDS} rounds"
    hint = "give everything it may need as arguments, or use another tool"
    raise InputRequiredError(call.server, "input from its user", why, hint=hint)


def _missing_capability(call: Call, error: UpstreamError) -> InputRequiredError | None:
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
    if names and call.capabilities.keys() >= set(names):
        return InputRequiredError(
            call.server,
            "input during the call",
            f"calls of others use its session, which was opened without `{'` and `'.join(names)}`",
            hint=_LATER_HINT,
        )
    capability = " and ".join(names) or "the capability"
    return InputRequiredError(
        call.server,
        "input during the call",
        f"its client cannot be asked for it (`{capability}`)",
        hint=CLIENT_HINT.format(capability=capability),
        capabilities=names,
    )


def read_questions(call: Call, result: JSONObject) -> dict[str, Question]:
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
            _check_bounds(call, valid_questions)
            return valid_questions
    reason = "its input_required result is not one of MCP"
    raise UpstreamProtocolError(call.server, reason)


def _check_bounds(call: Call, questions: Mapping[str, Question]) -> None:
    if len(questions) > _MOST_PASSED:
        reason = f"it asks more than {_MOST_PASSED} questions at once"
        raise UpstreamProtocolError(call.server, reason)
    if any(question.is_too_large for question in questions.values()):
        raise UpstreamProtocolError(call.server, "a question of it is too large")


async def annotated(
    call: Call, result: JSONObject, questions: Mapping[str, Question]
) -> JSONObject:
    """A result with its questions as a client is given them that answers them itself."""
    if not questions:
        return result
    requests = {
        key: result["inputRequests"][key]
        | {"params": await question.annotated(call.server, call.scheduler)}
        for key, question in questions.items()
    }
    return result | {"inputRequests": requests}


async def answers(call: Call, questions: Mapping[str, Question]) -> JSONObject:
    """Ask the client of a call, and return its answers by the names of the questions.

    Raises:
        InputRequiredError: If it cannot be asked, or answers with an error.
    """
    responses: JSONObject = {}
    for key, question in questions.items():
        try:
            responses[key] = await call.ask(question)
        except RpcError as error:
            raise call.note(question, f"error {error.code}") from error
    return responses
