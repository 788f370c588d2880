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

from discovery_engine.store.refresh_job import ClaimedPart, RefreshClaim, RefreshTarget
from discovery_engine.store.registry import Registry
from discovery_engine.store.snapshot import Snapshot
from discovery_engine.tools.model import ServerName
from discovery_engine.trust.decisions import Acceptance
from tests.factories import make_part, make_settings, save_success
from tests.store.registry_stores import BACK_ENDS, back_ends, pass_time

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
        self.marks: dict[ServerName, float] = {}
        """Hours for which they count as named."""
        self.valid: dict[ServerName, RefreshClaim] = {}
        self.leased: set[RefreshClaim] = set()
        """Claims that no other worker may take."""
        self.fences: dict[ServerName, int] = {}
        self.saved: dict[ServerName, str] = {}
        self.accepted: dict[ServerName, str] = {}
        self.versions = count()
        self.seen: Snapshot | None = None
        """As a worker has it, which knows what it has read."""

    @rule(
        wanted=st.dictionaries(st.sampled_from(SERVERS), st.sampled_from(["", "", OFF]), min_size=1)
    )
    def plan(self, wanted: dict[ServerName, str]) -> None:
        self.marks |= {name: 2.5 for name in wanted if name not in self.targets}
        self.targets |= wanted
        self.store.plan_refreshes(
            self.scope, [RefreshTarget(name, reason=reason) for name, reason in wanted.items()]
        )
        for name, reason in wanted.items():
            if reason:
                self._end(name)

    @rule(named=st.sets(st.sampled_from(SERVERS)), keep_others=st.booleans())
    def start(self, named: set[ServerName], *, keep_others: bool) -> None:
        """A worker or a gateway of any configuration starts, or reads it again."""
        self.store.save_settings(self.scope, make_settings(*named), keep_others=keep_others)
        self._name(named)

    @rule(named=st.sets(st.sampled_from(SERVERS)))
    def compare(self, named: set[ServerName]) -> None:
        """A process of any configuration compares it with the jobs, as once an hour."""
        self.store.name_servers(self.scope, named)
        self._name(named)

    @rule(hours=st.integers(1, 3))
    def wait(self, hours: int) -> None:
        """All leases end, since none is longer than an hour."""
        pass_time(self.store, hours * HOUR)
        self.marks = {name: left - hours for name, left in self.marks.items()}
        self.leased.clear()

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

    @rule(claim=claims, due_in=LEASES, name=st.sampled_from("xyz"))
    def save(self, claim: RefreshClaim, due_in: float, name: str) -> None:
        part = make_part(claim.server, name)
        outcome = self.store.save_claimed(claim, part, due_in=due_in, revision=1)

        is_same = self.saved.get(claim.server) == name
        expected = "unchanged" if is_same else "saved"
        assert outcome == (expected if self._is_valid(claim) else "lost")
        if outcome != "lost":
            self.saved[claim.server] = name
            self._end(claim.server)

    @rule(
        listed=st.lists(st.tuples(claims, st.sampled_from("xyz")), min_size=1, max_size=4),
        due_in=LEASES,
    )
    def save_together(self, listed: list[tuple[RefreshClaim, str]], due_in: float) -> None:
        """What is saved already is written at once, and nothing of all else."""
        parts = [
            ClaimedPart(claim, make_part(claim.server, name, listed_at=2000.0), due_in)
            for claim, name in listed
        ]
        same = {claim for claim, name in listed if self.saved.get(claim.server) == name}

        ended = self.store.end_unchanged(parts)

        assert ended <= {claim for claim in same if self._is_valid(claim)}
        for claim in ended:
            self._end(claim.server)
        for claim, name in listed:
            if claim not in ended:
                self.save(claim, due_in, name)

    @rule(claim=claims)
    def accept(self, claim: RefreshClaim) -> None:
        one = Acceptance(claim.server, "t", f"m{next(self.versions)}", "f", "{}")
        number = self.store.accept_claimed(claim, self.scope, [one], at=1.0)

        is_first = claim.server not in self.accepted
        assert number == (int(is_first) if self._is_valid(claim) else None)
        if number:
            self.accepted[claim.server] = one.meaning

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
        self.seen = snapshot = self.store.load(self.scope)
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
                assert save_success(self.store, job.claim)
            self.store.retry_refreshes(self.scope)  # those that were lost too often
        states = {job.server: job.state for job in self.store.refresh_jobs(self.scope)}
        expected = {name: "disabled" if why else "enabled" for name, why in self.targets.items()}
        assert states == expected

    def _is_valid(self, claim: RefreshClaim) -> bool:
        return self.valid.get(claim.server) == claim

    def _name(self, named: set[ServerName]) -> None:
        """What none has named for long goes, if no worker has it."""
        for name in [*self.targets]:
            if name in named and self.marks[name] < 2:
                self.marks[name] = 2.5
            if name not in named and self.marks[name] <= 0 and not self._is_leased(name):
                del self.targets[name]
                self.saved.pop(name, None)
                self._end(name)

    def _is_leased(self, server: ServerName) -> bool:
        return self.valid.get(server) in self.leased

    def _end(self, server: ServerName) -> None:
        if claim := self.valid.pop(server, None):
            self.leased.discard(claim)

    def _forget_the_dead(self) -> None:
        """A claim may find that too many workers were lost with a server."""
        for job in self.store.refresh_jobs(self.scope):
            if job.state == "dead":
                assert self.valid.get(job.server) not in self.leased
                self._end(job.server)


@pytest.mark.requirement("FLT-3", "FLT-10", "FLT-21")
@pytest.mark.parametrize("back_end", back_ends("memory", "sqlite", "postgresql"))
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
