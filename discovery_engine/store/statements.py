"""The seam between SQLite and PostgreSQL, through which most statements are written once.

A statement has `?` for a parameter, and names tables without a schema. What one of the two calls
otherwise is a member of `Connection`. Text is stored as `stored_text` escapes it, and a row is
found by the digest of its names.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar


class Rows(Protocol):
    """The rows that a statement returns."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection in a transaction."""

    @property
    def for_update(self) -> str:
        """Ends a SELECT whose rows nobody else may change until the transaction ends."""

    @property
    def skip_locked(self) -> str:
        """The same as `for_update`, for rows that no other transaction has locked."""

    @property
    def next_save(self) -> str:
        """An expression: the next of the numbers of saves, which rise over all scopes."""

    def next_fences(self, count: int) -> Sequence[int]:
        """Return `count` numbers of claims, which no other claim of any server ever has."""

    @property
    def with_numbers(self) -> str:
        """Is in an INSERT that gives rows the numbers that the table would give them."""

    def continue_numbers(self) -> None:
        """Let the numbers of new rows, saves and claims follow those that were copied."""

    def lock_table(self, table: str) -> None:
        """Let nobody else plan jobs until the end of the transaction; other writes go on."""

    def rows(
        self, statement: str, parameters: Sequence[object], /, *, at_once: int
    ) -> Iterable[Any]:
        """The rows of a statement that finds more with every tool, as many at once."""

    def now(self) -> float:
        """Unix time in seconds by the clock of the store."""

    def execute(self, statement: str, parameters: Any = (), /) -> Rows: ...

    def executemany(self, statement: str, parameters: Iterable[Sequence[object]], /) -> object: ...


P = ParamSpec("P")
S = TypeVar("S", bound="Transactions")
T = TypeVar("T")


class Transactions:
    """Transactions of one back-end; the code above them is the same for all back-ends."""

    @abstractmethod
    def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on a consistent snapshot and return its result."""

    @abstractmethod
    def write(self, work: Callable[[Connection], T]) -> T:
        """Keep all that `work` does, or none."""

    def _announce(self, connection: Connection) -> None:
        """Have other processes look for changes once the transaction is committed."""

    def _write_announced(self, work: Callable[[Connection], T]) -> T:
        def write(connection: Connection) -> T:
            result = work(connection)
            self._announce(connection)
            return result

        return self.write(write)


def reads(method: Callable[Concatenate[S, Connection, P], T]) -> Callable[Concatenate[S, P], T]:
    """Have a method read a consistent snapshot; it may be run twice."""

    @wraps(method)
    def read(self: S, /, *args: P.args, **options: P.kwargs) -> T:
        return self.read(lambda db: method(self, db, *args, **options))

    return read


def writes(method: Callable[Concatenate[S, Connection, P], T]) -> Callable[Concatenate[S, P], T]:
    """Have all that a method writes kept, or none; it may be run twice."""

    @wraps(method)
    def write(self: S, /, *args: P.args, **options: P.kwargs) -> T:
        return self.write(lambda db: method(self, db, *args, **options))

    return write
