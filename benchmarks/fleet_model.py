"""A fleet with a virtual clock: the real steps of refresh jobs, and made-up servers and workers.

Every step of a job is `discovery_engine.store.schedule`'s: what is claimed next, when it is
due again, when it is tried again or given up. Made up are the servers (how long they take, how
often they fail and change), the workers that crash, and what happens to all of them at once.
"""

from __future__ import annotations

import math
from collections import Counter
from heapq import heappop, heappush
from random import Random

from msgspec import Struct, field

from discovery_engine.store import schedule
from discovery_engine.store.refresh_job import RefreshJob
from discovery_engine.tools.model import ServerName

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
SCOPE = "simulated"


class Distribution(Struct, frozen=True):
    """What is assumed of servers, workers and the database; times are in seconds."""

    tools: int = 50
    """Of each server."""
    listing_median: float = 0.8
    listing_sigma: float = 0.9
    """Of the lognormal time of one listing: 5 % take more than 3.5 s, 1 % more than 6.5 s."""
    timeout: float = 30.0
    """After which a server that is down has failed; so a failure holds a slot for longest."""
    ttl_shares: tuple[tuple[float, float], ...] = ((0.01, 5 * MINUTE), (0.05, HOUR))
    """The shares of servers that name a time to live, and which; all others are due after a day."""
    gone_share: float = 0.01
    """Servers that never answer."""
    outage_every: float = 30 * DAY
    """The mean time of a server between two outages of its own."""
    outage_median: float = 20 * MINUTE
    outage_sigma: float = 1.5
    flaky: float = 0.005
    """The share of attempts that fail for no reason that lasts."""
    change_every: float = 14 * DAY
    """The mean time between two changes of a server's tools."""
    crash_every: float = 7 * DAY
    """The mean time of a worker between two crashes, each in the middle of its work."""
    restart: float = 30.0
    """From a crash until the worker claims again."""
    region_at: float = 1.5 * DAY
    """When a tenth of all servers is down at once, for two hours."""
    region_share: float = 0.1
    region_length: float = 2 * HOUR
    database_at: float = 2.25 * DAY
    """When the database is gone for ten minutes, and the results of that time with it."""
    database_length: float = 10 * MINUTE
    retry_at: float = 9 * HOUR
    """The time of day at which the owner has all dead letters tried again."""


class Turns(Struct, frozen=True):
    """Seconds for which what is written of one listing keeps all other writers waiting."""

    first: float = 0.020
    changed: float = 0.010


class Fleet(Struct, frozen=True):
    servers: int
    workers: int
    slots: int = 8
    days: float = 3.0
    seed: int = 1


class Server:
    """A made-up server, whose outages and changes are drawn as time goes on."""

    __slots__ = (
        "changed_at", "down_from", "down_until", "in_region", "is_gone", "next_change", "ttl",
    )  # fmt: skip

    def __init__(self, random: Random, given: Distribution) -> None:
        drawn = random.random()
        self.ttl: float | None = None
        for share, ttl in given.ttl_shares:
            if 0 <= drawn < share:
                self.ttl = ttl
            drawn -= share
        self.is_gone = random.random() < given.gone_share
        self.in_region = random.random() < given.region_share
        self.down_from = random.expovariate(1 / given.outage_every)
        self.down_until = self.down_from + _lognormal(
            random, given.outage_median, given.outage_sigma
        )
        self.next_change = random.expovariate(1 / given.change_every)
        self.changed_at: float | None = None
        """Of the oldest change that no listing has seen."""

    def is_down(self, now: float, random: Random, given: Distribution) -> bool:
        while self.down_until < now:
            self.down_from = self.down_until + random.expovariate(1 / given.outage_every)
            length = _lognormal(random, given.outage_median, given.outage_sigma)
            self.down_until = self.down_from + length
        is_in_region = self.in_region and _lasts(now, given.region_at, given.region_length)
        return self.is_gone or is_in_region or self.down_from <= now

    def has_changed(self, now: float, random: Random, given: Distribution) -> bool:
        while self.next_change <= now:
            self.changed_at = self.next_change if self.changed_at is None else self.changed_at
            self.next_change += random.expovariate(1 / given.change_every)
        return self.changed_at is not None


