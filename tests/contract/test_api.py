"""The API over HTTP, on real servers: specs/api.md."""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import suppress
from typing import Any

import anyio
import httpx2
import pytest
import schemathesis
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from discovery_cli.program import cli
from discovery_engine._util.json import JSONObject
from discovery_server.api.application import ROUTES
from discovery_server.api.paging import InvalidCursorError, page
from discovery_server.api.route import ApiRoute
from tests.api_server import OWN, served
from tests.engines import Folder, good
from tests.unit.server import web

pytestmark = pytest.mark.anyio

CHECKS = [content_type_conformance, response_schema_conformance, status_code_conformance]
GENERATED = 10  # requests of each route; each is a round trip
SHARES = 4  # of the routes, so that processes of a test run take one each
_PATIENCE = 100  # seconds: some routes ask package managers, which a busy machine runs slowly


def path_of(route: ApiRoute) -> str:
    names = defaultdict(lambda: "x", server="good", tool="echo")
    return route.path.replace(":path}", "}").format_map(names)


def command_line(folder: Folder, *words: str) -> JSONObject:
    options = ["--config", str(folder.config), "--data-dir", str(folder.data), "--json"]
    answer = CliRunner().invoke(cli, [*options, *words])
    form = json.loads(answer.stdout)
    form.pop("schema_version")
    return form


@pytest.mark.requirement("API-1")
async def test_every_route_refuses_a_request_without_a_token(folder: Folder) -> None:
    async with served(folder) as api:
        for route in ROUTES:
            path = path_of(route)
            answer = await api.ask(path, route.method, token=None)
            assert answer.status_code == 401, route
        assert (await api.ask("/openapi.json", token=None)).status_code == 401
        assert (await api.ask("/status", token="another")).status_code == 401


@pytest.mark.requirement("API-2")
async def test_a_token_without_the_scope_of_a_route_is_refused_before_anything_is_done(
    folder: Folder,
) -> None:
    async with served(folder) as api:
        reader = api.tokens.create(scopes=frozenset({"read"}))[0]
        client = api.tokens.create()[0]
        allowed = {reader: {"read"}, client: {"read", "call"}}
        for token, scopes in allowed.items():
            for route in ROUTES:
                path = path_of(route)
                answer = await api.ask(path, route.method, token=token)
                assert (answer.status_code == 403) == (route.scope not in scopes), route

        spoken = await api.http.post(
            api.address.replace("/api", "/mcp"),
            json={"jsonrpc": "2.0", "id": 1, "method": "ping"},
            headers={"authorization": f"Bearer {reader}"},
        )
    assert spoken.status_code == 403


@pytest.mark.requirement("API-3")
async def test_a_token_of_a_view_shows_and_calls_what_the_view_shows_and_nothing_else(
    folder: Folder,
) -> None:
    async with served(folder) as api:
        token = api.tokens.create(view="echoes")[0]
        tools = (await api.ask("/servers/good/tools", token=token)).json()["tools"]
        found = (await api.ask("/search?query=environment", token=token)).json()
        shown = await api.ask("/servers/good/tools/environment", token=token)
        called = await api.ask("/servers/good/tools/environment/call", "POST", token=token, json={})
        whole = await api.get("/search", query="environment")

    assert [tool["tool"] for tool in tools] == ["echo"]
    assert "environment" not in json.dumps(found["results"])
    assert shown.status_code == called.status_code == 404
    assert whole["results"][0]["tool"] == "environment"


@pytest.mark.requirement("API-4")
async def test_answers_have_the_forms_of_the_command_line(folder: Folder) -> None:
    async with served(folder) as api:
        listed = await api.get("/servers")
        found = await api.get("/search", query="echo a text", explain=True)
        details = await api.get("/servers/good/tools/echo")
        tools = await api.get("/servers/good/tools", all=True)
        why = await api.get("/servers/good/tools/pid/why")

    def same(words: str) -> JSONObject:
        return command_line(folder, *words.split())

    # This process has a session with the server, the other one has none.
    shown = [{**server, "status": "idle"} for server in listed["servers"]]
    assert shown == same("list")["servers"]
    assert found == same("search echo a text --explain")
    assert details == same("inspect good:echo")["tool"]
    assert tools["tools"] == same("tools good --all")["tools"]
    assert why == same("why good:pid")
    assert why["deciding_rule"] == 0


@pytest.mark.requirement("API-4")
async def test_servers_are_filtered_by_words_source_package_state_and_tag(folder: Folder) -> None:
    async def names(**query: Any) -> list[str]:
        return [server["name"] for server in (await api.get("/servers", **query))["servers"]]

    async with served(folder) as api:
        found = [
            await names(tag="tests"),
            await names(query="other"),
            await names(source="registry"),
            await names(source="discovery.yaml", limit=1),
            await names(installed=True),
            await names(state="disabled"),
        ]
        reader = api.tokens.create(scopes=frozenset({"read"}))[0]
        refused = await api.ask("/servers?query=other", token=reader)

    assert found == [["good"], ["other"], [], ["good"], [], []]
    assert refused.status_code == 403


