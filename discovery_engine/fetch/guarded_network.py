"""Connections to addresses that were checked after their name was resolved.

A name is resolved once, all its addresses are checked, and one of these is connected to: between
the check and the connection the name cannot get another address.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

import anyio
import httpcore2

from discovery_engine._util.address_classes import AddressClass, address_class
from discovery_engine.fetch.fetch_error import FetchError

Resolver: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""The addresses of a host; raises OSError if there are none."""

_RESOLVE = 10.0  # seconds
_NEXT = 3.0  # seconds for an address, if there is another one to try
_CLASSES = {
    "loopback": "this machine itself",
    "private": "a private network",
    "reserved": "a reserved address",
    "public": "the internet",
}


class GuardedNetwork(httpcore2.AsyncNetworkBackend):
    """Connects only to addresses of the allowed classes.

    Args:
        allowed: The classes that a host may lead to.
        resolve: Finds the addresses of a host.
    """

    def __init__(
        self, allowed: Callable[[str], AbstractSet[AddressClass]], resolve: Resolver
    ) -> None:
        self._allowed = allowed
        self._resolve = resolve
        self._backend = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of httpcore
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = await self._checked_addresses(host, port)
        for address in addresses[:-1]:
            try:
                return await self._backend.connect_tcp(
                    address, port, min(timeout or _NEXT, _NEXT), local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._backend.connect_tcp(
            addresses[-1], port, timeout, local_address, socket_options
        )

    async def connect_unix_socket(self, *_: Any, **__: Any) -> httpcore2.AsyncNetworkStream:
        raise FetchError("address", "a socket of this machine is no address of the web")

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)

    async def _checked_addresses(self, host: str, port: int) -> list[str]:
        try:
            with anyio.fail_after(_RESOLVE):
                addresses = await self._resolve(host, port)
        except TimeoutError:
            reason = f"host {host!r} was not resolved within {_RESOLVE:g} s"
            raise FetchError("unresolved", reason, hint="check the network") from None
        except (OSError, UnicodeError):
            addresses = []
        if not addresses:
            hint = "check the name of the host, and the network"
            raise FetchError("unresolved", f"host {host!r} cannot be resolved", hint=hint)
        require_allowed(host, addresses, self._allowed(host))
        return addresses


def require_allowed(
    host: str, addresses: Iterable[str], allowed: AbstractSet[AddressClass]
) -> None:
    """Raises `FetchError` if one of the addresses of a host is of no allowed class."""
    for address in addresses:
        if (kind := address_class(address)) in allowed:
            continue
        where = address if address == host else f"{host!r}, which is {address},"
        reason = f"{where} leads to {_CLASSES[kind]}, where nothing is fetched from"
        hint = ""
        if kind in ("private", "loopback") and address != host:
            hint = "write `private: true` for the source if it is one of your own network"
        raise FetchError("address", reason, hint=hint)


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host by the system's resolver, each once, in its order."""
    answers = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in answers))
