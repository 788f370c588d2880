"""The calls that all clients of a view make together: counted once, whoever makes them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.engine import Engine
from discovery_engine.errors import RateLimitedError
from discovery_engine.rpc.client import CallbackClient
from discovery_engine.view.scope import Scope
from discovery_server.gateway import Gateway
from tests.contract.test_modes import client_of
from tests.contract.test_views import opened_folder
from tests.engines import Folder
from tests.servers.offerings import World, prompt, resource
from tests.told import Told

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("VIEW-30")]

CALLERS = 64


class Clock:
    now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def opened(
    folder: Folder, *, clock: Clock | None = None, **views: JSONObject
) -> AsyncIterator[Engine]:
    await opened_folder(folder, views=views)
    async with folder.open(clock=clock or Clock()) as engine:
        await engine.refresh()
        yield engine


def told(folder: Folder, server: str = "zoo") -> Told:
    return Told(folder.path / server / "told.json")


async def test_of_64_callers_of_a_view_as_many_pass_as_are_allowed(folder: Folder) -> None:
    limits = {"callsPerMinute": 1, "burst": 7}
    refusals: list[RateLimitedError] = []
    async with opened(folder, cats={"limits": limits}, other={}) as engine:
        # Each looks at the view by itself, as other connections, surfaces and steps do.
        shown = [engine.in_view("cats").within(Scope()) for _ in range(CALLERS)]

        async def call(number: int) -> None:
            caller = CallbackClient(id=f"c{number}")
            try:
                await shown[number].execute("zoo", "wash_cat", {}, caller=caller)
            except RateLimitedError as error:
                refusals.append(error)

        async with anyio.create_task_group() as tasks:
            for number in range(CALLERS):
                tasks.start_soon(call, number)
        counted = told(folder).calls
        for _ in range(10):
            await engine.execute("zoo", "wash_cat", {})
            await engine.in_view("other").execute("zoo", "wash_cat", {})

        assert counted == 7
        assert told(folder).calls == 27
    assert len(refusals) == CALLERS - 7
    assert "view 'cats' takes at most 1 call a minute; nothing was sent" in str(refusals[0])
    assert 0 < refusals[0].retry_after <= 60


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
    async with folder.open(clock=Clock()) as engine:
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