@pytest.mark.requirement("API-5")
async def test_errors_have_the_codes_of_the_command_line_and_a_next_step(folder: Folder) -> None:
    async with served(folder) as api:
        unknown = await api.ask("/servers/goood/tools")
        no_tool = await api.ask("/servers/good/tools/eco")
        off = await api.ask("/servers/good/tools/pid/call", "POST", json={"arguments": {}})
        wrong = await api.ask(
            "/servers/good/tools/echo/call", "POST", json={"arguments": {"text": 5}}
        )
        nothing = await api.ask("/nothing")
        method = await api.ask("/status", "DELETE")
        answers = [unknown, no_tool, off, wrong, nothing, method]

    assert [one.status_code for one in answers] == [404, 404, 409, 422, 404, 405]
    forms = [one.json() for one in answers]
    assert all(form["message"] and set(form) >= {"code", "message", "hint"} for form in forms)
    assert forms[0]["code"] == "SERVER_NOT_FOUND"
    assert forms[0]["nearest"] == ["good"]
    assert forms[1]["nearest"][0].endswith("echo")
    assert "GET /api/servers/good/tools/pid/why" in forms[2]["hint"]
    assert forms[3]["mistakes"]
    assert set(method.headers["allow"].split(", ")) == {"GET", "HEAD"}


@pytest.mark.requirement("API-6")
async def test_a_body_that_is_too_long_no_json_or_not_as_described_is_refused(
    folder: Folder,
) -> None:
    kind = {"headers": {"content-type": "application/json"}}
    rows: list[tuple[JSONObject, int]] = [
        ({"content": b"{", **kind}, 400),
        ({"content": b"[" * 100_000, **kind}, 400),
        ({"content": b"[]", **kind}, 422),
        ({"content": b'{"argumens": {}}', **kind}, 422),
        ({"content": b'{"arguments": "text"}', **kind}, 422),
        ({"content": b" " * (128 * 1024 + 1), **kind}, 413),
        ({"content": b"{}", "headers": {"content-type": "text/plain"}}, 415),
        ({"data": {"arguments": "{}"}}, 415),
    ]
    faults = []
    async with served(folder) as api:
        for options, status in rows:
            answer = await api.ask("/servers/good/tools/echo/call", "POST", **options)
            form = answer.json()
            is_named = form["code"] == "INVALID_REQUEST" and form["message"]
            if answer.status_code != status or not is_named:
                faults.append((status, answer.status_code, form))

    assert faults == []


@pytest.mark.requirement("API-6")
async def test_a_query_that_is_not_as_described_is_refused(folder: Folder) -> None:
    async with served(folder) as api:
        refused = [
            await api.ask(f"/search?{query}")
            for query in ("", "query=a&limit=0", "query=a&limt=5", "query=a&query=b")
        ]
        cursor = await api.ask("/servers?cursor=nonsense")
        nested = await api.ask("/servers?cursor=" + "W1tb" * 500)
        beyond = await api.ask(f"/logs?before={2**63}")

    assert [answer.status_code for answer in refused] == [422, 422, 422, 400]
    assert "limit" in refused[1].json()["message"]
    assert cursor.status_code == nested.status_code == 422
    assert "`cursor`" in cursor.json()["message"]
    assert "next_cursor" in cursor.json()["message"]
    assert cursor.json()["code"] == refused[1].json()["code"] == "INVALID_REQUEST"
    assert beyond.status_code == 422


@pytest.mark.requirement("API-7")
async def test_lists_come_in_pages_that_together_are_the_whole(folder: Folder) -> None:
    async with served(folder) as api:
        names, cursor = [], ""
        while cursor is not None:
            page_of = await api.get("/servers/good/tools", all=True, limit=1, cursor=cursor)
            names += [tool["tool"] for tool in page_of["tools"]]
            cursor = page_of["next_cursor"]

    assert names == ["echo", "environment", "pid"]


@pytest.mark.requirement("API-7")
@given(
    st.sets(st.text(max_size=5), max_size=30),
    st.sets(st.text(max_size=5), max_size=5),
    st.integers(1, 7),
)
def test_what_is_there_throughout_is_in_exactly_one_page(
    kept: set[str], gone: set[str], limit: int
) -> None:
    items, found, cursor = sorted(kept | gone), [], ""
    while True:
        shown, following = page(items, lambda one: (one,), cursor, limit)
        found += shown
        items = sorted(kept)  # the others are removed behind the first page
        if following is None:
            break
        cursor = following

    assert [one for one in found if one in kept] == sorted(kept)


