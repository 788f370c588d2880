"""A connection to PostgreSQL on which nothing waits longer than it may."""

from __future__ import annotations

import time
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.rows import TupleRow

T = TypeVar("T")

_WAIT_INTERVAL = 0.1  # seconds between two looks for Ctrl-C
# Seconds. The kernel closes a connection whose other end is silent, also between two statements.
_KEEPALIVES = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}


class TimedConnection(psycopg.Connection[TupleRow]):
    """Each wait ends at `deadline` at the latest; the connection is unusable afterwards."""

    deadline: float | None = None
    """By `time.monotonic()`; None waits for as long as it takes."""

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
    # No prepared statements: a pooler such as PgBouncer may give each transaction another session.
    connection = TimedConnection.connect(
        **{**defaults, **parameters}, autocommit=True, prepare_threshold=None
    )
    connection.deadline = time.monotonic() + timeout
    return connection
