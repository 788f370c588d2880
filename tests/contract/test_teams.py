"""What is visible to some teams and users only: how it is written, and what follows."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from discovery_cli.program import cli
from discovery_engine import ConfigurationError, Engine, load_settings
from discovery_server.access_tokens import AccessTokens
from tests.engines import Folder
from tests.factories import make_definition
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


def tools(name: str) -> list[dict[str, Any]]:
    animal = {"zoo": "lion", "farm": "cow"}[name]
    described = {"feed": "Feed", "count": "Count", "find": "Find"}
    return [make_definition(f"{v}_{animal}", f"{d} one {animal}.") for v, d in described.items()]


RULES = (
    {"pattern": "*"},
    {"pattern": "feed*"},
    {"pattern": "!*cow"},
    {"pattern": "zoo:*"},
)
PRINCIPALS = ("team:a", "team:b", "user:c")


def shown(engine: Engine, *principals: str) -> set[str]:
    return {str(entry.key.label) for entry in engine.visible_to(*principals).view.catalog.visible}


@pytest.mark.anyio
@pytest.mark.requirement("SCP-3")
async def test_a_rule_takes_away_and_a_team_more_gives(tmp_path: Path) -> None:
    chance = random.Random(7)
    folder = Folder(tmp_path)
    told = []
    for name in ("zoo", "farm"):
        (tmp_path / name).mkdir()
        told.append(Told.beside(tmp_path / name, *tools(name)).server(name))
    for_keepers = {"pattern": "zoo", "visibleTo": ["team:keepers", "user:anna"]}
    folder.write(*told, serverRules=[for_keepers])

    async with folder.open() as engine:
        await engine.refresh()
        assert {len(shown(engine, one)) for one in ("team:keepers", "user:anna")} == {6}
        others = ((), ("team:anna",), ("user:keepers",), ("team:Keepers",), ("team:keeper",))
        assert {len(shown(engine, *one)) for one in others} == {3}
        assert len(shown(engine, "team:farmers", "team:keepers")) == 6
        for _ in range(10):
            rules = [
                {**chance.choice(RULES), "visibleTo": chance.sample(PRINCIPALS, 2)}
                for _ in range(chance.randrange(1, 4))
            ]
            teams = chance.sample(PRINCIPALS, chance.randrange(3))
            found = []
            for written in (rules, rules[::-1], rules[1:]):
                folder.write(*told, toolRules=written)
                await engine.reload()
                found.append(shown(engine, *teams))
                assert found[-1] <= shown(engine, *teams, chance.choice(PRINCIPALS))
            assert found[0] == found[1] <= found[2]


def comparable(answer: Any) -> object:
    hits = [(hit.entry.key, hit.relevance) for hit in (*answer.hits, *answer.nearest)]
    notices = [notice.message for notice in answer.notices]
    return hits, answer.confidence, answer.alike, answer.uncovered, answer.undone, notices


@pytest.mark.anyio
@pytest.mark.requirement("SCP-2")
@pytest.mark.parametrize(
    "search", [{}, {"embeddings": {"provider": "hash"}}], ids=["words", "meaning"]
)
async def test_a_search_is_as_if_nothing_else_was_there(
    tmp_path: Path, search: dict[str, Any]
) -> None:
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

    assert len(differ) > len(QUERIES) // 2


@pytest.mark.requirement("SCP-3")
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
    rule = {"pattern": "x", "visibleTo": written}
    views = {"one": {"promptRules": [{"pattern": "x", "visibleTo": "team:a"}]}}
    file.write_text(json.dumps({"toolRules": [rule], "views": views}), "utf-8")

    with pytest.raises(ConfigurationError) as refused:
        load_settings(file)
    assert said in str(refused.value)
    assert "toolRules" in str(refused.value)
    assert "of no use in a view" in str(refused.value)


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
