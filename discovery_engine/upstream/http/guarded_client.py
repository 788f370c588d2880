"""An HTTP client whose failures are answers.

With the SDK's transports a refused connection, a reset or an invalid answer closes the session of
all its callers. Here each becomes the JSON-RPC error of the one request, and the details are stored
under a random key that no server can guess.
"""

from __future__ import annotations

import json
import secrets
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any

import httpx2
from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.retry_after import retry_after
from discovery_engine._util.tls_context import shared_tls_context
from discovery_engine.rpc.json_codec import decode, encode, is_clean
from discovery_engine.rpc.messages import answered_id, as_message
from discovery_engine.rpc.peer import UnreadableAnswerError
from discovery_engine.rpc.protocol import CONNECTION_CLOSED
from discovery_engine.rpc.scheduling import LARGE, FairScheduler, Quota
from discovery_engine.upstream.http.event_stream import CompressedEventStream, EventStream, cost
from discovery_engine.upstream.http.large_results import LargeResults
from discovery_engine.upstream.http.logins import ServerLogin
from discovery_engine.upstream.http.outage import Outage, causes, outage
from discovery_engine.upstream.http.redirect import describe_redirect, is_followed, is_redirect
from discovery_engine.upstream.transport import is_resource_exhausted

_ERROR_LIMIT = 64 * 1024  # bytes read of the body of an HTTP error
_REMEMBERED = 100  # failures that were not looked up yet
_FAILURE = "discovery.failure"
_MAY_BE_LARGE = ("tools/call", "tools/list")  # the SDK does not need their results
_SESSION_HEADER = "mcp-session-id"
_OK = 200
_NOT_FOUND = 404
_BAD_REQUEST = 400
_FIRST_ERROR = 400
_COMMON_TYPES = (
    *("application/json", "application/octet-stream", "application/xml", "text/event-stream"),
    *("text/html", "text/plain", "text/xml"),
)
_BROKEN = (httpx2.TransportError, httpx2.DecodingError)


class HttpFailure(Struct, frozen=True):
    """Why one HTTP exchange failed."""

    reason: str
    status: int | None = None
    outage: Outage | None = None
    """The cause, if no answer came."""
    detail: str = ""
    """The message of the server or a library, for the owner only."""
    os_error: OSError | None = None
    """Set if this process was out of resources, so that nothing was sent."""
    was_sent: bool = True
    """False if the request provably never reached the server."""
    lost_session: bool = False
    """The server refused the request because the session does not exist any more."""
    retry_after: float | None = None
    """Seconds of the server's Retry-After header."""
    challenge: str = ""
    """The server's WWW-Authenticate header."""
    hint: str = ""
    """The next step, where more is known than the status says."""
    can_log_in: bool = False
    """Whether a person could log in, and has not yet."""
    is_explained: bool = False
    """Whether the reason is a sentence about the login, rather than a status."""
    lacks_scope: bool = False
    """The server accepts the token, but not for this request."""


def _usual_timeout() -> httpx2.Timeout:
    return httpx2.Timeout(5.0)


