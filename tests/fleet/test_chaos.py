"""A fleet that everything happens to for minutes; `benchmarks/fleet_chaos.py` takes an hour."""

from __future__ import annotations

import time
from pathlib import Path
from random import SystemRandom

import pytest

from tests import postgres
from tests.fleet.chaos import Chaos
from tests.fleet.judgement import judge
from tests.fleet.worlds import open_world

_SECONDS = 300.0


@pytest.mark.requirement("FLT-10")
@pytest.mark.timeout(1800)
@pytest.mark.skipif(bool(postgres.missing()), reason=postgres.missing())
def test_whatever_happens_no_server_is_lost_and_no_worker_writes_that_was_replaced(
    tmp_path: Path,
) -> None:
    seed = SystemRandom().randrange(10**6)
    print(f"seed {seed}")  # noqa: T201 - shown if the test fails
    with open_world(tmp_path, servers=30, lease=3.0) as world:
        chaos = Chaos(world, workers=3, seed=seed)
        end = time.monotonic() + _SECONDS
        for action in chaos.names:
            chaos.act(action)
        while time.monotonic() < end:
            chaos.act()
        chaos.calm()
        codes = chaos.stop()
        found = judge(world, chaos)

    assert codes == [0] * len(codes)
    assert found.wrong == []
    assert chaos.done["claims lost by stopped workers"] > 0
