"""The HTTP side under attack: each route with each kind of token, other pages, many sockets.

What was refused is judged by what it left: the configuration, the registry, the secrets, the log
and the processes are as before. The routes are those of the table, so that a new one is tried, too.
"""

from __future__ import annotations

import json
import logging
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from discovery_server.access_token import ALL_SCOPES, TokenLimits
from tests.api_server import OWN, Api, Route, served
from tests.engines import Folder
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


async def test_deep_nesting_is_refused_wherever_any_value_is_taken(api: Api) -> None:
    depths = (65, 100, 300, 500, 900, 990, 5_000, 60_000)
    deep = {(depth, "list"): b"[" * depth + b"]" * depth for depth in depths}
    deep |= {(depth, "map"): b'{"a":' * depth + b"1" + b"}" * depth for depth in depths}
    faults = []
    begins = {
        "PUT /presets": b'{"server":"good","tool":"echo","name":"n","arguments":{"text":',
        "POST /servers/good/tools/echo/call": b'{"arguments":{"text":',
        "POST /servers/good/prompts/get": b'{"name":"n","arguments":{"text":',
        "POST /servers": b'{"name":"n","entry":{"command":"c","env":',
        "PATCH /servers/good": b'{"changes":{"env":',
    }
    for request, begin in begins.items():
        method, path = request.split()
        for form, value in deep.items():
            kind = {"content-type": "application/json"}
            content = begin + value + b"}}"
            answer = await api.ask(path, method, content=content, headers=kind)
            if answer.status_code != (413 if len(begin + value) > 128 << 10 else 400):
                faults.append((request, form, answer.text))

    assert faults == []
