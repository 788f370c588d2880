"""The search lab over the API: what is hidden, what a change would do, and saved queries."""

from __future__ import annotations

import json
import os
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
import yaml
from click.testing import CliRunner

from discovery_cli.program import cli
from discovery_engine import DiscoveryError
from discovery_engine.engine import Engine, open_engine
from tests.api_server import Api, command_line, served, serving
from tests.engines import Folder, good
from tests.factories import make_definition
from tests.told import Told

pytestmark = pytest.mark.anyio

FILE = """\
# What agents may use.
servers:
  good: {SERVER}

toolRules:  # the first that matches decides
  # nobody needs the process
  - pattern: pid
    enabled: false
views:
  quiet:
    rules:
      - pattern: environment
        enabled: false
log: {level: warning}  # few words
"""


def read(path: Path) -> str:
    return path.read_text("utf-8")


def write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")


def rewrite(folder: Folder) -> str:
    """The same configuration as an owner writes it, with comments."""
    [server] = [json.loads(folder.config.read_text("utf-8"))["servers"]["good"]]
    text = FILE.replace("{SERVER}", json.dumps(server))
    folder.config.write_text(text, "utf-8")
    return text


async def plan(api: Api, sections: dict[str, Any], **more: Any) -> dict[str, Any]:
    answer = await api.ask("/rules", "PUT", json={"sections": sections, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def save(api: Api, sections: dict[str, Any], digest: str) -> Any:
    return await api.ask("/rules", "PUT", json={"sections": sections, "digest": digest})


async def sections(api: Api) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in (await api.get("/rules"))["sections"]}


async def commented(api: Api, folder: Folder) -> str:
    text = rewrite(folder)
    await api.engine.reload()
    return text


@pytest.mark.requirement("API-40")
async def test_an_examined_search_has_the_thresholds_what_is_hidden_by_which_rule_and_the_answer(
    folder: Folder,
) -> None:
    async with served(folder) as api:
        await commented(api, folder)
        found = await api.get("/search/examination", query="pid")
        in_view = await api.get("/search/examination", query="environment", view="quiet")
        agent = await api.engine.toolset().call_as_result("search_tools", {"query": "pid"})

    assert found["thresholds"]["shown"] < found["thresholds"]["match"] < 1
    [hidden] = found["hidden"]
    assert (hidden["tool"], hidden["rank"], hidden["view"]) == ("pid", 1, None)
    rule = hidden["rule"]
    assert (rule["file"], rule["line"], rule["column"]) == (str(folder.config), 7, 5)
    assert "rule 1" in hidden["hidden_by"]
    assert hidden["explanation"]["shares"]
    assert found["agent"]["text"] == agent["content"][0]["text"]
    assert 0 < found["agent"]["tokens"] <= found["agent"]["max_tokens"]
    [scoped] = in_view["hidden"]
    assert (scoped["tool"], scoped["view"], scoped["rule"]["line"]) == ("environment", "quiet", 12)
    assert "environment" not in in_view["agent"]["text"].partition("\n")[2]


@pytest.mark.requirement("API-41")
async def test_saving_changes_the_section_alone_keeps_a_backup_and_is_in_force_at_once(
    folder: Folder,
) -> None:
    async with served(folder) as api:
        before = await commented(api, folder)
        shown = (await sections(api))["toolRules"]
        rules = shown["text"] + "# and no echo\n- pattern: echo\n  enabled: false\n"
        made = await plan(api, {"toolRules": rules})
        answer = await save(api, {"toolRules": rules}, made["digest"])
        hidden = await api.get("/servers/good/tools", all=True)

    assert shown["text"] == "# nobody needs the process\n- pattern: pid\n  enabled: false\n"
    assert shown["line"] == 6
    assert answer.status_code == 200, answer.text
    added = "  # and no echo\n  - pattern: echo\n    enabled: false\n"
    assert read(folder.config) == before.replace("views:\n", f"{added}views:\n")
    backup = Path(answer.json()["backup"])
    assert read(backup) == before
    assert "+- pattern: echo" in answer.json()["diff"]
    assert "SERVER" not in made["diff"]
    enabled = {one["tool"]: one["enabled"] for one in hidden["tools"]}
    assert (enabled["echo"], enabled["environment"]) == (False, True)


@pytest.mark.requirement("API-41")
async def test_a_plan_names_what_changes_how_queries_move_and_mistakes_and_writes_nothing(
    folder: Folder,
) -> None:
    async with served(folder) as api:
        text = await commented(api, folder)
        rules = {"toolRules": "- {pattern: echo, enabled: false}"}
        made = await plan(api, rules, queries=["echo a text", "pid", "environment"])
        wrong = {"toolRules": "# ours\n- pattern: a\n  enabld: false\n"}
        mistaken = await plan(api, wrong)
        refused = await save(api, wrong, "any")

    what = {(change["server"], change["tool"]): change["what"] for change in made["tools"]}
    assert what == {("good", "echo"): "vanishes", ("good", "pid"): "appears"}
    assert made["tools_counts"] == {"appears": 1, "vanishes": 1, "changes": 0}
    echo, pid, environment = made["queries"]
    assert (echo["before"], echo["moved"]) == (["good:echo"], True)
    assert "good:echo" not in echo["after"]
    assert (pid["before"], pid["after"]) == ([], ["good:pid"])
    assert pid["decision"] == {"before": "none", "after": "match"}
    assert pid["confidence"]["after"] > pid["confidence"]["before"]
    assert not environment["moved"]
    assert (mistaken["digest"], refused.status_code) == (None, 409)
    [problem] = mistaken["problems"]
    assert (problem["code"], problem["line"], problem["column"]) == ("CONFIG_UNKNOWN_KEY", 3, 3)
    assert read(folder.config) == text


@pytest.mark.requirement("API-41")
async def test_values_of_pinned_arguments_are_edited_around_and_never_shown(folder: Folder) -> None:
    overrides = """\
overrides:
  - pattern: echo
    arguments:
      text: hunter2   # ours
      more: [5, "${HOME}", true]
"""
    async with served(folder) as api:
        text = rewrite(folder) + overrides
        folder.config.write_text(text, "utf-8")
        await api.engine.reload()
        shown = (await sections(api))["overrides"]["text"]
        change = {"overrides": shown + "- pattern: environment\n  tags: [mine]\n"}
        made = await plan(api, change)
        answer = await save(api, change, made["digest"])
        unknown = await api.ask(
            "/rules",
            "PUT",
            json={"sections": {"overrides": '- {pattern: a, arguments: {b: "[kept 7]"}}'}},
        )

    assert "${HOME}" in shown
    for one in (shown, json.dumps(made), answer.text):
        assert "hunter2" not in one
        assert "[kept 1]" in one
    assert read(folder.config) == text + "  - pattern: environment\n    tags: [mine]\n"
    [problem] = unknown.json()["problems"]
    assert "stands for no value" in problem["message"]


@pytest.mark.requirement("API-41", "EVA-2")
async def test_a_query_is_saved_as_a_case_that_the_command_line_reads_too(folder: Folder) -> None:
    new = {"query": "say it again", "tools": ["good:echo"]}
    async with served(folder) as api:
        await commented(api, folder)
        empty = await api.get("/eval/cases")
        added = await api.ask("/eval/cases", "POST", json=new)
        nothing = await api.ask("/eval/cases", "POST", json={"query": "order a pizza"})
        twice = await api.ask("/eval/cases", "POST", json=new)
        unknown = await api.ask("/eval/cases", "POST", json={"query": "q", "tools": ["good:ech"]})
        hidden = await api.ask("/eval/cases", "POST", json={"query": "q", "tools": ["good:pid"]})
        listed = await api.get("/eval/cases")
        path = Path(listed["path"])
        write(path, f"# ours\n{read(path)}")
        options = ["--config", str(folder.config), "--data-dir", str(folder.data), "--json"]
        run = CliRunner().invoke(cli, [*options, "eval", str(path)])
        beside = CliRunner().invoke(cli, [*options, "eval"])
        gone = await api.ask("/eval/cases/say it again", "DELETE")
        again = await api.ask("/eval/cases/say it again", "DELETE")

    assert (empty["cases"], path.parent) == ([], folder.path)
    assert added.json()["tools"] == ["good:echo"]
    assert nothing.json()["tools"] == []
    assert [one.json()["code"] for one in (twice, unknown, hidden)] == ["CONFIGURATION_ERROR"] * 3
    assert [one["query"] for one in listed["cases"]] == ["say it again", "order a pizza"]
    assert len(json.loads(run.stdout)["queries"]) == 2
    assert [one["id"] for one in json.loads(beside.stdout)["queries"]] == [
        one["id"] for one in json.loads(run.stdout)["queries"]
    ]
    assert (gone.status_code, again.status_code) == (200, 404)
    left = read(path)
    assert left.startswith("# ours\n")
    assert [one["query"] for one in yaml.safe_load(left)["queries"]] == ["order a pizza"]


KIND = make_definition("greet", "Greet a person kindly.")
RUDE = make_definition("greet", "Greet a person rudely and loudly.")


def discovered(folder: Folder) -> AbstractAsyncContextManager[Engine]:
    """An engine whose configuration nobody named: it is found in the working folder."""
    environ = {**os.environ, "XDG_CONFIG_HOME": str(folder.path / "home")}
    environ.pop("DISCOVERY_CONFIG", None)
    return open_engine(data_dir=folder.data, environ=environ)


async def changed(api: Api, told: Told, *tools: dict[str, Any]) -> dict[str, Any]:
    """What waits after the server has changed its tools."""
    told.says(*tools)
    await api.ask("/refresh", "POST", json={"servers": ["told"]})
    return await api.get("/review/told")


async def accepted(api: Api, digest: str, **chosen: list[str]) -> tuple[int, dict[str, Any]]:
    answer = await api.ask("/review/told/accept", "POST", json={"digest": digest, **chosen})
    return answer.status_code, answer.json()


@pytest.mark.requirement("API-21")
async def test_what_has_changed_is_shown_word_by_word_and_accepted_as_shown(folder: Folder) -> None:
    told = Told.beside(folder.path, KIND)
    async with served(folder, told.server()) as api:
        assert (await api.get("/review"))["servers"] == []
        shown = await changed(api, told, RUDE)
        overview = await api.get("/review")
        printed = await anyio.to_thread.run_sync(command_line, folder, "review", "tools")
        refused = await api.ask("/servers/told/tools/greet/call", "POST", json={})
        done = await accepted(api, shown["digest"])
        called = await api.ask("/servers/told/tools/greet/call", "POST", json={})
        left = await api.get("/review")

    [waiting] = shown["reviews"]
    [change] = waiting["changes"]
    assert (shown["name"], waiting["tool"], change["path"]) == ("told", "greet", "description")
    assert [(one["kind"], one["text"]) for one in change["words"]] == [
        ("same", "Greet a person"),
        ("removed", " kindly"),
        ("added", " rudely and loudly"),
        ("same", "."),
    ]
    assert printed["servers"] == [{"name": "told", "reviews": shown["reviews"]}]
    assert overview["servers"] == [
        {
            "name": "told",
            "waiting_count": 1,
            "finding_count": 0,
            "waiting": [{"tool": "greet", "state": "changed", "weight": "text"}],
        }
    ]
    assert refused.json()["code"] == "TOOL_WITHHELD"
    assert done == (200, {"accepted_count": 1, "waiting_count": 0})
    assert called.status_code == 200
    assert left == {"servers": [], "lost_at": None, "next_cursor": None}


@pytest.mark.requirement("API-21")
async def test_servers_that_wait_are_approved_as_shown_and_revoked(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told.beside(folder.path, KIND)
    folder.write(told.server(), overrides=[{"pattern": "greet", "description": "Say hello."}])
    monkeypatch.chdir(folder.path)
    async with discovered(folder) as engine, serving(engine, folder) as api:
        found = await api.get("/trust")
        [shown] = found["servers"]
        wrong = await api.ask("/trust", "POST", json={"servers": {"told": "another"}})
        before = (await api.ask("/servers/told/tools")).json()
        done = await api.ask("/trust", "POST", json={"servers": {"told": shown["digest"]}})
        tools = await api.get("/servers/told/tools")
        again = await api.ask("/trust", "POST", json={"servers": {"told": shown["digest"]}})
        revoked = (await api.ask("/trust/told", "DELETE")).json()
        waiting = await api.get("/trust")

    assert shown["command"] == list(told.command)
    assert found["overrides"][0]["description"] == "Say hello."
    assert (wrong.status_code, wrong.json()["code"]) == (409, "PLAN_CHANGED")
    assert before.get("tools", []) == []
    assert done.json() == {"approved": ["told"]}
    assert [tool["tool"] for tool in tools["tools"]] == ["greet"]
    assert again.status_code == 409
    assert revoked == {"revoked": 1}
    assert [one["name"] for one in waiting["servers"]] == ["told"]


ECHO = {"server": "good", "tool": "echo", "name": "greeting"}


SECRETS: list[tuple[dict[str, Any], str]] = [
    ({"text": "it is stored-Value-77"}, "arguments.text"),
    ({"password": "hunter2"}, "arguments.password"),
    ({"login": {"api_key": ["kf83hd"]}}, "arguments.login.api_key[0]"),
    ({"headers": ["Authorization: Bearer abcdefgh12"]}, "arguments.headers[0]"),
    ({"url": "https://me:pa55word@example.com"}, "arguments.url"),
    ({"stored-Value-77": 1}, "the name of a member of arguments"),
]
HARMLESS: list[dict[str, Any]] = [
    {"page": "0f8fad5b-d9cd-469f-a165-70867728950e", "key": "user:1"},
    {"text": "where is the token?", "count": 12, "max_tokens": 4096},
    {"password": "${secret:TOKEN}", "nested": [[None, True, 1.5, 2**70]]},
]


@pytest.mark.requirement("API-20")
async def test_arguments_with_a_secret_are_refused_with_its_place_and_others_are_kept(
    folder: Folder,
) -> None:
    folder.write(good())
    refused = {}
    async with folder.open() as engine:
        engine.secrets.set("TOKEN", "stored-Value-77")
        for arguments, place in SECRETS:
            with pytest.raises(DiscoveryError) as error:
                await engine.presets.save("good", "echo", "mine", arguments)
            refused[place] = error.value.code, f"{error.value}{error.value.hint}"
        none = await engine.presets.list()
        for number, arguments in enumerate(HARMLESS):
            await engine.presets.save("good", "echo", str(number), arguments)
        kept = await engine.presets.list()

    for place, (code, text) in refused.items():
        assert code == "PRESET_REFUSED"
        assert f"{place} looks like a secret" in text
        assert "stored-Value-77" not in text
    assert none == ()
    assert [preset.arguments for preset in kept] == HARMLESS


@pytest.mark.requirement("API-20")
async def test_presets_are_kept_listed_in_pages_and_deleted_over_the_api(folder: Folder) -> None:
    async with served(folder) as api:
        for name in ("one", "two/\u0000 \U0001f600", "three"):
            body = {**ECHO, "name": name, "arguments": {"text": name}}
            saved = await api.ask("/presets", "PUT", json=body)
            assert saved.status_code == 200, saved.text
        first = await api.get("/presets", server="good", tool="echo", limit=2)
        rest = await api.get("/presets", limit=2, cursor=first["next_cursor"])
        key = {**ECHO, "name": "one"}
        deleted = [(await api.ask("/presets", "DELETE", params=key)).json() for _ in "ab"]
        others = await api.get("/presets", server="other")

    shown = [one["name"] for one in first["presets"] + rest["presets"]]
    assert shown == ["one", "three", "two/\u0000 \U0001f600"]
    assert first["presets"][0].keys() == {"server", "tool", "name", "arguments", "updated_at"}
    assert rest["next_cursor"] is None
    assert deleted == [{"deleted": True}, {"deleted": False}]
    assert others["presets"] == []
