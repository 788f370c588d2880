from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from discovery_engine.errors import RegistryError
from discovery_engine.store.sqlite.migrations import migrate
from discovery_engine.store.sqlite.sqlite_registry import open_sqlite
from discovery_engine.tools.model import ServerName
from discovery_engine.trust.decisions import Decisions
from tests.rows import rows

GOLDEN = Path(__file__).parent / "golden" / "0021.sql"


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as opened:
        yield opened


@pytest.fixture
def steps(tmp_path: Path) -> Path:
    folder = tmp_path / "steps"
    folder.mkdir()
    (folder / "schema.sql").write_text("-- version: 7\n-- first; of two\nCREATE TABLE a (x);\n")
    return folder


def add_step(folder: Path, script: str) -> None:
    (folder / "0008_next.sql").write_text(script)
    (folder / "schema.sql").write_text("-- version: 8\nCREATE TABLE c (x);\n")


def version(connection: sqlite3.Connection) -> int:
    [found] = connection.execute("PRAGMA user_version").fetchone()
    return int(found)


def tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}


@pytest.mark.requirement("REG-14")
def test_only_the_missing_steps_are_taken(connection: sqlite3.Connection, steps: Path) -> None:
    migrate(connection, steps)
    add_step(steps, "CREATE TABLE b (x);\nINSERT INTO b VALUES (';');\n")

    migrate(connection, steps)
    migrate(connection, steps)

    assert version(connection) == 8
    assert tables(connection) == {"a", "b"}
    assert connection.execute("SELECT x FROM b").fetchall() == [(";",)]


@pytest.mark.requirement("REG-14")
def test_a_step_that_fails_leaves_the_database_as_it_was(
    connection: sqlite3.Connection, steps: Path
) -> None:
    migrate(connection, steps)
    add_step(steps, "CREATE TABLE b (x);\nCREATE TABLE a (x);\n")

    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, steps)

    assert version(connection) == 7
    assert tables(connection) == {"a"}


@pytest.mark.requirement("REG-14")
@rows("number, step", [(99, "update the program"), (20, "let an earlier version")])
def test_a_registry_of_a_version_that_is_not_known_is_refused_and_left_as_it_is(
    tmp_path: Path, number: int, step: str
) -> None:
    path = tmp_path / "registry.db"
    open_sqlite(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {number}")
    content = path.read_bytes()

    with pytest.raises(RegistryError, match=f"version {number}") as raised:
        open_sqlite(path, sqlite_version=(3, 51, 3))

    assert step in raised.value.hint
    assert path.read_bytes() == content


@pytest.mark.requirement("REG-14")
def test_a_database_that_became_newer_while_waiting_is_refused(
    tmp_path: Path, connection: sqlite3.Connection, steps: Path
) -> None:
    def newer_meanwhile(statement: str) -> None:
        if statement.startswith("BEGIN"):
            with closing(sqlite3.connect(tmp_path / "x.db")) as other:
                other.execute("PRAGMA user_version = 9")

    connection.set_trace_callback(newer_meanwhile)

    with pytest.raises(RegistryError, match="version 9"):
        migrate(connection, steps)

    assert not connection.in_transaction
    assert tables(connection) == set()


@pytest.mark.requirement("REG-14")
def test_processes_that_open_a_new_registry_at_once_all_find_it_whole(tmp_path: Path) -> None:
    script = """
import sys
from discovery_engine.store.sqlite.sqlite_registry import open_sqlite
print("ready", flush=True)
sys.stdin.readline()
store = open_sqlite(sys.argv[1])
assert store.load("scope") is None
assert store.recovered is None
"""
    command = [sys.executable, "-c", script, str(tmp_path / "data" / "registry.db")]
    openers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(4)
    ]
    for opener in openers:
        assert opener.stdout
        opener.stdout.readline()
    for opener in openers:
        assert opener.stdin
        opener.stdin.write(b"go\n")
        opener.stdin.flush()

    for opener in openers:
        opener.communicate(timeout=60)
    assert [opener.returncode for opener in openers] == [0, 0, 0, 0]


@pytest.mark.requirement("REG-14")
def test_a_registry_of_the_last_released_version_still_loads(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(GOLDEN.read_text(encoding="utf-8"))

    scope = "/home/someone/discovery.yaml"
    with open_sqlite(path) as store:
        snapshot = store.load(scope)
        decisions = store.decisions(scope)
        [accepted] = store.history(scope, "a")
        [server] = store.registered_servers(scope)

    assert snapshot
    assert decisions == Decisions(
        {"a": frozenset({"1d"})}, {"a": {"one": frozenset({"c0de", "f00d"})}}, None
    )
    assert (accepted.definition, server.name) == ('{"name":"one"}', "mail")
    part = snapshot.catalog.part(ServerName("a"))
    offerings = [(e.offering.kind, e.offering.name, e.verdict.reason) for e in part.offerings]
    assert [str(entry.key) for entry in snapshot.catalog] == ["a:one", "a:two"]
    assert [entry.verdict.enabled for entry in snapshot.catalog] == [True, False]
    assert [server.name for server in snapshot.settings.servers] == ["a", "b"]
    assert offerings == [("resource", "a", "default"), ("prompt", "review", "changed")]


@pytest.mark.requirement("REG-14", "REG-21")
def test_decisions_that_were_damaged_before_an_update_are_lost_after_it(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(GOLDEN.read_text(encoding="utf-8"))
        with connection:
            connection.execute("UPDATE acceptances SET fingerprint = 'other'")

    with open_sqlite(path) as store:
        decisions = store.decisions("/home/someone/discovery.yaml")

    assert decisions.accepted == {}
    assert decisions.lost_at is not None


def shape(connection: sqlite3.Connection) -> set[tuple[str, str]]:
    """The tables and indexes of a file: what makes each, without comments and spaces."""
    rows = connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
    return {
        (name, "".join(re.sub(r"--.*", "", sql).replace('"', "").split())) for name, sql in rows
    }


@pytest.mark.requirement("REG-14")
def test_an_updated_registry_has_the_tables_of_a_new_one(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection:
        connection.executescript(GOLDEN.read_text(encoding="utf-8"))
    shapes = []

    for name in ("old.db", "new.db"):
        open_sqlite(tmp_path / name).close()
        with closing(sqlite3.connect(tmp_path / name)) as connection:
            shapes.append(shape(connection))

    assert shapes[0] == shapes[1]
