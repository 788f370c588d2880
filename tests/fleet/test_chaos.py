"""A fleet that everything happens to, in short; `benchmarks/fleet_chaos.py` does it for an hour."""

from __future__ import annotations

from pathlib import Path
from random import SystemRandom

import pytest

from tests import postgres
from tests.fleet.chaos import Chaos
from tests.fleet.judgement import judge
from tests.fleet.worlds import open_world


@pytest.mark.requirement("FLT-10")
@pytest.mark.timeout(900)
@pytest.mark.skipif(bool(postgres.missing()), reason=postgres.missing())
def test_whatever_happens_no_server_is_lost_and_no_worker_writes_that_was_replaced(
    tmp_path: Path,
) -> None:
    seed = SystemRandom().randrange(10**6)
    print(f"seed {seed}")  # noqa: T201 - shown if the test fails
    with open_world(tmp_path, servers=30, lease=3.0) as world:
        chaos = Chaos(world, workers=3, seed=seed)
        for action in chaos.names:
            chaos.act(action)
        chaos.calm()
        codes = chaos.stop()
        found = judge(world, chaos)

    assert codes == [0] * len(codes)
    assert found.wrong == []
    assert chaos.done["claims lost by stopped workers"] > 0
