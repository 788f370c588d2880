"""Keyrings of the real library `keyring`, for tests."""

from __future__ import annotations

import threading

import keyring.backend
import keyring.errors


class MemoryKeyring(keyring.backend.KeyringBackend):
    """A working keyring whose passwords last as long as it does."""

    priority = 5

    def __init__(self, priority: float = 5) -> None:
        super().__init__()
        self.priority = priority  # type: ignore[assignment]
        self.passwords: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.passwords.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.passwords[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if self.passwords.pop((service, username), None) is None:
            raise keyring.errors.PasswordDeleteError("there is none")


class FailingKeyring(MemoryKeyring):
    """One that is there, and locked."""

    def get_password(self, service: str, username: str) -> str | None:
        raise keyring.errors.KeyringLocked("it is locked")

    def set_password(self, service: str, username: str, password: str) -> None:
        raise keyring.errors.KeyringLocked("it is locked")


class HangingKeyring(MemoryKeyring):
    """One that waits for a dialog that nobody sees."""

    def get_password(self, service: str, username: str) -> str | None:
        threading.Event().wait()
        return None

    set_password = get_password  # type: ignore[assignment]
