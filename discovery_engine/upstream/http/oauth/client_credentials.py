"""The client credentials grant: a machine gets a token with the client of its entry."""

from __future__ import annotations

import httpx2

from discovery_engine.config.settings import RemoteTransport
from discovery_engine.upstream.http.oauth import metadata
from discovery_engine.upstream.http.oauth.stored_login import StoredLogin
from discovery_engine.upstream.http.oauth.token_endpoint import TokenRefused, exchange


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
