"""HTTP requests since 2026-07-28: each is complete in itself, and belongs to no session.

What intermediaries route by is repeated in headers, which must be the same as in the body. A
client cancels a request by closing its connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio

from discovery_engine.rpc.messages import Notification, Request
from discovery_engine.rpc.protocol import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    MODERN_VERSIONS,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from discovery_server.client_connection import ClientConnection
from discovery_server.client_messages import as_incoming
from discovery_server.eras import ModernEra, has_envelope
from discovery_server.http.asgi import HttpError, respond
from discovery_server.http.graceful_shutdown import LISTENS
from discovery_server.http.mirrored_headers import (
    VERSION,
    ParameterCache,
    mismatch,
    parameter_mismatch,
)
from discovery_server.http.request import not_a_message
from discovery_server.http.streams import PostStream
from discovery_server.modern_calls import ModernCalls

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_server.gateway import Gateway
    from discovery_server.http.request import Headers, HttpRequest
    from discovery_server.http.streams import OpenStreams

_OK, _ACCEPTED, _BAD, _NOT_FOUND = 200, 202, 400, 404
_STATUSES = {
    PARSE_ERROR: _BAD,
    INVALID_REQUEST: _BAD,
    INVALID_PARAMS: _BAD,
    HEADER_MISMATCH: _BAD,
    MISSING_CLIENT_CAPABILITY: _BAD,
    UNSUPPORTED_PROTOCOL_VERSION: _BAD,
    METHOD_NOT_FOUND: _NOT_FOUND,
}
"""Of the errors for which the specification has one."""


class StatelessRequests:
    """Answers POST requests, the only ones of this era."""

    def __init__(
        self, streams: OpenStreams, on_client_end: Callable[[str], object] = lambda _: None
    ) -> None:
        """`on_client_end` is called with the id of a client whose token or view has ended."""
        self._streams = streams
        self._on_client_end = on_client_end
        self._clients: dict[str, tuple[Gateway, str]] = {}
        """Those with a token, by their ids."""
        self._parameters = ParameterCache()
        self._calls = ModernCalls()
        self._waiting: dict[ClientConnection, tuple[Gateway, str | None]] = {}
        """The requests that are being worked on, with whose they are."""

    async def post(self, gateway: Gateway, user: str | None, request: HttpRequest) -> None:
        """Answer a POST.

        Raises:
            HttpError: If it is not valid.
            DisconnectedError: If its body does not come.
        """
        accepted = request.headers.require_message()
        value = await request.json()
        match as_incoming(value):
            case Request() as message:
                self._require_mirrored(gateway, request.headers, message)
                if message.method == "subscriptions/listen":  # its answer is a stream
                    request.headers.require_events()
                    request.scope[LISTENS] = True
            case Notification():  # none is defined, and clients send some all the same
                _require_version(request.headers)
                await respond(request.send, _ACCEPTED, b"")
                return
            case _:
                raise not_a_message()
        client = gateway.client_id(user)
        if client is not None and user is not None:
            if client in self._clients and self._clients[client][0] is not gateway:
                await self._end(client)  # something was reserved meanwhile
            self._clients[client] = gateway, user
        connection = ClientConnection(
            gateway, client=client, is_shared=user is None, era=ModernEra(), modern=self._calls
        )
        stream = PostStream(accepted, status_of=_status_of)
        connection.process(value, request.size, stream)
        if stream.is_open:
            self._waiting[connection] = gateway, user
            try:
                await self._wait(connection, stream, request)
            finally:
                del self._waiting[connection]
        else:
            await stream.respond(request.send)

    async def end_closed(self, is_open: Callable[[Gateway, str | None], bool]) -> None:
        """End the requests to gateways that are not there for their users any more."""
        for connection, (gateway, user) in list(self._waiting.items()):
            if not is_open(gateway, user):
                await connection.close()
        for client, (gateway, user) in list(self._clients.items()):
            if not is_open(gateway, user):
                await self._end(client)

    async def _end(self, client: str) -> None:
        """Forget what there is of a client; no-op if that has happened."""
        if self._clients.pop(client, None) is not None:
            await self._calls.end(client)
            self._on_client_end(client)

    async def close(self) -> None:
        """Cancel the calls that wait for their clients to continue them."""
        await self._calls.close()

    async def _wait(
        self, connection: ClientConnection, stream: PostStream, request: HttpRequest
    ) -> None:
        """Answer when the request has been worked on, or cancel it with its connection."""
        watch = asyncio.create_task(_close_on_disconnect(request, connection))
        try:
            with self._streams.opened(stream):
                await stream.respond(request.send)
        finally:
            watch.cancel()
            if stream.is_open:
                with anyio.CancelScope(shield=True):
                    await connection.close()

    def _require_mirrored(self, gateway: Gateway, headers: Headers, message: Request) -> None:
        """Compare the headers with the body; an incomplete envelope gets an error of its own."""
        params = message.params or {}
        if not has_envelope(params):
            return
        error = mismatch(headers, message)
        if not error and message.method == "tools/call":
            schema = gateway.input_schema(str(params.get("name")))
            error = parameter_mismatch(headers, self._parameters.of(schema), params)
        if error:
            raise HttpError(_BAD, error.code, error.message, request_id=message.id)
        if message.method == "initialize":  # on stdio it may be meant for the other era
            raise HttpError(_NOT_FOUND, METHOD_NOT_FOUND, "Method not found", request_id=message.id)


async def _close_on_disconnect(request: HttpRequest, connection: ClientConnection) -> None:
    await request.disconnected()
    await connection.close()


def _require_version(headers: Headers) -> None:
    requested = headers.get(VERSION)
    if requested not in MODERN_VERSIONS:
        data: JSONObject = {"supported": list(MODERN_VERSIONS), "requested": requested}
        text = "Unsupported protocol version"
        raise HttpError(_BAD, UNSUPPORTED_PROTOCOL_VERSION, text, data=data)


def _status_of(answer: JSONObject) -> int:
    error = answer.get("error")
    return _STATUSES.get(error["code"], _OK) if error else _OK
