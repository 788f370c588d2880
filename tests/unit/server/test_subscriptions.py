"""Which client is notified of which change, in both eras."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.peer import RpcError
from discovery_server import subscriptions as module
from discovery_server.client_stream import LineStream
from discovery_server.gateway import Gateway
from discovery_server.subscriptions import ListKind, Subscriptions
from tests.unit.server.fakes import make_engine
from tests.unit.server.oracle import ListSink
from tests.unit.server.wire import HANDSHAKE, INITIALIZED, MODERN, Wire, request, served

pytestmark = pytest.mark.anyio

LISTS: tuple[ListKind, ...] = ("tools", "prompts", "resources")
ID = "io.modelcontextprotocol/subscriptionId"


class Feed:
    """A `ResourceFeed` that notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    @property
    def watched(self) -> set[str]:
        found: set[str] = set()
        for verb, uri in self.asked:
            assert (uri in found) == (verb == "unwatch")
            found ^= {uri}
        return found

    async def watch(self, uri: str) -> None:
        await anyio.lowlevel.checkpoint()
        if uri.startswith("none:"):
            raise RpcError(-32602, "There is no such resource")
        self.asked.append(("watch", uri))

    async def unwatch(self, uri: str) -> None:
        await anyio.lowlevel.checkpoint()
        self.asked.append(("unwatch", uri))


@pytest.fixture
def feed() -> Feed:
    return Feed()


@pytest.fixture
def changes(feed: Feed) -> Subscriptions:
    return Subscriptions(changing=LISTS, feed=feed)


@pytest.fixture
def gateway(changes: Subscriptions) -> Gateway:
    return Gateway(make_engine(), changes)


def listen(number: Any, **wanted: Any) -> JSONObject:
    return request(number, "subscriptions/listen", notifications=wanted, _meta=MODERN)


async def opened(wire: Wire) -> JSONObject:
    answer = await wire.ask(request(0, "initialize", **HANDSHAKE))
    await wire.send(INITIALIZED)
    return answer


def listens(number: object) -> JSONObject:
    return {"_meta": {ID: number}}


def changed(kind: str, number: object = None) -> JSONObject:
    message = {"jsonrpc": "2.0", "method": f"notifications/{kind}/list_changed"}
    return message if number is None else {**message, "params": listens(number)}


def updated(uri: str, number: object = None) -> JSONObject:
    params = {"uri": uri} if number is None else {**listens(number), "uri": uri}
    return {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params}


# -- handshake era ---------------------------------------------------------------------------------


@pytest.mark.requirement("NTF-1")
@pytest.mark.parametrize("kind", LISTS)
async def test_a_client_is_notified_of_a_list_that_changed(
    gateway: Gateway, changes: Subscriptions, kind: ListKind
) -> None:
    async with served(gateway) as wire:
        await opened(wire)
        changes.list_changed(kind)

        assert await wire.receive() == changed(kind)


@pytest.mark.requirement("NTF-1")
async def test_a_burst_of_changes_is_one_notification_of_each(
    gateway: Gateway, changes: Subscriptions
) -> None:
    async with served(gateway) as wire:
        await opened(wire)
        for _ in range(500):
            for kind in LISTS:
                changes.list_changed(kind)
        received = [await wire.receive() for _ in LISTS]
        pong = await wire.ask(request(1, "ping"))

    assert received == [changed(kind) for kind in LISTS]
    assert pong["id"] == 1


@pytest.mark.requirement("NTF-1")
async def test_nobody_is_notified_of_a_list_that_cannot_change(feed: Feed) -> None:
    changes = Subscriptions(changing=["prompts"], feed=feed)
    async with served(Gateway(make_engine(), changes)) as wire:
        capabilities = (await opened(wire))["result"]["capabilities"]
        changes.list_changed("tools")
        changes.list_changed("prompts")

        assert await wire.receive() == changed("prompts")

    assert capabilities["tools"] == {"listChanged": False}
    assert capabilities["prompts"] == {"listChanged": True}
    assert capabilities["resources"] == {"listChanged": False, "subscribe": True}


@pytest.mark.requirement("NTF-1")
async def test_the_list_of_one_client_changes_for_that_client_alone() -> None:
    changes, sinks = Subscriptions(changing=LISTS), [ListSink(), ListSink()]
    for client, sink in zip("ab", sinks, strict=True):
        changes.add(client, LISTS, lambda sink=sink: LineStream(sink)).start()

    changes.list_changed("tools", client="b")
    changes.list_changed("prompts")
    with anyio.fail_after(60):
        while not all(sink.lines for sink in sinks):
            await anyio.lowlevel.checkpoint()

    assert [sink.take() for sink in sinks] == [
        [changed("prompts")],
        [changed("tools"), changed("prompts")],
    ]


