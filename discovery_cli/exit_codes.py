"""The exit codes of the program, and the exit code of each error."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import click

from discovery_engine.errors import (
    ConfigurationError,
    DisabledError,
    FailureKind,
    InputRequiredError,
    InputTooLongError,
    InstallFailedError,
    InstallRefusedError,
    InvalidArgumentsError,
    InvalidInputError,
    InvalidPackageNameError,
    InvalidSecretError,
    LoginError,
    MarketplaceCursorError,
    MissingInputsError,
    NeedsAuthError,
    NeedsConfigError,
    NotFoundError,
    PackageChangedError,
    PackageManagerError,
    PlanChangedError,
    RegistryUnavailableError,
    SecretStoreError,
    UnavailableError,
    UntrustedServerError,
    UpstreamError,
    UpstreamProtocolError,
    plain_reason,
)
from discovery_engine.evaluation.enrichment.enrichment_error import EnrichmentError

if TYPE_CHECKING:
    from discovery_engine.catalog import Failure


class ExitCode(IntEnum):
    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    """Wrong usage or configuration, an unknown name, or no result."""
    TOOL_FAILED = 3
    DISABLED = 4
    UNREACHABLE = 5
    SECRET_MISSING = 6
    UNHEALTHY = 7
    """`doctor` or `health` found problems, `refresh` unusable tools, `tune eval` a missed limit,
    or `config lock` a difference."""
    CHANGES = 8
    """`tune plan` found that something would change."""
    INTERRUPTED = 130


class UnlistedServerError(UnavailableError):
    """The tools of a server are unknown, because they could not be listed."""

    def __init__(self, server: str, failure: Failure) -> None:
        self.failure = failure
        reason = plain_reason(server, failure.message)
        hint, stderr = failure.hint, failure.stderr
        super().__init__(server, FailureKind.OTHER, reason, hint=hint, stderr=stderr)
        self.detail = failure.detail


_EXIT_CODES: dict[type[BaseException], ExitCode] = {
    BaseException: ExitCode.UNEXPECTED,
    KeyboardInterrupt: ExitCode.INTERRUPTED,
    click.Abort: ExitCode.INTERRUPTED,
    click.UsageError: ExitCode.USAGE,
    ConfigurationError: ExitCode.USAGE,
    NotFoundError: ExitCode.USAGE,
    InputTooLongError: ExitCode.USAGE,
    InvalidArgumentsError: ExitCode.USAGE,
    InvalidInputError: ExitCode.USAGE,
    InvalidPackageNameError: ExitCode.USAGE,
    MarketplaceCursorError: ExitCode.USAGE,
    InvalidSecretError: ExitCode.USAGE,
    DisabledError: ExitCode.DISABLED,
    UpstreamError: ExitCode.UNREACHABLE,
    RegistryUnavailableError: ExitCode.UNREACHABLE,
    EnrichmentError: ExitCode.UNREACHABLE,
    InstallFailedError: ExitCode.UNREACHABLE,
    PackageManagerError: ExitCode.UNREACHABLE,
    UpstreamProtocolError: ExitCode.TOOL_FAILED,
    InputRequiredError: ExitCode.TOOL_FAILED,
    NeedsConfigError: ExitCode.SECRET_MISSING,
    NeedsAuthError: ExitCode.SECRET_MISSING,
    LoginError: ExitCode.SECRET_MISSING,
    SecretStoreError: ExitCode.SECRET_MISSING,
    MissingInputsError: ExitCode.SECRET_MISSING,
    UntrustedServerError: ExitCode.DISABLED,
    InstallRefusedError: ExitCode.DISABLED,
    PackageChangedError: ExitCode.DISABLED,
    PlanChangedError: ExitCode.DISABLED,
}
_NEEDS_SECRET = {NeedsConfigError.code, NeedsAuthError.code}


def exit_code(error: BaseException) -> ExitCode:
    """Return the exit code for the most specific class of `error` in the table."""
    if isinstance(error, UnlistedServerError):
        return exit_code_of_failure(error.failure.code)
    return next(_EXIT_CODES[kind] for kind in type(error).__mro__ if kind in _EXIT_CODES)


def exit_code_of_failure(code: str) -> ExitCode:
    """Return the exit code for a server that could not be listed, by its failure's code."""
    if code == UntrustedServerError.code:
        return ExitCode.DISABLED
    return ExitCode.SECRET_MISSING if code in _NEEDS_SECRET else ExitCode.UNREACHABLE
