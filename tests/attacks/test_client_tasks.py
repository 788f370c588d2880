"""Clients that reach for the tasks of others, judged by what the server of the task was asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from discovery_server.tokens import parse_tokens
from tests.task_clients import FORMS, TASKS, TaskClient, client_of, engine_of
from tests.unit.server.web import served

pytestmark = pytest.mark.anyio

ANNA, BERTA = "anna-token-of-many-characters", "berta-token-of-many-characters"
TOKENS = parse_tokens(ANNA, BERTA)
BOTH = {**TASKS, **FORMS}
ANSWER: dict[str, Any] = {
    "inputResponses": {"sure": {"action": "accept", "content": {"x": "evil"}}}
}


@pytest.mark.requirement("TSK-30")
async def test_no_other_client_sees_answers_or_cancels_a_task(tmp_path: Path) -> None:
    async with (
        engine_of(tmp_path, "asks") as engine,
        served(engine, TOKENS) as address,
        TaskClient(address, ANNA) as anna,
        TaskClient(address, BERTA) as berta,
    ):
        task = (await anna.call("asks:work", BOTH))["taskId"]
        refused = [
            await berta.about("get", task),
            await berta.about("update", task, **ANSWER),
            await berta.about("cancel", task),
        ]
        before = await anna.log("asks")
        state = await anna.get(task, capabilities=BOTH)

    assert [one["error"]["code"] for one in refused] == [-32602] * 3
    assert len({one["error"]["message"] for one in refused}) == 1
    assert before == []
    assert state["status"] == "input_required"


@pytest.mark.requirement("TSK-30")
async def test_an_id_that_was_not_handed_out_reaches_no_server(tmp_path: Path) -> None:
    async with (
        engine_of(tmp_path, "endless") as engine,
        served(engine) as address,
        TaskClient(address) as client,
    ):
        task = (await client.call("endless:work"))["taskId"]
        forged = [
            "task-1",  # the server's own
            task[:-1],
            task + "A",
            task.swapcase(),
            f" {task}",
            "endless:task-1",
            "../task-1",
            "x" * 10_000,
            "",
        ]
        answers = [
            await client.about(method, one, **(ANSWER if method == "update" else {}))
            for one in forged
            for method in ("get", "update", "cancel")
        ]
        asked = await client.log("endless")

    assert all(one["error"]["code"] in {-32602, -32020, -32600} for one in answers), answers
    assert asked == []
    assert all("x" * 300 not in json.dumps(one) for one in answers)


@pytest.mark.requirement("TSK-30")
@pytest.mark.parametrize("change", ["disabled", "removed"])
async def test_a_task_of_a_server_that_was_switched_off_does_not_exist(
    tmp_path: Path, change: str
) -> None:
    async with (
        engine_of(tmp_path, "works", "endless") as engine,
        served(engine) as address,
        TaskClient(address) as client,
    ):
        task = (await client.call("works:work"))["taskId"]
        config = json.loads((tmp_path / "discovery.yaml").read_text("utf-8"))
        if change == "removed":
            del config["servers"]["works"]
        else:
            config["servers"]["works"]["enabled"] = False
        (tmp_path / "discovery.yaml").write_text(json.dumps(config), "utf-8")
        await engine.reload()
        got = await client.about("get", task)
        answered = await client.about("update", task, **ANSWER)
        cancelled = await client.about("cancel", task)

    codes = [one.get("error", {}).get("code") for one in (got, answered, cancelled)]
    assert codes == [-32602] * 3


@pytest.mark.requirement("TSK-30")
async def test_a_task_of_a_tool_that_was_withheld_meanwhile_does_not_exist(tmp_path: Path) -> None:
    async with (
        engine_of(tmp_path, "works") as engine,
        served(engine) as address,
        TaskClient(address) as client,
    ):
        task = (await client.call("works:work"))["taskId"]
        config = json.loads((tmp_path / "discovery.yaml").read_text("utf-8"))
        config["toolRules"] = [{"pattern": "work", "enabled": False}]
        (tmp_path / "discovery.yaml").write_text(json.dumps(config), "utf-8")
        await engine.reload()
        got = await client.about("get", task)
        answered = await client.about("update", task, **ANSWER)
        cancelled = await client.about("cancel", task)
        asked = await client.log("works")

    assert got["error"]["code"] == answered["error"]["code"] == -32602
    assert "result" in cancelled
    assert asked == [["tasks/cancel", "task-1"]]


@pytest.mark.requirement("TSK-30")
async def test_a_view_that_does_not_show_the_tool_does_not_show_its_task(tmp_path: Path) -> None:
    views = {"narrow": {"servers": ["other"]}}
    async with client_of(tmp_path, "works", "endless", views=views) as client:
        task = (await client.call("works:work"))["taskId"]
        hidden = await client.about("get", task, path="/narrow")
        state = await client.get(task)
        asked = await client.log("works")

    assert hidden["error"]["code"] == -32602
    assert "TASK_NOT_FOUND" in hidden["error"]["message"]
    assert state["status"] == "working"
    assert asked == [["tasks/get", "task-1"]]


@pytest.mark.requirement("TSK-27", "TSK-30")
async def test_no_other_client_is_notified_of_a_task(tmp_path: Path) -> None:
    async with (
        engine_of(tmp_path, "works") as engine,
        served(engine, TOKENS) as address,
        TaskClient(address, ANNA) as anna,
        TaskClient(address, BERTA) as berta,
    ):
        task = (await anna.call("works:work"))["taskId"]
        [message] = await berta.notified(lambda _: True, taskIds=[task], toolsListChanged=True)
        asked = await anna.log("works")

    assert "taskIds" not in message["params"]["notifications"]
    assert asked == []
