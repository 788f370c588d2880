"""Secrets in one file, each encrypted by itself with AES-256-GCM.

    {"version": 1, "key": {"place": "file", "id": "…"}, "check": "…", "secrets": {NAME: "…"}}

A secret is bound to its name: moved to another one it cannot be decrypted. One that is damaged
affects no other. The file is replaced atomically, by one process at a time, and never one that
cannot be read.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.file_lock import open_locked
from discovery_engine._util.files import read_regular, replace_file
from discovery_engine.errors import SecretStoreError
from discovery_engine.secrets.keys import KeyPlace, KeyRecord, Keys

FILE = "secrets.json"
_VERSION = 1
_NONCE = 12  # bytes
_MAX_SECRET_STORE_BYTES = 16 * 1024 * 1024  # bytes; a login takes some 4 KiB
_CHECK = b"discovery"
_PRIVATE = 0o600
_LOCK_TIMEOUT = 10.0  # seconds for another process that is writing
Stamp: TypeAlias = tuple[int, ...]
"""A version of the stored secrets: it differs after every change, also by another process."""
_ABSENT: Stamp = ()


class DamagedSecretError(SecretStoreError):
    """One secret cannot be decrypted, though its key is the right one; others can."""


class _Document(Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    key: KeyRecord
    check: str
    """A constant, encrypted: it shows whether a key is the right one."""
    secrets: Mapping[str, str] = {}
    """In base64: the nonce, and the encrypted secret."""


class EncryptedStore:
    """A store of secrets by name, in a folder; opening reads nothing.

    A name is a path: `oauth/SERVER/…` is a login. Names are not secret. Methods block, so they are
    called in threads; a caller that reads a secret makes it known to the redaction.
    """

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.path = folder / FILE
        self._keys = Keys(folder, environ)

    @property
    def exists(self) -> bool:
        return bool(self.stamp())

    def planned_key_place(self) -> KeyPlace:
        """Return the place in which the key of a first secret would be kept."""
        return self._keys.planned_place()

    def key_place(self) -> KeyPlace | None:
        """Return the place of the key of what is stored; None if nothing is stored.

        Raises:
            SecretStoreError: If the file cannot be read.
        """
        document = self._read()
        return document.key.place if document else None

    def verify(self) -> None:
        """Check that every secret can be decrypted.

        Raises:
            SecretStoreError: For the first that cannot be.
        """
        if document := self._read():
            key = self._key(document)
            for name, text in document.secrets.items():
                self._decrypt(key, document.key, name, text)

    def get(self, name: str) -> str | None:
        """The secret of that name; None if there is none.

        Raises:
            SecretStoreError: If it cannot be read or decrypted; nothing is changed then.
        """
        document = self._read()
        text = document.secrets.get(name) if document else None
        if document is None or text is None:
            return None
        return self._decrypt(self._key(document), document.key, name, text).decode()

    def set(self, name: str, value: str) -> None:
        """Store a secret.

        Raises:
            SecretStoreError: If it cannot be stored; what was stored before is unchanged.
        """
        with self._writing():
            document, outdated = self._read(), None
            if document is None:
                document = self._created(self._keys)
            elif self._keys.is_passphrase_given and document.key.place != "passphrase":
                outdated = document.key  # the passphrase was given after it was written
                document = self._encrypted_again(document, self._keys)
            encrypted = _encrypt(self._key(document), document.key, name, value.encode())
            self._write(replace(document, secrets={**document.secrets, name: encrypted}))
            if outdated:
                self._keys.discard(outdated)

    def delete(self, name: str) -> bool:
        """Delete a secret; returns whether there was one.

        Raises:
            SecretStoreError: As `set`.
        """
        with self._writing():
            document = self._read()
            if document is None or name not in document.secrets:
                return False
            rest = {other: text for other, text in document.secrets.items() if other != name}
            self._write(replace(document, secrets=rest))
            return True

    def rotate_key(self) -> KeyPlace | None:
        """Encrypt everything with a new key, in the best place there is; returns that place.

        None if nothing is stored. The old key is deleted after the new document is written. With
        $DISCOVERY_SECRET_NEW_KEY or $DISCOVERY_SECRETS_NEW_PASSPHRASE the new key is derived from
        that.

        Raises:
            SecretStoreError: If a secret cannot be decrypted, or the new key cannot be kept.
        """
        with self._writing():
            document = self._read()
            if document is None:
                return None
            new_keys = self._keys.with_new_passphrase()
            rewritten = self._encrypted_again(document, new_keys)
            self._write(rewritten)
            self._keys.discard(document.key)
            self._keys = new_keys
            return rewritten.key.place

    def require_usable(self) -> None:
        """Check that a secret could be stored now.

        Raises:
            SecretStoreError: If it could not be.
        """
        with self._writing():
            if document := self._read():
                self._key(document)

    def names(self) -> tuple[str, ...]:
        """The names of all secrets, in order; needs no key.

        Raises:
            SecretStoreError: If they cannot be read.
        """
        document = self._read()
        return tuple(sorted(document.secrets)) if document else ()

    def stamp(self) -> Stamp:
        """Cheap enough for every request: the metadata of one file."""
        try:
            status = os.stat(self.path)  # noqa: PTH116 - at every request
        except OSError:
            return _ABSENT
        return status.st_mtime_ns, status.st_ino, status.st_size

    @contextmanager
    def try_lock(self, name: str) -> Iterator[bool]:
        """Lock a name among processes if it is free; gives whether it is locked now."""
        digest = hashlib.sha256(name.encode()).hexdigest()[:16]
        descriptor = None
        try:
            with suppress(BlockingIOError):
                descriptor = self._open_lock(f"locks/{digest}", at_most=0.0)
            yield descriptor is not None
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _created(self, keys: Keys, instead_of: KeyRecord | None = None) -> _Document:
        record = keys.create(instead_of)
        check = _encrypt(keys.find(record), record, "", _CHECK)
        return _Document(_VERSION, record, check)

    def _encrypted_again(self, document: _Document, new_keys: Keys) -> _Document:
        """The document with a new key."""
        old, new_document = self._key(document), self._created(new_keys, document.key)
        new = new_keys.find(new_document.key)
        texts = {
            name: _encrypt(
                new, new_document.key, name, self._decrypt(old, document.key, name, text)
            )
            for name, text in document.secrets.items()
        }
        return replace(new_document, secrets=texts)

    def _key(self, document: _Document) -> bytes:
        key = self._keys.find(document.key)
        try:
            self._decrypt(key, document.key, "", document.check)
        except SecretStoreError:
            where = {
                "passphrase": "the passphrase is not the one that they were encrypted with",
                "file": f"{self._keys.file} is not the key that they were encrypted with",
                "keyring": "the keyring's key is not the one that they were encrypted with",
            }
            message = f"the stored secrets cannot be decrypted: {where[document.key.place]}"
            raise SecretStoreError(message, hint=_start_over(self.path)) from None
        return key

    def _decrypt(self, key: bytes, record: KeyRecord, name: str, text: str) -> bytes:
        # Only who has secrets loads it: it takes 60 ms to import.
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

        try:
            data = base64.b64decode(text, validate=True)
            return AESGCM(key).decrypt(data[:_NONCE], data[_NONCE:], _bound_to(record, name))
        except (InvalidTag, binascii.Error, ValueError) as error:
            message = f"the stored secret {name!r} is damaged: it cannot be decrypted"
            raise DamagedSecretError(message, hint=f"log in again; it is in {self.path}") from error

    def _read(self) -> _Document | None:
        try:
            content = read_regular(self.path, limit=_MAX_SECRET_STORE_BYTES)
            document = msgspec.json.decode(content, type=_Document)
        except FileNotFoundError:
            return None
        except OSError as error:
            reason = f"cannot be read: {error.strerror}"
            raise SecretStoreError.of_file(self.path, reason) from error
        except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
            raise SecretStoreError.of_file(
                self.path, "is damaged; it was left as it is", hint=_start_over(self.path)
            ) from error
        if document.version != _VERSION:
            raise SecretStoreError.of_file(
                self.path,
                f"is of version {document.version}, which this program does not know",
                hint="use the newer version of discovery that wrote it",
            )
        return document

    def _write(self, document: _Document) -> None:
        content = msgspec.json.format(msgspec.json.encode(document), indent=1)
        if len(content) > _MAX_SECRET_STORE_BYTES:
            reason = f"would have more than {_MAX_SECRET_STORE_BYTES // 1024**2} MiB"
            raise SecretStoreError.of_file(self.path, reason, hint="delete secrets of no use")
        try:
            replace_file(self.path, content, follows_link=False)
            self.path.chmod(_PRIVATE)
        except OSError as error:
            reason = f"cannot be written: {error.strerror}"
            raise SecretStoreError.of_file(self.path, reason) from error

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            descriptor = self._open_lock("secrets.lock", at_most=_LOCK_TIMEOUT)
        except BlockingIOError:
            reason = "is being written for too long"
            raise SecretStoreError.of_file(self.path, reason) from None
        try:
            yield
        finally:
            os.close(descriptor)

    def _open_lock(self, name: str, *, at_most: float) -> int:
        path = self.path.parent / name
        try:
            return open_locked(path, at_most=at_most)
        except BlockingIOError:
            raise
        except OSError as error:
            reason = f"cannot be opened: {error.strerror}"
            raise SecretStoreError.of_file(path, reason) from error


def _encrypt(key: bytes, record: KeyRecord, name: str, value: bytes) -> str:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - as above

    nonce = os.urandom(_NONCE)
    data = nonce + AESGCM(key).encrypt(nonce, value, _bound_to(record, name))
    return base64.b64encode(data).decode()


def _bound_to(record: KeyRecord, name: str) -> bytes:
    return f"{_VERSION}|{record.id}|{name}".encode()


def _start_over(path: Path) -> str:
    return f"restore it from a backup, or move {path} away and log in again"
