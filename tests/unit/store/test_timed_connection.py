"""Connections to a database that does not answer."""

from __future__ import annotations

import gc
import socket
from contextlib import closing

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from discovery_engine.store.postgres.timed_connection import open_connection
from tests.postgres import PostgresServer


@pytest.mark.requirement("PGS-5")
def test_what_was_not_answered_in_time_is_closed_at_once() -> None:
    """Else a database that goes on would count it among its connections."""
    gc.disable()
    try:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            where = {"host": "127.0.0.1", "port": str(silent.getsockname()[1]), "user": "gateway"}
            with pytest.raises(psycopg.errors.ConnectionTimeout):
                open_connection(where, timeout=2.0)
            attempt, _ = silent.accept()
            with attempt:
                assert is_closed(attempt)
    finally:
        gc.enable()


@pytest.mark.requirement("PGS-6")
def test_a_cursor_is_closed_whose_connection_was_lost_meanwhile(
    postgres_server: PostgresServer,
) -> None:
    found = conninfo_to_dict(postgres_server.create_database())
    where = {name: str(value) for name, value in found.items()}
    with (
        postgres_server.admin() as admin,
        closing(open_connection(where, timeout=60.0)) as connection,
    ):
        connection.begin(is_read=True, limit=60.0)
        rows = connection.rows("SELECT generate_series(1, 100)", (), at_once=10)
        next(rows)
        admin.execute("SELECT pg_terminate_backend(%s, 60000)", (connection.info.backend_pid,))

        with pytest.raises(psycopg.OperationalError):
            rows.close()
        del rows
        gc.collect()  # a cursor that is open still would be reported


def is_closed(peer: socket.socket) -> bool:
    """Whether the other end is closed, after what it may have sent before."""
    peer.settimeout(5.0)
    try:
        while peer.recv(65536):
            pass
    except TimeoutError:
        return False
    return True
