"""Routes of questions that servers ask in the middle of calls made over the API."""

from __future__ import annotations

from typing import Annotated, Any

import anyio.to_thread
from msgspec import Meta, Struct

from discovery_engine.tools.arguments import mistakes_in
from discovery_server.api.live_calls import Action, OpenQuestion, QuestionForm, question_form
from discovery_server.api.paging import PageQuery, page
from discovery_server.api.route import ApiRequest, ApiRoute, RequestError


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


async def questions(request: ApiRequest[PageQuery]) -> QuestionPage:
    query, open_questions = request.asked, request.calls.questions_of(request.only_user)
    page_questions, cursor = page(
        open_questions, lambda question: (question.id,), query.cursor, query.limit
    )
    return QuestionPage([question_form(question) for question in page_questions], cursor)


async def answer_question(request: ApiRequest[AnswerQuestion]) -> QuestionAnswered:
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


ROUTES = (
    ApiRoute(
        "GET",
        "/questions",
        "List the questions of servers that wait for an answer",
        questions,
        PageQuery,
        QuestionPage,
        scope="call",
    ),
    ApiRoute(
        "POST",
        "/questions/{question_id}",
        "Answer a question of a server",
        answer_question,
        AnswerQuestion,
        QuestionAnswered,
        scope="call",
    ),
)
