"""The API over HTTP, on real servers: specs/api.md."""

from __future__ import annotations

import json
from typing import Any

import anyio
import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from discovery_engine.events import ResourceUpdated
from discovery_server.api import watched_resources
from tests.api_server import OWN, Api, command_line, served
from tests.engines import Folder, good, heard
from tests.factories import make_definition
from tests.servers.offerings import World, resource
from tests.servers.programs import eventually
from tests.unit.server import web

pytestmark = pytest.mark.anyio

CHECKS = [content_type_conformance, response_schema_conformance, status_code_conformance]
GENERATED = 10  # requests of each route; each is a round trip
SHARES = 4  # of the routes, so that processes of a test run take one each
_PATIENCE = 100  # seconds: some routes ask package managers, which a busy machine runs slowly
OAUTH = {"error", "error_description"}


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


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


@pytest.mark.requirement("API-2")
async def test_a_missing_scope_is_named(api: Api) -> None:
    reader = api.tokens.create(scopes=frozenset({"read"}))[0]
    caller = api.tokens.create(scopes=frozenset({"call"}))[0]
    address = api.address.removesuffix("/api")
    refused = [
        await api.ask("/servers/good/tools/echo/call", "POST", token=reader, json={}),
        await api.http.get(f"{address}/metrics", headers=bearer(caller)),
    ]

    forms = [answer.json() for answer in refused]
    assert [answer.status_code for answer in refused] == [403, 403]
    assert [(form["code"], form["needed"]) for form in forms] == [
        ("SCOPE_MISSING", "call"),
        ("SCOPE_MISSING", "read"),
    ]
    assert all(f"--scope {form['needed']}" in form["hint"] for form in forms)


@pytest.mark.requirement("API-2")
async def test_a_token_without_admin_is_not_shown_what_is_disabled(api: Api) -> None:
    reader = api.tokens.create(scopes=frozenset({"read"}))[0]
    paths = (
        "/tools?all=true",
        "/servers/good/tools?all=true",
        "/servers/good/tools/pid?all=true",
        "/servers/good/tools/pid?why=true",
        "/servers/good/offerings?kind=resource&all=true",
    )

    statuses = [
        (await api.ask(path, token=token)).status_code for path in paths for token in (OWN, reader)
    ]

    assert statuses == [200, 403] * len(paths)


@pytest.mark.requirement("API-4")
async def test_answers_have_the_forms_of_the_command_line(api: Api) -> None:
    listed = await api.get("/servers")
    found = await api.get("/search", query="echo a text", explain=True)
    details = await api.get("/servers/good/tools/echo")
    tools = await api.get("/servers/good/tools", all=True)
    why = (await api.get("/servers/good/tools/pid", why=True))["why"]
    costs = await api.get("/tokens", request="echo a text")

    def same(words: str) -> dict[str, Any]:
        return command_line(api.folder, *words.split())

    # This process has a session with the server, the other one has none.
    shown = [{**server, "status": "idle"} for server in listed["servers"]]
    assert shown == same("list")["servers"]
    assert found == same("search echo a text --explain")
    assert details == same("inspect good:echo")["tool"]
    assert tools["tools"] == same("tools good --all")["tools"]
    assert why == same("why good:pid")
    assert why["deciding_rule"] == 0
    assert costs["ways"] == same("tune tokens echo a text")["ways"]


@pytest.mark.requirement("API-4")
async def test_a_call_passes_the_result_of_the_server_whole(api: Api) -> None:
    answer = await api.ask(
        "/servers/good/tools/echo/call", "POST", json={"arguments": {"text": "hello"}}
    )
    direct = await api.engine.execute("good", "echo", {"text": "hello"})

    assert answer.status_code == 200
    assert answer.json() == {"result": direct}


