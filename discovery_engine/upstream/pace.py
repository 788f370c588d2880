"""How much of our time servers get for what nobody waits for, and for what is very large.

There is one event loop for all. A server that floods us is read at leisure, all such servers
together in a tenth of the time, and a large message is parsed in a thread, so that the calls of
the others go on in between.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from json import JSONDecoder
from typing import TypeVar

import anyio
from anyio import to_thread

from discovery_engine.upstream.framing import pausing_decoder

LARGE = 256 * 1024  # bytes; to parse as much takes some three milliseconds

_REST = 0.005  # seconds
_PARSERS = 1  # threads: more would only wait for one another
_VALUES = 100  # parsed at a stroke: a tenth of a millisecond
_BREATH = 0.0001  # seconds

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

    async def aside(self, parse: Callable[[bytes, JSONDecoder], T], data: bytes) -> T:
        """What `parse` makes of large data with the decoder that it is given, in a thread.

        Raises:
            Exception: What `parse` raises.
        """
        return await to_thread.run_sync(_parsed, parse, data, limiter=self._parsers)


def _parsed(parse: Callable[[bytes, JSONDecoder], T], data: bytes) -> T:
    # All that parsing makes is alive, so that the collector would look for nothing, many times,
    # and hold up every thread for it.
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        return parse(data, pausing_decoder(_Breath().draw))
    finally:
        if is_collecting:
            gc.enable()


class _Breath:
    """A thread that parses holds the interpreter: it lets go of it after every few values.

    Else the loop would wait for five milliseconds after each of its system calls.
    """

    def __init__(self) -> None:
        self._values = 0

    def draw(self) -> None:
        self._values += 1
        if self._values % _VALUES == 0:
            time.sleep(_BREATH)
