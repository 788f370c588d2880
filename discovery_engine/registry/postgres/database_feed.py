"""Changes that other gateways make: the database notifies, and is polled where it cannot."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import psycopg

from discovery_engine.errors import RegistryError
from discovery_engine.registry.postgres import request_queries, snapshot_queries, trust_queries

if TYPE_CHECKING:
    from psycopg import Connection

    from discovery_engine.registry.postgres.postgres_database import PostgresDatabase
    from discovery_engine.registry.postgres.timed_connection import TimedConnection

logger = logging.getLogger(__name__)

CHANNEL = "discovery"
_LOOK_EVERY = 15.0  # seconds between two looks, for poolers that pass no notification on
_TIMEOUT = 5.0  # seconds to drain what has arrived


async def database_changes(
    database: PostgresDatabase,
    newest: Callable[[Connection], object],
    *,
    look_every: float = _LOOK_EVERY,
) -> AsyncGenerator[None]:
    """Yield once at first, and then soon after `newest` is something else."""
    listener: TimedConnection | None = None
    known: object = None
    try:
        while True:
            # It listens before it looks, so that nothing is missed between.
            listener = await anyio.to_thread.run_sync(_listening, database, listener)
            now = await anyio.to_thread.run_sync(_newest, database, newest)
            if now != known:
                known = now
                yield
                continue
            with anyio.move_on_after(look_every):
                await _notified(listener)
    finally:
        if listener:
            listener.close()


def notify(connection: Connection) -> None:
    """Let the other gateways look for changes once this transaction is committed.

    Each role of the database may listen, so it says nothing of what has changed.
    """
    connection.execute("SELECT pg_notify(%s, '')", (CHANNEL,))


async def _notified(listener: TimedConnection | None) -> None:
    if listener is None:
        await anyio.sleep_forever()  # until it is time to look again
        return
    with suppress(psycopg.Error):  # it was closed; the next look opens another
        await anyio.wait_readable(listener.pgconn.socket)


def _listening(
    database: PostgresDatabase, listener: TimedConnection | None
) -> TimedConnection | None:
    """A connection that listens, with nothing left to read; None where there can be none."""
    try:
        if listener is None:
            listener = database.open_listener()
            listener.execute(f"LISTEN {CHANNEL}")
        listener.deadline = None
        for _ in listener.notifies(timeout=0):
            pass
    except (RegistryError, psycopg.Error) as error:
        logger.debug("The database does not notify, and is polled: %s", error)
        if listener is not None:
            with suppress(psycopg.Error):
                listener.close()
        return None
    return listener


def newest_change(connection: Connection) -> object:
    """Something else after each change that gateways look for."""
    saves = snapshot_queries.saves(connection)
    return trust_queries.number(connection), request_queries.mark(connection), saves


def _newest(database: PostgresDatabase, newest: Callable[[Connection], object]) -> object:
    """What was read, or why nothing could be: who reads then reports it once."""
    try:
        return database.read(newest)
    except RegistryError as error:
        logger.debug("The newest decision cannot be read: %s", error)
        return str(error)