@pytest.mark.requirement("API-5")
async def test_errors_have_the_codes_of_the_command_line_and_a_next_step(api: Api) -> None:
    unknown = await api.ask("/servers/goood/tools")
    no_tool = await api.ask("/servers/good/tools/eco")
    off = await api.ask("/servers/good/tools/pid/call", "POST", json={"arguments": {}})
    wrong = await api.ask("/servers/good/tools/echo/call", "POST", json={"arguments": {"text": 5}})
    nothing = await api.ask("/nothing")
    method = await api.ask("/status", "DELETE")
    answers = [unknown, no_tool, off, wrong, nothing, method]

    assert [one.status_code for one in answers] == [404, 404, 409, 422, 404, 405]
    forms = [one.json() for one in answers]
    assert all(form["message"] and set(form) >= {"code", "message", "hint"} for form in forms)
    assert forms[0]["code"] == "SERVER_NOT_FOUND"
    assert forms[0]["nearest"] == ["good"]
    assert forms[1]["nearest"][0].endswith("echo")
    assert "GET /api/servers/good/tools/pid?why=true" in forms[2]["hint"]
    assert forms[3]["mistakes"]
    assert set(method.headers["allow"].split(", ")) == {"GET", "HEAD"}


@pytest.mark.requirement("API-5")
async def test_refusals_before_any_route_have_the_form_of_the_api(api: Api) -> None:
    foreign_page = {"origin": "https://evil.example"}
    refusals: list[tuple[dict[str, str], str, int, str]] = [
        ({}, "", 401, "UNAUTHORIZED"),
        (bearer("another"), "", 401, "UNAUTHORIZED"),
        (bearer(OWN), "?token=x", 400, "INVALID_REQUEST"),
        (bearer(OWN) | {"host": "evil.example"}, "", 421, "ORIGIN_REFUSED"),
        (bearer(OWN) | foreign_page, "", 403, "ORIGIN_REFUSED"),
    ]
    faults = []
    address = api.address.removesuffix("/api")
    for headers, query, status, code in refusals:
        for path in ("/api/status", "/api", "/events", "/metrics", "/metrics/x"):
            refused = await api.http.get(f"{address}{path}{query}", headers=headers)
            form = refused.json()
            is_right = (
                (refused.status_code, form["code"]) == (status, code)
                and form["message"]
                and form["hint"]
                and refused.headers["content-type"] == "application/json"
                and (code == "ORIGIN_REFUSED" or "www-authenticate" in refused.headers)
            )
            if not is_right:
                faults.append((path, code, refused.status_code, form))
        client = await api.http.get(f"{address}/mcp{query}", headers=headers)
        is_of_oauth = code == "ORIGIN_REFUSED" or client.json().keys() == OAUTH
        if client.status_code != status or not is_of_oauth:
            faults.append(("/mcp", code, client.status_code, client.text))

    assert faults == []


@pytest.mark.requirement("API-5")
async def test_the_next_step_of_a_program_is_a_route_that_exists(api: Api) -> None:
    reader = api.tokens.create(scopes=frozenset({"read", "call"}))[0]
    call = "/servers/good/tools/pid/call"
    asked = {
        "GET /api/servers names": await api.ask("/servers/goood/tools"),
        "GET /api/servers/good/tools names": await api.ask("/servers/good/tools/eco"),
        "GET /api/servers/good/tools/pid?why=true": await api.ask(call, "POST", json={}),
        "GET /api/views names": await api.ask("/search?query=a&view=none"),
        "GET /api/marketplace/sources names": await api.ask("/marketplace?source=none"),
    }
    of_reader = await api.ask(call, "POST", json={}, token=reader)
    hints = [answer.json()["hint"] for answer in asked.values()]
    routes = [hint.partition("GET /api")[2].partition(" ")[0] for hint in hints]
    followed = [await api.ask(route) for route in routes]

    for route, hint in zip(asked, hints, strict=True):
        assert route in hint
        assert "`discovery" not in hint
    assert [answer.status_code for answer in followed] == [200] * len(asked)
    assert "the owner of the configuration decides" in of_reader.json()["hint"]


