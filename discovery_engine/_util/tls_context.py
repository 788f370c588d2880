"""The certificates that this machine trusts."""

from __future__ import annotations

import os
import ssl
import time
from functools import lru_cache

import anyio.to_thread
import httpx2

_TLS_CONTEXT_TTL = 3600.0  # seconds


def shared_tls_context() -> ssl.SSLContext:
    """Return the context of all clients, made again after an hour, or for other certificates.

    Making it takes 50 to 130 ms, more than all else that listing a server is: an event loop calls
    `load_tls_context` before.
    """
    named = tuple(map(os.environ.get, ("SSL_CERT_FILE", "SSL_CERT_DIR")))
    return _context(named, int(time.monotonic() // _TLS_CONTEXT_TTL))


async def load_tls_context() -> ssl.SSLContext:
    """Return `shared_tls_context`, which a thread makes if it is due."""
    return await anyio.to_thread.run_sync(shared_tls_context)


@lru_cache(maxsize=1)
def _context(_named: tuple[str | None, ...], _hour: int) -> ssl.SSLContext:
    return httpx2.create_ssl_context()
