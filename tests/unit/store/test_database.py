from __future__ import annotations

import itertools
import os
import random
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from discovery_engine.config.settings import RemoteTransport, StdioTransport
from discovery_engine.errors import RegistryError
from discovery_engine.store import stored_records
from discovery_engine.store.sqlite.sqlite_registry import SqliteRegistry, open_sqlite
from discovery_engine.tools.model import ServerName, ToolKey, ToolName
from tests.factories import make_catalog, make_part, make_server, make_settings
from tests.rows import rows

ROLLBACK, WAL = (3, 40, 1), (3, 51, 3)
WRITER = Path(__file__).with_name("writer.py")
SCOPE = "scope"


@pytest.fixture(
    params=[pytest.param(ROLLBACK, marks=pytest.mark.matrix), WAL], ids=["rollback", "wal"]
)
def sqlite_version(request: pytest.FixtureRequest) -> tuple[int, ...]:
    version: tuple[int, ...] = request.param
    return version


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "registry.db"


def fill(store: SqliteRegistry, *tools: str) -> None:
    store.save_settings(SCOPE, make_settings("a"))
    store.save_parts(SCOPE, [make_part("a", *tools)], revision=1)


def filled(path: Path, version: tuple[int, ...] = ROLLBACK, tools: int = 3) -> Path:
    with open_sqlite(path, sqlite_version=version) as store:
        fill(store, *(f"tool_{i:04}" for i in range(tools)))
    return path


def tool_count(store: SqliteRegistry) -> int | None:
    world = store.load(SCOPE)
    return len(world.catalog) if world else None


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# Whose it is


@contextmanager
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.requirement("REG-8")
@pytest.mark.skipif(os.name != "posix", reason="modes are a matter of POSIX")
def test_the_file_its_side_files_and_its_folder_are_the_owners_alone(
    path: Path, sqlite_version: tuple[int, ...]
) -> None:
    with no_umask(), open_sqlite(path, sqlite_version=sqlite_version) as store:
        fill(store, "x")
        modes = {found.name: mode(found) for found in path.parent.iterdir()}

    assert set(modes.values()) == {0o600}
    assert mode(path.parent) == 0o700


@pytest.mark.requirement("REG-8")
@pytest.mark.skipif(os.name != "posix", reason="modes are a matter of POSIX")
def test_a_file_that_others_may_read_is_closed_to_them(path: Path) -> None:
    filled(path).chmod(0o644)

    open_sqlite(path).close()

    assert mode(path) == 0o600


@pytest.mark.requirement("REG-12")
@pytest.mark.skipif(os.name != "posix", reason="modes are a matter of POSIX")
def test_a_file_that_is_private_is_read_without_being_changed(path: Path) -> None:
    before = filled(path).stat()

    with open_sqlite(path, sqlite_version=ROLLBACK) as store:
        assert tool_count(store) == 3

    assert path.stat().st_ctime_ns == before.st_ctime_ns


@pytest.mark.requirement("REG-2")
def test_no_byte_of_a_transport_with_a_secret_reaches_the_disk(
    path: Path, sqlite_version: tuple[int, ...]
) -> None:
    secret = "hunter2-correct-horse"
    transports = [
        StdioTransport("run", ("--token", secret)),
        StdioTransport("run", env={"TOKEN": secret}),
        RemoteTransport(f"https://example.org/{secret}", {"Authorization": secret}),
    ]
    with open_sqlite(path, sqlite_version=sqlite_version) as store:
        for transport in transports:
            store.save_settings(SCOPE, make_settings(make_server("a", transport=transport)))
            store.save_parts(SCOPE, [make_part("a", "x")], revision=1)
        found = {f.name: f.read_bytes() for f in path.parent.iterdir()}

    assert "registry.db" in found
    assert not [name for name, content in found.items() if secret.encode() in content]


# Which journal


@pytest.mark.requirement("REG-9")
@pytest.mark.parametrize(
    ("version", "journal"),
    [
        pytest.param((3, 51, 2), "delete", id="two checkpoints at once can damage a WAL"),
        pytest.param((3, 51, 3), "wal", id="mended"),
    ],
)
def test_a_write_ahead_log_is_used_where_it_is_safe(
    path: Path, version: tuple[int, ...], journal: str
) -> None:
    open_sqlite(path, sqlite_version=version).close()

    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == (journal,)


