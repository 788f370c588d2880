from __future__ import annotations

import gc

from discovery_engine._util.kept_in_use import KeptInUse


class Value:
    pass


def test_what_is_in_use_is_the_same_and_the_last_ones_stay_without() -> None:
    kept: KeptInUse[int, Value] = KeptInUse(2)
    used = Value()
    kept.add(0, used)
    for key in range(1, 10):
        kept.add(key, Value())
    gc.collect()

    assert len(kept) == 3
    assert kept.get(1) is None
    assert kept.get(9) is not None
    assert kept.get(0) is used


def test_what_was_looked_up_last_stays_longest() -> None:
    kept: KeptInUse[str, Value] = KeptInUse(2)
    for key in ("a", "b"):
        kept.add(key, Value())
    kept.get("a")
    kept.add("c", Value())
    gc.collect()

    assert kept.get("b") is None
    assert kept.get("a") is not None
