"""The HTTP side under attack: each route with each kind of token, other pages, many sockets.

What was refused is judged by what it left: the configuration, the registry, the secrets, the log
and the processes are as before. The routes are those of the table, so that a new one is tried, too.
"""

from __future__ import annotations

import json
import logging
import re
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from discovery_server.access_token import ALL_SCOPES, TokenLimits
from discovery_server.http.connections import ConnectionLimits
from tests.api_server import OWN, Api, Route, served, serving
from tests.attacks.test_http_connections import rest_of
from tests.engines import Folder, good
from tests.servers.programs import descendants

pytestmark = pytest.mark.anyio

NAMES = {"tool": "echo", "view": "echoes", "name": "other/TOKEN", "handle": "transient-1"}
VALUES: dict[str, Any] = {
    "tool": "echo",
    "name": "attack",
    "entry": {"command": "true"},
    "value": "s3cr3t",
    "query": "echo",
    "arguments": {"text": "x"},
    "digest": "x",
    "changes": {"enabled": False},
    "uri": "x:/y",
}
FOREIGN = "https://evil.example"
_TABLES = "SELECT name FROM sqlite_master WHERE type='table'"


def path_of(route: Route, server: str = "other") -> str:
    return route.filled("1", server=server, **NAMES)


def asked_of(route: Route, server: str = "other") -> dict[str, Any]:
    """A request that has the effect of a route, as far as its parameters can be guessed."""
    values = {**VALUES, "server": server, "servers": [server]}
    if route.body is None:
        needed = [name for name, schema in route.query.items() if schema["required"]]
        return {"params": {name: values.get(name, "x") for name in needed}}
    properties, needed = route.body.get("properties", {}), route.body.get("required", ())
    body = {
        name: values.get(name, 1 if schema.get("type") == "integer" else "x")
        for name, schema in properties.items()
        if name in needed or name in values
    }
    return {"json": body}


async def writing(api: Api) -> list[Route]:
    return [route for route in await api.routes() if route.method != "GET"]


async def send(api: Api, route: Route, *, server: str = "other", **options: Any) -> httpx2.Response:
    request = {**asked_of(route, server), **options}
    return await api.ask(path_of(route, server), route.method, **request)


def _nameless(answer: httpx2.Response, server: str) -> str:
    """An answer without the name of the server that was asked for."""
    return re.sub(rf"\b{server}\b", "…", answer.text)


async def effects(api: Api, folder: Folder) -> dict[str, Any]:
    """All that a request may change and that lasts, and the processes of servers."""
    await api.engine.call_log.flush()
    for name in ("good", "other"):  # it runs from now on
        await api.engine.execute(name, "echo", {"text": "x"})
    await api.engine.call_log.flush()
    return {
        "configuration": folder.config.read_text("utf-8"),
        "files": sorted(path.name for path in folder.data.rglob("*") if _lasts(path)),
        "registry": _rows(folder.data / "registry.db"),
        "called": [
            [one.server, one.tool, one.outcome]
            for one in await api.engine.call_log.entries(limit=1000)
            if one.kind == "call" and one.tool != "echo"
        ],
        "secrets": list(api.engine.secrets.names()),
        "tokens": (folder.data / "tokens.json").read_text("utf-8"),
        "processes": sorted(descendants()),
        "states": [[one.name, one.state] for one in api.engine.view.servers()],
    }


def _lasts(path: Path) -> bool:
    return path.is_file() and not path.name.endswith(("-wal", "-shm", "-journal", ".lock"))


def _rows(path: Path) -> list[str]:
    """What a database holds; without what each listing and call writes."""
    passing = ("era", "use", "lease", "catalog", "index", "vector")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        tables = [name for (name,) in db.execute(_TABLES)]
        kept = [name for name in tables if not any(part in name for part in passing)]
        rows = {name: list(map(repr, db.execute(f'SELECT * FROM "{name}"'))) for name in kept}
        return [f"{name} {row}" for name in sorted(rows) for row in rows[name]]


def kinds(api: Api) -> Iterator[tuple[str, str | None, frozenset[str]]]:
    """The kinds of tokens, each with one, and the scopes that it has; none if it is not valid."""
    make = api.tokens.create
    nothing: frozenset[str] = frozenset()
    client = frozenset({"read", "call"})
    expired, _ = make(lifetime=1e-9)
    revoked, token = make(scopes=ALL_SCOPES)
    api.tokens.revoke(token.id)
    yield "none", None, nothing
    yield "wrong", "discovery_" + "x" * 43, nothing
    yield "expired", expired, nothing
    yield "revoked", revoked, nothing
    yield "no scope", make(scopes=frozenset())[0], nothing
    yield "read", make(scopes=frozenset({"read"}))[0], frozenset({"read"})
    yield "call", make(scopes=frozenset({"call"}))[0], frozenset({"call"})
    yield "client", make()[0], client
    yield "view", make(view="echoes")[0], client
    yield "servers", make(limits=TokenLimits(("good",)))[0], client
    yield "tools", make(limits=TokenLimits(tools=("good:echo",)))[0], client


