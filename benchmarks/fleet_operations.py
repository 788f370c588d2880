"""What one operation of a worker costs itself and the database, each as the registry does it.

    .venv/bin/python benchmarks/fleet_operations.py

A PostgreSQL from a wheel, with one connection that asks for one thing after the other. CPU of the
database is that of all its processes, so its background work is in it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from discovery_engine.catalog import ServerPart  # noqa: E402
from discovery_engine.store.backends import open_database  # noqa: E402
from discovery_engine.store.postgres.postgres_registry import PostgresRegistry  # noqa: E402
from discovery_engine.store.refresh_job import (  # noqa: E402
    ClaimedPart,
    RefreshClaim,
    RefreshTarget,
)
from discovery_engine.tools.model import ServerName  # noqa: E402
from discovery_engine.trust.decisions import Acceptance  # noqa: E402
from tests.factories import make_part, make_settings  # noqa: E402
from tests.postgres import PostgresServer, open_server  # noqa: E402
from tests.servers.programs import descendants  # noqa: E402

SCOPE = "name:fleet"
TOOLS = 50
BATCH = 8  # claims in one statement
_LEASE = 600.0
_DIGEST, _TEXT = "0" * 64, '{"description": "' + "a" * 400 + '"}'
_PER_TICK = 1 / os.sysconf("SC_CLK_TCK")


class Cost(Struct, frozen=True):
    """Of one server; times are in milliseconds."""

    what: str
    client: float
    """CPU of the worker."""
    database: float
    """CPU of the database."""
    wall: float
    log: float
    """Bytes of the write-ahead log."""


class Meter:
    """Measures operations on one server after another."""

    def __init__(self, server: PostgresServer) -> None:
        pid = (server.folder / "data" / "postmaster.pid").read_text("utf-8").splitlines()[0]
        self._postmaster = int(pid)
        self._server = server

    def measure(self, what: str, count: int, run: Callable[[], object]) -> Cost:
        """The cost of each of `count`, which `run` does together."""
        with self._server.admin() as admin:
            log = "SELECT pg_current_wal_insert_lsn() - '0/0'"
            before = self._cpu(), time.process_time(), time.perf_counter()
            [written] = admin.execute(log).fetchone() or (0,)
            run()
            database = self._cpu() - before[0]
            client = time.process_time() - before[1]
            wall = time.perf_counter() - before[2]
            [now] = admin.execute(log).fetchone() or (0,)
        per = 1000 / count
        return Cost(what, client * per, database * per, wall * per, float(now - written) / count)

    def _cpu(self) -> float:
        return sum(_cpu(pid) for pid in {self._postmaster, *descendants(self._postmaster)})


def measure(server: PostgresServer, count: int = 400) -> list[Cost]:
    """The costs of each operation, measured on so many servers."""
    with closing(open_database(server.create_database())) as store:
        meter = Meter(server)
        servers = [ServerName(f"server{number}") for number in range(count)]
        store.save_settings(SCOPE, make_settings(*servers))
        return [
            *_planned(meter, store, servers),
            *_listed(meter, store, count),
        ]


def _planned(meter: Meter, store: PostgresRegistry, servers: list[ServerName]) -> Iterator[Cost]:
    targets = [RefreshTarget(server) for server in servers]
    for what in ("plan, first", "plan, again"):
        yield meter.measure(what, len(servers), lambda: store.plan_refreshes(SCOPE, targets))


def _listed(meter: Meter, store: PostgresRegistry, count: int) -> Iterator[Cost]:
    claims: list[RefreshClaim] = []

    def claim() -> None:
        for _ in range(count // BATCH):
            found = store.claim_refreshes(SCOPE, "worker", limit=BATCH, lease=_LEASE)
            claims.extend(job.claim for job in found)

    def extend() -> None:
        for batch in range(0, count, BATCH):
            store.extend_claims(claims[batch : batch + BATCH], lease=_LEASE)

    def each(operation: Callable[[RefreshClaim], object]) -> Callable[[], object]:
        return lambda: [operation(one) for one in claims]

    def claim_again() -> None:
        claims.clear()
        claim()

    def accept(one: RefreshClaim) -> object:
        new = [Acceptance(one.server, f"tool_{n}", _DIGEST, _DIGEST, _TEXT) for n in range(TOOLS)]
        return store.accept_claimed(one, SCOPE, new, at=1.0)

    def save(version: int) -> Callable[[], object]:
        return each(
            lambda one: store.save_claimed(one, _part(one, version), due_in=0.0, revision=version)
        )

    def fail(one: RefreshClaim) -> object:
        return store.fail_refresh(one, "TIMEOUT", "it did not answer", retry_in=0.0)

    yield meter.measure(f"claim, {BATCH} at once", count, claim)
    yield meter.measure(f"heartbeat, {BATCH} at once", count, extend)
    yield meter.measure(f"accept {TOOLS} new tools", count, each(accept))
    yield meter.measure(f"save {TOOLS} tools", count, save(1))
    claim_again()
    yield meter.measure("save, unchanged", count, save(1))
    claim_again()
    yield meter.measure(f"save, unchanged, {BATCH} at once", count, partial(_end, store, claims))
    claim_again()
    yield meter.measure("save, one tool changed", count, save(2))
    claim_again()
    yield meter.measure("fail", count, each(fail))


def _part(claim: RefreshClaim, version: int) -> ServerPart:
    tools = [f"tool_{number}" for number in range(TOOLS - 1)] + [f"version_{version}"]
    return make_part(claim.server, *tools)


def _end(store: PostgresRegistry, claims: list[RefreshClaim]) -> None:
    """Save what is saved already."""
    listed = [ClaimedPart(one, _part(one, 1), 0.0) for one in claims]
    for batch in range(0, len(listed), BATCH):
        ended = store.end_unchanged(listed[batch : batch + BATCH])
        assert len(ended) == BATCH


def _cpu(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * _PER_TICK
    return 0.0


def main() -> None:
    print("| operation, of one server | worker CPU ms | database CPU ms | wall ms | log bytes |")
    print("|---|--:|--:|--:|--:|")
    with open_server() as server:
        for cost in measure(server):
            times = f"{cost.client:.2f} | {cost.database:.2f} | {cost.wall:.2f}"
            print(f"| {cost.what} | {times} | {cost.log:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
