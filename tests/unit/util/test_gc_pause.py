from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from discovery_engine._util import gc_pause


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was_enabled else gc.disable)()


def test_nothing_is_collected_until_it_is_over() -> None:
    with gc_pause.paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_is_over_when_the_last_of_several_has_left() -> None:
    first, second = ExitStack(), ExitStack()
    first.enter_context(gc_pause.paused())
    second.enter_context(gc_pause.paused())

    first.close()
    assert not gc.isenabled()
    second.close()
    assert gc.isenabled()


def test_an_error_ends_it_too() -> None:
    with pytest.raises(ValueError, match="broken"), gc_pause.paused():
        raise ValueError("broken")
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()

    with gc_pause.paused():
        pass

    assert not gc.isenabled()
