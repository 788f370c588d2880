"""Views: different tools for different clients of one process."""

from __future__ import annotations

import gc
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine.catalog import ServerPart
from discovery_engine.config.settings import SearchSettings
from discovery_engine.errors import NotFoundError, ViewNotFoundError
from discovery_engine.rules.rule import Rule
from discovery_engine.search.searcher import build_searcher
from discovery_engine.tools.model import ServerName, ToolName
from discovery_engine.view.scope import Scope, ScopedCatalogs
from discovery_engine.view.scoped_catalog import ScopedCatalog
from discovery_engine.view.view import View
from discovery_server.access_tokens import AccessTokens
from discovery_server.gateway import Gateway
from tests.contract.discovery import Discovery
from tests.contract.test_answer_cost import search_work
from tests.contract.test_modes import client_of
from tests.engines import Folder
from tests.factories import make_catalog, make_definition, make_entry, make_part
from tests.forked import Preloaded
from tests.kinds import thinned
from tests.told import Told
from tests.unit.server.fakes import make_view
from tests.unit.server.wire import call

NAMES = ["get_cat", "get_dog", "wash_cat", "wash_dog", "delete_all"]
PATTERNS = st.sampled_from(["*", "get_*", "!get_*", "*cat", "zoo:*", "!*dog", "/^wash/", "nothing"])
SCOPES = st.builds(
    Scope,
    rules=st.lists(
        st.builds(
            Rule,
            patterns=st.lists(PATTERNS, max_size=2).map(tuple),
            enabled=st.none() | st.booleans(),
            tags=st.just(("read",)),
        ),
        max_size=3,
    ).map(tuple),
    servers=st.lists(st.sampled_from(["zoo", "far*", "!zoo", "none"]), max_size=2).map(tuple),
    tags=st.lists(st.sampled_from(["read", "write", "none"]), max_size=2).map(tuple),
)
ENTRIES = st.tuples(st.booleans(), st.lists(st.sampled_from(["read", "write"]), unique=True))
WORLDS = st.fixed_dictionaries(
    {server: st.fixed_dictionaries(dict.fromkeys(NAMES, ENTRIES)) for server in ("zoo", "farm")}
)


def world(tools: dict[str, dict[str, tuple[bool, list[str]]]]) -> View:
    return make_view(
        *(
            make_part(
                server,
                *(
                    make_entry(name, server, enabled=enabled, tags=tags, description=f"Do {name}.")
                    for name, (enabled, tags) in entries.items()
                ),
            )
            for server, entries in tools.items()
        )
    )


@pytest.mark.requirement("VIEW-1", "VIEW-2")
@given(WORLDS, SCOPES)
def test_view_shows_nothing_that_is_hidden_without_it(tools: Any, scope: Scope) -> None:
    whole = world(tools)
    visible = {entry.key for entry in whole.catalog.visible}

    shown = ScopedCatalogs(scope).view(whole)

    within = {entry.key for entry in shown.catalog.visible}
    assert within <= visible
    found = shown.search("do get wash delete cat dog all", limit=50)
    assert {hit.entry.key for hit in (*found.hits, *found.nearest)} <= within
    for key in visible - within:
        with pytest.raises(NotFoundError) as refused:
            shown.details(key.server, key.tool)
        assert {str(key), key.tool}.isdisjoint(refused.value.nearest)
        assert not any(str(key) in str(notice) for notice in found.notices)


@pytest.mark.requirement("VIEW-4")
def test_view_judges_changed_servers_only_and_shares_whole_parts() -> None:
    whole = world({"zoo": {n: (True, []) for n in NAMES}, "farm": {"get_cow": (True, [])}})
    scoped = ScopedCatalogs(Scope(rules=(Rule(patterns=("*cat",), enabled=False),)))

    before = scoped.view(whole).catalog
    grown = whole.catalog.with_parts([make_part("farm", "get_cow", "get_hen")])
    after = scoped.view(replace(whole, catalog=grown)).catalog

    assert isinstance(before, ScopedCatalog)
    assert isinstance(after, ScopedCatalog)
    zoo, farm = ServerName("zoo"), ServerName("farm")
    assert before.part(farm) is whole.catalog.part(farm)
    assert after.shown[zoo] is before.shown[zoo]
    assert [len(after.part(name).entries) for name in (zoo, farm)] == [3, 2]
    entry = before.part("zoo").entries[0]
    assert any(entry is one for one in whole.catalog.part("zoo").entries)


