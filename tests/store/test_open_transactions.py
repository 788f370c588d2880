"""No transaction of ours is open while a server is slow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import psycopg
import pytest

from discovery_engine._util.tasks import open_task_group
from discovery_engine.engine.refresh_worker import WorkerOptions, WorkerReport
from tests.engines import Changing, Gate, entry
from tests.postgres import PostgresServer
from tests.servers.programs import eventually
from tests.store.test_workers import Machines

pytestmark = pytest.mark.anyio

LOOKS = 10
# The database waits between two looks, so a look is never late.
LOOK = """
    SELECT pid, xact_start::text FROM pg_stat_activity, pg_sleep(0.1)
    WHERE datname = %s AND state LIKE 'idle in transaction%%'
"""


class Transactions:
    """Those of a database."""

    def __init__(self, admin: psycopg.Connection, database: str) -> None:
        self._admin, self._database = admin, database

    async def idle_throughout(self) -> set[tuple[object, ...]]:
        """Those that are open, and do nothing, at each of ten looks in a second."""
        looks = [await anyio.to_thread.run_sync(self._look) for _ in range(LOOKS)]
        return set.intersection(*looks)

    def _look(self) -> set[tuple[object, ...]]:
        return set(self._admin.execute(LOOK, (self._database,)))


@contextmanager
def transactions(server: PostgresServer, url: str) -> Iterator[Transactions]:
    with server.admin() as admin:
        yield Transactions(admin, url.rpartition("/")[2])


@pytest.mark.requirement("PGS-5")
async def test_no_transaction_is_open_while_a_server_is_slow_to_list_or_to_answer_a_call(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    url = postgres_server.create_database()
    machines = Machines(tmp_path, url)
    slow, gate = Changing.beside(tmp_path, "hang"), Gate(tmp_path / "gate")
    machines.write(servers={"slow": entry(gate.before(slow.server("slow")))})
    reports: list[WorkerReport] = []

    async with machines.open("worker", worker=True) as worker, open_task_group() as tasks:
        tasks.start_soon(worker.work, WorkerOptions(), reports.append)
        await eventually(lambda: [one.outcome for one in reports] == ["claimed"])
        with transactions(postgres_server, url) as found:
            while_listed = await found.idle_throughout()
        gate.open()
        await eventually(lambda: [one.outcome for one in reports] == ["claimed", "changed"])
        tasks.cancel_scope.cancel()

    async with machines.gateway() as gateway, open_task_group() as tasks:
        tasks.start_soon(gateway.execute, "slow", "hang", {})
        await eventually(slow.file.with_suffix(".hanging").exists)
        with transactions(postgres_server, url) as found:
            while_called = await found.idle_throughout()
        tasks.cancel_scope.cancel()

    assert (while_listed, while_called) == (set(), set())


async def test_a_transaction_that_stays_open_is_seen(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database()
    with (
        psycopg.connect(url) as other,
        other.transaction(),
        transactions(postgres_server, url) as found,
    ):
        other.execute("SELECT 1")

        assert len(await found.idle_throughout()) == 1
