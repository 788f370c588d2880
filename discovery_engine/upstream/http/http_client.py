"""The HTTP client of one server; failures are raised as `HttpError`, with a readable reason.

Redirects are followed within the origin of the server only: a request may contain secrets, which
are meant for the address that the owner approved.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from types import TracebackType
from typing import Self
from urllib.parse import SplitResult, urljoin, urlsplit

import httpx2

from discovery_engine._util.json import JSONValue
from discovery_engine._util.retry_after import retry_after
from discovery_engine._util.text import clean, one_line, quoted
from discovery_engine._util.tls_context import shared_tls_context
from discovery_engine.rpc.json_codec import decode, decode_incrementally
from discovery_engine.rpc.messages import RpcError, as_error
from discovery_engine.rpc.protocol import CONNECTION_CLOSED, INVALID_REQUEST, RESOURCE_NOT_FOUND
from discovery_engine.rpc.scheduling import LARGE, FairScheduler, Quota
from discovery_engine.secrets.known_secrets import KNOWN_SECRETS
from discovery_engine.secrets.redactor import SHORTEST_BEGINNING
from discovery_engine.upstream.http.event_stream import EventStream, cost
from discovery_engine.upstream.http.http_failure import HttpError, HttpFailure, causes, outage
from discovery_engine.upstream.http.logins import ServerLogin
from discovery_engine.upstream.transport import is_resource_exhausted

SESSION = "mcp-session-id"
NOT_APPROVED = "requests may hold secrets, and that address was not approved"

_ERROR_LIMIT = 64 * 1024  # bytes read of the body of an HTTP error
_MAX_BODY_EXCERPT = 500  # characters of such a body
_MAX_REDIRECTS = 5  # redirects for one request
_MAX_SHOWN_ADDRESS_LENGTH = 100  # characters of an address that are shown
_HTTP = ("http", "https")
_TITLE = re.compile(r"<title[^>]*>([^<]{1,500})", re.IGNORECASE)
_NOT_FOUND = 404
_BAD_REQUEST = 400
_FIRST_ERROR = 400
_SERVER_ERROR = 500

# All words in the errors of servers that have lost a session. Tools have sessions, too: an error
# with any other word, or with an id that is not ours, is one of a tool.
_OF_SESSIONS = re.compile(
    r"(?:\W|\b(?:a|active|again|and|bad|been|before|but|client|closed|complete|could|create|does|doesn"
    r"|ended|error|exist|exists|expired|find|for|found|given|gone|has|header|http|id|in"
    r"|inactive|initialization|initialize|initialized|invalid|is|longer|lost|mcp|missing|must"
    r"|new|no|not|or|please|provided|re|received|recognized|reconnect|reinitialize|request"
    r"|required|requires|reset|restart|server|session|sessionid|stale|start|streamable|t"
    r"|terminated|that|the|this|timed|to|transport|unknown|unrecognized|valid|was|with|your)\b)*",
    re.IGNORECASE,
)
_GONE = re.compile(
    r"\b(?:before|closed|doesn|ended|expired|gone|inactive|invalid|lost|missing|no|not|required"
    r"|requires|stale|terminated|timed|unknown|unrecognized)\b",
    re.IGNORECASE,
)
_INITIALIZED = re.compile("not initialized|before initialization", re.IGNORECASE)
_SESSION = re.compile(f"session|{_INITIALIZED.pattern}", re.IGNORECASE)
_NOT_OF_SESSIONS = (401, 403, 429)  # statuses with a meaning of their own
_LAST_OF_TRANSPORT = -32099  # the codes from `CONNECTION_CLOSED` down to it are a transport's
_COMMON_TYPES = (
    *("application/json", "application/octet-stream", "application/xml", "text/event-stream"),
    *("text/html", "text/plain", "text/xml"),
)
_BROKEN = (httpx2.TransportError, httpx2.DecodingError)


class HttpClient:
    """The HTTP connections to one server, closed at the end of the block."""

    def __init__(
        self,
        scheduler: FairScheduler,
        *,
        limit: int,
        timeout: Callable[[], httpx2.Timeout],
        headers: Mapping[str, str],
        login: ServerLogin | None = None,
    ) -> None:
        """Create a client that connects at the first request.

        Args:
            scheduler: The scheduler that all sessions share.
            limit: The most bytes of one JSON answer, or of one event.
            timeout: Returns the time limits of the next request.
            headers: Headers of every request.
            login: See `open_http_transport`.
        """
        self._client = httpx2.AsyncClient(
            timeout=timeout(), verify=shared_tls_context(), headers=dict(headers)
        )
        self._timeout_of_next = timeout
        self._limit = limit
        self._scheduler = scheduler
        self._login = login

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._client.__aexit__(exc_type, exc, traceback)

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        content: bytes | None = None,
        redirects: int = _MAX_REDIRECTS,
    ) -> httpx2.Response:
        """Send a request, and return a successful response, which the caller reads and closes.

        Raises:
            HttpError: If the request fails, is refused, or is redirected to another origin.
            RpcError: If the body of an HTTP error is a JSON-RPC error.
        """
        timeout = self._timeout_of_next()
        request = self._client.build_request(
            method, url, content=content, headers=dict(headers), timeout=timeout
        )
        for count in range(redirects + 1):
            response = await self._send_authorized(request)
            if not response.is_redirect or response.status_code == HTTPStatus.NOT_MODIFIED:
                return response
            await response.aclose()
            following = _next_request(response)
            if following is None or count == redirects:
                break
            request = following
        reason = _describe_redirect(response, redirects)
        raise HttpError(HttpFailure(reason, status=response.status_code))

    async def _send_authorized(self, request: httpx2.Request) -> httpx2.Response:
        if self._login and (sender := self._login.sender()):
            return await sender.send(request, self._send)
        return await self._send(request)

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._client.send(request, stream=True, follow_redirects=False)
            if response.status_code >= _FIRST_ERROR:
                raise await self._refusal(request, response)
        except _BROKEN as error:
            raise HttpError(_transport_failure(error, request)) from error
        return response

    async def _refusal(self, request: httpx2.Request, response: httpx2.Response) -> RpcError:
        """Return the error for a response with an error status; closes the response."""
        body = await _read(response, _ERROR_LIMIT, Quota(self._scheduler))
        status, error = response.status_code, _json_rpc_error(body)
        words = error.message if error else _words(body, media_type(response))
        challenge = response.headers.get("www-authenticate", "")
        asks_for_login = status == HTTPStatus.UNAUTHORIZED or challenge
        is_lost = _forgot_session(request.headers.get(SESSION), status, words)
        if error is not None and not asks_for_login and not is_lost:
            return error
        is_own = response.reason_phrase.lower() not in _status_line(status).lower()
        return HttpError(
            HttpFailure(
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
        )

    async def read(self, response: httpx2.Response) -> bytes | None:
        """Read the body of a response, for `parse`; None if it is too long.

        Raises:
            HttpError: If the connection breaks.
        """
        try:
            return await _read(response, self._limit, Quota(self._scheduler))
        except _BROKEN as error:
            raise HttpError(_transport_failure(error, response.request)) from error

    async def parse(self, data: bytes | None) -> JSONValue:
        """Parse the JSON of an answer, sanitized as by `json_codec.decode`.

        Raises:
            ValueError: If it is not JSON, or None, which stands for a body that is too long.
        """
        if data is None:
            raise ValueError(f"it is longer than {self._limit // (1024 * 1024)} MiB")
        try:
            if len(data) <= LARGE:
                return decode(data)
            return await self._scheduler.run(decode_incrementally(data), size=len(data))
        except ValueError as error:
            raise ValueError(f"it cannot be read: {error}") from error

    def events(self, response: httpx2.Response) -> EventStream:
        """Return the events of a response; they end if the connection breaks."""
        quota = Quota(self._scheduler)
        return EventStream(response.aiter_bytes(), limit=self._limit, quota=quota, broken=_BROKEN)


def foreign(kind: str, body: bytes | None = None) -> HttpError:
    """Return the error for a response of a media type that has neither JSON nor events."""
    reason = f"it answers with {named_type(kind)}, not with MCP"
    if not kind:
        reason = "it answers with nothing" if body == b"" else "its answer has no Content-Type"
    return HttpError(HttpFailure(reason, detail=kind))


def media_type(response: httpx2.Response) -> str:
    kind: str = response.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower()


def named_type(kind: str) -> str:
    """Return a common media type; others are not quoted, since a server could write anything."""
    return kind if kind in _COMMON_TYPES else "a type of its own" if kind else "nothing"


async def _read(response: httpx2.Response, limit: int, quota: Quota) -> bytes | None:
    """Read the body; None if it is longer than `limit` bytes. Closes the response."""
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


def _forgot_session(session: str | None, status: int, words: str) -> bool:
    """Return whether an HTTP error means that the session does not exist any more."""
    if session is None:
        return False
    if status == _BAD_REQUEST and "session" in words.lower():  # several SDKs answer 400, not 404
        return True
    is_refusal = status < _SERVER_ERROR and status not in _NOT_OF_SESSIONS
    return status == _NOT_FOUND or (is_refusal and _tells_lost_session(session, words))


def is_of_lost_session(session: str | None, error: RpcError) -> bool:
    """Return whether a JSON-RPC error means that the session does not exist any more.

    Only errors with a code of the transport, or without a code, can.
    """
    is_of_transport = (
        error.code in (0, _NOT_FOUND, INVALID_REQUEST)
        or (
            _LAST_OF_TRANSPORT <= error.code <= CONNECTION_CLOSED
            and error.code != RESOURCE_NOT_FOUND
        )
        or _INITIALIZED.search(error.message)
    )
    return bool(is_of_transport) and _tells_lost_session(session, error.message)


def _tells_lost_session(session: str | None, words: str) -> bool:
    if session is None or len(words) > _MAX_BODY_EXCERPT:
        return False
    words = words.replace(session, "")
    is_of_session = _SESSION.search(words) and _GONE.search(words)
    return bool(is_of_session and _OF_SESSIONS.fullmatch(words))


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
    """Format JSON for people: `error: no access; doc: …`; a single text is unchanged."""
    match value:
        case dict():
            parts = [(name, _plain(member)) for name, member in value.items() if member is not None]
            is_alone = len(parts) == 1 and isinstance(next(iter(value.values())), str)
            return parts[0][1] if is_alone else "; ".join(f"{k}: {text}" for k, text in parts)
        case list():
            return ", ".join(map(_plain, value))
    return value if isinstance(value, str) else json.dumps(value)


def _quoted_words(words: str) -> str:
    """Quote the beginning of a server's message, redacted; empty if there is no message."""
    excerpt = one_line(KNOWN_SECRETS.redact_log(clean(words[:_MAX_BODY_EXCERPT])))
    if len(words) > _MAX_BODY_EXCERPT:  # a secret that is cut short is not redacted
        excerpt = f"{excerpt[:-SHORTEST_BEGINNING]}…"
    return f"it answered {quoted(excerpt)}" if excerpt else ""


