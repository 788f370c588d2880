"""Errors of servers: failed calls, lost connections, missing values and logins."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Literal

from msgspec import Struct

from discovery_engine._util.quantities import counted
from discovery_engine._util.text import one_line, quoted
from discovery_engine.errors.diagnostic import Origin
from discovery_engine.errors.discovery_error import DiscoveryError

_INTERNAL_ERROR = -32603  # the JSON-RPC code


class UpstreamError(DiscoveryError):
    code = "TOOL_EXECUTION_ERROR"
    server: str

    def __init__(self, server: str, message: str, *, hint: str = "") -> None:
        self.server = server
        super().__init__(message, hint=hint)


class LoginError(UpstreamError):
    code = "LOGIN_FAILED"

    def __init__(self, server: str, reason: str, *, hint: str = "", detail: str = "") -> None:
        super().__init__(server, f"the login to server {server!r} failed: {reason}", hint=hint)
        self.reason = one_line(reason)
        self.detail = one_line(detail)


class ServerStartingError(UpstreamError):
    code = "SERVER_STARTING"

    def __init__(self, server: str, seconds: float | None) -> None:
        self.seconds = seconds
        """Seconds since the start began; None if it waits for a start slot."""
        self.retry_after = 5.0
        """Seconds after which a retry may succeed."""
        since = "" if seconds is None else f", {int(seconds)} s"
        super().__init__(
            server,
            f"server {server!r} is starting{since}: its tools are not known yet",
            hint="it goes on starting; try again in a few seconds",
        )


class RateLimitedError(UpstreamError):
    code = "RATE_LIMITED"

    def __init__(
        self, subject: str, calls_per_minute: int, retry_after: float, server: str | None = None
    ) -> None:
        self.retry_after = math.ceil(retry_after * 10) / 10
        """Seconds after which a retry may succeed, rounded up to tenths."""
        calls = counted(calls_per_minute, "call")
        super().__init__(
            server or "",
            f"{subject} takes at most {calls} a minute; nothing was sent",
            hint=f"try again in {self.retry_after:g} s",
        )


class UpstreamTimeoutError(UpstreamError):
    code = "TOOL_EXECUTION_TIMEOUT"

    def __init__(self, server: str, what: str, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(
            server,
            f"server {server!r} did not finish {what} within {seconds:g} s",
            hint=f"raise `timeouts` of server {server!r} if this is expected",
        )


class OutcomeUnknownError(UpstreamError):
    code = "TOOL_OUTCOME_UNKNOWN"

    def __init__(self, server: str, tool: str, reason: str) -> None:
        self.reason = reason
        super().__init__(
            server,
            f"server {server!r} went away during {tool!r} ({reason}): "
            "whether the work was done is unknown",
            hint="check the effect before calling again; it was not sent a second time",
        )


class InputRequiredError(UpstreamError):
    code = "TOOL_NEEDS_INPUT"

    def __init__(
        self, server: str, wanted: str, why: str, *, hint: str, capabilities: Sequence[str] = ()
    ) -> None:
        """Create the error; `capabilities` are those that the client would have to declare."""
        self.wanted = wanted
        self.why = why
        self.capabilities = capabilities
        super().__init__(server, f"server {server!r} wants {wanted}, but {why}", hint=hint)


class UpstreamProtocolError(UpstreamError):
    code = "TOOL_EXECUTION_ERROR"

    def __init__(self, server: str, message: str, rpc_code: int | None = None) -> None:
        """Create the error of an error answer, or without `rpc_code` of an invalid answer.

        `message` is the server's for an error answer, and our own for an invalid one.
        """
        self.given = message, rpc_code
        """The message and the code, for a recording of the call."""
        self.rpc_code = _INTERNAL_ERROR if rpc_code is None else rpc_code
        if rpc_code is None:
            text = f"sent an unusable answer: {message}"
        else:
            error = f"error {rpc_code}" if rpc_code else "an error"
            text = f"answered {error}" + (f": {quoted(message)}" if message else "")
        super().__init__(server, f"server {server!r} {text}")


class FailureKind(StrEnum):
    """The kind of reason why a server is unavailable."""

    NOT_FOUND = "not_found"
    PERMISSION = "permission"
    EXITED = "exited"
    TIMEOUT = "timeout"
    REFUSED = "refused"
    DNS = "dns"
    TLS = "tls"
    AUTH = "auth"
    SCOPE = "scope"
    HTTP = "http"
    NOT_MCP = "not_mcp"
    NEEDS_CONFIG = "needs_config"
    LOST = "lost"
    BUSY = "busy"
    UNTRUSTED = "untrusted"
    OTHER = "other"


_MORE = "`discovery health {server}` shows what is known of it"
_URL = "correct `url` of server {server!r}"
_NEXT_STEPS: Mapping[FailureKind, str] = {
    FailureKind.NOT_FOUND: "install it, or correct `command` of server {server!r}",
    FailureKind.PERMISSION: "make its program executable (`chmod +x`)",
    FailureKind.EXITED: "`discovery health {server}` shows what it wrote last",
    FailureKind.TIMEOUT: "raise `timeouts` of server {server!r} if it is slow",
    FailureKind.REFUSED: f"start the server that should listen there, or {_URL}",
    FailureKind.DNS: _URL,
    FailureKind.TLS: f"renew the certificate, or {_URL}",
    FailureKind.AUTH: "check the credentials in headers of server {server!r}",
    FailureKind.SCOPE: "`discovery login {server}`",
    FailureKind.HTTP: f"try again later, or {_URL}",
    FailureKind.NOT_MCP: "check that this is an MCP server",
    FailureKind.NEEDS_CONFIG: "`discovery config check` shows where",
    FailureKind.LOST: _MORE,
    FailureKind.BUSY: "try again in a moment",
    FailureKind.UNTRUSTED: "`discovery review servers` shows what would be started",
    FailureKind.OTHER: _MORE,
}
"""The default hint for each kind of failure."""


class UnavailableError(UpstreamError):
    code = "SERVER_CONNECTION_ERROR"

    def __init__(
        self,
        server: str,
        kind: FailureKind,
        reason: str,
        *,
        hint: str = "",
        stderr: str = "",
        detail: str = "",
    ) -> None:
        """Create the error; `hint` defaults to that of the kind.

        Agents read `reason`, so text of the server belongs in `detail` and `stderr`.
        """
        self.kind = kind
        self.reason = one_line(reason)
        self.stderr = stderr
        """The last stderr lines of the program; empty for a remote server."""
        self.retry_after: float | None = None
        """Seconds after which a retry may succeed; None if unknown."""
        self.was_open = False
        """True if the server has this transport, so that no earlier failure is reported instead."""
        hint = hint or _NEXT_STEPS[kind].format(server=server)
        super().__init__(server, f"server {server!r} is unavailable: {reason}", hint=hint)
        self.detail = one_line(detail)


def plain_reason(server: str, message: str) -> str:
    """Return a message without the name of its server, to show after that name."""
    plain = message.replace(f"server {server!r} is unavailable: ", "", 1)
    return plain.removeprefix(f"server {server!r} ")


_NOT_FOR_AGENTS = ("file:", "command:")
_OTHER_KINDS = ("file:", "secret:", "command:")


class MissingValue(Struct, frozen=True):
    """A `${reference}` of a server's entry that has no value."""

    field: str
    """The path of the field in the entry, such as `env.TOKEN`."""
    reference: str
    """The target of the reference, as `Reference.address`; empty if the value is invalid."""
    reason: str

    @property
    def is_variable(self) -> bool:
        return bool(self.reference) and not self.reference.startswith(_OTHER_KINDS)

    @property
    def is_secret(self) -> bool:
        return self.reference.startswith("secret:")


