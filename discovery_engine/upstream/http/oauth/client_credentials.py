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
    oauth = remote.oauth
    if login is None:
        found = await metadata.discover(client, remote)
        login = found.login(
            remote, client_id=oauth.client_id, has_secret=True, scope=" ".join(oauth.scopes)
        )
    form = {"grant_type": "client_credentials"}
    if oauth.scopes:
        form["scope"] = " ".join(oauth.scopes)
    if not login.token_endpoint:
        raise TokenRefused("invalid_response", "it publishes no token endpoint")
    return await exchange(client, login, form, secret=oauth.client_secret, now=now)
