"""The root of all errors, and how an error learns which tool it is about."""

from __future__ import annotations

from types import TracebackType
from typing import Any, ClassVar, Self

from discovery_engine._util.text import one_line


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

    def with_own_hint(self, hint: str) -> Self:
        """The same error with another hint; a copy."""
        return self._copy({"hint": one_line(hint)})

    def _copy(self, changes: dict[str, Any]) -> Self:
        copy = type(self).__new__(type(self))
        copy.args = self.args
        copy.__dict__ |= vars(self) | changes
        return copy


class concerning:  # noqa: N801 - used as a function
    """A block that is about a tool: so is every error that it raises.

    As a generator it took three times as long, twice in each call.
    """

    __slots__ = ("_server", "_tool")

    def __init__(self, server: str | None, tool: str) -> None:
        self._server = server
        self._tool = tool

    def __enter__(self) -> None:
        """No-op."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, DiscoveryError):
            named = error.concerning(self._server, self._tool)
            if named is not error:
                raise named from error
