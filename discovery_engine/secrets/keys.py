"""The key that secrets are encrypted with, and where it is kept.

    passphrase   derived from $DISCOVERY_SECRET_KEY or $DISCOVERY_SECRETS_PASSPHRASE, which is any
                 text, a random key as well as a passphrase; kept nowhere
    keyring      in the system's keyring, if the library `keyring` is there and has a working one
    file         in `secrets.key` beside the secrets, readable by its owner only: in base64, on a
                 line of its own; while there is more than one, each but the first has its id before

What each protects: a passphrase and the keyring protect secrets from all who copy the data
folder; a key file only if the copy lacks it, as a backup or a commit of the one file does. Programs
that run as the same user can read secrets in any case.
"""

from __future__ import annotations

import base64
import errno
import logging
import os
import secrets
import stat
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Literal, TypeAlias, TypeVar

from msgspec import Struct

from discovery_engine._util.files import replace_file
from discovery_engine.errors import SecretStoreError
from discovery_engine.errors.extras import extra_missing, missing_library

T = TypeVar("T")
KeyPlace: TypeAlias = Literal["passphrase", "keyring", "file"]

VARIABLE = "DISCOVERY_SECRETS_PASSPHRASE"
NEXT_VARIABLE = "DISCOVERY_SECRETS_NEW_PASSPHRASE"
KEY_VARIABLE = "DISCOVERY_SECRET_KEY"
NEXT_KEY_VARIABLE = "DISCOVERY_SECRET_NEW_KEY"
"""Other names for the same; they count where both are set."""
_SERVICE = "discovery"
_AES_KEY_BYTES = 32  # bytes, for AES-256
_MAX_KEY_FILE_BYTES = 64 * 1024  # bytes of a key file
_SALT = 16  # bytes
_COST = 2**15  # of scrypt: 32 MiB and 60 ms, once for each process
_PROBE = 3.0  # seconds; a keyring that cannot be unlocked may wait for an unseen dialog
_READ = 20.0  # seconds; a person may have to unlock it
_KEYRING_RETRY_DELAY = 30.0  # seconds after which a keyring that gave no key is asked again
_LEAST_PRIORITY = 1  # of a keyring that encrypts: the plain files of `keyrings.alt` have less
_PRIVATE = 0o600
_ANY = ""
"""The id of a key that is alone in its file."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

logger = logging.getLogger(__name__)


class KeyRecord(Struct, frozen=True, omit_defaults=True):
    """The key that a file was encrypted with."""

    place: KeyPlace
    id: str
    salt: str = ""
    """In base64; for a passphrase."""


class Keys:
    """Makes and finds keys; `folder` has the key file."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.file = folder / "secrets.key"
        self._folder = folder
        self._passphrase = environ.get(KEY_VARIABLE) or environ.get(VARIABLE, "")
        self._next = environ.get(NEXT_KEY_VARIABLE) or environ.get(NEXT_VARIABLE, "")
        self._ask_again_at: dict[KeyRecord, float] = {}
        """From when on the keyring may be asked for a key again, in monotonic seconds."""
        self._found: dict[KeyRecord, bytes] = {}

    @property
    def is_passphrase_given(self) -> bool:
        return bool(self._passphrase)

    def planned_place(self) -> KeyPlace:
        """Return the place of a new key, if the keyring keeps it."""
        if self._passphrase:
            return "passphrase"
        return "keyring" if working_keyring() else "file"

    def create(self, instead_of: KeyRecord | None = None) -> KeyRecord:
        """A new key, kept in the best place there is.

        The key that it replaces is kept beside it, until `discard`.

        Raises:
            SecretStoreError: If it cannot be kept anywhere.
        """
        if self._passphrase:
            salt = base64.b64encode(secrets.token_bytes(_SALT)).decode()
            return KeyRecord("passphrase", _new_id(), salt)
        record, key = KeyRecord("keyring", _new_id()), secrets.token_bytes(_AES_KEY_BYTES)
        if working_keyring() and _is_kept_in_keyring(record.id, key):
            self._found[record] = key
            return record
        record = KeyRecord("file", _new_id())
        try:
            keys = self._kept() if self.file.exists() else {}
            if instead_of and instead_of.place == "file":
                # Others are of changes that were cut short.
                name = instead_of.id if instead_of.id in keys else _ANY
                keys = {name: keys[name]}
            self._keep(keys | {record.id: base64.b64encode(key)})
        except (OSError, ValueError) as error:
            raise SecretStoreError.of_file(self.file, _reason(error)) from error
        self._found[record] = key
        return record

    def find(self, record: KeyRecord) -> bytes:
        """The key of a record.

        Raises:
            SecretStoreError: If it cannot be found.
        """
        if (key := self._found.get(record)) is None:
            key = self._found[record] = self._key(record)
        return key

    def with_new_passphrase(self) -> Keys:
        """The keys of the passphrase that is to follow; these, if none is given."""
        return Keys(self._folder, {VARIABLE: self._next}) if self._next else self

    def discard(self, record: KeyRecord) -> None:
        """Delete a key that nothing is encrypted with any more; failures are only logged."""
        self._found.pop(record, None)
        if record.place == "file":
            with suppress(OSError, ValueError):
                keys = self._kept()
                keys.pop(record.id if record.id in keys else _ANY, None)
                self._keep(keys)
        elif record.place == "keyring":
            _in_time(lambda: _keyring().delete_password(_SERVICE, record.id), _PROBE)

    def _key(self, record: KeyRecord) -> bytes:
        match record.place:
            case "passphrase":
                return self._derived(record)
            case "keyring":
                return self._from_keyring(record)
            case "file":
                return self._from_file(record)

    def _derived(self, record: KeyRecord) -> bytes:
        # Only who has secrets loads it: it takes 60 ms to import.
        from cryptography.hazmat.primitives.kdf.scrypt import Scrypt  # noqa: PLC0415

        if not self._passphrase:
            raise SecretStoreError(
                "the stored secrets are encrypted with a passphrase, which is not set",
                hint=f"set {KEY_VARIABLE} or {VARIABLE} where discovery is started",
            )
        derive = Scrypt(base64.b64decode(record.salt), _AES_KEY_BYTES, n=_COST, r=8, p=1)
        return derive.derive(self._passphrase.encode(errors="surrogateescape"))

    def _from_keyring(self, record: KeyRecord) -> bytes:
        text = None
        # A locked keyring takes its time for each question, and each secret asks.
        if time.monotonic() >= self._ask_again_at.get(record, 0.0):
            text = _in_time(lambda: _keyring().get_password(_SERVICE, record.id), _READ)
            self._ask_again_at[record] = time.monotonic() + _KEYRING_RETRY_DELAY
        if text is None and (library := missing_library("keyring")):
            purpose = "reading the key of the stored secrets from the system's keyring"
            problem = extra_missing("keyring", purpose, library)
            raise SecretStoreError(problem.message, hint=problem.hint)
        if text is None:
            raise SecretStoreError(
                "the key of the stored secrets is in the system's keyring, which does not give it",
                hint="unlock the keyring; `discovery doctor` shows whether one works here",
            )
        return base64.b64decode(text)

    def _from_file(self, record: KeyRecord) -> bytes:
        try:
            keys = self._kept()
            if (text := keys.get(record.id, keys.get(_ANY))) is None:
                reason = "is not the key that the stored secrets were encrypted with"
                raise SecretStoreError.of_file(self.file, reason)
            key = base64.b64decode(text, validate=True)
        except FileNotFoundError as error:
            raise SecretStoreError.of_file(
                self.file, "is gone, and the stored secrets cannot be decrypted without it"
            ) from error
        except (OSError, ValueError) as error:
            raise SecretStoreError.of_file(self.file, _reason(error)) from error
        if len(key) != _AES_KEY_BYTES:
            raise SecretStoreError.of_file(self.file, "holds no key")
        return key

    def _kept(self) -> dict[str, bytes]:
        """The keys of the file in base64, by id, in order; one without an id has `_ANY`.

        Raises:
            OSError, ValueError: If it cannot be read, or is no file of keys.
        """
        keys = {}
        for line in _read_private(self.file).splitlines():
            name, _, text = line.decode("ascii").rpartition(" ")
            keys[name or _ANY] = text.encode()
        if not keys:
            raise ValueError("it holds no key")
        return keys

    def _keep(self, keys: Mapping[str, bytes]) -> None:
        """Write the file; a key that is alone in it is written without its id, as it always was."""
        if not keys:
            self.file.unlink()
            return
        if len(keys) == 1:
            keys = {_ANY: next(iter(keys.values()))}
        lines = (name.encode() + b" " + text if name else text for name, text in keys.items())
        replace_file(self.file, b"\n".join(lines), follows_link=False)