def views(**of: JSONObject) -> JSONObject:
    return {"views": of}


async def opened_folder(folder: Folder, **sections: Any) -> None:
    for name, tools in {"zoo": NAMES, "farm": ["get_cow"]}.items():
        (folder.path / name).mkdir()
        Told.beside(folder.path / name, *(make_definition(t, f"Do {t}.") for t in tools))
    told = [Told(folder.path / name / "told.json").server(name) for name in ("zoo", "farm")]
    folder.write(*told, **sections)


@pytest.mark.anyio
@pytest.mark.requirement("VIEW-2", "VIEW-4")
async def test_engine_in_a_view_reads_and_calls_what_the_view_shows(folder: Folder) -> None:
    cats = {"rules": [{"pattern": "*cat", "enabled": True}], "searchLimit": 1}
    await opened_folder(folder, **views(cats=cats, farmers={"servers": ["farm"]}))
    async with folder.open() as engine:
        await engine.refresh()
        shown, farm = engine.in_view("cats"), engine.in_view("farmers")

        found = await shown.search("do wash dog")
        result = await shown.execute("zoo", "wash_cat", {})
        with pytest.raises(NotFoundError):
            await shown.execute("zoo", "wash_dog", {})
        with pytest.raises(NotFoundError):
            await farm.list_tools("zoo")
        with pytest.raises(ViewNotFoundError) as refused:
            engine.in_view("cat")

        assert [hit.entry.tool.name for hit in found.hits] in ([], ["wash_cat"])
        assert result["content"][0]["text"] == "wash_cat"
        assert [server.name for server in farm.view.servers()] == ["farm"]
        assert shown.settings.search.limit == 1
        assert refused.value.nearest == ("cats",)
        assert shown.view.searcher is engine.view.searcher
        assert Told(folder.path / "zoo" / "told.json").starts == 1


@pytest.mark.anyio
@pytest.mark.requirement("VIEW-3")
async def test_gateway_of_a_view_knows_no_other_view(folder: Folder) -> None:
    of = views(cats={"rules": [{"pattern": "*cat", "enabled": True}], "mode": "direct"})
    await opened_folder(folder, **of)
    async with folder.open() as engine:
        await engine.refresh()
        gateway = Gateway(engine)
        cats = gateway.in_view("cats")
        assert cats is not None
        async with client_of(cats) as client:
            listed = await client.tools()
            hidden = await client.called("zoo__wash_dog")
        async with client_of(gateway) as client:
            everything = await client.ask(
                call(7, "execute_tool", tool="zoo:wash_dog", arguments={})
            )

    assert listed == ["zoo__get_cat", "zoo__wash_cat"]
    assert "error" in hidden
    assert everything["result"]["content"][0]["text"] == "wash_dog"
    assert gateway.in_view("dogs") is None
    assert cats.in_view("cats") is None
    assert gateway.in_view("cats") is cats


@pytest.mark.anyio
@pytest.mark.requirement("VIEW-5")
async def test_user_is_another_client_in_each_view(folder: Folder) -> None:
    await opened_folder(folder, **views(one={}, other={}))
    async with folder.open() as engine:
        gateway = Gateway(engine)
        one, other = gateway.in_view("one"), gateway.in_view("other")
        assert one is not None
        assert other is not None
        ids = {g.client_id("someone") for g in (gateway, one, other)}

    assert len(ids) == 3


