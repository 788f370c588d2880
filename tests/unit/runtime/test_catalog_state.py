"""The one place where the view is swapped: listings, reloads and forgettings in any order."""

from __future__ import annotations

import cProfile
import logging
import marshal
from typing import TypeVar

import anyio
import pytest
from msgspec.structs import replace

from discovery_engine.config.files.location import scope_of
from discovery_engine.config.settings import SearchSettings, Settings, StdioTransport
from discovery_engine.errors import RegistryError
from discovery_engine.events import CatalogChanged, EventBus
from discovery_engine.registry.memory import MemoryRegistry
from discovery_engine.rules.rule import Rule
from discovery_engine.runtime.catalog_state import CatalogState
from discovery_engine.runtime.ingestion.listing_result import ListingResult
from discovery_engine.search.index import storage
from discovery_engine.search.index.index import Index
from discovery_engine.search.index.lazy_map import pack_buckets
from discovery_engine.search.text.lexicon import default_lexicon
from discovery_engine.tools.model import ServerName, ToolKey, ToolName
from discovery_engine.trust.decisions import Approval
from discovery_engine.view.view import View
from tests.factories import make_server, make_settings, tool_names
from tests.rows import rows
from tests.unit.swaps import HeldStore, current_view, everybody_waits, fails, found, lists

pytestmark = pytest.mark.anyio

T = TypeVar("T")

A, B = ServerName("a"), ServerName("b")
NO_DELETING = (Rule(patterns=("*delete*",), enabled=False),)


def names(view: View, server: ServerName = A) -> list[ToolName]:
    return tool_names(view.catalog.parts[server].entries)


@pytest.mark.requirement("CAT-1")
async def test_a_view_that_is_held_stays_as_it_is() -> None:
    settings = make_settings("a")
    current = await current_view(settings)
    await current.apply_listing(lists(settings.servers[0], "first"))
    held = current.view

    await current.apply_listing(lists(settings.servers[0], "second"))
    await current.apply_settings(make_settings("b"))
    await current.forget(None)

    assert names(held) == ["first"]
    assert held.search("first").hits
    assert held.settings is settings


@pytest.mark.requirement("CAT-2")
async def test_every_swap_has_a_higher_revision() -> None:
    settings, store = make_settings("a"), MemoryRegistry()
    current = await current_view(settings, store)
    revisions = [current.view.catalog.revision]

    await current.apply_listing(lists(settings.servers[0], "x"))
    revisions.append(current.view.catalog.revision)
    await current.apply_settings(settings)
    revisions.append(current.view.catalog.revision)
    await current.forget(None)
    revisions.append(current.view.catalog.revision)
    revisions.append((await current_view(settings, store)).view.catalog.revision)

    assert revisions == sorted(set(revisions))


@pytest.mark.requirement("CAT-10")
async def test_a_tool_that_is_gone_is_gone_from_everywhere() -> None:
    settings, store = make_settings("a"), MemoryRegistry()
    current = await current_view(settings, store)
    await current.apply_listing(lists(settings.servers[0], "kept", "gone"))

    await current.apply_listing(lists(settings.servers[0], "kept"))

    view = current.view
    world = store.load(scope_of(None))
    assert names(view) == ["kept"]
    assert found(view, "gone") == set()
    assert view.catalog.get(A, ToolName("gone")) is None
    assert world is not None
    assert [entry.tool.name for entry in world.catalog] == ["kept"]


@pytest.mark.requirement("CAT-11")
async def test_a_listing_that_arrives_late_does_not_bring_a_server_back() -> None:
    settings, store = make_settings("a", "b"), MemoryRegistry()
    current = await current_view(settings, store)
    await current.apply_listing(lists(settings.servers[0], "x"))

    await current.apply_settings(make_settings("b"))
    is_taken = await current.apply_listing(lists(settings.servers[0], "x"))

    world = store.load(scope_of(None))
    assert not is_taken
    assert list(current.view.catalog.parts) == [B]
    assert found(current.view, "x") == set()
    assert world is not None
    assert A not in world.catalog.parts


@pytest.mark.requirement("CAT-12")
async def test_a_server_that_is_reached_in_another_way_starts_with_nothing() -> None:
    settings = make_settings("a")
    current = await current_view(settings)
    await current.apply_listing(lists(settings.servers[0], "x"))

    other = make_server("a", transport=StdioTransport("another-program"))
    await current.apply_settings(make_settings(other))
    is_taken = await current.apply_listing(lists(settings.servers[0], "x"))

    assert not is_taken
    assert names(current.view) == []
    assert not current.view.is_known(A)


