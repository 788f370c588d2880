"""The exit codes of the program, and which error ends it with which."""

from __future__ import annotations

from enum import IntEnum

import click

from discovery_cli.errors import UnlistedServerError
from discovery_engine.enrichment.enrichment_error import EnrichmentError
from discovery_engine.errors import (
    ConfigurationError,
    DisabledError,
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
    UntrustedServerError,
    UpstreamError,
    UpstreamProtocolError,
)


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
    """`doctor` or `health` found problems, `refresh` unusable tools, `eval` a missed limit, or
    `lock` a difference."""
    CHANGES = 8
    """`plan` found that something would change."""
    INTERRUPTED = 130


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
    """The exit code of the most specific class of `error` in the table."""
    if isinstance(error, UnlistedServerError):
        return exit_code_of_failure(error.failure.code)
    return next(_EXIT_CODES[kind] for kind in type(error).__mro__ if kind in _EXIT_CODES)


def exit_code_of_failure(code: str) -> ExitCode:
    """The exit code for a server that could not be listed, by the `code` of its failure."""
    if code == UntrustedServerError.code:
        return ExitCode.DISABLED
    return ExitCode.SECRET_MISSING if code in _NEEDS_SECRET else ExitCode.UNREACHABLE
