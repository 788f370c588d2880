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
from discovery_engine.registry.sqlite import migrations
from discovery_engine.registry.sqlite.migrations import migrate
from discovery_engine.registry.sqlite.registry import open_sqlite
from discovery_engine.tools.model import ServerName
from tests.rows import rows

SHIPPED = Path(migrations.__file__).parent
GOLDEN = sorted(Path(__file__).with_name("golden").glob("*.sql"))


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as opened:
        yield opened


@pytest.fixture
def steps(tmp_path: Path) -> Path:
    folder = tmp_path / "steps"
    folder.mkdir()
    (folder / "0001_one.sql").write_text("-- first; of two\nCREATE TABLE a (x);\n")
    return folder


def version(connection: sqlite3.Connection) -> int:
    [found] = connection.execute("PRAGMA user_version").fetchone()
    return int(found)


def tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}


def test_steps_are_numbered_without_a_gap() -> None:
    names = sorted(path.name for path in SHIPPED.glob("*.sql"))

    assert all(re.fullmatch(r"\d{4}_[a-z_]+\.sql", name) for name in names)
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))


@pytest.mark.requirement("REG-14")
def test_only_the_missing_steps_are_taken(connection: sqlite3.Connection, steps: Path) -> None:
    migrate(connection, steps)
    (steps / "0002_two.sql").write_text("CREATE TABLE b (x);\nINSERT INTO b VALUES (';');\n")

    migrate(connection, steps)
    migrate(connection, steps)

    assert version(connection) == 2
    assert tables(connection) == {"a", "b"}
    assert connection.execute("SELECT x FROM b").fetchall() == [(";",)]


@pytest.mark.requirement("REG-14")
def test_a_step_that_fails_leaves_the_database_as_it_was(
    connection: sqlite3.Connection, steps: Path
) -> None:
    migrate(connection, steps)
    (steps / "0002_two.sql").write_text("CREATE TABLE b (x);\nCREATE TABLE a (x);\n")

    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, steps)

    assert version(connection) == 1
    assert tables(connection) == {"a"}


@pytest.mark.requirement("REG-14")
def test_a_database_of_a_newer_program_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    open_sqlite(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    content = path.read_bytes()

    with pytest.raises(RegistryError, match="version 99") as raised:
        open_sqlite(path, sqlite_version=(3, 51, 3))

    assert "update the program" in raised.value.hint
    assert path.read_bytes() == content


@pytest.mark.requirement("REG-14")
def test_a_database_that_became_newer_while_waiting_is_refused(
    tmp_path: Path, connection: sqlite3.Connection, steps: Path
) -> None:
    def newer_meanwhile(statement: str) -> None:
        if statement.startswith("BEGIN"):
            with closing(sqlite3.connect(tmp_path / "x.db")) as other:
                other.execute("PRAGMA user_version = 5")

    connection.set_trace_callback(newer_meanwhile)

    with pytest.raises(RegistryError, match="version 5"):
        migrate(connection, steps)

    assert not connection.in_transaction
    assert tables(connection) == set()


@pytest.mark.requirement("REG-14")
def test_processes_that_open_a_new_registry_at_once_all_find_it_whole(tmp_path: Path) -> None:
    script = """
import sys
from discovery_engine.registry.sqlite.registry import open_sqlite
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
@rows("golden", GOLDEN, ids=lambda path: path.stem)
def test_a_registry_of_every_released_version_still_loads(tmp_path: Path, golden: Path) -> None:
    path = tmp_path / "registry.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(golden.read_text(encoding="utf-8"))

    with open_sqlite(path) as store:
        world = store.load("/home/someone/discovery.yaml")

    assert world
    assert [str(entry.key) for entry in world.catalog] == ["a:one", "a:two"]
    assert [entry.verdict.enabled for entry in world.catalog] == [True, False]
    assert [server.name for server in world.settings.servers] == ["a", "b"]


@pytest.mark.requirement("REG-14")
@rows("version", [10, 11, 12, 13])
def test_what_a_server_offers_besides_tools_is_restored_since_it_is_stored(
    tmp_path: Path, version: int
) -> None:
    path = tmp_path / "registry.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(GOLDEN[version - 1].read_text(encoding="utf-8"))

    with open_sqlite(path) as store:
        world = store.load("/home/someone/discovery.yaml")

    assert world
    part = world.catalog.part(ServerName("a"))
    found = [(e.offering.kind, e.offering.name, e.verdict.reason) for e in part.offerings]
    stored = [("resource", "a", "default"), ("prompt", "review", "changed")]
    assert found == (stored if version > 10 else [])


@pytest.mark.requirement("REG-14")
def test_tools_that_were_rows_of_their_own_stand_in_the_row_of_their_server(
    tmp_path: Path,
) -> None:
    path = tmp_path / "registry.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(GOLDEN[4].read_text(encoding="utf-8"))
        listed = "INSERT INTO servers VALUES (?, 1, ?, ?)"
        connection.executemany(
            listed, [(i, name, f'{{"server":"{name}"}}') for i, name in enumerate("cde", 3)]
        )
        connection.executemany(
            "INSERT INTO tools VALUES (?, ?, ?, 'own', ?, ?)",
            [
                (9, 3, 'z "\\\n\u20ac', '{"name":"\u20ac"}', "{}"),
                (8, 3, "y", '{"name":"y"}', '{"tags":["t"]}'),
                (7, 4, b"\xed\xa0\x80", '{"name":"x"}', "{}"),
            ],
        )
        connection.commit()

    with open_sqlite(path) as store:
        world = store.load("/home/someone/discovery.yaml")

    assert world
    assert list(world.catalog.parts) == ["a", "c", "e"]
    found = world.catalog.part(ServerName("c")).entries
    assert [entry.tool.given_name for entry in found] == ["y", 'z "\\\n\u20ac']
    assert [entry.tool.upstream_name for entry in found] == ["own", "own"]
    assert [entry.tool.definition["name"] for entry in found] == ["y", "\u20ac"]
    assert [entry.verdict.tags for entry in found] == [("t",), ()]
    assert world.catalog.part(ServerName("e")).entries == ()


@pytest.mark.requirement("REG-14")
@rows("key", ["warnings", "problem"])
def test_settings_with_problems_that_have_no_code_keep_the_names_of_their_servers(
    tmp_path: Path, key: str
) -> None:
    path = tmp_path / "registry.db"
    problem = '{"origin":{"file":"f"},"path":"servers.b","message":"wrong"}'
    stored = {
        "warnings": f'{{"servers":[{{"name":"a","transport":null}}],"warnings":[{problem}]}}',
        "problem": f'{{"servers":[{{"name":"b","transport":null,"problem":{problem}}}]}}',
    }
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(GOLDEN[8].read_text(encoding="utf-8"))
        connection.execute("UPDATE scopes SET settings = ?", (stored[key],))
        connection.commit()

    with open_sqlite(path) as store:
        world = store.load("/home/someone/discovery.yaml")

    assert world
    assert [server.name for server in world.settings.servers] == ["a", "b"]
    assert [file.digest for file in world.settings.inputs] == ["of an older version"]


def test_the_newest_version_has_a_golden_file() -> None:
    assert len(GOLDEN) == len(list(SHIPPED.glob("*.sql")))
