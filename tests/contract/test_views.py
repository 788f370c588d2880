"""Views: different tools for different clients of one process."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from discovery_engine import OfferingKind, Settings
from discovery_engine.engine import Engine, ScopedEngine
from discovery_engine.errors import NotFoundError
from discovery_server.gateway import Gateway
from tests.contract.discovery import Discovery
from tests.contract.test_modes import client_of
from tests.engines import Folder
from tests.factories import make_definition
from tests.forked import Preloaded
from tests.offering_clients import ask, served
from tests.servers.offerings import World, prompt, resource, template
from tests.told import Told

NAMES = ["get_cat", "get_dog", "wash_cat", "wash_dog", "delete_all"]


async def opened_folder(folder: Folder, **sections: Any) -> None:
    for name, tools in {"zoo": NAMES, "farm": ["get_cow"]}.items():
        (folder.path / name).mkdir()
        Told.beside(folder.path / name, *(make_definition(t, f"Do {t}.") for t in tools))
    told = [Told(folder.path / name / "told.json").server(name) for name in ("zoo", "farm")]
    folder.write(*told, **sections)


PATTERNS = ["*", "get_*", "!get_*", "*cat", "zoo:*", "!*dog", "/^wash/", "nothing"]


def random_view(chance: random.Random) -> dict[str, Any]:
    rules = [
        {"pattern": chance.sample(PATTERNS, 2), "enabled": chance.choice([True, False])}
        for _ in range(chance.randrange(3))
    ]
    servers = chance.choice([["zoo", "farm"], ["far*"], ["zoo"], ["*", "!zoo"]])
    tags = chance.choice([{}, {"tags": ["read"]}, {"tags": ["read", "none"]}])
    return {"rules": rules, "servers": servers, "searchLimit": 50, **tags}


@pytest.mark.anyio
@pytest.mark.requirement("VIEW-2")
async def test_a_view_with_rules_or_tags_names_no_tool_that_cannot_be_used(folder: Folder) -> None:
    (folder.path / "zoo").mkdir()
    told = Told.beside(folder.path / "zoo", *map(make_definition, ["get_cat", "get_cat"]))
    shows_dropped = {"all": {}, "zoo": {"servers": ["zoo"]}}
    hides_dropped = {
        "cats": {"rules": [{"pattern": "*cat", "enabled": True}]},
        "tag": {"tags": ["x"]},
    }
    rules = [{"pattern": "*cat", "tags": ["x"]}]
    folder.write(told.server("zoo"), toolRules=rules, views=shows_dropped | hides_dropped)

    async with folder.open() as engine:
        await engine.refresh()
        counts = {
            name: len(engine.in_view(name).view.catalog.part("zoo").dropped)
            for name in shows_dropped | hides_dropped
        }

    assert counts == dict.fromkeys(shows_dropped, 1) | dict.fromkeys(hides_dropped, 0)


@pytest.mark.anyio
@pytest.mark.requirement("VIEW-2")
async def test_a_view_only_hides_and_what_it_hides_is_unknown(folder: Folder) -> None:
    chance = random.Random(7)
    of = {f"v{number}": random_view(chance) for number in range(30)}
    of |= {"cats": {"rules": [{"pattern": "!*cat", "enabled": False}]}}
    tool_rules = [
        {"pattern": "delete_*", "enabled": False},
        {"pattern": ["get_*", "delete_all"], "tags": ["read"]},
    ]
    await opened_folder(folder, toolRules=tool_rules, search={"limit": 50}, views=of)
    query, shown = "do get wash delete cat dog all", Counter[str]()

    async with folder.open() as engine:
        await engine.refresh()
        visible = {one.key for one in engine.view.catalog.visible}
        ranked = [hit.entry.key for hit in engine.view.search(query).hits]
        assert len(visible) == len(NAMES)  # of `zoo` and `farm`, less one that is disabled
        for name in of:
            view = engine.in_view(name).view
            within = {one.key for one in view.catalog.visible}
            shown[len(within)] += 1
            assert within <= visible
            found = view.search(query)
            hits = [hit.entry.key for hit in found.hits]
            assert hits == [key for key in ranked if key in within][: len(hits)]
            assert {hit.entry.key for hit in found.nearest} <= within
            for key in visible - within:
                with pytest.raises(NotFoundError) as refused:
                    view.details(key.server, key.tool)
                assert {str(key), key.tool}.isdisjoint(refused.value.nearest)
                assert not any(str(key) in str(notice) for notice in found.notices)
                with pytest.raises(NotFoundError):
                    await engine.in_view(name).execute(key.server, key.tool, {})
        result = await engine.in_view("cats").execute("zoo", "wash_cat", {})

    assert result["content"][0]["text"] == "wash_cat"
    assert len(shown) > 3  # views of many kinds
    assert Told(folder.path / "zoo" / "told.json").calls == 1
    assert Told(folder.path / "farm" / "told.json").calls == 0


@pytest.mark.anyio
@pytest.mark.requirement("VIEW-7")
async def test_client_of_a_removed_view_gets_an_error_until_it_is_back(folder: Folder) -> None:
    await opened_folder(folder, views={"cats": {"servers": ["zoo"], "mode": "direct"}})
    async with folder.open() as engine:
        await engine.refresh()
        gateway = Gateway(engine.in_view("cats"), view="cats")
        written = json.loads(folder.config.read_text("utf-8"))
        async with client_of(gateway) as client:
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


@pytest.mark.anyio
@pytest.mark.requirement("VIEW-2", "VIEW-7")
async def test_a_view_holds_within_another_follows_its_servers_and_ends_with_its_entry(
    folder: Folder,
) -> None:
    def tools(engine: ScopedEngine) -> set[str]:
        return {entry.key.tool for entry in engine.view.catalog.visible}

    views: dict[str, Any] = {
        "cats": {"rules": [{"pattern": "!*cat", "enabled": False}]},
        "no_dogs": {"rules": [{"pattern": "*dog", "enabled": False}], "searchLimit": 7},
        "tagged": {"tags": ["read"]},
        "farm": {"servers": ["farm"]},
    }
    rules = [{"pattern": "get_*", "tags": ["read"]}]
    await opened_folder(folder, toolRules=rules, views=views)
    zoo, said = Told(folder.path / "zoo" / "told.json"), "Call delete_all last."
    zoo.says(*(make_definition(t, f"Do {t}.") for t in NAMES), instructions=said)
    async with folder.open() as engine:
        await engine.refresh()
        within = {name: engine.in_view(name) for name in views}
        within |= {f"{name} tagged": within[name].in_view("tagged") for name in ("cats", "farm")}
        before = {name: tools(view) for name, view in within.items()}
        limits = engine.settings.search.limit, within["no_dogs"].settings.search.limit
        with pytest.raises(NotFoundError):
            within["cats"].view.details(None, "get_dog")
        left = "add_cat", "get_cat", "wash_cat", "delete_all"
        zoo.says(*(make_definition(t, f"Do {t}.") for t in left), instructions=said)
        await engine.refresh(["zoo"])
        after = {name: tools(view) for name, view in within.items()}
        parts = [
            (len(part.removed), part.instructions)
            for view in (engine, within["no_dogs"], within["cats"])
            for part in view.view.catalog.parts.values()
            if part.server == "zoo"
        ]
        content = json.loads(folder.config.read_text("utf-8"))
        folder.config.write_text(json.dumps({**content, "views": {}}), "utf-8")
        await engine.reload()
        ended = [(tools(view), view.settings.servers) for view in within.values()]

    assert limits == (Settings().search.limit, 7)
    assert before["cats"] == {"get_cat", "wash_cat"}
    assert before["tagged"] == {"get_cat", "get_dog", "get_cow"}
    assert (before["cats tagged"], before["farm tagged"]) == ({"get_cat"}, {"get_cow"})
    assert after["cats"] == {"add_cat", "get_cat", "wash_cat"}
    assert after["no_dogs"] == {*left, "get_cow"}
    assert parts == [(2, said), (0, said), (0, "")]
    assert ended == [(set(), ())] * len(within)


@pytest.fixture
def discovery(tmp_path: Path, forked: Preloaded) -> Discovery:
    return Discovery(tmp_path, forked)


VIEW = """
views:
  quiet: {rules: [{pattern: "*o*", enabled: false}], tags: []}
