"""Errors of packages: a name that none can have, one that is not there, and the manager's own."""

from __future__ import annotations

from collections.abc import Sequence

from discovery_engine.errors.discovery_error import DiscoveryError
from discovery_engine.errors.refusals import NotFoundError


class InvalidPackageNameError(DiscoveryError):
    """A name or a version is refused before any program reads it."""

    code = "PACKAGE_NAME_INVALID"


class PackageNotFoundError(NotFoundError):
    """The package manager knows no such package, no such version, or none that it may use."""

    code = "PACKAGE_NOT_FOUND"

    def __init__(self, message: str, nearest: Sequence[str] = (), *, hint: str = "") -> None:
        super().__init__(message, nearest, hint=hint)


class PackageManagerError(DiscoveryError):
    """The package manager failed, timed out, or returned what cannot be read."""

    code = "PACKAGE_MANAGER_FAILED"


class ProgramMissingError(PackageManagerError):
    """A program that is needed is not on the PATH."""

    code = "PROGRAM_MISSING"
    program: str

    def __init__(self, program: str, *, purpose: str, hint: str) -> None:
        self.program = program
        super().__init__(f"{program} is not on the PATH; it is needed {purpose}", hint=hint)
