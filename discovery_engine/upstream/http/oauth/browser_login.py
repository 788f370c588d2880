"""Obtains a login: an authorization code by a browser, or client credentials.

A browser brings the code back to a port of this machine. Whatever else asks at that port (another
program, a page that guesses it) is answered with an error and changes nothing: only an answer with
the `state` of this login counts, once.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qsl, urlencode, urlsplit

import anyio
import httpx2
from anyio.abc import SocketAttribute, SocketStream
from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.tasks import Promise, finish, open_task_group
from discovery_engine._util.text import quoted
from discovery_engine.config.settings import RemoteTransport
from discovery_engine.secrets.known_secrets import KNOWN_SECRETS
from discovery_engine.upstream.http.http_failure import outage
from discovery_engine.upstream.http.oauth import metadata
from discovery_engine.upstream.http.oauth.stored_login import StoredLogin
from discovery_engine.upstream.http.oauth.token_endpoint import (
    AuthorizationServerUnavailable,
    PortUnavailable,
    TokenRefused,
    challenge_field,
    exchange,
)

_PROBE = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
_UNAUTHORIZED = 401


class LoginOptions(Struct, frozen=True):
    scopes: tuple[str, ...] = ()
    """Requested besides those of the entry and the server."""
    wanted_scope: str = ""
    """Scopes that requests with the last login lacked."""
    timeout: float = 300.0
    """Seconds for the person."""


async def log_in(
    client: httpx2.AsyncClient,
    remote: RemoteTransport,
    options: LoginOptions,
    show: Callable[[str], object],
    *,
    clock: Callable[[], float],
) -> StoredLogin:
    """A login that a person has given with a browser; it is not stored yet.

    Args:
        client: Of `open_client`.
        remote: The server, with its references resolved.
        options: What to request, and how long to wait.
        show: Called, and awaited if it is async, with the address that the person opens.
        clock: Unix time in seconds.

    Raises:
        TokenRefused: If a server or the person refuses, or what they answer cannot be trusted.
        AuthorizationServerUnavailable: If a server does not answer.
        TimeoutError: If the person does not come back in time.
        PortUnavailable: If the address of `redirectUri` cannot be listened at.
    """
    challenge = await _challenge(client, remote)
    authorization = await metadata.discover(client, remote, challenge)
    if not authorization.has_pkce:
        raise TokenRefused("no_pkce", "its metadata names no code challenge S256 (PKCE)")
    scopes = authorization.requested_scopes(
        remote.oauth.scopes, challenge_field(challenge, "scope").split()
    )
    scopes += [s for s in (*options.scopes, *options.wanted_scope.split()) if s not in scopes]
    scope = " ".join(scopes)
    state = secrets.token_urlsafe(32)
    async with open_loopback(remote.oauth.redirect_uri, state) as loopback:
        registered = await _registered(client, remote, authorization, loopback.redirect_uri, scope)
        verifier, challenged = metadata.make_pkce()
        KNOWN_SECRETS.add_tokens([verifier])
        parameters = {
            "response_type": "code",
            "client_id": registered.client_id,
            "redirect_uri": loopback.redirect_uri,
            "state": state,
            "code_challenge": challenged,
            "code_challenge_method": "S256",
            "resource": authorization.resource,
        }
        await finish(
            show(_address(str(authorization.server.authorization_endpoint), parameters, scope))
        )
        with anyio.fail_after(options.timeout):
            answer = await loopback.answer()
        redirect_uri = loopback.redirect_uri
    code = _checked(answer, authorization)
    KNOWN_SECRETS.add_tokens([code])
    login = authorization.login(
        remote, client_id=registered.client_id, has_secret=False, scope=scope
    )
    login = replace(login, auth_method=registered.method, client_secret=registered.secret)
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect_uri,
        "code_verifier": verifier,
    }
    secret = registered.secret or remote.oauth.client_secret
    return await exchange(client, login, form, secret=secret, now=clock())


async def _challenge(client: httpx2.AsyncClient, remote: RemoteTransport) -> str:
    """The WWW-Authenticate header with which the server refuses a request without a token."""
    headers = {
        **remote.headers,
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
    }
    request = client.build_request("POST", remote.url, content=_PROBE, headers=headers)
    try:
        response = await client.send(request, stream=True)
    except httpx2.TransportError as error:
        raise AuthorizationServerUnavailable(outage(error, request)) from error
    await response.aclose()
    is_refusal = response.status_code == _UNAUTHORIZED
    return response.headers.get("www-authenticate", "") if is_refusal else ""


async def _registered(
    client: httpx2.AsyncClient,
    remote: RemoteTransport,
    authorization: metadata.AuthorizationMetadata,
    redirect_uri: str,
    scope: str,
) -> metadata.RegisteredClient:
    """The client of the entry, of its metadata document, or one that is registered now."""
    oauth = remote.oauth
    if oauth.client_id:
        method = authorization.auth_method(has_secret=bool(oauth.client_secret))
        return metadata.RegisteredClient(oauth.client_id, method=method)
    if oauth.client_metadata_url and authorization.takes_metadata_documents:
        return metadata.RegisteredClient(oauth.client_metadata_url)
    return await metadata.register(client, authorization, redirect_uri, scope)


def _address(endpoint: str, parameters: Mapping[str, str], scope: str) -> str:
    fields = {**parameters, "scope": scope} if scope else dict(parameters)
    if "offline_access" in scope.split():
        fields["prompt"] = "consent"  # OpenID Connect requires it for that scope
    joint = "&" if urlsplit(endpoint).query else "?"
    return f"{endpoint}{joint}{urlencode(fields)}"


def _checked(answer: AuthorizationAnswer, authorization: metadata.AuthorizationMetadata) -> str:
    """The code of an answer that comes from the right authorization server (RFC 9207)."""
    # An error without an issuer does no harm, and some servers send it only with a code.
    if answer.issuer is None and authorization.always_sends_issuer and not answer.error:
        raise TokenRefused("wrong_issuer", "the answer does not name its authorization server")
    if answer.issuer is not None and not hmac.compare_digest(
        answer.issuer.encode(), authorization.issuer.encode()
    ):
        detail = f"the answer is that of another one: {quoted(answer.issuer[:200])}"
        raise TokenRefused("wrong_issuer", detail)
    if answer.error:
        raise TokenRefused(answer.error[:100], f"it answers {quoted(answer.error[:100])}")
    if not answer.code:
        raise TokenRefused("invalid_response", "the answer holds no code")
    return answer.code


async def obtain(
    client: httpx2.AsyncClient, remote: RemoteTransport, login: StoredLogin | None, *, now: float
) -> StoredLogin:
    """A login with a new token; the endpoints of an earlier one are used again.

    Raises:
        TokenRefused: If the server refuses, or publishes no usable metadata.
        AuthorizationServerUnavailable: If no answer comes.
    """
    if login is not None:
        try:
            return await _exchanged(client, remote, login, now)
        except TokenRefused as error:
            if error.code != "invalid_response":  # the endpoint may have moved
                raise
    authorization = await metadata.discover(client, remote)
    scope = " ".join(remote.oauth.scopes)
    client_id = remote.oauth.client_id
    login = authorization.login(remote, client_id=client_id, has_secret=True, scope=scope)
    return await _exchanged(client, remote, login, now)


async def _exchanged(
    client: httpx2.AsyncClient, remote: RemoteTransport, login: StoredLogin, now: float
) -> StoredLogin:
    form = {"grant_type": "client_credentials"}
    if remote.oauth.scopes:
        form["scope"] = " ".join(remote.oauth.scopes)
    return await exchange(client, login, form, secret=remote.oauth.client_secret, now=now)


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
