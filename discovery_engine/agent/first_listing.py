"""Answers wait briefly for servers whose tools were never listed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from discovery_engine.errors import ServerDisabledError

if TYPE_CHECKING:
    from discovery_engine.engine import ScopedEngine

FIRST_LISTING = 3.0  # seconds that an answer waits for servers that were never listed


async def wait_for_first_listing(engine: ScopedEngine, server: str | None) -> None:
    """Wait briefly for `server`, or for all, if none of them was ever listed."""
    if server is None:
        if not engine.has_listings:
            await engine.wait_listed(timeout=FIRST_LISTING)
    elif not engine.is_listed(server):
        with anyio.move_on_after(FIRST_LISTING):
            try:
                await engine.list_tools(server)
            except ServerDisabledError:
                return  # the answer reports it