@pytest.mark.requirement("CAT-13")
async def test_what_is_forgotten_is_counted_and_stays_forgotten() -> None:
    settings, store = make_settings("a", "b"), MemoryRegistry()
    current = await current_view(settings, store)
    await current.apply_listing(lists(settings.servers[0], "x", "y"))
    await current.apply_listing(lists(settings.servers[1], "z"))

    count = await current.forget({A})

    again = await current_view(settings, store)
    for view in (current.view, again.view):
        assert names(view, A) == []
        assert names(view, B) == ["z"]
        assert not view.is_known(A)
    assert count == 2
    assert await current.forget(None) == 1


@pytest.mark.requirement("CAT-20")
async def test_other_servers_are_carried_over_as_they_are() -> None:
    settings = make_settings("a", "b")
    current = await current_view(settings)
    await current.apply_listing(lists(settings.servers[0], "x"))
    before = current.view
    indexed = before.searcher.index.servers[A]

    await current.apply_listing(lists(settings.servers[1], "y"))
    await current.apply_settings(replace(settings, search=replace(settings.search, limit=3)))

    after = current.view
    assert after.catalog.parts[A] is before.catalog.parts[A]
    assert after.searcher.index.servers[A] is indexed


@pytest.mark.requirement("LIB-53")
async def test_a_listing_is_judged_by_the_rules_of_the_moment_it_is_taken() -> None:
    settings, store = make_settings("a", "b"), HeldStore()
    current = await current_view(settings, store)

    async with anyio.create_task_group() as tasks:
        store.hold()
        tasks.start_soon(current.apply_listing, lists(settings.servers[0], "delete_x"))
        await store.is_held()
        tasks.start_soon(current.apply_settings, replace(settings, tool_rules=NO_DELETING))
        await everybody_waits()
        tasks.start_soon(current.apply_listing, lists(settings.servers[1], "delete_y"))
        await everybody_waits()
        store.release()

    assert [entry.verdict.enabled for entry in current.view.catalog] == [False, False]


async def test_what_was_forgotten_meanwhile_does_not_come_back_with_a_failure() -> None:
    settings, store = make_settings("a", "b"), HeldStore()
    current = await current_view(settings, store)
    await current.apply_listing(lists(settings.servers[0], "x"))

    async with anyio.create_task_group() as tasks:
        store.hold()
        tasks.start_soon(current.apply_listing, lists(settings.servers[1], "y"))
        await store.is_held()
        tasks.start_soon(current.forget, None)
        tasks.start_soon(current.apply_listing, fails(settings.servers[0]))
        await everybody_waits()
        store.release()

    assert names(current.view) == []
    assert current.view.catalog.parts[A].failure is not None


@pytest.mark.requirement("CAT-21")
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


@pytest.mark.requirement("CAT-23")
async def test_what_is_taken_before_a_configuration_is_adopted_is_known_under_it() -> None:
    settings, store = make_settings("a", "b"), HeldStore()
    current = await current_view(settings, store)

    async with anyio.create_task_group() as tasks:
        store.hold()
        tasks.start_soon(current.apply_listing, lists(settings.servers[0], "x"))
        await store.is_held()
        tasks.start_soon(current.apply_listing, lists(settings.servers[1], "y"))
        await everybody_waits()
        before = current.view.catalog.revision
        tasks.start_soon(current.apply_settings, replace(settings, tool_rules=NO_DELETING))
        await anyio.wait_all_tasks_blocked()
        store.release()

    assert (names(current.view, A), names(current.view, B)) == (["x"], ["y"])
    assert current.view.catalog.revision == before + 2


@pytest.mark.requirement("CAT-23")
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


@pytest.mark.requirement("CAT-24")
async def test_a_swap_that_has_begun_is_finished_though_nobody_waits_for_it_any_more() -> None:
    settings, store = make_settings("a", "b"), HeldStore()
    current = await current_view(settings, store)

    async with anyio.create_task_group() as tasks:
        store.hold("accept")
        impatient = anyio.CancelScope()
        tasks.start_soon(_take_within, impatient, current, lists(settings.servers[0], "x"))
        await store.is_held("accept")
        impatient.cancel()
        store.release("accept")

    assert names(current.view) == ["x"]


@pytest.mark.requirement("CAT-22")
async def test_a_registry_that_fails_costs_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    settings = make_settings("a")

    with caplog.at_level(logging.WARNING, "discovery_engine"):
        current = await current_view(settings, FullStore())
        await current.apply_listing(lists(settings.servers[0], "x"))

    assert names(current.view) == ["x"]
    assert "stored catalog cannot be loaded" in caplog.text
    assert "catalog cannot be stored" in caplog.text


