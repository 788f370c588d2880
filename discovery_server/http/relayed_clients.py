"""Whose a request is that one gateway passes to another: named by the one, known by the other.

The gateway that answers goes by what it knows itself: whether the token is still valid there, and
what it shows. Where it does not know the client, nothing that it has is that client's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from discovery_server.access_token import MCP_SCOPES

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_server.gateway import Gateway
    from discovery_server.http.users import User, Users

GatewayOf: TypeAlias = Callable[["User | None", str | None], "Gateway | None"]
"""The gateway of a user and a view; None if there is none."""


class RelayedClient(Struct, frozen=True):
    gateway: Gateway
    user: str | None
    """None where no token is required."""


class RelayedClients:
    """`users` are None where no token is required."""

    def __init__(self, users: Users | None, gateway_of: GatewayOf) -> None:
        self._users = users
        self._gateway_of = gateway_of

    def name(self, client: RelayedClient) -> JSONObject:
        """Return the members by which another gateway identifies a client of this one."""
        mark = self._users.mark(client.user) if self._users and client.user else ""
        return {"user": client.user, "mark": mark, "view": client.gateway.view}

    def find(self, named: JSONObject) -> RelayedClient | None:
        """The client that another gateway names; None if there is none here."""
        name, view = named["user"], named["view"]
        user = self._users.known(name, named["mark"]) if self._users and name else None
        if user is None and (self._users or name):
            return None
        if user and not user.scopes >= MCP_SCOPES:
            return None
        gateway = self._gateway_of(user, view)
        if gateway is None or gateway.view != view:
            return None
        return RelayedClient(gateway, name)