class GuardedClient(httpx2.AsyncClient):
    """Raises no transport error and returns no answer that crashes the SDK."""

    def __init__(
        self,
        scheduler: FairScheduler,
        limit: int,
        *,
        expects_answers: bool,
        timeout: Callable[[], httpx2.Timeout] = _usual_timeout,
        login: ServerLogin | None = None,
        **options: Any,
    ) -> None:
        """A client for one server.

        Args:
            scheduler: Shared by all sessions.
            limit: The most bytes of one JSON answer, or of one event.
            expects_answers: The response to a POST contains the answer to its request.
            timeout: The time limits of the next request.
            login: As `open_http_transport` takes it.
            options: As `httpx2.AsyncClient` takes them.
        """
        super().__init__(timeout=timeout(), verify=shared_tls_context(), **options)
        self._timeout_of_next = timeout
        self.limit = limit
        """The most bytes of one JSON answer, or of one event."""
        self._scheduler = scheduler
        self.large_results = LargeResults(scheduler)
        """Results of calls and lists that the SDK sees as placeholders."""
        self._expects_answers = expects_answers
        self._login = login
        self._failures: OrderedDict[str, HttpFailure] = OrderedDict()

    def find_failure(self, data: JSONValue) -> HttpFailure | None:
        """The failure behind a JSON-RPC error, by its `data`."""
        return self._failures.get(data) if isinstance(data, str) else None

    def build_request(self, *arguments: Any, **options: Any) -> httpx2.Request:
        self.timeout = self._timeout_of_next()
        return super().build_request(*arguments, **options)

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if self._login and (sender := self._login.sender()):
            return await sender.send(request, partial(self._send, **options), self.failure_response)
        return await self._send(request, **options)

    async def _send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        try:
            response = await super().send(request, **options)
            return await self._checked_response(request, response)
        except _BROKEN as error:
            return self.failure_response(request, _transport_failure(error, request), status=503)

    async def _checked_response(
        self, request: httpx2.Request, response: httpx2.Response
    ) -> httpx2.Response:
        if response.status_code >= _FIRST_ERROR:
            return await self._checked_response_error(request, response)
        if is_redirect(response):
            return await self._checked_response_redirect(request, response)
        kind = media_type(response)
        if kind == "application/json":
            return await self._checked_response_json(request, response)
        call = self._answered_request(request)
        if kind != "text/event-stream" and call and response.status_code == _OK:
            await response.aclose()
            reason = f"it answers with {named_type(kind)}, not with MCP"
            return self.failure_response(request, HttpFailure(reason, detail=kind), status=502)
        response.stream = self._events(response, call)
        return response

    def _events(
        self, response: httpx2.Response, call: JSONObject | None
    ) -> EventStream | CompressedEventStream:
        stream, quota = response.stream, Quota(self._scheduler)
        if "content-encoding" in response.headers:
            return CompressedEventStream(stream, quota=quota, broken=_BROKEN)
        sanitize = partial(self._sanitized, call)
        return EventStream(stream, sanitize, limit=self.limit, quota=quota, broken=_BROKEN)

    async def _sanitized(self, call: JSONObject | None, data: bytes) -> bytes:
        """The data of an event; the SDK reports invalid data itself."""
        if call is None or (len(data) <= LARGE and is_clean(data)):
            return data
        with suppress(ValueError):
            return (await self._sdk_safe(call, data)).rstrip(b"\n")
        return data

    async def _checked_response_error(
        self, request: httpx2.Request, response: httpx2.Response
    ) -> httpx2.Response:
        body = await _read(response, _ERROR_LIMIT, Quota(self._scheduler))
        error = _json_rpc_error(body)
        challenge = response.headers.get("www-authenticate", "")
        asks_for_login = response.status_code == HTTPStatus.UNAUTHORIZED or challenge
        if (
            error is not None
            and not asks_for_login
            and not _forgot_session(request, response, error)
        ):
            return _rebuilt(request, response, body or b"")
        failure = HttpFailure(
            _status_line(response.status_code),
            detail=response.reason_phrase,
            status=response.status_code,
            lost_session=_forgot_session(request, response, error),
            retry_after=retry_after(response.headers.get("retry-after", "")),
            challenge=challenge,
            can_log_in=self._login is not None
            and self._login.is_personal
            and response.status_code == HTTPStatus.UNAUTHORIZED,
        )
        return self.failure_response(request, failure, status=response.status_code)

    async def _checked_response_redirect(
        self, request: httpx2.Request, response: httpx2.Response
    ) -> httpx2.Response:
        if self._expects_answers and await is_followed(response):
            return response
        await response.aclose()
        failure = HttpFailure(describe_redirect(response), status=response.status_code)
        return self.failure_response(request, failure, status=502)

    async def _checked_response_json(
        self, request: httpx2.Request, response: httpx2.Response
    ) -> httpx2.Response:
        body = await _read(response, self.limit, Quota(self._scheduler))
        if body is None:
            reason = f"its answer is longer than {self.limit // (1024 * 1024)} MiB"
            return _unreadable(request, reason)
        if (call := self._answered_request(request)) is None:
            return _rebuilt(request, response, body)
        try:
            return _rebuilt(request, response, await self._sdk_safe(call, body))
        except ValueError as error:
            return _unreadable(request, f"its answer cannot be read: {error}")

    async def _sdk_safe(self, call: JSONObject, data: bytes) -> bytes:
        """An answer that the SDK can parse: sanitized, without a large result.

        Raises:
            ValueError: If it is invalid, or answers another request.
        """
        answer = _checked(await self.large_results.decode(data), call["id"])
        if len(data) > LARGE and call["method"] in _MAY_BE_LARGE and "result" in answer:
            return self.large_results.placeholder(answer)
        return data if is_clean(data) else encode(answer)

    def _answered_request(self, request: httpx2.Request) -> JSONObject | None:
        """The JSON-RPC request that the response answers; None if there is none."""
        return _rpc_request(request) if self._expects_answers and request.method == "POST" else None

    def failure_response(
        self, request: httpx2.Request, failure: HttpFailure, *, status: int
    ) -> httpx2.Response:
        """The response that stands for a failed exchange."""
        key = secrets.token_hex(16)
        self._failures[key] = failure
        if len(self._failures) > _REMEMBERED:
            self._failures.popitem(last=False)
        error = {"code": CONNECTION_CLOSED, "message": failure.reason, "data": key}
        answer = {"jsonrpc": "2.0", "id": _request_id(request), "error": error}
        kept = {_FAILURE: failure}
        return httpx2.Response(status, request=request, json=answer, extensions=kept)


