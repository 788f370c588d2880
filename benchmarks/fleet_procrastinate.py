"""Claims and results of procrastinate's job manager, for `fleet_claims.py`.

    PYTHON fleet_procrastinate.py URL JOBS WORKERS CLAIMS

PYTHON has `procrastinate`. Makes its tables and so many jobs, says so in a line, waits for a line,
and lets so many workers claim and finish jobs, each with a connection of its own. The last line is
JSON: seconds, and those of CPU.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from procrastinate import App, PsycopgConnector
from procrastinate.jobs import Job, Status


async def main(url: str, jobs: int, workers: int, claims: int) -> None:
    connector = PsycopgConnector(conninfo=url, min_size=workers, max_size=workers)
    app = App(connector=connector)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        manager = app.job_manager
        await manager.batch_defer_jobs_async(
            [
                Job(
                    queue="fleet",
                    lock=None,
                    queueing_lock=None,
                    task_name="refresh",
                    task_kwargs={"server": f"server{number}"},
                )
                for number in range(jobs)
            ]
        )
        names = [await manager.register_worker() for _ in range(workers)]
        await connector.execute_query_async("ANALYZE procrastinate_jobs")
        print("ready", flush=True)
        sys.stdin.readline()

        left = claims

        async def work(name: int) -> None:
            nonlocal left
            while left > 0:
                left -= 1
                job = await manager.fetch_job(queues=["fleet"], worker_id=name)
                assert job
                await manager.finish_job(job, status=Status.SUCCEEDED, delete_job=False)

        began, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*map(work, names))
        print(json.dumps([time.perf_counter() - began, time.process_time() - cpu]), flush=True)
        sys.stdin.readline()  # the connections stay until the database was looked at


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
