"""The laws of subscriptions: which servers are asked, and what a slow client costs."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_server import subscriptions as module
from discovery_server.client_messages import ClientLines
from discovery_server.subscriptions import ListKind, Subscriptions
from tests.unit.server.oracle import ListSink

pytestmark = pytest.mark.anyio

LISTS: tuple[ListKind, ...] = ("tools", "prompts", "resources")


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
        self.asked.append(("watch", uri))

    async def unwatch(self, uri: str) -> None:
        await anyio.lowlevel.checkpoint()
        self.asked.append(("unwatch", uri))


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


@pytest.mark.requirement("NTF-3")
async def test_a_client_that_reads_nothing_costs_a_bounded_number_of_notifications(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_CHANGES_DEBOUNCE_INTERVAL", 0.0)
    monkeypatch.setattr(module, "_INTERVAL", 0.0)
    sink = ListSink()
    sink.is_congested = True
    changes = Subscriptions(changing=LISTS, feed=Feed())
    subscriber = changes.add("a", LISTS, lambda: ClientLines(sink))
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
