"""HTTP requests to addresses that the owner configured or a third party named.

A response is read up to a limit on its decompressed bytes. Redirects are followed within the origin
with the same headers; to other hosts only on request, without these headers, over HTTPS, and only
to public addresses. The proxies of the environment are used; as a proxy resolves names itself, only
the name of a host is checked then.
"""

from __future__ import annotations

import socket
import ssl
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeAlias
from urllib.request import getproxies, proxy_bypass

import anyio
import httpcore2
import httpx2
from msgspec import Struct

from discovery_engine._util.address_classes import AddressClass, address_class, reachable_classes
from discovery_engine._util.fetch.fetch_error import PORTS, FetchError, authority
from discovery_engine._util.text import quoted
from discovery_engine._util.tls_context import load_tls_context
from discovery_engine._util.version import __version__

Resolver: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""Resolves a host to its addresses; raises OSError if there are none."""

_RESOLVE = 10.0  # seconds for a name
_NEXT = 3.0  # seconds for an address before the next one is tried
_CLASSES = {
    "loopback": "this machine itself",
    "private": "a private network",
    "reserved": "a reserved address",
    "public": "the internet",
}


class GuardedNetwork(httpcore2.AsyncNetworkBackend):
    """Connects only to addresses of the allowed classes.

    Args:
        allowed: Returns the classes of addresses that a host may resolve to.
        resolve: Resolves a host.
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
        _require_allowed(host, addresses, self._allowed(host))
        return addresses


def _require_allowed(
    host: str, addresses: Iterable[str], allowed: AbstractSet[AddressClass]
) -> None:
    """Raise `FetchError` if an address of a host is not of an allowed class."""
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
    """Return the addresses of a host from the system's resolver, in its order, each once."""
    answers = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in answers))


_CONNECT = 10.0  # seconds
_READ = 15.0  # seconds between two reads
_MOST_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_MAX_ERROR_URL_LENGTH = 100  # characters of the target of a redirect
_LONGEST_NUMBER = 18  # digits
_PIECE = 256 * 1024  # decompressed bytes in one step
_TIMEOUTS = {"connect": _CONNECT, "read": _READ, "write": _READ, "pool": _READ}


class Fetched(Struct, frozen=True):
    """A complete response."""

    status: int
    headers: Mapping[str, str]
    """By lower-case name; the last one of a repeated header."""
    body: bytes


class FetchedStream(Struct, frozen=True):
    """A response whose body is read in pieces, within the block that opened it."""

    status: int
    headers: Mapping[str, str]
    pieces: AsyncIterator[bytes]
    """The decompressed body.

    Raises:
        FetchError: If the body is incomplete, exceeds the limit, or cannot be decompressed.
    """