def failure_of(response: httpx2.Response) -> HttpFailure | None:
    """The failure, if `response` was made up by this client."""
    failure = response.extensions.get(_FAILURE)
    return failure if isinstance(failure, HttpFailure) else None


async def _read(response: httpx2.Response, limit: int, quota: Quota) -> bytes | None:
    """The body, or None if it is longer than `limit`; closes the response."""
    body = bytearray()
    try:
        async for part in response.aiter_bytes():
            body += part
            if len(body) > limit:
                return None
            quota.spend(cost(part))
            await quota.pause_if_spent()
    finally:
        await response.aclose()
    return bytes(body)


def _rebuilt(request: httpx2.Request, response: httpx2.Response, body: bytes) -> httpx2.Response:
    stale = ("content-encoding", "content-length", "transfer-encoding")
    headers = [(k, v) for k, v in response.headers.multi_items() if k.lower() not in stale]
    return httpx2.Response(response.status_code, headers=headers, content=body, request=request)


def _transport_failure(error: httpx2.RequestError, request: httpx2.Request) -> HttpFailure:
    unsent = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
    never_left = (*unsent, httpx2.UnsupportedProtocol, httpx2.LocalProtocolError)
    found = outage(error, request)
    return HttpFailure(
        found.reason,
        detail=found.detail,
        outage=found,
        os_error=next(filter(is_resource_exhausted, causes(error)), None),
        was_sent=not isinstance(error, never_left),
    )


def _forgot_session(
    request: httpx2.Request, response: httpx2.Response, error: JSONObject | None
) -> bool:
    if _SESSION_HEADER not in request.headers:
        return False
    if response.status_code == _BAD_REQUEST:  # several SDKs answer 400, not 404
        return error is not None and "session" in str(error.get("message")).lower()
    return response.status_code == _NOT_FOUND


def _json_rpc_error(body: bytes | None) -> JSONObject | None:
    try:
        answer = decode(body or b"")
    except ValueError:
        return None
    error = answer.get("error") if isinstance(answer, dict) else None
    is_error = isinstance(error, dict) and isinstance(error.get("code"), int)
    return error if is_error else None


def _unreadable(request: httpx2.Request, reason: str) -> httpx2.Response:
    """An error answer instead of one that cannot be parsed; the request itself was processed."""
    error = UnreadableAnswerError(reason).to_json()
    answer = {"jsonrpc": "2.0", "id": _request_id(request), "error": error}
    return httpx2.Response(_OK, request=request, json=answer)


def _checked(value: JSONValue, call: JSONValue) -> JSONObject:
    """The value, if it answers the request with that id; otherwise raises ValueError."""
    answered = answered_id(value)
    if answered is None or as_message(value) is None:
        raise ValueError("it is not one of JSON-RPC")
    if str(answered) != str(call):
        raise ValueError("it is one to another request")
    answer: JSONObject = value
    return answer


def media_type(response: httpx2.Response) -> str:
    kind: str = response.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower()


def named_type(kind: str) -> str:
    """A media type, if it is a common one: any other is the server's own words."""
    return kind if kind in _COMMON_TYPES else "a type of its own" if kind else "nothing"


def _status_line(status: int) -> str:
    """As the standard has it, whatever the server calls it."""
    with suppress(ValueError):
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    return f"HTTP {status}"


def _request_id(request: httpx2.Request) -> JSONValue:
    message = _rpc_request(request)
    return message["id"] if message else None


def _rpc_request(request: httpx2.Request) -> JSONObject | None:
    try:
        message = json.loads(request.content or b"null")
    except (ValueError, httpx2.RequestNotRead):
        return None
    is_request = isinstance(message, dict) and {"id", "method"} <= message.keys()
    return message if is_request else None
