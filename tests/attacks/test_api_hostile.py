"""Hostile parameters on every route of the API: refused with a reason, never an error of ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from discovery_engine._util.json import JSONObject
from discovery_server.api.application import ROUTES
from discovery_server.api.route import ApiRoute
from tests.api_server import Api, served
from tests.engines import Folder

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("API-27")]

PATHS = [
    "%00",
    "a%00b",
    "%2F",
    "..%2F..%2Fetc%2Fpasswd",
    "%ED%A0%80",
    "%FF%FE",
    "%F0%9F%98%80",
    "$%7Bsecret%3AX%7D",
    "a%3Ab",
    "x" * 3000,
    "%E2%80%AE",
    "%0A%0D",
]
NUMBERS = ["9223372036854775808", "-9223372036854775809", "1" * 40, "1e999", "NaN", "-1", "0x10"]
TEXTS = ["%00", "%ED%A0%80", "%FF", "'%20OR%201=1--", "%25", "*" * 300, "%7B%22a%22", "x" * 5000]
VALUES: list[Any] = [None, 10**40, -1, 1e308, "\u0000", "x" * 100_000, [], {}, [[]], True, "${"]
ENTRY = {"command": "/bin/true", "args": ["a"], "env": {"A": "b"}, "tags": ["x"]}
BODIES: dict[str, JSONObject] = {
    "PUT /presets": {"server": "good", "tool": "echo", "name": "n", "arguments": {}},
    "POST /servers/plan": {"name": "n", "entry": ENTRY},
    "POST /servers": {"name": "n", "entry": ENTRY, "digest": "d"},
    "POST /servers/{server}/change/plan": {"changes": {"tags": []}},
    "PATCH /servers/{server}": {"changes": {"tags": []}, "digest": "d"},
    "POST /servers/sync": {"digest": "d"},
    "POST /review/{server}/accept": {"digest": "d"},
}
HARMLESS = ("POST /marketplace/sync",)  # it would ask the network


@pytest.fixture
def folder(tmp_path: Any) -> Folder:
    return Folder(tmp_path)


def asked(routes: tuple[ApiRoute, ...] = ROUTES) -> Iterator[ApiRoute]:
    yield from (one for one in routes if f"{one.method} {one.path}" not in HARMLESS)


def filled(route: ApiRoute, value: str) -> str:
    path = route.path.replace(":path}", "}")
    for name in ("server", "tool", "id", "name", "view", "call_id", "question_id", "handle"):
        path = path.replace(f"{{{name}}}", value)
    assert "{" not in path, route
    return path


def kinds(hint: Any) -> set[Any]:
    """The plain types of a parameter."""
    inner = [kind for one in get_args(hint) for kind in kinds(one)] if get_args(hint) else []
    return {hint, get_origin(hint), *inner}


async def sent(api: Api, route: ApiRoute, path: str, **options: Any) -> int:
    answer = await api.ask(path, route.method, **options)
    assert answer.status_code < 600
    assert answer.status_code != 500, (route.method, path, options, answer.text)
    if answer.status_code >= 400:
        assert answer.json()["message"]
    return answer.status_code


async def test_hostile_names_in_paths_are_unknown_names(folder: Folder) -> None:
    async with served(folder) as api:
        for route in asked():
            if "{" not in route.path:
                continue
            for value in PATHS:
                body = {"json": {}} if route.has_body else {}
                await sent(api, route, filled(route, value), **body)


@pytest.mark.thorough
async def test_hostile_numbers_and_texts_in_queries_are_refused_or_fit(folder: Folder) -> None:
    async with served(folder) as api:
        for route in asked():
            if route.has_body:
                continue
            path = filled(route, "good")
            for name, hint in get_type_hints(route.asked).items():
                is_number = {int, float} & kinds(hint)
                for value in NUMBERS if is_number else TEXTS:
                    status = await sent(api, route, f"{path}?{name}={value}")
                    if int in kinds(hint):
                        assert status in (400, 422, 404), (route, name, value)


async def test_hostile_values_in_bodies_are_refused_with_the_reason(folder: Folder) -> None:
    async with served(folder) as api:
        for route in asked():
            if not route.has_body:
                continue
            path = filled(route, "good")
            whole = BODIES.get(f"{route.method} {route.path}", {})
            for name in get_type_hints(route.asked):
                for value in VALUES:
                    await sent(api, route, path, json={**whole, name: value})
            for content in (
                b'{"a":"\\ud800"}',
                b"\xff",
                b"\xef\xbb\xbf{}",
                b"null",
                b'{"a":1e999}',
            ):
                status = await sent(
                    api,
                    route,
                    path,
                    content=content,
                    headers={"content-type": "application/json"},
                )
                assert status in (400, 422), (route, content)


@pytest.mark.thorough
async def test_hostile_values_in_an_entry_are_refused_or_planned(folder: Folder) -> None:
    keys = ("command", "args", "env", "url", "headers", "cwd", "tags", "timeouts", "sandbox", "x")
    async with served(folder) as api:
        plan = next(one for one in ROUTES if one.path == "/servers/plan")
        change = next(one for one in ROUTES if one.path.endswith("/change/plan"))
        for key in keys:
            for value in (*VALUES, {"\u0000": "\u0000"}, {"a": {"b": 1}}, ["\u0000", None]):
                for to in ("file", "registry"):
                    body = {"name": "n", "entry": {**ENTRY, key: value}, "to": to}
                    await sent(api, plan, plan.path, json=body)
                path = change.path.format(server="good")
                await sent(api, change, path, json={"changes": {key: value}})


async def test_deep_nesting_is_refused_wherever_any_value_is_taken(folder: Folder) -> None:
    depths = (65, 100, 300, 500, 900, 990, 5_000, 60_000)
    deep = {(depth, "list"): b"[" * depth + b"]" * depth for depth in depths}
    deep |= {(depth, "map"): b'{"a":' * depth + b"1" + b"}" * depth for depth in depths}
    faults = []
    begins = {
        "PUT /presets": b'{"server":"good","tool":"echo","name":"n","arguments":{"text":',
        "POST /servers/good/tools/echo/call": b'{"arguments":{"text":',
        "POST /servers/good/prompts/get": b'{"name":"n","arguments":{"text":',
        "POST /servers/plan": b'{"name":"n","entry":{"command":"c","env":',
        "POST /servers/good/change/plan": b'{"changes":{"env":',
    }
    async with served(folder) as api:
        for request, begin in begins.items():
            method, path = request.split()
            for form, value in deep.items():
                kind = {"content-type": "application/json"}
                content = begin + value + b"}}"
                answer = await api.ask(path, method, content=content, headers=kind)
                if answer.status_code != (413 if len(begin + value) > 128 << 10 else 400):
                    faults.append((request, form, answer.text))

    assert faults == []


async def test_what_nests_as_deep_as_real_arguments_do_is_taken(folder: Folder) -> None:
    nested: JSONObject = {"text": "x"}
    for _ in range(40):
        nested = {"a": [nested]} if len(json.dumps(nested)) % 2 else {"a": nested}
    async with served(folder) as api:
        saved = await api.ask(
            "/presets",
            "PUT",
            json={"server": "good", "tool": "echo", "name": "n", "arguments": {"a": 1}},
        )
        called = await api.ask(
            "/servers/good/tools/echo/call", "POST", json={"arguments": {"text": nested}}
        )

    assert saved.status_code == 200
    assert called.json()["code"] in ("INVALID_ARGUMENTS", "INVALID_REQUEST")
