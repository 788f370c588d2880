"""What a change would do, without doing it: specs/planning.md."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner, Result

from discovery_cli.program import cli
from tests.result_agents import agent_of
from tests.rows import rows

RULES = [{"pattern": "fail", "enabled": False}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in which the servers were listed once."""

    async def list_all() -> None:
        async with agent_of(tmp_path, toolRules=RULES):
            pass

    anyio.run(list_all)
    return tmp_path


def run(folder: Path, *words: str) -> Result:
    given = ["--config", str(folder / "discovery.yaml"), "--data-dir", str(folder / "data"), "plan"]
    return CliRunner().invoke(cli, [*given, *words])


def planned(folder: Path, *words: str) -> dict[str, Any]:
    return json.loads(run(folder, *words, "--json").stdout)


def changed(folder: Path, **sections: Any) -> str:
    """A changed configuration beside the present one."""
    content = json.loads((folder / "discovery.yaml").read_text("utf-8"))
    new = folder / "new.yaml"
    new.write_text(json.dumps({**content, **sections}), "utf-8")
    return str(new)


def tools(plan: dict[str, Any]) -> dict[str, str]:
    return {one["tool"]: one["what"] for one in plan["tools"]}


@pytest.mark.requirement("PLN-1")
def test_the_same_configuration_changes_nothing(folder: Path) -> None:
    for words in ([], [changed(folder)]):
        result = run(folder, *words)

        assert result.exit_code == 0, result.output
        assert "nothing changes: 7 -> 7 tools" in result.output
    assert planned(folder)["changed"] is False


@pytest.mark.requirement("PLN-1", "PLN-4")
def test_servers_that_appear_and_vanish_are_listed_with_their_tools(folder: Path) -> None:
    started = folder / "started"
    program = {"command": "touch", "args": [str(started)]}
    plan = planned(folder, changed(folder, servers={"other": program}))

    assert plan["servers"] == [
        {"name": "other", "what": "appears"},
        {"name": "results", "what": "vanishes"},
    ]
    assert set(tools(plan).values()) == {"vanishes"}
    assert plan["unknown"] == ["other"]
    assert not started.exists()


@pytest.mark.requirement("PLN-1", "PLN-4")
def test_one_rule_may_be_given_on_the_command_line(folder: Path) -> None:
    plan = planned(folder, "--rule", '{pattern: ["rows", "*text"], enabled: false}')

    assert tools(plan) == dict.fromkeys(("rows", "text", "json_text"), "vanishes")
    assert all(one["reason"] for one in plan["tools"])
    refused = run(folder, "--rule", "{patern: x}")
    assert refused.exit_code == 2


def digests(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not file.name.endswith(("-shm", "-wal"))
    }


@pytest.mark.requirement("PLN-4")
def test_nothing_is_written_and_no_server_is_started(folder: Path) -> None:
    new = changed(folder, toolRules=[])
    before = digests(folder)

    run(folder, new)
    run(folder, "--rule", "{pattern: rows, enabled: false}")

    assert digests(folder) == before


@pytest.mark.requirement("PLN-2")
@rows(
    ("option", "text"),
    [
        pytest.param("--synonym", "[bellow, echo]", id="a synonym"),
        pytest.param("--override", "{pattern: echo, description: Bellow aloud.}", id="an override"),
    ],
)
def test_a_synonym_or_an_override_shows_how_a_query_would_move(
    folder: Path, option: str, text: str
) -> None:
    queries = folder / "queries.yaml"
    queries.write_text("queries: [{query: bellow, tools: [results:echo]}]", "utf-8")
    before = (folder / "discovery.yaml").read_bytes()

    plan = planned(folder, option, text, "--queries", str(queries))
    together = planned(folder, option, text, "--rule", "{pattern: echo, enabled: false}")

    [move] = plan["queries"]
    assert (move["before"], move["after"][0]) == ([], "results:echo")
    assert move["decision"]["before"] == "none"
    assert move["confidence"]["after"] > move["confidence"]["before"]
    assert tools(together)["echo"] == "vanishes"
    assert run(folder, option, "{").exit_code == 2
    assert (folder / "discovery.yaml").read_bytes() == before


@pytest.mark.requirement("RSL-13")
def test_a_dry_run_on_the_command_line_shows_the_call_and_sends_nothing(folder: Path) -> None:
    content = json.loads((folder / "discovery.yaml").read_text("utf-8"))
    pins = [{"pattern": "rows", "arguments": {"token": "${ROWS_TOKEN:-s3cret}"}}]
    (folder / "discovery.yaml").write_text(json.dumps({**content, "overrides": pins}), "utf-8")
    given = ["--config", str(folder / "discovery.yaml"), "--data-dir", str(folder / "data")]
    words = [*given, "execute", "results:rows", "count=5", "--dry-run"]

    shown = CliRunner().invoke(cli, words)
    form = json.loads(CliRunner().invoke(cli, [*words, "--json"]).stdout)

    assert shown.exit_code == 0, shown.output
    assert "results:rows: nothing was sent" in shown.output
    assert "fit its schema" in shown.output
    assert form["arguments"]["count"] == 5
    assert form["arguments"]["token"].startswith("${ROWS_TOKEN")
    assert form["pinned"] == ["token"]
    assert form["sent"] is False
    assert "s3cret" not in shown.output + json.dumps(form)
    assert not (folder / "calls.jsonl").exists()


@pytest.mark.requirement("PLN-1")
def test_tools_that_appear_vanish_and_change_are_listed(folder: Path) -> None:
    new = changed(
        folder,
        toolRules=[{"pattern": "image", "enabled": False}, {"pattern": "echo", "tags": ["mine"]}],
        overrides=[
            {"pattern": "text", "name": "lines"},
            {"pattern": "rows", "arguments": {"token": "${SECRET:-s3cret}"}},
        ],
    )

    plan = planned(folder, new)

    assert run(folder, new).exit_code == 8
    assert tools(plan) == {
        "fail": "appears",
        "image": "vanishes",
        "echo": "changes",
        "lines": "changes",
        "rows": "changes",
    }
    by_name = {one["tool"]: one["changes"] for one in plan["tools"]}
    assert by_name["echo"] == {"tags": [[], ["mine"]]}
    assert by_name["lines"] == {"name": ["text", "lines"]}
    assert by_name["rows"] == {"arguments": [["count", "token"], ["count"]]}
    assert plan["settings"] == ["overrides", "toolRules"]
    assert plan["visible"] == {"before": 7, "after": 7}
    assert plan["tokens"]["before"] != plan["tokens"]["after"]
    assert "s3cret" not in run(folder, new).output
