"""Large results, kept away from the SDK's HTTP client.

The SDK parses an answer in one go, and everybody waits meanwhile. Here it is parsed in slices and
kept; what the SDK gets to see in its place is a ticket that no server can forge.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from itertools import count

from mcp import MCPError
from mcp_types import INTERNAL_ERROR

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.upstream.wire.json_codec import decode, decode_incrementally, encode
from discovery_engine.upstream.wire.scheduling import LARGE, FairScheduler

_KEPT = 8  # results; who gave up on one does not come for it


class LargeResults:
    def __init__(self, scheduler: FairScheduler) -> None:
        self._scheduler = scheduler
        self._mark = secrets.token_hex(16)
        self._numbers = count()
        self._kept: OrderedDict[int, JSONObject] = OrderedDict()

    async def decode(self, data: bytes) -> JSONValue:
        """The JSON of an answer, clean as `decode` has it.

        Raises:
            ValueError: If it cannot be read.
        """
        if len(data) <= LARGE:
            return decode(data)
        return await self._scheduler.run(decode_incrementally(data), size=len(data))

    def placeholder(self, answer: JSONObject) -> bytes:
        """The same answer with a ticket in place of its result, which is kept."""
        number = next(self._numbers)
        self._kept[number] = answer["result"]
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return encode({"jsonrpc": "2.0", "id": answer["id"], "result": {self._mark: number}})

    def restore(self, passed_on: JSONObject) -> JSONObject:
        """The result that a ticket stands for; anything else is the result itself.

        Raises:
            MCPError: If others have taken its place since.
        """
        if self._mark not in passed_on:
            return passed_on
        if (kept := self._kept.pop(passed_on[self._mark], None)) is None:
            raise MCPError(INTERNAL_ERROR, "too many large answers came at the same time")
        return kept
