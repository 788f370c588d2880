"""Answers to requests of a server: `ping` succeeds, everything else is not supported.

Answers are queued until the server reads them. The queue is bounded: a server that sends requests
and never reads gets no more answers.
"""

from __future__ import annotations

import anyio

from discovery_engine.rpc.json_codec import encode
from discovery_engine.rpc.messages import ErrorResponse, Message, Request, Response, as_json
from discovery_engine.rpc.peer import RpcError
from discovery_engine.rpc.protocol import METHOD_NOT_FOUND
from discovery_engine.rpc.stream_peer import LineSink

_QUEUE = 1000  # answers
_LENGTH = 200  # characters of an id that is sent back, and of a method that is named


class Replies:
    def __init__(self) -> None:
        self._queue: list[bytes] = []
        self._arrived = anyio.Event()

    def enqueue(self, request: Request) -> bool:
        """Queue an answer; False if the queue is full or the id is too long."""
        if len(self._queue) >= _QUEUE or len(str(request.id)) > _LENGTH:
            return False
        self._queue.append(encode(as_json(_answer(request))))
        self._arrived.set()
        return True

    async def drain(self, sink: LineSink) -> None:
        """Write the queued answers, as fast as the server reads them, until cancelled."""
        while True:
            await self._arrived.wait()
            self._arrived = anyio.Event()
            lines, self._queue = self._queue, []
            sink.write(b"".join(lines))
            await sink.drain()


def _answer(request: Request) -> Message:
    if request.method == "ping":
        return Response(request.id, {})
    text = f"{request.method[:_LENGTH]} is not supported"
    return ErrorResponse(request.id, RpcError(METHOD_NOT_FOUND, text))