def _status_line(status: int) -> str:
    """Return the status with its standard phrase, whatever phrase the server sends."""
    with suppress(ValueError):
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    return f"HTTP {status}"


def _describe_redirect(response: httpx2.Response, most: int) -> str:
    """Return the target of a redirect, and the reason why it is not followed.

    The target is shown as scheme, host and port only: the rest may contain a key.
    """
    status, own = response.status_code, urlsplit(str(response.request.url))
    try:
        target = urlsplit(urljoin(own.geturl(), response.headers.get("location", "")))
        place = origin_of(target)
    except ValueError:
        target, place = SplitResult("", "", "", "", ""), ""
    has_target = "location" in response.headers and target.hostname
    if target.scheme not in _HTTP or not has_target:
        return f"HTTP {status}, a redirect that is not followed: it leads to no HTTP address"
    if place != origin_of(own):
        where = quoted(place[:_MAX_SHOWN_ADDRESS_LENGTH])
        return f"HTTP {status}, a redirect to {where}, which is not followed: {NOT_APPROVED}"
    if most and _next_request(response):
        return f"HTTP {status}, a redirect after {most} others, which is not followed"
    is_lost = response.request.method == "POST"
    why = "the request would be lost" if is_lost else "its event stream must be at `url` itself"
    return f"HTTP {status}, a redirect to another path of its own, which is not followed: {why}"


def _next_request(response: httpx2.Response) -> httpx2.Request | None:
    """Return the request that follows a redirect; None if it must not be followed."""
    following, sent = response.next_request, response.request
    if following is None or following.method != sent.method:
        return None
    if following.url.userinfo and following.url.userinfo != sent.url.userinfo:
        return None
    return following if _is_same_origin(sent.url, following.url) else None


def _is_same_origin(sent: httpx2.URL, target: httpx2.URL) -> bool:
    """Return whether the origin is the same, or its HTTPS variant on the default ports."""
    if (sent.scheme, sent.host, sent.port) == (target.scheme, target.host, target.port):
        return True
    upgraded = ("http", None, "https", None)
    return (
        sent.host == target.host
        and (sent.scheme, sent.port, target.scheme, target.port) == upgraded
    )


def origin_of(parts: SplitResult) -> str:
    """Return the scheme, host and port of an address.

    Raises:
        ValueError: If its port is not valid.
    """
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "")