@pytest.mark.anyio
@pytest.mark.requirement("VIEW-7")
async def test_view_that_was_removed_shows_nothing(folder: Folder) -> None:
    await opened_folder(folder, **views(cats={"servers": ["zoo"]}))
    async with folder.open() as engine:
        await engine.refresh()
        shown = engine.in_view("cats")
        assert len(list(shown.view.catalog)) == 5
        written = json.loads(folder.config.read_text("utf-8"))
        folder.config.write_text(json.dumps({**written, "views": {}}), "utf-8")
        await engine.reload()

        assert list(shown.view.catalog) == []
        assert shown.view.servers() == ()


@pytest.mark.anyio
@pytest.mark.requirement("VIEW-7")
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_client_of_a_removed_view_gets_an_error_until_it_is_back(
    folder: Folder, era: str
) -> None:
    await opened_folder(folder, **views(cats={"servers": ["zoo"], "mode": "direct"}))
    async with folder.open() as engine:
        await engine.refresh()
        gateway = Gateway(engine.in_view("cats"), view="cats")
        written = json.loads(folder.config.read_text("utf-8"))
        async with client_of(gateway, era) as client:
            folder.config.write_text(json.dumps({**written, "views": {}}), "utf-8")
            await engine.reload()
            refused = [
                await client.asked("tools/list"),
                await client.called("zoo__wash_cat"),
                await client.asked("resources/read", uri="discovery://docs/usage-guide"),
            ]
            folder.config.write_text(json.dumps(written), "utf-8")
            await engine.reload()
            back = await client.tools()

    for answer in refused:
        assert answer["error"]["message"].startswith("VIEW_NOT_FOUND: the view 'cats'")
    assert "zoo__wash_cat" in back


@pytest.fixture
def discovery(tmp_path: Path, forked: Preloaded) -> Discovery:
    return Discovery(tmp_path, forked)


VIEW = """
views:
  quiet: {rules: [{pattern: "*o*", enabled: false}], tags: []}
"""


@pytest.mark.requirement("VIEW-6")
def test_commands_show_what_a_view_shows(discovery: Discovery) -> None:
    discovery.configure(rules=VIEW)

    listed = json.loads(discovery("list", "--tools", "--view", "quiet", "--json").out)
    found = discovery("search", "say it again echo", "--view", "quiet", "--json")
    hidden = discovery("why", "demo:echo", "--view", "quiet").out
    shown = discovery("why", "demo:delete_all", "--view", "quiet").out
    unknown = discovery("list", "--view", "quit")

    assert listed["servers"][0]["tools"] == ["delete_all"]
    assert "echo" not in {result["tool"] for result in found.json["results"]}
    assert "view quiet: hidden, rule 1 (" in hidden
    assert "view quiet: shown" in shown
    assert unknown.code == 2
    assert "no view 'quit'" in unknown.err
    assert "did you mean 'quiet'? `views:` has their names" in unknown.err


@pytest.mark.requirement("VIEW-20", "VIEW-21")
def test_token_is_created_listed_and_revoked(discovery: Discovery) -> None:
    discovery.configure(rules=VIEW)

    made = discovery("token", "create", "--view", "quiet", "--expires", "30d", "--name", "ci")
    also = discovery("token", "create", "--json").json
    unknown = discovery("token", "create", "--view", "quit")
    text, listed = discovery("token", "list"), discovery("token", "list", "--json").json["tokens"]
    wrong = discovery("token", "revoke", "ci", "nobody")
    revoked = discovery("token", "revoke", "ci", "--json").json["revoked"]
    left = discovery("token", "list", "--json").json["tokens"]

    value = made.out.strip()
    assert value.startswith("discovery_")
    assert "view quiet, valid until" in made.err
    assert also["token"].startswith("discovery_")
    assert also["scopes"] == ["call", "read"]
    assert unknown.code == 2
    assert "did you mean 'quiet'?" in unknown.err
    assert [(one["name"], one["view"]) for one in listed] == [("ci", "quiet"), ("", None)]
    assert listed[0]["expires_at"] - listed[0]["created_at"] == 30 * 86_400
    assert value not in text.out + json.dumps(listed)
    assert wrong.code == 2
    assert "`discovery token list` shows them" in wrong.err
    assert [one["name"] for one in revoked] == ["ci"]
    assert [one["id"] for one in left] == [also["id"]]


