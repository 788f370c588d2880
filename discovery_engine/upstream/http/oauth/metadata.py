"""The metadata that protected resources and authorization servers publish.

Their well-known addresses and the checks of RFC 8414, 8707, 9207 and 9728.
"""

from __future__ import annotations

import hashlib
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx2
from msgspec import Struct
from pydantic import AnyHttpUrl, BaseModel, ConfigDict, Field

from discovery_engine._util.version import __version__
from discovery_engine.config.settings import RemoteTransport
from discovery_engine.config.syntax import is_secure_address
from discovery_engine.upstream.http.oauth.stored_login import AuthMethod, StoredLogin, address_of
from discovery_engine.upstream.http.oauth.token_endpoint import (
    TokenRefused,
    challenge_field,
    fetch,
    parse,
)

_Model = TypeVar("_Model", bound=BaseModel)

_OK = 200
_SERVER_ERROR = 500
_CREATED = (200, 201)
_SECRET_METHODS: tuple[AuthMethod, ...] = ("client_secret_basic", "client_secret_post")
_OFFLINE = "offline_access"


class _Document(BaseModel):
    model_config = ConfigDict(url_preserve_empty_path=True)


class ServerMetadata(_Document):
    """The metadata of an authorization server (RFC 8414), as far as it is used."""

    issuer: AnyHttpUrl
    authorization_endpoint: AnyHttpUrl
    token_endpoint: AnyHttpUrl
    registration_endpoint: AnyHttpUrl | None = None
    revocation_endpoint: AnyHttpUrl | None = None
    scopes_supported: list[str] | None = None
    token_endpoint_auth_methods_supported: list[str] | None = None
    code_challenge_methods_supported: list[str] | None = None
    client_id_metadata_document_supported: bool | None = None
    authorization_response_iss_parameter_supported: bool | None = None


class _ResourceMetadata(_Document):
    """The metadata of a protected resource (RFC 9728), as far as it is used."""

    resource: AnyHttpUrl
    authorization_servers: list[AnyHttpUrl] = Field(min_length=1)
    scopes_supported: list[str] | None = None


class _Registration(BaseModel):
    """A registered client (RFC 7591), as far as it is used; some servers write "" for nothing."""

    client_id: str = Field(min_length=1)
    client_secret: str | None = None
    token_endpoint_auth_method: str | None = None


class AuthorizationMetadata(Struct, frozen=True):
    """The authorization server of a server, and what the server says itself."""

    server: ServerMetadata
    resource: str
    scopes: tuple[str, ...] = ()
    """The scopes that the server's metadata asks for."""

    @property
    def issuer(self) -> str:
        return str(self.server.issuer)

    @property
    def takes_metadata_documents(self) -> bool:
        return bool(self.server.client_id_metadata_document_supported)

    @property
    def has_pkce(self) -> bool:
        return "S256" in (self.server.code_challenge_methods_supported or ())

    @property
    def always_sends_issuer(self) -> bool:
        return bool(self.server.authorization_response_iss_parameter_supported)

    def requested_scopes(self, given: Sequence[str], challenged: Sequence[str]) -> list[str]:
        """The scopes to request: the owner's, else the challenge's, else the metadata's."""
        scopes = [*(given or challenged or self.scopes)]
        supported = self.server.scopes_supported or ()
        if scopes and not given and _OFFLINE in supported and _OFFLINE not in scopes:
            scopes.append(_OFFLINE)  # without it some servers give no refresh token
        return scopes

    def auth_method(self, *, has_secret: bool) -> AuthMethod:
        """Return the method by which a client of ours authenticates at the token endpoint."""
        if not has_secret:
            return "none"
        offered = self.server.token_endpoint_auth_methods_supported or _SECRET_METHODS
        return next(
            (method for method in _SECRET_METHODS if method in offered), "client_secret_basic"
        )

    def login(
        self, remote: RemoteTransport, *, client_id: str, has_secret: bool, scope: str
    ) -> StoredLogin:
        """A login without tokens yet."""
        revocation = self.server.revocation_endpoint
        return StoredLogin(
            address=address_of(remote.url),
            resource=self.resource,
            issuer=self.issuer,
            token_endpoint=str(self.server.token_endpoint),
            client_id=client_id,
            auth_method=self.auth_method(has_secret=has_secret),
            revocation_endpoint=str(revocation) if revocation else "",
            scope=scope,
        )


class RegisteredClient(Struct, frozen=True):
    client_id: str
    secret: str = ""
    method: AuthMethod = "none"


async def discover(
    client: httpx2.AsyncClient, remote: RemoteTransport, challenge: str = ""
) -> AuthorizationMetadata:
    """The metadata of a server's authorization.

    Args:
        client: Of `open_client`.
        remote: The server, with its references resolved.
        challenge: The WWW-Authenticate header of its refusal.

    Raises:
        TokenRefused: If it publishes none, or what it publishes cannot be trusted.
        AuthorizationServerUnavailable: If a server does not answer.
    """
    address = address_of(remote.url)
    resource = await _protected_resource(client, address, challenge)
    if resource and not _covers(str(resource.resource), address):
        detail = f"its metadata is that of another server: {str(resource.resource)!r}"
        raise TokenRefused("invalid_response", detail)
    if url := remote.oauth.auth_server_metadata_url:
        server = await _read(client, url, ServerMetadata, address)
        if server is None:
            raise TokenRefused("invalid_response", f"there is no metadata at {url}")
    else:
        issuer = str(resource.authorization_servers[0]) if resource else None
        server = await _authorization_server(client, issuer, address)
    _check_endpoints(server, address)
    scopes = tuple(resource.scopes_supported or ()) if resource else ()
    named = str(resource.resource) if resource else address
    return AuthorizationMetadata(server, named, scopes)


