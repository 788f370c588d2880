"""HTTP requests since 2026-07-28: each is complete in itself, and belongs to no session.

What intermediaries route by is repeated in headers, which must be the same as in the body. A
client cancels a request by closing its connection.

A request about work within another gateway is passed on to it. That gateway goes by what it knows
itself: whether the client's token is still valid there, and what it shows. Where it does not know
the client, nothing that it has is that client's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import anyio
from msgspec import Struct

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
from discovery_server.access_token import MCP_SCOPES
from discovery_server.client_connection import ClientConnection, PassOn
from discovery_server.client_messages import as_incoming
from discovery_server.client_tasks import TASK_METHODS, unknown_task
from discovery_server.eras import ModernEra, has_envelope
from discovery_server.http.asgi import LISTENS, HttpError, respond
from discovery_server.http.mirrored_headers import (
    VERSION,
    ParameterCache,
    mismatch,
    parameter_mismatch,
)
from discovery_server.http.request import not_a_message
from discovery_server.http.streams import PostStream, RelayedStream
from discovery_server.modern_calls import ModernCalls
from discovery_server.request_state import InvalidStateError

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_server.client_messages import ClientStream
    from discovery_server.eras import ClientRequest
    from discovery_server.gateway import Gateway
    from discovery_server.http.request import Headers, HttpRequest
    from discovery_server.http.streams import OpenStreams
    from discovery_server.http.users import User, Users
    from discovery_server.relay import PassMessages, Relay
    from discovery_server.request_state import OtherGatewayError, StateSealer

GatewayOf: TypeAlias = Callable[["User | None", str | None], "Gateway | None"]
"""The gateway of a user and a view; None if there is none."""


class RelayedClient(Struct, frozen=True):
    gateway: Gateway
    user: str | None
    """None where no token is required."""


class RelayedClients:
    """`users` are None where no token is required."""

    def __init__(self, users: Users | None, gateway_of: GatewayOf) -> None:
        self._users = users
        self._gateway_of = gateway_of

    def name(self, client: RelayedClient) -> JSONObject:
        """Return the members by which another gateway identifies a client of this one."""
        mark = self._users.mark(client.user) if self._users and client.user else ""
        return {"user": client.user, "mark": mark, "view": client.gateway.view}

    def find(self, named: JSONObject) -> RelayedClient | None:
        """The client that another gateway names; None if there is none here."""
        name, view = named["user"], named["view"]
        user = self._users.known(name, named["mark"]) if self._users and name else None
        if user is None and (self._users or name):
            return None
        if user and not user.scopes >= MCP_SCOPES:
            return None
        gateway = self._gateway_of(user, view)
        if gateway is None or gateway.view != view:
            return None
        return RelayedClient(gateway, name)


_RELAYED = 1  # the id of a request that another gateway passes on; its connection has no other
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
"""The HTTP status of each error for which the specification has one."""


class StatelessRequests:
    """Answers POST requests, the only ones of this era."""

    def __init__(
        self,
        streams: OpenStreams,
        on_client_end: Callable[[str], object] = lambda _: None,
        sealer: StateSealer | None = None,
        relayed: tuple[Relay, RelayedClients] | None = None,
    ) -> None:
        """`on_client_end` is called with the id of a client whose token or view has ended.

        `sealer` is as `ModernCalls` takes it; `relayed` passes requests to other gateways and back.
        """
        self._streams = streams
        self._on_client_end = on_client_end
        self._clients: dict[str, tuple[Gateway, str]] = {}
        """The clients with a token, by their ids."""
        self._parameters = ParameterCache()
        self._relayed = relayed
        self._calls = ModernCalls(sealer=sealer, relay=relayed[0] if relayed else None)
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
        connection = await self._connection(gateway, user, self._pass_on(gateway, user))
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

    async def serve_relayed(self) -> None:
        """Answer what other gateways pass on, until cancelled; no-op where there are none."""
        if self._relayed:
            relay, clients = self._relayed
            await relay.run(partial(self._answer_relayed, relay, clients))

    async def close(self) -> None:
        """Cancel the calls that wait for their clients to continue them."""
        await self._calls.close()

    async def _connection(
        self, gateway: Gateway, user: str | None, pass_on: PassOn | None = None
    ) -> ClientConnection:
        """The connection for one request of a client."""
        client = gateway.client_id(user)
        if client is not None and user is not None:
            if client in self._clients and self._clients[client][0] is not gateway:
                await self._end(client)  # something was reserved meanwhile
            self._clients[client] = gateway, user
        return ClientConnection(
            gateway,
            client=client,
            is_shared=user is None,
            era=ModernEra(),
            modern=self._calls,
            pass_on=pass_on,
        )

    def _pass_on(self, gateway: Gateway, user: str | None) -> PassOn | None:
        """Return a function that passes a client's requests to other gateways; None without any."""
        if self._relayed is None:
            return None
        relay, clients = self._relayed

        async def pass_on(
            elsewhere: OtherGatewayError, request: ClientRequest, stream: ClientStream | None
        ) -> JSONObject:
            named = clients.name(RelayedClient(gateway, user))
            sent: JSONObject = {"client": named, "method": request.method, "params": request.params}
            return await relay.ask(
                elsewhere, sent, gateway.client_id(user), partial(_write, stream)
            )

        return pass_on

    async def _answer_relayed(
        self,
        relay: Relay,
        clients: RelayedClients,
        sent: JSONObject,
        pass_messages: PassMessages,
    ) -> JSONObject:
        """The answer to a request that another gateway passes on; it goes no further from here.

        Nothing is begun by one: it is about a task, or it continues a call.

        Raises:
            RpcError: If it is refused.
        """
        method, params = sent["method"], sent["params"]
        is_about_task = method in TASK_METHODS
        if (sender := clients.find(sent["client"])) is None:
            raise unknown_task() if is_about_task else InvalidStateError()
        client = sender.gateway.client_id(sender.user)
        if not (is_about_task or await self._calls.has_parked(method, params, client)):
            raise InvalidStateError
        with relay.share(client):
            return await self._served(sender, method, params, pass_messages)

    async def _served(
        self, client: RelayedClient, method: str, params: JSONObject, pass_messages: PassMessages
    ) -> JSONObject:
        connection = await self._connection(client.gateway, client.user)
        stream = RelayedStream()
        message = {"jsonrpc": "2.0", "id": _RELAYED, "method": method, "params": params}
        self._waiting[connection] = client.gateway, client.user
        try:
            connection.process(message, 0, stream)
            while batch := await stream.batch():
                await pass_messages(batch)
            return await stream.answer()
        finally:
            del self._waiting[connection]
            with anyio.CancelScope(shield=True):
                await connection.close()

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
            schema = gateway.input_schema(params)
            error = parameter_mismatch(headers, self._parameters.of(schema), params)
        if error:
            raise HttpError(_BAD, error.code, error.message, request_id=message.id)
        if message.method == "initialize":  # on stdio it may be meant for the other era
            raise HttpError(_NOT_FOUND, METHOD_NOT_FOUND, "Method not found", request_id=message.id)


async def _write(stream: ClientStream | None, messages: list[JSONObject]) -> None:
    if stream is None:
        return
    for message in messages:
        if stream.is_congested:
            await stream.drain()
        stream.write(message)


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
