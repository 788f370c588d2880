"""Requests that gateways of one database pass to each other: specs/serving.md."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, closing

import anyio
import anyio.lowlevel
import anyio.to_thread
import psycopg
import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine._util.tasks import open_task_group
from discovery_engine.rpc.messages import RpcError
from discovery_engine.store.backends import open_database
from discovery_engine.store.gateway_records import RelayedRequest, RelayTurn
from discovery_engine.store.postgres.postgres_registry import PostgresRegistry
from discovery_server.relay import PassMessages, Relay, RelayLimits
from discovery_server.request_state import OtherGatewayError, StateSealer
from tests.postgres import PostgresServer
from tests.servers.programs import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("SRV-84")]

Serve = Callable[[JSONObject, PassMessages], Awaitable[JSONObject]]
REQUEST: JSONObject = {"method": "tasks/get", "params": {"taskId": "t"}}
ANNA = "anna"


@pytest.fixture
def url(postgres_server: PostgresServer) -> str:
    return postgres_server.create_database()


@pytest.fixture
def here(url: str) -> Iterator[PostgresRegistry]:
    with closing(open_database(url, timeout=60.0)) as opened:
        opened.database.check()
        yield opened


@pytest.fixture
def there(url: str) -> Iterator[PostgresRegistry]:
    with closing(open_database(url, timeout=60.0)) as opened:
        opened.database.check()
        yield opened


def relay_of(registry: PostgresRegistry, secret: str = "", **limits: int) -> Relay:
    sealer = StateSealer(lambda: registry.gateways.sealing_key(secret))
    return Relay(registry.gateways, sealer, limits=RelayLimits(**limits))


@asynccontextmanager
async def running(
    registry: PostgresRegistry, relay: Relay, serve: Serve, *, notified: bool = True
) -> AsyncIterator[Relay]:
    """One that has work of its own, and whose process gets the database's notifications or none."""

    async def follow() -> None:
        async with aclosing(registry.changes()) as changes:
            async for _ in changes:
                pass

    async with anyio.create_task_group() as tasks:
        relay.expect(3600.0)
        tasks.start_soon(relay.run, serve)
        if notified:
            tasks.start_soon(follow)
        yield relay
        tasks.cancel_scope.cancel()


async def echo(request: JSONObject, *_: object) -> JSONObject:
    return {"result": {"echoed": request}}


async def never(request: JSONObject, *_: object) -> JSONObject:
    raise AssertionError(request)


def of(registry: PostgresRegistry) -> OtherGatewayError:
    """The work of a process, as it is refused elsewhere."""
    return OtherGatewayError(registry.gateways.instance, is_task=True)


def rows(
    url: str, query: str = "SELECT id, request, answer FROM discovery.relayed_requests"
) -> list:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(query).fetchall()


def leave(registry: PostgresRegistry, request: RelayedRequest) -> None:
    registry.gateways.take_turn(RelayTurn(asked=[request]))


def change(url: str, assignment: str, *values: object) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"UPDATE discovery.relayed_requests SET {assignment}", values)


@pytest.mark.parametrize("notified", [True, False], ids=["notified", "polled"])
async def test_a_request_is_answered_by_the_gateway_of_its_work_and_leaves_nothing(
    url: str, here: PostgresRegistry, there: PostgresRegistry, notified: bool
) -> None:
    with anyio.fail_after(60):
        async with (
            running(there, relay_of(there), echo, notified=notified),
            running(here, relay_of(here), never, notified=notified) as asker,
        ):
            answers = [await asker.ask(of(there), REQUEST, ANNA) for _ in range(3)]
            await eventually(lambda: rows(url) == [])

    assert answers == [{"echoed": REQUEST}] * 3


async def test_the_database_reads_neither_the_request_nor_the_answer(
    url: str, here: PostgresRegistry, there: PostgresRegistry
) -> None:
    seen: list[bytes] = []

    async def serve(request: JSONObject, *_: object) -> JSONObject:
        seen.append(b"".join(rows(url)[0][1:2]))
        return {"result": {"kanarie": request["kanarie"]}}

    async with running(there, relay_of(there), serve), running(here, relay_of(here), never) as one:
        with anyio.fail_after(60):
            await one.ask(of(there), {"kanarie": "kanarie"}, ANNA)

    assert seen
    assert b"kanarie" not in seen[0]