@pytest.mark.requirement("API-7")
@given(st.text(min_size=1, max_size=40))
def test_any_other_text_is_refused_as_a_cursor_or_is_one(text: str) -> None:
    with suppress(InvalidCursorError):  # a few texts happen to be one
        page(["a"], lambda one: (one,), text, 1)


@pytest.mark.requirement("API-8")
async def test_a_call_passes_the_result_of_the_server_whole(folder: Folder) -> None:
    async with served(folder) as api:
        answer = await api.ask(
            "/servers/good/tools/echo/call", "POST", json={"arguments": {"text": "hello"}}
        )
        direct = await api.engine.execute("good", "echo", {"text": "hello"})

    assert answer.status_code == 200
    assert answer.json() == {"result": direct}


@pytest.mark.requirement("API-8")
async def test_a_call_stands_in_the_log_and_in_the_counts(folder: Folder) -> None:
    async with served(folder) as api:
        arguments = {"arguments": {"text": "hello"}}
        await api.ask("/servers/good/tools/echo/call", "POST", json=arguments)
        [entry] = (await api.get("/logs", kind="call"))["entries"]
        [counted] = (await api.get("/metrics", server="good"))["servers"]
        cleared = (await api.ask("/logs", "DELETE")).json()

    assert (entry["server"], entry["tool"], entry["by"]) == ("good", "echo", "program")
    assert (counted["calls"], counted["errors"]) == (1, 0)
    assert cleared["cleared"] >= 1


@pytest.mark.requirement("API-16", "OWN-24")
async def test_the_owner_switches_servers_and_decides_over_the_api(folder: Folder) -> None:
    async with served(folder) as api:
        off = (await api.ask("/servers/other/disable", "POST", json={})).json()
        on = (await api.ask("/servers/other/enable", "POST", json={})).json()
        asked = await api.engine.requests.submit("deactivate", "other", client="agent")
        [waiting] = (await api.get("/requests", state="waiting"))["requests"]
        declined = await api.ask(f"/requests/{asked.id}/decline", "POST", json={"reason": "no"})
        unknown = await api.ask("/requests/nobody/accept", "POST", json={})
        theirs = folder.path / "cursor.json"
        theirs.write_text(json.dumps({"mcpServers": {"theirs": {"command": "true"}}}))
        folder.write(good(), sources=[{"type": "cursor", "path": str(theirs)}])
        await api.engine.reload()
        copied = (await api.ask("/servers/theirs/disable", "POST", json={})).json()

    assert (copied["status"], copied["source"]) == ("disabled", "discovery.yaml")
    assert copied["copy"]["copied_from"]["path"] == str(theirs)
    assert copied["copy"]["changes"] == "+  enabled: false\n"
    assert (off["status"], on["status"] == "disabled") == ("disabled", False)
    assert waiting["id"] == asked.id
    assert declined.json()["state"] == "declined"
    assert (unknown.status_code, unknown.json()["code"]) == (404, "REQUEST_NOT_FOUND")


@pytest.mark.requirement("API-7")
async def test_the_tools_of_all_servers_come_in_pages(folder: Folder) -> None:
    async with served(folder) as api:
        found: list[str] = []
        cursor = ""
        while cursor is not None:
            answer = await api.get("/tools", limit=2, cursor=cursor)
            found += [f"{one['server']}:{one['tool']}" for one in answer["tools"]]
            cursor = answer["next_cursor"]
        every = (await api.get("/tools", all=True))["tools"]

    names = [f"{server}:{tool}" for server in ("good", "other") for tool in ("echo", "environment")]
    assert found == names
    assert [one["tool"] for one in every if not one["enabled"]] == ["pid", "pid"]


@pytest.mark.requirement("API-16")
async def test_a_server_is_restarted_as_another_process(folder: Folder) -> None:
    async with served(folder) as api:
        path = "/servers/good/tools/environment/call"
        calls = [await api.engine.health()]
        report = (await api.ask("/servers/good/restart", "POST", json={})).json()
        await api.ask(path, "POST", json={})
        calls.append(await api.engine.health())
        unknown = await api.ask("/servers/nobody/restart", "POST", json={})

    before, after = (next(one for one in found if one.name == "good") for found in calls)
    assert before.stats
    assert after.stats
    assert before.stats.pid != after.stats.pid
    assert report["servers"][0]["success"] is True
    assert (unknown.status_code, unknown.json()["code"]) == (404, "SERVER_NOT_FOUND")


