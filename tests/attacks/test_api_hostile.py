"""Hostile parameters on every route of the API: refused with a reason, never an error of ours."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api_server import Api, Route

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("API-6")]

VALUES: list[Any] = [None, 10**40, -1, 1e308, "\u0000", "x" * 100_000, [], {}, [[]], True, "${"]
ENTRY = {"command": "/bin/true", "args": ["a"], "env": {"A": "b"}, "tags": ["x"]}
BODIES: dict[str, dict[str, Any]] = {
    "PUT /presets": {"server": "good", "tool": "echo", "name": "n", "arguments": {}},
    "POST /servers": {"name": "n", "entry": ENTRY, "digest": "d"},
    "PATCH /servers/{server}": {"changes": {"tags": []}, "digest": "d"},
    "POST /servers/sync": {"digest": "d"},
    "POST /review/{server}/accept": {"digest": "d"},
}
HARMLESS = ("POST /marketplace/sync",)  # it would ask the network


async def asked(api: Api) -> list[Route]:
    return [one for one in await api.routes() if f"{one.method} {one.path}" not in HARMLESS]


async def sent(api: Api, route: Route, path: str, **options: Any) -> int:
    answer = await api.ask(path, route.method, **options)
    assert answer.status_code < 600
    assert answer.status_code != 500, (route.method, path, options, answer.text)
    if answer.status_code >= 400:
        assert answer.json()["message"]
    return answer.status_code


async def test_hostile_values_in_bodies_are_refused_with_the_reason(api: Api) -> None:
    for route in await asked(api):
        if not route.body:
            continue
        path = route.filled("good")
        whole = BODIES.get(f"{route.method} {route.path}", {})
        for name in route.body.get("properties", {}):
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
