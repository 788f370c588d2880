"""What is reserved for a team: to all others it is as if it were not configured.

Two gateways are asked the same: one whose configuration reserves a server, a tool, a resource and a
prompt for a team, and one that has none of these, and reserves what it does not have. Whatever the
first answers to a token of another team must be what the second answers. The questions are listed
by routes, methods and meta-tools, so that a new one without a question fails.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import anyio
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
    ROUTE_QUESTIONS,
    WORDS,
    placed,
)
from tests.engines import Folder
from tests.unit.server.web import SessionClient, result_of, served
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
    assert '"server_count":3' in answers["GET /status {}"].replace(" ", "")


@pytest.mark.requirement("SCP-2")
async def test_views_and_limits_hold_within_what_a_team_sees(tmp_path: Path) -> None:
    async with placed(tmp_path / "reserved", with_reserved=True) as api:
        folder = Folder(tmp_path / "reserved")
        content = json.loads(folder.config.read_text("utf-8"))
        content["views"] = {"payers": {"servers": ["payroll"]}}
        folder.config.write_text(json.dumps(content), "utf-8")
        await api.engine.reload()
        limits = TokenLimits(servers=("pay*",))
        seen, over_mcp_seen = [], []
        for principals in (OWN_TEAM, OTHER_TEAMS):
            for options in ({"view": "payers"}, {"limits": limits}):
                token = api.tokens.create(principals=principals, **options)[0]
                answer = (await api.ask("/servers", token=token)).json()
                seen.append([one["name"] for one in answer["servers"]])
                async with SessionClient(api.address.replace("/api", "/mcp"), token) as client:
                    found = await client.call_statelessly("search_tools", {"query": WORDS})
                over_mcp_seen.append("transfer" in found.text)
        view = api.address.replace("/api", "/mcp/payers")
        async with SessionClient(view, api.tokens.create(principals=OTHER_TEAMS)[0]) as client:
            elsewhere = await client.call_statelessly("list_mcp_servers", {})

    assert seen == [["payroll"], ["payroll"], [], []]
    assert over_mcp_seen == [True, True, False, False]
    assert elsewhere.status_code == 200
    assert "payroll" not in elsewhere.text


@pytest.mark.thorough
@pytest.mark.requirement("SCP-10")
async def test_what_changes_for_a_team_is_no_notification_to_others(tmp_path: Path) -> None:
    async with placed(tmp_path / "reserved", with_reserved=True, mode="direct") as api:
        address = api.address.replace("/api", "/mcp")
        own, other = (api.tokens.create(principals=one)[0] for one in (OWN_TEAM, OTHER_TEAMS))
        notified = {token: anyio.Event() for token in (own, other)}

        async def follow(token: str, opened: anyio.Event) -> None:
            async with SessionClient(address, token) as client:
                headers = {"mcp-session-id": await client.open()}
                async with client.http.stream("GET", address, headers=headers) as stream:
                    opened.set()
                    async for line in stream.aiter_lines():
                        if "list_changed" in line:
                            notified[token].set()

        async with anyio.create_task_group() as group:
            for token in notified:
                opened = anyio.Event()
                group.start_soon(follow, token, opened)
                with anyio.fail_after(60):
                    await opened.wait()
            await api.engine.servers.disable("payroll")
            with anyio.fail_after(60):
                await notified[own].wait()
            is_of_reserved = notified[other].is_set()
            await api.engine.servers.disable("docs")
            with anyio.fail_after(60):
                await notified[other].wait()
            group.cancel_scope.cancel()

    assert not is_of_reserved


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


@pytest.mark.requirement("SCP-4")
async def test_a_gateway_without_tokens_shows_what_is_for_all(tmp_path: Path) -> None:
    async with (
        placed(tmp_path / "reserved", with_reserved=True) as api,
        served(api.engine) as address,
        SessionClient(address) as client,
    ):
        session = await client.open()
        listed = await client.call("list_mcp_servers", {}, session=session)
        found = await client.call_statelessly("search_tools", {"query": WORDS})

    assert "docs" in listed.text
    assert "payroll" not in listed.text
    assert "transfer" not in found.text
