"""The parameters of a program's start, with or without a sandbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from discovery_engine.errors import FailureKind, UnavailableError


class Launch(Struct, frozen=True):
    """The command, environment and sandbox with which a program is started."""

    command: Sequence[str]
    env: Mapping[str, str]
    cwd: str | None
    confinement: tuple[str, ...] = ()
    """The arguments of `confinement`, which sets up the sandbox; empty without one."""
    sandbox: str = ""
    """A description of the sandbox for people; empty without one."""
    temporary: str = ""
    """A folder to delete once the program has ended; empty if there is none."""


class SandboxError(UnavailableError):
    code = "SERVER_NEEDS_CONFIG"

    def __init__(self, server: str, reason: str, *, hint: str, detail: str = "") -> None:
        super().__init__(server, FailureKind.NEEDS_CONFIG, reason, hint=hint, detail=detail)
