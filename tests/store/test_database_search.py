"""Search in a database (`search.where: database`): specs/postgres.md."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine.catalog import Catalog, ServerPart
from discovery_engine.config.loading.parsing import parse_settings
from discovery_engine.config.settings import SearchSettings, Settings
from discovery_engine.engine.doctor.checks import MOST_IN_MEMORY, search_place
from discovery_engine.errors import ConfigurationError, RegistryUnavailableError
from discovery_engine.rules.rule import Rule
from discovery_engine.search.searcher import build_searcher
from discovery_engine.store.backends import open_database
from discovery_engine.store.postgres import database_searcher, search_documents
from discovery_engine.store.postgres.database_searcher import DatabaseSearcher
from discovery_engine.store.postgres.postgres_registry import PostgresRegistry
from discovery_engine.store.postgres.search_documents import SearchDocuments
from discovery_engine.view.search_answers import SearchAnswer
from discovery_engine.view.searcher_source import SearcherSource
from discovery_engine.view.view import View
from tests.engines import Folder, good
from tests.factories import make_catalog, make_entry, make_part, make_settings
from tests.postgres import PostgresServer
from tests.tcp_proxy import TcpProxy, open_proxy

SCOPE = "/etc/discovery.yaml"
IN_DATABASE = SearchSettings(where="database", shipped_examples=False)
VERBS = ("get", "list", "create", "delete", "send", "search", "update", "run")
NOUNS = (
    "issue",
    "message",
    "file",
    "invoice",
    "calendar event",
    "pull request",
    "playlist",
    "mail",
)
DENY = Rule(patterns=("x",), enabled=False)
WORDS = (
    *VERBS,
    *NOUNS,
    "the",
    "all",
    "remove",
    "ticket",
    "isue",
    "Rechnung",
    "crear",
    "k8s",
    "zebra",
)


@pytest.fixture
def proxy(postgres_server: PostgresServer) -> Iterator[TcpProxy]:
    with open_proxy(postgres_server.port) as opened:
        yield opened


@pytest.fixture
def url(postgres_server: PostgresServer, proxy: TcpProxy) -> str:
    """Of a database, through the proxy."""
    name = postgres_server.create_database().rpartition("/")[2]
    return postgres_server.url(name, port=proxy.port)


@pytest.fixture
def registry(url: str) -> Iterator[PostgresRegistry]:
    with closing(open_database(url, timeout=60.0)) as opened:
        yield opened


class Gateway:
    """What searches a catalog in the database, as one gateway among others."""

    def __init__(self, registry: PostgresRegistry, scope: str = SCOPE) -> None:
        self.registry = registry
        self.scope = scope
        self.documents = SearchDocuments(registry.search, scope)
        self._source: SearcherSource | None = None

    def view(self, *parts: ServerPart, search: SearchSettings = IN_DATABASE) -> View:
        """A view of these servers, after they are saved."""
        catalog = make_catalog(*parts)
        named = make_settings(*catalog.parts, search=search, tool_rules=(DENY,))
        self.registry.save_settings(self.scope, named)
        self.registry.save_parts(self.scope, parts, revision=1)
        return self.seen(catalog, named)

    def seen(self, catalog: Catalog, named: Settings) -> View:
        self._source = SearcherSource(
            catalog, named, previous=self._source, documents=self.documents
        )
        return View(named, catalog, self._source)


def in_memory(view: View) -> View:
    search = replace(view.settings.search, where="memory")
    return View(
        replace(view.settings, search=search),
        view.catalog,
        lambda: build_searcher(view.catalog, search),
    )


def numbers(registry: PostgresRegistry) -> dict[str, int]:
    """The numbers of the documents of servers."""
    query = "SELECT name, id FROM discovery.search_servers WHERE ended_at IS NULL"
    return registry.database.read(lambda db: dict(db.execute(query).fetchall()))


def keys(answer: SearchAnswer) -> list[str]:
    return [str(hit.entry.key) for hit in (*answer.hits, *answer.nearest)]


names = st.builds(
    lambda verb, noun: f"{verb}_{noun}".replace(" ", "_"), *map(st.sampled_from, (VERBS, NOUNS))
)
texts = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
queries = st.one_of(texts, names, st.sampled_from(NOUNS), st.just("create_isue"))


@st.composite
def catalogs(draw: st.DrawFn) -> list[ServerPart]:
    made = []
    for server in draw(st.sets(st.sampled_from(("github", "mail", "music", "bank")), min_size=1)):
        tools = draw(st.dictionaries(names, texts, max_size=12))
        entries = [
            make_entry(
                name,
                server,
                description=text,
                enabled=draw(st.booleans()),
                tags=draw(st.sampled_from(((), ("work",), ("work", "mail")))),
            )
            for name, text in tools.items()
        ]
        made.append(make_part(server, *entries))
    return made


@pytest.mark.requirement("PGS-22")
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    worlds=st.lists(catalogs(), min_size=1, max_size=3),
    asked=st.lists(queries, max_size=4),
    data=st.data(),
)
def test_answers_and_decisions_are_those_of_a_search_in_memory(
    registry: PostgresRegistry,
    worlds: list[list[ServerPart]],
    asked: list[str],
    data: st.DataObject,
) -> None:
    """Whatever is searched for, and after every change of the catalog."""
    gateway = Gateway(registry, scope=os.urandom(8).hex())
    for parts in worlds:
        view = gateway.view(*parts)
        expected = in_memory(view)
        assert isinstance(view.searcher, DatabaseSearcher)
        for query in filter(str.strip, asked):
            server = data.draw(st.sampled_from((None, *view.catalog.parts)))
            tags = data.draw(st.sampled_from(((), ("work",))))
            limit = data.draw(st.sampled_from((None, 1, 3)))
            hidden = data.draw(st.booleans())
            how = {"server": server, "tags": tags, "limit": limit, "include_disabled": hidden}
            found, known = view.search(query, **how), expected.search(query, **how)

            assert found == known
            assert found.decision is known.decision
            for hit in found.hits:
                searcher, local = view.searcher, expected.searcher
                explained = searcher.explain(searcher.analyze(query), hit)
                assert explained == local.explain(local.analyze(query), hit)


def crowd(count: int, *, enabled: bool) -> ServerPart:
    """Tools of one server that fit "send invoice" well, in the order of numbers."""
    tools = [
        make_entry(f"send_invoice_{number}", "bank", description="send invoice", enabled=enabled)
        for number in range(count)
    ]
    return make_part("bank", *tools)


@pytest.mark.requirement("PGS-23")
def test_what_is_hidden_takes_no_place_of_what_is_visible(registry: PostgresRegistry) -> None:
    """More hidden tools fit better than a search looks at first."""
    visible = [
        make_entry(f"note_{number}", "mail", description="may mention an invoice to send at times")
        for number in range(5)
    ]
    # So many that they are not fetched whatever they hold.
    filler = make_part("music", *(f"play_{number}" for number in range(400)))
    view = Gateway(registry).view(crowd(600, enabled=False), make_part("mail", *visible), filler)
    view.searcher.complete()

    answer = view.search("send invoice")

    assert sorted(keys(answer))[:1] == ["mail:note_0"]
    assert not [key for key in keys(answer) if key.startswith("bank")]
    assert answer == in_memory(view).search("send invoice")


@pytest.mark.requirement("PGS-23")
def test_a_server_that_is_asked_for_is_found_below_many_that_fit_better(
    registry: PostgresRegistry,
) -> None:
    others = [make_entry(f"a_{n}", "mail", description="an invoice") for n in range(290)]
    view = Gateway(registry).view(crowd(900, enabled=True), make_part("mail", *others))
    view.searcher.complete()

    answer = view.search("send invoice", server="mail")

    assert len(answer.hits or answer.nearest)
    assert answer == in_memory(view).search("send invoice", server="mail")


@pytest.mark.requirement("PGS-22")
def test_of_a_common_word_the_tools_that_it_matters_most_for_are_read(
    registry: PostgresRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_searcher, "_POSTINGS", 250)
    text = "what may mention, among many other things that are of no matter here, an invoice"
    many = [make_entry(f"note_{n}", "a", description=text) for n in range(400)]
    best = [make_entry(f"invoice_{n}", "b", description="an invoice") for n in range(5)]
    view = Gateway(registry).view(make_part("a", *many), make_part("b", *best))

    answer = view.search("invoice")

    assert keys(answer)[:5] == [f"b:invoice_{n}" for n in range(5)]
    assert answer.decision is in_memory(view).search("invoice").decision


@pytest.mark.requirement("PGS-22")
def test_the_database_reads_no_more_postings_than_it_is_asked_to(
    registry: PostgresRegistry,
) -> None:
    view = Gateway(registry).view(crowd(300, enabled=True))
    searcher = view.searcher
    assert isinstance(searcher, DatabaseSearcher)
    stored = searcher.database_index

    some = stored.nearest({"invoic": 1.0}, 240, postings=100, servers=None)
    everything = stored.nearest({"invoic": 1.0}, 1_000, postings=1_000, servers=None)

    assert (len(some), len(everything)) == (100, 300)


@pytest.mark.requirement("PGS-23")
@pytest.mark.requirement("PGS-22")
def test_hidden_tools_with_all_postings_that_are_read_take_no_place(
    registry: PostgresRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are few, but hold so many terms that at first nothing is read of any other tool."""
    monkeypatch.setattr(database_searcher, "_POSTINGS", 50)
    note = make_entry("note", "mail", description="may mention an invoice to send at times")
    filler = make_part("music", *(f"play_{number}" for number in range(400)))
    view = Gateway(registry).view(crowd(100, enabled=False), make_part("mail", note), filler)

    answer = view.search("send invoice")

    assert keys(answer)[:1] == ["mail:note"]
    assert answer == in_memory(view).search("send invoice")


