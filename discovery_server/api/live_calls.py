"""Running calls of the API: their progress, their questions, and cancelling them.

    → {"type": "call_progress", "call_id": "c1", "server": "maps", "progress": 3.0, "total": 9.0, …}
    → {"type": "question", "question_id": "6f…", "call_id": "c1", "server": "maps", …}
    → {"type": "question_closed", "question_id": "6f…", "call_id": "c1"}
    → {"type": "login_address", "server": "linear", "address": "https://…"}

A call belongs to the user whose token made it. Only this user, and users with the scope `admin`,
can see it, cancel it and answer its questions.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeAlias

import anyio
from msgspec import UNSET, Struct, UnsetType, field, to_builtins

from discovery_engine._util.json import JSONObject
from discovery_engine.errors import DiscoveryError
from discovery_engine.rpc.client import CallbackClient
from discovery_engine.rpc.protocol import FINDINGS, LATEST_MODERN
from discovery_engine.rpc.scheduling import FairScheduler
from discovery_server.question_text import present

if TYPE_CHECKING:
    from discovery_engine.rpc.client import Client
    from discovery_server.api.event_feed import EventFeed

Action: TypeAlias = Literal["accept", "decline", "cancel"]

_CAPABILITIES: dict[str, JSONObject] = {"elicitation": {"form": {}, "url": {}}}
_MOST_OF_USER = 100  # running calls with an id of one user


class CallCancelledError(DiscoveryError):
    """A call or login that was cancelled over the API."""

    code = "CALL_CANCELLED"

    def __init__(self, server: str, tool: str) -> None:
        hint = "what its server had done until then stays done"
        subject = f"call of {server}:{tool}" if tool else f"login to {server}"
        super().__init__(f"the {subject} was cancelled", hint=hint)


class CallIdTakenError(DiscoveryError):
    """A second call with an id that a running call of the same user has."""

    code = "INVALID_REQUEST"

    def __init__(self, call_id: str) -> None:
        hint = "use a new id for each call"
        super().__init__(f"a call with the id {call_id!r} is running", hint=hint)


class TooManyCallsError(DiscoveryError):
    code = "RATE_LIMITED"

    def __init__(self) -> None:
        text = f"{_MOST_OF_USER} calls of this token are running, which are the most"
        super().__init__(text, hint="cancel one, or wait for its end")


class Progress(Struct, frozen=True):
    progress: float
    total: float | None
    message: str | None


class OpenQuestion(Struct):
    """A question that waits for its answer."""

    id: str
    call: LiveCall
    params: JSONObject
    """The params as clients get them: cleaned, with the server's name before the message."""
    expires_at: float
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: JSONObject | None = None

    @property
    def is_form(self) -> bool:
        return bool(self.params.get("mode", "form") == "form")

    @property
    def schema(self) -> JSONObject:
        """The JSON schema of the form; one for any object if the server gives none."""
        schema = self.params.get("requestedSchema")
        return schema if isinstance(schema, dict) else {"type": "object"}


class LiveCall:
    """One running call that has an id."""

    def __init__(self, calls: LiveCalls, call_id: str, user: str, server: str, tool: str) -> None:
        self.call_id = call_id
        self.user = user
        self.server = server
        self.tool = tool
        self.began_at = time.time()
        self.progress: Progress | None = None
        self.scope = anyio.CancelScope()
        self._calls = calls

    async def report_progress(
        self, progress: float, total: float | None, message: str | None
    ) -> None:
        """Store the progress of the call, and publish it to the event feed; see `OnProgress`."""
        self.progress = Progress(progress, total, message)
        self._calls.announce_progress(self)

    def client(self, question_timeout: float) -> Client:
        """Return a client that passes questions of the call's server to the user.

        A question expires after `question_timeout` seconds.
        """

        async def ask(method: str, params: JSONObject) -> JSONObject:
            return await self._calls.ask(self, method, params, question_timeout)

        return CallbackClient(ask, capabilities=_CAPABILITIES)


