"""The errors of the engine, as one tree, and diagnostics.

An error ends the operation that raises it. A `Diagnostic` reports a problem of something that
continues, also with a code, a message and the next step. `codes` is the table of all codes.

    DiscoveryError
    ├── ConfigurationError              the configuration cannot be used; lists every problem
    ├── SecretStoreError                stored secrets cannot be read, decrypted or written
    ├── RegistryError                   the stored state cannot be read or written
    │   └── RegistryUnavailableError    the database of the registry does not answer now
    │       └── RegistryTimeoutError    one operation of it took too long; others may work
    │
    ├── NotFoundError
    │   ├── ServerNotFoundError         no such server; names the nearest
    │   ├── ViewNotFoundError           no such view in the configuration; names the nearest
    │   ├── WebhookNotFoundError        no such webhook in the configuration; names the nearest
    │   ├── ToolNotFoundError           no such tool; names the nearest
    │   ├── ToolAmbiguousError          several servers have a tool of that name
    │   ├── ResourceNotFoundError       no resource or template has that URI; names the nearest
    │   ├── ResourceAmbiguousError      it may be a URI of several servers
    │   ├── PromptNotFoundError         no such prompt; names the nearest
    │   ├── PromptAmbiguousError        several servers have a prompt of that name
    │   ├── NotInstalledError           the server was not installed from the marketplace
    │   ├── PackageNotFoundError        the package manager knows no such package or version
    │   ├── MarketplaceEntryNotFoundError   no source of the marketplace has it; names the nearest
    │   ├── MarketplaceEntryAmbiguousError  several servers of the marketplace have that name
    │   ├── MarketplaceSourceNotFoundError  no source of the marketplace is called that
    │   └── TaskNotFoundError           the client has no such task, or it has expired
    ├── DisabledError
    │   ├── ServerDisabledError         switched off in the configuration or by a rule
    │   ├── ToolDisabledError           switched off by a rule, which is named
    │   │   └── ToolWithheldError       its owner has not accepted its current definition
    │   └── OfferingDisabledError       switched off by a rule, or not accepted by its owner
    │       ├── FileWithheldError
    │       ├── ResourceDisabledError
    │       └── PromptDisabledError
    ├── PlanChangedError                the accepted plan differs from the current one
    ├── InputTooLongError               a query, a name or a list exceeds its limit
    ├── InvalidArgumentsError           the arguments do not fit the tool's schema
    ├── InvalidSecretError              no secret can have that name or value
    ├── MarketplaceCursorError          the cursor belongs to no page of results
    ├── InstallRefusedError             an entry is unsafe to install, or cannot run here
    ├── InvalidInputError               a value for an installation is invalid
    ├── MissingInputsError              required values for an installation are missing
    ├── PackageChangedError             a version of a package has other content than before
    ├── InstallFailedError              a package could not be fetched or prepared
    │   └── InstallBusyError            another process is installing a server
    ├── InvalidPackageNameError         no package can have that name or version
    ├── PackageManagerError             npm, pip or uv failed, or took too long
    │   └── ProgramMissingError         a program that is needed is not on the PATH
    │
    └── UpstreamError                   a server failed
        ├── UnavailableError            it cannot be reached; with the kind of failure
        │   ├── NeedsConfigError        a `${reference}` of its entry has no value
        │   ├── NeedsAuthError          it requires a login, or refuses the one that it got
        │   └── UntrustedServerError    its owner has not approved what would be started
        ├── LoginError                  a login to it failed; nothing was stored
        ├── ServerStartingError         it is still being started; nothing was sent
        ├── RateLimitedError            its calls of this minute are used up; nothing was sent
        ├── UpstreamTimeoutError        it did not answer in time
        ├── OutcomeUnknownError         the connection was lost during a call, done or not
        ├── InputRequiredError          a tool asked its user a question, and got no answer
        └── UpstreamProtocolError       it answered with a protocol error, or not with MCP

An error that only one module raises is defined there, as a further leaf. A tool that runs and fails
is not an error: its result has `isError`.

Every error has a stable `code`, a message and a hint, each of one line: untrusted names and texts
are quoted in them, and cannot begin a line.
"""