@pytest.mark.requirement("API-6")
async def test_a_body_that_is_too_long_no_json_or_not_as_described_is_refused(api: Api) -> None:
    kind = {"headers": {"content-type": "application/json"}}
    rows: list[tuple[dict[str, Any], int]] = [
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
    for options, status in rows:
        answer = await api.ask("/servers/good/tools/echo/call", "POST", **options)
        form = answer.json()
        is_named = form["code"] == "INVALID_REQUEST" and form["message"] and form["hint"]
        if answer.status_code != status or not is_named:
            faults.append((status, answer.status_code, form))

    assert faults == []


@pytest.mark.requirement("API-6")
async def test_a_query_that_is_not_as_described_is_refused(api: Api) -> None:
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


@pytest.mark.requirement("API-6")
async def test_a_wrong_parameter_is_named_in_plain_words(api: Api) -> None:
    rows = [
        ("since=x", "parameter `since` must be a number", "since"),
        ("before=x", "parameter `before` must be a whole number", "before"),
        ("limit=0", "parameter `limit` must be a whole number >= 1", "limit"),
        ("total=maybe", "parameter `total` must be true or false", "total"),
        ("sinse=5", "there is no parameter `sinse`", "parameters: server, tool, kind"),
        ("kind=x", "parameter `kind` must be one of call, ", "kind"),
    ]
    faults = {}
    for query, message, hint in rows:
        refused = await api.ask(f"/logs?{query}")
        form = refused.json()
        is_named = form["message"].startswith(message) and hint in form["hint"]
        if refused.status_code != 422 or not is_named or "$" in refused.text:
            faults[query] = refused.text

    assert faults == {}


@pytest.mark.requirement("API-6")
async def test_a_wrong_field_is_named_in_plain_words(api: Api) -> None:
    rows: list[tuple[object, str]] = [
        ({}, "field `entry` is missing"),
        ({"entry": 5}, "field `entry` must be an object, not a whole number"),
        ([], "the body must be an object, not a list"),
        ({"entry": {}, "foo": 1}, "there is no field `foo`"),
        ({"entry": {"command": 5}}, "field `entry.command` must be text"),
        ({"entry": {"command": True}}, "field `entry.command` must be text"),
        ({"entry": {"url": 5}}, "field `entry.url` must be text"),
        ({"entry": {"command": "x", "cwd": 5}}, "field `entry.cwd` must be text"),
    ]
    faults = []
    for body, message in rows:
        refused = await api.ask("/transient", "POST", json=body)
        form = refused.json()
        if (refused.status_code, form["message"]) != (422, message) or not form["hint"]:
            faults.append((body, refused.text))

    assert faults == []


@pytest.mark.requirement("API-7")
async def test_the_tools_of_all_servers_come_in_pages(api: Api) -> None:
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
async def test_the_owner_switches_servers_and_decides_over_the_api(folder: Folder) -> None:
    async with served(folder) as api:
        off = (await api.ask("/servers/other", "POST", json={"action": "disable"})).json()
        on = (await api.ask("/servers/other", "POST", json={"action": "enable"})).json()
        asked = await api.engine.requests.submit("deactivate", "other", client="agent")
        [waiting] = (await api.get("/requests", state="waiting"))["requests"]
        decline = {"action": "decline", "reason": "no"}
        declined = await api.ask(f"/requests/{asked.id}", "POST", json=decline)
        unknown = await api.ask("/requests/nobody", "POST", json={"action": "accept"})

    assert (off["status"], on["status"] == "disabled") == ("disabled", False)
    assert waiting["id"] == asked.id
    assert declined.json()["state"] == "declined"
    assert (unknown.status_code, unknown.json()["code"]) == (404, "REQUEST_NOT_FOUND")


@pytest.mark.requirement("API-7", "API-16")
async def test_resources_are_listed_in_pages_and_their_updates_arrive_as_events(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(folder.path / "world.json").offer(
        tools=[make_definition("notify")], resources=[resource("x:/1"), resource("x:/2")]
    )
    update = {"method": "notifications/resources/updated", "params": {"uri": "x:/1"}}
    rules = {"resourceRules": [{"pattern": "*/2", "enabled": False}]}
    async with served(folder, world.server(era="legacy"), sections=rules) as api:
        offered: dict[str, Any] = {"kind": "resource", "all": True, "limit": 1}
        first = await api.get("/servers/docs/offerings", **offered)
        rest = await api.get("/servers/docs/offerings", **offered, cursor=first["next_cursor"])
        enabled = await api.get("/servers/docs/offerings", kind="resource")

        async def follow(uri: str, *, on: bool = True) -> httpx2.Response:
            body = {"uri": uri, "on": on}
            return await api.ask("/servers/docs/resources/subscribe", "POST", json=body)

        followed = [(await follow("x:/1")).json() for _ in range(2)]
        listed = await api.get("/subscriptions")
        with api.engine.subscribe(ResourceUpdated) as events:
            await api.engine.execute("docs", "notify", update)
            event = await heard(events, ResourceUpdated, "docs")
        monkeypatch.setattr(watched_resources, "_MAX_WATCHED_RESOURCES", 1)
        beyond = await follow("x:/1")
        left = [(await follow("x:/1", on=False)).json()["on"] for _ in range(2)]
        with anyio.fail_after(60):
            await eventually(lambda: len(world.asked("resources/unsubscribe")) == 1)
        none = await api.get("/subscriptions")
        unknown = await follow("z:/none")

    pages = [[item["uri"] for item in page["items"]] for page in (first, rest, enabled)]
    assert pages == [["x:/1"], ["x:/2"], ["x:/1"]]
    assert rest["next_cursor"] is None
    assert followed == [{"server": "docs", "uri": "x:/1", "on": True}] * 2
    assert (listed["resources"], none["resources"]) == (followed[:1], [])
    assert (event.uri, left) == ("x:/1", [False, False])
    assert (beyond.status_code, unknown.status_code) == (429, 404)
    assert len(world.asked("resources/subscribe")) == 1


@pytest.mark.requirement("API-16")
async def test_the_configuration_is_shown_without_secrets_and_with_its_mistakes(
    folder: Folder,
) -> None:
    async with served(folder) as api:
        content = json.loads(folder.config.read_text("utf-8"))
        secret = {"env": {"API_TOKEN": "s3cr3t-value"}}
        content["servers"]["good"] |= secret
        content["servers"]["wrong"] = {"comand": "x", **secret}
        folder.config.write_text(json.dumps(content), "utf-8")
        reloaded = (await api.ask("/reload", "POST", json={})).json()
        shown = await api.get("/configuration")
        folder.config.write_text("servers: [", "utf-8")
        refused = await api.ask("/reload", "POST", json={})
        kept = await api.get("/configuration")

    assert shown == reloaded
    assert (shown["path"], kept["path"]) == (str(folder.config), str(folder.config))
    assert "s3cr3t" not in json.dumps([shown, kept])
    command = content["servers"]["good"]["command"]
    assert shown["configuration"]["servers"]["good"]["command"] == command
    codes = [[problem["code"] for problem in answer["problems"]] for answer in (shown, kept)]
    assert codes == [["CONFIG_UNKNOWN_KEY"], ["CONFIG_SYNTAX", "CONFIG_UNKNOWN_KEY"]]
    assert (refused.status_code, shown["warnings"]) == (409, [])


@pytest.mark.requirement("API-16")
async def test_secrets_are_stored_and_never_shown(api: Api) -> None:
    await api.ask("/secrets/good/TOKEN", "PUT", json={"value": "s3cr3t-value"})
    names = await api.ask("/secrets")
    refused = await api.ask("/secrets/good/TOKEN", "PUT", json={"value": "two\nlines"})
    deleted = (await api.ask("/secrets/good/TOKEN", "DELETE")).json()

    assert names.json() == {"names": ["good/TOKEN"]}
    assert "s3cr3t" not in names.text
    assert refused.status_code == 422
    assert deleted == {"deleted": True}


@pytest.mark.requirement("API-16")
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


@pytest.mark.requirement("API-9")
async def test_the_description_names_the_routes_with_their_parameters_and_scopes(api: Api) -> None:
    routes = {(one.method, one.path): one for one in await api.routes()}

    search, change = routes["GET", "/search"], routes["PATCH", "/servers/{server}"]
    assert (search.scope, search.query["query"]["required"]) == ("read", True)
    assert change.scope == "admin"
    assert change.body
    assert change.body["required"] == ["changes"]
    assert {one.scope for one in routes.values()} == {"read", "call", "admin"}


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


def _ask_generated(document: dict[str, Any], address: str, share: int) -> None:
    schema = schemathesis.openapi.from_dict(document)
    for result in [*schema.get_all_operations()][share::SHARES]:
        operation = result.ok()

        @settings(
            max_examples=GENERATED,
            deadline=None,
            database=None,
            suppress_health_check=[HealthCheck.too_slow],
        )
        @given(operation.as_strategy())
        def ask(case: schemathesis.Case) -> None:
            authorization = {"authorization": f"Bearer {OWN}"}
            answer = case.call_and_validate(
                address, headers=authorization, checks=CHECKS, timeout=_PATIENCE
            )
            assert answer.status_code != 500, answer.text

        ask()
