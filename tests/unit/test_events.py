from __future__ import annotations

import anyio
import pytest

from discovery_engine.events import Event, EventBus, ServerConnecting, Subscription, ToolsChanged
from discovery_engine.tools.model import ServerName

pytestmark = pytest.mark.anyio

FIRST, SECOND, THIRD = (ServerConnecting(ServerName(name)) for name in "abc")


async def take(subscription: Subscription, count: int) -> list[Event]:
    with anyio.fail_after(60):
        return [await anext(subscription) for _ in range(count)]


async def test_each_listener_gets_every_event_in_order() -> None:
    bus = EventBus()

    with bus.subscribe() as one, bus.subscribe() as other:
        bus.publish(FIRST)
        bus.publish(SECOND)

        assert await take(one, 2) == [FIRST, SECOND]
        assert await take(other, 2) == [FIRST, SECOND]


async def test_a_listener_that_is_too_slow_loses_its_oldest_events() -> None:
    bus = EventBus()

    with bus.subscribe(backlog=2) as slow, bus.subscribe() as other:
        for event in (FIRST, SECOND, THIRD):
            bus.publish(event)

        assert await take(slow, 2) == [SECOND, THIRD]
        assert await take(other, 3) == [FIRST, SECOND, THIRD]


async def test_a_listener_that_is_cancelled_in_waiting_loses_nothing() -> None:
    bus = EventBus()

    with bus.subscribe() as subscription:
        with anyio.move_on_after(0):
            await anext(subscription)
        bus.publish(FIRST)

        assert await take(subscription, 1) == [FIRST]


async def test_a_subscription_to_some_kinds_gets_no_others() -> None:
    bus, changed = EventBus(), ToolsChanged(ServerName("a"))

    with bus.subscribe(ToolsChanged) as subscription:
        bus.publish(FIRST)
        bus.publish(changed)
        bus.publish(SECOND)

        assert subscription.drain() == [changed]
