"""An HTTP client whose failures are answers.

With the SDK's transports a refused connection, a reset or an invalid answer closes the session of
all its callers. Here each becomes the JSON-RPC error of the one request, and the details are stored
under a random key that no server can guess.
"""

from __future__ import annotations

import html
import json
import re
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any

import httpx2
from cachetools import LRUCache
from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.retry_after import retry_after
from discovery_engine._util.text import clean, one_line, quoted
from discovery_engine._util.tls_context import shared_tls_context
from discovery_engine.redaction.known_secrets import KNOWN_SECRETS
from discovery_engine.redaction.redactor import SHORTEST_BEGINNING
from discovery_engine.rpc.json_codec import decode, edges, encode, is_clean, sniffed_id
from discovery_engine.rpc.messages import (
    ErrorResponse,
    Message,
    Notification,
    Request,
    Response,
    answered_id,
    as_error,
    as_json,
    as_message,
    error_answer,
    fault_of,
)
from discovery_engine.rpc.peer import RequestId, RpcError
from discovery_engine.rpc.protocol import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    PARSE_ERROR,
    RESOURCE_NOT_FOUND,
)
from discovery_engine.rpc.scheduling import LARGE, FairScheduler, Quota
from discovery_engine.upstream.http.event_stream import EventStream, cost
from discovery_engine.upstream.http.large_results import LargeResults
from discovery_engine.upstream.http.logins import ServerLogin
from discovery_engine.upstream.http.outage import Outage, causes, outage
from discovery_engine.upstream.http.redirect import describe_redirect, is_followed, is_redirect
from discovery_engine.upstream.transport import is_resource_exhausted

INVALID_ANSWER = secrets.token_hex(16)
"""The `data` of an error that stands for an answer which is none; no server can guess it."""

_ERROR_LIMIT = 64 * 1024  # bytes read of the body of an HTTP error
_MAX_BODY_EXCERPT = 500  # characters of such a body
_TITLE = re.compile(r"<title[^>]*>([^<]{1,500})", re.IGNORECASE)
_REMEMBERED = 100  # failures that were not looked up yet
_FAILURE = "discovery.failure"
_MAY_BE_LARGE = ("tools/call", "tools/list")  # the SDK does not need their results
_SESSION_HEADER = "mcp-session-id"
_OK = 200
_NOT_FOUND = 404
_BAD_REQUEST = 400
_FIRST_ERROR = 400
_SERVER_ERROR = 500