def working_keyring() -> str:
    """The name of the system's keyring; empty if there is none that works and encrypts."""
    return _in_time(_keyring_name, _PROBE) or ""


def _keyring_name() -> str:
    backend = _keyring().get_keyring()
    name = f"{type(backend).__module__}.{type(backend).__qualname__}"
    # Without a desktop there is the backend `fail`; `null` was chosen to store nothing.
    works = ".fail." not in name and ".null." not in name and backend.priority >= _LEAST_PRIORITY
    return str(backend.name) if works else ""


def _keyring() -> ModuleType:
    import keyring

    return keyring


def _is_kept_in_keyring(name: str, key: bytes) -> bool:
    """Store a key in the keyring; return whether the keyring gives it back."""
    text = base64.b64encode(key).decode()

    def keep() -> bool:
        library = _keyring()
        library.set_password(_SERVICE, name, text)
        return bool(library.get_password(_SERVICE, name) == text)

    return _in_time(keep, _PROBE) or False


def _in_time(work: Callable[[], T], seconds: float) -> T | None:
    """The result of a call to the keyring; None if it fails or takes too long.

    A keyring may wait for ever for a dialog, so it is called in a thread that ends with the
    process.
    """
    results: list[T] = []

    def run() -> None:
        try:
            results.append(work())
        except Exception as error:  # noqa: BLE001 - a backend may raise anything
            logger.info("The system's keyring cannot be used: %s", type(error).__name__)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    return results[0] if results else None


def _read_private(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | _NO_LINKS)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "is no regular file")
        if os.name == "posix" and (status.st_mode & _OTHERS or status.st_uid != os.geteuid()):
            raise PermissionError(errno.EACCES, f"others may read it: `chmod 600 {path}`")
        return file.read(_MAX_KEY_FILE_BYTES)


def _new_id() -> str:
    return secrets.token_hex(8)


def _reason(error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) else "it holds no key"
    return f"cannot be used: {reason}"
