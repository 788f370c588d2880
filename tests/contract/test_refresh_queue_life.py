"""The refresh queue in the hands of workers that crash, pause and come back, in any order.

A worker that is paused and one that was killed are the same to a queue: claims that are not
extended. Here every claim is kept for ever, and each may be used again at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from discovery_engine.fleet.refresh_job import RefreshClaim, RefreshTarget
from discovery_engine.registry.protocols import Registry
from discovery_engine.tools.model import ServerName
from discovery_engine.trust.decisions import Acceptance
from tests.contract.registry_stores import BACK_ENDS
from tests.factories import make_part, make_settings

SERVERS = [ServerName(name) for name in "abcd"]
HOUR = 3600.0
LEASES = st.sampled_from([0.0, HOUR])
OFF = "it is switched off"


class QueueLife(RuleBasedStateMachine):
    store: Registry
    scopes: Iterator[int]

    claims = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.scope = f"scope {next(self.scopes)}"
        self.store.save_settings(self.scope, make_settings(*SERVERS))
        self.targets: dict[ServerName, str] = {}
        """The servers that are planned, with the reason if one is disabled."""
        self.valid: dict[ServerName, RefreshClaim] = {}
        self.leased: set[RefreshClaim] = set()
        """Claims that no other worker may take."""
        self.fences: dict[ServerName, int] = {}
        self.saved: dict[ServerName, str] = {}
        self.accepted: dict[ServerName, str] = {}
        self.versions = count()

    @rule(
        wanted=st.dictionaries(st.sampled_from(SERVERS), st.sampled_from(["", "", OFF]), min_size=2)
    )
    def plan(self, wanted: dict[ServerName, str]) -> None:
        self.targets = wanted
        self.store.plan_refreshes(
            self.scope, [RefreshTarget(name, reason=reason) for name, reason in wanted.items()]
        )
        for name in SERVERS:
            if wanted.get(name, OFF):
                self._end(name)

    @rule(target=claims, worker=st.sampled_from("xyz"), limit=st.integers(1, 3), lease=LEASES)
    def claim(self, worker: str, limit: int, lease: float) -> object:
        jobs = self.store.claim_refreshes(self.scope, worker, limit=limit, lease=lease)
        for job in jobs:
            assert not self.targets[job.server]
            assert self.valid.get(job.server) not in self.leased
            assert job.fence > self.fences.get(job.server, 0)
            self._end(job.server)
            self.fences[job.server] = job.fence
            self.valid[job.server] = job.claim
            if lease:
                self.leased.add(job.claim)
        self._forget_the_dead()
        return multiple(*(job.claim for job in jobs))

    @rule(claim=claims, lease=LEASES)
    def extend(self, claim: RefreshClaim, lease: float) -> None:
        found = self.store.extend_claims([claim], lease=lease)

        assert found == ({claim} if self._is_valid(claim) else set())
        if found:
            (self.leased.add if lease else self.leased.discard)(claim)

    @rule(claim=claims)
    def save(self, claim: RefreshClaim) -> None:
        name = f"tool{next(self.versions)}"
        outcome = self.store.save_claimed(claim, make_part(claim.server, name), revision=1)

        assert outcome == ("saved" if self._is_valid(claim) else "lost")
        if outcome == "saved":
            self.saved[claim.server] = name

    @rule(claim=claims)
    def accept(self, claim: RefreshClaim) -> None:
        one = Acceptance(claim.server, "t", f"m{next(self.versions)}", "f", "{}")
        number = self.store.accept_claimed(claim, self.scope, [one], at=1.0)

        is_first = claim.server not in self.accepted
        assert number == (int(is_first) if self._is_valid(claim) else None)
        if number:
            self.accepted[claim.server] = one.meaning

    @rule(claim=claims, due_in=LEASES)
    def finish(self, claim: RefreshClaim, due_in: float) -> None:
        done = self.store.finish_refresh(claim, tool_count=1, due_in=due_in)

        assert done is self._is_valid(claim)
        if done:
            self._end(claim.server)

    @rule(claim=claims, retry_in=st.sampled_from([0.0, HOUR, None]))
    def fail(self, claim: RefreshClaim, retry_in: float | None) -> None:
        done = self.store.fail_refresh(claim, "X", "broken", retry_in=retry_in)

        assert done is self._is_valid(claim)
        if done:
            self._end(claim.server)

    @rule(claim=claims)
    def give_back(self, claim: RefreshClaim) -> None:
        done = self.store.return_claims([claim])

        assert done == self._is_valid(claim)
        if done:
            self._end(claim.server)

    @rule(servers=st.none() | st.lists(st.sampled_from(SERVERS), unique=True))
    def want_now(self, servers: list[ServerName] | None) -> None:
        self.store.hasten_refreshes(self.scope, servers, priority=1)
        self.store.retry_refreshes(self.scope, servers)

    @invariant()
    def no_job_is_lost_and_only_valid_claims_hold_one(self) -> None:
        jobs = {job.server: job for job in self.store.refresh_jobs(self.scope)}

        assert jobs.keys() == self.targets.keys()
        held = {name: job.claim for name, job in jobs.items() if job.state == "processing"}
        assert held == self.valid

    @invariant()
    def only_valid_claims_have_written(self) -> None:
        snapshot = self.store.load(self.scope)
        assert snapshot
        parts = snapshot.catalog.parts.items()
        listed = {name: part.entries[0].tool.name for name, part in parts if part.entries}
        assert listed == self.saved
        accepted = self.store.decisions(self.scope).accepted
        assert {name: one for name in accepted for one in accepted[name]["t"] if one != "f"} == (
            self.accepted
        )

    def teardown(self) -> None:
        """Once every worker is gone, a new one brings all jobs to their end: none is stuck."""
        self.store.extend_claims(self.valid.values(), lease=0.0)
        self.store.retry_refreshes(self.scope)
        self.store.hasten_refreshes(self.scope)
        for _ in range(3):  # what was wanted while it was processed is due once more
            for job in self.store.claim_refreshes(self.scope, "last", limit=9, lease=HOUR):
                assert self.store.finish_refresh(job.claim, tool_count=1, due_in=HOUR)
            self.store.retry_refreshes(self.scope)  # those that were lost too often
        states = {job.server: job.state for job in self.store.refresh_jobs(self.scope)}
        expected = {name: "disabled" if why else "enabled" for name, why in self.targets.items()}
        assert states == expected

    def _is_valid(self, claim: RefreshClaim) -> bool:
        return self.valid.get(claim.server) == claim

    def _end(self, server: ServerName) -> None:
        if claim := self.valid.pop(server, None):
            self.leased.discard(claim)

    def _forget_the_dead(self) -> None:
        """A claim may find that too many workers were lost with a server."""
        for job in self.store.refresh_jobs(self.scope):
            if job.state == "dead":
                assert self.valid.get(job.server) not in self.leased
                self._end(job.server)


@pytest.mark.requirement("FLT-4", "FLT-10")
@pytest.mark.parametrize("back_end", ["memory", "sqlite", "postgresql"])
def test_no_job_is_lost_or_stuck_and_no_fenced_worker_writes(
    back_end: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    examples = 100 if back_end == "memory" else 15
    opener: Callable[[pytest.FixtureRequest, Path], Registry] = BACK_ENDS[back_end]
    with closing(opener(request, tmp_path / "registry.db")) as opened:

        class Life(QueueLife):
            store = opened
            scopes = count()

        run_state_machine_as_test(
            Life,
            settings=settings(
                max_examples=examples,
                stateful_step_count=40,
                suppress_health_check=[HealthCheck.too_slow],
            ),
        )
