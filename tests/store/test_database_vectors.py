"""Search by meaning in a database with pgvector (`search.where: database`): specs/postgres.md."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import product
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from msgspec.structs import replace

from discovery_engine.catalog import ServerPart
from discovery_engine.engine.vector_cache import StoredVectorCache, VectorCache
from discovery_engine.search.embedders.embedder import CheckedEmbedder, HashEmbedder, Vector
from discovery_engine.search.examples.book import OWN_EXAMPLES
from discovery_engine.search.searcher import build_searcher
from discovery_engine.search.vectors import ToolVectors, Vectors
from discovery_engine.store.backends import open_database
from discovery_engine.store.memory import MemoryRegistry
from discovery_engine.store.postgres import search_vectors
from discovery_engine.store.postgres.postgres_registry import PostgresRegistry
from discovery_engine.store.postgres.search_vectors import StoredVectors
from discovery_engine.store.search_database import NoVectorSearchError
from discovery_engine.tools.model import AppliedOverride, ServerName, Tool
from discovery_engine.view.search_answers import SearchAnswer
from discovery_engine.view.view import View
from tests.engines import Folder, good
from tests.factories import make_entry, make_part, make_tool
from tests.postgres import PostgresServer
from tests.servers.programs import eventually
from tests.store.test_database_search import SCOPE, Gateway, keys
from tests.tcp_proxy import TcpProxy, open_proxy

VERBS = ("get", "list", "create", "delete", "send", "search", "update", "archive")
NOUNS = ("issue", "message", "file", "invoice", "event", "playlist", "mail", "ticket", "branch")
PLACES = ("in a project", "of a customer", "for the team", "by its number", "from last week")
ASKED = (
    "send an invoice of a customer",
    "which messages of the team are from last week",
    "archive the playlist",
    "remove the branch by its number",
    "open tickets, then mail them to a customer",
)


class Meaning:
    """The embedder that is shipped for tests, which counts what it is given."""

    def __init__(self, model: str = "hash", dimensions: int = 64) -> None:
        self._embedder = CheckedEmbedder(HashEmbedder(dimensions))
        self.model = model
        self.dimensions = dimensions
        self.embedded: list[str] = []

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        self.embedded += texts
        return await self._embedder.embed(texts)

    def of(self, text: str) -> tuple[Vector, ...]:
        return tuple(anyio.run(self._embedder.embed, [text]))


async def last(cache: VectorCache, view: View) -> ToolVectors:
    found: list[ToolVectors] = [vectors async for vectors in cache.update(view.catalog)]
    return found[-1]


def in_database(registry: PostgresRegistry, view: View, meaning: Meaning) -> View:
    """The view with the vectors that the database has."""
    cache = StoredVectorCache(registry, meaning, scope=SCOPE, batch=32, book=OWN_EXAMPLES)
    cache.search_in(registry.search, lambda: view.searcher)
    return replace(view, vectors=anyio.run(last, cache, view))


def in_memory(view: View, meaning: Meaning) -> View:
    search = replace(view.settings.search, where="memory")
    cache = VectorCache(MemoryRegistry(), meaning, scope=SCOPE, batch=32)
    return View(
        replace(view.settings, search=search),
        view.catalog,
        lambda: build_searcher(view.catalog, search),
        vectors=anyio.run(last, cache, view),
    )


def ask(view: View, query: str, meaning: Meaning, **how: object) -> SearchAnswer:
    return view.search(query, query_vectors=meaning.of(query), **how)  # type: ignore[arg-type]


def office(
    servers: int = 4, *, enabled: Callable[[int], bool] = lambda _: True
) -> list[ServerPart]:
    """Servers with 360 tools each, some of which have examples."""
    made = []
    for server in range(servers):
        entries = []
        for verb, noun, number in product(VERBS, NOUNS, range(len(PLACES))):
            tool = make_tool(
                f"{verb}_{noun}_{number}",
                f"server{server}",
                description=f"{verb} the {noun} {PLACES[number]} {server}",
            )
            if number == server:
                requests = AppliedOverride(examples=(f"please {verb} my {noun}s",))
                tool = replace(tool, overridden=requests)
            entries.append(make_entry(tool, enabled=enabled(number)))
        made.append(make_part(f"server{server}", *entries))
    return made


def with_pgvector(server: PostgresServer) -> str:
    """The name of a database with pgvector, which a role that is no superuser cannot install."""
    name = server.create_database().rpartition("/")[2]
    with server.admin(name) as admin:
        admin.execute("CREATE EXTENSION vector")
    return name


@pytest.fixture
def registry(postgres_server: PostgresServer) -> Iterator[PostgresRegistry]:
    url = postgres_server.url(with_pgvector(postgres_server))
    with closing(open_database(url, timeout=60.0)) as opened:
        yield opened


@pytest.fixture
def indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small catalogs as if they were large: with an index in the database."""
    monkeypatch.setattr(search_vectors, "LEAST_INDEXED", 0)


