"""A PostgreSQL database: a few connections, and transactions that are done whole or not at all.

A pool of our own, of a queue and a counter, rather than `psycopg-pool`: that one connects in
threads of its own, so a database that refuses connections costs each caller its whole timeout, and
the reason is only in the log.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, TypeVar

import psycopg
from psycopg import errors

from discovery_engine.errors import (
    RegistryError,
    RegistryTimeoutError,
    RegistryUnavailableError,
)
from discovery_engine.store.postgres.migrations import is_outdated, migrate
from discovery_engine.store.postgres.timed_connection import (
    DeadlineError,
    TimedConnection,
    open_connection,
)

if TYPE_CHECKING:
    from discovery_engine.store.postgres.database_url import DatabaseAddress

T = TypeVar("T")

MAX_CONNECTIONS = 4
TIMEOUT = 5.0  # seconds
_ATTEMPTS = 3
# Another transaction was in the way: the same again has every chance.
_CONFLICTS = (errors.SerializationFailure, errors.DeadlockDetected)
# Of one operation: the database may answer others. The last two end a transaction whose process
# had stopped in the middle of it.
_TIMEOUTS = (
    DeadlineError,
    errors.LockNotAvailable,
    errors.QueryCanceled,
    errors.IdleInTransactionSessionTimeout,
    errors.TransactionTimeout,
)
_GRACE = 1.0  # seconds: a process that runs gives up by itself before the server does
_HINT = "`discovery registry check` shows why, and what to do"
_TOO_SLOW = (
    "try again; `discovery registry check` shows whether the database answers, and "
    "`registry.timeout` in discovery.yaml gives each operation longer"
)


class PostgresDatabase:
    """Calls may come from any thread and block for up to `timeout` seconds each.

    Args:
        address: Where it is.
        max_connections: How many connections this process has at the same time.
        timeout: Seconds for one operation: to wait for a connection, to open it, and to use it.

    Raises:
        RegistryUnavailableError: From all methods, if the database does not answer.
        RegistryTimeoutError: If an operation takes longer; others may not.
        RegistryError: If it refuses what was asked of it.
    """

    def __init__(
        self,
        address: DatabaseAddress,
        *,
        max_connections: int = MAX_CONNECTIONS,
        timeout: float = TIMEOUT,
    ) -> None:
        self.address = address
        self.max_connections = max_connections
        self.timeout = timeout
        self._idle: list[TimedConnection] = []
        self._free = threading.Semaphore(max_connections)
        self._turn = threading.Lock()
        self._is_closed = False
        self.version = 0
        """The step of the migrations that the database is at; 0 before it is first used."""

    def read(self, work: Callable[[TimedConnection], T], *, timeout: float | None = None) -> T:
        """Run `work` on a consistent snapshot and return its result; it may be run twice."""
        return self._retried(work, is_read=True, timeout=timeout)

    def write(self, work: Callable[[TimedConnection], T]) -> T:
        """Keep all that `work` does, or none. It may be run several times."""
        return self._retried(work, is_read=False)

    def open_listener(self) -> TimedConnection:
        """A connection of the caller's own, beside the others; the caller closes it."""
        with self._errors():
            return self._connected(self.timeout)

    def run_alone(self, work: Callable[[TimedConnection], T]) -> T:
        """Run on a connection of its own, in no transaction, for as long as it takes."""
        with self._errors(), closing(self._connected(self.timeout)) as connection:
            connection.deadline = None
            return work(connection)

    def check(self) -> None:
        """Reach the database, and bring its tables up to date."""
        self.read(lambda db: db.execute("SELECT 1"))

    def is_outdated(self) -> bool:
        """Return whether the first use would update the tables; they stay as they are."""
        parameters = self.address.parameters
        with (
            self._errors(),
            closing(open_connection(parameters, timeout=self.timeout)) as connection,
        ):
            return is_outdated(connection)

    def close(self) -> None:
        """Further calls raise; closing again does nothing."""
        with self._turn:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _retried(
        self,
        work: Callable[[TimedConnection], T],
        *,
        is_read: bool,
        timeout: float | None = None,
    ) -> T:
        deadline = time.monotonic() + (timeout or self.timeout)
        for attempt in range(1, _ATTEMPTS + 1):
            with self._errors():
                connection, is_new = self._acquired(deadline)
                is_committing = False
                try:
                    connection.begin(is_read=is_read, limit=self.timeout + _GRACE)
                    result = work(connection)
                    is_committing = True
                    connection.execute("COMMIT")
                except _CONFLICTS:
                    self._roll_back(connection)
                    if attempt == _ATTEMPTS:
                        raise
                    continue
                except DeadlineError:
                    # The network may have dropped it, and the idle ones with it.
                    connection.close()
                    self._drop_idle()
                    raise
                except errors.OperationalError:
                    connection.close()
                    # An idle connection may have been closed by the server since it was last used.
                    # After a failed commit it is unknown whether it took place.
                    if is_new or (is_committing and not is_read) or attempt == _ATTEMPTS:
                        raise
                    self._drop_idle()
                    continue
                except errors.ReadOnlySqlTransaction:
                    # A standby now: the next connection may lead to the new primary.
                    connection.close()
                    self._drop_idle()
                    raise
                except BaseException:
                    self._roll_back(connection)
                    raise
                finally:
                    self._release(connection)
                return result
        raise AssertionError("the last attempt returns or raises")

    def _acquired(self, deadline: float) -> tuple[TimedConnection, bool]:
        """A connection, and whether it was opened for this."""
        if self._is_closed:
            raise RegistryError("the registry is closed")
        if not self._free.acquire(timeout=max(deadline - time.monotonic(), 0.0)):
            raise RegistryTimeoutError(
                f"all connections to {self.address.name} are in use", hint=_TOO_SLOW
            )
        is_first = not self.version
        try:
            with self._turn:
                connection = self._idle.pop() if self._idle else None
            is_new = connection is None
            connection = connection or self._connected(max(deadline - time.monotonic(), 0.0))
        except BaseException:
            self._free.release()
            raise
        if is_first:  # the tables were perhaps made, each step of which has that time
            deadline = max(deadline, time.monotonic() + self.timeout)
        connection.deadline, connection.patience = deadline, self.timeout
        return connection, is_new

    def _release(self, connection: TimedConnection) -> None:
        with self._turn:
            is_usable = not (connection.closed or self._is_closed)
            if is_usable:
                self._idle.append(connection)
        if not is_usable:
            connection.close()
        self._free.release()

    def _drop_idle(self) -> None:
        with self._turn:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _connected(self, timeout: float) -> TimedConnection:
        connection = open_connection(self.address.parameters, timeout=timeout)

        def extend() -> None:
            connection.deadline = time.monotonic() + self.timeout

        try:
            if not self.version:
                self.version = migrate(connection, on_step=extend)
        except BaseException:
            connection.close()
            raise
        return connection

    def _roll_back(self, connection: TimedConnection) -> None:
        try:
            connection.rollback()
        except psycopg.Error:
            connection.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        name = self.address.name
        try:
            yield
        except errors.InsufficientPrivilege as exc:
            user = self.address.parameters.get("user", "ROLE")
            raise RegistryError(
                f"the role may not use the database {name}: {_reason(self.address, exc)}",
                hint="as its owner: `CREATE SCHEMA IF NOT EXISTS discovery AUTHORIZATION "
                f'"{user}"`; if another role owns that schema, `GRANT` that role `TO "{user}"`',
            ) from exc
        except errors.ReadOnlySqlTransaction as exc:
            raise RegistryUnavailableError(
                f"the database {name} is read-only",
                hint="wait until the failover has ended, or name all hosts and "
                "`target_session_attrs=read-write` in its address",
            ) from exc
        except _TIMEOUTS as exc:
            raise RegistryTimeoutError(
                f"an operation of the database {name} took too long: {_reason(self.address, exc)}",
                hint=_TOO_SLOW,
            ) from exc
        except (psycopg.OperationalError, psycopg.InterfaceError) as exc:
            raise RegistryUnavailableError(
                f"the database {name} cannot be used: {_reason(self.address, exc)}", hint=_HINT
            ) from exc
        except psycopg.Error as exc:
            raise RegistryError(
                f"the database {name} refused an operation: {_reason(self.address, exc)}",
                hint="`discovery registry check` shows whether its tables are as they should be",
            ) from exc


def _reason(address: DatabaseAddress, error: psycopg.Error) -> str:
    """The first line of what libpq or the server writes, without the password."""
    text = address.redact(str(error)).strip()
    return text.splitlines()[0] if text else type(error).__name__
