"""Which client is notified of which change, and of which log message, in both eras."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from discovery_server.gateway import Gateway
from discovery_server.subscriptions import Subscriptions
from tests.unit.server.fakes import Call, make_engine
from tests.unit.server.wire import HANDSHAKE, INITIALIZED, MODERN, Wire, call, request, served

pytestmark = pytest.mark.anyio

LISTS = ("tools", "prompts", "resources")
ID = "io.modelcontextprotocol/subscriptionId"


class Feed:
    """Servers whose resources can be watched."""

    def __init__(self) -> None:
        self.watched: list[str] = []

    async def watch(self, uri: str) -> None:
        assert uri not in self.watched
        self.watched.append(uri)

    async def unwatch(self, uri: str) -> None:
        self.watched.remove(uri)


@pytest.fixture
def feed() -> Feed:
    return Feed()


@pytest.fixture
def changes(feed: Feed) -> Subscriptions:
    return Subscriptions(changing=LISTS, feed=feed)


@pytest.fixture
def gateway(changes: Subscriptions) -> Gateway:
    return Gateway(make_engine(), changes)


def listen(number: Any, **wanted: Any) -> Any:
    return request(number, "subscriptions/listen", notifications=wanted, _meta=MODERN)


async def opened(wire: Wire) -> Any:
    answer = await wire.ask(request(0, "initialize", **HANDSHAKE))
    await wire.send(INITIALIZED)
    return answer["result"]["capabilities"]


def note(kind: str, number: object = None, **params: Any) -> Any:
    """A notification, of a subscription if one is named."""
    if number is not None:
        params["_meta"] = {ID: number}
    message = {"jsonrpc": "2.0", "method": f"notifications/{kind}"}
    return {**message, "params": params} if params else message


@pytest.mark.requirement("NTF-1", "NTF-3")
async def test_a_subscription_is_acknowledged_first_and_gets_what_it_asked_for_alone(
    gateway: Gateway, changes: Subscriptions, feed: Feed
) -> None:
    wanted = {"toolsListChanged": True, "promptsListChanged": False, "x": 1}
    async with served(gateway) as wire:
        first = await wire.ask(listen("L", **wanted, resourceSubscriptions=["a:1"]))
        second = await wire.ask(listen(2, promptsListChanged=True))
        for kind in LISTS:
            changes.list_changed(kind)
        received = [await wire.receive() for _ in range(2)]
        changes.resource_updated("a:2")
        changes.resource_updated("a:1")
        received.append(await wire.receive())
        await wire.send(note("cancelled", requestId="L"))
        while feed.watched:
            await anyio.lowlevel.checkpoint()
        changes.list_changed("tools")
        after = await wire.ask(request(3, "tools/list", _meta=MODERN))

    assert first["method"] == second["method"] == "notifications/subscriptions/acknowledged"
    granted = {"toolsListChanged": True, "resourceSubscriptions": ["a:1"]}
    assert first["params"] == {"_meta": {ID: "L"}, "notifications": granted}
    assert received == [
        note("tools/list_changed", "L"),
        note("prompts/list_changed", 2),
        note("resources/updated", "L", uri="a:1"),
    ]
    assert after["id"] == 3


@pytest.mark.requirement("NTF-3")
async def test_a_client_is_notified_of_updates_of_a_resource_and_its_parts_until_it_unsubscribes(
    gateway: Gateway, changes: Subscriptions, feed: Feed
) -> None:
    async with served(gateway) as wire, served(gateway) as other:
        await opened(wire)
        await opened(other)
        for client in (wire, other):
            await client.ask(request(1, "resources/subscribe", uri="file:///a"))
        for uri in ("file:///ab", "file:///a/b"):
            changes.resource_updated(uri)
        notified = await wire.receive()
        await wire.ask(request(3, "resources/unsubscribe", uri="file:///a"))
        watched = list(feed.watched)
        changes.resource_updated("file:///a")
        pong = await wire.ask(request(4, "ping"))
        other.hang_up()
        while feed.watched:
            await anyio.lowlevel.checkpoint()

    assert notified == note("resources/updated", uri="file:///a/b")
    assert watched == ["file:///a"]
    assert pong["id"] == 4


# -- log messages ----------------------------------------------------------------------------------

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
LEVEL = "io.modelcontextprotocol/logLevel"


def level_of(answer: Any) -> str:
    """The level that the call of an answer was made with."""
    level: str = answer["result"]["content"][0]["text"]
    return level


async def telling_its_level(made: Call) -> Any:
    assert made.caller
    return {"content": [{"type": "text", "text": str(made.caller.log_level)}]}


def execute(number: int, *, meta: Any = None) -> Any:
    made = call(number, "execute_tool", tool="list_issues")
    made["params"]["_meta"] = meta or {}
    return made


@pytest.mark.requirement("NTF-20")
async def test_a_client_sets_the_level_of_its_messages_and_no_other_one() -> None:
    seen, refused = [], []
    async with served(Gateway(make_engine(execution=telling_its_level))) as wire:
        capabilities = await opened(wire)
        seen.append(level_of(await wire.ask(execute(1))))
        for level in LEVELS:
            await wire.ask(request(2, "logging/setLevel", level=level))
            seen.append(level_of(await wire.ask(execute(3))))
        for wrong in ("loud", "", None, 3, "INFO"):
            answer = await wire.ask(request(4, "logging/setLevel", level=wrong))
            refused.append(answer["error"]["code"])
        last = level_of(await wire.ask(execute(5)))

    assert seen == ["info", *LEVELS]
    assert (refused, last) == ([-32602] * 5, LEVELS[-1])
    assert capabilities["logging"] == {}


@pytest.mark.requirement("NTF-20")
async def test_since_2026_07_28_each_request_says_its_level_and_gets_none_without() -> None:
    async with served(Gateway(make_engine(execution=telling_its_level))) as wire:
        loud = await wire.ask(execute(1, meta={**MODERN, LEVEL: "alert"}))
        silent = await wire.ask(execute(2, meta=MODERN))
        gone = await wire.ask(request(3, "logging/setLevel", level="info", _meta=MODERN))

    assert [level_of(loud), level_of(silent)] == ["alert", "None"]
    assert gone["error"]["code"] == -32601
