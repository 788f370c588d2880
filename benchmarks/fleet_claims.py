"""Claims a second of the refresh queue, beside the barest queue in SQL and beside procrastinate.

    .venv/bin/python benchmarks/fleet_claims.py [--claims 2000] [--workers 1 8 64]

Each claims one job and notes its result, until there were so many, with one connection a worker; a
worker of ours that has slots free claims up to eight at once, which is a row of its own. `bare` is
a table with a due time, `FOR UPDATE SKIP LOCKED` and an update: no lease, fence or priority.
procrastinate is in an environment of its own, made once below `.tools`; without it its rows are
left out. The result of ours is an unchanged listing, which is compared with what is saved. CPU is
that of the workers and of the database, for one claim with its result.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import psycopg

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.fleet_operations import Meter  # noqa: E402
from discovery_engine.store.backends import open_database  # noqa: E402
from discovery_engine.store.refresh_job import RefreshTarget  # noqa: E402
from discovery_engine.tools.model import ServerName  # noqa: E402
from tests.factories import make_part, make_settings  # noqa: E402
from tests.postgres import PostgresServer, open_server  # noqa: E402

SCOPE = "name:fleet"
PEER = ROOT / ".tools" / "procrastinate"
HOUR, DAY = 3600.0, 86_400.0
_CONNECTIONS = 150  # of the database: 64 workers, and those that measure


def main() -> None:
    asked = _arguments()
    jobs = 2 * asked.claims
    contestants = {
        "bare": bare,
        "ours": ours(1),
        "ours, 8 at once": ours(8),
        "procrastinate": procrastinate,
    }
    print(f"{asked.claims:,} claims of {jobs:,} jobs, the median of {asked.rounds} rounds")
    print(
        "| workers | | claims a second | beside bare"
        " | worker CPU ms | database CPU ms | log bytes |"
    )
    print("|--:|---|--:|--:|--:|--:|--:|")
    with open_server() as server:
        with server.admin() as admin:
            admin.autocommit = True
            admin.execute(f"ALTER SYSTEM SET max_connections = {_CONNECTIONS}")
        server.stop()
        server.start()
        for workers in asked.workers:
            rows: dict[str, list[tuple[float, float, float, float]]] = {}
            for _ in range(asked.rounds):  # in turn, so that a busy minute meets them all
                for name, run in contestants.items():
                    try:
                        row = run(server, jobs, workers, asked.claims)
                    except (OSError, subprocess.SubprocessError) as error:
                        print(f"left out: {name} ({error})", file=sys.stderr)
                        continue
                    rows.setdefault(name, []).append(row)
            floor = 0.0
            for name, found in rows.items():
                speed, client, database, log = (
                    sorted(values)[len(values) // 2] for values in zip(*found, strict=True)
                )
                floor = floor or speed
                print(f"| {workers} | {name} | {speed:,.0f} | {speed / floor:.2f} |"
                      f" {client:.2f} | {database:.2f} | {log:,.0f} |", flush=True)  # fmt: skip


def ours(batch: int) -> Callable[[PostgresServer, int, int, int], tuple[float, ...]]:
    def run(server: PostgresServer, jobs: int, workers: int, claims: int) -> tuple[float, ...]:
        url = server.create_database()
        with closing(open_database(url, max_connections=workers, timeout=DAY)) as store:
            names = [RefreshTarget(ServerName(f"server{number}")) for number in range(jobs)]
            parts = {one.server: make_part(one.server, "tool") for one in names}
            store.save_settings(SCOPE, make_settings(*parts))
            store.save_parts(SCOPE, parts.values(), revision=1)
            store.plan_refreshes(SCOPE, names)
            store.database.write(lambda db: db.execute("ANALYZE discovery.refresh_jobs"))

            def work(number: int) -> int:
                found = store.claim_refreshes(SCOPE, f"w{number}", limit=batch, lease=HOUR)
                for job in found:
                    part = parts[job.server]
                    assert store.save_claimed(job.claim, part, due_in=DAY, revision=1) != "lost"
                return len(found)

            return _measured(server, workers, claims, batch, work)

    return run


def bare(server: PostgresServer, jobs: int, workers: int, claims: int) -> tuple[float, ...]:
    url = server.create_database()
    with psycopg.connect(url, autocommit=True) as made:
        made.execute("CREATE TABLE jobs (id int PRIMARY KEY, state text, due float8)")
        made.execute("CREATE INDEX due_jobs ON jobs (due) WHERE state = 'waiting'")
        made.execute(
            "INSERT INTO jobs SELECT id, 'waiting', 0 FROM generate_series(1, %s) AS id", (jobs,)
        )
        made.execute("ANALYZE jobs")
    pool = [psycopg.connect(url, autocommit=True) for _ in range(workers)]

    def work(number: int) -> int:
        row = (
            pool[number]
            .execute(
                """
            UPDATE jobs SET state = 'held' WHERE id = (
                SELECT id FROM jobs WHERE state = 'waiting' AND due <= 1
                ORDER BY due LIMIT 1 FOR UPDATE SKIP LOCKED
            ) RETURNING id
            """
            )
            .fetchone()
        )
        assert row
        pool[number].execute("UPDATE jobs SET state = 'waiting', due = 2 WHERE id = %s", row)
        return 1

    try:
        return _measured(server, workers, claims, 1, work)
    finally:
        for one in pool:
            one.close()


def procrastinate(
    server: PostgresServer, jobs: int, workers: int, claims: int
) -> tuple[float, ...]:
    with _peer(server.create_database(), jobs, workers, claims) as say:
        spent: list[float] = []
        cost = Meter(server).measure("", claims, lambda: spent.extend(json.loads(say())))
        return claims / spent[0], spent[1] * 1000 / claims, cost.database, cost.log


def _measured(
    server: PostgresServer, workers: int, claims: int, batch: int, work: Callable[[int], int]
) -> tuple[float, ...]:
    """Claims a second, and CPU of the workers and of the database, and the log, for each."""
    turns = count()

    def loop(number: int) -> None:
        while next(turns) * batch < claims:
            assert work(number) == batch

    def run() -> None:
        with ThreadPoolExecutor(workers) as threads:
            list(threads.map(loop, range(workers)))

    cost = Meter(server).measure("", claims, run)
    return 1000 / cost.wall, cost.client, cost.database, cost.log


@contextmanager
def _peer(url: str, jobs: int, workers: int, claims: int) -> Iterator[Callable[[], str]]:
    """Its process, ready to work; calling it lets it work, and returns what it says."""
    python = PEER / "bin" / "python"
    if not python.exists():
        venv.create(PEER, with_pip=True)
    known = [python, "-c", "import procrastinate"]
    if subprocess.run(known, capture_output=True, check=False).returncode:
        words = ["-m", "pip", "install", "--quiet", "procrastinate", "psycopg-binary"]
        subprocess.run([python, *words], check=True)
    program = Path(__file__).with_name("fleet_procrastinate.py")
    words = [str(python), str(program), url, *map(str, (jobs, workers, claims))]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ}
    ) as process:
        assert process.stdin
        assert process.stdout

        def say() -> str:
            assert process.stdin
            assert process.stdout
            process.stdin.write("\n")
            process.stdin.flush()
            return process.stdout.readline()

        if process.stdout.readline() != "ready\n":
            raise OSError("procrastinate could not be set up")
        yield say
        process.stdin.write("\n")
        process.stdin.flush()
        process.wait(60)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--claims", type=int, default=2000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
