"""A program that cannot be confined as its entry demands is not started."""

from __future__ import annotations

from discovery_engine.errors import FailureKind, UnavailableError


class SandboxError(UnavailableError):
    code = "SERVER_NEEDS_CONFIG"

    def __init__(self, server: str, reason: str, *, hint: str, detail: str = "") -> None:
        super().__init__(server, FailureKind.NEEDS_CONFIG, reason, hint=hint, detail=detail)
