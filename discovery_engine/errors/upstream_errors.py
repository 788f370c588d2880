"""Errors of servers that did not do their part."""

from __future__ import annotations

import math
from collections.abc import Sequence

from discovery_engine._util.quantities import counted
from discovery_engine._util.text import one_line, quoted
from discovery_engine.errors.discovery_error import DiscoveryError

_PARSE_ERROR = -32700  # of JSON-RPC


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
        """`capabilities` are those that the client did not declare, if that is why."""
        self.wanted = wanted
        self.why = why
        self.capabilities = capabilities
        super().__init__(server, f"server {server!r} wants {wanted}, but {why}", hint=hint)


class UpstreamProtocolError(UpstreamError):
    code = "TOOL_EXECUTION_ERROR"

    def __init__(self, server: str, message: str, rpc_code: int | None = None) -> None:
        """Without a code the server sent no error, but what is no answer; `message` is our own."""
        self.given = message, rpc_code
        """The arguments that made the error, for a recording."""
        self.rpc_code = _PARSE_ERROR if rpc_code is None else rpc_code
        if rpc_code is None:
            text = f"sent an unusable answer: {message}"
        else:
            error = f"error {rpc_code}" if rpc_code else "an error"
            text = f"answered {error}" + (f": {quoted(message)}" if message else "")
        super().__init__(server, f"server {server!r} {text}")
