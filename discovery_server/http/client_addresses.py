"""Which machine a client is, by its address."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discovery_server.http.asgi import Scope


def machine_of(host: str) -> str:
    """The address; for IPv6 its /64 network, from which a machine can choose addresses."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    mapped = address.ipv4_mapped
    return str(mapped) if mapped else f"{int(address) >> 64:x}/64"


def client_host(scope: Scope) -> str:
    """The address of the client of a request; empty if it has none."""
    return scope["client"][0] if scope.get("client") else ""
