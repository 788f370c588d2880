"""The base class of all errors, and a context manager that adds a tool to them."""

from __future__ import annotations

from types import TracebackType
from typing import Any, ClassVar, Self

from discovery_engine._util.text import one_line


class DiscoveryError(Exception):
    """The base class of the engine's errors: a stable `code`, a message, and a hint."""

    code: ClassVar[str] = "DISCOVERY_ERROR"
    server: str | None = None
    """The server that the error is about; None if it is about none."""
    tool: str | None = None
    """The tool that the error is about; None if it is about none."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.message = one_line(message)
        self.hint = one_line(hint)
        self.detail = ""
        """More for the owner alone: it may contain paths of files and names of hidden tools."""
        super().__init__(self.message)

    def concerning(self, server: str | None, tool: str) -> Self:
        """Return the error with these names, unless it has its own.

        A changed error is a copy, since several callers may get the same failure.
        """
        lacking = {"server": server, "tool": tool}
        lacking = {k: v for k, v in lacking.items() if v and getattr(self, k) is None}
        if not lacking:
            return self
        return self._copy(lacking)

    def with_hint(self, further: str) -> Self:
        """Return a copy with `further` appended to the hint."""
        return self._copy({"hint": "; ".join(filter(None, (self.hint, one_line(further))))})

    def with_own_hint(self, hint: str) -> Self:
        """Return a copy with `hint` in place of its own."""
        return self._copy({"hint": one_line(hint)})

    def _copy(self, changes: dict[str, Any]) -> Self:
        copy = type(self).__new__(type(self))
        copy.args = self.args
        copy.__dict__ |= vars(self) | changes
        return copy


class concerning:  # noqa: N801 - used as a function
    """Context manager that adds the names of a server and a tool to errors raised in its block.

    A class, since a generator takes three times as long, and each call enters two such blocks.
    """

    __slots__ = ("_server", "_tool")

    def __init__(self, server: str | None, tool: str) -> None:
        self._server = server
        self._tool = tool

    def __enter__(self) -> None:
        """Enter the block; no-op."""

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