@pytest.mark.requirement("PGS-24")
def test_only_servers_that_changed_are_written_and_all_gateways_find_them(
    registry: PostgresRegistry, url: str
) -> None:
    parts = [make_part(name, f"{name}_get") for name in ("a", "b", "c")]
    first = Gateway(registry)
    before = first.view(*parts)
    assert keys(before.search("b_get")) == ["b:b_get"]
    known = numbers(registry)
    changed = [parts[0], make_part("b", "send_invoice"), parts[2]]

    with closing(open_database(url, timeout=60.0)) as elsewhere:
        second = Gateway(elsewhere).view(*changed)
        found = second.search("send invoice")
        old = before.search("get of b")  # by the catalog that this gateway still has
        after = first.seen(second.catalog, second.settings).search("send invoice")
    now = numbers(registry)

    assert keys(found) == keys(after) == ["b:send_invoice"]
    assert "b:b_get" in keys(old)
    assert {name for name, number in now.items() if known[name] != number} == {"b"}
    assert found == in_memory(second).search("send invoice")


@pytest.mark.requirement("PGS-24")
def test_tools_that_are_not_indexed_yet_are_found_by_name_and_the_answer_says_so(
    registry: PostgresRegistry,
) -> None:
    """A search indexes some, and waits for no more."""
    parts = [
        make_part(
            name, *(make_entry(f"get_{name}_{n}", name, description="Zebras") for n in range(1_500))
        )
        for name in ("a", "b", "c")
    ]
    view = Gateway(registry).view(*parts)

    early, named = view.search("zebras", limit=5_000), view.search("get_c_7")
    view.searcher.complete()
    late = view.search("zebras", limit=5_000)

    assert {hit.entry.tool.server for hit in early.hits} == {"a"}
    assert keys(named)[:1] == ["c:get_c_7"]
    assert [one.code for answer in (early, named) for one in answer.notices] == [
        "ANSWER_INCOMPLETE",
        "ANSWER_INCOMPLETE",
    ]
    assert late.notices == ()
    assert {hit.entry.tool.server for hit in late.hits} == {"a", "b", "c"}


