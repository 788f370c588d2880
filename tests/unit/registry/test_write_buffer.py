"""The outbox of a registry, with a database that is a list."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from discovery_engine.errors import RegistryError, RegistryTimeoutError, RegistryUnavailableError
from discovery_engine.registry.availability import Availability
from discovery_engine.registry.outbox import Outbox
from tests.fleet.fleet import wait_until

PATIENCE = 60.0


class Database:
    """Takes what is written in order; `fails` says why one is not."""

    def __init__(self) -> None:
        self.availability = Availability("database", time.monotonic)
        self.written: list[str] = []
        self.fails: dict[str, Exception] = {}
        self.goes_on = threading.Event()
        self.goes_on.set()

    def outbox(self, limit: int | None = 10) -> Outbox:
        return Outbox(self._send, self.availability, limit)

    def write(self, name: str) -> Callable[[Any], None]:
        def write(_: object) -> None:
            self.goes_on.wait()
            if error := self.fails.get(name):
                raise error
            self.written.append(name)

        return write

    def _send(self, write: Callable[[Any], object]) -> bool:
        try:
            write(None)
        except RegistryUnavailableError as error:
            if not isinstance(error, RegistryTimeoutError):
                self.availability.failed(error)
            raise
        return True


@pytest.fixture
def database() -> Database:
    return Database()


@pytest.mark.requirement("PGS-11")
@pytest.mark.parametrize("error", [RegistryError("refused"), ZeroDivisionError()])
def test_what_is_refused_is_dropped_and_the_next_is_written(
    database: Database, error: Exception
) -> None:
    database.fails["a"] = error
    outbox = database.outbox()

    for name in "ab":
        outbox.add(name, database.write(name), patience=PATIENCE)

    assert database.written == ["b"]
    assert (len(outbox), outbox.dropped, outbox.set_aside) == (0, 1, 0)


@pytest.mark.requirement("PGS-11")
def test_what_takes_too_long_is_written_after_the_others(database: Database) -> None:
    database.fails["a"] = RegistryTimeoutError("slow")
    outbox = database.outbox()
    for name in "abc":
        outbox.add(name, database.write(name), patience=PATIENCE)
    wait_until(lambda: outbox.set_aside == len(outbox) == 1, "only the slow one waits")

    database.fails.clear()
    wait_until(lambda: not len(outbox), "nothing waits")

    assert database.written == ["b", "c", "a"]


@pytest.mark.requirement("PGS-11")
def test_as_long_as_something_is_set_aside_the_log_says_so_once(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    database.fails = {name: RegistryTimeoutError(f"{name} is slow") for name in "abc"}
    outbox = database.outbox()
    for name in "abc":
        outbox.add(name, database.write(name), patience=PATIENCE)

    wait_until(lambda: outbox.set_aside == 3, "all are set aside")

    assert [record.getMessage() for record in caplog.records] == [
        "A write for the registry is tried again later: a is slow"
    ]


@pytest.mark.requirement("PGS-11")
def test_what_needs_another_write_is_not_tried_before(database: Database) -> None:
    database.fails["a"] = RegistryTimeoutError("slow")
    outbox = database.outbox()
    outbox.add("a", database.write("a"), patience=PATIENCE)
    outbox.add("b", database.write("b"), after="a")
    outbox.add("c", database.write("c"))
    wait_until(lambda: database.written == ["c"], "what needs nothing is written")

    database.fails.clear()
    wait_until(lambda: not len(outbox), "nothing waits")

    assert database.written == ["c", "a", "b"]


@pytest.mark.requirement("PGS-11")
def test_what_is_not_begun_in_time_is_replaced(database: Database) -> None:
    database.goes_on.clear()
    outbox, instead = database.outbox(), list[str]()
    outbox.add("a", database.write("a"))
    wait_until(lambda: outbox._current, "the first is begun")

    outbox.add("b", database.write("b"), otherwise=lambda: instead.append("b"))
    database.goes_on.set()
    outbox.close(PATIENCE)

    assert (database.written, instead) == (["a"], ["b"])


@pytest.mark.requirement("PGS-11")
@pytest.mark.parametrize("error", [None, RegistryError("refused"), RegistryTimeoutError("slow")])
def test_what_fails_is_replaced(database: Database, error: Exception | None) -> None:
    database.fails |= {"a": error} if error else {}
    outbox, instead = database.outbox(), list[str]()

    outbox.add(
        "a", database.write("a"), patience=PATIENCE, otherwise=lambda: instead.append("instead")
    )

    assert database.written + instead == ["instead" if error else "a"]
    assert len(outbox) == 0


@pytest.mark.requirement("PGS-11")
def test_all_wait_while_the_database_does_not_answer(database: Database) -> None:
    database.fails["a"] = RegistryUnavailableError("gone")
    outbox = database.outbox()
    for name in "aba":
        outbox.add(name, database.write(name), patience=PATIENCE)
    database.fails.clear()

    database.availability.answered()
    outbox.resume()
    wait_until(lambda: not len(outbox), "nothing waits")

    assert sorted(database.written) == ["a", "b"]


@pytest.mark.requirement("PGS-12")
def test_without_a_limit_what_is_refused_waits(database: Database) -> None:
    database.fails["a"] = RegistryError("refused")
    outbox = database.outbox(limit=None)

    outbox.add("a", database.write("a"), patience=PATIENCE)

    assert (len(outbox), outbox.dropped, outbox.set_aside) == (1, 0, 1)
