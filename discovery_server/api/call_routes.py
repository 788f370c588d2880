"""Routes of calls: tools, resources and prompts, tried by a person or used by a program."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct, field

from discovery_engine._util.json import JSONObject
from discovery_server.api.live_calls import CallForm, call_form
from discovery_server.api.paging import PageQuery, page
from discovery_server.api.route import ApiRequest, ApiRoute, Nothing, RequestError

CallId: TypeAlias = Annotated[
    str, Meta(max_length=64, description="Chosen by the caller; no other call that runs has it.")
]


class CallTool(Struct, frozen=True, forbid_unknown_fields=True):
    arguments: Annotated[dict[str, Any], Meta(description="Those of the tool.")] = field(
        default_factory=dict
    )
    call_id: CallId = ""
    """With it the call reports progress, and can be cancelled."""
    takes_questions: Annotated[
        bool, Meta(description="Whether questions of the server wait for an answer; with call_id.")
    ] = False


class RunningCalls(Struct, frozen=True):
    calls: list[CallForm]
    next_cursor: str | None


class CallCancelled(Struct, frozen=True):
    cancelled: bool


class ReadResource(Struct, frozen=True, forbid_unknown_fields=True):
    uri: Annotated[str, Meta(min_length=1, description="That of the resource.")]


class GetPrompt(Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, description="That of the prompt.")]
    arguments: dict[str, Any] = field(default_factory=dict)


class ResultAnswer(Struct, frozen=True):
    result: Annotated[JSONObject, Meta(description="As the server sent it, whole.")]


async def call_tool(request: ApiRequest[CallTool]) -> ResultAnswer:
    server, tool = request.path["server"], request.path["tool"]
    body, engine = request.asked, request.engine
    if not body.call_id:
        if body.takes_questions:
            raise RequestError(422, "a call that takes questions needs a call_id")
        return ResultAnswer(await engine.execute(server, tool, body.arguments, by=request.by))
    running = request.calls.running(body.call_id, user=request.user, server=server, tool=tool)
    with running as call:
        result = await engine.execute(
            server,
            tool,
            body.arguments,
            on_progress=call.report_progress,
            caller=call.client(engine.settings.server.question_timeout)
            if body.takes_questions
            else None,
            by=request.by,
        )
        return ResultAnswer(result)


async def running_calls(request: ApiRequest[PageQuery]) -> RunningCalls:
    calls = sorted(request.calls.of_user(request.only_user), key=lambda call: call.call_id)
    query = request.asked
    page_calls, cursor = page(
        calls, lambda call: (call.call_id, call.user), query.cursor, query.limit
    )
    return RunningCalls([call_form(call) for call in page_calls], cursor)


async def cancel_call(request: ApiRequest[Nothing]) -> CallCancelled:
    call_id = request.path["call_id"]
    calls = [call for call in request.calls.of_user(request.only_user) if call.call_id == call_id]
    if not calls:
        text = f"no call with the id {call_id!r} is running"
        raise RequestError(404, text, hint="GET /api/calls names those that are")
    for call in calls:
        call.scope.cancel()
    return CallCancelled(cancelled=True)


async def read_resource(request: ApiRequest[ReadResource]) -> ResultAnswer:
    server, uri = request.path["server"], request.asked.uri
    return ResultAnswer(await request.engine.offerings.read_resource(uri, server=server))


async def get_prompt(request: ApiRequest[GetPrompt]) -> ResultAnswer:
    body, server = request.asked, request.path["server"]
    result = await request.engine.offerings.get_prompt(body.name, body.arguments, server=server)
    return ResultAnswer(result)


_ONE = "/servers/{server}"
ROUTES = (
    ApiRoute(
        "POST",
        f"{_ONE}/tools/{{tool}}/call",
        "Call a tool",
        call_tool,
        CallTool,
        ResultAnswer,
        scope="call",
    ),
    ApiRoute(
        "GET",
        "/calls",
        "List the calls with an id that run",
        running_calls,
        PageQuery,
        RunningCalls,
        scope="call",
    ),
    ApiRoute(
        "DELETE",
        "/calls/{call_id}",
        "Cancel a call",
        cancel_call,
        answer=CallCancelled,
        scope="call",
    ),
    ApiRoute(
        "POST",
        f"{_ONE}/resources/read",
        "Read a resource",
        read_resource,
        ReadResource,
        ResultAnswer,
        scope="call",
    ),
    ApiRoute(
        "POST",
        f"{_ONE}/prompts/get",
        "Get a prompt",
        get_prompt,
        GetPrompt,
        ResultAnswer,
        scope="call",
    ),
)