def indexes(registry: PostgresRegistry) -> list[str]:
    query = "SELECT indexdef FROM pg_indexes WHERE tablename = 'search_vectors' ORDER BY indexname"
    found = registry.database.read(lambda db: db.execute(query).fetchall())
    return [text for (text,) in found if "hnsw" in text]


@pytest.mark.requirement("PGS-30")
def test_answers_of_few_vectors_are_those_of_memory_with_the_same_words(
    registry: PostgresRegistry,
) -> None:
    meaning = Meaning()
    view = in_database(registry, Gateway(registry).view(*office()), meaning)
    expected = in_memory(view, meaning)

    assert isinstance(view.vectors, StoredVectors)
    assert len(view.vectors) == len(view.catalog) == 1440
    for query in ASKED:
        found, known = ask(view, query, meaning), ask(expected, query, meaning)
        assert found.decision is known.decision
        assert found.confidence == pytest.approx(known.confidence, abs=0.02)
        assert keys(found)[:5] == keys(known)[:5]


@pytest.mark.requirement("PGS-30")
@pytest.mark.usefixtures("indexed")
def test_the_nearest_of_an_index_are_those_of_memory_with_the_same_decision(
    registry: PostgresRegistry,
) -> None:
    meaning = Meaning()
    view = in_database(registry, Gateway(registry).view(*office()), meaning)
    expected = in_memory(view, meaning)

    assert len(indexes(registry)) == 1
    for query in ASKED:
        found, known = ask(view, query, meaning), ask(expected, query, meaning)
        assert found.decision is known.decision
        assert found.confidence == pytest.approx(known.confidence, abs=0.02)
        assert keys(found)[:5] == keys(known)[:5]
        similar = view.vectors and view.vectors.compare(meaning.of(query))
        exact = expected.vectors and expected.vectors.compare(meaning.of(query))
        assert similar
        assert exact
        tools = exact.nearest(10, lambda _: True)
        assert len({*tools} & {*similar.nearest(10, lambda _: True)}) >= 9
        cosines = [exact.cosine(tool) for tool in tools]
        assert [similar.cosine(tool) for tool in tools] == pytest.approx(cosines, abs=0.005)
        assert similar.best == pytest.approx(exact.best, abs=0.005)
        assert similar.mean == pytest.approx(exact.mean, abs=0.02)
        assert similar.lowest == pytest.approx(exact.lowest, abs=0.05)


