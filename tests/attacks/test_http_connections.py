"""Clients that hold connections without using them: they hold up nobody but themselves."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import anyio
import httpx2
import pytest
from anyio.abc import SocketStream
from msgspec.structs import replace

from discovery_server.http_service import HttpService
from tests.factories import make_offering_entry, make_part
from tests.unit.server.fakes import Call, FakeEngine, make_engine
from tests.unit.server.web import (
    ConnectionLimits,
    SessionClient,
    result_of,
    running,
    served,
    service_of,
)
from tests.unit.server.wire import INITIALIZE, MODERN, request

pytestmark = pytest.mark.anyio

HALF_A_HEAD = b"POST /mcp HTTP/1.1\r\nhost: localhost\r\nx: "
BODY = json.dumps(INITIALIZE).encode()
HEAD = (
    b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    b"accept: application/json, text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(BODY)
)
FEW = ConnectionLimits(connections=8, per_address=8)


@asynccontextmanager
async def connected(address: str, *, source: str = "127.0.0.1") -> AsyncIterator[SocketStream]:
    url = httpx2.URL(address)
    async with await anyio.connect_tcp(url.host, url.port, local_host=source) as stream:
        yield stream


async def rest_of(stream: SocketStream) -> bytes:
    """What comes until the other side closes the connection."""
    received = b""
    with suppress(anyio.BrokenResourceError):
        async for data in stream:
            received += data
    return received


async def trickle(stream: SocketStream, data: bytes) -> None:
    """Send something now and then, until the other side has enough of it."""
    with suppress(anyio.BrokenResourceError):
        while True:
            with anyio.move_on_after(0.01):
                await rest_of(stream)
                return
            await stream.send(data)


async def is_served(address: str) -> bool:
    async with SessionClient(address) as client:
        return bool(await client.open())


@pytest.mark.requirement("SRV-30")
async def test_bytes_that_trickle_in_buy_no_time() -> None:
    limits = replace(FEW, head=0.2)

    async with served(make_engine(), limits=limits) as address, connected(address) as stream:
        await stream.send(HALF_A_HEAD)
        await trickle(stream, b"x")

        assert await is_served(address)


@pytest.mark.requirement("SRV-13")
async def test_no_part_of_a_request_but_its_body_is_without_end() -> None:
    chunked = b" HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: */*\r\n"
    chunked += b"transfer-encoding: chunked\r\n\r\n"
    begun = {
        b"x" * 1000: (HALF_A_HEAD, b"POST /mcp" + chunked + b"0\r\nx: "),
        b"x: y\r\n" * 200: (HALF_A_HEAD + b"y\r\n", b"POST /mcp" + chunked + b"0\r\n"),
        b"y: z\r\n" * 200: (b"POST /mcp" + chunked + b"3\r\n{} \r\n0\r\n",),
        b"z: z\r\n" * 200: (b"POST /health" + chunked + b"0\r\n",),
        b"y" * 1001: (b"POST /mcp" + chunked + b"0\r\n", b"GET /"),
        b"z" * 1000: (b"POST /mcp" + chunked + b"3;x=",),
        b"z" * 1001: (b"POST /mcp" + chunked + b"3\r\n{} \r\n0;x=",),
        b"\r\n" * 500: (b"",),
    }
    limits = replace(FEW, head=3600, body=3600)
    outcomes = {}

    async with served(make_engine(), limits=limits) as address:
        for piece, beginnings in begun.items():
            for beginning in beginnings:
                async with connected(address) as stream:
                    await send_anyway(stream, beginning)
                    for _ in range(500):
                        await send_anyway(stream, piece)
                    answer: bytes | None = None
                    with anyio.move_on_after(10):
                        answer = await rest_of(stream)
                outcomes[beginning, piece[:6]] = answer if answer is None else answer[:13]
        is_still_served = await is_served(address)

    # An answer may be lost with a connection that is closed while its client sends.
    ended = {b"HTTP/1.1 431 ", b"", b"HTTP/1.1 200 "}
    assert {at: answer for at, answer in outcomes.items() if answer not in ended} == {}
    assert is_still_served


@pytest.mark.requirement("SRV-13")
async def test_requests_by_the_thousand_in_one_piece_end_their_connection_alone() -> None:
    async with served(make_engine(), limits=FEW) as address, connected(address) as stream:
        await send_anyway(stream, b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n" * 5000)
        answers = await rest_of(stream)

        assert await is_served(address)

    assert answers.count(b"HTTP/1.1 ") < 100


async def send_anyway(stream: SocketStream, data: bytes) -> None:
    with suppress(anyio.BrokenResourceError):  # it had to give its place already
        await stream.send(data)


@pytest.mark.requirement("SRV-30")
async def test_where_all_are_being_answered_the_next_one_is_asked_to_come_again() -> None:
    engine, entered, let_go = slow_engine(times=4)
    limits = replace(FEW, connections=4, per_address=4)
    answers: list[Any] = []

    async with served(engine, limits=limits) as address, AsyncExitStack() as held:
        clients = [await held.enter_async_context(SessionClient(address)) for _ in range(4)]
        async with anyio.create_task_group() as tasks:
            for client in clients:
                tasks.start_soon(execute, client, answers.append)
            await entered.wait()
            async with connected(address) as stream:
                refused = await rest_of(stream)
            let_go.set()

    assert refused.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1\r\n" in refused
    assert len(answers) == 4


@pytest.mark.requirement("SRV-30")
async def test_one_machine_leaves_room_for_the_others() -> None:
    limits = replace(FEW, per_address=6)

    async with served(make_engine(), limits=limits) as address, AsyncExitStack() as held:
        try:
            neighbour = await held.enter_async_context(connected(address, source="127.0.0.2"))
        except OSError:
            pytest.skip("this machine has one loopback address only")
        for _ in range(30):
            await held.enter_async_context(connected(address))
        await neighbour.send(HEAD + BODY)
        answer = await neighbour.receive()

    assert answer.startswith(b"HTTP/1.1 200 ")


def large_service(limits: ConnectionLimits) -> HttpService:
    """Has a resource that is more than the system keeps for a client that does not read."""
    part = make_part("docs", offerings=(make_offering_entry("file:///large"),))
    return service_of(make_engine(part, resource="x" * 8_000_000), limits=limits)


def reading(*headers: bytes) -> bytes:
    """A request for that resource."""
    uri = "file:///large"
    body = json.dumps(request(1, "resources/read", uri=uri, _meta=MODERN)).encode()
    head = HEAD.replace(b"%d" % len(BODY), b"%d" % len(body))[:-2]
    head += b"mcp-protocol-version: 2026-07-28\r\nmcp-method: resources/read\r\n"
    return head + b"mcp-name: file:///large\r\n" + b"".join(headers) + b"\r\n" + body


@pytest.mark.requirement("SRV-30")
async def test_who_does_not_read_an_answer_loses_the_connection() -> None:
    service = large_service(replace(FEW, connections=1, unread=0.05))

    async with running(service) as address, connected(address) as stream:
        await stream.send(reading())
        await stream.receive(1)
        while True:  # it has the only place
            with suppress(httpx2.HTTPError):
                assert await is_served(address)
                break


def slow_engine(times: int = 1) -> tuple[FakeEngine, anyio.Event, anyio.Event]:
    """An engine whose calls wait; told when so many are under way, and let go together."""
    engine, entered, let_go = make_engine(), anyio.Event(), anyio.Event()

    async def execution(_: Call) -> Any:
        if len(engine.calls) == times:
            entered.set()
        await let_go.wait()
        return {"content": [{"type": "text", "text": "done"}]}

    engine.execution = execution
    return engine, entered, let_go


async def execute(client: SessionClient, tell: Callable[[Any], Any]) -> None:
    session = await client.open()
    answer = await client.call("execute_tool", {"tool": "list_issues"}, session=session)
    tell({"content": result_of(answer)["content"]})


@pytest.mark.requirement("SRV-30")
async def test_a_request_that_does_not_come_in_time_is_given_up() -> None:
    limits = replace(FEW, head=0.05, body=0.05)
    async with served(make_engine(), limits=limits) as address:
        for begun in (b"", b"P", HALF_A_HEAD, HEAD + BODY[:-1]):
            async with connected(address) as stream:
                await stream.send(begun)
                answer = await rest_of(stream)
            assert answer.startswith(b"HTTP/1.1 408 "), begun


LENGTH = b"content-length: %d" % len(BODY)
AMBIGUOUS = [
    (LENGTH, LENGTH + b"\r\ntransfer-encoding: chunked"),
    (LENGTH, LENGTH + b"\r\ncontent-length: 0"),
    (LENGTH, b"content-length: 0\r\n" + LENGTH),
    (LENGTH, LENGTH + b", 0"),
    (LENGTH, b"content-length: +%d" % len(BODY)),
    (LENGTH, b"content-length : %d" % len(BODY)),
    (LENGTH, b"content-length: 0x10"),
    (LENGTH, b"content-length: -1"),
    (LENGTH, b"content-length: %d" % ((4 << 20) + 1)),
    (LENGTH, b"transfer-encoding: xchunked"),
    (LENGTH, b"transfer-encoding: chunked, identity"),
    (LENGTH, b"transfer-encoding:\x0bchunked"),
    (LENGTH, b"transfer-encoding: chunked\r\ntransfer-encoding: identity"),
    (b"host: localhost\r\n", b"host: localhost\r\n folded: x\r\n"),
    (b"host: localhost", b"ho st: localhost"),
    (b"host: localhost", b"host: local\x00host"),
    (b"host: localhost\r\n", b"host: localhost\rx: y\r\n"),
    (b"HTTP/1.1", b"HTTP/3.7"),
    (b"POST /mcp HTTP/1.1", b"PRI * HTTP/2.0"),
    (b"POST /mcp", b"POST /m\xffcp"),
    (b"POST /mcp", b"POST http://[::1/mcp"),
]
"""Parts of a request, and what makes it too long or readable in two ways."""


@pytest.mark.requirement("SRV-13")
async def test_a_request_that_two_readers_could_read_differently_is_not_served() -> None:
    hidden = b"DELETE /mcp HTTP/1.1\r\nhost: localhost\r\n\r\n"
    answers = {}
    async with served(make_engine(), limits=FEW) as address:
        for usual, odd in AMBIGUOUS:
            async with connected(address) as stream:
                await send_anyway(stream, HEAD.replace(usual, odd) + hidden + BODY)
                answers[odd] = await rest_of(stream)
        assert await is_served(address)

    for odd, answer in answers.items():
        assert not answer.startswith(b"HTTP/1.1 200 "), odd
        assert answer.count(b"HTTP/1.1 ") <= 1, odd


@pytest.mark.requirement("SRV-30")
async def test_who_only_holds_a_connection_gives_its_place_to_who_asks() -> None:
    async with served(make_engine(), limits=FEW) as address:
        for begun in (b"", HALF_A_HEAD, HEAD + BODY[:-1]):
            async with AsyncExitStack() as held:
                idlers = [await held.enter_async_context(connected(address)) for _ in range(30)]
                for idler in idlers:
                    await send_anyway(idler, begun)
                assert await is_served(address)
                for idler in idlers[:20]:  # the oldest went first
                    assert await rest_of(idler) == b""
