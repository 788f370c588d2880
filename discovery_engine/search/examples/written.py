"""Typical requests that a language model wrote for tools, as they are kept."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Protocol

from msgspec import Struct

from discovery_engine.errors import RegistryError

logger = logging.getLogger(__name__)


class WrittenRequests(Struct, frozen=True):
    """The requests that were written for one definition of a tool."""

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


class WrittenStore(Protocol):
    """The part of `store.registry.Registry` that a book needs."""

    def requests_mark(self) -> str: ...

    def written_requests(self) -> Iterable[WrittenRequests]: ...


class WrittenBook:
    """All that was written at a mark, read from the registry when it is needed.

    The registry keeps no older rows: once something else is written, the book cannot be read as it
    was. Then it has the present rows, and `has_failed`.
    """

    def __init__(
        self, mark: str, open_store: Callable[[], AbstractContextManager[WrittenStore]]
    ) -> None:
        self.mark = mark
        """Differs whenever something else is written, see `store.registry.Registry`."""
        self._open_store = open_store
        self.has_failed = False
        """True if the book was read, and its rows are not known to be those of its mark."""

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, WrittenBook) or other.mark != self.mark:
            return False
        return not (self.has_failed or other.has_failed)

    def __hash__(self) -> int:
        return hash(self.mark)

    @cached_property
    def by_tool(self) -> Mapping[tuple[str, str], Mapping[str, WrittenRequests]]:
        """By server and tool, then by fingerprint."""
        requests: dict[tuple[str, str], dict[str, WrittenRequests]] = {}
        for row in self._rows():
            requests.setdefault((row.server, row.tool), {})[row.fingerprint] = row
        return requests

    def _rows(self) -> Iterable[WrittenRequests]:
        try:
            with self._open_store() as store:
                rows = store.written_requests()
                self.has_failed = store.requests_mark() != self.mark
                return rows
        except RegistryError as error:
            logger.warning("The requests that were written for tools cannot be read: %s", error)
            self.has_failed = True
            return ()