@pytest.mark.requirement("PGS-24")
def test_a_server_that_is_gone_is_counted_no_more(registry: PostgresRegistry) -> None:
    gateway = Gateway(registry)
    gateway.view(make_part("a", "get_zebra"), make_part("b", "get_file")).search("zebra")
    view = gateway.view(make_part("b", "get_invoice"))

    answer = view.search("zebra file")

    assert answer == in_memory(view).search("zebra file")
    assert [*numbers(registry)] == ["b"]


@pytest.mark.requirement("PGS-24")
def test_documents_that_are_searched_are_kept_from_gateways_that_start_after_quiet_weeks(
    registry: PostgresRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_searcher, "NOTED_EACH", 0.0)
    part = make_part("mail", "send_mail", "read_mail")
    view = Gateway(registry).view(part)
    assert keys(view.search("send mail"))[:1] == ["mail:send_mail"]
    before = numbers(registry)
    query = "UPDATE discovery.search_indexes SET used_at = used_at - interval '6 days'"
    for _ in range(2):
        registry.database.write(lambda db: db.execute(query))
        assert keys(view.search("read mail"))[:1] == ["mail:read_mail"]
        Gateway(registry, "/another/discovery.yaml").view(make_part("notes", "add_note")).search(
            "x"
        )

    assert before.items() <= numbers(registry).items()


