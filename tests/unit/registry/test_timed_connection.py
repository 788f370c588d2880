"""Connections to a database that does not answer."""

from __future__ import annotations

import gc
import socket

import psycopg
import pytest

from discovery_engine.registry.postgres.timed_connection import open_connection


@pytest.mark.requirement("PGS-5")
def test_what_was_not_answered_in_time_is_closed_at_once() -> None:
    """Else a database that goes on would count it among its connections."""
    gc.disable()
    try:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            where = {"host": "127.0.0.1", "port": str(silent.getsockname()[1]), "user": "gateway"}
            with pytest.raises(psycopg.OperationalError, match="timeout"):
                open_connection(where, timeout=2.0)
            attempt, _ = silent.accept()
            with attempt:
                assert is_closed(attempt)
    finally:
        gc.enable()


def is_closed(peer: socket.socket) -> bool:
    """Whether the other end is closed, after what it may have sent before."""
    peer.settimeout(5.0)
    try:
        while peer.recv(65536):
            pass
    except TimeoutError:
        return False
    return True
