"""A connection to PostgreSQL on which nothing waits longer than it may."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable, Iterator
from typing import Any, Self, TypeVar

import psycopg
from psycopg.abc import Params, PQGen, Query
from psycopg.rows import TupleRow

T = TypeVar("T")

_WAIT_INTERVAL = 0.1  # seconds between two looks for Ctrl-C
# Seconds. The kernel closes a connection whose other end is silent, also between two statements.
_KEEPALIVES = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
_TRANSACTION_TIMEOUT_SINCE = 170_000  # a version of the server
_STEP_LIMITS = ("statement_timeout", "idle_in_transaction_session_timeout")
_LEAST_TIMEOUT = 2  # seconds for one host; the driver has no less
_ROWS = "rows"  # the cursor in the server; there is one at a time
_LONGEST_BATCH = 1_000_000  # characters, after which a message is sent
_NUMBERED = {
    "scopes": "id", "servers": "id", "vectors": "id", "typical_requests": "id",
    "agent_requests": "number", "webhooks": "id", "webhook_deliveries": "id",
}  # fmt: skip
_SEQUENCES = {
    "saves": "(SELECT coalesce(max(saved), 0) FROM scopes)",
    "refresh_fences": "(SELECT coalesce(max(fence), 0) FROM refresh_jobs)",
}
SET_PATH = "SET LOCAL search_path = pg_catalog, discovery, pg_temp"
"""Names without a schema are the system's and our own. By default they are also those of `public`,
in which other roles of many databases may make functions: one that fits better would run with our
rights."""


class DeadlineError(psycopg.OperationalError):
    """There was no answer by the deadline; the connection is unusable."""


class _BatchingCursor(psycopg.Cursor[TupleRow]):
    """Takes `?` for a parameter, as `store.statements` has it, and sends batches."""

    def execute(self, query: Any, params: Params | None = None, **options: Any) -> Self:
        statement = query if params is None else _driver_form(query)
        return super().execute(statement, params, **options)

    def executemany(
        self, query: Query, params_seq: Iterable[Params], *, returning: bool = False
    ) -> None:
        """Whole statements, many in one message.

        The driver would send them in a pipeline, whose end is a message of its own. A process that
        is stopped before that keeps its locks for as long as it is: the server times neither a
        statement nor an idle transaction then.
        """
        if returning:
            raise psycopg.NotSupportedError("a batch returns nothing")
        binder = psycopg.ClientCursor(self.connection)
        statements, size = list[str](), 0
        for params in params_seq:
            statements.append(binder.mogrify(_driver_form(query), params))
            size += len(statements[-1])
            if size >= _LONGEST_BATCH:
                super().execute(";".join(statements))  # values may have a `?`
                statements, size = [], 0
        if statements:
            super().execute(";".join(statements))  # values may have a `?`


def _driver_form(query: Any) -> Any:
    return query.replace("?", "%s") if isinstance(query, str) else query


class TimedConnection(psycopg.Connection[TupleRow]):
    """Each wait ends at `deadline` at the latest; the connection is unusable afterwards."""

    deadline: float | None = None
    """The limit by `time.monotonic()`; None waits for as long as it takes."""
    patience: float | None = None
    """Seconds for each batch of `rows`; None leaves the deadline as it is."""

    for_update = " FOR UPDATE"
    skip_locked = " FOR UPDATE SKIP LOCKED"
    next_save = "nextval('saves')"

    def next_fences(self, count: int) -> list[int]:
        statement = "SELECT nextval('refresh_fences') FROM generate_series(1, ?)"
        return sorted(fence for (fence,) in self.execute(statement, (count,)))

    with_numbers = "OVERRIDING SYSTEM VALUE"

    def continue_numbers(self) -> None:
        for table, column in _NUMBERED.items():
            sequence = f"pg_get_serial_sequence('discovery.{table}', '{column}')"
            newest = f"(SELECT max({column}) FROM {table})"  # noqa: S608 - constants
            self.execute(f"SELECT setval({sequence}, {newest}) WHERE {newest} IS NOT NULL")
        for sequence, newest in _SEQUENCES.items():
            self.execute(f"SELECT setval('{sequence}', greatest(nextval('{sequence}'), {newest}))")

    def lock_table(self, table: str) -> None:
        self.execute(f"LOCK TABLE {table} IN SHARE UPDATE EXCLUSIVE MODE")

    def now(self) -> float:
        [now] = self.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone() or (
            0.0,
        )
        return float(now)

    def executemany(self, query: Query, params: Iterable[Params]) -> None:
        with self.cursor() as cursor:
            cursor.executemany(query, params)

    def begin(self, *, is_read: bool, limit: float) -> None:
        """Begin a transaction, which the server ends if it takes longer than `limit` seconds.

        A process that is stopped in the middle of one would keep its locks, and all others waiting,
        for as long as it is; and a session that waits for a lock does not notice that its client
        has given up. Servers before 17 time each statement, and each pause between two; so does
        every server where it is only read, which keeps nobody waiting.
        """
        mode = " ISOLATION LEVEL REPEATABLE READ READ ONLY" if is_read else ""
        is_old = self.info.server_version < _TRANSACTION_TIMEOUT_SINCE
        limits = _STEP_LIMITS if is_old or is_read else ("transaction_timeout",)
        local = "; ".join(f"SET LOCAL {limited} = {round(limit * 1000)}" for limited in limits)
        # One message, and no setting of the session: behind a pooler that is another one each time.
        self.execute(f"BEGIN{mode}; {local}; {SET_PATH}")

    def rows(self, query: Query, parameters: Params, *, at_once: int) -> Iterator[TupleRow]:
        """The rows of a query that finds more with every tool, in batches.

        A catalog may take longer to read than an operation may: each batch has that time.
        """
        cursor = self.cursor(_ROWS)
        try:
            cursor.execute(_driver_form(query), parameters)
            while batch := cursor.fetchmany(at_once):
                yield from batch
                if self.patience is not None:
                    self.deadline = time.monotonic() + self.patience
        finally:
            _close(cursor)

    def wait(
        self, gen: PQGen[T], interval: float = _WAIT_INTERVAL, timeout: float | None = None
    ) -> T:
        # libpq has no timeout for an answer, and that of the server does not count where the
        # network between swallows packets.
        if self.deadline is not None:
            left = max(self.deadline - time.monotonic(), 0.0)
            timeout = left if timeout is None else min(left, timeout)
        try:
            return super().wait(gen, interval=interval, timeout=timeout)
        except psycopg.OperationalError as error:
            if self.deadline is None or time.monotonic() < self.deadline:
                raise
            raise DeadlineError("it was not answered in time") from error


def _close(cursor: psycopg.ServerCursor[TupleRow]) -> None:
    try:
        cursor.close()
    except psycopg.Error:
        cursor.close()  # the connection was lost: the first time leaves the cursor open
        raise


def open_connection(parameters: dict[str, str], *, timeout: float) -> TimedConnection:
    """A new connection in autocommit mode.

    Of several hosts each has its part of the time: one that is silent leaves some to the next.

    Raises:
        psycopg.Error: If there is none within `timeout` seconds.
    """
    defaults: dict[str, Any] = {
        "application_name": "discovery",
        "connect_timeout": max(_LEAST_TIMEOUT, round(timeout / _host_count(parameters))),
        **_KEEPALIVES,
    }
    try:
        # No prepared statements: behind a pooler each transaction may have another session.
        connection = TimedConnection.connect(
            **{**defaults, **parameters},
            autocommit=True,
            prepare_threshold=None,
            cursor_factory=_BatchingCursor,
        )
    except psycopg.Error as error:
        # What was not answered in time stays open in the driver's frames, which hold each other
        # until the garbage collector runs; the server counts it among its connections meanwhile.
        traceback.clear_frames(error.__traceback__)
        raise
    connection.deadline = time.monotonic() + timeout
    return connection


def _host_count(parameters: dict[str, str]) -> int:
    hosts = parameters.get("hostaddr") or parameters.get("host", "")
    return len(hosts.split(","))
