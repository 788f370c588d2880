"""How much of our time servers get for what nobody waits for, and for what is very large.

There is one event loop for all. A server that floods us is read at leisure, all such servers
together in a tenth of the time, and a large message is parsed in a thread, so that the calls of
the others go on in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
from anyio import to_thread

LARGE = 256 * 1024  # bytes; to parse as much takes some three milliseconds

_REST = 0.005  # seconds
_PARSERS = 2  # threads: more would only wait for one another

T = TypeVar("T")


class Pace:
    """Shared by all servers."""

    def __init__(self) -> None:
        self._lane = anyio.Lock()
        self._parsers = anyio.CapacityLimiter(_PARSERS)

    async def rest(self) -> None:
        """Wait until it is a flooding server's turn again."""
        async with self._lane:
            await anyio.sleep(_REST)

    async def aside(self, parse: Callable[[bytes], T], data: bytes) -> T:
        """What `parse` makes of the data, in a thread if there is much of it.

        Raises:
            Exception: What `parse` raises.
        """
        if len(data) <= LARGE:
            return parse(data)
        return await to_thread.run_sync(parse, data, limiter=self._parsers)
