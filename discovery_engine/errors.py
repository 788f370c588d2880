"""Every error that the engine raises, as one tree.

    DiscoveryError
    ├── ConfigurationError          the configuration cannot be used; lists every problem
    ├── NotFoundError
    │   ├── ServerNotFoundError     no such server; names the nearest
    │   ├── ToolNotFoundError       no such tool; names the nearest
    │   ├── ToolAmbiguousError      several servers have a tool of that name
    │   ├── ResourceNotFoundError   no resource or template has that URI; names the nearest
    │   ├── ResourceAmbiguousError  it may be a URI of several servers
    │   ├── PromptNotFoundError     no such prompt; names the nearest
    │   └── PromptAmbiguousError    several servers have a prompt of that name
    ├── DisabledError
    │   ├── ServerDisabledError     switched off in the configuration or by a rule
    │   └── ToolDisabledError       switched off by a rule, which is named
    │   │   └── ToolWithheldError   its owner has not accepted its present definition
    │   └── OfferingDisabledError   switched off by a rule, or not accepted by its owner
    │       ├── ResourceDisabledError
    │       └── PromptDisabledError
    ├── InputTooLongError           a query, a name or a list is longer than any may be
    ├── InvalidArgumentsError       the arguments do not fit the tool's schema
    ├── UpstreamError               a server did not do its part
    │   ├── UnavailableError        it cannot be reached; with the kind of failure and the reason
    │   │   ├── NeedsConfigError    a `${reference}` of its entry has no value
    │   │   ├── NeedsAuthError      it wants a login or refuses the one it got
    │   │   └── UntrustedServerError    its owner has not approved what would be started
    │   ├── LoginError              a login to it failed; nothing was stored
    │   ├── ServerStartingError     it is still being started; nothing was sent
    │   ├── RateLimitedError        its calls of this minute are used up; nothing was sent
    │   ├── UpstreamTimeoutError    it did not answer in time
    │   ├── OutcomeUnknownError     it went away during a call: the work may or may not be done
    │   ├── InputRequiredError      a tool asked its user something, and got no answer
    │   └── UpstreamProtocolError   it answered with a protocol error
    ├── SecretStoreError            stored secrets cannot be read, decrypted or written
    └── RegistryError               what is remembered between runs cannot be read or written

A tool that runs and fails is not an error: its result has `isError`. Catch broad above,
narrow below; every error has a stable `code`, a message, and a hint on what to do. Each is one
line: untrusted names and texts are quoted in them, and cannot begin a line.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, ClassVar, Literal, Self

from msgspec import Struct

from discovery_engine._util.quantities import counted
from discovery_engine._util.text import one_line, quoted
from discovery_engine.diagnostics import Diagnostic, Origin


class DiscoveryError(Exception):
    """Whatever the engine raises: a stable `code`, a message, and a hint on what to do."""

    code: ClassVar[str] = "DISCOVERY_ERROR"
    server: str | None = None
    """The server that it is about, if it is about one."""
    tool: str | None = None
    """The tool that was called or asked for, if one was."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.message = one_line(message)
        self.hint = one_line(hint)
        self.detail = ""
        """More, for the owner alone: it may name files of the owner's disk, and hidden tools."""
        super().__init__(self.message)

    def concerning(self, server: str | None, tool: str) -> Self:
        """The same error, with these names where it has none yet.

        A copy, as several callers may get one failure.
        """
        lacking = {"server": server, "tool": tool}
        lacking = {k: v for k, v in lacking.items() if v and getattr(self, k) is None}
        if not lacking:
            return self
        return self._copy(lacking)

    def with_hint(self, further: str) -> Self:
        """The same error with a further hint; a copy."""
        return self._copy({"hint": "; ".join(filter(None, (self.hint, one_line(further))))})

    def _copy(self, changes: dict[str, Any]) -> Self:
        copy = type(self).__new__(type(self))
        copy.args = self.args
        copy.__dict__ |= vars(self) | changes
        return copy


