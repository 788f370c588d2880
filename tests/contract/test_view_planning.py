"""What a change would do to each view, and to resources and prompts: specs/planning.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner, Result

from discovery_cli.program import cli
from tests.engines import Folder
from tests.factories import make_definition
from tests.servers.offerings import World, prompt, resource, template

VIEWS: dict[str, Any] = {
    "readers": {"rules": [{"pattern": "write", "enabled": False}], "mode": "direct"},
    "writers": {},
    "idle": {"servers": ["other"]},
}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A folder in which the servers were listed once."""
    folder = Folder(tmp_path)
    docs = World(tmp_path / "docs.json").offer(
        tools=[make_definition("read"), make_definition("write")],
        resources=[resource("x:/a"), resource("x:/secret")],
        templates=[template("x:/{id}", "ids")],
        prompts=[prompt("review")],
    )
    other = World(tmp_path / "other.json", "other").offer(tools=[make_definition("wait")])
    folder.write(docs.server(), other.server(), views=VIEWS)

    async def list_all() -> None:
        async with folder.open() as engine:
            await engine.refresh()

    anyio.run(list_all)
    return folder


def run(folder: Folder, *words: str) -> Result:
    given = ["--config", str(folder.config), "--data-dir", str(folder.data), "plan"]
    return CliRunner().invoke(cli, [*given, *words])


def planned(folder: Folder, *words: str) -> dict[str, Any]:
    return json.loads(run(folder, *words, "--json").stdout)


def changed(folder: Folder, **sections: Any) -> str:
    content = json.loads(folder.config.read_text("utf-8"))
    new = folder.path / "new.yaml"
    new.write_text(json.dumps({**content, **sections}), "utf-8")
    return str(new)


def of_views(plan: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {view["name"]: view for view in plan["views"]}


def offerings(plan: dict[str, Any]) -> dict[str, str]:
    return {one["identifier"]: one["what"] for one in plan["offerings"]}


@pytest.mark.requirement("PLN-6")
def test_resources_and_prompts_that_appear_and_vanish_are_listed(folder: Folder) -> None:
    new = changed(
        folder,
        resourceRules=[
            {"pattern": "*secret", "enabled": False},
            {"pattern": "ids", "tags": ["mine"]},
        ],
        promptRules=[{"pattern": "review", "enabled": False}],
    )

    plan, text = planned(folder, new), run(folder, new)

    assert offerings(plan) == {"x:/secret": "vanishes", "x:/{id}": "changes", "review": "vanishes"}
    reasons = {one["identifier"]: one["reason"] for one in plan["offerings"]}
    assert "rule 1" in reasons["x:/secret"]
    assert {one["kind"] for one in plan["offerings"]} == {"resource", "template", "prompt"}
    assert plan["tools"] == []
    assert text.exit_code == 8
    assert "prompt" in text.stdout
    assert "docs review" in text.stdout


@pytest.mark.requirement("PLN-6")
def test_a_changed_view_is_compared_with_what_it_was(folder: Folder) -> None:
    views = {
        "readers": {"mode": "direct", "limits": {"callsPerMinute": 6}, "searchLimit": 3},
        "writers": {"resourceRules": [{"pattern": "*secret", "enabled": False}]},
        "new": {"servers": ["docs"]},
    }
    new = changed(folder, views=views)

    plan, text = planned(folder, new), run(folder, new).stdout
    found = of_views(plan)

    assert {name: view["what"] for name, view in found.items()} == {
        "idle": "vanishes",
        "new": "appears",
        "readers": "changes",
        "writers": "changes",
    }
    assert [one["what"] for one in found["readers"]["tools"]] == ["appears"]
    assert found["readers"]["settings"] == ["searchLimit", "limits"]
    [hidden] = found["writers"]["offerings"]
    assert (hidden["identifier"], hidden["what"]) == ("x:/secret", "vanishes")
    assert hidden["reason"].startswith("the view hides it: rule 1")
    assert found["new"]["visible"] == {"before": 0, "after": 2}
    assert plan["settings"] == ["views"]
    assert "view readers  changes   shows docs:write; settings: searchLimit, limits" in text
