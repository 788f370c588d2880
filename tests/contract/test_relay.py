"""Requests that gateways of one database pass to each other: specs/serving.md."""

from __future__ import annotations

import math
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, closing
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import psycopg
import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine._util.tasks import open_task_group
from discovery_engine.registry.backends import open_database
from discovery_engine.registry.postgres.postgres_registry import PostgresRegistry
from discovery_engine.registry.postgres.timed_connection import TimedConnection
from discovery_engine.registry.relay_records import RelayedRequest, RelayTurn
from discovery_engine.rpc.peer import RpcError
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


async def test_an_error_of_the_other_gateway_is_that_of_the_request(
    here: PostgresRegistry, there: PostgresRegistry
) -> None:
    async def refuse(*_: object) -> JSONObject:
        return {"error": {"code": -32602, "message": "no such task", "data": {"a": 1}}}

    async with running(there, relay_of(there), refuse), running(here, relay_of(here), never) as one:
        error = await error_of(one, there)

    assert (error.code, error.message, error.data) == (-32602, "no such task", {"a": 1})


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


async def test_who_leaves_cancels_the_request_at_the_other_gateway(
    url: str, here: PostgresRegistry, there: PostgresRegistry
) -> None:
    begun, cancelled = anyio.Event(), anyio.Event()

    async def hang(*_: object) -> JSONObject:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    async with running(there, relay_of(there), hang), running(here, relay_of(here), never) as one:
        with anyio.fail_after(60):
            async with open_task_group() as tasks:
                tasks.start_soon(one.ask, of(there), REQUEST, ANNA)
                await begun.wait()
                tasks.cancel_scope.cancel()
            await cancelled.wait()
        assert rows(url) == []


async def test_a_request_that_is_not_taken_in_time_is_refused_and_never_taken(
    url: str, here: PostgresRegistry, there: PostgresRegistry
) -> None:
    async def meanwhile() -> None:
        await eventually(lambda: bool(rows(url)))
        change(url, "take_until = take_until - 3600")

    async with running(here, relay_of(here), never) as one:
        error = await error_of(one, there, meanwhile=meanwhile)
        taken = there.gateways.take_turn(RelayTurn(room=9)).taken

    assert taken == ()
    assert isinstance(error, OtherGatewayError)
    assert "which does not answer" in error.message
    assert error.data == {"reason": "other_gateway"}


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


async def test_a_gateway_that_is_stopped_says_so_of_what_it_serves(
    here: PostgresRegistry, there: PostgresRegistry
) -> None:
    begun = anyio.Event()

    async def hang(*_: object) -> JSONObject:
        begun.set()
        await anyio.sleep_forever()

    async def meanwhile() -> None:
        async with running(there, relay_of(there), hang):
            await begun.wait()

    async with running(here, relay_of(here), never) as one:
        error = await error_of(one, there, meanwhile=meanwhile)

    assert "was stopped" in error.message


async def test_a_sender_that_is_gone_ends_what_is_done_for_it(
    url: str, here: PostgresRegistry, there: PostgresRegistry
) -> None:
    begun, cancelled = anyio.Event(), anyio.Event()

    async def hang(*_: object) -> JSONObject:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    relay, sealer = relay_of(there), StateSealer(here.gateways.sealing_key)
    await sealer.prepare()
    leave(here, sealed(sealer, here, there))
    async with running(there, relay, hang):
        with anyio.fail_after(60):
            await begun.wait()
            change(url, "wanted_until = wanted_until - 3600")
            await cancelled.wait()
    assert rows(url) == []


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


async def test_without_a_common_key_nothing_is_passed_on(
    url: str, here: PostgresRegistry, there: PostgresRegistry
) -> None:
    async with running(here, Relay(here.gateways, StateSealer()), never) as one:
        error = await error_of(one, there)

    assert isinstance(error, OtherGatewayError)
    assert rows(url) == []


async def test_a_gateway_without_a_common_key_does_not_look_for_what_nobody_can_leave_it(
    here: PostgresRegistry,
) -> None:
    alone, one = Relay(here.gateways, StateSealer()), relay_of(here)
    await one._sealer.prepare()

    for relay in (alone, one):
        relay.expect(3600.0)

    assert (alone._pause(), one._pause()) == (math.inf, 1.0)


async def test_a_slow_database_keeps_no_connection_from_what_is_local(
    url: str, here: PostgresRegistry, there: PostgresRegistry
) -> None:
    relay = relay_of(here)
    await relay._sealer.prepare()
    here.database.timeout = 5.0
    with psycopg.connect(url) as slow:
        slow.execute("LOCK TABLE discovery.relayed_requests")
        async with running(here, relay, never, notified=False), open_task_group() as tasks:
            for number in range(16):
                tasks.start_soon(relay.ask, of(there), REQUEST, str(number))
            await eventually(lambda: len(relay._waiting) == 16)
            found = await anyio.to_thread.run_sync(here.gateways.result, b"of a local call")
            slow.rollback()
            tasks.cancel_scope.cancel()

    assert found is None