def test_an_older_sqlite_takes_over_what_a_newer_one_left(path: Path) -> None:
    filled(path, WAL)

    with open_sqlite(path, sqlite_version=ROLLBACK) as store:
        assert tool_count(store) == 3


def test_both_journals_share_a_file_that_is_open(path: Path) -> None:
    with open_sqlite(path, sqlite_version=WAL) as newer:
        fill(newer, "x")
        with open_sqlite(path, sqlite_version=ROLLBACK) as older:
            fill(older, "x", "y")

        assert tool_count(newer) == 2


# What can go wrong


@pytest.mark.requirement("REG-10")
def test_an_empty_file_is_a_registry_that_knows_nothing(path: Path) -> None:
    path.parent.mkdir()
    path.touch()

    with open_sqlite(path) as store:
        assert store.load(SCOPE) is None
        assert store.recovered is None


def _truncate(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def _overwrite_middle(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)


DAMAGES = [
    pytest.param(lambda path: path.write_text("not a database " * 99), id="another file"),
    pytest.param(_truncate, id="cut short"),
    pytest.param(_overwrite_middle, id="pages overwritten"),
]


@pytest.mark.requirement("REG-10")
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_set_aside_and_a_new_one_begun(
    path: Path, damage: Callable[[Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    damage(filled(path, tools=200))
    content = path.read_bytes()

    with open_sqlite(path) as store:
        assert tool_count(store) is None
        fill(store, "x")
        assert tool_count(store) == 1
        assert store.recovered == f"{path}.corrupt-1"

    assert Path(f"{path}.corrupt-1").read_bytes() == content
    assert "is damaged" in caplog.text


@pytest.mark.requirement("REG-10")
def test_damage_that_a_write_finds_is_handled_the_same(path: Path) -> None:
    _overwrite_middle(filled(path, tools=200))

    with open_sqlite(path) as store:
        fill(store, "x")
        assert tool_count(store) == 1


@pytest.mark.requirement("REG-10")
def test_every_damaged_file_keeps_a_name_of_its_own(path: Path) -> None:
    for number in (1, 2, 3):
        _truncate(filled(path, tools=200))
        with open_sqlite(path) as store:
            store.load(SCOPE)
            assert store.recovered == f"{path}.corrupt-{number}"


@pytest.mark.requirement("REG-10")
def test_two_that_find_the_same_damage_set_it_aside_once(path: Path) -> None:
    filled(path, tools=200)
    with open_sqlite(path) as one, open_sqlite(path) as other:
        _overwrite_middle(path)

        assert tool_count(one) is None
        fill(one, "x")

        assert tool_count(other) == 1
        assert other.recovered is None


@pytest.mark.thorough
@pytest.mark.requirement("REG-10")
@pytest.mark.parametrize("seed", range(25))
def test_flipped_pages_lead_to_an_answer_or_to_a_registry_error(path: Path, seed: int) -> None:
    chance = random.Random(seed)
    content = bytearray(filled(path, tools=60).read_bytes())
    start = chance.randrange(0, len(content), 512)
    content[start : start + 512] = chance.randbytes(512)
    path.write_bytes(content)

    with suppress(RegistryError), open_sqlite(path) as store:
        store.load(SCOPE)
        fill(store, "x")
        assert tool_count(store) == 1


def test_text_that_is_not_utf_8_counts_as_damage(path: Path) -> None:
    with closing(sqlite3.connect(filled(path))) as connection:
        connection.execute("UPDATE listings SET names = CAST(x'ff' AS TEXT)")
        connection.commit()

    with open_sqlite(path) as store:
        assert tool_count(store) is None
        assert store.recovered


@pytest.mark.thorough
@pytest.mark.requirement("REG-1")
@pytest.mark.parametrize(
    "change",
    [
        pytest.param("UPDATE scopes SET settings = 'torn'", id="not JSON"),
        pytest.param("UPDATE scopes SET settings = '[]'", id="another shape"),
        pytest.param("""UPDATE scopes SET settings = '{"colour": 1}'""", id="unknown field"),
        pytest.param("""UPDATE listings SET verdicts = '{"mood": 1}'""", id="unknown verdict"),
        pytest.param("UPDATE scopes SET revision = 'torn'", id="a revision that is no number"),
        pytest.param("UPDATE listings SET verdicts = ''", id="no verdict"),
        pytest.param("UPDATE listings SET judged = '[[0, 2]]'", id="a tool is not judged"),
        pytest.param("UPDATE listings SET names = '[\"x\"]'", id="a name is missing"),
        pytest.param("UPDATE listings SET names = '3'", id="no names"),
        pytest.param("UPDATE listings SET sources = x'7b7d'", id="a definition is missing"),
        pytest.param("UPDATE listings SET sources = x'ff0aff0aff'", id="not UTF-8"),
        pytest.param("UPDATE servers SET part = NULL", id="tools without their part"),
    ],
)
def test_a_record_that_is_not_understood_is_as_if_nothing_were_remembered(
    path: Path, change: str
) -> None:
    with closing(sqlite3.connect(filled(path))) as connection:
        connection.execute(change)
        connection.commit()

    with open_sqlite(path) as store:
        assert store.load(SCOPE) is None
        fill(store, "x")
        assert tool_count(store) == 1
        assert store.recovered is None


@pytest.mark.requirement("REG-1")
def test_an_index_and_a_use_that_are_not_understood_are_not_remembered(path: Path) -> None:
    with open_sqlite(filled(path)) as store:
        store.save_index(SCOPE, b"index")
        store.count_use(SCOPE, ToolKey(ServerName("a"), ToolName("tool_0000")), at=1.0)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE indexes SET data = 'torn'")
        connection.execute("UPDATE uses SET count = 'torn'")
        connection.commit()

    with open_sqlite(path) as store:
        assert store.load_index(SCOPE) is None
        assert store.uses(SCOPE) == {}


@pytest.mark.requirement("REG-1")
@pytest.mark.parametrize("era", ["torn", "3"])
def test_an_era_that_is_not_understood_is_not_remembered(path: Path, era: str) -> None:
    with open_sqlite(path) as store:
        store.save_era("c0ffee", {"era": "old"})
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE eras SET era = ?", [era])
        connection.commit()

    with open_sqlite(path) as store:
        assert store.load_era("c0ffee") is None


@pytest.mark.requirement("REG-12")
@rows(
    "place",
    [
        pytest.param("file/registry.db", id="a folder that is a file"),
        pytest.param("file/deeper/registry.db", id="a folder that cannot be made"),
        pytest.param("folder", id="a file that is a folder"),
    ],
)
def test_a_place_that_cannot_be_used_is_a_registry_error(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()

    with pytest.raises(RegistryError) as raised:
        open_sqlite(tmp_path / place)

    assert str(tmp_path / place) in raised.value.message
    assert raised.value.hint
    assert isinstance(raised.value.__cause__, OSError | sqlite3.Error)


@pytest.mark.requirement("REG-12")
def test_a_full_disk_is_a_registry_error_and_what_was_kept_stays(path: Path) -> None:
    with open_sqlite(filled(path)) as store:
        store._database._connection.execute("PRAGMA max_page_count = 1")
        many = [f"tool_{i}" for i in range(2000)]

        with pytest.raises(RegistryError):
            store.save_parts(SCOPE, [make_part("a", *many)], revision=2)

        assert tool_count(store) == 3
        store._database._connection.execute("PRAGMA max_page_count = 100000")
        store.save_parts(SCOPE, [make_part("a", *many)], revision=2)
        assert tool_count(store) == 2000


def test_a_store_that_is_closed_reports_it(path: Path) -> None:
    store = open_sqlite(path)
    store.close()
    store.close()

    with pytest.raises(RegistryError):
        store.load(SCOPE)


# How much is kept


@pytest.mark.requirement("REG-5")
def test_the_scopes_least_lately_saved_make_room_for_new_ones(path: Path) -> None:
    with open_sqlite(path) as store:
        for number in range(50):
            store.save_settings(str(number), make_settings("a"))
        store.save_parts("0", [make_part("a", "x")], revision=1)

        store.save_settings("one more", make_settings("a"))

        kept = [number for number in range(50) if store.load(str(number))]
        assert kept == [0, *range(2, 50)]


def test_the_eras_first_met_make_room_for_new_ones(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_records, "ERAS_KEPT", 1000)
    with open_sqlite(path) as store:
        rows = [(f"c{i}", "{}") for i in range(1000)]
        insert = "INSERT INTO eras (connection, era) VALUES (?, ?)"
        store._database.write(lambda db: db.executemany(insert, rows))

        store.save_era("one more", {})

        assert store.load_era("c0") is None
        assert store.load_era("c1") == {}


def test_settings_and_eras_that_did_not_change_are_not_written_again(path: Path) -> None:
    with open_sqlite(path) as store:
        fill(store, "x")
        store.save_era("c0ffee", {"era": "old"})
        before = store._database._connection.total_changes

        store.save_settings(SCOPE, make_settings("a"))
        store.save_era("c0ffee", {"era": "old"})

        assert store._database._connection.total_changes == before


# Several at once


def test_threads_take_turns(path: Path) -> None:
    with open_sqlite(path) as store:
        names = [f"s{i}" for i in range(4)]
        store.save_settings(SCOPE, make_settings(*names))

        def work(name: str) -> None:
            for revision in range(5):
                store.save_parts(SCOPE, [make_part(name, "x", "y")], revision=revision)

        threads = [threading.Thread(target=work, args=[name]) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert tool_count(store) == 8


@pytest.mark.requirement("REG-1")
def test_what_is_loaded_is_of_one_moment_whoever_writes_meanwhile(path: Path) -> None:
    with (
        open_sqlite(path, sqlite_version=WAL) as store,
        open_sqlite(path, sqlite_version=WAL) as other,
    ):
        fill(store, "old")

        def write_between(statement: str) -> None:
            if "listings" in statement and statement.lstrip().startswith("SELECT"):
                other.save_parts(SCOPE, [make_part("a", "new")], revision=2)

        store._database._connection.set_trace_callback(write_between)
        before = store.load(SCOPE)
        store._database._connection.set_trace_callback(None)

        after = store.load(SCOPE)
        assert before
        assert after
        assert before.catalog == make_catalog(make_part("a", "old"), revision=1)
        assert after.catalog == make_catalog(make_part("a", "new"), revision=2)


@pytest.mark.requirement("REG-1")
def test_what_is_loaded_stays_as_it_is_and_needs_no_file(path: Path) -> None:
    with open_sqlite(path) as store:
        fill(store, "old")
        world = store.load(SCOPE)
        fill(store, "new")
    path.unlink()

    assert world
    assert world.catalog == make_catalog(make_part("a", "old"), revision=1)


@pytest.mark.requirement("REG-1")
def test_no_definition_is_parsed_and_no_digest_made_of_what_is_loaded(path: Path) -> None:
    digest = bytes(32)
    with closing(sqlite3.connect(filled(path, tools=1))) as connection:
        connection.execute("UPDATE listings SET sources = ?, digest = ?", (b"{torn", digest))
        connection.commit()

    with open_sqlite(path) as store:
        world = store.load(SCOPE)

    assert world
    assert world.catalog.part(ServerName("a")).digest == digest
    assert [entry.tool.source for entry in world.catalog] == ["{torn"]


def start_writer(path: Path, version: tuple[int, ...]) -> subprocess.Popen[str]:
    command = [sys.executable, str(WRITER), str(path), ".".join(map(str, version))]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def said(writer: subprocess.Popen[str]) -> Iterator[int]:
    assert writer.stdout
    return map(int, writer.stdout)


@pytest.mark.requirement("REG-9")
def test_what_was_acknowledged_survives_a_kill(path: Path, sqlite_version: tuple[int, ...]) -> None:
    chance = random.Random(7)
    path.parent.mkdir()
    for _ in range(6):
        with start_writer(path, sqlite_version) as writer:
            told = list(itertools.islice(said(writer), chance.randrange(1, 15)))
            writer.kill()
            told += said(writer)

        with open_sqlite(path, sqlite_version=sqlite_version) as store:
            world = store.load(SCOPE)
            assert store.recovered is None
            assert world
            assert world.catalog.revision in (told[-1], told[-1] + 1)
            revisions = {entry.tool.definition["revision"] for entry in world.catalog}
            assert revisions == {world.catalog.revision}
            assert len(world.catalog) == 20
            check = store._database.read(lambda db: db.execute("PRAGMA integrity_check").fetchall())
            assert check == [("ok",)]


@pytest.mark.thorough
@pytest.mark.requirement("REG-9")
def test_processes_that_write_at_once_wait_for_each_other(
    path: Path, sqlite_version: tuple[int, ...]
) -> None:
    with start_writer(path, sqlite_version) as one, start_writer(path, sqlite_version) as other:
        told = [list(itertools.islice(said(writer), 10)) for writer in (one, other)]
        for writer in (one, other):
            writer.kill()

    assert [len(revisions) for revisions in told] == [10, 10]
    with open_sqlite(path, sqlite_version=sqlite_version) as store:
        assert tool_count(store) == 20
        check = store._database.read(lambda db: db.execute("PRAGMA integrity_check").fetchall())
        assert check == [("ok",)]
