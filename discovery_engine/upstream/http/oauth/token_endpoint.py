"""Requests to a token endpoint, and to the endpoint that revokes tokens.

Client and tokens are sent nowhere but to the endpoints of the login; no redirect is followed.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Container, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import httpx2
from msgspec.structs import replace
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from discovery_engine._util.text import quoted
from discovery_engine.config.syntax import is_secure_address
from discovery_engine.errors import FailureKind
from discovery_engine.secrets.known_secrets import KNOWN_SECRETS
from discovery_engine.upstream.http.http_failure import Outage, outage
from discovery_engine.upstream.http.oauth.stored_login import StoredLogin

_Model = TypeVar("_Model", bound=BaseModel)

_MAX_TOKEN_ANSWER_BYTES = 256 * 1024  # bytes of an answer
_CONNECT = 10.0  # seconds
_ANSWER = 30.0  # seconds
_OK = (200, 201)
_SERVER_ERROR = 500
_TOO_MANY = 429
_TEMPORARY = ("server_error", "temporarily_unavailable", "slow_down")
_MAX_REFUSAL_LENGTH = 200  # characters of a server's words


class AuthorizationServerUnavailable(Exception):  # noqa: N818 - a signal within this package
    """No answer came, so nothing is known of the login; it may be tried again."""

    def __init__(self, found: Outage) -> None:
        super().__init__(found.reason)
        self.outage = found


class PortUnavailable(Exception):  # noqa: N818 - a signal within this package
    """The loopback address cannot be listened at."""


class TokenRefused(Exception):  # noqa: N818 - a signal within this package
    """The authorization server answered with an error."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(code)
        self.code = code
        """The error code of RFC 6749 (`invalid_grant` …); `invalid_response` if there is none."""
        self.detail = detail
        """With the server's own words, for the owner only."""


class _Tokens(BaseModel):
    access_token: str
    token_type: str = "Bearer"  # noqa: S105 - a type
    expires_in: Any = None
    refresh_token: str | None = None
    scope: str | None = None


class _Error(BaseModel):
    error: str = ""
    error_description: str = ""


def open_client(transport: httpx2.AsyncBaseTransport | None = None) -> httpx2.AsyncClient:
    """The HTTP client for authorization servers."""
    timeout = httpx2.Timeout(_ANSWER, connect=_CONNECT)
    return httpx2.AsyncClient(timeout=timeout, follow_redirects=False, transport=transport)


async def fetch(client: httpx2.AsyncClient, request: httpx2.Request) -> tuple[int, bytes]:
    """Status and body of an answer.

    Raises:
        AuthorizationServerUnavailable: If none comes, or it is too long.
    """
    try:
        response = await client.send(request, stream=True)
        try:
            body = bytearray()
            async for part in response.aiter_bytes():
                body += part
                if len(body) > _MAX_TOKEN_ANSWER_BYTES:
                    raise TokenRefused("invalid_response", "its answer is too long")
        finally:
            await response.aclose()
    except (httpx2.TransportError, httpx2.DecodingError) as error:
        raise AuthorizationServerUnavailable(outage(error, request)) from error
    return response.status_code, bytes(body)


def parse(model: type[_Model], body: bytes) -> _Model | None:
    """A document that an authorization server sent; None if it is none of the model.

    Some servers confuse a list of words with a text of them, and a text with a number: each is read
    as the other. Items and optional members that cannot be read are left out.
    """
    try:
        members = from_json(body.removeprefix(b"\xef\xbb\xbf"))
    except ValueError:
        return None
    reread: set[str] = set()
    while True:
        try:
            return model.model_validate(members)
        except ValidationError as error:
            places = [fault["loc"] for fault in error.errors()]
        items: dict[str, set[int | str]] = {}
        for place in places:
            items.setdefault(str(next(iter(place), "")), set()).update(place[1:])
        for name, faulty in items.items():
            if not isinstance(members, dict) or name not in members:
                return None
            value = None if name in reread else _other_reading(members[name], faulty)
            reread.add(name)
            members = {**members, name: value}
            if value is None:
                del members[name]


def _other_reading(value: Any, faulty: Container[int | str]) -> Any:
    """A value as one of the neighbouring type, or as a list without its faulty items."""
    match value:
        case list() if valid := [item for at, item in enumerate(value) if at not in faulty]:
            return valid if len(valid) < len(value) else " ".join(map(str, valid))
        case str():
            return value.replace(",", " ").split()
        case int() if not isinstance(value, bool):
            return str(value)
        case _:
            return None


