"""The calls of a client that began with `initialize`: a question is a request to the client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from discovery_engine.rpc.client import NOTHING, passed_meta
from discovery_engine.rpc.messages import Notification, RequestTimeout, RpcError, as_json
from discovery_engine.rpc.protocol import METHOD_NOT_FOUND
from discovery_server.client_messages import CallOutput
from discovery_server.question_text import present

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_server.client_messages import ClientStream
    from discovery_server.eras import HandshakeEra
    from discovery_server.gateway import ClientRequest, Gateway

_COMPLETE = "notifications/elicitation/complete"


class AskableConnection(Protocol):
    """The connection of the client."""

    @property
    def standalone(self) -> ClientStream | None:
        """The stream for messages that no message of the client has caused; None without one."""

    async def request(
        self,
        stream: ClientStream,
        method: str,
        params: JSONObject | None = None,
        *,
        timeout: RequestTimeout,  # noqa: ASYNC109 - the client gets a cancellation
    ) -> JSONObject:
        """Send a request to the client, and return its result; see `ClientConnection.request`."""


async def serve_handshake_call(
    gateway: Gateway,
    request: ClientRequest,
    stream: ClientStream,
    *,
    client: str | None,
    era: HandshakeEra,
    connection: AskableConnection,
) -> JSONObject:
    """The result of a request that waits, of the client with this id.

    Raises:
        RpcError: If it is answered with an error.
    """
    output = CallOutput(stream, request.params)
    meta = passed_meta(request.params.get("_meta"))
    caller = _HandshakeClient(client, era, output, connection, gateway, meta)
    on_progress = output.report_progress if output.wants_progress else None
    try:
        return await gateway.serve(replace(request, client=caller), on_progress)
    finally:
        output.end()


class _HandshakeClient:
    """Implements `Client`."""

    takes_input_required = False
    takes_tasks = False

    def __init__(
        self,
        client: str | None,
        era: HandshakeEra,
        output: CallOutput,
        connection: AskableConnection,
        gateway: Gateway,
        meta: JSONObject,
    ) -> None:
        self.id = client
        self.origin = connection
        self.capabilities = era.capabilities
        self.log_level = era.log_level
        self.meta = meta
        self._version = era.version
        self._output = output
        self._connection = connection
        self._scheduler = gateway.scheduler
        self._timeout = RequestTimeout(gateway.question_timeout)

    async def ask(self, method: str, params: JSONObject) -> JSONObject:
        """Ask the client on the stream of its call; see `Client.ask`."""
        question = await present(method, params, self._version, self._scheduler)
        stream = self._output.stream
        return await self._connection.request(stream, method, question, timeout=self._timeout)

    def notify(self, method: str, params: JSONObject) -> None:
        """Pass on a notification that the call caused; see `Client.notify`."""
        if not self._output.is_over:
            self._output.notify(method, params)
        elif method == _COMPLETE and (stream := self._connection.standalone):
            stream.write(as_json(Notification(method, params)))


class ClientOutsideCalls:
    """The same client when no call of it is in flight; it is asked for its roots only.

    Implements `Client`.
    """

    takes_input_required = False
    takes_tasks = False
    log_level = None
    meta = NOTHING

    def __init__(
        self,
        client: str | None,
        era: HandshakeEra,
        connection: AskableConnection,
        gateway: Gateway,
    ) -> None:
        self.id = client
        self.origin = connection
        self.capabilities = era.capabilities
        self._version = era.version
        self._connection = connection
        self._scheduler = gateway.scheduler
        self._timeout = RequestTimeout(gateway.question_timeout)

    async def ask(self, method: str, params: JSONObject) -> JSONObject:
        """Ask the client on its stream of unsolicited messages; see `Client.ask`."""
        stream = self._connection.standalone
        if stream is None:
            raise RpcError(METHOD_NOT_FOUND, f"the client has no stream for {method} now")
        question = await present(method, params, self._version, self._scheduler)
        return await self._connection.request(stream, method, question, timeout=self._timeout)

    def notify(self, method: str, params: JSONObject) -> None:
        """Do nothing, since without a call nothing causes notifications; see `Client.notify`."""
