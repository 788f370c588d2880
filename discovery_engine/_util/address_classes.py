"""Classifies IP addresses, and decides to which classes a configured host may resolve.

The table is our own: `ipaddress.is_global` differs between versions of Python, and is true for
NAT64, 6to4 and multicast addresses that lead into a private network.
"""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Literal, TypeAlias

AddressClass: TypeAlias = Literal["public", "private", "loopback", "reserved"]
"""`reserved` is never connected to: link-local and other addresses where clouds keep credentials,
multicast, and all that is neither on the internet nor in a private network."""

_LOOPBACK = IPv4Network("127.0.0.0/8")
_PRIVATE = tuple(
    map(IPv4Network, ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16"))
)
_RESERVED = tuple(
    map(
        IPv4Network,
        (
            *("0.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24"),
            *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3"),
        ),
    )
)
_METADATA = frozenset(
    map(IPv4Address, ("100.100.100.200", "168.63.129.16"))  # Alibaba, Azure
)
_METADATA_6 = IPv6Address("fd00:ec2::254")  # Amazon
"""Addresses where clouds give machines credentials and settings, beside link-local ones."""
_GLOBAL_6 = IPv6Network("2000::/3")
_UNIQUE_LOCAL_6 = IPv6Network("fc00::/7")
_RESERVED_6 = tuple(
    # Protocol assignments with Teredo, documentation, 6to4, and documentation again.
    map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
)
_NAT64 = IPv6Network("64:ff9b::/96")  # an IPv4 address is in its last 32 bits
_PRIVATE_SUFFIXES = (
    *(".internal", ".local", ".localdomain", ".lan", ".home.arpa", ".intranet", ".corp"),
    *(".private", ".home"),
)


def address_class(address: str) -> AddressClass:
    """The class of an IP address in its usual spelling; `reserved` for what is none."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return "reserved"
    return _class_of_4(parsed) if isinstance(parsed, IPv4Address) else _class_of_6(parsed)


def reachable_classes(host: str, *, is_private: bool) -> frozenset[AddressClass]:
    """Return the classes of addresses that a host configured by the owner may lead to.

    An address leads to its own class, `localhost` to this machine, a name of a private network
    anywhere but to what is reserved, and any other name to the internet alone: a name server of
    strangers could otherwise lead it into the owner's network.

    Args:
        host: Name or literal address, without brackets.
        is_private: The owner says that the name is one of a private network.
    """
    name = host.lower().rstrip(".")
    if _is_literal(name):
        return frozenset((address_class(name),)) - {"reserved"}
    if name == "localhost" or name.endswith(".localhost"):
        return frozenset(("loopback",))
    if is_private or is_private_name(name):
        return frozenset(("public", "private", "loopback"))
    return frozenset(("public",))


def is_reserved(host: str) -> bool:
    """Return whether a host is a literal address that is never connected to.

    It may have a form that only the C library reads: `0xa9fea9fe`, `2852039166`, `169.254.43518`.
    """
    name = host.rstrip(".").partition("%")[0]
    if _is_literal(name):
        return address_class(name) == "reserved"
    try:
        packed = socket.inet_aton(name) if name else b""
    except OSError:
        return False
    return bool(packed) and address_class(str(IPv4Address(packed))) == "reserved"


def is_private_name(host: str) -> bool:
    """Return whether a name has the form of a private one: one label, or a known suffix."""
    name = host.lower().rstrip(".")
    return "." not in name or name.endswith((".localhost", *_PRIVATE_SUFFIXES))


def _is_literal(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _class_of_4(address: IPv4Address) -> AddressClass:
    if address in _METADATA:
        return "reserved"
    if address in _LOOPBACK:
        return "loopback"
    if any(address in network for network in _PRIVATE):
        return "private"
    return "reserved" if any(address in network for network in _RESERVED) else "public"


def _class_of_6(address: IPv6Address) -> AddressClass:
    if address.ipv4_mapped or address in _NAT64:
        return _class_of_4(IPv4Address(int(address) & 0xFFFF_FFFF))
    if address == IPv6Address("::1"):
        return "loopback"
    if address in _UNIQUE_LOCAL_6:
        return "reserved" if address == _METADATA_6 else "private"
    if address in _GLOBAL_6 and not any(address in network for network in _RESERVED_6):
        return "public"
    return "reserved"