class Queue:
    """Jobs in the order of claims: the highest priority, then the oldest, without a look at all."""

    def __init__(self) -> None:
        self.jobs: dict[ServerName, RefreshJob] = {}
        self._later: list[tuple[float, ServerName, RefreshJob]] = []
        self._due: list[tuple[int, float, float, ServerName, RefreshJob]] = []

    def put(self, job: RefreshJob) -> None:
        self.jobs[job.server] = job
        if job.claimable_at is not None:
            heappush(self._later, (job.claimable_at, job.server, job))

    def next_job(self, now: float) -> RefreshJob | None:
        """The job to claim; None if none is due."""
        while self._later and self._later[0][0] <= now:
            at, server, job = heappop(self._later)
            heappush(self._due, (-job.priority, at, job.created_at, server, job))
        while self._due:
            *_, server, job = self._due[0]
            if self.jobs[server] is job:
                return job
            heappop(self._due)  # an older state of it
        return None

    def next_time(self) -> float:
        """When the next job can be claimed, if none can be now."""
        while self._later and self.jobs[self._later[0][1]] is not self._later[0][2]:
            heappop(self._later)
        return self._later[0][0] if self._later else math.inf


class Seen(Struct):
    """What became of a run."""

    counts: Counter[str] = field(default_factory=Counter)
    delays: list[float] = field(default_factory=list)
    """From due to listed, in seconds, of servers that were not down; first listings apart."""
    discovery: list[float] = field(default_factory=list)
    """From a change to the listing that saw it."""
    first: list[float] = field(default_factory=list)
    """When each server was listed for the first time."""
    by_minute: dict[str, Counter[int]] = field(default_factory=dict)
    busy: float = 0.0
    """Slots times seconds."""

    def count(self, what: str, now: float) -> None:
        self.counts[what] += 1
        self.by_minute.setdefault(what, Counter())[int(now // MINUTE)] += 1


class Simulation:
    """One run; `run` it once."""

    def __init__(self, fleet: Fleet, given: Distribution, turns: Turns | None = None) -> None:
        self.seen = Seen()
        self._turns = turns or Turns()
        self._written = 0.0
        """When the last of all writers that wait will have written."""
        self._fleet = fleet
        self._given = given
        self._random = Random(fleet.seed)
        self._queue = Queue()
        self._servers: dict[ServerName, Server] = {}
        self._idle = [worker for worker in range(fleet.workers) for _ in range(fleet.slots)]
        self._epochs = [0] * fleet.workers
        """How often each worker was started: slots of an earlier life are no more."""
        self._events: list[tuple[float, int, str, tuple[object, ...]]] = []
        self._turn = 0

    def run(self) -> Seen:
        self._prepare()
        end = self._fleet.days * DAY
        now = 0.0
        while now < end:
            self._claim(now)
            next_event = self._events[0][0] if self._events else math.inf
            next_due = self._queue.next_time() if self._idle else math.inf
            if self._is_database_gone(now):
                next_due = self._given.database_at + self._given.database_length
            now = max(min(next_event, next_due), now)
            while self._events and self._events[0][0] <= now:
                _, _, kind, what = heappop(self._events)
                getattr(self, kind)(now, *what)
        return self.seen

    def answer(self, now: float, worker: int, epoch: int, job: RefreshJob, began: float) -> None:
        """A worker has what a server answered, or knows that it does not."""
        server = self._servers[job.server]
        is_down = server.is_down(now, self._random, self._given)
        is_failed = is_down or self._random.random() < self._given.flaky
        waits = 0.0 if is_failed else self._turn_of(now, job, server)
        outcome = "failed" if is_failed else "listed"
        self._at(now + waits, "finish", worker, epoch, job, began, outcome)

    def finish(
        self, now: float, worker: int, epoch: int, job: RefreshJob, began: float, outcome: str
    ) -> None:  # fmt: skip
        """The result is written, if the claim is valid still."""
        if self._epochs[worker] != epoch:
            return
        self._idle.append(worker)
        self.seen.busy += now - began
        self.seen.counts["heartbeats"] += int((now - began) // (schedule.LEASE / 3))
        current = self._queue.jobs[job.server]
        if self._is_database_gone(now) or not current.is_held_by(job.claim):
            self.seen.count("results lost", now)
        elif outcome == "failed":
            retry_in = schedule.backoff_of(current, self._random.random)
            self.seen.count("given up" if retry_in is None else "failures", now)
            self._queue.put(schedule.failed(current, "DOWN", "does not answer", retry_in, now))
        else:
            self._list(now, current, self._servers[job.server])

    def crash(self, now: float, worker: int) -> None:
        self.seen.count("crashes", now)
        self._epochs[worker] += 1
        self._idle = [one for one in self._idle if one != worker]
        self._at(now + self._given.restart, "restart", worker)

    def restart(self, now: float, worker: int) -> None:
        self._idle += [worker] * self._fleet.slots
        self._at(now + self._random.expovariate(1 / self._given.crash_every), "crash", worker)

    def retry(self, now: float) -> None:
        """The owner has all dead letters tried again."""
        for job in [job for job in self._queue.jobs.values() if job.state == "dead"]:
            self.seen.count("tried again by the owner", now)
            self._queue.put(schedule.retried(job, now))
        self._at(now + DAY, "retry")

    def _prepare(self) -> None:
        for number in range(self._fleet.servers):
            name = ServerName(f"server{number}")
            self._servers[name] = Server(self._random, self._given)
            self._queue.put(RefreshJob(SCOPE, name, 0.0, 0.0))
        for worker in range(self._fleet.workers):
            self._at(self._random.expovariate(1 / self._given.crash_every), "crash", worker)
        self._at(self._given.retry_at, "retry")

    def _claim(self, now: float) -> None:
        if self._is_database_gone(now):
            return
        while self._idle and (job := self._queue.next_job(now)):
            chosen = self._random.randrange(len(self._idle))
            self._idle[chosen], self._idle[-1] = self._idle[-1], self._idle[chosen]
            worker = self._idle[-1]
            epoch = self._epochs[worker]
            claimed = schedule.claimed(job, f"{worker}-{epoch}", schedule.LEASE, now)
            self._queue.put(claimed)
            if claimed.state == "dead":
                self.seen.count("given up", now)
                continue
            if job.state == "processing":
                self.seen.count("taken over", now)
            self._idle.pop()
            self.seen.count("claims", now)
            lasts = self._duration(now, self._servers[job.server])
            self._at(now + lasts, "answer", worker, epoch, claimed, now)

    def _list(self, now: float, job: RefreshJob, server: Server) -> None:
        if job.listed_at is None:
            self.seen.count("first listings", now)
            self.seen.first.append(now)
        else:
            self.seen.delays.append(now - job.due_at)
            is_changed = server.has_changed(now, self._random, self._given)
            self.seen.count("changed listings" if is_changed else "unchanged listings", now)
            if server.changed_at is not None:
                self.seen.discovery.append(now - server.changed_at)
        server.changed_at = None
        due_in = schedule.spread(schedule.interval_after(server.ttl), self._random.random)
        self._queue.put(schedule.succeeded(job, self._given.tools, due_in, now))

    def _turn_of(self, now: float, job: RefreshJob, server: Server) -> float:
        """Seconds until a listing is written, after all that others write before."""
        is_changed = server.has_changed(now, self._random, self._given)
        if job.listed_at is not None and not is_changed:
            return 0.0
        own = self._turns.first if job.listed_at is None else self._turns.changed
        self._written = max(self._written, now) + own
        return self._written - now

    def _duration(self, now: float, server: Server) -> float:
        if server.is_down(now, self._random, self._given):
            # Half of them refuse the connection, the others are silent.
            return self._random.choice((0.05, self._given.timeout))
        given = self._given
        drawn = _lognormal(self._random, given.listing_median, given.listing_sigma)
        return min(drawn, given.timeout)

    def _is_database_gone(self, now: float) -> bool:
        return _lasts(now, self._given.database_at, self._given.database_length)

    def _at(self, time: float, kind: str, *what: object) -> None:
        self._turn += 1
        heappush(self._events, (time, self._turn, kind, what))


def _lasts(now: float, began: float, length: float) -> bool:
    return began <= now < began + length


def _lognormal(random: Random, median: float, sigma: float) -> float:
    return random.lognormvariate(math.log(median), sigma)
