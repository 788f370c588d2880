"""The schedule of refresh jobs: properties of pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.store import schedule
from discovery_engine.store.refresh_job import JobState, RefreshJob, RefreshTarget
from discovery_engine.tools.model import ServerName

TIMES = st.floats(0.0, 1e9)
HOUR = 3600.0
STATES: list[JobState] = ["pending", "processing", "enabled", "error", "dead", "disabled"]


@st.composite
def jobs(draw: st.DrawFn) -> RefreshJob:
    state = draw(st.sampled_from(STATES))
    is_processed = state == "processing"
    return RefreshJob(
        "scope",
        ServerName(draw(st.sampled_from("abcdefgh"))),
        draw(TIMES),
        draw(TIMES),
        state,
        draw(st.integers(0, 10)),
        draw(st.integers(0, 20)),
        "w" if is_processed else "",
        draw(st.integers(0, 99)),
        draw(TIMES) if is_processed else None,
        draw(TIMES) if is_processed else None,
        draw(st.none() | TIMES),
        failing_since=draw(st.none() | TIMES),
        losses=draw(st.integers(0, schedule.MOST_LOSSES - 1)),
    )


def claimed_job(**fields: Any) -> RefreshJob:
    return RefreshJob("scope", ServerName("a"), 0.0, 0.0, "processing", holder="w", **fields)


@pytest.mark.requirement("FLT-6")
@given(st.integers(1, 1000), st.floats(0.0, 1.0), st.none() | st.floats(0.0, 200 * HOUR))
def test_a_pause_is_within_its_bound_and_a_server_is_given_up_after_a_day_of_failing(
    attempts: int, drawn: float, failing: float | None
) -> None:
    now = 1e9
    since = None if failing is None else now - failing
    job = claimed_job(attempts=attempts, claimed_at=now, failing_since=since)

    pause = schedule.backoff_of(job, lambda: drawn)

    has_failed_long = failing is not None and now - (now - failing) >= 24 * HOUR
    assert (pause is None) is (attempts >= schedule.LEAST_ATTEMPTS and has_failed_long)
    assert pause is None or pause == drawn * schedule.longest_backoff(attempts)
    assert schedule.longest_backoff(attempts) <= schedule.LONGEST_BACKOFF


@pytest.mark.requirement("FLT-6")
def test_an_outage_of_a_day_less_a_minute_kills_no_server_and_one_of_two_days_does() -> None:
    for hours, state in ((23.9, "error"), (48.0, "dead")):
        random, now = Random(7), 0.0
        job = schedule.planned(None, "scope", RefreshTarget(ServerName("a")), now)
        while job.due_at < hours * HOUR and job.state != "dead":
            now = job.due_at
            job = schedule.claimed(job, "w", 60.0, now)
            retry_in = schedule.backoff_of(job, random.random)
            job = schedule.failed(job, "C", "why", retry_in, now)
        assert job.state == state
        assert job.failing_since == 0.0
    assert schedule.retried(job, now).failing_since is None


@pytest.mark.requirement("FLT-6")
def test_the_longest_pauses_double_from_half_a_minute_to_an_hour() -> None:
    longest = [schedule.longest_backoff(attempts) for attempts in range(1, 10)]

    assert longest == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]


@pytest.mark.requirement("FLT-5")
@given(st.none() | st.just(0.0) | st.floats(0.0, 1e9))
def test_a_server_may_ask_to_be_listed_sooner_but_not_without_pause(ttl: float | None) -> None:
    due_in = schedule.interval_after(ttl)

    assert schedule.SHORTEST_INTERVAL <= due_in <= schedule.INTERVAL
    if ttl == 0:
        assert due_in == schedule.INTERVAL
    if ttl is not None and schedule.SHORTEST_INTERVAL <= ttl <= schedule.INTERVAL:
        assert due_in == ttl


@pytest.mark.requirement("FLT-5")
@given(st.floats(1.0, 1e6), st.floats(0.0, 1.0, exclude_max=True))
def test_due_times_are_spread_over_the_last_tenth_and_never_later_than_promised(
    interval: float, drawn: float
) -> None:
    due_in = schedule.spread(interval, lambda: drawn)

    assert 0.9 * interval - 1e-6 <= due_in <= interval
    assert due_in >= min(interval, schedule.SHORTEST_INTERVAL)
    assert schedule.spread(interval, lambda: 0.0) == interval


@pytest.mark.requirement("FLT-5")
def test_servers_that_were_first_listed_together_are_not_due_together_for_ever() -> None:
    random = Random(7)
    due = [0.0] * 1000
    for _ in range(7):
        due = [at + schedule.spread(schedule.INTERVAL, random.random) for at in due]

    by_minute = Counter(int(at // 60) for at in due)
    assert max(by_minute.values()) < 20
    assert max(due) <= 7 * schedule.INTERVAL


@pytest.mark.requirement("FLT-3")
@given(jobs(), TIMES)
def test_every_claim_raises_the_fence_or_ends_in_a_reason(job: RefreshJob, now: float) -> None:
    after = schedule.claimed(job, "next", 60.0, now)

    if after.state == "dead":
        assert job.state == "processing"
        assert job.losses >= schedule.MOST_LOSSES - 1
        assert after.error_code == schedule.WORKER_LOST
        assert after.claimable_at is None
    else:
        assert after.claim == schedule.claimed(job, "next", 60.0, now).claim
        assert (after.fence, after.lease_until) == (job.fence + 1, now + 60.0)
        above = schedule.claimed(job, "next", 60.0, now, least_fence=500)
        assert above.fence == 500
        assert not after.is_held_by(job.claim)


STEPS: list[Callable[[RefreshJob, float], RefreshJob]] = [
    lambda job, now: schedule.claimed(job, "w", 60.0, now),
    lambda job, now: schedule.extended(job, 60.0, now) if job.lease_until is not None else job,
    lambda job, now: schedule.succeeded(job, 0, 60.0, now),
    lambda job, now: schedule.failed(job, "C", "why", 30.0, now),
    lambda job, now: schedule.failed(job, "C", "why", None, now),
    lambda job, _: schedule.given_back(job),
    lambda job, now: schedule.hastened(job, 5, now),
    schedule.retried,
    lambda job, now: schedule.planned(job, "scope", RefreshTarget(job.server), now),
    lambda job, now: schedule.planned(job, "scope", RefreshTarget(job.server, "other"), now),
    lambda job, now: schedule.planned(job, "scope", RefreshTarget(job.server, "", "off"), now),
]


@pytest.mark.requirement("FLT-1", "FLT-3")
@given(jobs(), st.lists(st.tuples(st.sampled_from(STEPS), TIMES), max_size=12))
def test_after_any_steps_a_job_is_held_or_waits_or_says_why_it_does_not(
    job: RefreshJob, steps: list[tuple[Callable[[RefreshJob, float], RefreshJob], float]]
) -> None:
    for step, now in steps:
        after = step(job, now)
        assert after.fence >= job.fence
        job = after

        is_held = job.state == "processing"
        assert is_held == bool(job.holder) == (job.lease_until is not None)
        assert (job.claimable_at is None) == (job.state in ("dead", "disabled"))


@pytest.mark.requirement("FLT-3")
@given(jobs(), TIMES)
def test_no_time_of_a_job_stays_further_away_than_it_can_be(job: RefreshJob, now: float) -> None:
    longest = {"processing": schedule.LONGEST_LEASE, "error": schedule.LONGEST_BACKOFF}
    latest = now + longest.get(job.state, schedule.LONGEST_INTERVAL)

    after = schedule.corrected(job, now)

    if job.claimable_at is None or job.claimable_at <= latest:
        assert after is job
    else:
        assert after.claimable_at == now
        assert (after.state, after.claim) == (job.state, job.claim)
    assert schedule.corrected(after, now) is after


@pytest.mark.requirement("FLT-3")
def test_a_clock_that_was_ahead_stops_no_server_once_the_jobs_are_planned_or_it_is_asked_for() -> (
    None
):
    target = RefreshTarget(ServerName("a"))
    job = schedule.claimed(schedule.planned(None, "scope", target, 9e9), "w", 60.0, 9e9)

    for after in (
        schedule.planned(job, "scope", target, 10.0),
        schedule.retried(job, 10.0),
        schedule.hastened(job, 5, 10.0),
    ):
        assert (after.claimable_at, after.is_held_by(job.claim)) == (10.0, True)


@pytest.mark.requirement("FLT-5")
def test_a_server_that_is_asked_for_while_it_is_listed_is_listed_once_more() -> None:
    job = schedule.planned(None, "scope", RefreshTarget(ServerName("a")), 0.0)
    job = schedule.claimed(job, "w", 60.0, 10.0)
    hastened = schedule.hastened(job, schedule.DOUBTFUL, 11.0)

    after = schedule.succeeded(hastened, 3, 3600.0, 12.0)
    undisturbed = schedule.succeeded(job, 3, 3600.0, 12.0)

    assert (after.due_at, after.priority) == (12.0, schedule.DOUBTFUL)
    assert (undisturbed.due_at, undisturbed.priority) == (3612.0, 0)


@pytest.mark.requirement("FLT-6")
def test_a_server_that_workers_are_lost_with_is_dead_after_the_last_attempt() -> None:
    job = schedule.planned(None, "scope", RefreshTarget(ServerName("a")), 0.0)
    for at in range(schedule.MOST_LOSSES):
        job = schedule.claimed(job, f"w{at}", 0.0, float(at))
        assert job.state == "processing"

    job = schedule.claimed(job, "last", 0.0, 99.0)

    assert (job.state, job.error_code) == ("dead", schedule.WORKER_LOST)
    assert "8 attempts" in job.error_message
    again = schedule.retried(job, 100.0)
    assert (again.claimable_at, again.attempts, again.losses) == (100.0, 0, 0)


@pytest.mark.requirement("FLT-6")
def test_a_worker_that_is_lost_with_a_server_that_often_failed_does_not_kill_it() -> None:
    job = claimed_job(attempts=30, claimed_at=0.0, failing_since=0.0)

    taken_over = schedule.claimed(job, "next", 60.0, 100.0)
    failed = schedule.failed(taken_over, "C", "why", 30.0, 110.0)

    assert (taken_over.state, taken_over.losses) == ("processing", 1)
    assert (failed.state, failed.losses) == ("error", 0)
