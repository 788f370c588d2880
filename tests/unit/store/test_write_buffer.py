"""The writes that wait for a registry, with a database that is a list."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from discovery_engine.errors import RegistryError, RegistryTimeoutError, RegistryUnavailableError
from discovery_engine.store.availability import Availability
from discovery_engine.store.write_buffer import WriteBuffer
from tests.fleet.fleet import wait_until

PATIENCE = 60.0


class Database:
    """Takes what is written in order; `fails` says why one is not."""

    def __init__(self) -> None:
        self.availability = Availability("database", time.monotonic)
        self.written: list[str] = []
        self.fails: dict[str, Exception] = {}

    def buffer(self) -> WriteBuffer:
        return WriteBuffer(self.availability, patience=PATIENCE)

    def write(self, name: str) -> Callable[[], None]:
        def write() -> None:
            if error := self.fails.get(name):
                if type(error) is RegistryUnavailableError:
                    self.availability.failed(error)
                raise error
            self.written.append(name)

        return write


@pytest.fixture
def database() -> Database:
    return Database()


@pytest.mark.requirement("PGS-11")
@pytest.mark.parametrize("error", [RegistryError("refused"), ZeroDivisionError()])
def test_what_is_refused_is_dropped_and_the_next_is_written(
    database: Database, error: Exception
) -> None:
    database.fails["a"] = error
    buffer = database.buffer()

    for name in "ab":
        buffer.add("uses", name, database.write(name))

    assert database.written == ["b"]
    assert (len(buffer), buffer.dropped, buffer.set_aside) == (0, 1, 0)


@pytest.mark.requirement("PGS-11")
def test_a_kind_that_takes_too_long_keeps_its_order_and_holds_up_no_other(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    database.fails |= {name: RegistryTimeoutError(f"{name} is slow") for name in "ac"}
    buffer = database.buffer()
    buffer.add("catalog", "a", database.write("a"))
    buffer.add("catalog", "b", database.write("b"))
    buffer.add("vectors", "c", database.write("c"))
    buffer.add("uses", "d", database.write("d"))

    assert buffer.set_aside == len(buffer) == 3
    database.fails.clear()
    wait_until(lambda: not len(buffer), "nothing waits")

    assert database.written[0] == "d"
    assert database.written.index("a") < database.written.index("b")
    assert [record.getMessage() for record in caplog.records] == [
        "A write for the registry is tried again later: a is slow"
    ]


@pytest.mark.requirement("PGS-11")
def test_all_wait_while_the_database_does_not_answer(database: Database) -> None:
    database.fails["a"] = RegistryUnavailableError("gone")
    buffer = database.buffer()
    for name in "aba":
        buffer.add("uses", name, database.write(name))
    database.fails.clear()

    database.availability.answered()
    buffer.resume()
    wait_until(lambda: not len(buffer), "nothing waits")

    assert database.written == ["a", "b"]
