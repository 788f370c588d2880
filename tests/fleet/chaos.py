"""A driver that does to a fleet what machines, networks and people do, one seeded action at a time.

    chaos = Chaos(world, workers=8, seed=7)
    while ...:
        chaos.act()
    chaos.calm()

It kills workers in the middle of their work, stops them until others have what they held and lets
them go on, restarts the database, cuts and holds connections to it, starts workers whose clocks are
wrong by an hour, and changes, breaks and slows servers. After each action it waits until workers
have claimed all that is due, so that a busy machine gets as many actions as it can take, and a
server waits for the fleet alone, not for a machine that is too slow.
"""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine.store.refresh_job import RefreshJob
from discovery_engine.store.schedule import REQUESTED
from discovery_engine.tools.model import ServerName
from tests.fleet.audit import Audit
from tests.fleet.fleet import Fleet, Process, wait_until
from tests.fleet.loopback_servers import LoopbackServer, LoopbackServers
from tests.postgres import PostgresServer
from tests.tcp_proxy import TcpProxy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from discovery_engine.store.postgres.postgres_registry import PostgresRegistry

SCOPE = "name:fleet"
HOUR = 3600
_SLOTS = 4
_LONG = 1800.0  # seconds for all servers, on a busy machine


class World(Struct, frozen=True):
    """What the driver acts upon."""

    fleet: Fleet
    servers: LoopbackServers
    postgres: PostgresServer
    proxy: TcpProxy
    """Between the workers and the database."""
    store: PostgresRegistry
    """The database without the proxy, as a person uses it who has servers listed now."""
    audit: Audit
    lease: float
    """Of the workers, in seconds."""


