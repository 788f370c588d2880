"""Long results of tools, kept for the client that caused them: on disk, and where gateways share.

Each process has a folder of its own under `results`, and holds a lock in it: what a process that
was killed left there is removed by the next one. A handle is random and looked up in memory, so it
never becomes part of a path. The folder is bounded; the oldest results of the client that has the
most are dropped first, so that a flood of one client costs the others nothing.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine._util.digests import SIZE, blake2b
from discovery_engine._util.file_lock import lock_file
from discovery_engine.errors import DiscoveryError, RegistryError

if TYPE_CHECKING:
    from collections.abc import Collection

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    from discovery_engine.store.postgres_gateways import PostgresGateways

LIFE = 3600.0
"""Seconds for which a result is kept."""
MOST_BYTES = 64 << 20
"""The most bytes of all results of one process."""
_MAX_STORED_RESULTS = 1024  # results; each is a file
_FOLDER = "results"
_LOCK = "lock"
_HANDLE = 16  # random bytes
_PRIVATE = 0o600
_BINARY = getattr(os, "O_BINARY", 0)  # on Windows line ends would be changed without it


class ResultNotFoundError(DiscoveryError):
    """No such handle, or not this client's, or no longer kept: which one is not disclosed."""

    code = "RESULT_NOT_FOUND"

    def __init__(self) -> None:
        message = "no result is kept under this handle"
        super().__init__(message, hint="results are kept for an hour; call the tool again")


class KeptResult(Struct, frozen=True):
    owner: str | None
    """The client; None if there is only one."""
    file: str
    size: int
    until: float
    path: str
    """The part that was cut first, as a JMESPath expression."""


class ResultStore:
    """Safe to use from several threads. Nothing is written before the first result is kept."""

    def __init__(
        self,
        data: Path,
        *,
        clock: Callable[[], float],
        most_bytes: int = MOST_BYTES,
        shared: SharedResults | None = None,
    ) -> None:
        """`shared` has a second copy of what others than the only client read."""
        self._root = data / _FOLDER
        self._clock = clock
        self._most_bytes = most_bytes
        self._shared = shared
        self._kept: dict[str, KeptResult] = {}
        self._sizes: Counter[str | None] = Counter()
        self._lock = Lock()
        self._folder: Path | None = None
        self._descriptor = -1
        self._is_closed = False

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(self._sizes.values())

    def put(self, data: bytes, *, owner: str | None, path: str) -> str | None:
        """Keep a result; its handle, or None if it is too large or cannot be written."""
        if len(data) > self._most_bytes:
            return None
        with self._lock:
            if self._is_closed:
                return None
            self._expire()
            while (
                self.size + len(data) > self._most_bytes or len(self._kept) >= _MAX_STORED_RESULTS
            ):
                self._drop_one()
            handle = os.urandom(_HANDLE).hex()
            try:
                file = self._write(data)
            except OSError:
                return None
            until = self._clock() + LIFE
            self._kept[handle] = KeptResult(owner, file, len(data), until, path)
            self._sizes[owner] += len(data)
        if self._shared and owner is not None:
            self._shared.put(handle, owner, path, data, lifetime=LIFE)
        return handle

    def get(self, handle: str, *, owner: str | None) -> tuple[str, bytes]:
        """The path of a result and its bytes.

        Raises:
            ResultNotFoundError: If there is none, or it is another client's.
        """
        result = self._read(handle, owner)
        if result is None and self._shared and owner is not None:
            result = self._shared.get(handle, owner)
        if result is None:
            raise ResultNotFoundError
        return result

    def _read(self, handle: str, owner: str | None) -> tuple[str, bytes] | None:
        with self._lock:
            self._expire()
            result = self._kept.get(handle)
            if result is None or result.owner != owner:
                return None
            try:
                return result.path, self._path(result.file).read_bytes()
            except OSError:
                return None

    def expire(self) -> None:
        """Remove what is older than `LIFE`."""
        with self._lock:
            self._expire()

    def forget(self, owner: str | None) -> None:
        """Remove all results of a client that has left."""
        with self._lock:
            for handle in [h for h, result in self._kept.items() if result.owner == owner]:
                self._remove(handle)

    def close(self) -> None:
        """Remove all results, and the folder."""
        with self._lock:
            self._is_closed = True
            self._kept.clear()
            self._sizes.clear()
            if self._folder is not None:
                _remove_folder(self._folder)
                os.close(self._descriptor)
                self._folder, self._descriptor = None, -1

    def _expire(self) -> None:
        now = self._clock()
        for handle in [h for h, result in self._kept.items() if result.until <= now]:
            self._remove(handle)

    def _drop_one(self) -> None:
        """Drop the oldest result of the client with the most bytes."""
        [(owner, _)] = self._sizes.most_common(1)
        self._remove(next(h for h, result in self._kept.items() if result.owner == owner))

    def _remove(self, handle: str) -> None:
        result = self._kept.pop(handle)
        if self._shared and result.owner is not None:
            self._shared.forget([(handle, result.owner)])
        self._sizes[result.owner] -= result.size
        if not self._sizes[result.owner]:
            del self._sizes[result.owner]
        with contextlib.suppress(OSError):
            self._path(result.file).unlink()

    def _path(self, file: str) -> Path:
        if self._folder is None:
            self._folder, self._descriptor = _opened(self._root)
        return self._folder / file

    def _write(self, data: bytes) -> str:
        # The name is not the handle: who may list the folder still cannot read on over MCP.
        file = os.urandom(8).hex()
        path = self._path(file)
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | _BINARY, _PRIVATE)
        try:
            with os.fdopen(descriptor, "wb") as opened:
                opened.write(data)
        except OSError:
            with contextlib.suppress(OSError):
                path.unlink()
            raise
        return file


def _remove_folder(folder: Path) -> None:
    import shutil  # noqa: PLC0415 - with what unpacks archives, 3 ms of each start

    shutil.rmtree(folder, ignore_errors=True)


def _opened(root: Path) -> tuple[Path, int]:
    """A new folder of this process with a lock in it; folders of dead processes are removed."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in root.iterdir():
        if _is_abandoned(old):
            _remove_folder(old)
    name = f"{os.getpid()}-{os.urandom(4).hex()}"
    new = root / f".{name}"  # its lock must be held before others can find it
    new.mkdir(mode=0o700)
    descriptor = os.open(new / _LOCK, os.O_CREAT | os.O_EXCL | os.O_RDWR, _PRIVATE)
    try:
        with contextlib.suppress(OSError):  # where locks do not work, nothing is abandoned
            lock_file(descriptor)
        return new.rename(root / name), descriptor
    except OSError:
        os.close(descriptor)
        raise


def _is_abandoned(folder: Path) -> bool:
    if folder.name.startswith(".") or folder.is_symlink():
        return False
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDWR)
    except OSError:
        return False
    try:
        lock_file(descriptor)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)


# The database has neither the handle of a result, nor its client, nor anything of its content: it
# is found by a digest of both, and encrypted with a key that is another digest of them.

logger = logging.getLogger(__name__)

MOST_SHARED_BYTES = 8 << 20
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
        if len(data) > MOST_SHARED_BYTES:
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
