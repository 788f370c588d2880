"""Where the messages for a client are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from discovery_engine.rpc.json_codec import encode_finite
from discovery_engine.rpc.pending import MessageStream

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.rpc.messages import RequestId
    from discovery_engine.rpc.stream_peer import LineSink


class ClientStream(MessageStream, Protocol):
    """Takes all that belongs to one message of a client: answers, progress, requests to the client.

    Over stdio all messages share one; over HTTP each POST has its own.
    """

    def begin(self) -> None:
        """A request will be answered later: the stream stays open for it."""

    def end(self, request_id: RequestId, *, is_cancelled: bool) -> None:
        """Nothing follows for a request that began; one that was cancelled got no answer."""


class LineStream:
    """A `ClientStream` over lines, which is always open."""

    def __init__(self, sink: LineSink) -> None:
        self._sink = sink

    @property
    def is_congested(self) -> bool:
        return self._sink.is_congested

    def write(self, message: JSONObject) -> None:
        self._sink.write(encode_finite(message))

    async def drain(self) -> None:
        await self._sink.drain()

    def begin(self) -> None:
        """No-op."""

    def end(self, request_id: RequestId, *, is_cancelled: bool) -> None:
        """No-op."""