@pytest.mark.requirement("API-1", "API-2", "API-30")
async def test_no_token_does_more_on_any_route_than_it_may(api: Api) -> None:
    every, routes = list(kinds(api)), await api.routes()
    before = await effects(api, api.folder)
    for kind, token, scopes in every:
        for route in routes:
            answer = await send(api, route, token=token)
            is_refused = answer.status_code in (401, 403, 429)
            assert is_refused == (route.scope not in scopes), (kind, route, answer.text)
            if kind in ("servers", "tools"):
                unknown = await send(api, route, server="nobdy", token=token)
                assert answer.status_code == unknown.status_code, (kind, route)
                told = _nameless(answer, "other"), _nameless(unknown, "nobdy")
                assert told[0] == told[1], (kind, route)
        for path in ("/openapi.json", "/nothing"):
            status = (await api.ask(path, token=token)).status_code
            assert (status in (401, 429)) == (kind in ("none", "wrong", "expired", "revoked"))
    after = await effects(api, api.folder)

    assert after == before


@pytest.mark.requirement("API-15", "API-6")
async def test_no_page_of_another_writes_with_the_cookie_of_a_browser(api: Api) -> None:
    origin, cookie = api.origin, await api.open_session()
    api.tokens.create()
    port = int(origin.rpartition(":")[2])
    foreign: list[dict[str, str]] = [
        {},
        {"origin": FOREIGN},
        {"origin": "null"},
        {"origin": f"http://127.0.0.1:{port + 1}"},
        {"origin": f"http://localhost:{port}", "sec-fetch-site": "same-site"},
        {"origin": origin, "sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none"},
        {"referer": f"{origin}/"},
    ]
    before = await effects(api, api.folder)
    for route in await writing(api):
        for headers in foreign:
            sent = {"cookie": cookie, **headers}
            answer = await send(api, route, token=None, headers=sent)
            assert answer.status_code in (401, 403), (route, headers)
            assert "access-control-allow-origin" not in answer.headers
    for route in (one for one in await writing(api) if one.body):
        for kind in ("application/x-www-form-urlencoded", "text/plain", "multipart/form-data"):
            sent = {"cookie": cookie, "origin": origin, "sec-fetch-site": "same-origin"}
            body = json.dumps(asked_of(route)["json"])
            answer = await api.ask(
                path_of(route),
                route.method,
                token=None,
                headers={**sent, "content-type": kind},
                content=body,
            )
            assert answer.status_code == 415, (route, kind)
    after = await effects(api, api.folder)

    assert after == before


@pytest.mark.requirement("SRV-11")
async def test_no_name_and_no_page_of_another_reaches_a_route_even_with_the_token(api: Api) -> None:
    api.tokens.create()
    port = api.address.removesuffix("/api").rpartition(":")[2]
    wrong: list[tuple[dict[str, str], int]] = [
        ({"host": "evil.example"}, 421),
        ({"host": f"evil.example:{port}"}, 421),  # its name points here now
        ({"host": f"127.0.0.1.evil.example:{port}"}, 421),
        ({"host": f"localhost.evil.example:{port}"}, 421),
        ({"host": f"user@127.0.0.1:{port}"}, 421),
        ({"host": ""}, 421),
        ({"origin": FOREIGN}, 403),
        ({"origin": "null"}, 403),
        ({"origin": f"http://127.0.0.1.evil.example:{port}"}, 403),
    ]
    before = await effects(api, api.folder)
    for route in await api.routes():
        for headers, status in wrong:
            answer = await send(api, route, headers=headers)
            assert answer.status_code == status, (route, headers)
    asked = {"origin": FOREIGN, "access-control-request-method": "POST"}
    preflight = await api.ask("/reload", "OPTIONS", token=None, headers=asked)
    after = await effects(api, api.folder)

    assert after == before
    assert preflight.status_code == 403
    assert not [name for name in preflight.headers if name.startswith("access-control")]


