"""What is visible to some teams and users only: how it is written, and what follows."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from discovery_cli.program import cli
from discovery_engine import ConfigurationError, Engine, load_settings
from discovery_server.access_tokens import AccessTokens
from tests.contract.discovery import Discovery
from tests.engines import Folder
from tests.factories import make_definition
from tests.forked import Preloaded
from tests.rows import rows
from tests.told import Told
from tests.unit.search.embedders.test_http import served


def tools(name: str) -> list[dict[str, Any]]:
    animal = {"zoo": "lion", "farm": "cow"}[name]
    described = {"feed": "Feed", "count": "Count", "find": "Find"}
    return [
        make_definition(f"{v}_{animal}", f"{d} one {animal}.", annotations={"title": d})
        for v, d in described.items()
    ]


RULES = ({"pattern": "*"}, {"pattern": "feed*"}, {"pattern": "!*cow"}, {"pattern": "zoo:*"})
PRINCIPALS = ("team:a", "team:b", "user:c")


def shown(engine: Engine, *principals: str) -> set[str]:
    return {str(entry.key.label) for entry in engine.visible_to(*principals).view.catalog.visible}


@pytest.mark.anyio
@pytest.mark.requirement("SCP-3")
async def test_a_rule_takes_away_and_a_team_more_gives(tmp_path: Path) -> None:
    chance = random.Random(7)
    folder = Folder(tmp_path)
    told, hidden = [], []
    for name in ("zoo", "farm"):
        (tmp_path / name).mkdir()
        told.append(Told.beside(tmp_path / name, *tools(name)).server(name, tags=(name,)))
    for_keepers = {"pattern": "zoo", "visibleTo": ["team:keepers", "user:anna"]}
    folder.write(*told, serverRules=[for_keepers])

    async with folder.open() as engine:
        await engine.refresh()
        assert {len(shown(engine, one)) for one in ("team:keepers", "user:anna")} == {6}
        others = ((), ("team:anna",), ("user:keepers",), ("team:Keepers",), ("team:keeper",))
        assert {len(shown(engine, *one)) for one in others} == {3}
        assert len(shown(engine, "team:farmers", "team:keepers")) == 6
        ann, bob = engine.visible_to("user:ann"), engine.visible_to("user:bob")
        counts = [len([*one.view.catalog.visible]) for one in (ann, bob)]
        folder.write(*told, serverRules=[{"pattern": "zoo", "visibleTo": "user:ann"}])
        await engine.reload()
        counts += [len([*one.view.catalog.visible]) for one in (ann, bob)]
        assert counts == [3, 3, 6, 3]
        team = {"visibleTo": "team:a"}
        for rule in (
            {"serverRules": [{"matchTags": "farm", **team}]},
            {"toolRules": [{"pattern": "*", "server": "farm", **team}]},
            {"toolRules": [{"annotations": {"title": "Feed"}, **team}]},
        ):
            folder.write(*told, **rule)
            await engine.reload()
            hidden.append(shown(engine, "team:a") - shown(engine))
        cows = {f"farm:{verb}_cow" for verb in ("feed", "count", "find")}
        assert hidden == [cows, cows, {"zoo:feed_lion", "farm:feed_cow"}]
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


@pytest.mark.anyio
@pytest.mark.requirement("SCP-2")
async def test_reserved_tools_move_no_other_by_their_words_or_their_meaning(tmp_path: Path) -> None:
    def embed(request: dict[str, Any]) -> tuple[int, bytes]:
        vectors = [[1.0, float("cow" in text), float("Feed" in text)] for text in request["input"]]
        made = [{"index": n, "embedding": vector} for n, vector in enumerate(vectors)]
        return 200, json.dumps({"data": made}).encode()

    folder = Folder(tmp_path)
    (tmp_path / "farm").mkdir()
    animals = Told.beside(tmp_path, *tools("zoo"))
    zoo = animals.server("zoo")
    farm = Told.beside(tmp_path / "farm", *tools("farm"))
    reserving = [{"pattern": "farm*", "visibleTo": "team:farmers"}]
    hits, revisions = [], []
    with served(embed) as (url, _):
        embeddings = {"provider": "http", "url": url, "model": "m", "timeout": 30}
        search = {"minConfidence": 0, "embeddings": embeddings}
        folder.write(zoo, search=search, serverRules=reserving)
        async with folder.open() as engine:
            others = engine.visible_to("team:zoo")
            for reserved in ([], ["farm"], ["farm", "farm2"]):
                servers = zoo, *map(farm.server, reserved)
                folder.write(*servers, search=search, serverRules=reserving)
                await engine.reload()
                await engine.refresh(reserved[-1:] or None)
                await engine.wait_embedded(timeout=60)
                answer = await others.search("feed one cow", limit=9)
                hits.append([(h.entry.tool.name, h.relevance, h.parts) for h in answer.hits])
                revisions.append(others.view.catalog.revision)
            animals.says(*tools("zoo")[:2])
            await engine.refresh(["zoo"])
            left = shown(engine, "team:zoo"), (await others.search("lion", limit=9)).hits
            revisions.append(others.view.catalog.revision)
            other = [{"pattern": "farm2", "visibleTo": "team:zoo"}]
            folder.write(*servers, search=search, serverRules=[*reserving, *other])
            await engine.reload()
            more = shown(engine, "team:zoo"), shown(engine, "team:zoo", "team:farmers")
            everything = [{"pattern": "*", "visibleTo": "team:farmers"}]
            for limit in (2, 3):
                folder.write(*servers, search={**search, "limit": limit}, serverRules=everything)
                await engine.reload()
                assert others.settings.search.limit == limit
            nothing = shown(engine, "team:zoo"), (await others.search("lion")).hits

    assert len(hits[0]) == 3
    assert hits[0] == hits[1] == hits[2]
    assert (len(left[0]), len(left[1])) == (2, 2)
    assert (len(more[0]), len(more[1])) == (2, 8)
    assert nothing == (set(), ())
    assert revisions[2:] == [revisions[1], revisions[1] + 1]


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


RESERVING = """
serverRules: [{pattern: "d*", visibleTo: team:b}]
toolRules: [{pattern: "boom", visibleTo: [team:a, user:c]}, {pattern: "x", visibleTo: team:x}]
"""
OTHER: Mapping[str, object] = {"command": "false", "visibleTo": ["user:c"], "enabled": False}


@pytest.fixture
def discovery(tmp_path: Path, forked: Preloaded) -> Discovery:
    discovery = Discovery(tmp_path, forked)
    discovery.configure(rules=RESERVING, other=OTHER)
    discovery("refresh")
    return discovery


@pytest.mark.requirement("SCP-30")
def test_commands_show_for_whom_something_is_reserved_and_by_what(discovery: Discovery) -> None:
    text, other = discovery("why", "demo:boom").out, discovery("why", "demo:echo").out
    form = discovery("why", "demo:boom", "--json").json["visible_to"]
    listed = discovery("list").err.splitlines()
    before = " ".join(discovery("doctor", "--exit-zero").out.split())
    for kind, name in (("team", "a"), ("team", "b"), ("user", "c"), ("team", "x")):
        discovery("token", "create", f"--{kind}", name)
    after = " ".join(discovery("doctor", "--exit-zero").out.split())

    lines = [" ".join(line.split()) for line in text.splitlines()]
    of_server = next(line for line in lines if line.startswith("visible to"))
    of_rule = next(line for line in lines if line.startswith("and to"))
    assert re.match(r"visible to team:b server rule 1 \S*discovery\.yaml:3:", of_server)
    assert re.match(r"and to team:a or user:c tool rule 1 \S*discovery\.yaml:4:", of_rule)
    assert "user:c" not in other
    assert [(one["by"], one["principals"]) for one in form] == [
        ("server rule 1", ["team:b"]),
        ("tool rule 1", ["team:a", "user:c"]),
    ]
    assert "demo: visible to team:b" in listed
    assert "other: visible to user:c" in listed
    missing = "no access token stands for team:a, team:b, team:x, user:c"
    assert f"{missing}: the owner alone sees what is theirs [PRINCIPAL_WITHOUT_TOKEN]" in before
    assert "no access token stands" not in after
