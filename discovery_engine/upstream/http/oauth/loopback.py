"""Receives what a browser brings back from an authorization server, on a port of this machine.

Whatever else asks at that port (another program, a page that guesses it) is answered with an error
and changes nothing: only an answer with the `state` of this login counts, once.
"""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qsl, urlsplit

import anyio
from anyio.abc import SocketAttribute, SocketStream
from msgspec import Struct

from discovery_engine._util.tasks import Promise, open_task_group

_LONGEST_HEAD = 16 * 1024  # bytes of a request
_MOST_FIELDS = 50
_LOOPBACK_REQUEST_TIMEOUT = 10.0  # seconds for one request
_HEADERS = (
    "content-type: text/html; charset=utf-8\r\ncache-control: no-store\r\nconnection: close\r\n"
    "content-security-policy: default-src 'none'\r\nreferrer-policy: no-referrer\r\n"
    "x-content-type-options: nosniff\r\n"
)
_RECEIVED = "The answer has arrived; the terminal shows the result. You can close this page."
_UNKNOWN = "This page belongs to no login that is under way."
_BROKEN = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)


class PortUnavailable(Exception):  # noqa: N818 - a signal within this package
    """The loopback address cannot be listened at."""


class AuthorizationAnswer(Struct, frozen=True):
    """The parameters that an authorization server redirects with."""

    code: str = ""
    error: str = ""
    issuer: str | None = None


class Loopback:
    def __init__(self, redirect_uri: str, state: str) -> None:
        self.redirect_uri = redirect_uri
        """The address that it listens at."""
        self._path = urlsplit(redirect_uri).path
        self._state = state
        self._answer: Promise[AuthorizationAnswer] = Promise()

    async def answer(self) -> AuthorizationAnswer:
        return await self._answer.wait()

    async def handle(self, stream: SocketStream) -> None:
        async with stream:
            with suppress(*_BROKEN, TimeoutError), anyio.fail_after(_LOOPBACK_REQUEST_TIMEOUT):
                status, text = self._reply(await _request_target(stream))
                body = f"<!doctype html><title>discovery</title><p>{text}</p>".encode()
                head = f"HTTP/1.1 {status}\r\n{_HEADERS}content-length: {len(body)}\r\n\r\n"
                await stream.send(head.encode() + body)

    def _reply(self, target: str) -> tuple[str, str]:
        path, _, query = target.partition("?")
        fields = _fields(query)
        is_ours = fields is not None and hmac.compare_digest(
            fields.get("state", "").encode(), self._state.encode()
        )
        if path != self._path or fields is None or not is_ours or self._answer.is_settled:
            return "400 Bad Request", _UNKNOWN
        answer = AuthorizationAnswer(
            fields.get("code", ""), fields.get("error", ""), fields.get("iss")
        )
        self._answer.set(answer)
        return "200 OK", _RECEIVED


@asynccontextmanager
async def open_loopback(redirect_uri: str, state: str) -> AsyncIterator[Loopback]:
    """Listen at a loopback address, or at a free port of 127.0.0.1 if it is empty.

    Raises:
        PortUnavailable: If it cannot listen there, for instance because the port is taken.
    """
    parts = urlsplit(redirect_uri or "http://127.0.0.1:0/callback")
    hosts = ("127.0.0.1", "::1") if parts.hostname == "localhost" else (parts.hostname or "",)
    try:
        listener = await anyio.create_tcp_listener(local_host=hosts[0], local_port=parts.port or 0)
    except OSError as error:
        raise PortUnavailable(error.strerror or type(error).__name__) from error
    port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - of anyio
    listeners = [listener]
    for host in hosts[1:]:
        with suppress(OSError):  # a machine without IPv6
            listeners.append(await anyio.create_tcp_listener(local_host=host, local_port=port))
    name = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    loopback = Loopback(f"http://{name}:{port}{parts.path}", state)
    try:
        async with open_task_group() as tasks:
            for tcp_listener in listeners:
                tasks.start_soon(tcp_listener.serve, loopback.handle)
            yield loopback
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            for tcp_listener in listeners:
                await tcp_listener.aclose()


async def _request_target(stream: SocketStream) -> str:
    """The target of a GET request; empty for anything else."""
    head = b""
    while b"\r\n\r\n" not in head and len(head) < _LONGEST_HEAD:
        head += await stream.receive()
    method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    return rest.partition(" ")[0] if method == "GET" else ""


def _fields(query: str) -> Mapping[str, str] | None:
    """The parameters; None if one is given twice, or there are more than any server sends."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        return None
    fields = dict(pairs)
    return fields if len(fields) == len(pairs) else None
