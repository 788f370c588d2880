"""The calls that all clients of a view make together: counted once, whoever makes them."""

from __future__ import annotations

from typing import Any

import pytest

from discovery_server.gateway import Gateway
from tests.contract.test_modes import client_of
from tests.engines import Folder
from tests.factories import Clock
from tests.servers.offerings import World, prompt, resource
from tests.told import Told

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("VIEW-30")]


def told(folder: Folder, server: str = "zoo") -> Told:
    return Told(folder.path / server / "told.json")


async def test_resources_and_prompts_count_and_what_is_refused_before_does_not(
    folder: Folder,
) -> None:
    world = World(folder.path / "docs.json").offer(
        resources=[resource("x:/a")], prompts=[prompt("p", "code")]
    )
    folder.write(
        world.server(),
        views={"some": {"limits": {"callsPerMinute": 1, "burst": 3}}},
        server={"mode": "direct"},
    )
    completing = {"ref": {"type": "ref/prompt", "name": "p"}}
    argument = {"argument": {"name": "code", "value": ""}}
    asked: list[tuple[str, dict[str, Any]]] = [
        ("resources/read", {"uri": "x:/none"}),
        ("resources/read", {"uri": "x:/a"}),
        ("prompts/get", {"name": "p"}),
        ("completion/complete", completing | argument),
        ("resources/read", {"uri": "x:/a"}),
        ("prompts/get", {"name": "p"}),
        ("completion/complete", completing | argument),
    ]
    async with folder.open(clock=Clock(1_700_000_000.0)) as engine:
        await engine.refresh()
        gateway = Gateway(engine).in_view("some")
        assert gateway is not None
        async with client_of(gateway) as client:
            answers = [await client.asked(method, **params) for method, params in asked]

    outcomes = [
        answer["error"]["message"].partition(":")[0] if "error" in answer else "ok"
        for answer in answers
    ]
    assert outcomes == ["RESOURCE_NOT_FOUND", *["ok"] * 3, *["RATE_LIMITED"] * 3]
    sent = world.asked("resources/read", "prompts/get", "completion/complete")
    assert len(sent) == 3
