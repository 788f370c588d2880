"""Events over a WebSocket, and the sessions of browsers: specs/api.md."""

from __future__ import annotations

import json
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.api_server import OWN, received, served, until
from tests.engines import Folder, good
from tests.servers.programs import fault_server

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("API-10")
async def test_a_client_gets_the_state_and_then_each_event_with_the_next_number(
    folder: Folder,
) -> None:
    async with served(folder, good()) as api, api.connect() as socket:
        state = await received(socket)
        for _ in range(3):
            await api.engine.execute("good", "echo", {"text": "hello"})
        calls, numbers = [], []
        while len(calls) < 3:
            frame = await received(socket)
            numbers += [event["sequence"] for event in frame["events"]]
            calls += [event for event in frame["events"] if event["type"] == "tool_called"]

    assert state["type"] == "state"
    assert [server["name"] for server in state["servers"]] == ["good"]
    assert numbers == [state["sequence"] + 1 + i for i in range(len(numbers))]
    assert (calls[0]["server"], calls[0]["tool"], calls[0]["outcome"]) == ("good", "echo", "ok")
    assert "hello" not in json.dumps(calls)


@pytest.mark.thorough
@pytest.mark.requirement("API-10")
async def test_a_client_that_was_away_gets_what_it_missed(folder: Folder) -> None:
    async with served(folder, good()) as api:
        async with api.connect() as socket:
            state = await received(socket)
            await api.engine.execute("good", "echo", {"text": "1"})
            seen = (await until(socket, "tool_called"))["sequence"]
        await api.engine.execute("good", "environment", {})
        async with api.connect(f"?stream={state['stream']}&after={seen}") as again:
            missed = await until(again, "tool_called")
        anew = []
        for query in ("?stream=another&after=1", "?after=99999", "?after=nonsense"):
            async with api.connect(query) as lost:
                anew.append((await received(lost))["type"])

    assert (missed["tool"], missed["sequence"]) == ("environment", seen + 1)
    assert anew == ["state"] * 3


@pytest.mark.thorough
@pytest.mark.requirement("API-10")
async def test_what_is_no_message_is_answered_with_an_error(folder: Folder) -> None:
    async with served(folder, good()) as api, api.connect() as socket:
        await received(socket)
        for sent in ("{", "[]", '{"type": "call"}', "[" * 4000):
            await socket.send(sent)
            assert (await received(socket))["type"] == "error", sent
        await socket.send('{"type": "refresh"}')
        assert (await received(socket))["type"] == "state"


@pytest.mark.thorough
@pytest.mark.requirement("API-10")
async def test_events_need_a_token_with_the_scope_admin(folder: Folder) -> None:
    async with served(folder, good()) as api:
        client = api.tokens.create()[0]
        for options in ({"token": None}, {"token": "another"}, {"token": client}):
            with pytest.raises(InvalidStatus) as refused:
                async with api.connect(**options):
                    pass
            assert refused.value.response.status_code == 403


@pytest.mark.thorough
@pytest.mark.requirement("VIEW-22")
async def test_the_events_of_a_revoked_token_end_and_those_of_others_stay(folder: Folder) -> None:
    admin: frozenset[Any] = frozenset({"read", "admin"})
    async with served(folder, good()) as api:
        value, token = api.tokens.create(scopes=admin)
        async with api.connect(token=value) as ending, api.connect() as staying:
            states = [(await received(socket))["type"] for socket in (ending, staying)]
            api.tokens.revoke(token.id)
            with pytest.raises(ConnectionClosed) as closed:
                await received(ending)
            await api.engine.servers.disable("good")
            event = await until(staying, "configuration_reloaded")

    assert states == ["state"] * 2
    assert closed.value.rcvd
    assert closed.value.rcvd.code == 1008
    assert event


@pytest.mark.requirement("API-10")
async def test_entries_of_the_log_are_events_without_what_was_sent_and_answered(
    folder: Folder,
) -> None:
    async with served(folder, good()) as api:
        await api.engine.execute("good", "echo", {"text": "before"})
        await api.engine.call_log.flush()
        async with api.connect() as socket:
            await received(socket)
            await api.engine.execute("good", "echo", {"text": "s3cr3t-argument"})
            entry = await until(socket, "log_entry")
            while entry["kind"] != "call":
                entry = await until(socket, "log_entry")
            [logged] = (await api.engine.call_log.entries())[-1:]

    assert (entry["server"], entry["tool"], entry["outcome"]) == ("good", "echo", "ok")
    assert entry["id"] == logged.id
    assert {"arguments", "result"}.isdisjoint(entry)
    assert "s3cr3t" not in json.dumps(entry)


@pytest.mark.thorough
@pytest.mark.requirement("API-10")
async def test_requests_of_agents_are_events_when_they_are_made_and_decided(
    folder: Folder,
) -> None:
    async with served(folder, good()) as api, api.connect() as socket, folder.open() as elsewhere:
        await received(socket)
        entry = {"command": "x", "env": {"A": "s3cr3t"}}
        request = await elsewhere.requests.submit("install", "files", entry, client="cli")
        made = await until(socket, "request_made")
        await elsewhere.requests.decline(request.id, reason="s3cr3t reason")
        decided = await until(socket, "request_decided")

    assert (made["id"], made["action"], made["name"]) == (request.id, "install", "files")
    assert (made["client"], made["state"], decided["state"]) == ("cli", "waiting", "declined")
    assert "s3cr3t" not in json.dumps([made, decided])


@pytest.mark.requirement("API-10")
async def test_messages_of_servers_are_events_without_secrets(folder: Folder) -> None:
    server = fault_server("progress", name="steps")
    async with served(folder, server) as api, api.connect() as socket:
        await received(socket)
        body = {"arguments": {"text": "x"}, "call_id": "c1"}
        await api.ask("/servers/steps/tools/echo/call", "POST", json=body)
        event = await until(socket, "server_notification")

    assert (event["server"], event["level"]) == ("steps", "warning")
    assert "all done" in event["text"]
    assert "hunter2" not in json.dumps(event)


@pytest.mark.thorough
@pytest.mark.requirement("API-14")
async def test_a_code_opens_one_session_whose_cookie_no_script_reads(folder: Folder) -> None:
    async with served(folder, good()) as api:
        code = api.service.new_code()
        url = f"{api.origin}/session"
        first = await api.http.post(url, json={"code": code}, headers=api.own())
        api.http.cookies.clear()
        second = await api.http.post(url, json={"code": code}, headers=api.own())
        wrong = await api.http.post(url, json={"code": 5}, headers=api.own())
        by_token = await api.http.post(
            url, headers=api.own(authorization=f"Bearer {OWN}"), content=b""
        )

    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert [one.status_code for one in (second, wrong)] == [401, 401]
    assert by_token.status_code == 204


@pytest.mark.thorough
@pytest.mark.requirement("API-14")
async def test_a_session_ends_on_request_and_with_the_token_that_opened_it(folder: Folder) -> None:
    async with served(folder, good()) as api:
        url = f"{api.origin}/session"

        async def status(cookie: str) -> int:
            headers = api.own(cookie=cookie)
            return (await api.http.get(f"{api.origin}/api/status", headers=headers)).status_code

        own = await api.open_session()
        before = await status(own)
        await api.http.delete(url, headers=api.own(cookie=own))

        value, token = api.tokens.create()
        theirs = await api.open_session(value)
        granted = await status(theirs)
        api.tokens.revoke(token.id)

        assert (before, await status(own)) == (200, 401)
        assert (granted, await status(theirs)) == (200, 401)
