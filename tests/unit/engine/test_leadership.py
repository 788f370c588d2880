"""Who leads, when others stop, sleep, fail or have other clocks."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from discovery_engine.engine.leadership import LeaderLock, Leadership, LeaseTimes, Term
from discovery_engine.errors import RegistryError
from discovery_engine.store.memory import MemoryRegistry
from discovery_engine.store.stored_records import Lease
from discovery_server.http.asgi import Message, Receive, Scope, Send
from discovery_server.http_service import TermGate
from tests.factories import Clock
from tests.servers.programs import eventually

pytestmark = pytest.mark.anyio

QUICK = LeaseTimes(pause=0.01, glance=0.005, certain=50.0, patience=100.0, handover=0.05)


class Disk(MemoryRegistry):
    """A registry that one process uses over a disk of its own, which may hang or be full."""

    def __init__(self, shared: MemoryRegistry) -> None:
        super().__init__()
        self._shared = shared
        self.answers = threading.Event()
        self.answers.set()
        self.error: RegistryError | None = None
        self.looks = 0
        self.hangs = False
        self.renewals = 0

    def lease(self, name: str) -> Lease | None:
        self.looks += 1
        return self._shared.lease(name)

    def acquire_lease(
        self, name: str, holder: str, *, instead_of: Lease | None = None
    ) -> Lease | None:
        return self._shared.acquire_lease(name, holder, instead_of=instead_of)

    def renew_lease(self, lease: Lease) -> Lease | None:
        self.hangs = not self.answers.is_set()
        self.answers.wait(60)
        self.renewals += 1
        if self.error:
            raise self.error
        return self._shared.renew_lease(lease)

    def release_lease(self, lease: Lease) -> None:
        self._shared.release_lease(lease)


class Process:
    """One that would lead; with a folder it has a lock there."""

    def __init__(self, shared: MemoryRegistry, folder: Path | None = None) -> None:
        self.disk = Disk(shared)
        self.clock = Clock()
        self.terms: list[Term] = []
        self.is_serving = False
        self.lock = LeaderLock(folder, "http") if folder else None
        self._leadership = Leadership(
            self.disk, "http", lock=self.lock, times=QUICK, clock=self.clock
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._leadership.lead, self._work)
            yield
            tasks.cancel_scope.cancel()

    async def _work(self, term: Term) -> None:
        self.terms.append(term)
        self.is_serving = True
        try:
            await term.lost.wait()
        finally:
            self.is_serving = False

    @property
    def is_leader(self) -> bool:
        return self.is_serving and self.terms[-1].is_certain


async def looked(process: Process, times: int = 3) -> None:
    """The process has looked so many times more."""
    before = process.disk.looks
    await eventually(lambda: process.disk.looks >= before + times)


@pytest.mark.requirement("SRV-70")
async def test_a_lease_that_is_renewed_is_taken_by_nobody_however_long_it_lasts() -> None:
    shared = MemoryRegistry()
    one, two = Process(shared), Process(shared)

    async with one.running():
        await eventually(lambda: one.is_leader)
        async with two.running():
            for _ in range(20):
                before = shared.lease("http")
                await eventually(lambda before=before: shared.lease("http") != before)
                await looked(two, 2)
                for process in (one, two):
                    process.clock.now += QUICK.patience / 4
            assert one.is_serving
            assert not two.terms


@pytest.mark.requirement("SRV-70")
async def test_the_lock_of_a_leader_that_hangs_keeps_others_away_until_its_lease_is_old(
    tmp_path: Path,
) -> None:
    shared = MemoryRegistry()
    one, two = Process(shared, tmp_path), Process(shared, tmp_path)

    async with one.running(), two.running():
        await eventually(lambda: one.is_leader or two.is_leader)
        stopped, other = (one, two) if one.is_leader else (two, one)
        stopped.disk.answers.clear()
        await eventually(lambda: stopped.disk.hangs)
        await looked(other)
        assert not other.terms
        for process in (one, two):
            process.clock.now += QUICK.patience
        await eventually(lambda: other.is_leader)
        assert not stopped.is_leader
        stopped.disk.answers.set()
        await eventually(lambda: not stopped.is_serving)
        await looked(stopped)
        assert [len(process.terms) for process in (stopped, other)] == [1, 1]


@pytest.mark.requirement("SRV-72")
async def test_a_stopped_leader_is_replaced_and_knows_it_before_it_does_anything() -> None:
    shared = MemoryRegistry()
    one, two = Process(shared), Process(shared)

    async with one.running(), two.running():
        await eventually(lambda: one.is_leader or two.is_leader)
        stopped, other = (one, two) if one.is_leader else (two, one)
        await looked(other)
        stopped.disk.answers.clear()
        await eventually(lambda: stopped.disk.hangs)
        await looked(other)
        for process in (one, two):
            process.clock.now += QUICK.patience
        assert not stopped.is_leader  # before anybody else leads
        await eventually(lambda: other.is_leader)
        assert not stopped.is_leader
        term = stopped.terms[0]
        stopped.disk.answers.set()
        assert not await term.confirmed()
        await eventually(lambda: not stopped.is_serving)
        lease = shared.lease("http")

    assert lease is not None
    assert lease.fence == term.lease.fence + 1


@pytest.mark.requirement("SRV-72")
async def test_who_was_away_and_cannot_ask_serves_nobody() -> None:
    process = Process(MemoryRegistry())

    async with process.running():
        await eventually(lambda: process.is_leader)
        process.disk.error = RegistryError("locked", hint="")
        process.clock.now += QUICK.patience
        before = process.disk.renewals
        await eventually(lambda: process.disk.renewals > before + 3)
        assert not process.is_leader
        process.disk.error = None
        await eventually(lambda: process.is_leader)

    assert len(process.terms) == 1


async def answer_of(term: Term) -> int:
    """The status that a request gets."""
    statuses: list[int] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: Message) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    async def receive() -> Message:
        return {}

    await TermGate(app, term)({"type": "http"}, receive, send)
    return statuses[0]


@pytest.mark.requirement("SRV-72")
async def test_a_request_waits_until_it_is_known_who_leads() -> None:
    clock, answers = Clock(), []
    lease = Lease("http", "one", 1)
    term = Term(lease, clock() + 1, clock)

    async def ask() -> None:
        answers.append(await answer_of(term))

    await ask()
    clock.now += 1
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        assert answers == [200]
        term.extend(lease, clock() + 1)
    clock.now += 1
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        term.lose()
    await ask()

    assert answers == [200, 200, 503, 503]
