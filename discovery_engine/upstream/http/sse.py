"""The SSE transport of servers from before streamable HTTP.

All messages of the server arrive in one long response; ours are posted to the address in its first
event. The SDK's own transport stops working after one failed POST; here only that request fails.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias
from urllib.parse import urljoin, urlsplit

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from discovery_engine._util.text import quoted
from discovery_engine.rpc.json_codec import edges, encode, sniffed_id
from discovery_engine.rpc.messages import (
    Message,
    answered_id,
    as_json,
    as_message,
    fault_of,
    unreadable,
)
from discovery_engine.rpc.peer import RequestTimeout, RequestTimeoutError
from discovery_engine.rpc.request_timer import RequestTimeLimit
from discovery_engine.upstream.http.guarded_client import (
    GuardedClient,
    HttpFailure,
    failure_of,
    media_type,
    named_type,
)
from discovery_engine.upstream.http.redirect import NOT_APPROVED, origin_of
from discovery_engine.upstream.http.sdk import Item, WritingStream, session_message

SseStreams: TypeAlias = tuple[MemoryObjectReceiveStream[Item], "Poster"]

_HEADERS = {"accept": "text/event-stream", "cache-control": "no-store"}
_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError)


class Poster(WritingStream):
    """Posts each message in the task that sends it; a failed POST becomes the error answer."""

    def __init__(
        self, client: GuardedClient, endpoint: str, inbox: MemoryObjectSendStream[Item]
    ) -> None:
        self._client = client
        self._endpoint = endpoint
        self._inbox = inbox

    async def send_message(self, message: Message) -> None:
        response = await self._client.post(
            self._endpoint,
            content=encode(as_json(message)),
            headers={"content-type": "application/json"},
        )
        if response.is_error:
            await _deliver(self._client, self._inbox, response.content)


@asynccontextmanager
async def open_sse_streams(
    client: GuardedClient, url: str, *, on_end: Callable[[], None], within: float
) -> AsyncIterator[SseStreams | HttpFailure | None]:
    """The streams once the server has sent its endpoint, or the failure.

    None if the endpoint did not arrive `within` that many seconds.
    """
    response: httpx2.Response | None = None
    endpoint: str | HttpFailure | None = None
    try:
        with suppress(RequestTimeoutError), RequestTimeLimit(RequestTimeout(within)):
            request = client.build_request("GET", url, headers=_HEADERS)
            response = await client.send(request, stream=True)
            events = aiter(httpx2.EventSource(response, max_event_size=client.limit))
            endpoint = await _endpoint(response, events)
        if not isinstance(endpoint, str):
            yield endpoint
            return
        async with _open_streams(client, endpoint, events, on_end) as streams:
            yield streams
    finally:
        if response is not None:
            with anyio.CancelScope(shield=True):
                await response.aclose()


@asynccontextmanager
async def _open_streams(
    client: GuardedClient,
    endpoint: str,
    events: AsyncIterator[httpx2.ServerSentEvent],
    on_end: Callable[[], None],
) -> AsyncIterator[SseStreams]:
    inbox, outlet = anyio.create_memory_object_stream[Item]()
    async with inbox, outlet, anyio.create_task_group() as tasks:
        tasks.start_soon(_receive, client, events, inbox, on_end)
        yield outlet, Poster(client, endpoint, inbox)
        tasks.cancel_scope.cancel()


async def _endpoint(
    response: httpx2.Response, events: AsyncIterator[httpx2.ServerSentEvent]
) -> str | HttpFailure:
    if failure := failure_of(response):
        return failure
    if response.is_error:
        return HttpFailure(f"HTTP {response.status_code}", status=response.status_code)
    if (kind := media_type(response)) != "text/event-stream":
        return HttpFailure(f"it answers with {named_type(kind)}, not with events", detail=kind)
    with suppress(StopAsyncIteration, httpx2.TransportError, ValueError):  # the last: no address
        event = await anext(events)
        if event.event == "endpoint":
            return _checked_endpoint(str(response.request.url), event.data)
    return HttpFailure("its event stream does not begin with an endpoint")


def _checked_endpoint(url: str, announced: str) -> str | HttpFailure:
    """The address of an endpoint; only one of the same origin is used.

    Raises:
        ValueError: If it is no address.
    """
    endpoint = urljoin(url, announced)
    origin = origin_of(urlsplit(endpoint))
    if origin == origin_of(urlsplit(url)):
        return endpoint
    return HttpFailure(
        f"it announces the endpoint {quoted(origin)}, which is not used: {NOT_APPROVED}",
        hint="have the server announce its public address, for instance by its base URL or, behind"
        " a proxy, by the forwarded headers",
        announces_endpoint=True,
    )


async def _receive(
    client: GuardedClient,
    events: AsyncIterator[httpx2.ServerSentEvent],
    inbox: MemoryObjectSendStream[Item],
    on_end: Callable[[], None],
) -> None:
    async with inbox:
        with suppress(httpx2.TransportError):
            async for event in events:
                if event.event == "message":
                    await _deliver(client, inbox, event.data.encode())
        on_end()


async def _deliver(client: GuardedClient, inbox: MemoryObjectSendStream[Item], data: bytes) -> None:
    try:
        value = await client.large_results.decode(data)
        message = as_message(value) or unreadable(answered_id(value), fault_of(value))
    except ValueError as error:
        message = unreadable(sniffed_id(*edges(data)), f"it cannot be read: {error}")
    if message is not None:
        with suppress(*_GONE):
            await inbox.send(session_message(message))