@contextmanager
def concerning(server: str | None, tool: str) -> Iterator[None]:
    """A block that is about a tool: so is every error that it raises."""
    try:
        yield
    except DiscoveryError as error:
        named = error.concerning(server, tool)
        if named is error:
            raise
        raise named from error


class ConfigurationError(DiscoveryError):
    """The configuration cannot be used; `problems` lists everything that is wrong with it."""

    code = "CONFIGURATION_ERROR"

    def __init__(self, problems: Sequence[Diagnostic]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(problem.sentence for problem in self.problems))
        self.detail = one_line("; ".join(str(problem.origin) for problem in self.problems))

    @classmethod
    def of_file(cls, code: str, file: object, message: str, hint: str = "") -> Self:
        """One problem of a whole file, or of an option or variable that is called `file`."""
        return cls([Diagnostic(code, message, hint, origin=Origin(str(file)))])

    def __str__(self) -> str:
        return "\n".join(one_line(str(problem)) for problem in self.problems)


class NotFoundError(DiscoveryError):
    code = "NOT_FOUND"

    def __init__(self, message: str, nearest: Sequence[str], *, hint: str = "") -> None:
        self.nearest = tuple(nearest)
        meant = f"did you mean {' or '.join(map(repr, self.nearest))}?" if self.nearest else ""
        super().__init__(message, hint="; ".join(filter(None, (meant, hint))))


class ServerNotFoundError(NotFoundError):
    code = "SERVER_NOT_FOUND"
    server: str

    def __init__(self, server: str, nearest: Sequence[str] = ()) -> None:
        self.server = server
        super().__init__(
            f"server {server!r} is not configured", nearest, hint="list_mcp_servers names them all"
        )


class ViewNotFoundError(NotFoundError):
    code = "VIEW_NOT_FOUND"

    def __init__(self, view: str, nearest: Sequence[str] = ()) -> None:
        super().__init__(
            f"the configuration has no view {view!r}", nearest, hint="`views:` has their names"
        )


class ToolNotFoundError(NotFoundError):
    code = "TOOL_NOT_FOUND"
    tool: str

    def __init__(
        self, server: str | None, tool: str, nearest: Sequence[str] = (), hidden: Sequence[str] = ()
    ) -> None:
        """`hidden` are near names that may not be used, each with why; for the owner alone."""
        self.server = server
        self.tool = tool
        place = f"server {server!r} has no tool" if server else "no server has a tool"
        super().__init__(f"{place} {tool!r}", nearest, hint="list_tools names a server's tools")
        self.detail = one_line(f"near, but disabled: {', '.join(hidden)}") if hidden else ""


class ToolAmbiguousError(NotFoundError):
    code = "TOOL_AMBIGUOUS"
    tool: str

    def __init__(self, tool: str, candidates: Sequence[str]) -> None:
        self.tool = tool
        super().__init__(f"several servers have a tool {tool!r}", candidates)


class ResourceNotFoundError(NotFoundError):
    code = "RESOURCE_NOT_FOUND"

    def __init__(self, uri: str, nearest: Sequence[str] = (), *, server: str | None = None) -> None:
        self.server = server
        self.tool = uri
        place = f"server {server!r} has" if server else "there is"
        hint = "`resources/list` and `discovery resources` name them"
        super().__init__(f"{place} no resource {uri!r}", nearest, hint=hint)


class ResourceAmbiguousError(NotFoundError):
    code = "RESOURCE_AMBIGUOUS"

    def __init__(self, uri: str, candidates: Sequence[str]) -> None:
        self.tool = uri
        super().__init__(f"several servers may have a resource {uri!r}", candidates)


class PromptNotFoundError(NotFoundError):
    code = "PROMPT_NOT_FOUND"

    def __init__(
        self, name: str, nearest: Sequence[str] = (), *, server: str | None = None
    ) -> None:
        self.server = server
        self.tool = name
        place = f"server {server!r} has" if server else "no server has"
        noun = "no prompt" if server else "a prompt"
        hint = "`prompts/list` and `discovery prompts` name them"
        super().__init__(f"{place} {noun} {name!r}", nearest, hint=hint)


