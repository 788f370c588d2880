"""Errors of servers that cannot be reached: the kind of failure, the reason and the next step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Literal

from msgspec import Struct

from discovery_engine._util.text import one_line
from discovery_engine.diagnostics import Origin
from discovery_engine.errors.upstream_errors import UpstreamError


class FailureKind(StrEnum):
    """Why a server cannot be reached."""

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
        """Agents read `reason`, so the server's own words belong into `detail` and `stderr`."""
        self.kind = kind
        self.reason = one_line(reason)
        self.stderr = stderr
        """The last lines that the program wrote before it failed."""
        self.retry_after: float | None = None
        """Seconds after which another try may succeed; None if nothing is known of that."""
        self.was_open = False
        """True if the server has this transport: its failure is reported, not an earlier one."""
        hint = hint or _NEXT_STEPS[kind].format(server=server)
        super().__init__(server, f"server {server!r} is unavailable: {reason}", hint=hint)
        self.detail = one_line(detail)


def plain_reason(server: str, message: str) -> str:
    """Why a server is unavailable, where its name stands before it already."""
    plain = message.replace(f"server {server!r} is unavailable: ", "", 1)
    return plain.removeprefix(f"server {server!r} ")


_NOT_FOR_AGENTS = ("file:", "command:")
_OTHER_KINDS = ("file:", "secret:", "command:")


class MissingValue(Struct, frozen=True):
    """A `${reference}` of a server's entry that has no value."""

    field: str
    """Where it stands in the entry, for instance `env.TOKEN`."""
    reference: str
    """The target, as `Reference.address` writes it; empty if the reference is malformed."""
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
        """`kind` is SCOPE if the server accepts the token, but not for this request."""
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