@pytest.mark.requirement("PGS-23")
@pytest.mark.usefixtures("indexed")
def test_hidden_tools_that_are_nearest_take_no_place(
    registry: PostgresRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than are ever looked at, until only servers with others are."""
    monkeypatch.setattr(search_vectors, "_ROUNDS", (60, 240))
    meaning, query = Meaning(), "zebra crossing"
    hidden = [
        make_entry(f"hidden_{n}", "a", description=f"zebra crossing {n}", enabled=False)
        for n in range(700)
    ]
    visible = [make_entry(f"note_{n}", "b", description=f"a zebra {n}") for n in range(5)]
    parts = (make_part("a", *hidden), make_part("b", *visible), *office(1))
    view = in_database(registry, Gateway(registry).view(*parts), meaning)
    assert view.vectors

    similar = view.vectors.compare(meaning.of(query))
    assert similar
    expected = in_memory(view, meaning)
    exact = expected.vectors and expected.vectors.compare(meaning.of(query))
    assert exact

    def is_visible(tool: Tool) -> bool:
        return not tool.name.startswith("hidden")

    assert similar.nearest(5, is_visible) == exact.nearest(5, is_visible)
    answer, known = ask(view, query, meaning), ask(expected, query, meaning)
    assert keys(answer)[:5] == keys(known)[:5]
    assert not [key for key in keys(answer) if key.startswith("a:")]


@pytest.mark.requirement("PGS-23")
@pytest.mark.usefixtures("indexed")
def test_a_server_that_is_asked_for_is_compared_exactly(
    registry: PostgresRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_vectors, "_ROUNDS", (60, 240))
    meaning, query = Meaning(), "zebra crossing"
    far = [make_entry(f"far_{n}", "far", description=f"an invoice {n}") for n in range(5)]
    near = [make_entry(f"near_{n}", "near", description=f"zebra crossing {n}") for n in range(700)]
    parts = make_part("far", *far), make_part("near", *near)
    view = in_database(registry, Gateway(registry).view(*parts), meaning)
    assert view.vectors

    similar = view.vectors.compare(meaning.of(query))
    assert similar
    found = similar.nearest(10, lambda tool: tool.server == "far", lambda: [ServerName("far")])

    assert sorted(str(tool.key) for tool in found) == [f"far:far_{n}" for n in range(5)]
    answer = ask(view, query, meaning, server="far")
    assert {key.partition(":")[0] for key in keys(answer)} == {"far"}


@pytest.mark.requirement("PGS-24")
@pytest.mark.usefixtures("indexed")
def test_what_one_gateway_has_embedded_no_other_embeds_or_holds(
    registry: PostgresRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = Meaning(), Meaning(), Meaning()
    gateway = Gateway(registry)
    parts = [*office(2), make_part("a", make_entry("send_fax", "a", description="sends a fax"))]
    in_database(registry, gateway.view(*parts), first)

    with monkeypatch.context() as without:
        without.setattr(registry, "vectors", None)  # not even loaded
        view = in_database(registry, Gateway(registry).view(*parts), second)
    changed = [parts[0], make_part("a", make_entry("ring", "a", description="rings a zebra"))]
    after = in_database(registry, gateway.view(*changed), third)

    assert isinstance(view.vectors, StoredVectors)
    assert (len(first.embedded) > 700, second.embedded) == (True, [])
    assert [text for text in third.embedded if "zebra" not in text] == []
    assert keys(ask(after, "rings a zebra", third))[0] == "a:ring"
    assert not [key for key in keys(ask(after, "sends a fax", third)) if key == "a:send_fax"]
    assert len(after.vectors or ()) == len(after.catalog) == 361


@pytest.mark.requirement("PGS-24")
@pytest.mark.usefixtures("indexed")
def test_several_models_are_side_by_side(registry: PostgresRegistry) -> None:
    models = Meaning("one", 64), Meaning("long", 256), Meaning("other", 64)
    view = Gateway(registry).view(*office(1))

    views = [in_database(registry, view, meaning) for meaning in models]

    assert len(indexes(registry)) == len(models)
    for asked, meaning in zip(views, models, strict=True):
        assert asked.vectors
        assert asked.vectors.dimensions == meaning.dimensions
        answer = ask(asked, ASKED[0], meaning)
        assert keys(answer)[:3] == keys(ask(in_memory(view, meaning), ASKED[0], meaning))[:3]


def pass_days(registry: PostgresRegistry, days: int) -> None:
    """As if what is used of search had been noted so many days ago."""
    for table in ("search_indexes", "search_spaces"):
        query = f"UPDATE discovery.{table} SET used_at = used_at - %s * interval '1 day'"
        registry.database.write(lambda db, query=query: db.execute(query.encode(), (days,)))


def models(registry: PostgresRegistry) -> dict[str, int]:
    """The spaces whose vectors are kept, and how many days ago their use was noted."""
    query = """
        SELECT model, (extract(epoch FROM clock_timestamp() - used_at) / 86400)::int
        FROM discovery.search_spaces
        """
    return dict(registry.database.read(lambda db: db.execute(query.encode()).fetchall()))


@pytest.mark.requirement("PGS-24")
@pytest.mark.usefixtures("indexed")
def test_a_start_after_quiet_weeks_keeps_its_own_vectors_and_drops_what_is_not_used(
    registry: PostgresRegistry,
) -> None:
    parts = office(1)
    view = Gateway(registry).view(*parts)
    before = in_database(registry, view, Meaning("one"))
    in_database(registry, view, Meaning("other"))
    pass_days(registry, 8)

    after = in_database(registry, Gateway(registry).view(*parts), Meaning("one"))

    assert isinstance(before.vectors, StoredVectors)
    assert isinstance(after.vectors, StoredVectors)
    assert after.vectors.space == before.vectors.space
    assert models(registry) == {"one": 0}


@pytest.mark.requirement("PGS-24")
@pytest.mark.usefixtures("indexed")
def test_vectors_that_were_dropped_although_they_are_used_are_written_again(
    registry: PostgresRegistry,
) -> None:
    """By a gateway whose clock, or whose network, stood still for a week."""
    meaning, parts = Meaning(), office(1)
    view = Gateway(registry).view(*parts)
    for table in ("search_spaces", "search_indexes"):
        first = in_database(registry, view, meaning)
        expected = keys(ask(first, ASKED[0], meaning))
        query = f"DELETE FROM discovery.{table}"
        registry.database.write(lambda db, query=query: db.execute(query.encode()))

        again = in_database(registry, view, meaning)

        assert isinstance(first.vectors, StoredVectors)
        assert isinstance(again.vectors, StoredVectors)
        assert again.vectors.space != first.vectors.space
        assert len(again.vectors) == len(again.catalog)
        assert keys(ask(again, ASKED[0], meaning)) == expected


@pytest.mark.requirement("PGS-34")
def test_a_database_that_cannot_compare_says_what_its_owner_can_do(
    postgres_server: PostgresServer, registry: PostgresRegistry
) -> None:
    def refused(at: PostgresRegistry, meaning: Meaning) -> str:
        with pytest.raises(NoVectorSearchError) as error:
            in_database(at, Gateway(at).view(*office(1)), meaning)
        return str(error.value)

    name = postgres_server.create_database().rpartition("/")[2]
    with (
        closing(open_database(postgres_server.url(name), timeout=60.0)) as without,
        postgres_server.admin(name) as admin,
    ):
        assert "`CREATE EXTENSION vector`" in refused(without, Meaning())
        admin.execute("CREATE EXTENSION vector SCHEMA public")
        admin.execute("UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'")
        assert "`ALTER EXTENSION vector UPDATE`" in refused(without, Meaning())
        admin.execute("UPDATE pg_extension SET extversion = '0.8.5' WHERE extname = 'vector'")
        assert in_database(without, Gateway(without).view(*office(1)), Meaning()).vectors
    assert "at most 4,000" in refused(registry, Meaning("large", 4_096))


@pytest.fixture
def proxy(postgres_server: PostgresServer) -> Iterator[TcpProxy]:
    with open_proxy(postgres_server.port) as opened:
        yield opened


@pytest.fixture
def embedding(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    folder.write(
        good(),
        registry={"url": "${DATABASE_URL}"},
        name="team",
        search={"where": "database", "embeddings": {"provider": "hash", "timeout": 30}},
    )
    return folder


@pytest.mark.requirement("PGS-34")
@pytest.mark.anyio
async def test_a_gateway_compares_in_memory_where_its_database_cannot(
    postgres_server: PostgresServer, embedding: Folder
) -> None:
    environ = {**os.environ, "DATABASE_URL": postgres_server.create_database()}
    with anyio.fail_after(180):
        async with embedding.open(environ=environ) as engine:
            await engine.refresh()
            await engine.wait_embedded(timeout=120)
            answer = await engine.search("echo a text")

            assert isinstance(engine.view.vectors, Vectors)
            assert answer.hits[0].parts.meaning > 0
            assert answer.notices == ()


@pytest.mark.requirement("PGS-26")
@pytest.mark.anyio
async def test_an_outage_costs_the_meaning_and_no_answer(
    postgres_server: PostgresServer,
    proxy: TcpProxy,
    embedding: Folder,
) -> None:
    name = with_pgvector(postgres_server)
    environ = {**os.environ, "DATABASE_URL": postgres_server.url(name, port=proxy.port)}
    with anyio.fail_after(240):
        async with embedding.open(environ=environ) as engine:
            await engine.refresh()
            await engine.wait_embedded(timeout=120)
            well = await engine.search("echo a text")
            assert isinstance(engine.view.vectors, StoredVectors)
            proxy.hold()
            sick = await engine.search("echo the text")
            proxy.release()
            again = await engine.search("echo this text")
            while again.notices or not again.hits[0].parts.meaning:
                await engine.apply_decisions()  # as the feed of changes has it done
                again = await engine.search("echo this text")

    assert keys(well)[:1] == keys(sick)[:1] == keys(again)[:1] == ["good:echo"]
    assert well.hits[0].parts.meaning > 0
    assert sick.hits[0].parts.meaning == 0
    assert [one.code for one in sick.notices] == ["REGISTRY_UNAVAILABLE"]


@pytest.mark.requirement("PGS-24")
@pytest.mark.anyio
async def test_a_gateway_to_which_nothing_happens_keeps_its_vectors_from_others(
    postgres_server: PostgresServer, embedding: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(model: str) -> None:
        """Another gateway, of another configuration."""
        in_database(registry, Gateway(registry).view(*office(1)), Meaning(model))

    monkeypatch.setattr(StoredVectorCache, "updated_each", 0.01)
    url = postgres_server.url(with_pgvector(postgres_server))
    environ = {**os.environ, "DATABASE_URL": url}
    with anyio.fail_after(240), closing(open_database(url, timeout=60.0)) as registry:
        async with embedding.open(environ=environ) as engine:
            await engine.refresh()
            await engine.wait_embedded(timeout=120)
            [model] = models(registry)
            pass_days(registry, 6)
            await eventually(lambda: models(registry) == {model: 0})
            await anyio.to_thread.run_sync(start, "other")

            pass_days(registry, 8)
            await eventually(lambda: models(registry)[model] == 0)
            await anyio.to_thread.run_sync(start, "third")

            assert models(registry) == {model: 0, "third": 0}
