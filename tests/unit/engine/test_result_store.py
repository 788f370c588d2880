"""How long results are kept, and how many."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from discovery_engine.engine.result_store import ResultNotFoundError, ResultStore
from tests.factories import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[ResultStore]:
    made = ResultStore(tmp_path, clock=clock, most_bytes=10_000)
    yield made
    made.close()


@pytest.mark.requirement("RSL-6")
def test_a_result_is_kept_for_an_hour(store: ResultStore, clock: Clock, tmp_path: Path) -> None:
    handle = store.put(b"x", owner="a", path="@")
    assert handle
    clock.now += 3599

    assert store.get(handle, owner="a")[1] == b"x"
    clock.now += 1
    store.expire()
    assert store.size == 0
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["lock"]
    with pytest.raises(ResultNotFoundError):
        store.get(handle, owner="a")


@pytest.mark.thorough
@pytest.mark.requirement("RSL-6")
def test_a_flood_of_one_client_is_bounded_and_costs_the_others_nothing(
    store: ResultStore, tmp_path: Path
) -> None:
    quiet = store.put(b"q" * 1000, owner="quiet", path="@")
    assert quiet

    handles = [store.put(b"f" * 900, owner="flood", path="@") for _ in range(5000)]

    on_disk = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
    assert store.size == on_disk <= 10_000
    assert store.get(quiet, owner="quiet")[1] == b"q" * 1000
    assert store.get(handles[-1] or "", owner="flood")
    assert store.put(b"x" * 10_001, owner="a", path="@") is None
