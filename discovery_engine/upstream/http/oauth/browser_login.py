"""A login with a browser: the authorization code grant with PKCE, on a loopback port."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Mapping
from urllib.parse import urlencode, urlsplit

import anyio
import httpx2
from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.tasks import finish
from discovery_engine._util.text import quoted
from discovery_engine.config.settings import RemoteTransport
from discovery_engine.secrets.known_secrets import KNOWN_SECRETS
from discovery_engine.upstream.http.oauth import metadata
from discovery_engine.upstream.http.oauth.loopback import AuthorizationAnswer, open_loopback
from discovery_engine.upstream.http.oauth.stored_login import StoredLogin
from discovery_engine.upstream.http.oauth.token_endpoint import (
    AuthorizationServerUnavailable,
    TokenRefused,
    exchange,
)
from discovery_engine.upstream.http.outage import outage

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
        remote.oauth.scopes, metadata.challenged_scopes(challenge)
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
    found: metadata.AuthorizationMetadata,
    redirect_uri: str,
    scope: str,
) -> metadata.RegisteredClient:
    """The client of the entry, of its metadata document, or one that is registered now."""
    oauth = remote.oauth
    if oauth.client_id:
        method = found.auth_method(has_secret=bool(oauth.client_secret))
        return metadata.RegisteredClient(oauth.client_id, method=method)
    if oauth.client_metadata_url and found.takes_metadata_documents:
        return metadata.RegisteredClient(oauth.client_metadata_url)
    return await metadata.register(client, found, redirect_uri, scope)


def _address(endpoint: str, parameters: Mapping[str, str], scope: str) -> str:
    fields = {**parameters, "scope": scope} if scope else dict(parameters)
    if "offline_access" in scope.split():
        fields["prompt"] = "consent"  # OpenID Connect requires it for that scope
    joint = "&" if urlsplit(endpoint).query else "?"
    return f"{endpoint}{joint}{urlencode(fields)}"


def _checked(answer: AuthorizationAnswer, found: metadata.AuthorizationMetadata) -> str:
    """The code of an answer that comes from the right authorization server (RFC 9207)."""
    # An error without an issuer does no harm, and some servers send it only with a code.
    if answer.issuer is None and found.always_sends_issuer and not answer.error:
        raise TokenRefused("wrong_issuer", "the answer does not name its authorization server")
    if answer.issuer is not None and not hmac.compare_digest(
        answer.issuer.encode(), found.issuer.encode()
    ):
        detail = f"the answer is that of another one: {quoted(answer.issuer[:200])}"
        raise TokenRefused("wrong_issuer", detail)
    if answer.error:
        raise TokenRefused(answer.error[:100], f"it answers {quoted(answer.error[:100])}")
    if not answer.code:
        raise TokenRefused("invalid_response", "the answer holds no code")
    return answer.code
