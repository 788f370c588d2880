"""Sessions by the hundred: those that are in use stay, and no program outlives its client."""

from __future__ import annotations

from contextlib import AsyncExitStack

import anyio
import httpx2
import pytest

from discovery_server.tokens import parse_tokens
from tests.e2e.serving import Home, fault_entry, listening_at
from tests.servers.programs import descendants
from tests.unit.server.fakes import ISSUES, FakeEngine, ServeSettings, make_engine, make_view
from tests.unit.server.web import SessionClient, result_of, served
from tests.unit.server.wire import INITIALIZE

pytestmark = pytest.mark.anyio

ONE, OTHER = "the-token-of-one-client", "the-token-of-the-other"


def with_sessions(most: int) -> FakeEngine:
    return FakeEngine(make_view(ISSUES, server=ServeSettings(max_sessions=most)))


async def is_alive(client: SessionClient, session: str) -> bool:
    return (await client.request("POST", session)).status_code == 200


@pytest.mark.requirement("SRV-33")
async def test_a_loop_of_openings_ends_its_own_sessions_and_none_that_is_used() -> None:
    engine = with_sessions(4)

    async with (
        served(engine) as address,
        SessionClient(address) as client,
    ):
        used = [await client.open() for _ in range(3)]
        opened = [await client.open(is_ready=False) for _ in range(50)]
        alive = [session for session in used if await is_alive(client, session)]

    assert alive == used
    assert engine.ended == opened[:-1]


@pytest.mark.requirement("SRV-33")
async def test_a_session_on_which_its_client_listens_is_not_ended_and_the_next_is_refused() -> None:
    async with (
        served(with_sessions(2)) as address,
        SessionClient(address) as client,
        AsyncExitStack() as streams,
    ):
        listening = [await client.open() for _ in range(2)]
        for session in listening:
            stream = client.http.stream("GET", address, headers={"mcp-session-id": session})
            await streams.enter_async_context(stream)
        refused = await client.http.post(address, json=INITIALIZE)
        alive = [session for session in listening if await is_alive(client, session)]
        await client.request("DELETE", listening[0])
        again = await client.http.post(address, json=INITIALIZE)

    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "5"
    assert "all 2 sessions of this gateway are in use" in refused.json()["error"]["message"]
    assert alive == listening
    assert again.status_code == 200


@pytest.mark.requirement("SRV-33", "SRV-26")
async def test_a_session_ends_once_and_only_for_its_owner() -> None:
    engine = make_engine()

    async with (
        served(engine, parse_tokens(ONE, OTHER)) as address,
        SessionClient(address, ONE) as owner,
        SessionClient(address, OTHER) as thief,
    ):
        session = await owner.open()
        await thief.request("DELETE", session)
        headers = {"mcp-session-id": session}
        await owner.http.get(address.replace("/mcp", "/nothing"), headers=headers)
        before = list(engine.ended)
        await owner.request("DELETE", session)
        await owner.request("DELETE", session)

    assert before == []
    assert engine.ended == [session]


@pytest.mark.thorough
@pytest.mark.e2e
@pytest.mark.requirement("UPS-68", "SRV-33")
async def test_opening_and_calling_in_a_loop_is_no_fork_bomb(home: Home) -> None:
    entry = fault_entry(session="per_client", limits={"sessions": 3})
    home.write({"own": entry, "shared": fault_entry()})
    call = "execute_tool", {"tool": "own:pid", "arguments": {}}

    with home.process("--http", "127.0.0.1:0", "--no-token") as process:
        address = listening_at(process)
        async with SessionClient(address) as client:
            with anyio.fail_after(90):
                sessions = [await client.open() for _ in range(20)]
                answers = [text_of(await client.call(*call, session=one)) for one in sessions]
                other = text_of(
                    await client.call(
                        "execute_tool",
                        {"tool": "shared:pid", "arguments": {}},
                        session=sessions[-1],
                    )
                )
                running = {int(text) for text in answers if text.isdecimal()}
                alive = running & descendants(process.pid)
                await client.request("DELETE", sessions[0])
                while int(answers[0]) in descendants(process.pid):
                    await anyio.lowlevel.checkpoint()
                freed = text_of(await client.call(*call, session=sessions[-1]))

    assert len(running) == len(alive) == 3
    assert all("limits.sessions" in text for text in answers[3:])
    assert other.isdecimal()
    assert freed.isdecimal()


def text_of(answer: httpx2.Response) -> str:
    text: str = result_of(answer)["content"][0]["text"]
    return text
