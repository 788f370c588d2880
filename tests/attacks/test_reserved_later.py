"""What is reserved stays unknown to others while it changes: when it goes, comes, or moves."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.catalog import DroppedTool, RemovedTool
from discovery_engine.rules.rule import Rule
from discovery_engine.runtime.searcher_source import SearcherSource
from discovery_engine.tools.model import ServerName
from discovery_engine.view.scope import Scope, ShownView
from discovery_engine.view.view import View
from tests.api_server import OWN, Api
from tests.attacks.reserved_world import OTHER_TEAMS, OWN_TEAM, RESERVED_NAME, TOOLS, placed
from tests.engines import Folder
from tests.factories import make_catalog, make_part, make_settings
from tests.kinds import thinned
from tests.rows import rows
from tests.servers.offerings import World
from tests.servers.programs import HERE
from tests.task_clients import FORMS, TaskClient
from tests.task_clients import SERVER as TASK_SERVER
from tests.unit.server.web import SessionClient

pytestmark = pytest.mark.anyio

RESERVED = "reserved"
CALLING: dict[str, JSONObject] = {
    "execute_tool": {"Tool": " asker:echo"},  # as a model may write it
    "execute_steps": {"steps": [{"id": "one", "tool": "asker:echo", "arguments": {}}]},
    "registry": {"action": "proxy_call", "tool": "echo", "server": "asker"},
}
"""How a tool is called that asks its client."""


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


@pytest.mark.requirement("SCP-2")
@rows("how", ["removed", "dropped"])
def test_instructions_that_name_a_reserved_tool_are_hidden_though_nobody_can_call_it(
    how: str,
) -> None:
    gone = RemovedTool("pay_out", 1.0) if how == "removed" else DroppedTool("pay_out", "is broken")
    part = make_part("docs", "read_page", instructions="Call pay_out.", **{how: (gone,)})
    catalog = make_catalog(part)
    view = View(make_settings("docs"), catalog, SearcherSource(catalog, make_settings("docs")))
    scope = Scope(rules=(Rule(("pay_*",), enabled=False),))

    shown = ShownView(lambda _: scope, lambda: view).view().catalog.part(ServerName("docs"))

    assert shown.instructions == ""
    assert [entry.tool.name for entry in shown.entries] == ["read_page"]


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
            "/servers/docs/resources",
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


@pytest.mark.requirement("SCP-10")
async def test_what_is_hidden_elsewhere_changes_no_revision_of_others(tmp_path: Path) -> None:
    async with placed(tmp_path / RESERVED, with_reserved=True) as api:
        folder = Folder(tmp_path / RESERVED)
        other = api.tokens.create(principals=OTHER_TEAMS)[0]
        content = json.loads(folder.config.read_text("utf-8"))
        before = (await api.ask("/status", token=other)).json()
        known = [before]
        payroll, rules = content["servers"]["payroll"], content["toolRules"]
        for change in (
            {"servers": {**content["servers"], "salaries": payroll}},
            {"toolRules": [*rules, {"pattern": "none", "visibleTo": "team:legal"}]},
            {"toolRules": rules},
        ):
            folder.config.write_text(json.dumps(content | change), "utf-8")
            await api.engine.reload()
            await api.engine.refresh(["payroll"])
            known.append((await api.ask("/status", token=other)).json())
        World(tmp_path / RESERVED / "docs.json", "docs").offer(tools=TOOLS[:1])
        await api.engine.refresh()
        after = (await api.ask("/status", token=other)).json()

    assert known == [before] * 4
    assert after["revision"] > before["revision"]


@pytest.mark.requirement("SCP-13")
@pytest.mark.parametrize(
    "mistake",
    thinned(
        [
            pytest.param({"comand": "x"}, id="another key"),
            pytest.param({"enabled": "maybe"}, id="another value"),
            pytest.param({"visibleTo": "payments"}, id="no principal"),
            pytest.param({"visibleTo": []}, id="none"),
            pytest.param({"visibleTo": {"team": "payments"}}, id="a mapping"),
            pytest.param({"visibleTo": None, "visibelTo": OWN_TEAM[0]}, id="a misspelt key"),
        ]
    ),
)
async def test_a_mistake_in_the_only_entry_that_is_reserved_opens_nothing(
    tmp_path: Path, mistake: JSONObject
) -> None:
    async with placed(tmp_path / RESERVED, with_reserved=True) as api:
        folder = Folder(tmp_path / RESERVED)
        content = json.loads(folder.config.read_text("utf-8"))
        for kind in ("toolRules", "resourceRules", "promptRules"):
            del content[kind]
        del content["servers"][RESERVED_NAME]
        entry = content["servers"]["payroll"] | mistake
        content["servers"]["payroll"] = {k: v for k, v in entry.items() if v is not None}
        folder.config.write_text(json.dumps(content), "utf-8")
        await api.engine.reload()
        other = api.tokens.create(principals=OTHER_TEAMS)[0]
        servers = await api.ask("/servers", token=other)
        metrics = await api.ask("/../metrics", token=other)
        owner = await api.ask("/servers")

    assert [one["name"] for one in servers.json()["servers"]] == ["docs"]
    assert metrics.status_code == 403
    assert "needs_config" in owner.text


@pytest.mark.requirement("SCP-11")
@pytest.mark.parametrize("reserved", thinned(["its server", "its tool", "nothing"]))
@pytest.mark.parametrize("name", CALLING)
async def test_a_call_that_waits_for_its_client_is_not_continued_once_it_is_for_others(
    tmp_path: Path, reserved: str, name: str
) -> None:
    called: dict[str, Any] = {"name": name, "arguments": CALLING[name]}
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


@pytest.mark.requirement("SCP-11")
async def test_a_task_is_unknown_once_its_server_is_for_others_though_it_lists_its_tool_no_more(
    tmp_path: Path,
) -> None:
    async with placed(tmp_path / RESERVED, with_reserved=True) as api:
        folder = Folder(tmp_path / RESERVED)
        endless = "endless", "--era", "modern"
        content = await with_server(api, folder, "worker", TASK_SERVER, *endless)
        worker = content["servers"]["worker"]
        other = api.tokens.create(principals=OTHER_TEAMS)[0]
        async with TaskClient(api.address.replace("/api", "/mcp"), other) as client:
            task = (await client.call("worker:work"))["taskId"]
            states = [await client.about("get", task)]
            content["servers"]["worker"] = {**worker, "visibleTo": OWN_TEAM[0]}
            folder.config.write_text(json.dumps(content), "utf-8")
            await api.engine.reload()
            states.append(await client.about("get", task))
            await api.engine.forget(["worker"])
            states.append(await client.about("get", task))

    assert ["result" in state for state in states] == [True, False, False]
