"""What is refused before any route has the form of the API below its paths: specs/api.md."""

from __future__ import annotations

import pytest

from discovery_server.http.users import Refusal, User, Users
from discovery_server.token_limits import TokenLimits
from discovery_server.tokens import parse_tokens
from tests.api_server import OWN, served
from tests.engines import Folder
from tests.rows import rows

pytestmark = pytest.mark.anyio

OAUTH = {"error", "error_description"}


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.mark.requirement("API-5")
async def test_refusals_before_any_route_have_the_form_of_the_api(folder: Folder) -> None:
    foreign_page = {"origin": "https://evil.example"}
    refusals: list[tuple[dict[str, str], str, int, str]] = [
        ({}, "", 401, "UNAUTHORIZED"),
        (bearer("another"), "", 401, "UNAUTHORIZED"),
        (bearer(OWN), "?token=x", 400, "INVALID_REQUEST"),
        (bearer(OWN) | {"host": "evil.example"}, "", 421, "ORIGIN_REFUSED"),
        (bearer(OWN) | foreign_page, "", 403, "ORIGIN_REFUSED"),
    ]
    faults = []
    async with served(folder) as api:
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


@pytest.mark.requirement("API-5", "API-32")
async def test_too_many_wrong_tokens_are_refused_in_the_form_of_the_api(folder: Folder) -> None:
    async with served(folder) as api:
        for _ in range(10):
            await api.ask("/status", token="wrong")
        refused = await api.ask("/status", token="wrong")

    assert refused.status_code == 429
    assert refused.json()["code"] == "RATE_LIMITED"
    assert refused.json()["hint"]
    assert int(refused.headers["retry-after"]) > 0


@pytest.mark.requirement("API-32")
async def test_an_empty_token_is_named_and_is_no_try(folder: Folder) -> None:
    async with served(folder) as api:
        answers = [
            await api.ask("/status", token=None, headers={"authorization": value})
            for value in ("Bearer", "bearer", "") * 10
        ]
        own = await api.ask("/status")

    assert {answer.status_code for answer in answers} == {401}
    assert {answer.json()["message"] for answer in answers} == {"the token is empty"}
    assert own.status_code == 200


@pytest.mark.requirement("API-32")
@rows("value", [b"Bearer ", b"bearer  ", b" ", b"Bearer\t"])
async def test_blanks_are_an_empty_token(value: bytes) -> None:
    users = Users(parse_tokens(OWN))
    refused = [users.of([value], "192.0.2.1") for _ in range(30)]

    assert {one.status for one in refused if isinstance(one, Refusal)} == {401}
    assert isinstance(users.of([b"Bearer " + OWN.encode()], "192.0.2.1"), User)


@pytest.mark.requirement("API-2")
async def test_a_missing_scope_is_named(folder: Folder) -> None:
    async with served(folder) as api:
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


@pytest.mark.requirement("API-5", "API-30")
async def test_a_limited_token_is_refused_at_metrics_in_the_form_of_the_api(
    folder: Folder,
) -> None:
    async with served(folder) as api:
        limits = TokenLimits(servers=("good",))
        viewer = api.tokens.create(view="echoes")[0]
        limited = api.tokens.create(limits=limits)[0]
        address = api.address.removesuffix("/api")
        for token in (viewer, limited):
            refused = await api.http.get(f"{address}/metrics", headers=bearer(token))
            assert refused.status_code == 403
            assert refused.json()["code"] == "TOKEN_LIMITED"
            assert refused.json()["hint"]


@pytest.mark.requirement("API-6")
async def test_a_wrong_parameter_is_named_in_plain_words(folder: Folder) -> None:
    rows = [
        ("since=x", "parameter `since` must be a number", "since"),
        ("before=x", "parameter `before` must be a whole number", "before"),
        ("limit=0", "parameter `limit` must be a whole number >= 1", "limit"),
        ("total=maybe", "parameter `total` must be true or false", "total"),
        ("sinse=5", "there is no parameter `sinse`", "parameters: server, tool, kind"),
        ("kind=x", "parameter `kind` must be one of call, ", "kind"),
    ]
    faults = {}
    async with served(folder) as api:
        for query, message, hint in rows:
            refused = await api.ask(f"/logs?{query}")
            form = refused.json()
            is_named = form["message"].startswith(message) and hint in form["hint"]
            if refused.status_code != 422 or not is_named or "$" in refused.text:
                faults[query] = refused.text

    assert faults == {}


