"""The calls of clients since 2026-07-28, in which a server asks by its answer.

The client sends the call again with its responses. A server of that era has the state of the call
itself, and its questions pass; any other call is parked until the client continues it.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from discovery_engine.rpc.client import Ask, Continuation, Notify, passed_meta
from discovery_engine.rpc.messages import RpcError
from discovery_engine.rpc.protocol import (
    LOG_LEVEL,
    METHOD_NOT_FOUND,
)
from discovery_server.asking_calls import AskingCall, AskingCalls, CallChannel, InputRequired
from discovery_server.client_messages import CallOutput
from discovery_server.client_tasks import TASK_METHODS, declares_tasks, process_of
from discovery_server.eras import client_name, completed
from discovery_server.question_text import askable, present, presented_requests
from discovery_server.request_state import (
    InvalidStateError,
    OtherGatewayError,
    StateSealer,
    call_identity,
)

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.rpc.scheduling import FairScheduler
    from discovery_server.client_messages import ClientStream
    from discovery_server.eras import ClientRequest
    from discovery_server.gateway import Gateway
    from discovery_server.relay import Relay

_GRACE = 30.0  # seconds that a call is kept when its question was not answered in time
_PASSED_ON = 3600.0  # seconds for which the state of another server is kept; it has its own limit


class ModernCalls:
    """The calls of clients since 2026-07-28, also of several clients: each is known by its name."""

    def __init__(
        self,
        sealer: StateSealer | None = None,
        relay: Relay | None = None,
    ) -> None:
        """No call yet.

        Args:
            sealer: Seals the states of calls; by default for this process alone.
            relay: By which other gateways ask for calls and tasks of this one.
        """
        self._asking = AskingCalls()
        self._sealer = StateSealer() if sealer is None else sealer
        self._relay = relay
        self._process = relay.instance if relay else os.urandom(8).hex()

    async def serve(
        self,
        gateway: Gateway,
        request: ClientRequest,
        stream: ClientStream,
        *,
        client: str | None,
        origin: object,
    ) -> JSONObject:
        """The result of a request that waits, or what the client must respond to first.

        Args:
            gateway: What makes the call.
            request: The request; with a `requestState`, a call is continued.
            stream: The stream of the request.
            client: The client, if there may be others.
            origin: As `Client.origin`.

        Raises:
            OtherGatewayError: If another gateway has the call or the task.
            RpcError: If the call is answered with an error.
        """
        if request.method in TASK_METHODS:
            self.require_here(request)
        output = CallOutput(stream, request.params)
        try:
            call, continuation = await self._continued(gateway, request, client)
            if call is None:
                call_request = replace(request, continuation=continuation)
                work = partial(_call, gateway, call_request, client, origin)
                if not askable(request.params):
                    return self._handed_out(await work(output, None))
                call = self._asking.begin(client, lambda call: work(call, call.ask))
            lifetime = gateway.question_timeout + _GRACE
            outcome = await call.attend(output)
            if isinstance(outcome, InputRequired):
                return await self._parked(outcome, call, request, lifetime)
            if outcome.get("resultType") == "input_required":
                return await self._passed_on(outcome, call, request, gateway.scheduler)
            return self._handed_out(outcome)
        finally:
            output.end()

    def require_here(self, request: ClientRequest) -> None:
        """Check that no other gateway has the task of a request.

        Raises:
            OtherGatewayError: If one has.
        """
        process = process_of(request.params["taskId"]) if self._relay else ""
        if process not in ("", self._process):
            raise OtherGatewayError(process, is_task=True)

    async def has_parked(self, method: str, params: JSONObject, client: str | None) -> bool:
        """Return whether a request has the state of a call that this process has parked."""
        await self._sealer.prepare()
        try:
            state = self._sealer.unseal(
                str(params.get("requestState")), call_identity(client, method, params)
            )
        except InvalidStateError:
            return False
        match state:
            case {"process": self._process, "call": str(), "round": int()}:
                return True
        return False

    async def end(self, client: str) -> None:
        """Cancel those of a client that is gone."""
        await self._asking.end(client)

    async def close(self) -> None:
        """Cancel the calls that wait for a client."""
        await self._asking.close()

    async def _continued(
        self, gateway: Gateway, request: ClientRequest, client: str | None
    ) -> tuple[AskingCall | None, Continuation | None]:
        """The parked call that a request continues, or what its server is given to continue it."""
        responses = request.params.get("inputResponses")
        state = request.params.get("requestState")
        if state is None:
            return None, None if responses is None else Continuation(responses)
        identity = call_identity(client, request.method, request.params)
        await self._sealer.prepare()
        match self._sealer.unseal(state, identity):
            case {"process": str(process), "gateway": str(name)} if process != self._process:
                if name and name == self._sealer.gateway:  # it was started again meanwhile
                    raise InvalidStateError
                raise OtherGatewayError(process, name)
            case {"call": str(number), "round": int(turn)}:
                call = self._asking.parked(number, turn)
                if not gateway.still_shows(request, call.servers):
                    await call.cancel()
                    raise InvalidStateError
                call.respond(responses or {})
                return call, None
            case {"state": str(own)}:
                return None, Continuation(responses or {}, own)
        raise InvalidStateError

    def _handed_out(self, result: JSONObject) -> JSONObject:
        """A result; other gateways may ask for the task of it."""
        if self._relay and result.get("resultType") == "task":
            self._relay.expect(result["ttlMs"] / 1000)
        return result

    async def _parked(
        self,
        outcome: InputRequired,
        call: AskingCall,
        request: ClientRequest,
        lifetime: float,
    ) -> JSONObject:
        """The questions of a call that is to be continued, with a sealed state."""
        call.park(lifetime)
        if self._relay:
            self._relay.expect(lifetime)
        here = {"process": self._process, "gateway": self._sealer.gateway}
        state: JSONObject = {"call": outcome.call, "round": outcome.round, **here}
        result: JSONObject = {
            "resultType": "input_required",
            "inputRequests": outcome.requests,
            "requestState": await self._sealed(state, call, request, lifetime),
        }
        return completed(request.method, result, request.version)

    async def _passed_on(
        self,
        result: JSONObject,
        call: AskingCall,
        request: ClientRequest,
        scheduler: FairScheduler,
    ) -> JSONObject:
        """The result of a server that asks by itself, with its questions presented."""
        passed = dict(result)
        if isinstance(questions := result.get("inputRequests"), dict):
            passed["inputRequests"] = await presented_requests(
                questions, askable(request.params), request.version, scheduler
            )
        if isinstance(state := result.get("requestState"), str):
            passed["requestState"] = await self._sealed({"state": state}, call, request, _PASSED_ON)
        return passed

    async def _sealed(
        self, state: JSONObject, call: AskingCall, request: ClientRequest, lifetime: float
    ) -> str:
        identity = call_identity(call.client, request.method, request.params)
        await self._sealer.prepare()
        return self._sealer.seal(state, identity, lifetime=lifetime)


class _ModernClient:
    """Implements `Client`."""

    def __init__(
        self,
        client: str | None,
        origin: object,
        request: ClientRequest,
        notify: Notify,
        ask: Ask | None,
        scheduler: FairScheduler,
        *,
        takes_tasks: bool,
    ) -> None:
        self.id = client
        self.name = client_name(request)
        self.origin = origin
        self.capabilities = askable(request.params)
        self.log_level: str | None = request.params["_meta"].get(LOG_LEVEL)
        self.meta = passed_meta(request.params["_meta"])
        self.takes_input_required = ask is not None
        self.takes_tasks = takes_tasks
        self._notify = notify
        self._version = request.version
        self._ask = ask
        self._scheduler = scheduler

    async def ask(self, method: str, params: JSONObject) -> JSONObject:
        """Put a server's question to the client; see `Client.ask`."""
        if self._ask is None:
            raise RpcError(METHOD_NOT_FOUND, f"the client cannot answer {method}")
        return await self._ask(
            method, await present(method, params, self._version, self._scheduler)
        )

    def notify(self, method: str, params: JSONObject) -> None:
        """Pass on a log message; this era has no other notifications of calls (`Client.notify`)."""
        if method == "notifications/message":
            self._notify(method, params)


async def _call(
    gateway: Gateway,
    request: ClientRequest,
    client: str | None,
    origin: object,
    output: CallChannel,
    ask: Ask | None,
) -> JSONObject:
    takes_tasks = gateway.has_tasks and declares_tasks(request.params)
    caller = _ModernClient(
        client, origin, request, output.notify, ask, gateway.scheduler, takes_tasks=takes_tasks
    )
    has_token = (request.params["_meta"]).get("progressToken") is not None
    on_progress = output.report_progress if has_token else None
    return await gateway.serve(replace(request, client=caller), on_progress)
