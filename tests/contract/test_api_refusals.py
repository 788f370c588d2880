"""What is refused before any route has the form of the API below its paths: specs/api.md."""

from __future__ import annotations

import pytest

from discovery_server.http.users import Refusal, User, Users
from discovery_server.token_limits import TokenLimits
from discovery_server.tokens import parse_tokens
from tests.api_server import OWN, served
from tests.engines import Folder

pytestmark = pytest.mark.anyio

OAUTH = {"error", "error_description"}


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.mark.requirement("API-5")
@pytest.mark.parametrize("path", ["/api/status", "/api", "/events", "/metrics", "/metrics/x"])
@pytest.mark.parametrize(
    ("headers", "query", "status", "code"),
    [
        pytest.param({}, "", 401, "UNAUTHORIZED", id="no token"),
        pytest.param(bearer("another"), "", 401, "UNAUTHORIZED", id="a wrong token"),
        pytest.param(bearer(OWN), "?token=x", 400, "INVALID_REQUEST", id="in the address"),
        pytest.param(
            bearer(OWN) | {"host": "evil.example"}, "", 421, "ORIGIN_REFUSED", id="a foreign host"
        ),
        pytest.param(
            bearer(OWN) | {"origin": "https://evil.example"},
            "",
            403,
            "ORIGIN_REFUSED",
            id="a foreign page",
        ),
    ],
)
async def test_refusals_before_any_route_have_the_form_of_the_api(
    folder: Folder, path: str, headers: dict[str, str], query: str, status: int, code: str
) -> None:
    async with served(folder) as api:
        address = api.address.removesuffix("/api")
        refused = await api.http.get(f"{address}{path}{query}", headers=headers)
        client = await api.http.get(f"{address}/mcp{query}", headers=headers)

    form = refused.json()
    assert refused.status_code == status
    assert form["code"] == code
    assert form["message"]
    assert form["hint"]
    assert refused.headers["content-type"] == "application/json"
    assert client.status_code == status
    if code != "ORIGIN_REFUSED":
        assert "www-authenticate" in refused.headers
        assert client.json().keys() == OAUTH


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
@pytest.mark.parametrize("value", ["Bearer", "bearer", ""])
async def test_an_empty_token_is_named_and_is_no_try(folder: Folder, value: str) -> None:
    async with served(folder) as api:
        for _ in range(30):
            refused = await api.ask("/status", token=None, headers={"authorization": value})
        own = await api.ask("/status")

    assert refused.status_code == 401
    assert refused.json()["message"] == "the token is empty"
    assert own.status_code == 200


@pytest.mark.requirement("API-32")
@pytest.mark.parametrize("value", [b"Bearer ", b"bearer  ", b" ", b"Bearer\t"])
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
@pytest.mark.parametrize(
    ("query", "message", "hint"),
    [
        ("since=x", "parameter `since` must be a number", "since"),
        ("before=x", "parameter `before` must be a whole number", "before"),
        ("limit=0", "parameter `limit` must be a whole number >= 1", "limit"),
        ("total=maybe", "parameter `total` must be true or false", "total"),
        ("sinse=5", "there is no parameter `sinse`", "parameters: server, tool, kind"),
        ("kind=x", "parameter `kind` must be one of call, ", "kind"),
    ],
)
async def test_a_wrong_parameter_is_named_in_plain_words(
    folder: Folder, query: str, message: str, hint: str
) -> None:
    async with served(folder) as api:
        refused = await api.ask(f"/logs?{query}")

    assert refused.status_code == 422
    assert refused.json()["message"].startswith(message)
    assert hint in refused.json()["hint"]
    assert "$" not in refused.text


@pytest.mark.requirement("API-6")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "field `entry` is missing"),
        ({"entry": 5}, "field `entry` must be an object, not a whole number"),
        ([], "the body must be an object, not a list"),
        ({"entry": {}, "foo": 1}, "there is no field `foo`"),
        ({"entry": {"command": 5}}, "field `entry.command` must be text"),
        ({"entry": {"command": True}}, "field `entry.command` must be text"),
        ({"entry": {"url": 5}}, "field `entry.url` must be text"),
        ({"entry": {"command": "x", "cwd": 5}}, "field `entry.cwd` must be text"),
    ],
)
async def test_a_wrong_field_is_named_in_plain_words(
    folder: Folder, body: object, message: str
) -> None:
    async with served(folder) as api:
        refused = await api.ask("/transient/plan", "POST", json=body)

    assert refused.status_code == 422
    assert refused.json()["message"] == message
    assert refused.json()["hint"]


@pytest.mark.requirement("API-6")
@pytest.mark.parametrize(
    ("path", "method", "body"),
    [
        ("/transient", "POST", {"entry": {"command": 5}, "digest": "x"}),
        ("/servers/plan", "POST", {"name": "new", "entry": {"command": 5}}),
        ("/servers", "POST", {"name": "new", "entry": {"command": 5}, "digest": "x"}),
        ("/servers/good/change/plan", "POST", {"changes": {"command": 5}}),
        ("/servers/good", "PATCH", {"changes": {"command": 5}, "digest": "x"}),
    ],
)
async def test_every_route_that_takes_an_entry_checks_its_texts(
    folder: Folder, path: str, method: str, body: dict[str, object]
) -> None:
    async with served(folder) as api:
        refused = await api.ask(path, method, json=body)

    assert refused.status_code == 422
    assert refused.json()["code"] == "INVALID_REQUEST"
    assert refused.json()["message"].endswith(".command` must be text")


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