@pytest.mark.requirement("PGS-24")
def test_versions_of_the_program_have_an_index_each(
    registry: PostgresRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [make_part("a", "send_invoice")]
    old = Gateway(registry).view(*parts)
    old.search("invoice")
    before = numbers(registry)

    monkeypatch.setattr(search_documents, "FORMAT", search_documents.FORMAT + 1)
    new = Gateway(registry).view(*parts)
    found = new.search("invoice")
    again = old.search("send an invoice")

    assert keys(found) == keys(again) == ["a:send_invoice"]
    query = "SELECT count(*) FROM discovery.search_servers WHERE ended_at IS NULL"
    assert registry.database.read(lambda db: db.execute(query).fetchone()) == (2,)
    assert before["a"]


@pytest.mark.requirement("PGS-26")
def test_a_database_that_is_gone_is_not_missed_and_found_again(url: str, proxy: TcpProxy) -> None:
    with closing(open_database(url, timeout=60.0)) as registry:
        view = Gateway(registry).view(make_part("a", "send_invoice"), make_part("b", "get_file"))
        expected = in_memory(view).search("send invoice", server="a")
        searcher = view.searcher
        assert isinstance(searcher, DatabaseSearcher)
        proxy.close()
        registry.database.timeout = 1.0

        without = view.search("send invoice", server="a")

        assert without == expected
        assert searcher._local
        with pytest.raises(RegistryUnavailableError):
            registry.search.read(lambda db: db.execute("SELECT 1"))


@pytest.mark.requirement("PGS-26")
@pytest.mark.anyio
async def test_an_outage_is_in_the_answer_and_ends_with_it(
    url: str, proxy: TcpProxy, tmp_path: Path
) -> None:
    folder = Folder(tmp_path)
    database = {"url": "${DATABASE_URL}"}
    folder.write(good(), registry=database, name="team", search={"where": "database"})
    with anyio.fail_after(180):
        async with folder.open(environ={**os.environ, "DATABASE_URL": url}) as engine:
            await engine.refresh()
            well = await engine.search("echo a text")
            searcher = engine.view.searcher
            proxy.hold()
            sick = await engine.search("echo the text")
            proxy.release()
            again = await engine.search("echo this text")
            while again.notices:
                await engine.apply_decisions()  # as the feed of changes has it done
                again = await engine.search("echo this text")

    assert isinstance(searcher, DatabaseSearcher)
    assert keys(well)[:1] == keys(sick)[:1] == keys(again)[:1] == ["good:echo"]
    assert (well.notices, [one.code for one in sick.notices]) == ((), ["REGISTRY_UNAVAILABLE"])
    assert searcher._local is None


@pytest.mark.requirement("PGS-22")
def test_a_gateway_holds_no_terms_of_tools(registry: PostgresRegistry) -> None:
    tools = [make_entry(f"get_{n}", "a", description=f"word{n} other{n}") for n in range(300)]
    view = Gateway(registry).view(make_part("a", *tools))

    view.search("word7 other8")
    searcher = view.searcher

    assert isinstance(searcher, DatabaseSearcher)
    assert [dict(level.postings.lists) for level in searcher.index.levels] == [{}]
    assert searcher._local is None
    lists = in_memory(view).searcher.index.levels[0].postings.lists
    assert len(lists) > 300


@pytest.mark.requirement("PGS-28")
def test_a_database_must_be_configured_to_be_searched() -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_settings(b"search: {where: database}", file="discovery.yaml")
    found = parse_settings(
        b"registry: {url: '${DATABASE_URL}'}\nsearch: {where: database}", file="discovery.yaml"
    )

    [problem] = refused.value.problems
    assert re.search("registry.*database", problem.message)
    assert "registry: {url" in problem.hint
    assert found.search.is_in_database
    assert not Settings().search.is_in_database


@pytest.mark.requirement("PGS-28")
def test_the_doctor_recommends_the_database_for_more_tools_than_memory_is_for() -> None:
    few, many = MOST_IN_MEMORY, MOST_IN_MEMORY + 1

    found = [
        search_place(SearchSettings(where=w), n)
        for w in ("memory", "database")
        for n in (few, many)
    ]

    assert [one.level for one in found] == ["good", "note", "good", "good"]
    assert "200,001 tools" in found[1].message
    assert "search: {where: database}" in found[1].hint
    assert "in the database; to 200,000, memory is faster" in found[2].message
    assert found[3].message == "200,001 tools, in the database"