async def register(
    client: httpx2.AsyncClient, document: AuthorizationMetadata, redirect_uri: str, scope: str
) -> RegisteredClient:
    """Register a client dynamically (RFC 7591).

    Raises:
        TokenRefused: If the server refuses, or registers a client that cannot be used.
        AuthorizationServerUnavailable: If it does not answer.
    """
    endpoint = document.server.registration_endpoint
    if endpoint is None:
        raise TokenRefused("unregistered", "it registers no clients by itself")
    members = {
        "client_name": "discovery",
        "redirect_uris": [redirect_uri],
        "response_types": ["code"],
        "grant_types": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
        "software_id": "mcp-discovery-engine",
        "software_version": __version__,
    }
    body = members | {"scope": scope} if scope else members
    request = client.build_request("POST", str(endpoint), json=body)
    status, answer = await fetch(client, request)
    if status not in _CREATED:
        raise TokenRefused("unregistered", f"it refuses to register a client: HTTP {status}")
    registration = parse(_Registration, answer)
    if registration is None:
        raise TokenRefused("invalid_response", "its registration cannot be read")
    method = registration.token_endpoint_auth_method or (
        "none" if not registration.client_secret else ""
    )
    if method == "none":
        return RegisteredClient(registration.client_id)
    if registration.client_secret and method in ("", *_SECRET_METHODS):
        secret_method = next(
            (candidate for candidate in _SECRET_METHODS if candidate == method), _SECRET_METHODS[0]
        )
        return RegisteredClient(registration.client_id, registration.client_secret, secret_method)
    raise TokenRefused("invalid_response", "it registered a client of an unusable kind")


def make_pkce() -> tuple[str, str]:
    """A code verifier and its challenge (RFC 7636, S256)."""
    verifier = secrets.token_urlsafe(64)
    digest = hashlib.sha256(verifier.encode()).digest()
    return verifier, urlsafe_b64encode(digest).decode().rstrip("=")


async def _protected_resource(
    client: httpx2.AsyncClient, address: str, challenge: str
) -> _ResourceMetadata | None:
    named = challenge_field(challenge, "resource_metadata")
    origin, path = _origin(address), urlsplit(address).path
    well_known = f"{origin}/.well-known/oauth-protected-resource"
    places = [f"{well_known}{path}", well_known] if path.strip("/") else [well_known]
    for url in [named, *places] if named else places:
        if resource := await _read(client, url, _ResourceMetadata, address):
            return resource
    return None


async def _authorization_server(
    client: httpx2.AsyncClient, issuer: str | None, address: str
) -> ServerMetadata:
    for url in _server_places(issuer, address):
        if server := await _read(client, url, ServerMetadata, address):
            expected = issuer or _origin(address)
            if not _is_same_issuer(str(server.issuer), expected):
                detail = f"its metadata is that of another issuer: {str(server.issuer)!r}"
                raise TokenRefused("invalid_response", detail)
            return server
    where = issuer or _origin(address)
    raise TokenRefused("no_metadata", f"{where} publishes no metadata of an authorization server")


def _server_places(issuer: str | None, address: str) -> list[str]:
    """The addresses at which an authorization server may publish its metadata, in order."""
    if issuer is None:  # as the revision 2025-03-26 has it
        return [f"{_origin(address)}/.well-known/oauth-authorization-server"]
    origin, path = _origin(issuer), urlsplit(issuer).path.rstrip("/")
    places = [
        f"{origin}/.well-known/oauth-authorization-server{path}",
        f"{origin}/.well-known/openid-configuration{path}",
    ]
    return [*places, f"{origin}{path}/.well-known/openid-configuration"] if path else places


def _is_same_issuer(issuer: str, expected: str) -> bool:
    """Compare as texts; one without a path may end with a slash or not (RFC 8414)."""
    is_root = not urlsplit(issuer).path.strip("/")
    return issuer == expected or (is_root and issuer.rstrip("/") == expected.rstrip("/"))


def _covers(resource: str, address: str) -> bool:
    """Return whether a resource is the address, or a path above it, of the same origin."""
    ours, theirs = urlsplit(address), urlsplit(resource)
    is_same_origin = (ours.scheme, ours.netloc.lower()) == (theirs.scheme, theirs.netloc.lower())
    return is_same_origin and f"{ours.path}/".startswith(f"{theirs.path.rstrip('/')}/")


async def _read(
    client: httpx2.AsyncClient, url: str, model: type[_Model], address: str
) -> _Model | None:
    """A document, or None if there is none at that address."""
    _require_secure(url, address)
    request = client.build_request("GET", url, headers={"accept": "application/json"})
    status, body = await fetch(client, request)
    if status >= _SERVER_ERROR:
        raise TokenRefused("invalid_response", f"{url} answers HTTP {status}")
    return parse(model, body) if status == _OK else None


def _check_endpoints(document: ServerMetadata, address: str) -> None:
    endpoints: Sequence[Any] = (
        document.authorization_endpoint,
        document.token_endpoint,
        document.registration_endpoint,
        document.revocation_endpoint,
    )
    for endpoint in endpoints:
        if endpoint is not None:
            _require_secure(str(endpoint), address)


def _require_secure(url: str, address: str) -> None:
    """Check that an address may be used: HTTPS; this machine's only for a server of it."""
    is_https = url.lower().startswith("https://")
    is_local = address.startswith("http://")
    if not is_secure_address(url) or not (is_https or is_local):
        raise TokenRefused("invalid_response", f"it names an address that is not https: {url!r}")


def _origin(address: str) -> str:
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"
