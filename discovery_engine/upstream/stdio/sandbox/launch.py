"""How a program is started, with or without a sandbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from discovery_engine.errors import FailureKind, UnavailableError


class Launch(Struct, frozen=True):
    """How a program is started."""

    command: Sequence[str]
    env: Mapping[str, str]
    cwd: str | None
    confinement: tuple[str, ...] = ()
    """The words of its sandbox, for `confinement`."""
    sandbox: str = ""
    """The sandbox that confines it, described for people; empty without one."""
    temporary: str = ""
    """A folder to delete when it has ended."""


class SandboxError(UnavailableError):
    code = "SERVER_NEEDS_CONFIG"

    def __init__(self, server: str, reason: str, *, hint: str, detail: str = "") -> None:
        super().__init__(server, FailureKind.NEEDS_CONFIG, reason, hint=hint, detail=detail)
