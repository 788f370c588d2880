"""Search by meaning beside the engine: what is embedded, when, and what happens if it cannot be."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace

from discovery_engine.catalog import Entry
from discovery_engine.config.settings import EmbeddingsSettings, SearchSettings, Settings
from discovery_engine.engine.catalog_state import CatalogState
from discovery_engine.engine.semantic_search import WARM_UP, QueryEmbedding, SemanticSearch
from discovery_engine.engine.vector_cache import VectorCache
from discovery_engine.events import EventBus
from discovery_engine.rules.overrides.override import Override
from discovery_engine.search.embedders import EmbeddingError, Vector
from discovery_engine.search.embedders.embedder import HashEmbedder
from discovery_engine.search.query.analyzer import split_clauses
from discovery_engine.search.ranking.relevance import Hit
from discovery_engine.search.text.lexicon import default_lexicon
from discovery_engine.secrets.resolver import EnvironmentResolver
from discovery_engine.store.memory import MemoryRegistry
from tests.factories import Clock, make_catalog, make_part, make_settings
from tests.rows import rows
from tests.servers.programs import eventually
from tests.unit.swaps import lists

pytestmark = pytest.mark.anyio


@dataclass
class Embedding:
    """An embedder that counts what it is given, and fails or hangs when told to."""

    given: list[str] = field(default_factory=list)
    """The texts, without the one to begin with."""
    calls: int = 0
    longest: int = 0
    """Of all batches."""
    failure: EmbeddingError | None = None
    is_slow: bool = False
    is_slow_with: frozenset[str] = frozenset()
    dimensions: int | None = 16
    opened: int = 0
    loaded: anyio.Event | None = None
    """Set once the model is loaded; None if there is nothing to load."""

    @property
    def model(self) -> str:
        return "counting"

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        self.calls += 1
        self.longest = max(self.longest, len(texts))
        self.given += [text for text in texts if text != WARM_UP]
        if self.failure:
            raise self.failure
        if self.is_slow or self.is_slow_with.intersection(texts):
            await anyio.sleep_forever()
        return await HashEmbedder(self.dimensions or 0).embed(texts)

    @asynccontextmanager
    async def open(self, settings: EmbeddingsSettings, **_: Any) -> AsyncIterator[Embedding]:
        self.opened += 1
        if self.loaded:
            await self.loaded.wait()
        yield self


@dataclass
class World:
    """An engine's view, the meaning beside it, and a clock that is turned by hand."""

    current: CatalogState
    meaning: SemanticSearch
    events: EventBus
    settings: Settings
    now: float = 0.0

    async def lists(self, *tools: str) -> None:
        await self.current.apply_listing(lists(self.settings.servers[0], *tools))

    async def settled(self) -> None:
        with anyio.fail_after(60):
            await self.meaning.wait_settled(60)

    async def until(self, count: int) -> None:
        await eventually(lambda: len(self.current.view.vectors or ()) == count)

    async def hits(
        self, query: str, accepts: Callable[[Entry], bool] = lambda _: True
    ) -> tuple[Hit, ...]:
        asked = await self.meaning.embed_query(query)
        view = self.current.view
        similarities = view.vectors.compare(asked.vectors) if view.vectors else None
        analyzed = view.searcher.analyze(query)
        return view.searcher.search(analyzed, limit=9, accepts=accepts, similarities=similarities)

    async def names(self, query: str) -> list[str]:
        return [hit.entry.tool.name for hit in await self.hits(query)]


def wanting(provider: str = "hash", **fields: Any) -> Settings:
    embeddings = EmbeddingsSettings(provider, **{"timeout": 5.0, **fields})
    return make_settings("s", search=SearchSettings(embeddings=embeddings))


@asynccontextmanager
async def running(
    embedder: Embedding, settings: Settings | None = None, store: MemoryRegistry | None = None
) -> AsyncIterator[World]:
    settings, store, events = settings or wanting(), store or MemoryRegistry(), EventBus()
    current = CatalogState(store, events)
    meaning = SemanticSearch(
        lambda: current.view,
        current.set_vectors,
        store,
        events,
        secrets=EnvironmentResolver({}),
        data=Path(),
        clock=lambda: world.now,
        opener=embedder.open,
    )
    world = World(current, meaning, events, settings)
    await current.restore(settings)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(meaning.run)
        yield world
        tasks.cancel_scope.cancel()


def reason(asked: QueryEmbedding) -> str:
    [notice] = asked.notices
    assert notice.code == "EMBEDDING_ERROR"
    assert not asked.vectors
    return notice.message


@pytest.mark.requirement("EMB-2")
async def test_tools_that_are_listed_get_vectors_in_batches() -> None:
    embedder = Embedding()

    async with running(embedder, wanting(batch=2)) as world:
        await world.lists("one", "two", "three")
        await world.until(3)

    assert sorted(embedder.given) == ["s one: ", "s three: ", "s two: "]


