"""Typical requests that a language model wrote for tools, as they are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from msgspec import Struct


class WrittenRequests(Struct, frozen=True):
    """What was written for one definition of a tool."""

    server: str
    tool: str
    """The name that its server gave it."""
    fingerprint: str
    requests: tuple[str, ...]
    model: str
    instructions: int
    """The version of the instructions that the model was given."""
    at: float
    """Unix time in seconds."""


class WrittenBook:
    """All that was written, read from the registry when it is needed."""

    def __init__(self, mark: str, read: Callable[[], Iterable[WrittenRequests]]) -> None:
        self.mark = mark
        """Differs whenever something else is written, see `registry.protocols.RequestStore`."""
        self._read = read

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WrittenBook) and other.mark == self.mark

    def __hash__(self) -> int:
        return hash(self.mark)

    @cached_property
    def by_tool(self) -> Mapping[tuple[str, str], Mapping[str, WrittenRequests]]:
        """By server and tool, then by fingerprint."""
        found: dict[tuple[str, str], dict[str, WrittenRequests]] = {}
        for one in self._read():
            found.setdefault((one.server, one.tool), {})[one.fingerprint] = one
        return found