class Fetcher:
    """Requests to one configured address and its origin; created by `open_fetcher`."""

    def __init__(self, base: httpx2.URL, pool: Any, *, is_proxied: bool) -> None:
        self._base = base
        self._pool = pool
        self._is_proxied = is_proxied

    async def get(
        self,
        url: str,
        *,
        limit: int,
        headers: Mapping[str, str] | None = None,
        within: float = 30.0,
        follows: bool = False,
    ) -> Fetched:
        """Return the complete response to a GET, whatever its status.

        Args:
            url: Must be of the configured origin, unless `follows`.
            limit: The most bytes of the decompressed body.
            headers: Additional headers, sent to the configured origin only.
            within: Seconds for the whole request.
            follows: Whether redirects to other public hosts are followed.

        Raises:
            FetchError: If there is no complete response within the limits.
        """
        async with self.stream(
            url, limit=limit, headers=headers, within=within, follows=follows
        ) as answer:
            body = b"".join([piece async for piece in answer.pieces])
            return Fetched(answer.status, answer.headers, body)

    async def post(
        self, url: str, content: bytes, *, headers: Mapping[str, str], within: float
    ) -> Fetched:
        """Return the response to a POST without its body; no redirect is followed.

        Args:
            url: Must be of the configured origin.
            content: The request's body.
            headers: Additional headers.
            within: Seconds for the whole request.

        Raises:
            FetchError: If there is no response.
        """
        target = parsed_address(url)
        self._require_origin(target)
        place = authority(target)
        try:
            with anyio.move_on_after(within):
                limits = {**_TIMEOUTS, "read": within, "write": within}
                sending = self._opened(target, headers, "POST", content, timeouts=limits)
                async with sending as response:
                    return Fetched(response.status, _headers_of(response), b"")
            raise _timed_out(place, within)
        except httpcore2.TimeoutException:
            raise _timed_out(place, min(within, _CONNECT)) from None
        except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.ProxyError) as error:
            raise _transport_problem(error, place) from error

    @asynccontextmanager
    async def stream(
        self,
        url: str,
        *,
        limit: int,
        headers: Mapping[str, str] | None = None,
        within: float = 30.0,
        follows: bool = False,
    ) -> AsyncGenerator[FetchedStream]:
        """Open the response to a GET without holding its body in memory; see `get`.

        Exceptions of the block are passed on; those of the connection become `FetchError`.
        """
        target = parsed_address(url)
        if not follows:
            self._require_origin(target)
        place = authority(target)
        try:
            with anyio.move_on_after(within):
                for _ in range(_MOST_REDIRECTS + 1):
                    place = authority(target)
                    async with self._opened(target, headers) as response:
                        if response.status not in _REDIRECTS:
                            yield _streamed(response, limit, place)
                            return
                        target = self._redirected(target, response, follows=follows)
                reason = f"{place} redirects more than {_MOST_REDIRECTS} times"
                raise FetchError("redirect", reason, hint="check the address")
            raise _timed_out(place, within)
        except httpcore2.TimeoutException:
            raise _timed_out(place, _READ) from None
        except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.ProxyError) as error:
            raise _transport_problem(error, place) from error

    @asynccontextmanager
    async def _opened(
        self,
        target: httpx2.URL,
        headers: Mapping[str, str] | None,
        method: str = "GET",
        content: bytes | None = None,
        *,
        timeouts: Mapping[str, float] = _TIMEOUTS,
    ) -> AsyncGenerator[httpcore2.Response]:
        self._require_public_name(target)
        sent = {
            "host": target.netloc.decode("ascii"),
            "accept": "application/json, */*;q=0.5",
            "accept-encoding": "gzip",
            "user-agent": f"discovery/{__version__}",
        }
        if _is_same_origin(target, self._base):
            sent |= {name.lower(): value for name, value in (headers or {}).items()}
        if content is not None:
            sent["content-length"] = str(len(content))
        _require_sendable(sent)
        async with self._pool.stream(
            method,
            httpcore2.URL(
                scheme=target.raw_scheme,
                host=target.raw_host,
                port=target.port,
                target=target.raw_path,
            ),
            headers=[(name.encode(), value.encode("latin-1")) for name, value in sent.items()],
            content=content,
            extensions={"timeout": dict(timeouts)},
        ) as response:
            yield response

    def _require_origin(self, target: httpx2.URL) -> None:
        if not _is_same_origin(target, self._base):
            raise FetchError("address", f"{authority(target)} is not {authority(self._base)}")

    def _require_public_name(self, target: httpx2.URL) -> None:
        """Check a name that a proxy will resolve; without a proxy the connection is checked."""
        if not self._is_proxied or target.host == self._base.host:
            return
        if reachable_classes(target.host, is_private=False) != {"public"}:
            reason = (
                f"{authority(target)} is no host of the internet, where nothing is fetched from"
            )
            raise FetchError("address", reason)

    def _redirected(
        self, sent: httpx2.URL, response: httpcore2.Response, *, follows: bool
    ) -> httpx2.URL:
        location = _headers_of(response).get("location", "")
        try:
            target = sent.join(location)
        except (httpx2.InvalidURL, ValueError):
            target = httpx2.URL("")
        what = f"HTTP {response.status}, a redirect of {authority(sent)}"
        if not location or target.scheme not in PORTS or not target.host or target.userinfo:
            raise FetchError("redirect", f"{what} to no address of the web")
        if _is_same_origin(target, sent):
            return target
        where = quoted(f"{target.scheme}://{authority(target)}"[:_MAX_ERROR_URL_LENGTH])
        if follows and target.scheme == "https":
            return target
        hint = "if the source has moved there, write that address"
        raise FetchError("redirect", f"{what} to {where}, which is not followed", hint=hint)


@asynccontextmanager
async def open_fetcher(
    url: str, *, is_private: bool = False, resolver: Resolver = resolve
) -> AsyncGenerator[Fetcher]:
    """Yield the fetcher for an address and its origin.

    Args:
        url: The address, configured by the owner or checked like one that is.
        is_private: Whether the owner says that the host is in a private network.
        resolver: Resolves hosts.

    Raises:
        FetchError: If `url` is no HTTP address, or the proxy's address cannot be used.
    """
    base = parsed_address(url)

    def allowed(host: str) -> frozenset[Any]:
        own = host == base.raw_host.decode("ascii")
        if own:
            return reachable_classes(base.host, is_private=is_private)
        return frozenset(("public",))

    proxy = _proxy_for(base)
    context = await load_tls_context()
    if proxy:
        pool: Any = _proxy_pool(proxy, context)
    else:
        network = GuardedNetwork(allowed, resolver)
        pool = httpcore2.AsyncConnectionPool(
            ssl_context=context, max_connections=4, network_backend=network
        )
    async with pool:
        yield Fetcher(base, pool, is_proxied=bool(proxy))


def parsed_address(url: str) -> httpx2.URL:
    """Parse an address of HTTP or HTTPS.

    Raises:
        FetchError: If it is none, or contains a user.
    """
    try:
        parsed = httpx2.URL(url)
        is_web = parsed.scheme in PORTS and bool(parsed.host)
        parsed.raw_host.decode("ascii")
    except (httpx2.InvalidURL, ValueError):
        is_web = False
    if not is_web or parsed.userinfo or any(c in url for c in "\\ \t\r\n\0"):
        raise FetchError(
            "address", f"{quoted(url[:_MAX_ERROR_URL_LENGTH])} is no address of the web"
        )
    return parsed


