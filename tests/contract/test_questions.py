"""Questions of servers to the client whose call caused them: specs/questions.md."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from discovery_engine import CallbackClient, Continuation, Engine
from discovery_engine.errors import InputRequiredError, UpstreamError
from tests.engines import Folder
from tests.server_entries import Entry, call, configure, engine_of, fault, outcome, report_of

pytestmark = pytest.mark.anyio

EVERYTHING = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
ANSWERS: dict[str, Any] = {
    "elicitation/create": {"action": "accept", "content": {"username": "ann", "email": "a@b.c"}},
    "sampling/createMessage": {
        "role": "assistant",
        "content": {"type": "text", "text": "Paris"},
        "model": "m",
        "stopReason": "endTurn",
    },
    "roots/list": {"roots": [{"uri": "file:///project/here", "name": "here"}]},
}


class Person(CallbackClient):
    """A client that notes what it is asked, and gives the answers that it was made with."""

    def __init__(
        self,
        capabilities: Any = EVERYTHING,
        answers: dict[str, Any] = ANSWERS,
        *,
        continues: bool = False,
        **more: Any,
    ) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.notified: list[tuple[str, Any]] = []
        self.takes_input_required = continues
        self._answers = answers
        super().__init__(self.give, capabilities=capabilities, notify=self.note, **more)

    async def give(self, method: str, params: Any) -> Any:
        self.asked.append((method, params))
        return self._answers[method]

    def note(self, method: str, params: Any) -> None:
        self.notified.append((method, params))


class Absent(CallbackClient):
    """A client that never answers."""

    def __init__(self, **more: Any) -> None:
        self.asked = 0
        super().__init__(self.wait, capabilities=EVERYTHING, **more)

    async def wait(self, method: str, params: Any) -> Any:
        self.asked += 1
        await anyio.sleep_forever()


def everything(era: str, **more: Any) -> Entry:
    """A server with all of MCP."""
    script = str(Path(__file__).parents[1] / "servers" / "everything_server.py")
    return {"command": sys.executable, "args": [script, "stdio", "--era", era], **more}


def asking(mode: str, era: str = "legacy", **more: Any) -> Entry:
    return fault(mode, era=era, program="asking_server.py", **more)


async def answers_to(engine: Engine, server: str, client: Any, tool: str = "echo") -> list[Any]:
    """What came back to a server for its questions, as it says in the result of a call."""
    answers: list[Any] = json.loads(await call(engine, server, tool, caller=client))
    return answers


@pytest.mark.requirement("QST-40")
@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_a_question_goes_to_the_caller_and_its_answer_goes_back(
    folder: Folder, era: str
) -> None:
    person = Person()

    async with engine_of(folder.path, {"s": everything(era)}) as engine:
        ask = partial(call, engine, "s", caller=person)
        form = await ask("test_elicitation", message="Who?")
        url = await ask("test_url_elicitation")
        sampled = await ask("test_sampling", prompt="Capital?")
        roots = await ask("test_roots")

    assert [method for method, _ in person.asked] == [
        "elicitation/create",
        "elicitation/create",
        "sampling/createMessage",
        "roots/list",
    ]
    asked = person.asked[0][1]
    assert asked["message"] == "Who?"
    assert asked["_meta"]["discovery/server"] == "s"
    assert "ann" in form
    assert "accept" in url
    assert (sampled, roots) == ("LLM response: Paris", "file:///project/here")


@pytest.mark.requirement("QST-40")
async def test_no_client_is_asked_outside_of_its_calls_or_in_place_of_another(
    folder: Folder,
) -> None:
    person, ann, bob = Person(id="x"), Person(id="ann"), Person(id="bob")
    servers = {"outside": asking("asks_outside"), "two": asking("asks_during_two")}

    async def both(one: Person, other: Person) -> list[Any]:
        answers: list[Any] = []

        async def ask(client: Person) -> None:
            answers.extend(await answers_to(engine, "two", client))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, one)
            tasks.start_soon(ask, other)
        return answers

    async with engine_of(folder.path, servers) as engine:
        engine.expect_client(EVERYTHING)
        await engine.refresh()
        await answers_to(engine, "outside", person)
        outside = await answers_to(engine, "outside", person, "pid")
        unclear = await both(ann, bob)

    assert [answer["id"] for answer in outside] == ["early", "early roots", "late"]
    assert [answer["error"]["code"] for answer in outside] == [-32601] * 3
    assert all("several clients" in answer["error"]["message"] for answer in unclear)
    assert person.asked == ann.asked == bob.asked == []


@pytest.mark.requirement("QST-40")
async def test_a_poisoned_question_comes_with_the_findings_of_the_scanner(folder: Folder) -> None:
    person = Person()
    servers = {mode: asking(mode) for mode in ("poisoned", "asks")}

    async with engine_of(folder.path, servers) as engine:
        for mode in servers:
            await answers_to(engine, mode, person)

    poisoned, harmless = (params["_meta"] for _, params in person.asked)
    assert poisoned["discovery/findings"][0]["where"] == "message"
    assert "discovery/findings" not in harmless


@pytest.mark.requirement("QST-1")
async def test_what_a_server_asks_of_a_client_that_cannot_answer_is_refused_at_once(
    folder: Folder,
) -> None:
    async with engine_of(folder.path, {"s": fault("asks_back")}) as engine:
        answers = json.loads(await call(engine, "s"))

    assert answers[0]["result"] == {}  # of its `ping`
    assert [answer["error"]["code"] for answer in answers[1:]] == [-32601] * 3


@pytest.mark.requirement("QST-10")
async def test_a_server_gets_its_state_back_byte_for_byte_from_us_or_from_a_client_that_continues(
    folder: Folder,
) -> None:
    person, continuing = Person(), Person(continues=True)
    responses = {"q": {"action": "cancel"}}

    async with engine_of(folder.path, {"s": asking("state", "modern")}) as engine:
        answered = json.loads(await call(engine, "s", caller=person, text="kept"))
        first = await engine.execute("s", "echo", {}, caller=continuing)
        continuation = Continuation(responses, first["requestState"])
        last = await engine.execute("s", "echo", {}, caller=continuing, continuation=continuation)

    assert answered == [True, {"q": ANSWERS["elicitation/create"]}, {"text": "kept"}]
    assert continuing.asked == []
    assert first["inputRequests"]["q"]["params"]["_meta"]["discovery/server"] == "s"
    assert json.loads(last["content"][0]["text"])[:2] == [True, responses]


@pytest.mark.requirement("QST-43")
async def test_a_form_that_nobody_answers_in_time_is_declined_and_no_other_is_asked(
    folder: Folder,
) -> None:
    absent = Absent()

    async with engine_of(
        folder.path, {"s": asking("asks_again")}, server={"questionTimeout": 2}
    ) as engine:
        answers = await answers_to(engine, "s", absent)

    assert absent.asked == 1
    assert answers[0]["result"] == {"action": "decline"}
    assert all("error" in answer for answer in answers[1:])


@pytest.mark.requirement("QST-44")
async def test_of_questions_beyond_all_bounds_few_or_none_are_asked(folder: Folder) -> None:
    modes = {"asks_again": "legacy", "asks_at_once": "legacy", "huge_form": "legacy"}
    modern = dict.fromkeys(("many_at_once", "large_round", "rounds"), "modern")
    persons = {mode: Person(id=mode) for mode in modes | modern}

    servers = {mode: asking(mode, era) for mode, era in (modes | modern).items()}
    async with engine_of(folder.path, servers) as engine:
        answers = {mode: await answers_to(engine, mode, persons[mode]) for mode in modes}
        errors = {mode: await outcome(engine, mode, caller=persons[mode]) for mode in modern}

    counts = {mode: len(person.asked) for mode, person in persons.items()}
    assert counts["asks_again"] == 100
    assert 16 <= counts["asks_at_once"] <= 100
    assert counts["rounds"] == 20
    assert [counts[mode] for mode in ("huge_form", "many_at_once", "large_round")] == [0] * 3
    assert sum("result" in answer for answer in answers["asks_again"]) == 100
    assert "too large" in answers["huge_form"][0]["error"]["message"]
    assert all(isinstance(error, UpstreamError) for error in errors.values())


@pytest.mark.requirement("QST-46")
async def test_a_call_that_fails_without_an_answer_says_what_was_wanted(folder: Folder) -> None:
    declining = Person(answers={"elicitation/create": {"action": "decline"}})
    servers = {
        "handshake": everything("handshake"),
        "fails": asking("fails"),
        "rounds": asking("rounds", "modern"),
        "declined": asking("fails"),
    }

    async with engine_of(folder.path, servers) as engine:
        errors = {
            "handshake": await outcome(engine, "handshake", "test_elicitation", message="Who?"),
            "fails": await outcome(engine, "fails"),
            "rounds": await outcome(engine, "rounds"),
        }
        declined = await engine.execute("declined", "echo", {}, caller=declining)

    assert all(isinstance(error, InputRequiredError) for error in errors.values())
    assert all("elicitation" in error.hint for error in errors.values())
    assert "Who are you?" in errors["fails"].message
    assert "Who are you?" in errors["rounds"].message
    assert declined["isError"]


@pytest.mark.requirement("QST-47")
async def test_changed_roots_of_the_owner_are_given_next_and_the_server_keeps_running(
    folder: Folder,
) -> None:
    person = Person()
    given: list[str] = []
    pids: set[int | None] = set()

    async with engine_of(folder.path, {"s": everything("handshake")}) as engine:
        for own in (None, ["~/second"], ["here", "file:///a%20b"], []):
            entry = everything("handshake", **({} if own is None else {"roots": own}))
            configure(folder.path, {"s": entry}, server={"roots": ["/first"]})
            await engine.reload()
            given.append(await call(engine, "s", "test_roots", caller=person))
            pids.add((await report_of(engine, "s")).stats.pid)

    assert given == [
        "file:///first",
        (Path.home() / "second").as_uri(),
        f"{(folder.path / 'here').as_uri()},file:///a%20b",
        "",
    ]
    assert person.asked == []
    assert len(pids) == 1


@pytest.mark.requirement("QST-47")
async def test_servers_of_a_client_are_notified_once_when_its_roots_change(
    folder: Folder,
) -> None:
    changing = {"roots": {"listChanged": True}}
    person, neighbour = Person(changing, id="person"), Person(changing, id="neighbour")
    servers = {"s": asking("roots"), "other": asking("roots")}

    async def told(server: str, client: Person) -> Any:
        return json.loads(await call(engine, server, caller=client))

    async with engine_of(folder.path, servers) as engine:
        await told("s", person)
        await told("other", neighbour)
        for _ in range(100):
            engine.roots_changed(person)
        with anyio.fail_after(100):
            while not (state := await told("s", person))["answers"]:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        other = await told("other", neighbour)

    assert (state["changes"], len(person.asked)) == (1, 1)
    assert state["answers"][0]["result"]["roots"][0]["uri"] == "file:///project/here"
    assert (other["changes"], neighbour.asked) == (0, [])


@pytest.mark.requirement("QST-47")
async def test_a_server_is_notified_of_other_roots_of_its_owner(folder: Folder) -> None:
    servers, given = {"s": asking("asks_outside")}, {}
    async with engine_of(folder.path, servers, server={"roots": ["/first"]}) as engine:
        for question in ("early roots", "roots 1"):
            while question not in given:
                answers = await answers_to(engine, "s", Person())
                given = {one["id"]: one.get("result") for one in answers}
            configure(folder.path, servers, server={"roots": ["/second"]})
            await engine.reload()

    assert given["early roots"]["roots"][0]["uri"] == "file:///first"
    assert given["roots 1"]["roots"][0]["uri"] == "file:///second"