@pytest.mark.requirement("NTF-3")
async def test_a_client_subscribes_to_a_resource_and_unsubscribes(
    gateway: Gateway, changes: Subscriptions, feed: Feed
) -> None:
    async with served(gateway) as wire:
        await opened(wire)
        answer = await wire.ask(request(1, "resources/subscribe", uri="a:1"))
        again = await wire.ask(request(2, "resources/subscribe", uri="a:1"))
        changes.resource_updated("a:2")
        changes.resource_updated("a:1")
        notified = await wire.receive()
        ended = await wire.ask(request(3, "resources/unsubscribe", uri="a:1"))
        changes.resource_updated("a:1")
        nothing = await wire.ask(request(4, "resources/unsubscribe", uri="a:1"))

    assert [one["result"] for one in (answer, again, ended, nothing)] == [{}, {}, {}, {}]
    assert notified == updated("a:1")
    assert feed.asked == [("watch", "a:1"), ("unwatch", "a:1")]


@pytest.mark.requirement("NTF-3")
async def test_a_part_of_a_resource_is_reported_by_its_own_uri(
    gateway: Gateway, changes: Subscriptions
) -> None:
    async with served(gateway) as wire:
        await opened(wire)
        await wire.ask(request(1, "resources/subscribe", uri="file:///a"))
        changes.resource_updated("file:///ab")
        changes.resource_updated("file:///a/b")

        assert await wire.receive() == updated("file:///a/b")


@pytest.mark.requirement("NTF-3")
async def test_a_resource_that_does_not_exist_is_an_error(gateway: Gateway, feed: Feed) -> None:
    async with served(gateway) as wire:
        await opened(wire)
        refused = await wire.ask(request(1, "resources/subscribe", uri="none:1"))
        too_long = await wire.ask(request(2, "resources/subscribe", uri="x" * 10_000))

    assert refused["error"]["code"] == -32602
    assert too_long["error"]["code"] == -32602
    assert len(json.dumps(too_long)) < 1_000
    assert feed.asked == []


@pytest.mark.requirement("NTF-4")
async def test_a_client_subscribes_to_a_bounded_number_of_resources(
    gateway: Gateway, feed: Feed
) -> None:
    async with served(gateway) as wire:
        await opened(wire)
        for number in range(256):
            await wire.ask(request(number, "resources/subscribe", uri=f"a:{number}"))
        refused = await wire.ask(request(256, "resources/subscribe", uri="a:256"))

    assert refused["error"]["code"] == -32602
    assert len(feed.watched) <= 256


@pytest.mark.requirement("NTF-3")
async def test_without_servers_that_send_updates_there_is_nothing_to_subscribe_to() -> None:
    async with served(Gateway(make_engine())) as wire:
        capabilities = (await opened(wire))["result"]["capabilities"]
        refused = await wire.ask(request(1, "resources/subscribe", uri="a:1"))

    assert capabilities["resources"] == {"subscribe": False, "listChanged": False}
    assert refused["error"]["code"] == -32601


@pytest.mark.requirement("NTF-4")
async def test_what_a_client_wanted_ends_with_its_connection(
    gateway: Gateway, changes: Subscriptions, feed: Feed
) -> None:
    async with served(gateway) as wire:
        await opened(wire)
        await wire.ask(request(1, "resources/subscribe", uri="a:1"))
        wire.hang_up()
        while feed.watched:
            await anyio.lowlevel.checkpoint()

    assert len(changes) == 0


# -- since 2026-07-28 ------------------------------------------------------------------------------


@pytest.mark.requirement("NTF-2")
async def test_a_subscription_is_acknowledged_first_with_what_it_will_get(
    gateway: Gateway, changes: Subscriptions
) -> None:
    wanted = {"toolsListChanged": True, "promptsListChanged": False, "x": 1}
    async with served(gateway) as wire:
        first = await wire.ask(listen("L", **wanted, resourceSubscriptions=["a:1", "none:1"]))
        for kind in LISTS:
            changes.list_changed(kind)
        changes.resource_updated("a:2")
        changes.resource_updated("a:1")
        received = [await wire.receive() for _ in range(2)]

    assert first["method"] == "notifications/subscriptions/acknowledged"
    assert first["params"] == {
        **listens("L"),
        "notifications": {"toolsListChanged": True, "resourceSubscriptions": ["a:1"]},
    }
    assert received == [changed("tools", "L"), updated("a:1", "L")]


@pytest.mark.requirement("NTF-2")
async def test_each_subscription_of_a_client_gets_its_own(
    gateway: Gateway, changes: Subscriptions
) -> None:
    async with served(gateway) as wire:
        await wire.ask(listen(1, toolsListChanged=True))
        await wire.ask(listen(2, promptsListChanged=True))
        for kind in LISTS:
            changes.list_changed(kind)
        received = [await wire.receive() for _ in range(2)]

    assert received == [changed("tools", 1), changed("prompts", 2)]


