"""Errors of installations: what is refused, what is missing, and what is not as it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from discovery_engine._util.text import one_line
from discovery_engine.diagnostics import Diagnostic, Origin
from discovery_engine.errors.discovery_error import DiscoveryError
from discovery_engine.errors.refusals import NotFoundError


class InstallRefusedError(DiscoveryError):
    """An entry is not installed: what it asks for is unsafe, or cannot be run here."""

    code = "INSTALL_REFUSED"


class InvalidInputError(DiscoveryError):
    """A value that was given for an installation does not fit, or is asked for by nothing."""

    code = "INSTALL_INPUT_INVALID"


class MissingInputsError(DiscoveryError):
    """Values that the server requires were not given."""

    code = "INSTALL_INPUT_MISSING"

    def __init__(
        self, server: str, names: Sequence[str], secrets: Sequence[str], *, hint: str = ""
    ) -> None:
        """`names` are all that are missing; `secrets` are those of them that are secret."""
        self.server = server
        self.names = tuple(names)
        words = [f"--with {name}=…" for name in names if name not in secrets]
        words += (f"--secret {name}" for name in secrets)
        super().__init__(
            f"server {server!r} requires {', '.join(names)}",
            hint=hint or f"repeat the command with {' '.join(words)}",
        )


class PackageChangedError(DiscoveryError):
    """A package has other content than it had under the same version."""

    code = "PACKAGE_CHANGED"

    def __init__(self, package: str, pinned: str, actual: str) -> None:
        self.package = package
        self.pinned = pinned
        self.found = actual
        super().__init__(
            f"{package} has other content than when it was pinned: {actual}, not {pinned}",
            hint="do not use it; ask its publisher. A version that was published is not supposed"
            " to change",
        )


class InstallFailedError(DiscoveryError):
    """A package could not be fetched, unpacked or prepared; nothing was installed."""

    code = "INSTALL_FAILED"


class InstallBusyError(InstallFailedError):
    """Another process, or another request, is installing a server."""

    code = "INSTALL_BUSY"

    def __init__(self) -> None:
        super().__init__(
            "another process is installing a server", hint="wait for it to end, then try again"
        )


class NotInstalledError(NotFoundError):
    """The server was not installed from the marketplace, or has no earlier version."""

    code = "NOT_INSTALLED"

    def __init__(self, message: str, nearest: Sequence[str], *, hint: str = "") -> None:
        hint = hint or "`discovery list --installed` names those that were installed"
        super().__init__(message, nearest, hint=hint)


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


class MarketplaceEntryNotFoundError(NotFoundError):
    code = "MARKETPLACE_ENTRY_NOT_FOUND"

    def __init__(self, name: str, nearest: Sequence[str] = ()) -> None:
        hint = "`discovery marketplace search` finds names"
        super().__init__(f"no source of the marketplace has {name!r}", nearest, hint=hint)


class MarketplaceEntryAmbiguousError(NotFoundError):
    code = "MARKETPLACE_ENTRY_AMBIGUOUS"

    def __init__(self, name: str, candidates: Sequence[str]) -> None:
        self.candidates = tuple(candidates)
        """Each names one of them."""
        super().__init__(f"several servers are called {name!r}", candidates)


class MarketplaceSourceNotFoundError(NotFoundError):
    code = "MARKETPLACE_SOURCE_NOT_FOUND"

    def __init__(self, name: str, nearest: Sequence[str] = ()) -> None:
        hint = "`discovery marketplace sources` names them all"
        super().__init__(f"the marketplace has no source {name!r}", nearest, hint=hint)


class MarketplaceCursorError(DiscoveryError):
    code = "MARKETPLACE_CURSOR_INVALID"

    def __init__(self) -> None:
        super().__init__(
            "the cursor is of no page of the marketplace",
            hint="take the one of the page before, or begin without one",
        )
