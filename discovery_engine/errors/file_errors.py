"""Errors of files: the configuration, stored secrets, and what is remembered between runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from discovery_engine._util.text import one_line
from discovery_engine.diagnostics import Diagnostic, Origin
from discovery_engine.errors.discovery_error import DiscoveryError


class ConfigurationError(DiscoveryError):
    """The configuration cannot be used; `problems` lists everything that is wrong with it."""

    code = "CONFIGURATION_ERROR"

    def __init__(self, problems: Sequence[Diagnostic]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(problem.sentence for problem in self.problems))
        self.detail = one_line("; ".join(str(problem.origin) for problem in self.problems))

    @classmethod
    def of_file(cls, code: str, file: object, message: str, hint: str = "") -> Self:
        """One problem of a whole file, or of an option or variable that is called `file`."""
        return cls([Diagnostic(code, message, hint, origin=Origin(str(file)))])

    def __str__(self) -> str:
        return "\n".join(one_line(str(problem)) for problem in self.problems)


class SecretStoreError(DiscoveryError):
    code = "SECRET_STORE_ERROR"

    @classmethod
    def of_file(cls, file: object, message: str, *, hint: str = "") -> Self:
        """`message` goes on after the file."""
        return cls(f"{file} {message}", hint=hint)


class RegistryError(DiscoveryError):
    code = "REGISTRY_ERROR"


class RegistryUnavailableError(RegistryError):
    """The database of the registry does not answer now; the same may work later."""

    code = "REGISTRY_UNAVAILABLE"


class RegistryTimeoutError(RegistryUnavailableError):
    """One operation took too long, perhaps for a lock; others may work meanwhile."""

    code = "REGISTRY_TIMEOUT"