@pytest.mark.requirement("NTF-2")
async def test_without_a_subscription_nothing_comes(
    gateway: Gateway, changes: Subscriptions
) -> None:
    async with served(gateway) as wire:
        await wire.ask(request(1, "server/discover", _meta=MODERN))
        for kind in LISTS:
            changes.list_changed(kind)
        answer = await wire.ask(request(2, "tools/list", _meta=MODERN))

        assert answer["id"] == 2
        assert len(changes) == 0


@pytest.mark.requirement("NTF-4")
async def test_a_cancelled_subscription_ends(
    gateway: Gateway, changes: Subscriptions, feed: Feed
) -> None:
    async with served(gateway) as wire:
        await wire.ask(listen(1, toolsListChanged=True, resourceSubscriptions=["a:1"]))
        cancelled = {"method": "notifications/cancelled", "params": {"requestId": 1}}
        await wire.send({"jsonrpc": "2.0", **cancelled})
        while feed.watched:
            await anyio.lowlevel.checkpoint()
        changes.list_changed("tools")
        answer = await wire.ask(request(2, "tools/list", _meta=MODERN))

    assert answer["id"] == 2
    assert len(changes) == 0


@pytest.mark.requirement("NTF-4")
async def test_a_client_has_a_bounded_number_of_subscriptions(gateway: Gateway) -> None:
    async with served(gateway) as wire:
        firsts = [await wire.ask(listen(n, toolsListChanged=True)) for n in range(33)]

    assert all("method" in first for first in firsts[:32])
    assert "too many subscriptions" in firsts[32]["error"]["message"]


@pytest.mark.requirement("NTF-2")
@pytest.mark.parametrize(
    "wanted", [None, [], {"toolsListChanged": 1}, {"resourceSubscriptions": 1}]
)
async def test_a_filter_that_is_none_is_refused(gateway: Gateway, wanted: Any) -> None:
    message = request(1, "subscriptions/listen", notifications=wanted, _meta=MODERN)
    async with served(gateway) as wire:
        assert (await wire.ask(message))["error"]["code"] == -32602


# -- laws ------------------------------------------------------------------------------------------


@pytest.mark.requirement("NTF-3")
@given(steps=st.lists(st.tuples(st.booleans(), st.integers(0, 2), st.sampled_from("abc"))))
async def test_servers_are_asked_for_exactly_what_some_client_wants(steps: Any) -> None:
    feed = Feed()
    changes = Subscriptions(feed=feed)
    clients = [changes.add(n, (), lambda: None) for n in range(3)]
    wanted: set[tuple[int, str]] = set()
    for is_wanted, client, uri in steps:
        if is_wanted:
            await changes.watch(clients[client], uri)
            wanted.add((client, uri))
        else:
            await changes.unwatch(clients[client], uri)
            wanted.discard((client, uri))

        assert feed.watched == {uri for _, uri in wanted}


@pytest.mark.requirement("NTF-3")
@given(order=st.permutations(range(6)), leaving=st.sets(st.integers(0, 5)))
async def test_clients_that_come_and_go_at_once_leave_the_servers_in_the_right_state(
    order: list[int], leaving: set[int]
) -> None:
    feed = Feed()
    changes = Subscriptions(feed=feed)
    clients = [changes.add(n, (), lambda: None) for n in range(6)]

    async def come_and_go(number: int) -> None:
        await changes.watch(clients[number], "a")
        if number in leaving:
            await changes.unwatch(clients[number], "a")

    async with anyio.create_task_group() as tasks:
        for number in order:
            tasks.start_soon(come_and_go, number)

    assert feed.watched == (set() if len(leaving) == 6 else {"a"})


@pytest.mark.requirement("NTF-4")
async def test_a_client_that_reads_nothing_costs_a_bounded_number_of_notifications(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_PAUSE", 0.0)
    monkeypatch.setattr(module, "_INTERVAL", 0.0)
    sink = ListSink()
    sink.is_congested = True
    changes = Subscriptions(changing=LISTS, feed=Feed())
    subscriber = changes.add("a", LISTS, lambda: LineStream(sink))
    subscriber.start()
    await changes.watch(subscriber, "file:///a")
    for number in range(5_000):
        changes.resource_updated(f"file:///a/{number}")
    await anyio.wait_all_tasks_blocked()
    assert sink.lines == []

    sink.is_congested = False
    with anyio.fail_after(60):
        while not sink.lines:
            await anyio.lowlevel.checkpoint()
    assert len(sink.lines) <= 300