@pytest.mark.requirement("API-6")
async def test_a_wrong_field_is_named_in_plain_words(folder: Folder) -> None:
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
    async with served(folder) as api:
        for body, message in rows:
            refused = await api.ask("/transient/plan", "POST", json=body)
            form = refused.json()
            if (refused.status_code, form["message"]) != (422, message) or not form["hint"]:
                faults.append((body, refused.text))

    assert faults == []


@pytest.mark.requirement("API-6")
async def test_every_route_that_takes_an_entry_checks_its_texts(folder: Folder) -> None:
    entry = {"entry": {"command": 5}}
    changes = {"changes": {"command": 5}}
    rows: list[tuple[str, str, dict[str, object]]] = [
        ("/transient", "POST", {**entry, "digest": "x"}),
        ("/servers/plan", "POST", {"name": "new", **entry}),
        ("/servers", "POST", {"name": "new", **entry, "digest": "x"}),
        ("/servers/good/change/plan", "POST", {**changes}),
        ("/servers/good", "PATCH", {**changes, "digest": "x"}),
    ]
    outcomes = {}
    async with served(folder) as api:
        for path, method, body in rows:
            refused = await api.ask(path, method, json=body)
            form = refused.json()
            is_named = form["message"].endswith(".command` must be text")
            outcomes[path, method] = refused.status_code, form["code"], is_named

    assert set(outcomes.values()) == {(422, "INVALID_REQUEST", True)}, outcomes


@pytest.mark.requirement("API-6")
async def test_a_change_may_remove_a_text(folder: Folder) -> None:
    async with served(folder) as api:
        shown = await api.ask("/servers/good/change/plan", "POST", json={"changes": {"cwd": None}})

    assert shown.status_code == 200


@pytest.mark.requirement("API-62")
async def test_the_next_step_of_a_program_is_a_route_that_exists(folder: Folder) -> None:
    async with served(folder) as api:
        reader = api.tokens.create(scopes=frozenset({"read", "call"}))[0]
        call = "/servers/good/tools/pid/call"
        asked = {
            "GET /api/servers names": await api.ask("/servers/goood/tools"),
            "GET /api/servers/good/tools names": await api.ask("/servers/good/tools/eco"),
            "GET /api/servers/good/tools/pid/why": await api.ask(call, "POST", json={}),
            "GET /api/views names": await api.ask("/views/none"),
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
async def test_a_post_without_a_body_needs_no_kind_of_it(folder: Folder) -> None:
    kinds: list[dict[str, str]] = [{}, {"content-type": "application/x-www-form-urlencoded"}]
    outcomes = {}
    async with served(folder) as api:
        for headers in kinds:
            for action in ("disable", "enable", "ping"):
                done = await api.ask(f"/servers/good/{action}", "POST", headers=headers)
                outcomes[action, *headers.values()] = done.status_code
        needed = await api.ask("/servers/plan", "POST")

    assert set(outcomes.values()) == {200}, outcomes
    assert (needed.status_code, needed.json()["message"]) == (422, "field `name` is missing")


@pytest.mark.requirement("API-5")
async def test_each_refused_body_and_method_has_a_next_step(folder: Folder) -> None:
    kind = {"content-type": "application/json"}
    path = "/servers/good/tools/echo/call"
    async with served(folder) as api:
        method = await api.ask("/status", "DELETE")
        others = [
            await api.ask(path, "POST", content=b"{", headers=kind),
            await api.ask(path, "POST", content=b" " * (128 * 1024 + 1), headers=kind),
            await api.ask(path, "POST", content=b"{}"),
            await api.ask("/search?query=a&query=b"),
        ]

    assert "GET" in method.json()["hint"]
    assert [one.status_code for one in others] == [400, 413, 415, 400]
    assert all(one.json()["hint"] for one in others)
