"""A database of PostgreSQL, through what opens it or watches whether it answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class NoVectorSearchError(Exception):
    """The database cannot compare vectors; the message has the reason and the owner's next step."""


class SearchDatabase(Protocol):
    """Methods of `PostgresDatabase`; `work` is given a connection.

    All methods raise `RegistryError` if the database does not answer.
    """

    def read(self, work: Callable[[Any], T]) -> T: ...

    def write(self, work: Callable[[Any], T]) -> T: ...

    def run_alone(self, work: Callable[[Any], T]) -> T: ...


class SearchDatabaseProxy:
    """`ask` is given each call, and makes it with the database."""

    def __init__(self, ask: Callable[[Callable[[SearchDatabase], Any]], Any]) -> None:
        self._ask = ask

    def read(self, work: Callable[[Any], T]) -> T:
        result: T = self._ask(lambda database: database.read(work))
        return result

    def write(self, work: Callable[[Any], T]) -> T:
        result: T = self._ask(lambda database: database.write(work))
        return result

    def run_alone(self, work: Callable[[Any], T]) -> T:
        result: T = self._ask(lambda database: database.run_alone(work))
        return result
