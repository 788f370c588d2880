"""The metadata that protected resources and authorization servers publish.

The SDK has the models, the well-known addresses and the checks of RFC 8414, 8707, 9207 and 9728;
what is sent, and where, is decided here. The SDK's own providers do not fit: they refresh at a
guessed endpoint after a restart, share a refresh token with no other process, and open the browser
in the middle of a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import httpx2
from mcp.client.auth.oauth2 import PKCEParameters
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    extract_field_from_www_auth,
    issuers_match,
)
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    ProtectedResourceMetadata,
)
from mcp.shared.auth_utils import check_resource_allowed
from msgspec import Struct
from pydantic import AnyUrl, BaseModel

from discovery_engine.config.settings import RemoteTransport
from discovery_engine.config.syntax import is_secure_address
from discovery_engine.upstream.http.oauth.stored_login import (
    AuthMethod,
    StoredLogin,
    address_of,
)
from discovery_engine.upstream.http.oauth.token_endpoint import TokenRefused, fetch, parse
from discovery_engine.version import __version__

_Model = TypeVar("_Model", bound=BaseModel)

_OK = 200
_SERVER_ERROR = 500
_CREATED = (200, 201)
_SECRET_METHODS: tuple[AuthMethod, ...] = ("client_secret_basic", "client_secret_post")
_OFFLINE = "offline_access"


class AuthorizationMetadata(Struct, frozen=True):
    """The authorization server of a server, and what the server says itself."""

    server: OAuthMetadata
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
        """How a client of ours authenticates at the token endpoint."""
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
    if resource and not check_resource_allowed(address, str(resource.resource)):
        detail = f"its metadata is that of another server: {str(resource.resource)!r}"
        raise TokenRefused("invalid_response", detail)
    if url := remote.oauth.auth_server_metadata_url:
        server = await _read(client, url, OAuthMetadata, address)
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
    client: httpx2.AsyncClient, found: AuthorizationMetadata, redirect_uri: str, scope: str
) -> RegisteredClient:
    """Register a client dynamically (RFC 7591).

    Raises:
        TokenRefused: If the server refuses, or registers a client that cannot be used.
        AuthorizationServerUnavailable: If it does not answer.
    """
    endpoint = found.server.registration_endpoint
    if endpoint is None:
        raise TokenRefused("unregistered", "it registers no clients by itself")
    client_metadata = OAuthClientMetadata(
        client_name="discovery",
        redirect_uris=[AnyUrl(redirect_uri)],
        token_endpoint_auth_method="none",  # noqa: S106 - a method
        software_id="mcp-discovery-engine",
        software_version=__version__,
        scope=scope or None,
    )
    body = client_metadata.model_dump(mode="json", by_alias=True, exclude_none=True)
    request = client.build_request("POST", str(endpoint), json=body)
    status, answer = await fetch(client, request)
    if status not in _CREATED:
        raise TokenRefused("unregistered", f"it refuses to register a client: HTTP {status}")
    registration = parse(OAuthClientInformationFull, answer)
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
    parameters = PKCEParameters.generate()
    return parameters.code_verifier, parameters.code_challenge


def challenged_scopes(challenge: str) -> list[str]:
    return (_field(challenge, "scope") or "").split()


def _field(challenge: str, name: str) -> str | None:
    response = httpx2.Response(401, headers={"www-authenticate": challenge})
    return extract_field_from_www_auth(response, name) if challenge else None


async def _protected_resource(
    client: httpx2.AsyncClient, address: str, challenge: str
) -> ProtectedResourceMetadata | None:
    named = _field(challenge, "resource_metadata")
    for url in build_protected_resource_metadata_discovery_urls(named, address):
        if resource := await _read(client, url, ProtectedResourceMetadata, address):
            return resource
    return None


async def _authorization_server(
    client: httpx2.AsyncClient, issuer: str | None, address: str
) -> OAuthMetadata:
    for url in build_oauth_authorization_server_metadata_discovery_urls(issuer, address):
        if server := await _read(client, url, OAuthMetadata, address):
            expected = issuer or _origin(address)
            if not issuers_match(str(server.issuer), expected):
                detail = f"its metadata is that of another issuer: {str(server.issuer)!r}"
                raise TokenRefused("invalid_response", detail)
            return server
    where = issuer or _origin(address)
    raise TokenRefused("no_metadata", f"{where} publishes no metadata of an authorization server")


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


def _check_endpoints(found: OAuthMetadata, address: str) -> None:
    endpoints: Sequence[Any] = (
        found.authorization_endpoint,
        found.token_endpoint,
        found.registration_endpoint,
        found.revocation_endpoint,
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
