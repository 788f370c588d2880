"""A connection to PostgreSQL on which nothing waits longer than it may."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable
from typing import Any, TypeVar

import psycopg
from psycopg.abc import Params, PQGen, Query
from psycopg.rows import TupleRow

T = TypeVar("T")

_WAIT_INTERVAL = 0.1  # seconds between two looks for Ctrl-C
# Seconds. The kernel closes a connection whose other end is silent, also between two statements.
_KEEPALIVES = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
_TRANSACTION_TIMEOUT_SINCE = 170_000  # a version of the server


class _TimedCursor(psycopg.Cursor[TupleRow]):
    def executemany(
        self, query: Query, params_seq: Iterable[Params], *, returning: bool = False
    ) -> None:
        super().executemany(query, params_seq, returning=returning)
        # The driver ends such a batch with a flush, and after one a server does not time how long
        # the transaction is idle.
        if self.connection.info.server_version < _TRANSACTION_TIMEOUT_SINCE:
            self.connection.execute("SELECT 1")


class TimedConnection(psycopg.Connection[TupleRow]):
    """Each wait ends at `deadline` at the latest; the connection is unusable afterwards."""

    deadline: float | None = None
    """By `time.monotonic()`; None waits for as long as it takes."""

    def begin(self, *, is_read: bool, limit: float) -> None:
        """Begin a transaction, which the server ends if it takes longer than `limit` seconds.

        A process that is stopped in the middle of one would keep its locks, and all others waiting,
        for as long as it is. Servers before 17 end only what is idle for so long.
        """
        mode = " ISOLATION LEVEL REPEATABLE READ READ ONLY" if is_read else ""
        has_limit = self.info.server_version >= _TRANSACTION_TIMEOUT_SINCE
        limited = "transaction_timeout" if has_limit else "idle_in_transaction_session_timeout"
        milliseconds = round(limit * 1000)
        # One message, and no setting of the session: behind a pooler that is another one each time.
        self.execute(f"BEGIN{mode}; SET LOCAL {limited} = {milliseconds}")

    def wait(
        self, gen: PQGen[T], interval: float = _WAIT_INTERVAL, timeout: float | None = None
    ) -> T:
        # libpq has no timeout for an answer, and that of the server does not count where the
        # network between swallows packets.
        if self.deadline is not None:
            left = max(self.deadline - time.monotonic(), 0.0)
            timeout = left if timeout is None else min(left, timeout)
        return super().wait(gen, interval=interval, timeout=timeout)


def open_connection(parameters: dict[str, str], *, timeout: float) -> TimedConnection:
    """A new connection in autocommit mode.

    Raises:
        psycopg.Error: If there is none within `timeout` seconds.
    """
    defaults: dict[str, Any] = {
        "application_name": "discovery",
        "connect_timeout": max(2, round(timeout)),
        **_KEEPALIVES,
    }
    try:
        # No prepared statements: behind a pooler each transaction may have another session.
        connection = TimedConnection.connect(
            **{**defaults, **parameters},
            autocommit=True,
            prepare_threshold=None,
            cursor_factory=_TimedCursor,
        )
    except psycopg.Error as error:
        # What was not answered in time stays open in the driver's frames, which hold each other
        # until the garbage collector runs; the server counts it among its connections meanwhile.
        traceback.clear_frames(error.__traceback__)
        raise
    connection.deadline = time.monotonic() + timeout
    return connection