class FullDisk(MemoryRegistry):
    """A registry that keeps no index as long as its disk is full."""

    is_full = False

    def save_index(self, scope: str, data: bytes) -> None:
        if self.is_full:
            raise RegistryError("full")
        super().save_index(scope, data)


@pytest.mark.requirement("REG-15")
async def test_an_index_that_could_not_be_kept_is_kept_later() -> None:
    settings, store = make_settings("a"), FullDisk()
    current = await current_view(settings, store)
    await current.apply_listing(lists(settings.servers[0], "x"))

    store.is_full = True
    await current.save_index()
    assert store.load_index(scope_of(None)) is None
    store.is_full = False
    await current.save_index()

    assert store.load_index(scope_of(None))


async def recalled_with_odd_index() -> CatalogState:
    """A view whose index was written in another layout under the same number."""
    settings, store = make_settings("a", "b"), MemoryRegistry()
    before = await current_view(settings, store)
    await before.apply_listing(lists(settings.servers[0], "x"))
    payload = marshal.dumps(([("a", 0, 1)], pack_buckets({"x": (3, 3)}), {}, b""))
    digest = storage._digest(payload, before.view.searcher.index.servers, default_lexicon())
    store.save_index(scope_of(None), digest + payload)
    return await current_view(settings, store)


@pytest.mark.requirement("REG-15")
async def test_an_index_that_cannot_be_updated_is_made_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    current = await recalled_with_odd_index()
    _, other = current.view.settings.servers

    await current.apply_listing(lists(other, "y"))
    await current.save_index()

    assert "built again" in caplog.text
    assert found(current.view, "y") == {"b:y"}


@pytest.mark.requirement("REG-15")
async def test_an_index_that_cannot_be_saved_is_made_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    current = await recalled_with_odd_index()
    current._searcher.is_stored = False

    await current.save_index()

    assert "built again" in caplog.text
    assert found(current.view, "x") == {"a:x"}


async def test_a_configuration_that_moved_is_remembered_whole_in_its_new_place() -> None:
    settings, store = make_settings("a", path="/one/discovery.yaml"), MemoryRegistry()
    current = await current_view(settings, store)
    await current.apply_listing(lists(settings.servers[0], "x"))

    moved = replace(settings, path="/two/discovery.yaml")
    await current.apply_settings(moved)

    assert names((await current_view(moved, store)).view) == ["x"]


async def test_nothing_is_reported_when_nothing_changed() -> None:
    settings, events = make_settings("a"), EventBus()
    current = await current_view(settings, None, events)
    await current.apply_listing(lists(settings.servers[0], "x"))

    with events.subscribe() as told:
        await current.apply_listing(lists(settings.servers[0], "x", at=5.0))
        await current.apply_listing(lists(settings.servers[0], "y", at=6.0))
        [event] = [await anext(told)]

    assert isinstance(event, CatalogChanged)
    assert (event.added, event.removed, event.changed) == (1, 1, 0)


async def _take_within(
    scope: anyio.CancelScope, current: CatalogState, told: ListingResult
) -> None:
    with scope:
        await current.apply_listing(told)


class FullStore(MemoryRegistry):
    """A registry that can be neither read nor written."""

    def load(self, scope: str) -> None:
        raise RegistryError("no")

    def save_settings(self, scope: str, settings: Settings, *, keep_others: bool = False) -> None:
        raise RegistryError("no")

    def save_parts(
        self,
        scope: str,
        parts: object,
        *,
        revision: int,
        decided: int | None = None,
        **other: object,
    ) -> None:
        raise RegistryError("no")


@pytest.mark.requirement("CAT-26")
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


@pytest.mark.requirement("REL-55")
@rows("is_forgotten", [False, True])
async def test_what_was_read_of_uses_before_others_were_counted_or_forgotten_replaces_nothing(
    is_forgotten: bool,
) -> None:
    settings = make_settings("a", search=SearchSettings(learn=True))
    store = HeldStore()
    current = await current_view(settings, store)
    await current.apply_listing(lists(settings.servers[0], "x", "y"))
    x, y = (ToolKey(A, ToolName(name)) for name in ("x", "y"))
    async with anyio.create_task_group() as tasks:
        store.hold("uses")
        tasks.start_soon(current.count_use, x)
        await store.is_held("uses")
        held = store.let_others("uses")
        await (current.forget(None) if is_forgotten else current.count_use(y))
        known = set(current.view.usage)
        held.set()

    assert known == (set() if is_forgotten else {x, y})
    assert set(current.view.usage) == known
