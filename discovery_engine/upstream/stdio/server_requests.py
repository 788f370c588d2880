"""The requests of a program: which are answered, and when their answers are written.

Answers are queued until the program reads them. The queue is bounded: a program that sends requests
and never reads gets no more answers.
"""

from __future__ import annotations

import anyio

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.incoming import IncomingRequests
from discovery_engine.rpc.json_codec import encode
from discovery_engine.rpc.messages import ErrorResponse, Request, Response, as_json, is_request_id
from discovery_engine.rpc.peer import RpcError
from discovery_engine.rpc.protocol import INTERNAL_ERROR
from discovery_engine.rpc.stream_peer import LineSink
from discovery_engine.upstream.transport import OnRequest

_UNANSWERED = 1000  # requests in work, and answers that are not written yet
_WORKED_ON = 32  # requests
_ID_LENGTH = 200  # characters of an id that is sent back


class ServerRequests:
    def __init__(self, on_request: OnRequest) -> None:
        self._on_request = on_request
        self._working = IncomingRequests(most=_WORKED_ON)
        self._queue: list[bytes] = []
        self._arrived = anyio.Event()

    def accept(self, request: Request) -> bool:
        """Answer a request; False if its id is too long, or too many have no answer yet."""
        is_full = len(self._queue) + len(self._working) >= _UNANSWERED
        if is_full or len(str(request.id)) > _ID_LENGTH:
            return False
        match self._on_request(request.method, request.params or {}):
            case dict() as result:
                self._enqueue(Response(request.id, result))
            case RpcError() as error:
                self._enqueue(ErrorResponse(request.id, error))
            case work:
                self._working.start(request.id, work, self._enqueue)
        return True

    def cancel(self, params: JSONObject | None) -> None:
        """Cancel the request that `notifications/cancelled` names, which then gets no answer."""
        request_id = (params or {}).get("requestId")
        if is_request_id(request_id):
            self._working.cancel(request_id)

    async def write_answers(self, sink: LineSink) -> None:
        """Write the answers as fast as the program reads them, until cancelled."""
        while True:
            await self._arrived.wait()
            self._arrived = anyio.Event()
            lines, self._queue = self._queue, []
            sink.write(b"".join(lines))
            await sink.drain()

    async def close(self) -> None:
        """End all work; the program has gone, or is about to be ended."""
        await self._working.close()

    def _enqueue(self, answer: Response | ErrorResponse | None) -> None:
        if answer is None:  # the program has cancelled its request
            return
        try:
            line = encode(as_json(answer))
        except ValueError:  # a client's answer that is not JSON
            error = RpcError(INTERNAL_ERROR, "the answer cannot be written as JSON")
            line = encode(as_json(ErrorResponse(answer.id, error)))
        self._queue.append(line)
        self._arrived.set()
