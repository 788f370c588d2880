"""`discovery resources`, `discovery prompts`, and `why` for these."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from discovery_cli.program import cli
from tests.engines import Folder
from tests.rows import rows as table
from tests.servers.offerings import World, prompt, resource, template

Run = Callable[..., Result]


@pytest.fixture
def world(tmp_path: Path) -> World:
    described = {"description": "Reviews code. At length."}
    review = prompt("review", "code", **described)
    review["arguments"].append({"name": "style", "description": "How"})
    return World(tmp_path / "world.json").offer(
        resources=[
            resource("file:///readme", "Read me", description="What it is."),
            resource("file:///secret"),
        ],
        templates=[template("file:///docs/{+path}")],
        prompts=[review, prompt("hidden")],
    )


@pytest.fixture
def run(tmp_path: Path, world: World) -> Run:
    folder = Folder(tmp_path)
    folder.write(
        world.server(),
        resourceRules=[{"pattern": "*secret*", "enabled": False, "tags": ["private"]}],
        promptRules=[{"pattern": "hidden", "enabled": False}],
        views={
            "narrow": {
                "resourceRules": [{"pattern": ["*readme", "*private*"], "enabled": False}],
                "promptRules": [{"pattern": "review", "enabled": False}],
            }
        },
    )

    def run(*words: str) -> Result:
        options = ["--config", str(folder.config), "--data-dir", str(folder.data)]
        return CliRunner().invoke(cli, [*options, *words])

    return run


def rows(result: Result) -> list[str]:
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


def form(result: Result) -> Any:
    return json.loads(result.stdout)


@pytest.mark.requirement("CLI-80")
def test_resources_and_prompts_are_listed(run: Run) -> None:
    resources, prompts = run("resources"), run("prompts", "docs")

    assert rows(resources) == [
        "✓ file:///readme Read me What it is.",
        "✓ file:///docs/{+path} files",
    ]
    assert "1 resource, 1 template" in resources.stderr
    assert rows(prompts) == ["✓ review code=… [style=…] Reviews code."]
    assert resources.exit_code == prompts.exit_code == 0


@pytest.mark.requirement("CLI-80")
def test_a_resource_is_read_and_a_prompt_got(run: Run) -> None:
    read, expanded = (
        run("resources", "file:///readme"),
        run("resources", "file:///docs/a/b", "--json"),
    )
    got, whole = (
        run("prompts", "review", "code=x = 1"),
        run("prompts", "docs:review", "code=1", "--json"),
    )

    assert read.stdout == "file:///readme\n"
    assert form(expanded)["result"]["contents"][0]["vendor"] == {"kept": 1}
    assert got.stdout == 'user:\n{"code": "x = 1"}\n'
    assert form(whole)["result"]["vendor"] == {"a": []}


@pytest.mark.requirement("CLI-80")
@table(
    ("words", "code", "message"),
    [
        (["resources", "file:///redme"], 2, "did you mean 'file:///readme'?"),
        (["resources", "read me"], 2, "did you mean 'file:///readme'?"),
        (["resources", "file:///secret"], 4, "rule 1"),
        (["resources", "file:///docs/../secret"], 4, "rule 1"),
        (["prompts", "reviw", "code=1"], 2, "did you mean 'review'?"),
        (["prompts", "hidden"], 4, "rule 1"),
        (["prompts", "review"], 2, " prompts review code=… [style=…]`"),
        (["prompts", "review", "code=1", "x=1"], 2, "there is no argument 'x'"),
        (["prompts", "review", "code"], 2, "write KEY=VALUE"),
    ],
)
def test_a_mistake_is_answered_with_the_next_step(
    run: Run, world: World, words: list[str], code: int, message: str
) -> None:
    done = run(*words)

    assert message in done.stderr
    assert done.exit_code == code
    assert not world.asked("resources/read", "prompts/get")


@pytest.mark.requirement("VIEW-2")
def test_commands_show_what_a_view_has_of_resources_and_prompts(run: Run) -> None:
    run("refresh")
    narrow = ("--view", "narrow")

    listed = form(run("resources", *narrow, "--json"))
    prompts = form(run("prompts", *narrow, "--json"))
    reasons = {
        word: form(run("why", *kind, word, *narrow, "--json"))["hidden"]
        for word, *kind in (
            ("file:///readme",),
            ("review", "--prompt"),
            ("file:///docs/{+path}", "--resource"),
            ("file:///docs/open",),
            ("file:///docs/x/%70rivate",),
        )
    }

    assert (listed["resources"], prompts["prompts"]) == ([], [])
    assert [one["address"] for one in listed["templates"]] == ["file:///docs/{+path}"]
    assert "rule 1" in reasons["file:///readme"]
    assert "rule 1" in reasons["review"]
    assert reasons["file:///docs/{+path}"] is None
    assert reasons["file:///docs/open"] is None
    assert reasons["file:///docs/x/%70rivate"]
    assert "view narrow: hidden" in run("why", "file:///readme", *narrow).stdout
    assert run("prompts", "--view", "narow").exit_code == 2
    assert run("resources", "file:///readme", *narrow).exit_code == 2
    assert run("prompts", "review", "code=1", *narrow).exit_code == 2


@pytest.mark.requirement("CLI-80")
def test_a_search_finds_resources_and_prompts_if_asked(run: Run) -> None:
    tools = run("search", "review code")
    found, both = (
        run("search", "review code", "--kind", "prompt"),
        form(run("search", "read me", "--kind", "resource", "--kind", "prompt", "--json")),
    )
    hidden = run("search", "secret", "--kind", "resource")

    assert tools.exit_code == 2
    assert rows(found) == ["✓ review code=… [style=…] Reviews code."]
    assert found.exit_code == 0
    assert both["offerings"][0]["address"] == "file:///readme"
    assert "file:///secret" not in hidden.stdout


@pytest.mark.requirement("VIEW-2")
def test_lint_names_the_rules_of_a_view_that_match_nothing(run: Run, tmp_path: Path) -> None:
    content = json.loads((tmp_path / "discovery.yaml").read_text("utf-8"))
    views = {
        "narrow": {
            "rules": [{"pattern": "no_tool", "enabled": False}],
            "resourceRules": [
                {"pattern": "*secret", "enabled": False},
                {"pattern": "file:/secret", "enabled": False},
            ],
            "promptRules": [{"pattern": "nothing", "enabled": False}],
        }
    }
    (tmp_path / "discovery.yaml").write_text(json.dumps({**content, "views": views}), "utf-8")
    run("refresh")

    found = form(run("tune", "lint", "--json"))["findings"]

    # No tool is known here, so rules over tools are not judged.
    assert [one["subject"] for one in found if one["subject"].startswith("views.")] == [
        "views.narrow.resourceRules.1",
        "views.narrow.promptRules.0",
    ]
    assert {one["code"] for one in found} >= {"RULE_UNMATCHED"}
