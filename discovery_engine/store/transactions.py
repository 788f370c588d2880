"""Methods of a registry as transactions: `@reads` and `@writes` give each its connection."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from discovery_engine.store.statements import Connection

P = ParamSpec("P")
S = TypeVar("S", bound="Transactions")
T = TypeVar("T")


class Transactions:
    """What a back-end has of its own, for all that is written once."""

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