class PromptAmbiguousError(NotFoundError):
    code = "PROMPT_AMBIGUOUS"

    def __init__(self, name: str, candidates: Sequence[str]) -> None:
        self.tool = name
        super().__init__(f"several servers have a prompt {name!r}", candidates)


class DisabledError(DiscoveryError):
    code = "DISABLED"


class ServerDisabledError(DisabledError):
    code = "SERVER_DISABLED"
    server: str

    def __init__(self, server: str, reason: str, detail: str = "") -> None:
        self.server = server
        super().__init__(f"server {server!r} is disabled: {reason}")
        self.detail = one_line(detail)


class ToolDisabledError(DisabledError):
    code = "TOOL_DISABLED"
    server: str
    tool: str

    def __init__(self, server: str, tool: str, reason: str, detail: str = "") -> None:
        self.server = server
        self.tool = tool
        super().__init__(
            f"tool {f'{server}:{tool}'!r} is disabled: {reason}",
            hint="the owner of the configuration decides this; use another tool",
        )
        self.detail = one_line(detail)


class ToolWithheldError(ToolDisabledError):
    code = "TOOL_WITHHELD"

    def __init__(self, server: str, tool: str, reason: str, *, command: str) -> None:
        self.command = command
        """What its owner can look at it with."""
        super().__init__(server, tool, reason)
        advice = f"its owner can look at it with `{command}`; use another tool until then"
        self.hint = one_line(advice)


class OfferingDisabledError(DisabledError):
    """A resource or a prompt is switched off, or withheld."""

    noun: ClassVar[str]

    def __init__(
        self, server: str, name: str, reason: str, *, detail: str = "", command: str = ""
    ) -> None:
        """`command` is what its owner can look at it with, if it is withheld."""
        self.server = server
        self.tool = name
        self.command = command
        hint = "the owner of the configuration decides this; use another one"
        if command:
            hint = f"its owner can look at it with `{command}`; use another one until then"
        super().__init__(
            f"{self.noun} {name!r} of server {server!r} is disabled: {reason}", hint=hint
        )
        self.detail = one_line(detail)


class ResourceDisabledError(OfferingDisabledError):
    code = "RESOURCE_DISABLED"
    noun = "resource"


class PromptDisabledError(OfferingDisabledError):
    code = "PROMPT_DISABLED"
    noun = "prompt"


class InputTooLongError(DiscoveryError):
    code = "INPUT_TOO_LONG"

    def __init__(self, what: str, size: str, limit: str, *, hint: str) -> None:
        """`what` is too long; how long it is, and how long it may be, each with its unit."""
        self.size = size
        self.limit = limit
        super().__init__(f"{what} is too long: {size}, at most {limit}", hint=hint)


class InvalidArgumentsError(DiscoveryError):
    code = "INVALID_ARGUMENTS"
    server: str
    tool: str

    def __init__(self, server: str, tool: str, mistakes: Sequence[str], signature: str) -> None:
        self.server = server
        self.tool = tool
        self.mistakes = tuple(mistakes)
        self.signature = signature
        super().__init__(
            f"arguments of {f'{server}:{tool}'!r} do not fit: {'; '.join(self.mistakes)}",
            hint=f"it takes {signature}",
        )


class UpstreamError(DiscoveryError):
    code = "TOOL_EXECUTION_ERROR"
    server: str

    def __init__(self, server: str, message: str, *, hint: str = "") -> None:
        self.server = server
        super().__init__(message, hint=hint)


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
    FailureKind.NEEDS_CONFIG: "`discovery config validate` shows where",
    FailureKind.LOST: _MORE,
    FailureKind.BUSY: "try again in a moment",
    FailureKind.UNTRUSTED: "`discovery trust` shows what would be started",
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
        hint = hint or _NEXT_STEPS[kind].format(server=server)
        super().__init__(server, f"server {server!r} is unavailable: {reason}", hint=hint)
        self.detail = one_line(detail)


