"""Changes of roots, of which servers are notified, and what ends after its call."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.config.settings import ServerSettings
from discovery_engine.rpc.client import CallbackClient
from discovery_engine.rpc.peer import RpcError
from discovery_engine.upstream.call import QuestionSettings
from discovery_engine.upstream.upstreams import Upstreams
from tests.contract.upstreams.test_questions import Person
from tests.servers.programs import eventually, fault_server, text_of, upstreams

pytestmark = pytest.mark.anyio

CHANGING = {"roots": {"listChanged": True}}


def asking(mode: str, **settings: Any) -> ServerSettings:
    return fault_server(mode, era="legacy", program="asking_server.py", **settings)


async def told(opened: Upstreams, server: ServerSettings, caller: CallbackClient) -> Any:
    with anyio.fail_after(60):
        return json.loads(text_of(await opened.call(server, "echo", {}, caller=caller)))


async def until_asked(opened: Upstreams, server: ServerSettings, caller: CallbackClient) -> Any:
    """What a server tells once it has been notified, and got an answer to its question."""
    with anyio.fail_after(60):
        while True:
            found = await told(opened, server, caller)
            if len(found["answers"]) == found["changes"] > 0:
                return found
            await anyio.sleep(0.01)


@pytest.mark.requirement("QST-53")
async def test_a_server_that_was_called_is_notified_once_of_many_changes_and_asks() -> None:
    server, person = asking("roots"), Person(capabilities=CHANGING)
    async with upstreams() as opened:
        await told(opened, server, person)
        for _ in range(100):
            opened.roots_changed(person)
        found = await until_asked(opened, server, person)

    assert found["declared"] == CHANGING
    assert (found["changes"], len(person.asked)) == (1, 1)
    assert found["answers"][0]["result"]["roots"][0]["uri"] == "file:///project/here"


@pytest.mark.requirement("QST-53")
async def test_servers_that_the_client_has_not_called_are_not_notified() -> None:
    used, other = asking("roots"), asking("roots", name="other")
    person, neighbour = Person(capabilities=CHANGING), Person(capabilities=CHANGING)
    async with upstreams() as opened:
        await told(opened, used, person)
        await told(opened, other, neighbour)
        opened.roots_changed(person)
        await until_asked(opened, used, person)
        found = await told(opened, other, neighbour)

    assert found["changes"] == 0
    assert neighbour.asked == []


@pytest.mark.requirement("QST-53")
async def test_outside_of_calls_no_client_is_asked_if_several_have_used_the_session() -> None:
    server = asking("roots")
    person, neighbour = Person(capabilities=CHANGING), Person(capabilities=CHANGING)
    async with upstreams() as opened:
        await told(opened, server, person)
        session = opened._sessions.by_server()[server.name]
        opened.roots_changed(person)
        alone = session.calls.answer("roots/list", {})
        await told(opened, server, neighbour)
        shared = session.calls.answer("roots/list", {})
        opened.roots_changed(neighbour)
        still = session.calls.answer("roots/list", {})

    assert callable(alone)
    assert isinstance(shared, RpcError)
    assert isinstance(still, RpcError)
    assert "outside of a call" in shared.message


@pytest.mark.requirement("QST-53")
async def test_with_a_session_for_each_client_only_its_own_is_notified() -> None:
    server = asking("roots", session="per_client")
    one = Person(capabilities=CHANGING, id="one")
    two = Person(capabilities=CHANGING, id="two")
    async with upstreams() as opened:
        await told(opened, server, one)
        await told(opened, server, two)
        opened.roots_changed(one)
        await until_asked(opened, server, one)
        found = await told(opened, server, two)

    assert found["changes"] == 0
    assert (len(one.asked), len(two.asked)) == (1, 0)


@pytest.mark.requirement("QST-53")
@pytest.mark.parametrize(
    ("capabilities", "roots"), [({"roots": {}}, None), (CHANGING, ()), ({}, None)]
)
async def test_no_server_is_notified_that_was_not_declared_it_or_has_the_owners_roots(
    capabilities: Any, roots: Any
) -> None:
    server, person = asking("roots"), Person(capabilities=capabilities)
    marked = asking("roots", name="marked")
    async with upstreams(
        questions=lambda name: QuestionSettings(roots=roots if name == server.name else None)
    ) as opened:
        first = await told(opened, server, person)
        await told(opened, marked, noticing := Person(capabilities=CHANGING))
        opened.roots_changed(person)
        opened.roots_changed(noticing)
        await until_asked(opened, marked, noticing)  # by then the other would have been, too
        found = await told(opened, server, person)

    assert found["changes"] == 0
    assert first["declared"] == ({"roots": {"listChanged": True}} if roots == () else capabilities)


@pytest.mark.requirement("QST-52")
async def test_a_server_is_notified_when_its_owner_changes_the_roots_that_it_was_given() -> None:
    roots: tuple[JSONObject, ...] = ({"uri": "file:///first"},)
    server, person = asking("roots"), Person()
    async with upstreams(questions=lambda _: QuestionSettings(roots=roots)) as opened:
        await told(opened, server, person)
        opened.settings_changed()  # it was given none yet, so nothing has changed for it
        session = opened._sessions.by_server()[server.name]
        session.calls.answer("roots/list", {})
        opened.settings_changed()
        assert not session.calls.gave_other_roots
        roots = ({"uri": "file:///second"},)
        opened.settings_changed()
        found = await until_asked(opened, server, person)

    assert found["changes"] == 1
    assert found["answers"][0]["result"] == {"roots": [{"uri": "file:///second"}]}
    assert person.asked == []


@pytest.mark.requirement("QST-48")
@pytest.mark.parametrize("tool", ["environment", "echo"])
async def test_that_an_address_is_done_with_reaches_who_was_asked_after_the_call(
    tool: str,
) -> None:
    person, neighbour = Person(), Person()
    server = asking("late")
    async with upstreams() as opened:
        with anyio.fail_after(60):
            await opened.call(server, tool, {}, caller=person)
            if tool == "echo":  # then it comes while another client calls
                await opened.call(server, "pid", {}, caller=neighbour)
            await eventually(lambda: bool(person.notified))
            await opened.call(server, "pid", {}, caller=person)

    complete = ("notifications/elicitation/complete", {"elicitationId": "one"})
    assert person.notified[0] == complete
    assert neighbour.notified == []
