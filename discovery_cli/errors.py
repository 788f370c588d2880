"""Errors that only commands raise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discovery_engine.errors import FailureKind, UnavailableError, plain_reason

if TYPE_CHECKING:
    from discovery_engine.catalog import Failure


class UnlistedServerError(UnavailableError):
    """The tools of a server are not known, because they could not be listed."""

    def __init__(self, server: str, failure: Failure) -> None:
        self.failure = failure
        reason = plain_reason(server, failure.message)
        hint, stderr = failure.hint, failure.stderr
        super().__init__(server, FailureKind.OTHER, reason, hint=hint, stderr=stderr)
        self.detail = failure.detail