async def exchange(
    client: httpx2.AsyncClient,
    login: StoredLogin,
    form: Mapping[str, str],
    *,
    secret: str,
    now: float,
) -> StoredLogin:
    """The login with the tokens that a grant gives.

    Args:
        client: Of `open_client`.
        login: The endpoint and the client; its refresh token is kept if no new one comes.
        form: The grant.
        secret: The client's secret; empty for a public client.
        now: Unix time in seconds, when the token begins to age.

    Raises:
        TokenRefused: If the server refuses, or its answer is no token.
        AuthorizationServerUnavailable: If no answer comes, or it failed.
    """
    form = {**form, "resource": login.resource}
    request = _request(client, login.token_endpoint, login, form, secret)
    status, body = await fetch(client, request)
    tokens = parse(_Tokens, body) if status in _OK else None
    if tokens is None:  # some servers refuse with status 200
        raise _refusal(status, body, request)
    _require_usable(tokens)
    new_login = replace(
        login,
        access_token=tokens.access_token,
        refresh_token=tokens.refresh_token or login.refresh_token,
        obtained_at=now,
        expires_at=_expiry(tokens.expires_in, now),
        scope=login.scope if tokens.scope is None else tokens.scope,
    )
    new_login.make_known()
    return new_login


async def refresh(
    client: httpx2.AsyncClient, login: StoredLogin, *, secret: str, now: float
) -> StoredLogin:
    """Exchange the refresh token of a login for new tokens; see `exchange`."""
    form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token}
    return await exchange(client, login, form, secret=secret, now=now)


async def revoke(client: httpx2.AsyncClient, login: StoredLogin, *, secret: str) -> None:
    """Revoke the tokens of a login, the one that makes others first.

    Raises:
        TokenRefused, AuthorizationServerUnavailable: As `exchange`.
    """
    kinds = {"refresh_token": login.refresh_token, "access_token": login.access_token}
    for kind, token in kinds.items():
        if token:
            form = {"token": token, "token_type_hint": kind}
            if login.auth_method == "none":
                form["client_secret"] = ""  # servers made with the SDK insist on the field
            request = _request(client, login.revocation_endpoint, login, form, secret)
            status, body = await fetch(client, request)
            if status not in _OK:
                raise _refusal(status, body, request)


def _request(
    client: httpx2.AsyncClient, url: str, login: StoredLogin, form: Mapping[str, str], secret: str
) -> httpx2.Request:
    if not is_secure_address(url):
        raise TokenRefused("invalid_response", "its endpoint is no https address")
    headers = {"accept": "application/json", "content-type": "application/x-www-form-urlencoded"}
    fields = {**form, "client_id": login.client_id}
    if login.auth_method == "client_secret_basic" and secret:
        pair = f"{quote(login.client_id, safe='')}:{quote(secret, safe='')}"
        encoded = base64.b64encode(pair.encode()).decode()
        KNOWN_SECRETS.add([encoded], [encoded])
        headers["authorization"] = f"Basic {encoded}"
    elif secret and login.auth_method != "none":
        fields["client_secret"] = secret
    return client.build_request("POST", url, content=urlencode(fields).encode(), headers=headers)


def _require_usable(tokens: _Tokens) -> None:
    if tokens.token_type.lower() != "bearer":
        raise TokenRefused("invalid_response", "its token is of another type than Bearer")
    if not tokens.access_token.isascii() or any(map(str.isspace, tokens.access_token)):
        raise TokenRefused("invalid_response", "its token cannot be sent in a header")


def _refusal(status: int, body: bytes, request: httpx2.Request) -> Exception:
    """The error for an answer that is none of success."""
    refusal = parse(_Error, body) or _Error()
    if status >= _SERVER_ERROR or status == _TOO_MANY or refusal.error in _TEMPORARY:
        place = f"{request.url.host}:{request.url.port or ''}".rstrip(":")
        reason = f"{place} answers HTTP {status}"
        return AuthorizationServerUnavailable(Outage(FailureKind.HTTP, reason, "try again later"))
    if not refusal.error:
        reason = "its answer holds no token" if status in _OK else f"it answers HTTP {status}"
        return TokenRefused("invalid_response", reason)
    words = refusal.error_description or refusal.error
    return TokenRefused(
        refusal.error[:_MAX_REFUSAL_LENGTH], f"it answers {quoted(words[:_MAX_REFUSAL_LENGTH])}"
    )


def _expiry(expires_in: Any, now: float) -> float | None:
    """Return when a token expires, if the server says so; some write the seconds as text."""
    try:
        seconds = float(expires_in)
    except (TypeError, ValueError):
        return None
    return now + seconds if 0 < seconds < math.inf else None


def challenge_field(challenge: str, name: str) -> str:
    """A parameter of a WWW-Authenticate header; empty if it has none."""
    match = re.search(rf'\b{name}=(?:"([^"\\]+)"|([^\s",]+))', challenge)
    return (match[1] or match[2]) if match else ""