@pytest.mark.requirement("API-10", "API-15", "SRV-11")
async def test_no_page_of_another_opens_a_websocket(api: Api) -> None:
    origin, cookie = api.origin, await api.open_session()
    address = origin.replace("http", "ws", 1) + "/events"
    bearer = f"Bearer {OWN}"
    tried: list[tuple[str, dict[str, str]]] = [
        ("", {"Cookie": cookie, "Origin": FOREIGN}),
        ("", {"Cookie": cookie}),
        ("", {"Cookie": cookie, "Origin": "null"}),
        ("", {"Authorization": bearer, "Origin": FOREIGN}),
        ("", {"Authorization": bearer, "Host": "evil.example"}),
        (f"?token={OWN}", {}),
        (f"?access_token={OWN}", {"Origin": origin}),
    ]
    for query, headers in tried:
        with pytest.raises(InvalidStatus) as refused:
            async with connect(f"{address}{query}", additional_headers=headers, proxy=None):
                pass
        assert refused.value.response.status_code == 403, headers
    own = {"Cookie": cookie, "Origin": origin}
    async with connect(address, additional_headers=own, proxy=None) as socket:
        assert '"type":"state"' in str(await socket.recv())


@pytest.mark.requirement("SRV-30")
async def test_a_websocket_takes_the_place_of_a_connection_until_it_is_closed(
    folder: Folder,
) -> None:
    folder.write()
    limits = ConnectionLimits(connections=4, per_address=4)
    async with folder.open() as engine, serving(engine, folder, limits=limits) as api:
        async with AsyncExitStack() as sockets:
            for _ in range(4):
                await sockets.enter_async_context(api.connect())
            refused = await api.ask("/status")
        served_again = await api.ask("/status")

    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert served_again.status_code == 200


@pytest.mark.thorough
@pytest.mark.requirement("SRV-30")
async def test_a_thousand_sockets_lock_nobody_out(folder: Folder) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4096 if hard == resource.RLIM_INFINITY else min(4096, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    streams: list[Any] = []
    try:
        async with served(folder) as api:
            url = httpx2.URL(api.address)
            assert url.port is not None
            for number in range(1000):
                stream = await anyio.connect_tcp("127.0.0.1", url.port)
                streams.append(stream)
                if number % 2:
                    await stream.send(b"GET /api/status HTTP/1.1\r\nhost: localhost\r\n")
            statuses = [(await api.ask("/status")).status_code for _ in range(20)]
            for stream in streams:
                await stream.aclose()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert statuses == [200] * 20


@pytest.mark.requirement("API-6", "SRV-30")
async def test_a_body_that_does_not_come_is_cut_off_and_does_nothing(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    folder.write(good(), good("other"))
    limits = ConnectionLimits(connections=50, per_address=50, body=0.1)
    async with folder.open() as engine, serving(engine, folder, limits=limits) as api:
        await engine.refresh()
        api.tokens.create()
        before = await effects(api, folder)
        port = httpx2.URL(api.address).port
        assert port is not None
        for route in (one for one in await writing(api) if one.body):
            head = (
                f"{route.method} /api{path_of(route)} HTTP/1.1\r\nhost: localhost\r\n"
                f"authorization: Bearer {OWN}\r\ncontent-type: application/json\r\n"
                'content-length: 100\r\n\r\n{"server": "other"'
            )
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(head.encode())
                with anyio.fail_after(60):
                    answered = await rest_of(stream)
            assert answered.startswith(b"HTTP/1.1 408 "), route
        after = await effects(api, folder)

    assert after == before
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]


@pytest.mark.requirement("SRV-20", "SRV-22")
async def test_a_token_stands_in_no_log_no_error_and_no_referrer(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with served(folder) as api:
        made, _ = api.tokens.create()
        origin = api.address.removesuffix("/api")
        answers = []
        for token in (OWN, made):
            for path in (f"/status?token={token}", f"/search?query=x&access_token={token}"):
                answers.append(await api.ask(path, token=token))
                assert answers[-1].status_code == 400
            answers.append(await api.ask("/status", token=token + "x"))
            cookie = {"cookie": f"discovery_session={token}"}
            answers.append(await api.ask("/status", headers=cookie))
            answers.append(await api.ask("/status", token=None, headers={"authorization": token}))
            answers.append(
                await api.http.post(
                    f"{origin}/session", json={"code": token}, headers={"origin": origin}
                )
            )
            answers.append(await api.http.get(f"{origin}/?code={token}"))
        pages = [await api.http.get(f"{origin}{path}") for path in ("/", f"/?code={made}")]
        logged = json.dumps(await api.get("/logs"))

    logged_here = [one for one in caplog.records if not one.name.startswith("http")]  # the client
    for token in (OWN, made):
        for answer in answers:
            assert token not in answer.text + str(answer.headers)
        assert not [record for record in logged_here if token in record.getMessage()]
        assert token not in logged
    for page in pages:
        assert page.headers["referrer-policy"] in ("same-origin", "no-referrer")
        assert page.headers.get("location", "/") == "/"
