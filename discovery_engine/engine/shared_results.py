"""Long results in a database, so that their client reads on at any gateway that shares it.

The database has neither the handle of a result, nor its client, nor anything of its content: it is
found by a digest of both, and encrypted with a key that is another digest of them.
"""

from __future__ import annotations

import json
import logging
import struct
from typing import TYPE_CHECKING

from discovery_engine._util.digests import SIZE, blake2b
from discovery_engine.errors import RegistryError

if TYPE_CHECKING:
    from collections.abc import Collection

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    from discovery_engine.store.postgres_gateways import PostgresGateways

logger = logging.getLogger(__name__)

MOST_BYTES = 8 << 20
"""The most bytes of one result; writing it must not take as long as the database may."""
_NONCE = bytes(12)  # each key encrypts once
_PATH = struct.Struct(">I")  # its length


class SharedResults:
    """Each call may block; none raises because the database does not answer."""

    def __init__(self, store: PostgresGateways) -> None:
        self._store = store
        self._gone: set[bytes] = set()

    def put(self, handle: str, owner: str, path: str, data: bytes, *, lifetime: float) -> None:
        """Keep a result for so many seconds; without the database at this gateway alone."""
        if len(data) > MOST_BYTES:
            return
        encoded = path.encode("utf-8", "surrogatepass")
        plain = _PATH.pack(len(encoded)) + encoded + data
        result = _cipher(handle, owner).encrypt(_NONCE, plain, None)
        gone, self._gone = self._gone, set()
        try:
            self._store.keep_result(_key(handle, owner), result, lifetime=lifetime, instead_of=gone)
        except RegistryError as error:
            logger.info("A long result can be read at this gateway alone: %s", error)

    def get(self, handle: str, owner: str) -> tuple[str, bytes] | None:
        """The path and the bytes of a result; None if there is none."""
        try:
            result = self._store.result(_key(handle, owner))
        except RegistryError as error:
            logger.info("Long results of other gateways cannot be read: %s", error)
            return None
        if result is None:
            return None
        plain = _cipher(handle, owner).decrypt(_NONCE, result, None)
        end = _PATH.size + _PATH.unpack_from(plain)[0]
        return plain[_PATH.size : end].decode("utf-8", "surrogatepass"), plain[end:]

    def forget(self, handles: Collection[tuple[str, str]]) -> None:
        """Delete those of these handles and owners with the next one that is kept."""
        self._gone.update(_key(handle, owner) for handle, owner in handles)


def _key(handle: str, owner: str) -> bytes:
    return _digest(b"row", handle, owner)


def _cipher(handle: str, owner: str) -> AESGCM:
    # 45 ms to import, and few results are long.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

    return AESGCM(_digest(b"key", handle, owner))


def _digest(purpose: bytes, handle: str, owner: str) -> bytes:
    names = json.dumps([handle, owner]).encode()
    return blake2b(names, digest_size=SIZE, person=purpose).digest()