class Chaos:
    """Made with its workers started, which have listed every server once."""

    def __init__(self, world: World, *, workers: int, seed: int) -> None:
        self.done: Counter[str] = Counter()
        self.outages: list[tuple[float, float]] = []
        """Times in which no worker could reach the database: Unix times of its clock."""
        self.began = 0.0
        """When all servers had been listed for the first time."""
        self.calmed = 0.0, 0.0
        """When all servers were due at once at the end, and when all were listed."""
        self.workers: list[Process] = []
        self._world = world
        self._random = Random(seed)
        self._started = 0
        self._versions = 0
        self._actions: dict[str, tuple[int, Callable[[], None]]] = {
            "workers killed": (4, self._kill),
            "workers stopped beyond their lease": (3, self._stop_beyond_lease),
            "servers changed": (6, self._change),
            "servers broken": (2, self._break),
            "connections cut": (2, self._world.proxy.cut),
            "connections held": (2, self._hold),
            "databases restarted": (1, self._restart_database),
        }
        for _ in range(workers):
            self._start_worker()
        self._wait_all_listed(0.0)
        self.began = self._world.audit.now()

    @property
    def names(self) -> tuple[str, ...]:
        """The actions, of which a caller may choose."""
        return tuple(self._actions)

    def act(self, name: str = "") -> str:
        """Do one thing, by chance if it is not named, and wait until work goes on; its name."""
        weights = [weight for weight, _ in self._actions.values()]
        chosen = name or self._random.choices(self.names, weights)[0]
        self._hasten(self._some(4))
        self._actions[chosen][1]()
        self.done[chosen] += 1
        # With the database a result may have been lost that was there when this was asked.
        before = self._world.audit.results()
        self._hasten(self._some(4))
        wait_until(lambda: self._world.audit.results() > before, "workers go on working")
        wait_until(self._is_all_claimed, "all that is due is claimed", patience=_LONG)
        return chosen

    def calm(self) -> None:
        """Let everything be well, and wait until every server was listed as it is now."""
        for server in self._world.servers.values():
            server.state = "well"
        began = self._world.audit.now()
        self._world.store.retry_refreshes(SCOPE)
        self._hasten(list(self._world.servers))
        self._wait_all_listed(began)
        self.calmed = began, self._world.audit.now()

    def jobs(self) -> tuple[RefreshJob, ...]:
        return self._world.store.refresh_jobs(SCOPE)

    def stop(self) -> list[int]:
        """End all workers in order; returns their exit codes."""
        return [worker.stop() for worker in self.workers]

    def _wait_all_listed(self, since: float) -> None:
        def are_listed() -> bool:
            jobs = self.jobs()
            return bool(jobs) and all((job.listed_at or 0.0) > since for job in jobs)

        wait_until(are_listed, "every server is listed", patience=_LONG)

    def _is_all_claimed(self) -> bool:
        now = self._world.audit.now()
        waiting = (job.claimable_at for job in self.jobs() if job.state != "processing")
        return all(at is None or at > now for at in waiting)

    def _start_worker(self) -> None:
        self._started += 1
        skew = self._random.choice((-HOUR, 0, HOUR))
        self.done["workers with a wrong clock"] += bool(skew)
        options = ("--lease", str(self._world.lease), "--slots", str(_SLOTS))
        name = f"worker-{self._started}"
        self.workers.append(self._world.fleet.start_worker(name, *options, skew=skew))

    def _kill(self) -> None:
        with self._silent_servers():
            victim, _ = self._busy_worker()
            victim.kill()
        self.workers.remove(victim)
        self._start_worker()

    def _stop_beyond_lease(self) -> None:
        """It wakes up with old answers of servers that others have listed since."""
        with self._silent_servers():
            victim, held = self._busy_worker()
            victim.signal(signal.SIGSTOP)
        try:
            wait_until(lambda: not held & self._claims_of(victim), "others take over")
            self._list_anew({server for server, _ in held})
        finally:
            victim.signal(signal.SIGCONT)
        self.done["claims lost by stopped workers"] += len(held)

    def _list_anew(self, names: set[str]) -> None:
        """Give servers other tools, and wait until workers have these."""
        began = self._world.audit.now()
        for name in sorted(names):
            self._give_version(name)
        wait_until(
            lambda: all((job.listed_at or 0) > began for job in self.jobs() if job.server in names),
            "the new tools are listed",
        )

    def _change(self) -> None:
        for name in self._some(3):
            self._give_version(name)

    def _give_version(self, name: str) -> None:
        self._versions += 1
        self._world.servers[name].tools = {
            "ping": f"Say whether {name} is well",
            f"version_{self._versions}": f"Do what version {self._versions} does",
        }
        self._hasten([name])

    def _break(self) -> None:
        """Two servers fail from now on, and one that did is well again."""
        for server in self._in_state("down")[:1]:
            server.state = "well"
        for name in self._some(2):
            self._world.servers[name].state = "down"
            self._hasten([name])

    def _hold(self) -> None:
        """Let connections be silent, for less than a lease or for more."""
        began = self._world.audit.now()
        self._world.proxy.hold()
        # What is tried here is the passing of time itself.
        threading.Event().wait(self._random.uniform(0.2, 1.5) * self._world.lease)
        self._world.proxy.release()
        self.outages.append((began, self._world.audit.now()))

    def _restart_database(self) -> None:
        began = self._world.audit.now()
        self._world.postgres.stop(self._random.choice(("fast", "immediate")))
        self._world.postgres.start()
        self.outages.append((began, self._world.audit.now()))

    @contextmanager
    def _silent_servers(self) -> Iterator[None]:
        """Some servers keep whoever lists them waiting, until the end of the block."""
        chosen = [self._world.servers[name] for name in self._some(2 * len(self.workers))]
        for server in chosen:
            server.state = "silent"
        self._hasten([server.name for server in chosen])
        try:
            yield
        finally:
            for server in chosen:
                server.state = "well"

    def _busy_worker(self) -> tuple[Process, set[tuple[str, int]]]:
        """A worker in the middle of its work, and what it waits for."""
        chosen = self._random.sample(self.workers, k=len(self.workers))

        def found() -> tuple[Process, set[tuple[str, int]]] | None:
            pairs = ((worker, self._held_by(worker)) for worker in chosen)
            return next((pair for pair in pairs if pair[1]), None)

        busy = wait_until(found, "a worker waits for a server")
        assert busy
        return busy

    def _held_by(self, worker: Process) -> set[tuple[str, int]]:
        """Those of its claims whose servers do not answer."""
        silent = {server.name for server in self._in_state("silent")}
        return {claim for claim in self._claims_of(worker) if claim[0] in silent}

    def _claims_of(self, worker: Process) -> set[tuple[str, int]]:
        """Servers with the fences under which a worker holds them."""
        jobs = (job for job in self.jobs() if f"-{worker.pid}-" in job.holder)
        return {(job.server, job.fence) for job in jobs}

    def _in_state(self, state: str) -> list[LoopbackServer]:
        return [server for server in self._world.servers.values() if server.state == state]

    def _some(self, count: int) -> list[str]:
        names = list(self._world.servers)
        return self._random.sample(names, k=min(count, len(names)))

    def _hasten(self, servers: list[str]) -> None:
        names = [ServerName(server) for server in servers]
        self._world.store.hasten_refreshes(SCOPE, names, priority=REQUESTED)