async def test_a_gateway_that_cannot_reach_the_database_does_nothing_for_who_has_given_up(
    here: PostgresRegistry, there: PostgresRegistry
) -> None:
    begun, cancelled = anyio.Event(), anyio.Event()
    now = 0.0

    async def hang(*_: object) -> JSONObject:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    sealer = StateSealer(there.gateways.sealing_key)
    await sealer.prepare()
    leave(here, sealed(sealer, here, there))
    relay = Relay(there.gateways, sealer, clock=lambda: now)
    async with running(there, relay, hang, notified=False):
        with anyio.fail_after(60):
            await begun.wait()
            there.database.close()
            now = 15.0
            await cancelled.wait()

    assert relay._next_turn().serving == []


async def test_what_is_too_much_for_one_turn_comes_with_the_next_ones(
    url: str, here: PostgresRegistry, there: PostgresRegistry
) -> None:
    owner, asker = relay_of(there, written_bytes=1), relay_of(here)
    answers: list[JSONObject] = []

    async def ask(number: int) -> None:
        answers.append(await asker.ask(of(there), {"number": number}, ANNA))

    async with running(there, owner, echo), running(here, asker, never):
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for number in range(9):
                    tasks.start_soon(ask, number)
            await eventually(lambda: rows(url) == [])

    assert sorted(one["echoed"]["number"] for one in answers) == list(range(9))


def test_a_turn_reads_what_it_can_read_in_time(
    here: PostgresRegistry, there: PostgresRegistry
) -> None:
    names = here.gateways.instance, there.gateways.instance
    ids = [os.urandom(16) for _ in range(3)]
    for id_ in ids:
        leave(here, RelayedRequest(id_, *names, bytes(9 << 20)))

    taken = [len(there.gateways.take_turn(RelayTurn(room=9)).taken) for _ in range(3)]
    there.gateways.take_turn(RelayTurn(answers=dict.fromkeys(ids, bytes(9 << 20))))
    read = len(here.gateways.take_turn(RelayTurn(waiting=ids)).answers)

    assert taken == [2, 1, 0]
    assert read == 2


