"""Views: different tools for different clients of one process."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from discovery_engine.errors import NotFoundError
from discovery_server.access_tokens import AccessTokens
from discovery_server.gateway import Gateway
from tests.contract.discovery import Discovery
from tests.contract.test_modes import client_of
from tests.engines import Folder
from tests.factories import make_definition
from tests.forked import Preloaded
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
    assert "did you mean 'quiet'? `views:` has their names" in unknown.err


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


@pytest.mark.requirement("VIEW-20")
def test_a_damaged_token_is_shown_and_revoked_and_spoils_no_other(discovery: Discovery) -> None:
    discovery.configure()
    discovery("token", "create", "--name", "first")
    good = discovery("token", "create", "--name", "good").out.strip().encode()
    path = discovery.home / "data" / "tokens.json"
    document = json.loads(path.read_text("utf-8"))
    first, last = document["tokens"]
    damages: list[dict[str, Any]] = [
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
