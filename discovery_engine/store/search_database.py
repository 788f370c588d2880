"""The database of PostgreSQL in which tools are searched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class NoVectorSearchError(Exception):
    """The database cannot compare vectors; the message has the reason and the owner's next step."""


class SearchDatabase(Protocol):
    """Some methods of `PostgresRegistry`; `work` is given a connection.

    All methods raise `RegistryError` if the database does not answer.
    """

    def read(self, work: Callable[[Any], T]) -> T: ...

    def write(self, work: Callable[[Any], T]) -> T: ...

    def run_alone(self, work: Callable[[Any], T]) -> T: ...
