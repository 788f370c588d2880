from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from discovery_engine.errors import RegistryError
from discovery_engine.store.sqlite.busy_handler import BusyHandler
from discovery_engine.store.sqlite.sqlite_registry import SqliteRegistry, open_sqlite
from tests.factories import make_part, make_settings

ROLLBACK = (3, 40, 1)
SCOPE = "scope"


class Clock:
    """Goes on only when somebody sleeps, or is told to."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def busy(clock: Clock) -> BusyHandler:
    return BusyHandler(patience=2.0, clock=clock, sleep=clock.sleep)


def taken() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY_RECOVERY
    return error


# Waiting


@pytest.mark.requirement("REG-9")
def test_who_waits_looks_often_enough_to_meet_a_short_gap(busy: BusyHandler, clock: Clock) -> None:
    def step() -> str:
        if clock.now < 1001.0:
            raise taken()
        return "done"

    assert busy.retry(step) == "done"
    assert max(clock.slept) <= 0.01


@pytest.mark.requirement("REG-12")
def test_patience_ends(busy: BusyHandler, clock: Clock) -> None:
    def step() -> None:
        raise taken()

    with pytest.raises(sqlite3.OperationalError):
        busy.retry(step)

    assert sum(clock.slept) == pytest.approx(2.0, abs=0.01)


@pytest.mark.parametrize("error", [sqlite3.OperationalError("no such table"), ValueError("no")])
def test_nothing_else_is_waited_for(busy: BusyHandler, clock: Clock, error: Exception) -> None:
    def step() -> None:
        raise error

    with pytest.raises(type(error)):
        busy.retry(step)

    assert clock.slept == []


# Giving way


def write(busy: BusyHandler, clock: Clock, seconds: float) -> None:
    with busy.writing():
        clock.now += seconds


@pytest.mark.requirement("REG-9")
def test_who_writes_without_a_rest_gives_way_now_and_then(busy: BusyHandler, clock: Clock) -> None:
    begun = clock.now
    for _ in range(1000):
        write(busy, clock, 0.004)

    rested = sum(clock.slept)
    assert min(clock.slept) >= 2 * 0.005  # whoever waits looks at least once meanwhile
    assert len(clock.slept) >= 10
    assert rested <= 0.05 * (clock.now - begun)


def test_one_long_write_gives_way_before_the_next(busy: BusyHandler, clock: Clock) -> None:
    write(busy, clock, 3.0)
    write(busy, clock, 3.0)

    assert len(clock.slept) == 1


def test_who_rests_anyway_is_not_kept(busy: BusyHandler, clock: Clock) -> None:
    for _ in range(1000):
        write(busy, clock, 0.3)
        clock.now += 0.02

    assert clock.slept == []


# With a file


@pytest.fixture
def other(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Another process's connection, as far as SQLite can tell, to a registry that knows a tool."""
    path = tmp_path / "registry.db"
    with open_sqlite(path, sqlite_version=ROLLBACK) as store:
        save(store)
    connection = sqlite3.connect(path, isolation_level=None, timeout=0)
    with closing(connection):
        yield connection


def save(store: SqliteRegistry) -> None:
    store.save_settings(SCOPE, make_settings("a"))
    store.save_parts(SCOPE, [make_part("a", "x")], revision=1)


WRITES = "BEGIN IMMEDIATE"
ENDS_A_WRITE = "BEGIN EXCLUSIVE"
READS = "BEGIN; SELECT * FROM scopes"


@pytest.mark.requirement("REG-9")
@pytest.mark.parametrize(
    ("held", "verb"),
    [
        pytest.param(WRITES, save, id="to write while another writes"),
        pytest.param(READS, save, id="to end a write while another reads"),
        pytest.param(ENDS_A_WRITE, lambda store: store.load(SCOPE), id="to read"),
    ],
)
def test_a_verb_waits_until_the_other_is_done(
    tmp_path: Path, other: sqlite3.Connection, held: str, verb: Callable[[SqliteRegistry], object]
) -> None:
    looks = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            other.rollback()

    busy = BusyHandler(sleep=sleep)
    with open_sqlite(tmp_path / "registry.db", sqlite_version=ROLLBACK, busy=busy) as store:
        for statement in held.split("; "):
            other.execute(statement).fetchone()

        verb(store)

        assert store.load(SCOPE)
    assert len(looks) == 3


@pytest.mark.requirement("REG-9")
def test_opening_waits_until_the_other_is_done(tmp_path: Path, other: sqlite3.Connection) -> None:
    other.execute(ENDS_A_WRITE)
    busy = BusyHandler(sleep=lambda _: other.rollback())

    with open_sqlite(tmp_path / "registry.db", sqlite_version=ROLLBACK, busy=busy) as store:
        assert store.load(SCOPE)


@pytest.mark.requirement("REG-9")
def test_others_come_between_the_writes_of_one_who_never_rests(
    tmp_path: Path, other: sqlite3.Connection
) -> None:
    clock = Clock()
    came = []

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        came.append(other.execute("UPDATE scopes SET saved = saved + 1").rowcount)

    busy = BusyHandler(clock=clock, sleep=sleep)
    with open_sqlite(tmp_path / "registry.db", sqlite_version=ROLLBACK, busy=busy) as store:
        for _ in range(100):
            save(store)
            clock.now += 0.009  # less than a rest

    assert set(came) == {1}


@pytest.mark.requirement("REG-12")
def test_a_lock_that_is_held_too_long_is_a_registry_error(
    tmp_path: Path, other: sqlite3.Connection
) -> None:
    busy = BusyHandler(patience=0.0)
    with open_sqlite(tmp_path / "registry.db", sqlite_version=ROLLBACK, busy=busy) as store:
        other.execute(WRITES)
        with pytest.raises(RegistryError):
            save(store)
        assert store.load(SCOPE)

        other.rollback()
        save(store)


@pytest.mark.requirement("REG-12")
def test_a_lock_that_is_held_for_long_costs_a_process_one_wait(
    tmp_path: Path, other: sqlite3.Connection, clock: Clock
) -> None:
    path = tmp_path / "registry.db"
    busy = BusyHandler(clock=clock, sleep=clock.sleep)
    other.execute(ENDS_A_WRITE)

    for patience in (2.0, 5.0, None):
        with pytest.raises(RegistryError, match="locked by another process"):
            open_sqlite(path, busy=busy, patience=patience)
    once = sum(clock.slept)
    other.rollback()
    with open_sqlite(path, sqlite_version=ROLLBACK, busy=busy, patience=2.0) as store:
        other.execute(ENDS_A_WRITE)
        with pytest.raises(RegistryError):
            store.load(SCOPE)

    assert once == pytest.approx(2.0, abs=0.1)
    assert sum(clock.slept) == pytest.approx(2 * once, abs=0.1)


@pytest.mark.requirement("REG-12")
def test_whoever_opens_a_registry_takes_the_turns_of_the_process(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"

    with open_sqlite(path) as one, open_sqlite(path) as other:
        assert one._database._busy is other._database._busy