@pytest.mark.requirement("EMB-2")
async def test_examples_of_a_tool_are_embedded_once_and_their_mean_is_stored() -> None:
    example = Override(("one",), examples=("go there", "and back"))
    settings = replace(wanting(batch=2), overrides=(example,))
    store, embedder = MemoryRegistry(), Embedding()
    async with running(embedder, settings, store) as world:
        await world.lists("one", "two")
        await world.settled()
        before = world.current.view.vectors
        assert before is not None
        [similar] = filter(None, [before.compare(await embedder.embed(["go there"]))])
        assert similar.cosine(before.tools[0]) != similar.cosine(before.tools[1])

    assert embedder.longest == 2
    assert {"go there", "and back", "s one: ", "s two: "} <= set(embedder.given)
    again = Embedding()
    async with running(again, settings, store) as world:
        await world.until(2)
        await world.settled()
    assert again.given == []


@pytest.mark.requirement("EMB-40")
@rows(
    ("provider", "texts"),
    [
        ("discovery", [default_lexicon().in_english("zeige mir die offenen Aufgaben")]),
        ("onnx", ["zeige mir die offenen Aufgaben"]),
    ],
)
async def test_a_model_that_knows_english_alone_gets_requests_in_english(
    provider: str, texts: list[str]
) -> None:
    embedder = Embedding()
    async with running(embedder, wanting(provider)) as world:
        await world.lists("one", "two")
        await world.until(2)
        embedder.given.clear()
        await world.meaning.embed_query("zeige mir die offenen Aufgaben")
        assert embedder.given == texts

        embedder.given.clear()
        await world.meaning.embed_query("show me the open mails")

    assert embedder.given == ["show me the open mails"]


@pytest.mark.requirement("EMB-11")
async def test_a_slow_embedder_is_not_waited_for_and_left_alone_for_a_while() -> None:
    embedder = Embedding()

    async with running(embedder, wanting(timeout=0.01)) as world:
        await world.lists("one")
        await world.until(1)
        await world.settled()
        embedder.is_slow = True

        assert "within 0.01 s" in reason(await world.meaning.embed_query("first"))
        embedder.given.clear()
        assert "within 0.01 s" in reason(await world.meaning.embed_query("second"))
        assert embedder.given == []

        world.now += 1.0
        assert "within 0.01 s" in reason(await world.meaning.embed_query("third"))
        embedder.is_slow = False
        world.now += 1.5
        assert reason(await world.meaning.embed_query("fourth"))
        world.now += 0.5
        assert (await world.meaning.embed_query("fifth")).vectors


@pytest.mark.requirement("EMB-11")
async def test_a_long_request_is_compared_as_a_whole_if_its_clauses_are_not_in_time() -> None:
    request = "create a branch of the repository and then send a message to the channel"
    embedder = Embedding(is_slow_with=frozenset({"create a branch of the repository"}))

    async with running(embedder, wanting(timeout=0.05)) as world:
        await world.lists("one")
        await world.until(1)
        await world.settled()

        asked = await world.meaning.embed_query(request)
        embedder.is_slow_with = frozenset()
        again = await world.meaning.embed_query(request)

    assert (len(asked.vectors), asked.notices) == (1, ())
    assert len(again.vectors) == 1 + len(split_clauses(request))


@pytest.mark.requirement("EMB-2")
async def test_the_use_of_vectors_is_noted_each_day_until_their_tools_are_gone() -> None:
    now, catalog = 0.0, make_catalog(make_part("s", "one", "two"))
    store, embedder = MemoryRegistry(clock=lambda: now), Embedding()
    store.save_settings("s", make_settings("s"))
    await embedder.embed([WARM_UP])
    cache = VectorCache(store, embedder, scope="s", batch=2, clock=lambda: now)
    counts: list[int] = []
    query = "SELECT count(*) FROM vectors"

    for day in range(180):
        now = day * 86_400.0
        if day == 90:
            catalog = make_catalog(make_part("s", "one"))
        assert len([one async for one in cache.update(catalog)][-1]) == len(catalog)
        counts += store._database.read(lambda db: db.execute(query).fetchone())

    assert counts[:120] == [2] * 120  # 30 days after the tool has gone
    assert counts[150:] == [1] * 30
    assert len(embedder.given) == 2


@pytest.mark.requirement("EMB-2")
async def test_processes_of_a_registry_embed_each_text_once_also_when_one_was_killed() -> None:
    clock, catalog = Clock(), make_catalog(make_part("s", *"abcdef"))
    store, embedder = MemoryRegistry(), Embedding()
    await embedder.embed([WARM_UP])
    caches = [VectorCache(store, embedder, scope="s", batch=2, clock=clock) for _ in range(2)]
    killed = store.acquire_lease("embedding with counting", "killed")

    async def update(cache: VectorCache) -> None:
        assert len([one async for one in cache.update(catalog)][-1]) == 6

    async with anyio.create_task_group() as tasks:
        for cache in caches:
            tasks.start_soon(update, cache)
        await eventually(lambda: all(cache._turn._seen == killed for cache in caches))
        assert embedder.given == []
        clock.now += 60.0

    assert len(embedder.given) == 6
    lease = store.lease("embedding with counting")
    assert lease is not None
    assert lease.is_free
