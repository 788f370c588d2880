"""BLAKE2b, for digests that only this program compares.

`hashlib` has the same function, but loads OpenSSL: 3 ms, a twentieth of `discovery list`.
The standard library's own `random` avoids it in the same way.
"""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # pragma: no cover - another Python than CPython
    from hashlib import blake2b

__all__ = ["SIZE", "blake2b", "digest"]

SIZE = 32  # bytes of a digest


def digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=SIZE).digest()
