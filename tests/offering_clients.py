"""Clients of the gateway that read resources and prompts, without a transport."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from discovery_engine import CallbackClient, Engine
from discovery_server.eras import ClientRequest
from discovery_server.gateway import Gateway
from tests.engines import Folder
from tests.servers.offerings import World
from tests.unit.server.wire import MODERN


@asynccontextmanager
async def served(
    folder: Folder, *worlds: World, **sections: Any
) -> AsyncIterator[tuple[Gateway, Engine]]:
    folder.write(*(world.server() for world in worlds), **sections)
    async with folder.open() as engine:
        await engine.refresh()
        yield Gateway(engine), engine


async def ask(
    gateway: Gateway, method: str, version: str = "2025-11-25", **params: Any
) -> dict[str, Any]:
    if version == "2026-07-28":
        params["_meta"] = MODERN
    return await gateway.handle(ClientRequest(method, params, version, CallbackClient()))