from discovery_engine.errors.diagnostic import Diagnostic, Origin
from discovery_engine.errors.discovery_error import DiscoveryError, concerning
from discovery_engine.errors.refusals import (
    ConfigurationError,
    DisabledError,
    FileWithheldError,
    InputTooLongError,
    InstallBusyError,
    InstallFailedError,
    InstallRefusedError,
    InvalidArgumentsError,
    InvalidInputError,
    InvalidPackageNameError,
    InvalidSecretError,
    MarketplaceCursorError,
    MarketplaceEntryAmbiguousError,
    MarketplaceEntryNotFoundError,
    MarketplaceSourceNotFoundError,
    MissingInputsError,
    NotFoundError,
    NotInstalledError,
    OfferingDisabledError,
    PackageChangedError,
    PackageManagerError,
    PackageNotFoundError,
    PlanChangedError,
    ProgramMissingError,
    PromptAmbiguousError,
    PromptDisabledError,
    PromptNotFoundError,
    RegistryError,
    RegistryTimeoutError,
    RegistryUnavailableError,
    ResourceAmbiguousError,
    ResourceDisabledError,
    ResourceNotFoundError,
    SecretStoreError,
    ServerDisabledError,
    ServerNotFoundError,
    TaskNotFoundError,
    ToolAmbiguousError,
    ToolDisabledError,
    ToolNotFoundError,
    ToolWithheldError,
    ViewNotFoundError,
    WebhookNotFoundError,
)
from discovery_engine.errors.upstream_errors import (
    FailureKind,
    InputRequiredError,
    LoginError,
    MissingValue,
    NeedsAuthError,
    NeedsConfigError,
    OutcomeUnknownError,
    RateLimitedError,
    ServerStartingError,
    UnavailableError,
    UntrustedServerError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamTimeoutError,
    plain_reason,
)

__all__ = [
    "ConfigurationError",
    "Diagnostic",
    "DisabledError",
    "DiscoveryError",
    "FailureKind",
    "FileWithheldError",
    "InputRequiredError",
    "InputTooLongError",
    "InstallBusyError",
    "InstallFailedError",
    "InstallRefusedError",
    "InvalidArgumentsError",
    "InvalidInputError",
    "InvalidPackageNameError",
    "InvalidSecretError",
    "LoginError",
    "MarketplaceCursorError",
    "MarketplaceEntryAmbiguousError",
    "MarketplaceEntryNotFoundError",
    "MarketplaceSourceNotFoundError",
    "MissingInputsError",
    "MissingValue",
    "NeedsAuthError",
    "NeedsConfigError",
    "NotFoundError",
    "NotInstalledError",
    "OfferingDisabledError",
    "Origin",
    "OutcomeUnknownError",
    "PackageChangedError",
    "PackageManagerError",
    "PackageNotFoundError",
    "PlanChangedError",
    "ProgramMissingError",
    "PromptAmbiguousError",
    "PromptDisabledError",
    "PromptNotFoundError",
    "RateLimitedError",
    "RegistryError",
    "RegistryTimeoutError",
    "RegistryUnavailableError",
    "ResourceAmbiguousError",
    "ResourceDisabledError",
    "ResourceNotFoundError",
    "SecretStoreError",
    "ServerDisabledError",
    "ServerNotFoundError",
    "ServerStartingError",
    "TaskNotFoundError",
    "ToolAmbiguousError",
    "ToolDisabledError",
    "ToolNotFoundError",
    "ToolWithheldError",
    "UnavailableError",
    "UntrustedServerError",
    "UpstreamError",
    "UpstreamProtocolError",
    "UpstreamTimeoutError",
    "ViewNotFoundError",
    "WebhookNotFoundError",
    "concerning",
    "plain_reason",
]