class LiveCalls:
    """The running calls of one gateway, and their open questions."""

    def __init__(self, feed: EventFeed) -> None:
        self._feed = feed
        self._calls: dict[tuple[str, str], LiveCall] = {}
        self._questions: dict[str, OpenQuestion] = {}
        self._scheduler = FairScheduler()

    @contextmanager
    def running(
        self, call_id: str, *, user: str, server: str, tool: str = ""
    ) -> Iterator[LiveCall]:
        """Register a call, or without `tool` a login, for the block; `LiveCall.scope` cancels it.

        Raises:
            CallIdTakenError: If this user has a running call with this id.
            TooManyCallsError: If this user has 100 running calls.
            CallCancelledError: If the call was cancelled.
        """
        key = user, call_id
        if key in self._calls:
            raise CallIdTakenError(call_id)
        if sum(call.user == user for call in self._calls.values()) >= _MOST_OF_USER:
            raise TooManyCallsError
        call = self._calls[key] = LiveCall(self, call_id, user, server, tool)
        try:
            with call.scope:
                yield call
        finally:
            del self._calls[key]
        if call.scope.cancelled_caught:
            raise CallCancelledError(server, tool)

    def of_user(self, user: str | None) -> list[LiveCall]:
        """Return the calls of a user, the oldest first; None stands for all users."""
        return [call for call in self._calls.values() if user in (None, call.user)]

    def questions_of(self, user: str | None) -> list[OpenQuestion]:
        """Return the open questions of a user's calls, sorted by id; None stands for all users."""
        questions = [
            question for question in self._questions.values() if user in (None, question.call.user)
        ]
        return sorted(questions, key=lambda question: question.id)

    def announce_progress(self, call: LiveCall) -> None:
        # The feed sends only the last report of each tenth of a second: there may be one per byte.
        named = {"call_id": call.call_id, "server": call.server, "tool": call.tool}
        form = {"type": "call_progress", **named, **to_builtins(call.progress)}
        self._feed.announce(form, replaces=(call.user, call.call_id))

    def announce_login(self, server: str, address: str) -> None:
        """Publish the address that a person opens to log in to a server."""
        self._feed.announce({"type": "login_address", "server": server, "address": address})

    async def ask(
        self, call: LiveCall, method: str, params: JSONObject, question_timeout: float
    ) -> JSONObject:
        """Ask the user of a call a question, and return the answer; see `Client.ask`.

        `question_timeout`, in seconds, only gives the time at which the question expires.
        """
        client_params = await present(method, params, LATEST_MODERN, self._scheduler)
        question = OpenQuestion(
            secrets.token_hex(8), call, client_params, expires_at=time.time() + question_timeout
        )
        self._questions[question.id] = question
        self._announce("question", question)
        try:
            await question.answered.wait()
        finally:
            self._questions.pop(question.id, None)
            self._announce("question_closed", question)
        return question.answer or {"action": "cancel"}

    def answer(
        self, question: OpenQuestion, action: Action, content: JSONObject | None = None
    ) -> None:
        """Answer a question; `content` has the fields of an accepted form."""
        is_filled = action == "accept" and question.is_form
        question.answer = {"action": action, **({"content": content or {}} if is_filled else {})}
        self._questions.pop(question.id, None)
        question.answered.set()

    def _announce(self, kind: str, question: OpenQuestion) -> None:
        # Without its texts, which may have 64 KiB: the feed keeps its last events in memory.
        call = question.call
        form = {"question_id": question.id, "call_id": call.call_id, "server": call.server}
        self._feed.announce({"type": kind, **form})


class CallForm(Struct, frozen=True):
    """A call that runs."""

    call_id: str
    server: str
    tool: str
    began_at: float
    progress: Progress | None


class QuestionForm(Struct, frozen=True):
    """A question, with the texts of its server; its message begins with the server's name."""

    question_id: str
    call_id: str
    server: str
    tool: str
    kind: Literal["form", "url"]
    message: str
    findings: list[JSONObject]
    """The scanner's findings in its texts."""
    expires_at: float
    schema: JSONObject | UnsetType = UNSET
    """That of the form."""
    url: str | UnsetType = UNSET
    """The address that its user should open."""


def call_form(call: LiveCall) -> CallForm:
    return CallForm(call.call_id, call.server, call.tool, call.began_at, call.progress)


def question_form(question: OpenQuestion) -> QuestionForm:
    call, params = question.call, question.params
    meta = params.get("_meta")
    findings = meta.get(FINDINGS) if isinstance(meta, dict) else None
    return QuestionForm(
        question.id,
        call.call_id,
        call.server,
        call.tool,
        "form" if question.is_form else "url",
        str(params.get("message", "")),
        findings if isinstance(findings, list) else [],
        question.expires_at,
        schema=question.schema if question.is_form else UNSET,
        url=UNSET if question.is_form else str(params.get("url", "")),
    )