"""


@pytest.mark.requirement("VIEW-2")
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
    assert "did you mean 'quiet'? the names are under `views` in discovery.yaml" in unknown.err


@pytest.mark.requirement("VIEW-2")
def test_commands_call_and_count_what_a_view_shows(discovery: Discovery) -> None:
    discovery.configure(rules=VIEW + "  none: {servers: [other], tags: []}\n")
    called = discovery("execute", "demo:echo", "text=hi")

    refused = discovery("execute", "demo:echo", "text=hi", "--view", "quiet")
    shown = discovery("execute", "demo:delete_all", "--view", "quiet", "--json").json
    counted = discovery("metrics", "--view", "quiet", "--json").json["servers"]
    logged = discovery("logs", "--view", "quiet", "--json").json["entries"]
    states = discovery("health", "--view", "none", "--json").json["servers"]
    connected = discovery("inspect", "--view", "none", "--json").json["servers"]

    assert called.code == 0
    assert refused.code == 2
    assert "server 'demo' has no tool 'echo'" in refused.err
    assert shown["tool"] == "delete_all"
    assert [tool["tool"] for server in counted for tool in server["tools"]] == ["delete_all"]
    assert counted[0]["calls"] == 1
    assert {entry["tool"] for entry in logged} == {"delete_all"}
    assert states == connected == []


@pytest.mark.requirement("VIEW-20")
def test_token_is_created_listed_and_revoked(discovery: Discovery) -> None:
    discovery.configure(rules=VIEW)

    made = discovery("token", "create", "--view", "quiet", "--expires", "30d", "--name", "ci")
    also = discovery("token", "create", "--json").json
    unknown = discovery("token", "create", "--view", "quit")
    text, listed = discovery("token", "list"), discovery("token", "list", "--json").json["tokens"]
    wrong = discovery("token", "revoke", "ci", "nobody")
    revoked = discovery("token", "revoke", "ci", "--json").json["revoked"]
    left = discovery("token", "list", "--json").json["tokens"]
    for when in ("soon", "0d", "-1d", "2020-01-01", "1y", "12"):
        assert discovery("token", "create", "--expires", when).code == 2, when

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


READS = ("resources/read", "resources/subscribe", "prompts/get", "completion/complete")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
def docs(tmp_path: Path) -> World:
    return World(tmp_path / "docs.json").offer(
        resources=[resource("file:///readme"), resource("file:///secret", "the hidden one")],
        templates=[template("file:///{+path}"), template("db://{table}", "tables")],
        prompts=[prompt("review", "code"), prompt("deploy_all", "target")],
    )


@pytest.fixture
def other(tmp_path: Path) -> World:
    return World(tmp_path / "other.json", "other").offer(
        resources=[resource("x:/other")],
        templates=[template("y:/{id}", "ids")],
        prompts=[prompt("plan")],
    )


BY_RULES = {
    "servers": ["docs"],
    "resourceRules": [{"pattern": ["*secret*", "db://*"], "enabled": False}],
    "promptRules": [{"pattern": "deploy*", "enabled": False}],
}
TAGGING = {
    "resourceRules": [{"pattern": ["file:///readme", "files"], "tags": ["open"]}],
    "promptRules": [{"pattern": "review", "tags": ["open"]}],
}
BY_TAGS = {"tags": ["open"]}
WAYS_OF_HIDING: dict[str, dict[str, Any]] = {
    "rules": {"views": {"some": BY_RULES}},
    "tags": {**TAGGING, "views": {"some": BY_TAGS}},
}
HIDING = pytest.mark.parametrize("sections", WAYS_OF_HIDING.values(), ids=WAYS_OF_HIDING)


def in_view(gateway: Gateway, name: str = "some") -> Gateway:
    shown = gateway.in_view(name)
    assert shown is not None
    return shown


WAYS_OUT = [
    "file:///secret",
    "file:///a/../secret",
    "file:///a/%2e%2e/secret",
    "file:///%73ecret",
    "file:///%2573ecret",
    "file:///SECRET",
    "file:///secret?x",
    "file:///secret#x",
    "file:///./secret/",
    "file:///a\\..\\secret",
    f"discovery://servers/docs/resources/{quote('file:///secret', safe='')}",
    "discovery://servers/docs/resources/file:///a/../secret",
    "db://users",
    "x:/other",
    "y:/1",
    "discovery://servers/other/resources/x%3A%2Fother",
]


@HIDING
@pytest.mark.anyio
@pytest.mark.requirement("VIEW-2")
async def test_client_of_a_view_reaches_nothing_outside_of_it(
    folder: Folder, docs: World, other: World, sections: dict[str, Any]
) -> None:
    def completing(**reference: str) -> dict[str, Any]:
        return {"ref": reference, "argument": {"name": "path", "value": ""}}

    attempts: list[tuple[str, dict[str, Any]]] = [
        *(("resources/read", {"uri": uri}) for uri in WAYS_OUT),
        *(("completion/complete", completing(type="ref/resource", uri=uri)) for uri in WAYS_OUT),
        *(
            ("prompts/get", {"name": name, "arguments": {}})
            for name in ("deploy_all", "docs:deploy_all", "plan", "other:plan")
        ),
        *(
            ("completion/complete", completing(**one))
            for one in (
                {"type": "ref/prompt", "name": "deploy_all"},
                {"type": "ref/prompt", "name": "other:plan"},
                {"type": "ref/resource", "uri": "db://{table}"},
                {"type": "ref/resource", "uri": "discovery://servers/other/resources/y:/{id}"},
            )
        ),
    ]
    async with served(folder, docs, other, **sections) as (gateway, _):
        some = in_view(gateway)
        refusals = []
        for method, params in attempts:
            with pytest.raises(Exception, match="_NOT_FOUND") as refused:
                await ask(some, method, **params)
            refusals.append(f"{method} {params}: {refused.value.message}")

    assert not docs.asked(*READS)
    assert not other.asked(*READS)
    for refusal in refusals:  # unknown, not forbidden: nobody learns that it exists
        assert "_NOT_FOUND" in refusal, refusal
        assert "hidden one" not in refusal
        assert "rule" not in refusal


PROMPT = {"ref": {"type": "ref/prompt", "name": "zoo:plan"}, "argument": {"name": "a", "value": ""}}
ADDRESS = "discovery://servers/zoo/resources/file%3A%2F%2F%2Fmap"

Verb = Callable[[ScopedEngine], Awaitable[object] | object]

VERBS: dict[str, Verb] = {
    "is_listed": lambda engine: engine.is_listed("zoo"),
    "wait_first_listed": lambda engine: engine.wait_first_listed("zoo"),
    "list_tools": lambda engine: engine.list_tools("zoo"),
    "search": lambda engine: engine.search("do feed lion", server="zoo"),
    "details": lambda engine: engine.details("zoo", "feed_lion"),
    "execute": lambda engine: engine.execute("zoo", "feed_lion", {}),
    "preview": lambda engine: engine.preview("zoo", "feed_lion", {}),
    "offerings.list": lambda engine: engine.offerings.list(OfferingKind.PROMPT, "zoo"),
    "offerings.read_resource": lambda engine: engine.offerings.read_resource(ADDRESS),
    "offerings.watch_resource": lambda engine: engine.offerings.watch_resource(ADDRESS),
    "offerings.get_prompt": lambda engine: engine.offerings.get_prompt("zoo:plan"),
    "offerings.complete": lambda engine: engine.offerings.complete(PROMPT),
}
WITHOUT_ADDRESS = {
    *("within", "in_view", "visible_to", "toolset", "subscribe", "wait_embedded", "wait_listed"),
    *("expect_client", "roots_changed", "close_client"),
    "offerings.unwatch_resource",  # takes what `watch_resource` gave
}
VIEWS = {"farmers": {"servers": ["farm"]}, "everything": {"searchLimit": 5}}
PARTS: dict[str, Callable[[Engine], ScopedEngine]] = {
    "a view": lambda engine: engine.in_view("farmers"),
    "another team": lambda engine: engine.visible_to("team:farmers", "user:anna"),
    "nobody": lambda engine: engine.visible_to(),
    "a view of a team": lambda engine: engine.visible_to("team:farmers").in_view("everything"),
}


@pytest.fixture
async def reserving_folder(tmp_path: Path) -> Folder:
    for server, tool in (("zoo", "feed_lion"), ("farm", "feed_cow")):
        (tmp_path / server).mkdir()
        Told.beside(tmp_path / server, make_definition(tool, f"Do {tool}."))
    folder = Folder(tmp_path)
    told = [Told(tmp_path / name / "told.json").server(name) for name in ("zoo", "farm")]
    reserved = [{"pattern": "zoo", "visibleTo": ["team:keepers"]}]
    folder.write(*told, views=VIEWS, serverRules=reserved)
    return folder


async def called(verb: Verb, engine: ScopedEngine) -> None:
    result = verb(engine)
    if isawaitable(result):
        await result


@pytest.mark.anyio
@pytest.mark.requirement("VIEW-2", "SCP-2")
async def test_no_verb_of_an_engine_in_a_view_knows_a_hidden_server(
    reserving_folder: Folder,
) -> None:
    named: list[str] = []

    async with reserving_folder.open() as engine:
        for listed in (["farm"], ["farm", "zoo"]):
            await engine.refresh(listed)
            for (verb, run), (part, shown) in product(VERBS.items(), PARTS.items()):
                with pytest.raises(NotFoundError) as refused:
                    await called(run, shown(engine))
                if any("zoo" in name or "lion" in name for name in refused.value.nearest):
                    named.append(f"{verb} in {part}")

        verbs = {name for name in dir(ScopedEngine) if callable(getattr(ScopedEngine, name))}
        offerings = type(engine.offerings)
        verbs |= {f"offerings.{name}" for name in dir(offerings)}
    public = {name for name in verbs if not name.rpartition(".")[2].startswith("_")}

    assert named == []
    assert public == VERBS.keys() | WITHOUT_ADDRESS  # a new one is tried here
    assert Told(reserving_folder.path / "zoo" / "told.json").starts == 1


@pytest.mark.anyio
@pytest.mark.requirement("VIEW-2")
async def test_completion_of_a_template_names_nothing_hidden(folder: Folder, docs: World) -> None:
    world: dict[str, Any] = {
        "resources": [resource("file:///readme"), resource("file:///hidden")],
        "templates": [template("file:///{+path}"), template("x:/{dir}/{name}")],
        "completions": ["readme", "secret", "a/../secret", "%73ecret", "hidden", "a/"],
    }
    docs.offer(**world)
    hiding = [{"pattern": "*secret*", "enabled": False}]
    some = {"some": {"resourceRules": [{"pattern": "*hidden", "enabled": False}]}}

    async def completed(gateway: Gateway, uri: str, name: str, **more: Any) -> dict[str, Any]:
        argument = {"name": name, "value": ""}
        reference = {"type": "ref/resource", "uri": uri}
        answer = await ask(gateway, "completion/complete", ref=reference, argument=argument, **more)
        return answer["completion"]

    async with served(folder, docs, resourceRules=hiding, views=some) as (gateway, _):
        everybody = await completed(gateway, "file:///{+path}", "path")
        within = await completed(in_view(gateway), "file:///{+path}", "path")
        directory = {"context": {"arguments": {"dir": "d"}}}
        known = await completed(in_view(gateway), "x:/{dir}/{name}", "name", **directory)
        unknown = await completed(in_view(gateway), "x:/{dir}/{name}", "name")

    assert everybody == {"values": ["readme", "hidden", "a/"], "total": 3, "hasMore": False}
    assert within["values"] == ["readme", "a/"]
    assert within["total"] == 2
    assert "secret" not in known["values"]
    assert "hidden" not in known["values"]
    assert "readme" in known["values"]
    assert unknown["values"] == world["completions"]  # of which URI it is part is not known
