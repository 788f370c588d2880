"""The machine of a client, by its address."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discovery_server.http.asgi import Scope


def ip_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The literal address; that of IPv4 if it is mapped to one of IPv6. None for a name."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def machine_of(host: str) -> str:
    """The address; for IPv6 its /64 network, from which a machine can choose addresses."""
    match ip_address(host):
        case ipaddress.IPv6Address() as address:
            return f"{int(address) >> 64:x}/64"
        case address:
            return str(address or host)


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, by its name or literal address."""
    address = ip_address(host)
    return host.casefold() == "localhost" if address is None else address.is_loopback


def client_host(scope: Scope) -> str:
    """The address of the client of a request; empty if it has none."""
    return scope["client"][0] if scope.get("client") else ""
