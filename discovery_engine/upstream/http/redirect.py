"""Redirects: followed within the origin of a server, refused beyond it.

A request may contain secrets for the address that the owner approved. The target of a refused
redirect is named by scheme, host and port only: the rest may contain a key.
"""

from __future__ import annotations

from http import HTTPStatus
from urllib.parse import SplitResult, urljoin, urlsplit

import httpx2

from discovery_engine._util.text import quoted

_MAX_REDIRECTS = 5  # redirects for one request
_COUNT = "discovery.redirects"
_MAX_SHOWN_ADDRESS_LENGTH = 100  # characters of an address that are shown
_HTTP = ("http", "https")
NOT_APPROVED = "requests may hold secrets, and that address was not approved"


def is_redirect(response: httpx2.Response) -> bool:
    return response.is_redirect and response.status_code != HTTPStatus.NOT_MODIFIED


async def is_followed(response: httpx2.Response) -> bool:
    """Return whether the SDK may follow a redirect; if so, empty its body unread."""
    following = _next_request(response)
    count = response.request.extensions.get(_COUNT, 0)
    if following is None or count >= _MAX_REDIRECTS:
        return False
    following.extensions[_COUNT] = count + 1
    await response.stream.aclose()  # type: ignore[union-attr] # of an asynchronous client
    response.stream = httpx2.ByteStream(b"")
    return True


def describe_redirect(response: httpx2.Response) -> str:
    """The target of a redirect, and why it is not followed."""
    status, own = response.status_code, urlsplit(str(response.request.url))
    try:
        target = urlsplit(urljoin(own.geturl(), response.headers.get("location", "")))
        place = origin_of(target)
    except ValueError:
        target, place = SplitResult("", "", "", "", ""), ""
    if target.scheme not in _HTTP or not target.hostname:
        return f"HTTP {status}, a redirect that is not followed: it leads to no HTTP address"
    if place != origin_of(own):
        where = quoted(place[:_MAX_SHOWN_ADDRESS_LENGTH])
        return f"HTTP {status}, a redirect to {where}, which is not followed: {NOT_APPROVED}"
    if response.request.extensions.get(_COUNT, 0) >= _MAX_REDIRECTS:
        return f"HTTP {status}, a redirect after {_MAX_REDIRECTS} others, which is not followed"
    is_lost = response.request.method == "POST"
    why = "the request would be lost" if is_lost else "its event stream must be at `url` itself"
    return f"HTTP {status}, a redirect to another path of its own, which is not followed: {why}"


def _next_request(response: httpx2.Response) -> httpx2.Request | None:
    """The request that follows a redirect within the origin; None if it must not be followed.

    The SDK has the same rules. A redirect that it would follow beyond these never reaches it.
    """
    following, sent = response.next_request, response.request
    if following is None or following.method != sent.method:
        return None
    if following.url.userinfo and following.url.userinfo != sent.url.userinfo:
        return None
    return following if _is_same_origin(sent.url, following.url) else None


def _is_same_origin(sent: httpx2.URL, target: httpx2.URL) -> bool:
    """Return whether the origin is the same, or its HTTPS variant on the default ports."""
    if (sent.scheme, sent.host, sent.port) == (target.scheme, target.host, target.port):
        return True
    upgraded = ("http", None, "https", None)
    return (
        sent.host == target.host
        and (sent.scheme, sent.port, target.scheme, target.port) == upgraded
    )


def origin_of(parts: SplitResult) -> str:
    """The scheme, host and port of an address.

    Raises:
        ValueError: If its port is none.
    """
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "")
