"""The one place where the view is swapped: listings, reloads and forgettings in any order."""

from __future__ import annotations

import cProfile

import anyio
import pytest
from msgspec.structs import replace

from discovery_engine.config.files.location import scope_of
from discovery_engine.events import CatalogChanged, EventBus
from discovery_engine.rules.rule import Rule
from discovery_engine.search.index.index import Index
from discovery_engine.tools.model import ServerName
from discovery_engine.trust.decisions import Approval
from tests.factories import make_server, make_settings
from tests.unit.swaps import HeldStore, current_view, everybody_waits, found, lists

pytestmark = pytest.mark.anyio

A, B = ServerName("a"), ServerName("b")
NO_DELETING = (Rule(patterns=("*delete*",), enabled=False),)


async def test_listings_that_arrive_during_a_swap_are_swapped_in_together() -> None:
    servers = [make_server(name) for name in "abcdefgh"]
    store, events = HeldStore(), EventBus()
    current = await current_view(make_settings(*servers), store, events)

    with events.subscribe() as told:
        async with anyio.create_task_group() as tasks:
            store.hold()
            tasks.start_soon(current.apply_listing, lists(servers[0], "x"))
            await store.is_held()
            for server in servers[1:]:
                tasks.start_soon(current.apply_listing, lists(server, "x"))
            await everybody_waits()
            store.release()
        first, second = await anext(told), await anext(told)

    assert isinstance(first, CatalogChanged)
    assert isinstance(second, CatalogChanged)
    assert (first.added, second.added) == (1, 7)
    assert second.revision == current.view.catalog.revision == first.revision + 1


@pytest.mark.requirement("CAT-14")
async def test_a_decision_that_is_heeded_does_not_bring_an_old_configuration_back() -> None:
    settings, store = make_settings("a", "b"), HeldStore()
    current = await current_view(settings, store)

    async with anyio.create_task_group() as tasks:
        store.hold()
        tasks.start_soon(current.apply_listing, lists(settings.servers[0], "x"))
        await store.is_held()
        tasks.start_soon(current.apply_settings, replace(settings, tool_rules=NO_DELETING))
        await everybody_waits()
        store.approve(scope_of(None), [Approval("b", "identity")], at=1.0)
        tasks.start_soon(current.apply_decisions)
        await everybody_waits()
        store.release()

    assert current.view.settings.tool_rules == NO_DELETING
    assert current.trust_store.is_current()


async def test_a_round_of_listings_joins_the_index_once() -> None:
    settings = make_settings(*(f"s{n}" for n in range(8)))
    current = await current_view(settings)
    for server in settings.servers:
        await current.apply_listing(lists(server, f"tool_{server.name}"))

    with cProfile.Profile() as profile:  # of this thread alone
        searcher = current.view.searcher
        assert current.view.searcher is searcher

    joined = [e for e in profile.getstats() if e.code is Index.update.__code__]  # type: ignore[attr-defined] # unknown to the stubs
    assert [entry.callcount for entry in joined] == [1]
    assert found(current.view, "tool_s7") == {"s7:tool_s7"}
    await current.apply_listing(lists(settings.servers[0], "another"))
    assert found(current.view, "another") == {"s0:another"}
    assert not found(current.view, "tool_s0")