def plain_reason(server: str, message: str) -> str:
    """Why a server is unavailable, where its name stands before it already."""
    plain = message.replace(f"server {server!r} is unavailable: ", "", 1)
    return plain.removeprefix(f"server {server!r} ")


class MissingValue(Struct, frozen=True):
    """A `${reference}` of a server's entry that has no value."""

    field: str
    """Where it stands in the entry, for instance `env.TOKEN`."""
    reference: str
    """What it refers to: a variable's name, or `file:` and a path; empty if it is malformed."""
    reason: str

    @property
    def is_variable(self) -> bool:
        return bool(self.reference) and not self.reference.startswith("file:")


class NeedsConfigError(UnavailableError):
    code = "SERVER_NEEDS_CONFIG"

    def __init__(self, server: str, missing: Sequence[MissingValue], origin: Origin) -> None:
        self.missing = tuple(missing)
        super().__init__(
            server,
            FailureKind.NEEDS_CONFIG,
            "; ".join(f"{one.field}: {one.reason}" for one in self.missing),
            hint=_way_to_set(self.missing),
        )
        files = (f"${{{m.reference}}}" for m in self.missing if m.reference and not m.is_variable)
        place = [f"see {origin}"] if origin.file else []
        self.detail = "; ".join((*files, *place))


def _way_to_set(missing: Sequence[MissingValue]) -> str:
    names = dict.fromkeys(one.reference for one in missing if one.is_variable)
    if names:
        return f"`export {' '.join(f'{name}=…' for name in names)}` where discovery is started"
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


class LoginError(UpstreamError):
    code = "LOGIN_FAILED"

    def __init__(self, server: str, reason: str, *, hint: str = "", detail: str = "") -> None:
        super().__init__(server, f"the login to server {server!r} failed: {reason}", hint=hint)
        self.reason = one_line(reason)
        self.detail = one_line(detail)


_APPROVE = "`discovery trust` shows what would be started and asks for approval"
_REFUSALS = {
    "untrusted": ("the owner has not approved it yet", _APPROVE),
    "altered": ("what would be started now is not what was approved", _APPROVE),
    "unpinned": (
        "the lock file does not pin it as its entry is now",
        "`discovery lock --check` shows its owner the difference",
    ),
}


class UntrustedServerError(UnavailableError):
    code = "SERVER_UNTRUSTED"

    def __init__(self, server: str, refusal: str, detail: str = "") -> None:
        self.refusal = refusal
        sentence, hint = _REFUSALS[refusal]
        super().__init__(server, FailureKind.UNTRUSTED, sentence, hint=hint)
        self.detail = detail


class ServerStartingError(UpstreamError):
    code = "SERVER_STARTING"

    def __init__(self, server: str, seconds: float | None) -> None:
        self.seconds = seconds
        """For how long it has been starting; None if it waits for its turn."""
        self.retry_after = 5.0
        """Seconds after which another try may succeed."""
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
        """Seconds after which another try may succeed."""
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
        """`capabilities` are those that the client did not declare, if that is why."""
        self.wanted = wanted
        self.why = why
        self.capabilities = capabilities
        super().__init__(server, f"server {server!r} wants {wanted}, but {why}", hint=hint)


class UpstreamProtocolError(UpstreamError):
    code = "TOOL_EXECUTION_ERROR"

    def __init__(self, server: str, message: str, rpc_code: int) -> None:
        self.rpc_code = rpc_code
        said = f": {quoted(message)}" if message else ""
        super().__init__(server, f"server {server!r} answered error {rpc_code}{said}")


class SecretStoreError(DiscoveryError):
    code = "SECRET_STORE_ERROR"

    @classmethod
    def of_file(cls, file: object, message: str, *, hint: str = "") -> Self:
        """`message` goes on after the file."""
        return cls(f"{file} {message}", hint=hint)


class RegistryError(DiscoveryError):
    code = "REGISTRY_ERROR"
