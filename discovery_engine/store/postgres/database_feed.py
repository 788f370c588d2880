"""Changes that other gateways make: the database notifies, and is polled where it cannot."""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread
import psycopg

from discovery_engine._util.retry_after import backoff
from discovery_engine.errors import RegistryError
from discovery_engine.store.tables import (
    decision_table,
    gateway_table,
    request_table,
    snapshot_table,
)
from discovery_engine.store.tables.gateway_table import CHANNEL, RELAY_CHANNEL

if TYPE_CHECKING:
    from psycopg import Notify

    from discovery_engine.store.postgres.postgres_database import PostgresDatabase
    from discovery_engine.store.postgres.timed_connection import TimedConnection

logger = logging.getLogger(__name__)

T = TypeVar("T")

_LOOK_EVERY = 15.0  # seconds between two looks, for poolers that pass no notification on
_FIRST_PAUSE = 0.25  # seconds until a connection that was lost is opened again; doubled each time


async def database_changes(
    database: PostgresDatabase,
    newest: Callable[[TimedConnection], object],
    *,
    look_every: float = _LOOK_EVERY,
    on_relayed: Callable[[str], None] = lambda _: None,
) -> AsyncGenerator[None]:
    """Yield once at first, and then soon after `newest` is something else.

    `on_relayed` is called with the name of each gateway for which a request or an answer was left.
    """
    listener: TimedConnection | None = None
    mark: object = None
    failures = 0
    try:
        while True:
            # It listens before it looks, so that nothing is missed between.
            was_open = listener is not None
            listener, notes = await anyio.to_thread.run_sync(_listening, database, listener)
            relayed = [note.payload for note in notes if note.channel == RELAY_CHANNEL]
            for instance in relayed:
                on_relayed(instance)
            # What is left for one gateway is no change for all.
            if not (was_open and relayed and len(relayed) == len(notes)):
                now = await anyio.to_thread.run_sync(_newest, database, newest)
                if now != mark:
                    mark = now
                    yield
                    continue
            if listener is None:
                failures += 1
                pause = backoff(failures, _FIRST_PAUSE, look_every)
                # Gateways that lose a database together do not come back to it together.
                await anyio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
                continue
            if was_open:  # one that is lost as soon as it is opened is not opened all the time
                failures = 0
            with anyio.move_on_after(look_every):
                await _notified(listener)
    finally:
        if listener:
            listener.close()


async def _notified(listener: TimedConnection) -> None:
    with suppress(psycopg.Error):  # it was closed; the next look opens another
        await anyio.wait_readable(listener.pgconn.socket)


def _listening(
    database: PostgresDatabase, listener: TimedConnection | None
) -> tuple[TimedConnection | None, list[Notify]]:
    """A connection that listens, and what it has read; None where there can be none."""
    try:
        if listener is None:
            listener = database.open_listener()
            listener.execute(f"LISTEN {CHANNEL}; LISTEN {RELAY_CHANNEL}")
        listener.deadline = None
        return listener, list(listener.notifies(timeout=0))
    except (RegistryError, psycopg.Error) as error:
        logger.debug("The database does not notify, and is polled: %s", error)
        if listener is not None:
            with suppress(psycopg.Error):
                listener.close()
        return None, []


def newest_change(connection: TimedConnection) -> object:
    """Something else after each change that gateways look for."""
    return (
        decision_table.newest(connection),
        request_table.mark(connection),
        snapshot_table.saves(connection),
        gateway_table.tokens_mark(connection),
    )


def _newest(database: PostgresDatabase, newest: Callable[[TimedConnection], object]) -> object:
    """Return what was read, or the error as text; the next reader reports it, once."""
    try:
        return database.read(newest)
    except RegistryError as error:
        logger.debug("The newest decision cannot be read: %s", error)
        return str(error)
