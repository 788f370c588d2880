"""Questions of servers in the middle of a call: who is asked, and what the server gets."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal

import anyio
import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.config.settings import Limits, ServerSettings, StdioTransport, Timeouts
from discovery_engine.errors import InputRequiredError, UpstreamError
from discovery_engine.events import EventBus, ResourceUpdated
from discovery_engine.rpc.client import CallbackClient, Continuation
from discovery_engine.rpc.peer import RpcError
from discovery_engine.rpc.protocol import ASKING_SERVER, FINDINGS
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.call import QuestionSettings
from discovery_engine.upstream.history import Policy
from discovery_engine.upstream.session import Session
from discovery_engine.upstream.upstreams import Upstreams
from tests.servers.programs import (
    HERE,
    eventually,
    fault_server,
    http_server,
    remote_server,
    text_of,
    upstreams,
)

pytestmark = pytest.mark.anyio

EVERYTHING = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
ROOTS = {"roots": [{"uri": "file:///project/here", "name": "here"}]}
ANSWERS: dict[str, JSONObject] = {
    "elicitation/create": {"action": "accept", "content": {"username": "ann", "email": "a@b.c"}},
    "sampling/createMessage": {
        "role": "assistant",
        "content": {"type": "text", "text": "Paris"},
        "model": "m",
        "stopReason": "endTurn",
    },
    "roots/list": ROOTS,
}


class Person(CallbackClient):
    """A client that notes what it is asked, and gives the answers that it was made with."""

    def __init__(
        self, answers: JSONObject = ANSWERS, capabilities: Any = EVERYTHING, **more: Any
    ) -> None:
        self.asked: list[tuple[str, JSONObject]] = []
        self.notified: list[tuple[str, JSONObject]] = []
        self._answers = answers
        super().__init__(self.give, capabilities=capabilities, notify=self.note, **more)

    async def give(self, method: str, params: JSONObject) -> JSONObject:
        self.asked.append((method, params))
        answer = self._answers[method]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def note(self, method: str, params: JSONObject) -> None:
        self.notified.append((method, params))


@contextmanager
def everything(kind: str, era: str, **settings: Any) -> Iterator[ServerSettings]:
    """The server with all of MCP, over a pipe or HTTP, in one era."""
    program = str(HERE / "everything_server.py")
    if kind == "stdio":
        transport = StdioTransport(sys.executable, ("-W", "ignore", program, "stdio", "--era", era))
        yield ServerSettings(ServerName("everything"), transport, **settings)
        return
    with http_server("http", "--era", era, program="everything_server.py") as address:
        yield remote_server(f"{address}/mcp", name="everything", **settings)


KINDS = [("http", "modern"), ("stdio", "modern"), ("http", "handshake")]
WORLDS = pytest.mark.parametrize(("kind", "era"), [("stdio", "handshake"), *KINDS])


@pytest.mark.parametrize(
    ("kind", "era"), [pytest.param("stdio", "handshake", marks=pytest.mark.landing), *KINDS]
)
@pytest.mark.requirement("QST-40", "QST-41")
async def test_a_question_goes_to_the_caller_and_its_answer_goes_back(kind: str, era: str) -> None:
    person = Person()

    with everything(kind, era) as server, anyio.fail_after(60):
        async with upstreams() as opened:
            call = partial(opened.call, server, caller=person)
            form = text_of(await call("test_elicitation", {"message": "Who?"}))
            url = text_of(await call("test_url_elicitation", {}))
            sampled = text_of(await call("test_sampling", {"prompt": "Capital?"}))
            roots = text_of(await call("test_roots", {}))

    methods = [method for method, _ in person.asked]
    assert methods == [
        "elicitation/create",
        "elicitation/create",
        "sampling/createMessage",
        "roots/list",
    ]
    asked = person.asked[0][1]
    assert asked["message"] == "Who?"
    assert asked["_meta"][ASKING_SERVER] == "everything"
    assert "ann" in form
    assert "accept" in url
    assert sampled == "LLM response: Paris"
    assert roots == "file:///project/here"


@WORLDS
@pytest.mark.requirement("QST-46")
async def test_a_caller_that_cannot_be_asked_declares_nothing(kind: str, era: str) -> None:
    with everything(kind, era) as server, anyio.fail_after(60):
        async with upstreams() as opened:
            with pytest.raises(InputRequiredError) as raised:
                await opened.call(server, "test_elicitation", {"message": "Who?"})

    assert "elicitation" in raised.value.message
    assert "elicitation" in raised.value.hint


def asking(mode: str, era: str = "legacy", **settings: Any) -> ServerSettings:
    return fault_server(mode, era=era, name="asking", program="asking_server.py", **settings)


async def answers_to(
    opened: Upstreams, server: ServerSettings, person: CallbackClient, tool: str = "echo"
) -> list[JSONObject]:
    """What came back to a server for its questions, as it tells by the result of a call."""
    with anyio.fail_after(60):
        answers: list[JSONObject] = json.loads(
            text_of(await opened.call(server, tool, {}, caller=person))
        )
    return answers


@pytest.mark.requirement("QST-40")
async def test_nobody_is_asked_outside_of_a_call() -> None:
    person, server = Person(), asking("asks_outside")

    async with upstreams() as opened:
        opened.expect(EVERYTHING)
        await opened.list_tools(server)
        await answers_to(opened, server, person)
        answers = await answers_to(opened, server, person, "pid")

    assert person.asked == []
    assert [answer["id"] for answer in answers] == ["early", "early roots", "late"]
    assert [answer["error"]["code"] for answer in answers] == [-32601] * 3


async def two_calls(server: ServerSettings, one: Person, other: Person) -> list[list[JSONObject]]:
    """What the server got for a question that it asked during a call of each."""
    found: list[list[JSONObject]] = []

    async def call(opened: Upstreams, person: Person) -> None:
        found.append(await answers_to(opened, server, person))

    async with upstreams() as opened, anyio.create_task_group() as tasks:
        tasks.start_soon(call, opened, one)
        tasks.start_soon(call, opened, other)
    return found


@pytest.mark.requirement("QST-40")
async def test_a_question_is_refused_while_several_clients_use_the_session() -> None:
    ann, bob = Person(id="ann"), Person(id="bob")

    answers = await two_calls(asking("asks_during_two"), ann, bob)

    assert ann.asked == bob.asked == []
    assert all("several clients" in answer[0]["error"]["message"] for answer in answers)


@pytest.mark.requirement("QST-40")
async def test_a_question_is_answered_if_all_calls_come_from_one_client() -> None:
    ann, again = Person(id="ann"), Person(id="ann")

    answers = await two_calls(asking("asks_during_two"), ann, again)

    assert len(ann.asked) + len(again.asked) == 1
    assert [answer[0]["result"]["action"] for answer in answers] == ["accept", "accept"]


@pytest.mark.requirement("QST-46")
async def test_a_call_that_fails_without_an_answer_says_what_was_wanted() -> None:
    person = Person({"elicitation/create": RpcError(-1, "nobody is here")})

    async with upstreams() as opened:
        with anyio.fail_after(60), pytest.raises(InputRequiredError) as failed:
            await opened.call(asking("fails"), "echo", {}, caller=person)
        with anyio.fail_after(60), pytest.raises(InputRequiredError) as lacking:
            await opened.call(asking("fails"), "echo", {}, caller=CallbackClient())

    assert "Who are you?" in failed.value.message
    assert "nobody is here" in failed.value.message
    assert "Who are you?" in lacking.value.message
    assert "`elicitation`" in lacking.value.hint


@pytest.mark.requirement("QST-46")
async def test_a_call_that_was_declined_by_its_client_passes_as_it_is() -> None:
    person = Person({"elicitation/create": {"action": "decline"}})

    async with upstreams() as opened:
        with anyio.fail_after(60):
            result = await opened.call(asking("fails"), "echo", {}, caller=person)

    assert result["isError"]
    assert json.loads(text_of(result))["result"] == {"action": "decline"}


class Absent(CallbackClient):
    """A client that never answers; it notes when a question is taken back."""

    def __init__(self, **more: Any) -> None:
        self.taken_back = anyio.Event()
        self.asked = 0
        super().__init__(self.wait, capabilities=EVERYTHING, **more)

    async def wait(self, method: str, params: JSONObject) -> JSONObject:
        self.asked += 1
        try:
            await anyio.sleep_forever()
        finally:
            self.taken_back.set()
        raise AssertionError


@pytest.mark.requirement("QST-43")
async def test_a_form_that_nobody_answers_in_time_is_declined_and_no_other_is_asked() -> None:
    absent, settings = Absent(), QuestionSettings(timeout=2)  # time to be asked on a busy machine

    async with upstreams(questions=settings) as opened:
        answers = await answers_to(opened, asking("asks_again"), absent)

    assert absent.asked == 1
    assert answers[0]["result"] == {"action": "decline"}
    assert len(answers) == 1000
    assert all("error" in answer for answer in answers[1:])


@pytest.mark.requirement("QST-43")
@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_the_time_of_a_call_stands_still_while_a_question_waits(kind: str) -> None:
    async def slow(method: str, params: JSONObject) -> JSONObject:
        await anyio.sleep(3)  # a person who takes longer than a call may
        return ANSWERS[method]

    person = CallbackClient(slow, capabilities=EVERYTHING)
    timeouts = Timeouts(call=2)

    with everything(kind, "handshake", timeouts=timeouts) as server, anyio.fail_after(60):
        async with upstreams() as opened:
            await opened.list_tools(server)
            given = {"message": "Who?"}
            result = await opened.call(server, "test_elicitation", given, caller=person)

    assert "ann" in text_of(result)


@pytest.mark.requirement("QST-44")
async def test_a_question_ends_with_its_call() -> None:
    absent = Absent()

    async with upstreams() as opened:
        with anyio.fail_after(60):
            await opened.call(asking("ends_first"), "echo", {}, caller=absent)
            if absent.asked:
                await absent.taken_back.wait()
            answers = await answers_to(opened, asking("ends_first"), absent, "pid")

    assert [answer["error"]["code"] for answer in answers] == [-32600]


@pytest.mark.requirement("QST-44")
async def test_a_question_that_its_server_withdraws_gets_no_answer() -> None:
    async def hesitant(method: str, params: JSONObject) -> JSONObject:
        if params["message"] == "Wait":
            await anyio.sleep_forever()
        return ANSWERS[method]

    person = CallbackClient(hesitant, capabilities=EVERYTHING)

    async with upstreams() as opened:
        answers = await answers_to(opened, asking("withdraws"), person)

    assert [answer["id"] for answer in answers] == ["kept"]


@pytest.mark.requirement("QST-44")
async def test_two_questions_with_one_id_get_two_answers() -> None:
    async with upstreams() as opened:
        answers = await answers_to(opened, asking("same_id"), Person())

    assert [answer["result"]["action"] for answer in answers] == ["accept", "accept"]


@pytest.mark.requirement("QST-44")
@pytest.mark.parametrize("mode", ["asks_again", "asks_at_once"])
async def test_a_call_asks_its_client_a_hundred_times_at_most(mode: str) -> None:
    person = Person()

    async with upstreams() as opened:
        answers = await answers_to(opened, asking(mode), person)

    assert len(answers) == 1000
    assert 16 <= len(person.asked) <= 100
    assert sum("result" in answer for answer in answers) == len(person.asked)


@pytest.mark.requirement("QST-44")
async def test_a_form_that_no_person_would_read_is_refused() -> None:
    person = Person()

    async with upstreams() as opened:
        answers = await answers_to(opened, asking("huge_form"), person)

    assert person.asked == []
    assert "too large" in answers[0]["error"]["message"]


@pytest.mark.requirement("QST-42")
async def test_a_poisoned_question_is_passed_on_with_the_findings_of_the_scanner() -> None:
    person = Person()

    async with upstreams() as opened:
        await answers_to(opened, asking("poisoned"), person)
        await answers_to(opened, asking("asks"), person)

    meta, harmless = (params["_meta"] for _, params in person.asked)
    assert meta[ASKING_SERVER] == harmless[ASKING_SERVER] == "asking"
    assert meta[FINDINGS][0]["where"] == "message"
    assert FINDINGS not in harmless


@pytest.mark.requirement("QST-41")
async def test_a_session_is_opened_anew_once_for_what_its_caller_can_be_asked() -> None:
    server = asking("asks")

    async with upstreams() as opened:
        await opened.list_tools(server)
        pids = [opened.sessions()[server.name].pid]
        for person in (Person(), CallbackClient(), Person(), Person(capabilities={})):
            await answers_to(opened, server, person)
            pids.append(opened.sessions()[server.name].pid)

    assert pids[0] != pids[1]
    assert len(set(pids[1:])) == 1


def opened_session(opened: Upstreams, server: ServerSettings) -> Session:
    """A session as a background listing opens it, before any client is known."""
    return opened._sessions.for_listing(server)


@WORLDS
@pytest.mark.requirement("QST-41")
async def test_a_call_that_finds_its_session_connecting_gets_one_that_declares_enough(
    kind: str, era: str
) -> None:
    with everything(kind, era) as server, anyio.fail_after(60):
        async with upstreams() as opened:
            opened_session(opened, server)
            roots = text_of(await opened.call(server, "test_roots", {}, caller=Person()))

    assert roots == "file:///project/here"


@pytest.mark.requirement("QST-41")
@pytest.mark.parametrize("sessions", ["shared", "per_client"])
async def test_a_call_that_finds_its_session_being_listed_gets_one_that_declares_enough(
    sessions: Literal["shared", "per_client"],
) -> None:
    with everything("stdio", "handshake", session=sessions) as server, anyio.fail_after(60):
        async with upstreams() as opened:
            session = opened_session(opened, server)
            async with session.lease() as rpc:
                roots = text_of(await opened.call(server, "test_roots", {}, caller=Person()))
                listed = await rpc.list_page("tools/list", None)

    assert roots == "file:///project/here"
    assert listed["tools"]  # over the session that was replaced


@pytest.mark.requirement("QST-41", "RES-40")
async def test_a_watch_follows_to_the_session_that_declares_enough() -> None:
    watched, events = "test://watched-resource", EventBus()
    with (
        everything("stdio", "handshake") as server,
        anyio.fail_after(60),
        events.subscribe(ResourceUpdated) as updates,
    ):
        async with upstreams(events=events) as opened:
            await opened.watch(server, watched)
            roots = text_of(await opened.call(server, "test_roots", {}, caller=Person()))
            again = await anext(updates)
            await opened.call(server, "test_change_lists", {}, caller=Person())
            changed = await anext(updates)

    assert roots == "file:///project/here"
    assert again == changed == ResourceUpdated(server.name, watched)


@pytest.mark.requirement("QST-41")
async def test_a_call_that_fails_because_another_one_runs_says_so() -> None:
    running = anyio.Event()

    async def begun(*_: object) -> None:
        running.set()

    with everything("stdio", "handshake") as server, anyio.fail_after(60):
        async with upstreams() as opened, anyio.create_task_group() as tasks:
            wait = partial(opened.call, server, "test_wait", {}, on_progress=begun)
            tasks.start_soon(wait)
            await running.wait()
            with pytest.raises(InputRequiredError) as raised:
                await opened.call(server, "test_roots", {}, caller=Person())
            tasks.cancel_scope.cancel()

    assert "opened without `roots`" in raised.value.message
    assert "once those calls are over" in raised.value.hint


@pytest.mark.requirement("QST-45")
async def test_the_state_of_a_server_comes_back_byte_for_byte() -> None:
    person = Person()

    async with upstreams() as opened:
        server = asking("state", era="modern")
        with anyio.fail_after(60):
            result = await opened.call(server, "echo", {"text": "kept"}, caller=person)

    is_same, responses, arguments = json.loads(text_of(result))
    assert is_same
    assert responses == {"q": ANSWERS["elicitation/create"]}
    assert arguments == {"text": "kept"}


class Continuing(Person):
    takes_input_required = True


@pytest.mark.requirement("QST-45")
async def test_a_client_that_continues_calls_itself_gets_the_questions() -> None:
    person, server = Continuing(), asking("state", era="modern")

    async with upstreams() as opened:
        with anyio.fail_after(60):
            first = await opened.call(server, "echo", {}, caller=person)
            responses = {"q": {"action": "cancel"}}
            continuation = Continuation(responses, first["requestState"])
            last = await opened.call(server, "echo", {}, caller=person, continuation=continuation)

    assert person.asked == []
    assert first["inputRequests"]["q"]["params"]["_meta"][ASKING_SERVER] == "asking"
    assert json.loads(text_of(last))[:2] == [True, responses]


@pytest.mark.requirement("QST-44", "QST-46")
@pytest.mark.parametrize("mode", ["rounds", "strange_rounds"])
async def test_a_server_that_never_has_enough_fails_its_call(mode: str) -> None:
    person = Person()

    async with upstreams() as opened:
        with anyio.fail_after(60), pytest.raises(UpstreamError):
            await opened.call(asking(mode, era="modern"), "echo", {}, caller=person)

    assert len(person.asked) == (20 if mode == "rounds" else 0)


@pytest.mark.requirement("QST-46")
async def test_a_round_that_a_client_cannot_answer_fails_its_call() -> None:
    async with upstreams() as opened:
        with anyio.fail_after(60), pytest.raises(InputRequiredError) as raised:
            await opened.call(asking("rounds", era="modern"), "echo", {})

    assert "Who are you?" in raised.value.message
    assert "`elicitation`" in raised.value.hint


@pytest.mark.requirement("QST-47")
@WORLDS
async def test_roots_of_the_configuration_are_given_without_asking(kind: str, era: str) -> None:
    settings = QuestionSettings(roots=({"uri": "file:///owner"},))
    person = Person()

    with everything(kind, era) as server, anyio.fail_after(60):
        async with upstreams(questions=settings) as opened:
            asked = text_of(await opened.call(server, "test_roots", {}, caller=person))
            unknown = text_of(await opened.call(server, "test_roots", {}))

    assert (asked, unknown) == ("file:///owner", "file:///owner")
    assert person.asked == []


@pytest.mark.requirement("QST-48")
@WORLDS
async def test_log_messages_go_to_the_caller_that_wants_them(kind: str, era: str) -> None:
    talkative, quiet = Person(log_level="debug"), Person(log_level="error")
    silent = Person()

    with everything(kind, era) as server, anyio.fail_after(60):
        async with upstreams() as opened:
            for person in (talkative, quiet, silent):
                await opened.call(server, "test_logging_tool", {}, caller=person)

    assert [(method, params["data"]) for method, params in talkative.notified] == [
        ("notifications/message", "one line")
    ]
    assert quiet.notified == silent.notified == []


@pytest.mark.requirement("QST-48")
async def test_messages_below_the_level_of_a_caller_are_dropped() -> None:
    person = Person(log_level="warning")

    async with upstreams() as opened, anyio.create_task_group():
        with anyio.fail_after(60):
            await opened.call(asking("logs"), "echo", {}, caller=person)

    assert [method for method, _ in person.notified] == [
        "notifications/message",
        "notifications/message",
        "notifications/elicitation/complete",
    ]
    assert [params.get("data") for _, params in person.notified] == ["warning", "error", None]


@pytest.mark.parametrize("era", ["handshake", "modern"])
@pytest.mark.requirement("QST-49")
async def test_clients_that_never_answer_hold_up_no_other_call(era: str) -> None:
    asked = 0

    async def never(method: str, params: JSONObject) -> JSONObject:
        nonlocal asked
        asked += 1
        await anyio.sleep_forever()
        raise AssertionError

    silent = [CallbackClient(never, id=f"c{n}", capabilities=EVERYTHING) for n in range(6)]
    limits = Limits(calls=2, queue=4)
    with everything("http", era, limits=limits) as server, anyio.fail_after(100):
        async with (
            upstreams(policy=Policy(everywhere=3)) as opened,
            anyio.create_task_group() as tasks,
        ):
            ask = partial(opened.call, server, "test_elicitation", {"message": "Who?"})
            for client in silent:
                tasks.start_soon(partial(ask, caller=client))
            await eventually(lambda: asked == len(silent))
            found = text_of(await opened.call(server, "test_simple_text", {}, caller=Person()))
            tasks.cancel_scope.cancel()

    assert found == "This is a simple text response for testing."


@pytest.mark.requirement("QST-41")
async def test_a_session_of_one_client_declares_nothing_of_other_clients() -> None:
    with everything("stdio", "handshake", session="per_client") as server, anyio.fail_after(60):
        async with upstreams() as opened:
            opened.expect(EVERYTHING)
            await opened.list_tools(server)
            with pytest.raises(InputRequiredError) as raised:
                await opened.call(server, "test_elicitation", {"message": "Who?"})

    assert raised.value.wanted == "input during the call"  # the server knew that it cannot ask


@pytest.mark.requirement("QST-44")
@pytest.mark.parametrize("answers_itself", [True, False])
@pytest.mark.parametrize("mode", ["many_at_once", "large_round"])
async def test_of_questions_beyond_all_bounds_none_is_asked(
    mode: str, *, answers_itself: bool
) -> None:
    person = Person()
    person.takes_input_required = answers_itself

    async with upstreams() as opened:
        with anyio.fail_after(60), pytest.raises(UpstreamError) as raised:
            await opened.call(asking(mode, era="modern"), "echo", {}, caller=person)

    assert "question" in raised.value.message
    assert person.asked == []
