"""What is reserved stays unknown to others while it changes: when it goes, comes, or moves."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.api_server import OWN, Api
from tests.attacks.reserved_world import OTHER_TEAMS, OWN_TEAM, RESERVED_NAME, TOOLS, placed
from tests.engines import Folder
from tests.kinds import thinned
from tests.servers.offerings import World
from tests.servers.programs import HERE
from tests.task_clients import FORMS, TaskClient
from tests.unit.server.web import SessionClient

pytestmark = pytest.mark.anyio

RESERVED = "reserved"


async def over_both(api: Api, token: str, tool: str) -> str:
    """What is said of a tool of `docs`, over the API and to an agent."""
    shown = await api.ask(f"/servers/docs/tools/{tool}", token=token)
    async with SessionClient(api.address.replace("/api", "/mcp"), token) as client:
        details = await client.call_statelessly("get_tool_details", {"tool": f"docs:{tool}"})
    return f"{shown.text}\n{details.text}"


async def with_server(
    api: Api, folder: Folder, name: str, program: Path, *arguments: str
) -> dict[str, Any]:
    """The configuration, with one more server for all, which is listed."""
    content: dict[str, Any] = json.loads(folder.config.read_text("utf-8"))
    entry = {"command": sys.executable, "args": ["-I", "-S", str(program), *arguments]}
    content["servers"][name] = entry
    folder.config.write_text(json.dumps(content), "utf-8")
    await api.engine.reload()
    await api.engine.refresh([name])
    return content


@pytest.mark.requirement("SCP-2")
async def test_a_tool_that_was_reserved_was_never_there_for_others(tmp_path: Path) -> None:
    async with placed(tmp_path / RESERVED, with_reserved=True) as api:
        docs = World(tmp_path / RESERVED / "docs.json", "docs")
        tokens = [api.tokens.create(principals=one)[0] for one in (OWN_TEAM, OTHER_TEAMS)]
        docs.offer(tools=TOOLS)
        await api.engine.refresh()
        said = [await over_both(api, token, "pay_out") for token in (OWN, *tokens)]

    assert ["removed it on" in one for one in said] == [True, False, False]


@pytest.mark.requirement("SCP-12")
async def test_what_is_for_the_owner_alone_is_in_no_answer_to_others(tmp_path: Path) -> None:
    async with placed(tmp_path / RESERVED, with_reserved=True) as api:
        folder = Folder(tmp_path / RESERVED)
        content = json.loads(folder.config.read_text("utf-8"))
        content["toolRules"].append({"pattern": "list_*", "enabled": False})
        content["toolRules"].append({"pattern": "read_*", "enabled": True})
        content["servers"]["lost"] = {"command": str(tmp_path / "no-such-program")}
        folder.config.write_text(json.dumps(content), "utf-8")
        await api.engine.reload()
        await api.engine.refresh()
        tokens = OWN, api.tokens.create(principals=OTHER_TEAMS)[0]
        paths = (
            "/servers/docs/tools/list_pages",
            "/servers/docs/tools/list_page",
            "/servers/docs/tools/read_page",
            "/servers/docs/offerings?kind=resource",
            "/search?query=list pages of the handbook",
            "/servers/lost",
        )
        said = [
            "".join([(await api.ask(path, token=token)).text for path in paths]) for token in tokens
        ]

    assert ["list_pages" in one.replace("tools/list_pages", "") for one in said] == [True] * 2
    assert ["discovery.yaml:" in one for one in said] == [True, False]
    assert ["near, but disabled" in one for one in said] == [True, False]
    assert [str(tmp_path) in one for one in said] == [True, False]


@pytest.mark.requirement("SCP-12")
async def test_a_mistake_in_the_only_entry_that_is_reserved_opens_nothing(tmp_path: Path) -> None:
    mistakes: list[dict[str, Any]] = [
        {"comand": "x"},
        {"enabled": "maybe"},
        {"visibleTo": "payments"},
        {"visibleTo": []},
        {"visibleTo": {"team": "payments"}},
        {"visibleTo": None, "visibelTo": OWN_TEAM[0]},
    ]
    async with placed(tmp_path / RESERVED, with_reserved=True) as api:
        folder = Folder(tmp_path / RESERVED)
        content = json.loads(folder.config.read_text("utf-8"))
        for kind in ("toolRules", "resourceRules", "promptRules"):
            del content[kind]
        del content["servers"][RESERVED_NAME]
        payroll = content["servers"]["payroll"]
        other = api.tokens.create(principals=OTHER_TEAMS)[0]
        for mistake in mistakes:
            entry = {key: value for key, value in (payroll | mistake).items() if value is not None}
            servers = {**content["servers"], "payroll": entry}
            folder.config.write_text(json.dumps({**content, "servers": servers}), "utf-8")
            await api.engine.reload()
            listed = (await api.ask("/servers", token=other)).json()["servers"]
            assert [one["name"] for one in listed] == ["docs"], mistake
            assert (await api.ask("/../metrics", token=other)).status_code == 403
            assert "needs_config" in (await api.ask("/servers")).text


@pytest.mark.requirement("SCP-10")
@pytest.mark.parametrize("reserved", thinned(["its tool", "its server", "nothing"]))
async def test_a_call_that_waits_for_its_client_is_not_continued_once_it_is_for_others(
    tmp_path: Path, reserved: str
) -> None:
    called: dict[str, Any] = {"name": "execute_tool", "arguments": {"Tool": " asker:echo"}}
    async with placed(tmp_path / RESERVED, with_reserved=True) as api:
        folder = Folder(tmp_path / RESERVED)
        content = await with_server(api, folder, "asker", HERE / "asking_server.py", "asks")
        asker = content["servers"]["asker"]
        other = api.tokens.create(principals=OTHER_TEAMS)[0]
        async with TaskClient(api.address.replace("/api", "/mcp"), other) as client:
            asked = (await client.send("tools/call", FORMS, **called))["result"]
            if reserved == "its server":
                content["servers"]["asker"] = {**asker, "visibleTo": OWN_TEAM[0]}
            elif reserved == "its tool":
                content["toolRules"].append({"pattern": "echo", "visibleTo": OWN_TEAM[0]})
            folder.config.write_text(json.dumps(content), "utf-8")
            await api.engine.reload()
            continued = await client.send(
                "tools/call",
                FORMS,
                **called,
                requestState=asked["requestState"],
                inputResponses={key: {"action": "decline"} for key in asked["inputRequests"]},
            )

    if reserved == "nothing":
        assert "action" in str(continued["result"])  # of what its client has answered
    else:
        assert continued["error"]["data"] == {"reason": "invalid_request_state"}