# All words of servers that have forgotten a session. Tools have sessions, too: with any other word,
# or an id that is not ours, an error is one of a tool.
_OF_SESSIONS = re.compile(
    r"(?:\W|\b(?:a|active|again|and|bad|been|but|client|closed|could|create|does|doesn|ended|error"
    r"|exist|exists|expired|find|for|found|given|gone|has|header|http|id|in|inactive|initialize"
    r"|initialized|invalid|is|longer|lost|mcp|missing|must|new|no|not|or|please|provided|re"
    r"|recognized|reconnect|reinitialize|request|required|requires|reset|restart|server|session"
    r"|sessionid|stale|start|streamable|t|terminated|that|the|this|timed|to|transport|unknown"
    r"|unrecognized|valid|was|with|your)\b)*",
    re.IGNORECASE,
)
_GONE = re.compile(
    r"\b(?:closed|doesn|ended|expired|gone|inactive|invalid|lost|missing|no|not|required|requires"
    r"|stale|terminated|timed|unknown|unrecognized)\b",
    re.IGNORECASE,
)
_SESSION = re.compile("session|not initialized", re.IGNORECASE)
_NOT_OF_SESSIONS = (401, 403, 429)  # statuses with a meaning of their own
_LAST_OF_TRANSPORT = -32099  # the codes from `CONNECTION_CLOSED` down to it are a transport's
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
    """True if a person could log in, and has not yet."""
    is_explained: bool = False
    """True if the reason is a sentence about the login, rather than a status."""
    announces_endpoint: bool = False
    """The server has the SSE transport, and its endpoint cannot be used."""
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
        self._failures: LRUCache[str, HttpFailure] = LRUCache(_REMEMBERED)

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
            return await self._checked_response_foreign(request, response, kind)
        return self._with_events(request, response, call)

    async def _checked_response_foreign(
        self, request: httpx2.Request, response: httpx2.Response, kind: str
    ) -> httpx2.Response:
        if kind:
            await response.aclose()
            reason = f"it answers with {named_type(kind)}, not with MCP"
        elif await _read(response, _ERROR_LIMIT, Quota(self._scheduler)):
            reason = "its answer has no Content-Type"
        else:
            reason = "it answers with nothing"
        return self.failure_response(request, HttpFailure(reason, detail=kind), status=502)

    def _with_events(
        self, request: httpx2.Request, response: httpx2.Response, call: JSONObject | None
    ) -> httpx2.Response:
        """The response with each event checked, and not compressed any more."""
        is_compressed = "content-encoding" in response.headers
        events = EventStream(
            _Decoded(response) if is_compressed else response.stream,
            partial(self._presented, request, call),
            limit=self.limit,
            quota=Quota(self._scheduler),
            broken=_BROKEN,
        )
        if is_compressed:
            headers = _without_encoding(response)
            return httpx2.Response(
                response.status_code, headers=headers, stream=events, request=request
            )
        response.stream = events
        return response

    async def _presented(
        self, request: httpx2.Request, call: JSONObject | None, data: bytes | None
    ) -> bytes:
        """The data of an event as the SDK can parse it; empty for what is no message.

        The stream of a call has its answer: one that shows that it is meant as such, and is
        invalid, fails the call.
        """
        if call is None:
            return data or b""
        try:
            value = await self._value(data)
        except ValueError as error:
            is_answer = data is None or sniffed_id(*edges(data)) is not None
            return encode(_invalid_answer(call["id"], error)).rstrip() if is_answer else b""
        if isinstance(value, list):
            value = next((entry for entry in value if answered_id(entry) is not None), None)
        message = as_message(value)
        if isinstance(message, Request | Notification):
            return _as_read(value, message, data or b"")
        if not isinstance(value, dict) or value.keys().isdisjoint(("result", "error")):
            return b""
        return self._answer_data(request, call, value, data or b"")

    async def _checked_response_error(
        self, request: httpx2.Request, response: httpx2.Response
    ) -> httpx2.Response:
        body = await _read(response, _ERROR_LIMIT, Quota(self._scheduler))
        status, error = response.status_code, _json_rpc_error(body)
        words = error.message if error else _words(body, media_type(response))
        challenge = response.headers.get("www-authenticate", "")
        asks_for_login = status == HTTPStatus.UNAUTHORIZED or challenge
        is_lost = _forgot_session(request, status, words)
        if error is not None and not asks_for_login and not is_lost:
            answer = error_answer(_request_id(request), error)
            return httpx2.Response(status, request=request, json=answer)
        is_own = response.reason_phrase.lower() not in _status_line(status).lower()
        failure = HttpFailure(
            _status_line(status),
            detail=_quoted_words(words) or (response.reason_phrase if is_own else ""),
            status=status,
            lost_session=is_lost,
            retry_after=retry_after(response.headers.get("retry-after", "")),
            challenge=challenge,
            can_log_in=self._login is not None
            and self._login.is_personal
            and status == HTTPStatus.UNAUTHORIZED,
        )
        return self.failure_response(request, failure, status=status)

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
        if (call := self._answered_request(request)) is None:
            return _rebuilt(request, response, body or b"")
        try:
            value = _own(await self._value(body), call["id"])
        except ValueError as error:
            answer = encode(_invalid_answer(call["id"], error))
        else:
            answer = self._answer_data(request, call, value, body or b"")
        return _rebuilt(request, response, answer)

    async def _value(self, data: bytes | None) -> JSONValue:
        """The JSON of an answer.

        Raises:
            ValueError: If it is none, or None because it is too long.
        """
        if data is None:
            raise ValueError(f"it is longer than {self.limit // (1024 * 1024)} MiB")
        try:
            return await self.large_results.decode(data)
        except ValueError as error:
            raise ValueError(f"it cannot be read: {error}") from error

    def _answer_data(
        self, request: httpx2.Request, call: JSONObject, value: JSONValue, data: bytes
    ) -> bytes:
        """The answer to a call as the SDK can parse it, without a large result."""
        id_: RequestId = call["id"]
        # A request that was refused before it was read is answered without its id.
        is_answer = isinstance(value, dict) and "method" not in value
        match as_message(value | {"id": id_} if is_answer else None):
            case Response() as answer:
                if len(data) > LARGE and call["method"] in _MAY_BE_LARGE:
                    return self.large_results.placeholder(as_json(answer)).rstrip()
            case ErrorResponse(_, error) as answer:
                if _is_of_lost_session(request, error.code, error.message):
                    key = self._remember(HttpFailure(error.message, status=_OK, lost_session=True))
                    answer = ErrorResponse(id_, RpcError(error.code, error.message, key))
            case _:
                return encode(_invalid_answer(id_, fault_of(value))).rstrip()
        return _as_read(value, answer, data)

    def _answered_request(self, request: httpx2.Request) -> JSONObject | None:
        """The JSON-RPC request that the response answers; None if there is none."""
        return _rpc_request(request) if self._expects_answers and request.method == "POST" else None

    def failure_response(
        self, request: httpx2.Request, failure: HttpFailure, *, status: int
    ) -> httpx2.Response:
        """The response that stands for a failed exchange."""
        error = RpcError(CONNECTION_CLOSED, failure.reason, self._remember(failure))
        answer = error_answer(_request_id(request), error)
        extensions = {_FAILURE: failure}
        return httpx2.Response(status, request=request, json=answer, extensions=extensions)

    def _remember(self, failure: HttpFailure) -> str:
        """The key under which a failure is found."""
        key = secrets.token_hex(16)
        self._failures[key] = failure
        return key


