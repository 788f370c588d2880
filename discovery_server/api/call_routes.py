"""Routes of calls: tools, resources, prompts, the questions of servers, and presets."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import anyio.to_thread
from msgspec import Meta, Struct, field, to_builtins

from discovery_engine._util.json import JSONObject
from discovery_engine.engine.owner.presets import LONGEST_NAME
from discovery_engine.tools.arguments import mistakes_in
from discovery_server.api.live_calls import (
    Action,
    CallForm,
    OpenQuestion,
    QuestionForm,
    call_form,
    question_form,
)
from discovery_server.api.paging import PageQuery, page
from discovery_server.api.route import ApiRequest, Nothing, RequestError, Routes

routes = Routes()


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


@routes("POST", "/servers/{server}/tools/{tool}/call", scope="call")
async def call_tool(request: ApiRequest[CallTool]) -> ResultAnswer:
    """Call a tool."""
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


@routes("GET", "/calls", scope="call")
async def running_calls(request: ApiRequest[PageQuery]) -> RunningCalls:
    """List the calls with an id that run."""
    calls = sorted(request.calls.of_user(request.only_user), key=lambda call: call.call_id)
    query = request.asked
    page_calls, cursor = page(
        calls, lambda call: (call.call_id, call.user), query.cursor, query.limit
    )
    return RunningCalls([call_form(call) for call in page_calls], cursor)


@routes("DELETE", "/calls/{call_id}", scope="call")
async def cancel_call(request: ApiRequest[Nothing]) -> CallCancelled:
    """Cancel a call."""
    call_id = request.path["call_id"]
    calls = [call for call in request.calls.of_user(request.only_user) if call.call_id == call_id]
    if not calls:
        text = f"no call with the id {call_id!r} is running"
        raise RequestError(404, text, hint="GET /api/calls names those that are")
    for call in calls:
        call.scope.cancel()
    return CallCancelled(cancelled=True)


@routes("POST", "/servers/{server}/resources/read", scope="call")
async def read_resource(request: ApiRequest[ReadResource]) -> ResultAnswer:
    """Read a resource."""
    server, uri = request.path["server"], request.asked.uri
    return ResultAnswer(await request.engine.offerings.read_resource(uri, server=server))


@routes("POST", "/servers/{server}/prompts/get", scope="call")
async def get_prompt(request: ApiRequest[GetPrompt]) -> ResultAnswer:
    """Get a prompt."""
    body, server = request.asked, request.path["server"]
    result = await request.engine.offerings.get_prompt(body.name, body.arguments, server=server)
    return ResultAnswer(result)


class QuestionPage(Struct, frozen=True):
    questions: list[QuestionForm]
    next_cursor: str | None


class AnswerQuestion(Struct, frozen=True, forbid_unknown_fields=True):
    action: Action
    content: Annotated[
        dict[str, Any] | None, Meta(description="The fields of a form that is accepted.")
    ] = None


class QuestionAnswered(Struct, frozen=True):
    answered: bool


@routes("GET", "/questions", scope="call")
async def questions(request: ApiRequest[PageQuery]) -> QuestionPage:
    """List the questions of servers that wait for an answer."""
    query, open_questions = request.asked, request.calls.questions_of(request.only_user)
    page_questions, cursor = page(
        open_questions, lambda question: (question.id,), query.cursor, query.limit
    )
    return QuestionPage([question_form(question) for question in page_questions], cursor)


@routes("POST", "/questions/{question_id}", scope="call")
async def answer_question(request: ApiRequest[AnswerQuestion]) -> QuestionAnswered:
    """Answer a question of a server."""
    answer, question = request.asked, _waiting(request)
    if answer.action == "accept" and question.is_form:
        # In a thread: the schema is a server's, and may take a tenth of a second.
        content = answer.content or {}
        mistakes = await anyio.to_thread.run_sync(mistakes_in, question.schema, content)
        if mistakes:
            text = f"the answer does not fit the form: {'; '.join(mistakes)}"
            raise RequestError(422, text, hint="the question still waits; answer it again")
    # While it was checked, it may have been answered, or its call may have ended.
    request.calls.answer(_waiting(request), answer.action, answer.content)
    return QuestionAnswered(answered=True)


def _waiting(request: ApiRequest[Any]) -> OpenQuestion:
    question_id = request.path["question_id"]
    for question in request.calls.questions_of(request.only_user):
        if question.id == question_id:
            return question
    text = "this question waits no more: it was answered, its call has ended, or its time is over"
    raise RequestError(404, text, hint="GET /api/questions names those that wait")


_Address: TypeAlias = Annotated[str, Meta(min_length=1, max_length=1000)]
_Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]


class PresetsQuery(PageQuery, frozen=True, forbid_unknown_fields=True):
    server: Annotated[str | None, Meta(description="Only those of this server.")] = None
    tool: Annotated[str | None, Meta(description="Only those of this tool.")] = None


class PresetPage(Struct, frozen=True):
    presets: list[JSONObject]
    next_cursor: str | None


class SavePreset(Struct, frozen=True, forbid_unknown_fields=True):
    server: _Address
    tool: _Address
    name: _Name
    arguments: Annotated[
        dict[str, Any], Meta(description="Those of the tool; without secrets.")
    ] = field(default_factory=dict)


class PresetKey(Struct, frozen=True, forbid_unknown_fields=True):
    server: _Address
    tool: _Address
    name: _Name


class PresetDeleted(Struct, frozen=True):
    deleted: bool


@routes("GET", "/presets")
async def presets(request: ApiRequest[PresetsQuery]) -> PresetPage:
    """List arguments that are kept under names."""
    query = request.asked
    matches = await request.owner.presets.list(query.server, query.tool)
    page_presets, cursor = page(matches, lambda preset: preset.key, query.cursor, query.limit)
    return PresetPage(to_builtins(page_presets), cursor)


@routes("PUT", "/presets")
async def save_preset(request: ApiRequest[SavePreset]) -> JSONObject:
    """Keep arguments under a name."""
    body = request.asked
    saved = await request.owner.presets.save(body.server, body.tool, body.name, body.arguments)
    form: JSONObject = to_builtins(saved)
    return form


@routes("DELETE", "/presets")
async def delete_preset(request: ApiRequest[PresetKey]) -> PresetDeleted:
    """Delete a preset."""
    key = request.asked
    return PresetDeleted(await request.owner.presets.delete(key.server, key.tool, key.name))
