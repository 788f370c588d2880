"""What broke an HTTP exchange, told from what the libraries raise."""

from __future__ import annotations

import errno
import socket
import ssl

import httpx2
import pytest

from discovery_engine.upstream.http.outage import outage
from tests.rows import rows

LIMITS = {"timeout": {"connect": 2.5, "read": 90.0}}


def untrusted() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = "self-signed certificate"
    return error


def raised(error: httpx2.RequestError, cause: BaseException | None = None) -> httpx2.RequestError:
    error.__cause__ = cause
    return error


@rows(
    ("error", "kind", "reason"),
    [
        pytest.param(
            raised(httpx2.ConnectError("oh"), socket.gaierror(-2, "Name or service not known")),
            "dns",
            "host 'shop.example' cannot be resolved",
            id="no-such-host",
        ),
        pytest.param(
            raised(
                httpx2.ConnectError("All connection attempts failed"),
                ExceptionGroup("oh", [OSError(errno.ENETUNREACH, "x"), ConnectionRefusedError()]),
            ),
            "refused",
            "connection refused by shop.example:443",
            id="refused",
        ),
        pytest.param(
            raised(
                httpx2.ConnectError("All connection attempts failed"),
                OSError(errno.EHOSTUNREACH, "No route to host"),
            ),
            "refused",
            "shop.example:443 cannot be reached: No route to host",
            id="no-route",
        ),
        pytest.param(
            raised(httpx2.ConnectError("oh"), untrusted()),
            "tls",
            "the certificate of shop.example:443 is not trusted: self-signed certificate",
            id="certificate",
        ),
        pytest.param(
            httpx2.ConnectTimeout(""),
            "timeout",
            "shop.example:443 took no connection within 2.5 s",
            id="connect-timeout",
        ),
        pytest.param(
            httpx2.ReadTimeout(""),
            "timeout",
            "shop.example:443 did not answer within 90 s",
            id="read-timeout",
        ),
        pytest.param(
            httpx2.RemoteProtocolError("Server disconnected"),
            "not_mcp",
            "shop.example:443 does not keep to HTTP: Server disconnected",
            id="not-http",
        ),
        pytest.param(
            raised(httpx2.ReadError(""), ConnectionResetError(104, "Connection reset by peer")),
            "other",
            "the connection to shop.example:443 broke: Connection reset by peer",
            id="reset",
        ),
        pytest.param(
            httpx2.DecodingError("bad gzip"), "other", "DecodingError: bad gzip", id="anything-else"
        ),
    ],
)
def test_what_broke_is_told_in_words(error: httpx2.RequestError, kind: str, reason: str) -> None:
    url = "https://user:secret@shop.example/mcp?key=secret"

    found = outage(error, httpx2.Request("POST", url, extensions=LIMITS))

    assert (found.kind, ": ".join(filter(None, (found.reason, found.detail)))) == (kind, reason)


def test_an_address_of_the_newer_kind_is_named_with_its_port() -> None:
    error = raised(httpx2.ConnectError("oh"), ConnectionRefusedError())

    found = outage(error, httpx2.Request("POST", "http://[::1]:8000/mcp"))

    assert found.reason == "connection refused by [::1]:8000"
