"""What the SQLite files of the program have in common."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from discovery_engine._util.sqlite_file import file_identity, is_damage, transaction


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as opened:
        opened.execute("CREATE TABLE names (name TEXT)")
        yield opened


def test_a_transaction_that_fails_leaves_nothing(connection: sqlite3.Connection) -> None:
    def work(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO names VALUES ('a')")
        raise LookupError

    with pytest.raises(LookupError):
        transaction(connection, work)

    assert connection.execute("SELECT * FROM names").fetchall() == []
    assert not connection.in_transaction


def test_a_file_that_is_no_database_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "names.db"
    path.write_bytes(b"no database " * 100)

    with closing(sqlite3.connect(path)) as opened, pytest.raises(sqlite3.DatabaseError) as caught:
        opened.execute("SELECT * FROM names")

    assert is_damage(caught.value)


def test_a_file_that_took_the_place_of_another_is_another_one(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "b"
    path.touch()
    other.touch()
    before = file_identity(path)

    other.replace(path)

    assert file_identity(path) not in (before, None)
    assert file_identity(tmp_path / "none") is None
