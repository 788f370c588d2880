"""Keeps large results away from the SDK's HTTP client.

The SDK parses an answer in one go, which holds the event loop (90 ms for 9 MB). Here it is parsed
in steps and stored; the SDK gets a small placeholder, whose random key no server can forge.
"""

from __future__ import annotations

import secrets
from itertools import count

from cachetools import LRUCache

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.rpc.json_codec import decode, decode_incrementally, encode
from discovery_engine.rpc.peer import RpcError
from discovery_engine.rpc.protocol import INTERNAL_ERROR
from discovery_engine.rpc.scheduling import LARGE, FairScheduler

_MAX_LARGE_RESULTS = 8  # stored results; the caller of some may have given up


class LargeResults:
    def __init__(self, scheduler: FairScheduler) -> None:
        self._scheduler = scheduler
        self._key = secrets.token_hex(16)
        self._numbers = count()
        self._results: LRUCache[int, JSONObject] = LRUCache(_MAX_LARGE_RESULTS)

    async def decode(self, data: bytes) -> JSONValue:
        """The JSON of an answer, sanitized as by `json_codec.decode`.

        Raises:
            ValueError: If it cannot be parsed.
        """
        if len(data) <= LARGE:
            return decode(data)
        return await self._scheduler.run(decode_incrementally(data), size=len(data))

    def placeholder(self, answer: JSONObject) -> bytes:
        """The answer with a placeholder instead of its result, which is stored."""
        number = next(self._numbers)
        self._results[number] = answer["result"]
        return encode({"jsonrpc": "2.0", "id": answer["id"], "result": {self._key: number}})

    def restore(self, result: JSONObject) -> JSONObject:
        """The stored result of a placeholder; any other result is returned unchanged.

        Raises:
            RpcError: If newer results have displaced it.
        """
        if self._key not in result:
            return result
        if (stored := self._results.pop(result[self._key], None)) is None:
            raise RpcError(INTERNAL_ERROR, "too many large answers came at the same time")
        return stored