def test_a_look_for_requests_that_finds_none_costs_little(
    here: PostgresRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway that has a task looks once a second for as long as the task may live."""
    here.gateways.take_turn(RelayTurn(room=9))
    sent: list[object] = []
    execute = TimedConnection.execute

    def counted(self: TimedConnection, query: Any, *values: Any, **options: Any) -> Any:
        sent.append(query)
        return execute(self, query, *values, **options)

    monkeypatch.setattr(TimedConnection, "execute", counted)

    here.gateways.take_turn(RelayTurn(room=9))

    assert len(sent) == 4, sent  # the transaction, what there is, and what nobody waits for


def test_a_request_that_was_not_taken_is_not_taken_should_the_clock_be_set_back(
    url: str, here: PostgresRegistry, there: PostgresRegistry
) -> None:
    names = here.gateways.instance, there.gateways.instance
    request = RelayedRequest(os.urandom(16), *names, b"")
    leave(here, request)
    change(url, "take_until = take_until - 3600")

    untaken = here.gateways.take_turn(RelayTurn(waiting=[request.id])).untaken
    change(url, "take_until = take_until + 3600")

    assert untaken == {request.id}
    assert there.gateways.take_turn(RelayTurn(room=9)).taken == ()


async def test_what_waits_for_other_gateways_is_bounded(
    url: str, here: PostgresRegistry, there: PostgresRegistry
) -> None:
    relay = relay_of(here, requests=3, requests_of_client=2, request_bytes=200, waiting_bytes=500)
    long: JSONObject = {"method": "x" * 300}
    async with running(here, relay, never), open_task_group() as tasks:
        for client in (ANNA, ANNA, "berta"):
            tasks.start_soon(relay.ask, of(there), REQUEST, client)
        with anyio.fail_after(60):
            await eventually(lambda: len(rows(url)) == 3)
            refused = [await error_of(relay, there, REQUEST, one) for one in (ANNA, "carla")]
            too_long = await error_of(relay, there, long, "carla")
        tasks.cancel_scope.cancel()

    assert all("too many requests wait" in one.message for one in refused)
    assert "at most 200 are passed to another gateway" in too_long.message


async def test_a_client_that_asks_at_many_gateways_has_its_share_of_the_one_with_its_work(
    url: str, here: PostgresRegistry, there: PostgresRegistry
) -> None:
    owner, begun, go_on = relay_of(there, requests_of_client=2), [], anyio.Event()

    async def serve(request: JSONObject, *_: object) -> JSONObject:
        with owner.share(request["client"]):
            begun.append(request["client"])
            await go_on.wait()
        return {"result": {}}

    async with AsyncExitStack() as stack:
        elsewhere = stack.enter_context(closing(open_database(url, timeout=60.0)))
        await stack.enter_async_context(running(there, owner, serve))
        askers = [relay_of(here), relay_of(elsewhere)]
        for registry, asker in zip((here, elsewhere), askers, strict=True):
            await stack.enter_async_context(running(registry, asker, never))
        with anyio.fail_after(60):
            async with open_task_group() as tasks:
                for asker in askers:
                    tasks.start_soon(asker.ask, of(there), {"client": ANNA}, ANNA)
                await eventually(lambda: len(begun) == 2)
                refused = [await error_of(one, there, {"client": ANNA}) for one in askers]
                tasks.start_soon(askers[0].ask, of(there), {"client": "berta"}, "berta")
                await eventually(lambda: begun[2:] == ["berta"])
                go_on.set()
            answer = await askers[1].ask(of(there), {"client": ANNA}, ANNA)

    assert all("(2 of this client)" in one.message for one in refused)
    assert all("send the same request again when one" in one.message for one in refused)
    assert answer == {}


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


async def test_messages_go_to_the_client_of_their_request_from_the_gateway_that_serves_it_alone(
    url: str, here: PostgresRegistry, there: PostgresRegistry
) -> None:
    """Others are lost, and what they would precede is answered all the same."""
    read: list[JSONObject] = []

    async def serve(*_: object) -> JSONObject:
        [id_] = asker._waiting
        for sender, request in ((stranger, id_), (owner, os.urandom(16))):
            await sender._pass_messages(RelayedRequest(request, asker.instance, "", b""), [{}])
        return {"result": {}}

    async def read_all(messages: list[JSONObject]) -> None:
        read.extend(messages)

    with closing(open_database(url, timeout=60.0)) as elsewhere:
        async with (
            running(there, relay_of(there), serve) as owner,
            running(here, relay_of(here), never) as asker,
            running(elsewhere, relay_of(elsewhere), never) as stranger,
        ):
            await stranger._sealer.prepare()
            with anyio.fail_after(60):
                answer = await asker.ask(of(there), REQUEST, ANNA, read_all)

    assert (answer, read) == ({}, [])


async def test_an_answer_that_is_too_long_is_an_error_that_says_that_it_was_done(
    here: PostgresRegistry, there: PostgresRegistry
) -> None:
    async def long(*_: object) -> JSONObject:
        return {"result": "x" * 2000}

    owner = relay_of(there, answer_bytes=1000)
    async with running(there, owner, long), running(here, relay_of(here), never) as one:
        error = await error_of(one, there)

    assert "the request was done" in error.message
    assert "1,000 bytes" in error.message


async def test_a_database_that_is_gone_is_a_reason_to_send_the_same_again(
    here: PostgresRegistry, there: PostgresRegistry
) -> None:
    relay = relay_of(here)
    async with running(here, relay, never):
        await relay._sealer.prepare()
        here.database.close()
        error = await error_of(relay, there)

    assert "send the same request again in a moment" in error.message


async def test_many_requests_at_once_are_each_answered_once(
    url: str, here: PostgresRegistry, there: PostgresRegistry
) -> None:
    """Both ask and both answer, so that they write to the same rows in every order."""
    served: list[int] = []

    async def serve(request: JSONObject, *_: object) -> JSONObject:
        served.append(request["number"])
        await anyio.lowlevel.checkpoint()
        return {"result": request}

    async def ask(relay: Relay, other: PostgresRegistry, number: int) -> None:
        async with few_enough:
            answer = await relay.ask(of(other), {"number": number}, str(number))
        answered.append(answer["number"])

    few_enough = anyio.CapacityLimiter(16)  # to be taken in time on a busy machine
    answered: list[int] = []
    async with (
        running(there, relay_of(there), serve) as one,
        running(here, relay_of(here), serve) as two,
    ):
        with anyio.fail_after(120):
            async with anyio.create_task_group() as tasks:
                for number in range(100):
                    relay, other = (one, here) if number % 2 else (two, there)
                    tasks.start_soon(ask, relay, other, number)
            await eventually(lambda: rows(url) == [])

    assert sorted(served) == sorted(answered) == list(range(100))


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
