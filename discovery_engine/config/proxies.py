"""Proxies that the environment names, which are not for addresses of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from discovery_engine.config.syntax import is_loopback

if TYPE_CHECKING:
    import httpx2


def mounts_for(url: str) -> dict[str, httpx2.AsyncBaseTransport | None]:
    """The `mounts` of a client for this address alone: none of a proxy if it is this machine.

    Unless `NO_PROXY` names it, `HTTP_PROXY` counts for `localhost` too. The plain text of a request
    would cross the network, and the proxy would look for the endpoint on its own machine. The rest
    of the environment counts (`SSL_CERT_FILE`).
    """
    is_here = is_loopback(urlsplit(url).hostname or "")
    return dict.fromkeys(("http://", "https://", "all://")) if is_here else {}
