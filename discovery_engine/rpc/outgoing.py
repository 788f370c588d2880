"""Requests of ours to the other side of a connection, sent and awaited."""

from __future__ import annotations

import asyncio
from typing import Protocol

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.messages import Notification, Request, as_json
from discovery_engine.rpc.peer import (
    ConnectionClosedError,
    OnProgress,
    RequestId,
    RequestTimeout,
    RequestTimeoutError,
)
from discovery_engine.rpc.pending import PendingRequests


class MessageStream(Protocol):
    """Takes messages at once and writes them in order."""

    @property
    def is_congested(self) -> bool:
        """True if so much waits to be written that a sender should wait."""

    def write(self, message: JSONObject) -> None:
        """Write a message; no-op if the other side reads no more.

        Raises:
            ValueError: If it contains what JSON cannot express, or nests too deeply.
        """

    async def drain(self) -> None:
        """Wait until it is not congested any more, or closed."""


async def request(
    pending: PendingRequests,
    stream: MessageStream,
    method: str,
    params: JSONObject | None = None,
    *,
    timeout: RequestTimeout | None = None,  # noqa: ASYNC109 - extended by progress
    on_progress: OnProgress | None = None,
    can_cancel: bool = True,
) -> JSONObject:
    """The result of a request that is written to `stream` and registered in `pending`.

    Arguments and errors are those of `Peer.request`.
    """
    number, waiting = pending.add(timeout, on_progress)
    is_sent = False
    try:
        if stream.is_congested:
            # A request that waits here was not sent, so there is nothing to cancel: a caller
            # that gives up leaves nothing in the buffer.
            await waiting.work(stream.drain)
            if waiting.is_settled:
                return await waiting.wait()
        if on_progress:
            params = _with_token(params, number)
        stream.write(as_json(Request(number, method, params)))
        is_sent = True
        return await waiting.wait()
    except ConnectionClosedError as error:
        if is_sent:
            raise
        raise ConnectionClosedError(was_sent=False) from error
    except (asyncio.CancelledError, RequestTimeoutError) as error:
        if can_cancel and is_sent and pending.is_waiting(number):
            stream.write(as_json(_cancellation(number, error)))
        raise
    finally:
        pending.discard(number)


def _cancellation(number: RequestId, error: BaseException) -> Notification:
    is_timeout = isinstance(error, RequestTimeoutError)
    reason = f"timed out: {error}" if is_timeout else "the caller was cancelled"
    return Notification("notifications/cancelled", {"requestId": number, "reason": reason})


def _with_token(params: JSONObject | None, number: RequestId) -> JSONObject:
    params = params or {}
    return {**params, "_meta": {**(params.get("_meta") or {}), "progressToken": number}}
