"""What is visible to some teams and users only: how it is written, and what follows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_cli.program import cli
from discovery_engine._util.json import JSONObject
from discovery_engine.config.loading.loader import load_settings
from discovery_engine.config.serialization import serialize
from discovery_engine.errors import ConfigurationError
from discovery_engine.rules.principals import PrincipalError
from discovery_engine.rules.rule import Rule
from discovery_engine.runtime.searcher_source import SearcherSource
from discovery_engine.runtime.visible_views import VisibleViews
from discovery_engine.search.searcher import build_searcher
from discovery_engine.view.scope import Scope
from discovery_engine.view.search_answers import SearchAnswer
from discovery_engine.view.view import View
from discovery_server.access_tokens import AccessTokens
from discovery_server.shown_engines import ShownEngines
from discovery_server.token_limits import NO_LIMITS
from tests.engines import Folder
from tests.factories import make_catalog, make_definition, make_part, make_server, make_settings
from tests.rows import rows
from tests.told import Told

QUERIES = (
    "feed the lion",
    "feed a cow",
    "lion",
    "milk",
    "feed_lion",
    "unfed lons",
    "count animals",
)
PRINCIPALS = st.sampled_from(["team:a", "team:b", "user:c"])
RULES = st.builds(
    Rule,
    patterns=st.sampled_from([(), ("feed*",), ("!*cow",), ("zoo:*",)]),
    visible_to=st.lists(PRINCIPALS, max_size=2, unique=True).map(tuple),
)


def tools(name: str) -> list[JSONObject]:
    animal = {"zoo": "lion", "farm": "cow"}[name]
    described = {"feed": "Feed", "count": "Count", "find": "Find"}
    return [make_definition(f"{v}_{animal}", f"{d} one {animal}.") for v, d in described.items()]


def world(*rules: Rule, **servers: Any) -> View:
    names = ("zoo", "farm")
    settings = make_settings(*(make_server(one, **servers.get(one, {})) for one in names))
    settings = replace(settings, tool_rules=rules)
    parts = [make_part(one, *(tool["name"] for tool in tools(one))) for one in names]
    catalog = make_catalog(*parts)
    return View(settings, catalog, lambda: build_searcher(catalog, settings.search))


def shown(views: VisibleViews, *principals: str) -> set[str]:
    return {str(entry.key.label) for entry in views.view(frozenset(principals)).catalog.visible}


@pytest.mark.requirement("SCP-3")
@given(st.lists(RULES, max_size=4), st.sets(PRINCIPALS), PRINCIPALS, RULES)
def test_a_rule_takes_away_and_a_team_more_gives(
    rules: list[Rule], teams: set[str], another: str, further: Rule
) -> None:
    views = VisibleViews(lambda: world(*rules))
    found = shown(views, *teams)

    assert found <= shown(views, *teams, another)
    assert shown(VisibleViews(lambda: world(*rules, further)), *teams) <= found
    assert shown(VisibleViews(lambda: world(*reversed(rules))), *teams) == found


@pytest.mark.requirement("SCP-1", "SCP-3")
def test_a_server_is_visible_to_each_of_its_teams_and_users() -> None:
    views = VisibleViews(lambda: world(zoo={"visible_to": ("team:keepers", "user:anna")}))

    assert {len(shown(views, one)) for one in ("team:keepers", "user:anna")} == {6}
    others = ((), ("team:anna",), ("user:keepers",), ("team:Keepers",), ("team:keeper",))
    assert {len(shown(views, *one)) for one in others} == {3}
    assert len(shown(views, "team:farmers", "team:keepers")) == 6


@pytest.mark.requirement("SCP-5")
def test_without_any_reservation_the_view_is_the_very_same() -> None:
    whole = world()

    assert VisibleViews(lambda: whole).view(frozenset({"team:a"})) is whole


@pytest.mark.thorough
@pytest.mark.requirement("SCP-6")
def test_those_who_see_the_same_share_it_and_what_is_kept_is_bounded() -> None:
    whole = world(zoo={"visible_to": ("team:keepers",)})
    views = VisibleViews(lambda: whole)

    catalogs = {id(views.view(frozenset({f"user:{number}"})).catalog) for number in range(100)}

    assert len(catalogs) == 1
    many = [Rule((f"feed_{at}",), visible_to=(f"user:{at}",)) for at in range(100)]
    crowded = VisibleViews(lambda: whole)
    whole = world(*many)
    for at in range(100):
        crowded.view(frozenset({f"user:{at}"}))
    assert len(crowded) == 32


@pytest.mark.requirement("SCP-6")
def test_those_from_whom_nothing_is_hidden_share_what_the_owner_has() -> None:
    whole = world(zoo={"visible_to": ("team:keepers",)})
    views = VisibleViews(lambda: whole)

    everything = views.view(frozenset({"team:keepers", "team:farmers"}))

    assert everything.catalog is whole.catalog
    assert everything.open_searcher is whole.open_searcher
    assert not everything.is_for_owner
    assert views.view(frozenset({"team:farmers"})).catalog is not whole.catalog


@pytest.mark.requirement("SCP-6")
def test_a_change_of_what_is_reserved_changes_nothing_for_others() -> None:
    whole = world(zoo={"visible_to": ("team:keepers",)})
    views = VisibleViews(lambda: whole)
    before = views.view(frozenset())
    whole = replace(whole, catalog=whole.catalog.with_parts([make_part("zoo", "new")]))
    between = views.view(frozenset())
    whole = replace(whole, catalog=whole.catalog.with_parts([make_part("farm", "new")]))
    after = views.view(frozenset())

    assert between.catalog is before.catalog
    assert isinstance(between.open_searcher, SearcherSource)
    assert between.open_searcher is before.open_searcher
    assert after.catalog.revision > before.catalog.revision
    assert [str(entry.tool.name) for entry in after.catalog] == ["new"]


def comparable(answer: SearchAnswer) -> object:
    hits = [(hit.entry.key, hit.relevance) for hit in (*answer.hits, *answer.nearest)]
    notices = [notice.message for notice in answer.notices]
    return hits, answer.confidence, answer.alike, answer.uncovered, answer.undone, notices


@pytest.mark.anyio
@pytest.mark.requirement("SCP-7")
@pytest.mark.parametrize(
    "search", [{}, {"embeddings": {"provider": "hash"}}], ids=["words", "meaning"]
)
async def test_a_search_is_as_if_nothing_else_was_there(tmp_path: Path, search: JSONObject) -> None:
    folders = [Folder(tmp_path / name) for name in ("reserving", "without")]
    for folder, names in zip(folders, (["zoo", "farm"], ["farm"]), strict=True):
        folder.data.mkdir(parents=True)
        told = []
        for name in names:
            (folder.path / name).mkdir()
            told.append(Told.beside(folder.path / name, *tools(name)).server(name))
        reserved = [{"pattern": "zoo", "visibleTo": "team:keepers"}]
        folder.write(*told, search=search, serverRules=reserved)
    async with folders[0].open() as engine, folders[1].open() as twin:
        for one in (engine, twin):
            await one.refresh()
            await one.wait_embedded(timeout=60)
        other, own = engine.visible_to("team:farmers"), engine.visible_to("team:keepers")
        for query in QUERIES:
            answer = comparable(await other.search(query))
            assert answer == comparable(await twin.search(query)), query
        differ = [
            query
            for query in QUERIES
            if comparable(await own.search(query)) != comparable(await other.search(query))
        ]
        within = await other.within(Scope(rules=(Rule(("feed*",), enabled=True),))).search("feed")

    assert len(differ) > len(QUERIES) // 2
    assert {hit.entry.key.server for hit in within.hits} == {"farm"}


@pytest.mark.requirement("SCP-1")
@rows(
    ("written", "said"),
    [
        pytest.param([], "names no team and no user", id="an empty list"),
        pytest.param(None, "has no value", id="nothing"),
        pytest.param("payments", "names no team and no user", id="without a kind"),
        pytest.param("group:payments", "names no team and no user", id="another kind"),
        pytest.param("team:", "names no team and no user", id="without a name"),
        pytest.param(["team:a", "global"], "names no team and no user", id="a word for all"),
        pytest.param("team:*", "names no team and no user", id="a pattern"),
    ],
)
def test_what_could_be_meant_otherwise_is_refused(
    tmp_path: Path, written: object, said: str
) -> None:
    file = tmp_path / "discovery.yaml"
    file.write_text(json.dumps({"toolRules": [{"pattern": "x", "visibleTo": written}]}), "utf-8")

    with pytest.raises(ConfigurationError) as refused:
        load_settings(file)
    assert said in str(refused.value)
    assert "toolRules" in str(refused.value)


@pytest.mark.requirement("SCP-1")
def test_a_rule_of_a_view_reserves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "discovery.yaml"
    rules = [{"pattern": "x", "visibleTo": "team:a"}]
    file.write_text(json.dumps({"views": {"one": {"promptRules": rules}}}), "utf-8")

    with pytest.raises(ConfigurationError, match="of no use in a view"):
        load_settings(file)


@pytest.mark.requirement("SCP-1")
def test_it_is_read_written_and_read_the_same(tmp_path: Path) -> None:
    file = tmp_path / "discovery.yaml"
    rule = {"pattern": "x", "visibleTo": ["team:a", "user:anna@example.com"]}
    kinds = ("serverRules", "toolRules", "resourceRules", "promptRules")
    servers = {"zoo": {"command": "zoo", "visibleTo": "team:keepers"}}
    file.write_text(json.dumps({"servers": servers, **{kind: [rule] for kind in kinds}}), "utf-8")

    settings = load_settings(file)
    written = serialize(settings)

    assert settings.principals == {"team:a", "user:anna@example.com", "team:keepers"}
    assert written["servers"]["zoo"]["visibleTo"] == ("team:keepers",)
    assert [written[kind][0]["visibleTo"] for kind in kinds] == [tuple(rule["visibleTo"])] * 4


@pytest.mark.requirement("SCP-20")
def test_a_token_stands_for_teams_and_a_user(tmp_path: Path) -> None:
    def run(*words: str) -> Result:
        return CliRunner().invoke(cli, ["--config", str(file), "--data-dir", data, *words])

    file, data = tmp_path / "discovery.yaml", str(tmp_path / "data")
    file.write_text('toolRules: [{pattern: x, visibleTo: "team:payments"}]', "utf-8")
    made = run(
        "token", "create", "--team", "sales", "--team", "payments", "--user", "anna", "--json"
    )
    guessed = run("token", "create", "--team", "paymnts")
    listed = run("token", "list")
    refused = [run("token", "create", "--team", "a b"), run("token", "create", "--user", "team:a")]
    both = run("token", "create", "--team", "a", "--scope", "admin")
    form = json.loads(made.stdout)

    assert form["principals"] == ["team:payments", "team:sales", "user:anna"]
    assert "what team:payments, team:sales, user:anna may see" in " ".join(listed.stdout.split())
    assert "names team:paymnts; did you mean team:payments?" in " ".join(guessed.stderr.split())
    assert "team:payments" not in made.stderr
    for result in (*refused, both):
        assert result.exit_code == 2
    assert "--team" in refused[0].stderr
    assert len(AccessTokens(Path(data) / "tokens.json").all()) == 2


@pytest.mark.requirement("SCP-21")
def test_a_program_that_knows_no_teams_takes_the_file_for_a_newer_one(tmp_path: Path) -> None:
    tokens = AccessTokens(tmp_path / "tokens.json")
    tokens.create()
    before = json.loads(tokens.path.read_text("utf-8"))["version"]
    value, made = tokens.create(principals=["team:a"])
    during = json.loads(tokens.path.read_text("utf-8"))["version"]
    found = AccessTokens(tokens.path).find(value.encode())
    tokens.revoke(made.id)

    assert (before, during, json.loads(tokens.path.read_text("utf-8"))["version"]) == (1, 3, 1)
    assert found == made
    with pytest.raises(PrincipalError):
        tokens.create(principals=["payments"])


@pytest.mark.anyio
@pytest.mark.requirement("SCP-4", "SCP-5")
async def test_an_unrestricted_gateway_gives_every_token_the_engine_itself(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write()
    async with folder.open() as engine:
        engines = ShownEngines(engine)
        before = engines.of(None, NO_LIMITS, frozenset({"team:a"}))
        folder.write(promptRules=[{"pattern": "x", "visibleTo": "team:a"}])
        await engine.reload()
        restricted = engines.of(None, NO_LIMITS, frozenset())
        owner = engines.of(None, NO_LIMITS, None)

    assert before is owner is engine
    assert restricted is not engine
