"""Errors of installations: what is refused, what is missing, and what is not as it was."""

from __future__ import annotations

from collections.abc import Sequence

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

    def __init__(self, package: str, pinned: str, found: str) -> None:
        self.package = package
        self.pinned = pinned
        self.found = found
        super().__init__(
            f"{package} has other content than when it was pinned: {found}, not {pinned}",
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
