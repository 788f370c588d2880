"""The search lab over the API: what is hidden, what a change would do, and saved queries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from discovery_cli.program import cli
from tests.api_server import Api, served
from tests.engines import Folder

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
async def test_a_plan_names_what_appears_and_vanishes_and_how_queries_move_and_writes_nothing(
    folder: Folder,
) -> None:
    async with served(folder) as api:
        text = await commented(api, folder)
        before = api.engine.view.catalog
        made = await plan(
            api,
            {"toolRules": "- {pattern: echo, enabled: false}"},
            queries=["echo a text", "pid", "environment"],
        )
        view = api.engine.view

    what = {(one["server"], one["tool"]): one["what"] for one in made["tools"]}
    assert what == {("good", "echo"): "vanishes", ("good", "pid"): "appears"}
    assert made["tools_counts"] == {"appears": 1, "vanishes": 1, "changes": 0}
    echo, pid, environment = made["queries"]
    assert (echo["before"], echo["moved"]) == (["good:echo"], True)
    assert "good:echo" not in echo["after"]
    assert (pid["before"], pid["after"]) == ([], ["good:pid"])
    assert pid["decision"] == {"before": "none", "after": "match"}
    assert pid["confidence"]["after"] > pid["confidence"]["before"]
    assert not environment["moved"]
    assert view.catalog is before
    assert read(folder.config) == text


@pytest.mark.requirement("API-41")
async def test_what_is_wrong_is_named_at_the_line_and_column_of_its_section(
    folder: Folder,
) -> None:
    async with served(folder) as api:
        await commented(api, folder)
        wrong = {
            "toolRules": "# ours\n- pattern: a\n  enabld: false\n",
            "search.synonyms": "- [one]\n",
        }
        answer = await api.ask("/rules", "PUT", json={"sections": wrong})
        refused = await save(api, wrong, "any")
        broken = await api.ask("/rules", "PUT", json={"sections": {"toolRules": "- pattern: [a"}})

    assert (answer.status_code, answer.json()["digest"]) == (200, None)
    assert (refused.status_code, refused.json()["code"]) == (409, "CONFIGURATION_ERROR")
    assert refused.json()["problems"] == answer.json()["problems"]
    places = [(one["file"], one["line"], one["column"]) for one in answer.json()["problems"]]
    assert sorted(places) == [("search.synonyms", 1, 3), ("toolRules", 3, 3)]
    [problem] = broken.json()["problems"]
    assert (problem["file"], problem["line"]) == ("toolRules", 1)


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
async def test_a_plan_that_is_not_what_was_shown_any_more_is_not_saved(folder: Folder) -> None:
    change = {"toolRules": "- {pattern: echo, enabled: false}"}
    async with served(folder) as api:
        text = await commented(api, folder)
        made = await plan(api, change)
        other = await save(api, {"toolRules": ""}, made["digest"])
        folder.config.write_text(text + "# meanwhile\n", "utf-8")
        late = await save(api, change, made["digest"])

    assert [one.status_code for one in (other, late)] == [409, 409]
    assert {one.json()["code"] for one in (other, late)} == {"PLAN_CHANGED"}
    assert read(folder.config) == text + "# meanwhile\n"


@pytest.mark.requirement("API-41")
async def test_values_of_pinned_arguments_are_edited_around_and_never_shown(
    folder: Folder,
) -> None:
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