def _streamed(response: httpcore2.Response, limit: int, place: str) -> FetchedStream:
    headers = _headers_of(response)
    length = headers.get("content-length", "")
    if _is_number(length) and int(length) > limit:
        raise _too_long(place, limit)
    return FetchedStream(response.status, headers, _pieces(response, headers, limit, place))


async def _pieces(
    response: httpcore2.Response, headers: Mapping[str, str], limit: int, place: str
) -> AsyncGenerator[bytes]:
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "", "gzip", "x-gzip"):
        raise FetchError("broken", f"{place} answers in an encoding that was not asked for")
    unpacked = zlib.decompressobj(31) if "gzip" in encoding else None
    size = raw_size = 0
    async with aclosing(response.aiter_stream()) as pieces:
        async for raw in pieces:
            waiting = raw
            raw_size += len(raw)
            if raw_size > limit:
                raise _too_long(place, limit)
            while waiting:
                if unpacked is None:
                    piece, waiting = waiting, b""
                else:
                    try:
                        # A compressed bomb is counted in steps, and never held as a whole.
                        piece = unpacked.decompress(waiting, _PIECE)
                    except zlib.error:
                        reason = f"{place} answers with what cannot be decompressed"
                        raise FetchError("broken", reason) from None
                    waiting = unpacked.unconsumed_tail
                size += len(piece)
                if size > limit:
                    raise _too_long(place, limit)
                if piece:
                    yield piece
    if unpacked is not None and raw_size and not unpacked.eof:
        raise FetchError("broken", f"{place} broke off in the middle of its answer")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER


def _headers_of(response: httpcore2.Response) -> dict[str, str]:
    return {
        name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers
    }


def _require_sendable(headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        if not value.isprintable() or not value.isascii():
            # The message leaves the value out, which may be a secret.
            raise FetchError("address", f"the value of the header {name!r} cannot be sent")


def _is_same_origin(left: httpx2.URL, right: httpx2.URL) -> bool:
    return _origin(left) == _origin(right)


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or PORTS.get(url.scheme)


def _too_long(place: str, limit: int) -> FetchError:
    size = f"{limit / 1024 / 1024:g} MiB" if limit >= 1024 * 1024 else f"{limit:,} bytes"
    hint = "check that the address is the right one"
    return FetchError("too-long", f"the answer of {place} is longer than {size}", hint=hint)


def _timed_out(place: str, seconds: float) -> FetchError:
    hint = "try again later; check that the host can be reached from here"
    return FetchError("timeout", f"{place} did not answer within {seconds:g} s", hint=hint)


def _transport_problem(error: Exception, place: str) -> FetchError:
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            reason = f"the certificate of {place} is not trusted: {cause.verify_message}"
            return FetchError("tls", reason, hint="check the certificate, or $SSL_CERT_FILE")
        if isinstance(cause, ssl.SSLError):
            hint = "check whether the address should begin with http://"
            return FetchError("tls", f"{place} has an unexpected TLS response", hint=hint)
    if isinstance(error, httpcore2.ConnectError):
        hint = "check the address, and that the host can be reached from here"
        return FetchError("unreachable", f"{place} cannot be reached", hint=hint)
    if isinstance(error, httpcore2.ProxyError):
        return FetchError("proxy", "the proxy refused the connection", hint="check $HTTPS_PROXY")
    reason = f"{place} broke off in the middle of its answer"
    return FetchError("broken", reason, hint="try again later")


def _causes(error: BaseException | None) -> list[BaseException]:
    causes: list[BaseException] = []
    while error is not None and error not in causes:
        causes.append(error)
        error = error.__cause__ or error.__context__
    return causes


def _proxy_for(url: httpx2.URL) -> str:
    """Return the proxy of the environment for an address; empty for none."""
    if "public" not in reachable_classes(url.host, is_private=False):
        return ""  # this machine, or a private network
    if proxy_bypass(url.host):
        return ""
    proxies = getproxies()
    return proxies.get(url.scheme) or proxies.get("all") or ""


def _proxy_pool(proxy: str, context: ssl.SSLContext) -> Any:
    try:
        parsed = httpx2.URL(proxy if "://" in proxy else f"http://{proxy}")
    except (httpx2.InvalidURL, ValueError):
        raise FetchError("proxy", "the proxy that the environment names is no address") from None
    if parsed.scheme not in PORTS:
        hint = "name one of http:// or https:// in $HTTPS_PROXY"
        reason = f"proxies of the kind {quoted(parsed.scheme[:20])} are not supported"
        raise FetchError("proxy", reason, hint=hint)
    user = (parsed.username, parsed.password) if parsed.userinfo else None
    return httpcore2.AsyncHTTPProxy(
        proxy_url=httpcore2.URL(
            scheme=parsed.raw_scheme, host=parsed.raw_host, port=parsed.port, target=b"/"
        ),
        proxy_auth=user,
        ssl_context=context,
        max_connections=4,
    )