class NeedsConfigError(UnavailableError):
    code = "SERVER_NEEDS_CONFIG"

    def __init__(self, server: str, missing: Sequence[MissingValue], origin: Origin) -> None:
        self.missing = tuple(missing)
        super().__init__(
            server,
            FailureKind.NEEDS_CONFIG,
            "; ".join(f"{value.field}: {value.reason}" for value in self.missing),
            hint=_way_to_set(self.missing),
        )
        hidden = (m.reference for m in self.missing if m.reference.startswith(_NOT_FOR_AGENTS))
        place = [f"see {origin}"] if origin.file else []
        self.detail = "; ".join((*(f"${{{name}}}" for name in hidden), *place))


def _way_to_set(missing: Sequence[MissingValue]) -> str:
    names = dict.fromkeys(value.reference for value in missing if value.is_variable)
    secrets = dict.fromkeys(value.reference for value in missing if value.is_secret)
    if names:
        variables = " ".join(f"{name}=…" for name in names)
        word = "it" if len(names) + len(secrets) == 1 else "them"
        return (
            f"`discovery secrets set` asks for {word}; or `export {variables}` where discovery is"
            " started"
        )
    if secrets:
        commands = (f"`discovery secrets set {name.removeprefix('secret:')}`" for name in secrets)
        return "; ".join(commands)
    return f"give {missing[0].field} a value" if missing else ""


class NeedsAuthError(UnavailableError):
    code = "SERVER_NEEDS_AUTH"

    def __init__(
        self,
        server: str,
        reason: str,
        *,
        hint: str = "",
        kind: Literal[FailureKind.AUTH, FailureKind.SCOPE] = FailureKind.AUTH,
    ) -> None:
        """Create the error; `kind` is SCOPE if the token is valid, but not for this request."""
        super().__init__(server, kind, reason, hint=hint)


_APPROVE = "`discovery review servers` shows what would be started and asks for approval"
_REFUSALS = {
    "untrusted": ("the owner has not approved it yet", _APPROVE),
    "altered": ("what would be started now is not what was approved", _APPROVE),
    "unpinned": (
        "the lock file does not pin it as its entry is now",
        "`discovery config lock --check` shows its owner the difference",
    ),
}


class UntrustedServerError(UnavailableError):
    code = "SERVER_UNTRUSTED"

    def __init__(self, server: str, refusal: str, detail: str = "") -> None:
        self.refusal = refusal
        sentence, hint = _REFUSALS[refusal]
        super().__init__(server, FailureKind.UNTRUSTED, sentence, hint=hint)
        self.detail = detail