@pytest.mark.requirement("API-16")
async def test_secrets_are_stored_and_never_shown(folder: Folder) -> None:
    async with served(folder) as api:
        await api.ask("/secrets/good/TOKEN", "PUT", json={"value": "s3cr3t-value"})
        names = await api.ask("/secrets")
        refused = await api.ask("/secrets/good/TOKEN", "PUT", json={"value": "two\nlines"})
        deleted = (await api.ask("/secrets/good/TOKEN", "DELETE")).json()

    assert names.json() == {"names": ["good/TOKEN"]}
    assert "s3cr3t" not in names.text
    assert refused.status_code == 422
    assert deleted == {"deleted": True}


@pytest.mark.requirement("API-16")
async def test_the_marketplace_is_searched_over_the_api(folder: Folder) -> None:
    async with served(folder) as api:
        found = await api.get("/marketplace", query="files", offline=True)
        sources = await api.get("/marketplace/sources")
        unknown = await api.ask("/marketplace/entry?name=no.such/entry&offline=true")

    assert found["servers"] == []
    assert sources["sources"]
    assert unknown.status_code == 404


@pytest.mark.requirement("API-9")
async def test_the_description_names_every_route_with_its_parameters(folder: Folder) -> None:
    async with served(folder) as api:
        document = await api.get("/openapi.json")

    described = {
        (path.removeprefix("/api"), method.upper())
        for path, methods in document["paths"].items()
        for method in methods
    }
    paths = {(route.path.replace(":path}", "}"), route.method) for route in ROUTES}
    assert described == paths
    query = document["paths"]["/api/search"]["get"]["parameters"][0]
    assert (query["name"], query["required"]) == ("query", True)
    names = [route.name for route in ROUTES]
    assert len(set(names)) == len(names)


@pytest.mark.requirement("API-61")
async def test_tokens_are_those_of_the_command_line_and_of_the_view(folder: Folder) -> None:
    async with served(folder) as api:
        form = await anyio.to_thread.run_sync(command_line, folder, "tokens", "echo a text")
        found = await api.get("/tokens", request="echo a text")
        drafted = await api.get("/tokens")
        limited = api.tokens.create(view="echoes")[0]
        seen = await api.ask("/tokens", token=limited)

    assert found["ways"] == form["ways"]
    assert (found["drafted"], drafted["drafted"]) == (False, True)
    assert seen.json()["ways"][0]["tools"] < drafted["ways"][0]["tools"]


@pytest.mark.requirement("API-60")
async def test_the_timeline_of_calls_has_spans_until_now(folder: Folder) -> None:
    async with served(folder) as api:
        await api.ask("/servers/good/tools/echo/call", "POST", json={"arguments": {"text": "a"}})
        found = await api.get("/metrics/timeline", minutes=10, step=2)
        of_other = await api.get("/metrics/timeline", server="other")
        too_many = await api.ask("/metrics/timeline?minutes=11000&step=1")

    assert found["is_kept"] is True
    assert (len(found["spans"]), found["total"]["calls"]) == (5, 1)
    assert all(span["at"] % 120 == 0 for span in found["spans"])
    assert found["spans"][-1]["calls"] + found["spans"][-2]["calls"] == 1
    assert (len(of_other["spans"]), of_other["total"]["calls"]) == (60, 0)
    assert too_many.status_code == 422
    assert "`step` of at least 8" in too_many.json()["hint"]


@pytest.mark.requirement("API-1")
async def test_without_tokens_there_is_no_api(folder: Folder) -> None:
    folder.write(good())
    paths = ("/api/status", "/events", "/metrics", "/", "/page/style.css", "/session")
    async with (
        folder.open() as engine,
        web.served(engine) as address,
        httpx2.AsyncClient() as http,
    ):
        origin = address.removesuffix("/mcp")
        answers = {path: (await http.get(origin + path)).status_code for path in paths}
    assert answers == dict.fromkeys(paths, 404)


@pytest.mark.thorough
@pytest.mark.requirement("API-9")
@pytest.mark.parametrize("share", range(SHARES))
async def test_generated_requests_are_answered_as_the_description_says(
    folder: Folder, share: int
) -> None:
    async with served(folder) as api:
        document = await api.get("/openapi.json")
        address = api.address.removesuffix("/api")
        await anyio.to_thread.run_sync(_ask_generated, document, address, share)


def _ask_generated(document: JSONObject, address: str, share: int) -> None:
    schema = schemathesis.openapi.from_dict(document)
    for result in [*schema.get_all_operations()][share::SHARES]:
        operation = result.ok()

        @settings(max_examples=GENERATED, deadline=None, database=None)
        @given(operation.as_strategy())
        def ask(case: schemathesis.Case) -> None:
            authorization = {"authorization": f"Bearer {OWN}"}
            answer = case.call_and_validate(
                address, headers=authorization, checks=CHECKS, timeout=_PATIENCE
            )
            assert answer.status_code != 500, answer.text

        ask()
