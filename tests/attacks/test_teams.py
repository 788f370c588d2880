"""What is reserved for a team: to all others it is as if it were not configured.

Two gateways are asked the same: one whose configuration reserves a server, a tool, a resource and a
prompt for a team, and one that has none of these, and reserves what it does not have. Whatever the
first answers to a token of another team must be what the second answers. The questions are listed
by routes, methods and meta-tools, so that a new one without a question fails.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from discovery_engine.agent.registry_tool import READING
from discovery_engine.rpc.protocol import LATEST_HANDSHAKE
from discovery_engine.tools.meta_tools import ALL_META_TOOLS
from discovery_server.access_token import TokenLimits
from discovery_server.api.application import ROUTES
from discovery_server.eras import methods_of
from tests.api_server import OWN, Api
from tests.attacks.reserved_world import (
    META_QUESTIONS,
    METHODS,
    NOT_ASKED,
    OTHER_TEAMS,
    OWN_TEAM,
    RESERVED_NAME,
    ROUTE_QUESTIONS,
    TOOLS,
    placed,
)
from tests.engines import Folder
from tests.servers.offerings import World
from tests.servers.programs import HERE
from tests.task_clients import FORMS, TaskClient
from tests.unit.server.web import SessionClient, result_of
from tests.unit.server.wire import MODERN, request

pytestmark = pytest.mark.anyio

Asked = dict[str, str]
"""Answers by questions."""


async def over_api(api: Api, token: str) -> Asked:
    found = {}
    for (method, _), questions in ROUTE_QUESTIONS.items():
        for path, body in questions:
            options = {"json": body} if method == "POST" else {}
            answer = await api.ask(path, method, token=token, **options)
            found[f"{method} {path} {body}"] = f"{answer.status_code} {answer.text}"
    return found


async def over_mcp(api: Api, token: str | None) -> Asked:
    found = {}
    meta = [
        {"name": name, "arguments": arguments}
        for name, questions in META_QUESTIONS.items()
        for arguments in questions
    ]
    async with SessionClient(api.address.replace("/api", "/mcp"), token) as client:
        session = await client.open()
        for version, methods in METHODS.items():
            asked = [(method, one) for method, questions in methods.items() for one in questions]
            for method, params in [*asked, *(("tools/call", one) for one in meta)]:
                if version == LATEST_HANDSHAKE:
                    id_ = None if method == "initialize" else session
                    body = request(3, method, **params)
                    headers = {"mcp-session-id": id_} if id_ else {}
                else:
                    body = request(3, method, **params, _meta=MODERN)
                    named = str(params.get("name") or params.get("uri") or params.get("taskId"))
                    headers = {"mcp-protocol-version": version, "mcp-method": method}
                    headers |= {"mcp-name": named} if named != "None" else {}
                address = api.address.replace("/api", "/mcp")
                answer = await client.http.post(address, json=body, headers=headers)
                found[f"{version} {body}"] = f"{answer.status_code} {answer.text}"
    return found


_TIMES = re.compile(r'(listed_at|revision|last_health_check)(\\?": ?)[0-9.]+')


def without_times(asked: Asked) -> Asked:
    return {question: _TIMES.sub(r"\1\g<2>0", answer) for question, answer in asked.items()}


def differing(asked: Asked, expected: Asked) -> dict[str, tuple[str, str]]:
    found = without_times(asked)
    return {one: (found[one], said) for one, said in expected.items() if found[one] != said}


def test_every_route_method_and_meta_tool_has_a_question() -> None:
    routes = {(one.method, one.path) for one in ROUTES if one.scope != "admin"}

    assert routes == ROUTE_QUESTIONS.keys()
    for version, methods in METHODS.items():
        assert set(methods_of(version)) == methods.keys()
    assert set(ALL_META_TOOLS) | {"registry"} == META_QUESTIONS.keys()
    actions = {one["action"] for one in META_QUESTIONS["registry"]}
    assert actions | NOT_ASKED == READING.keys()


@pytest.mark.thorough
@pytest.mark.requirement("SCP-2")
@pytest.mark.parametrize("mode", ["meta", "direct", "dynamic"])
async def test_every_answer_to_another_team_is_as_if_it_was_not_configured(
    tmp_path: Path, mode: str
) -> None:
    async with (
        placed(tmp_path / "reserved", with_reserved=True, mode=mode) as reserving,
        placed(tmp_path / "without", with_reserved=False, mode=mode) as without,
    ):
        other = reserving.tokens.create(principals=OTHER_TEAMS)[0]
        plain, twin = reserving.tokens.create()[0], without.tokens.create()[0]
        own = reserving.tokens.create(principals=OWN_TEAM)[0]
        expected = without_times(await over_api(without, twin) | await over_mcp(without, twin))
        for token in (other, plain):
            answers = await over_api(reserving, token) | await over_mcp(reserving, token)
            assert differing(answers, expected) == {}
        answers = await over_api(reserving, own) | await over_mcp(reserving, own)

    seen = differing(answers, expected)
    assert len(seen) > len(expected) // 2  # the questions are about what is reserved
    assert sum("skill" in question for question in seen) > 20
    assert '"server_count":3' in answers["GET /status {}"].replace(" ", "")


@pytest.mark.requirement("SCP-2")
async def test_views_and_limits_of_a_token_hold_within_what_its_team_sees(tmp_path: Path) -> None:
    async with placed(tmp_path, with_reserved=True) as api:
        content = json.loads(Folder(tmp_path).config.read_text("utf-8"))
        content["views"] = {"payers": {"servers": ["payroll"]}}
        Folder(tmp_path).config.write_text(json.dumps(content), "utf-8")
        await api.engine.reload()
        narrowings: list[dict[str, Any]] = [
            {"view": "payers"},
            {"limits": TokenLimits(servers=("pay*",))},
        ]
        names, texts = [], []
        for principals in (OWN_TEAM, OTHER_TEAMS):
            for narrowing in narrowings:
                token = api.tokens.create(principals=principals, **narrowing)[0]
                listed = (await api.ask("/servers", token=token)).json()["servers"]
                names.append([server["name"] for server in listed])
                async with SessionClient(f"{api.origin}/mcp", token) as client:
                    texts.append((await client.call_statelessly("list_mcp_servers", {})).text)

    assert names == [["payroll"], ["payroll"], [], []]
    assert ["payroll" in text for text in texts] == [True, True, False, False]
    assert not [text for text in texts if "docs" in text]


@pytest.mark.requirement("SCP-10")
async def test_sessions_end_when_something_is_reserved(tmp_path: Path) -> None:
    async with placed(tmp_path / "all", with_reserved=True) as api:
        folder = Folder(tmp_path / "all")
        reserving = json.loads(folder.config.read_text("utf-8"))
        free = json.loads(folder.config.read_text("utf-8"))
        for entry in free["servers"].values():
            entry.pop("visibleTo", None)
        for kind in ("toolRules", "resourceRules", "promptRules"):
            del free[kind]
        folder.config.write_text(json.dumps(free), "utf-8")
        await api.engine.reload()
        plain = api.tokens.create()[0]
        calls = [{"tool": "payroll:transfer", "arguments": {}}] * 2
        async with SessionClient(api.address.replace("/api", "/mcp"), plain) as client:
            session = await client.open()
            before = await client.call("execute_tool", calls[0], session=session)
            folder.config.write_text(json.dumps(reserving), "utf-8")
            await api.engine.reload()
            old = await client.call("execute_tool", calls[0], session=session)
            session = await client.open()
            new = await client.call("execute_tool", calls[0], session=session)
            modern = await client.call_statelessly("execute_tool", calls[0])

    assert not result_of(before).get("isError")
    assert old.status_code == 404
    assert result_of(new)["isError"]
    assert result_of(modern)["isError"]
    assert "SERVER_NOT_FOUND" in new.text
    assert "SERVER_NOT_FOUND" in modern.text


@pytest.mark.thorough
@pytest.mark.requirement("SCP-4", "SCP-12")
async def test_the_owner_alone_has_what_names_everything(tmp_path: Path) -> None:
    async with placed(tmp_path / "reserved", with_reserved=True) as api:
        scopes: dict[str, frozenset[Any]] = {"read": frozenset({"read", "call"})}
        scopes["admin"] = frozenset({"read", "call", "admin"})
        tokens = {
            "owner": OWN,
            "admin": api.tokens.create(scopes=scopes["admin"])[0],
            "own": api.tokens.create(principals=OWN_TEAM)[0],
            "plain": api.tokens.create()[0],
        }
        metrics, servers, everything = {}, {}, {}
        for name, token in tokens.items():
            address = api.address.replace("/api", "/metrics")
            headers = {"authorization": f"Bearer {token}"}
            metrics[name] = await api.http.get(address, headers=headers)
            servers[name] = await api.ask("/servers", token=token)
            everything[name] = {
                (
                    await api.ask(
                        one.filled(server="good", tool="echo"), one.method, token=token, json={}
                    )
                ).status_code
                for one in await api.routes()
                if one.scope == "admin" and name in ("own", "plain")
            }

    assert [one.status_code for one in metrics.values()] == [200, 200, 403, 403]
    assert "payroll" not in metrics["own"].text + metrics["plain"].text
    sees = [name for name, one in servers.items() if "payroll" in one.text]
    assert sees == ["owner", "admin", "own"]
    assert everything["own"] == everything["plain"] == {403}


RESERVED = "reserved"


async def over_both(api: Api, token: str, tool: str) -> str:
    """What is said of a tool of `docs`, over the API and to an agent."""
    shown = await api.ask(f"/servers/docs/tools/{tool}", token=token)
    async with SessionClient(api.address.replace("/api", "/mcp"), token) as client:
        details = await client.call_statelessly("get_tool_details", {"tool": f"docs:{tool}"})
    return f"{shown.text}\n{details.text}"


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
        servers = {**content["servers"], "broken": {"comand": "x"}}
        folder.config.write_text(json.dumps({**content, "servers": servers}), "utf-8")
        await api.engine.reload()
        own = api.tokens.create(principals=OWN_TEAM)[0]
        listed = (await api.ask("/servers", token=own)).json()["servers"]
        assert [one["name"] for one in listed] == ["docs", "payroll"]
        assert "broken" in (await api.ask("/servers")).text


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
        teams = OTHER_TEAMS, OWN_TEAM  # who stands for all that is reserved is not the owner
        tokens = OWN, *(api.tokens.create(principals=one)[0] for one in teams)
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

    assert ["list_pages" in one.replace("tools/list_pages", "") for one in said] == [True] * 3
    assert ["discovery.yaml:" in one for one in said] == [True, False, False]
    assert ["near, but disabled" in one for one in said] == [True, False, False]
    assert [str(tmp_path) in one for one in said] == [True, False, False]


@pytest.mark.requirement("SCP-10")
@pytest.mark.parametrize("is_reserved", [False, True])
async def test_a_call_that_waits_for_its_client_is_not_continued_once_it_is_for_others(
    tmp_path: Path, *, is_reserved: bool
) -> None:
    called: dict[str, Any] = {"name": "execute_tool", "arguments": {"Tool": " asker:echo"}}
    program = ["-I", "-S", str(HERE / "asking_server.py"), "asks"]
    async with placed(tmp_path / RESERVED, with_reserved=True) as api:
        file = Folder(tmp_path / RESERVED).config
        content = json.loads(file.read_text("utf-8"))
        content["servers"]["asker"] = {"command": sys.executable, "args": program}
        file.write_text(json.dumps(content), "utf-8")
        await api.engine.reload()
        await api.engine.refresh(["asker"])
        other = api.tokens.create(principals=OTHER_TEAMS)[0]
        async with TaskClient(api.address.replace("/api", "/mcp"), other) as client:
            asked = (await client.send("tools/call", FORMS, **called))["result"]
            if is_reserved:
                content["toolRules"].append({"pattern": "echo", "visibleTo": OWN_TEAM[0]})
                file.write_text(json.dumps(content), "utf-8")
                await api.engine.reload()
            answers = {key: {"action": "decline"} for key in asked["inputRequests"]}
            back = {"requestState": asked["requestState"], "inputResponses": answers}
            continued = await client.send("tools/call", FORMS, **called, **back)

    if is_reserved:
        assert continued["error"]["data"] == {"reason": "invalid_request_state"}
    else:
        assert "action" in str(continued["result"])  # of what its client has answered