async def test_a_gateway_that_dies_with_a_request_leaves_its_outcome_unknown(
    url: str, here: PostgresRegistry, there: PostgresRegistry
) -> None:
    async def meanwhile() -> None:
        await eventually(lambda: bool(there.gateways.take_turn(RelayTurn(room=9)).taken))
        change(url, "served_until = served_until - 3600")

    async with running(here, relay_of(here), never) as one:
        error = await error_of(one, there, meanwhile=meanwhile)
        await eventually(lambda: rows(url) == [])

    assert "whether it was done is unknown" in error.message


@pytest.mark.parametrize(
    "forged",
    ["noise", "another key", "another receiver", "another id", "an answer"],
)
async def test_a_row_that_no_gateway_wrote_for_this_one_is_refused(
    url: str, here: PostgresRegistry, there: PostgresRegistry, forged: str
) -> None:
    secret = "another" if forged == "another key" else ""
    sealer = StateSealer(lambda: here.gateways.sealing_key(secret))
    await sealer.prepare()
    request = sealed(sealer, here, here if forged == "another receiver" else there)
    content = request.content
    if forged == "noise":
        content = os.urandom(len(content))
    if forged == "an answer":
        about = f"answer {request.id.hex()} {request.sender} {there.gateways.instance}"
        content = sealer.encrypt(b"{}", about.encode())
    id_ = os.urandom(16) if forged == "another id" else request.id
    receiver = there.gateways.instance
    leave(here, RelayedRequest(id_, request.sender, receiver, content))

    async with running(there, relay_of(there), never):
        with anyio.fail_after(60):
            await eventually(lambda: [one[2] for one in rows(url)] == [b""])


@pytest.mark.parametrize("forged", [b"", b"noise", os.urandom(200)])
async def test_an_answer_that_no_gateway_wrote_is_none(
    url: str, here: PostgresRegistry, there: PostgresRegistry, forged: bytes
) -> None:
    async def meanwhile() -> None:
        await eventually(lambda: bool(there.gateways.take_turn(RelayTurn(room=9)).taken))
        change(url, "answer = %s", forged)

    async with running(here, relay_of(here), never) as one:
        error = await error_of(one, there, meanwhile=meanwhile)

    assert "another secret" in error.message


async def test_messages_come_in_order_before_the_answer_and_wait_for_a_client_that_reads_slowly(
    url: str, here: PostgresRegistry, there: PostgresRegistry
) -> None:
    passed: list[int] = []
    read: list[int] = []
    reads = anyio.Event()

    async def serve(_: JSONObject, pass_messages: PassMessages) -> JSONObject:
        for number in range(3):
            await pass_messages([{"number": 2 * number}, {"number": 2 * number + 1}])
            passed.append(number)
        return {"result": {"read": list(read)}}

    async def read_slowly(messages: list[JSONObject]) -> None:
        await reads.wait()
        read.extend(one["number"] for one in messages)

    async def ask() -> None:
        answers.append(await asker.ask(of(there), REQUEST, ANNA, read_slowly))

    answers: list[JSONObject] = []
    async with (
        running(there, relay_of(there), serve),
        running(here, relay_of(here), never) as asker,
    ):
        with anyio.fail_after(60):
            async with open_task_group() as tasks:
                tasks.start_soon(ask)
                query = "SELECT FROM discovery.relayed_requests WHERE served_until IS NOT NULL"
                await eventually(lambda: len(rows(url, query)) == 2)
                before = list(passed)
                reads.set()
            await eventually(lambda: rows(url) == [])

    assert before == []
    assert answers == [{"read": list(range(6))}]


async def error_of(
    relay: Relay,
    other: PostgresRegistry,
    request: JSONObject = REQUEST,
    client: str = ANNA,
    *,
    meanwhile: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint,
) -> RpcError:
    """The error of a request, while something happens."""
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(meanwhile)
            with pytest.raises(RpcError) as caught:
                await relay.ask(of(other), request, client)
    return caught.value


def sealed(
    sealer: StateSealer, sender: PostgresRegistry, receiver: PostgresRegistry
) -> RelayedRequest:
    """A request as a gateway writes it."""
    names = sender.gateways.instance, receiver.gateways.instance
    id_ = os.urandom(16)
    about = f"request {id_.hex()} {names[0]} {names[1]}".encode()
    return RelayedRequest(id_, *names, sealer.encrypt(b'{"method":"m"}', about))