@pytest.mark.requirement("VIEW-23")
def test_a_damaged_token_is_shown_and_revoked_and_spoils_no_other(discovery: Discovery) -> None:
    discovery.configure()
    discovery("token", "create", "--name", "first")
    good = discovery("token", "create", "--name", "good").out.strip().encode()
    path = discovery.home / "data" / "tokens.json"
    document = json.loads(path.read_text("utf-8"))
    first, last = document["tokens"]
    damages: list[JSONObject] = [
        {"digest": "\u00e9" * 64},
        {"digest": "ab"},
        {"digest": ""},
        {"digest": 5},
        {"created_at": 1e300},
        {"expires_at": -1e300},
        {"scopes": "read"},
        {"limits": {"tools": ["/(/"]}},
        {"principals": ["nobody"]},
    ]
    rows = [{**first, "id": f"d{at}", **damage} for at, damage in enumerate(damages)]
    odd = [{"digest": "ab"}, 7, {"id": "x", "name": []}]
    path.write_text(json.dumps({**document, "tokens": [*rows, *odd, last]}))
    tokens = AccessTokens(path)
    valid = tokens.find(good)
    text, listed = discovery("token", "list").out, discovery("token", "list", "--json").json
    ids = [token["id"] for token in listed["tokens"] if token["is_damaged"]]
    opened = [damaged for damaged in ids if tokens.is_valid(damaged)]
    revoked = discovery("token", "revoke", *ids)
    left = discovery("token", "list", "--json").json["tokens"]

    assert valid
    assert tokens.is_valid(valid.id)
    assert ids == [row["id"] for row in rows] + ["damaged-10", "damaged-11", "damaged-12"]
    assert opened == []
    assert "damaged; `discovery token revoke d0` removes it" in text
    assert revoked.code == 0
    assert [(token["name"], token["is_damaged"]) for token in left] == [("good", False)]


@pytest.mark.requirement("VIEW-21")
@pytest.mark.parametrize("when", ["soon", "0d", "-1d", "2020-01-01", "1y", "12"])
def test_token_needs_a_moment_in_the_future(discovery: Discovery, when: str) -> None:
    discovery.configure()

    refused = discovery("token", "create", "--expires", when)

    assert refused.code == 2
    assert discovery("token", "list", "--json").json["tokens"] == []


@pytest.mark.requirement("VIEW-9")
@given(
    shown=st.sets(st.sampled_from(NAMES), max_size=3),
    query=st.sampled_from(["wash a dog", "get cat", "delete_all", "do all", "read", "zzz"]),
    only=st.sampled_from([None, "zoo"]),
    tags=st.sampled_from([(), ("read",)]),
)
def test_narrow_view_finds_what_a_search_of_all_tools_would_find(
    shown: set[str], query: str, only: str | None, tags: tuple[str, ...]
) -> None:
    whole = ranked_world()
    rules = (Rule(patterns=tuple(sorted(shown)) or ("none",), enabled=True),)
    searcher = whole.searcher

    found = ScopedCatalogs(Scope(rules=rules)).view(whole).search(query, server=only, tags=tags)

    expected = searcher.search(
        searcher.analyze(query),
        limit=10,
        accepts=lambda entry: (
            entry.tool.name in shown
            and only in (None, entry.tool.server)
            and set(tags).issubset(entry.verdict.tags)
        ),
    )
    assert found.hits == expected[: len(found.hits)]
    assert found.nearest == expected[: len(found.nearest)]
    assert found.hits or found.nearest or not expected


