"""The simulated fleet takes the steps of the real one, and what it is reckoned with is measured."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.fleet_model import HOUR, Distribution, Fleet, Queue, Seen, Simulation
from benchmarks.fleet_operations import TOOLS, measure
from benchmarks.fleet_simulation import OPERATIONS
from discovery_engine.store import schedule
from discovery_engine.store.refresh_job import RefreshJob
from discovery_engine.tools.model import ServerName
from tests.postgres import PostgresServer


def drawn(seed: int) -> list[RefreshJob]:
    """Jobs as a fleet has them, some due, some claimed, some dead."""
    random = Random(seed)
    return [
        RefreshJob(
            "scope", ServerName(f"server{number}"), 0.0, random.uniform(0, 20),
            state=random.choice(("pending", "processing", "enabled", "error", "dead", "disabled")),
            priority=random.choice((0, 0, schedule.REQUESTED)), lease_until=random.uniform(0, 20),
        )
        for number in range(30)
    ]  # fmt: skip


def claim_order(job: RefreshJob) -> tuple[int, float, float, str]:
    return -job.priority, job.claimable_at or 0.0, job.created_at, job.server


@pytest.mark.requirement("FLT-10")
@given(seed=st.integers(0, 10_000))
def test_the_simulation_claims_the_highest_priority_and_then_the_oldest(seed: int) -> None:
    jobs, queue = drawn(seed), Queue()
    for job in jobs:
        queue.put(job)

    claimed = []
    while found := queue.next_job(10.0):
        claimed.append(found)
        queue.put(schedule.claimed(found, "worker", 60.0, 10.0))

    due = [job for job in jobs if job.claimable_at is not None and job.claimable_at <= 10.0]
    assert claimed == sorted(due, key=claim_order)


def run(seed: int) -> Seen:
    given = Distribution(crash_every=2 * HOUR, outage_every=48 * HOUR)
    return Simulation(Fleet(300, 4, slots=2, days=3.0, seed=seed), given).run()


@pytest.mark.requirement("FLT-10")
def test_a_seed_gives_one_course_in_which_no_claim_and_no_server_is_lost() -> None:
    seen, again, other = run(7), run(7), run(8)

    assert seen.counts == again.counts != other.counts
    ends = ("first listings", "unchanged listings", "changed listings", "failures", "results lost")
    ended = sum(seen.counts[end] for end in ends)
    assert seen.counts["taken over"] > 0
    # At the end all slots may be in use, and the claims of a crash before it have a lease left.
    left = seen.counts["claims"] - ended - seen.counts["taken over"] - seen.counts["given up"]
    assert -seen.counts["given up"] <= left <= 16
    assert 290 < seen.counts["first listings"] <= 300


@pytest.mark.requirement("FLT-10")
def test_what_an_operation_costs_is_measured_on_a_real_database(
    postgres_server: PostgresServer,
) -> None:
    costs = {cost.what: cost for cost in measure(postgres_server, count=16)}

    assert set().union(*OPERATIONS.values()) <= set(costs)
    assert costs[f"accept {TOOLS} new tools"].log > TOOLS * 400
    assert costs["save, one tool changed"].log > 1_000  # others that write at that time add to it