class _Decoded:
    """The content of a response, as it was before it was compressed."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._response.aiter_bytes()

    async def aclose(self) -> None:
        await self._response.aclose()


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
    headers = _without_encoding(response)
    return httpx2.Response(response.status_code, headers=headers, content=body, request=request)


def _without_encoding(response: httpx2.Response) -> list[tuple[str, str]]:
    stale = ("content-encoding", "content-length", "transfer-encoding")
    return [(k, v) for k, v in response.headers.multi_items() if k.lower() not in stale]


def _transport_failure(error: httpx2.RequestError, request: httpx2.Request) -> HttpFailure:
    unsent = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
    never_left = (*unsent, httpx2.UnsupportedProtocol, httpx2.LocalProtocolError)
    cause = outage(error, request)
    return HttpFailure(
        cause.reason,
        detail=cause.detail,
        outage=cause,
        os_error=next(filter(is_resource_exhausted, causes(error)), None),
        was_sent=not isinstance(error, never_left),
    )


def _forgot_session(request: httpx2.Request, status: int, words: str) -> bool:
    """Return whether an HTTP error means that the session does not exist any more."""
    if _SESSION_HEADER not in request.headers:
        return False
    if status == _BAD_REQUEST and "session" in words.lower():  # several SDKs answer 400, not 404
        return True
    is_refusal = status < _SERVER_ERROR and status not in _NOT_OF_SESSIONS
    return status == _NOT_FOUND or (is_refusal and _tells_lost_session(request, words))


def _is_of_lost_session(request: httpx2.Request, code: int, words: str) -> bool:
    """The same of a JSON-RPC error: one of the transport, or without a code."""
    is_of_transport = code in (0, INVALID_REQUEST) or (
        _LAST_OF_TRANSPORT <= code <= CONNECTION_CLOSED and code != RESOURCE_NOT_FOUND
    )
    return is_of_transport and _tells_lost_session(request, words)


def _tells_lost_session(request: httpx2.Request, words: str) -> bool:
    session = request.headers.get(_SESSION_HEADER)
    if session is None or len(words) > _MAX_BODY_EXCERPT:
        return False
    words = words.replace(session, "")
    is_of_session = _SESSION.search(words) and _GONE.search(words)
    return bool(is_of_session and _OF_SESSIONS.fullmatch(words))


def _own(value: JSONValue, request_id: RequestId) -> JSONValue:
    """The answer to a request, of which there may be several in an array.

    Raises:
        ValueError: If it is one to another request.
    """
    if isinstance(value, list):
        answers = (entry for entry in value if str(answered_id(entry)) == str(request_id))
        return next(answers, value)
    if (answered := answered_id(value)) is not None and str(answered) != str(request_id):
        raise ValueError("it is one to another request")
    return value


def _json_rpc_error(body: bytes | None) -> RpcError | None:
    try:
        answer = decode(body or b"")
    except ValueError:
        return None
    match answer:
        case {"error": {"code": int() | float() as code} as error}:
            return as_error(error) if code < 0 or "jsonrpc" in answer else None
    return None


def _words(body: bytes | None, kind: str) -> str:
    """Return the message in the body of a refusal, without the syntax around it."""
    text = (body or b"").decode("utf-8", "replace")
    if kind == "text/html":
        title = _TITLE.search(text)
        return html.unescape(title[1]) if title else ""
    with suppress(ValueError, RecursionError):
        return _plain(decode(body or b""))
    return text


def _plain(value: JSONValue) -> str:
    """JSON as people write it: `error: no access; doc: …`, and a lone text as it is."""
    match value:
        case dict():
            parts = [(name, _plain(member)) for name, member in value.items() if member is not None]
            is_alone = len(parts) == 1 and isinstance(next(iter(value.values())), str)
            return parts[0][1] if is_alone else "; ".join(f"{k}: {text}" for k, text in parts)
        case list():
            return ", ".join(map(_plain, value))
    return value if isinstance(value, str) else json.dumps(value)


def _quoted_words(words: str) -> str:
    """The beginning of what a server says, for its owner; empty if it says nothing."""
    excerpt = one_line(KNOWN_SECRETS.redact_log(clean(words[:_MAX_BODY_EXCERPT])))
    if len(words) > _MAX_BODY_EXCERPT:  # what is left of a secret at the cut is too short to be one
        excerpt = f"{excerpt[:-SHORTEST_BEGINNING]}…"
    return f"it answered {quoted(excerpt)}" if excerpt else ""


def _invalid_answer(request_id: RequestId, reason: ValueError | str) -> JSONObject:
    """An error answer instead of one that cannot be used; the request itself was processed."""
    return error_answer(request_id, RpcError(PARSE_ERROR, str(reason), INVALID_ANSWER))


def _as_read(value: JSONValue, message: Message, data: bytes) -> bytes:
    """A message as the SDK can parse it: `data` itself, if it is exactly that.

    It is not if `value` was one of an array, or its id is a float.
    """
    members = as_json(message)
    is_whole = data.lstrip()[:1] == b"{" and not isinstance(value.get("id"), float)
    is_exact = is_whole and value == members and is_clean(data)
    return data if is_exact else encode(members).rstrip()


def media_type(response: httpx2.Response) -> str:
    kind: str = response.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower()


def named_type(kind: str) -> str:
    """A media type, if it is a common one: any other is the server's own words."""
    return kind if kind in _COMMON_TYPES else "a type of its own" if kind else "nothing"


def _status_line(status: int) -> str:
    """Return the status with the phrase of the standard, whatever the server calls it."""
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