@pytest.mark.requirement("VIEW-9")
@pytest.mark.parametrize("pattern", thinned(["/[02468]$/", "/7$/", "/77$/", "/777$/", "/[1-9]$/"]))
def test_search_within_a_view_costs_no_more_than_one_of_all(pattern: str) -> None:
    whole = ranked(
        make_part(
            "s",
            *(
                make_entry(f"t{n:04}", "s", description=f"Read a log file {n % 50}.")
                for n in range(4000)
            ),
        )
    )
    view = ScopedCatalogs(Scope(rules=(Rule(patterns=(pattern,), enabled=True),))).view(whole)

    assert 0 < len(view.catalog) < 4000
    assert search_work(view) < 1.1 * search_work(whole)


def ranked_world() -> View:
    tags = {"zoo": ["read"], "farm": []}
    return ranked(
        *(
            make_part(s, *(make_entry(n, s, description=f"Do {n}.", tags=tags[s]) for n in NAMES))
            for s in tags
        )
    )


def ranked(*parts: ServerPart) -> View:
    """A view whose searcher is the real one."""
    searcher = build_searcher(make_catalog(*parts), SearchSettings())
    return replace(make_view(*parts), open_searcher=lambda: searcher)


@pytest.mark.requirement("VIEW-4")
def test_a_view_within_a_view_shows_what_both_show() -> None:
    whole = ranked_world()
    outer, inner = (
        ScopedCatalogs(Scope(rules=(Rule(patterns=(pattern,), enabled=True),)))
        for pattern in ("*cat", "wash_*")
    )

    both = inner.view(outer.view(whole))

    assert [str(entry.key) for entry in both.catalog] == ["farm:wash_cat", "zoo:wash_cat"]
    assert {report.tool_count for report in both.servers()} == {1}
    assert len(both.search("do wash cat", limit=50).hits) == 2
    assert [entry.key.server for entry in both.catalog.named(ToolName("wash_cat"))] == [
        "farm",
        "zoo",
    ]
    for hidden in ("get_cat", "wash_dog"):
        assert both.catalog.get(ServerName("zoo"), ToolName(hidden)) is None


@pytest.mark.requirement("VIEW-4", "VIEW-8")
def test_change_within_a_view_is_that_of_changed_servers() -> None:
    whole = ranked_world()
    scoped = ScopedCatalogs(Scope(rules=(Rule(patterns=("*cat",), enabled=False),)))
    before = scoped.view(whole).catalog

    hidden = whole.catalog.with_parts([make_part("zoo", *NAMES, "feed_cat")])
    shown = whole.catalog.with_parts([make_part("zoo", *NAMES, "feed_dog")])
    after_hidden, after_shown = (
        scoped.view(replace(whole, catalog=catalog)).catalog for catalog in (hidden, shown)
    )

    assert not list(before.parts_unlike(scoped.view(whole).catalog))
    assert {part.server for part in before.parts_unlike(after_hidden)} == {"zoo"}
    assert not before.diff(after_hidden).added
    assert [str(key) for key in before.diff(after_shown).added] == ["zoo:feed_dog"]
    assert list(before.parts_unlike(whole.catalog)) == list(before.parts.values())


@pytest.mark.requirement("VIEW-4")
def test_memory_of_a_view_is_a_small_part_of_what_it_shows() -> None:
    parts = [
        make_part(f"s{n}", *(f"tool_{i}" for i in range(20)), listed_at=1.0) for n in range(100)
    ]
    whole = ranked(*parts)
    scoped = ScopedCatalogs(Scope(rules=(Rule(patterns=("*3",), enabled=False),)))
    before = ScopedCatalogs(Scope(rules=(Rule(patterns=("*4",), enabled=False),))).view(whole)
    read_all(before)
    tracemalloc.start()

    view = scoped.view(whole)
    read_all(view)

    gc.collect()
    a_tool = tracemalloc.get_traced_memory()[0] / len(whole.catalog)
    tracemalloc.stop()
    assert len(view.catalog) == 1800
    assert a_tool < 60


def read_all(view: View) -> None:
    """Read what answers need of every server."""
    view.search("tool")
    assert view.servers()
    for server in view.catalog.parts:
        assert view.list_tools(server).entries
        view.details(server, "tool_1")
