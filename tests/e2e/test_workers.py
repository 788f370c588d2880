"""`discovery fleet worker` as processes that share a registry, killed, stopped and ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from discovery_engine.store.backends import open_registry
from discovery_engine.store.refresh_job import RefreshJob
from discovery_engine.store.registry import Registry
from tests.servers.programs import HERE, eventually
from tests.store.registry_stores import back_ends, url_of

pytestmark = pytest.mark.anyio

_PATIENCE = 120  # seconds for whatever is waited for
SHORT = "3"
"""A lease that ends soon, and is extended in time on a busy machine as well."""


class Worker:
    """One process, and the events that it has written so far."""

    def __init__(self, fleet: Fleet, *options: str) -> None:
        self.events: list[dict[str, Any]] = []
        self._log = (fleet.folder / "log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "discovery_cli", "fleet", "worker", "--json", *options],
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=fleet.environ(),
            cwd=fleet.folder,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def has(self, event: str, server: str = "a") -> Callable[[], bool]:
        return lambda: any(e["event"] == event and e["server"] == server for e in self.events)

    def close(self) -> None:
        with self.process:
            self.process.kill()
            self.process.send_signal(signal.SIGCONT)
        self._log.close()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.events.append(json.loads(line))


class Fleet:
    """A registry, a configuration, and workers that use both, each with a data folder of its own.

    With a file as the registry they have one data folder.
    """

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        self.workers: list[Worker] = []
        self._names = iter(range(100))

    @property
    def is_file(self) -> bool:
        return self.url.startswith("sqlite")

    def configure(self, **servers: dict[str, Any]) -> None:
        content: dict[str, Any] = {"name": "fleet", "servers": servers}
        if not self.is_file:
            content["registry"] = {"url": "${DATABASE_URL}"}
        new = self.folder / "discovery.new"
        new.write_text(json.dumps(content), "utf-8")
        new.replace(self.folder / "discovery.yaml")

    def environ(self) -> dict[str, str]:
        data = "data" if self.is_file else f"data-{next(self._names)}"
        return {
            **os.environ,
            "DISCOVERY_CONFIG": str(self.folder / "discovery.yaml"),
            "DISCOVERY_DATA_DIR": str(self.folder / data),
            "DATABASE_URL": self.url,
        }

    def start(self, *options: str) -> Worker:
        self.workers.append(Worker(self, *options))
        return self.workers[-1]

    def numbered(self, name: str = "a") -> dict[str, Any]:
        """A server that lists its tools when `let` says so."""
        (self.folder / name).mkdir(exist_ok=True)
        program = str(HERE / "numbered_server.py")
        return {
            "command": sys.executable,
            "args": ["-I", "-S", program, str(self.folder / name)],
            "timeouts": {"list": 600},
        }

    def let(self, number: int | None = None, name: str = "a") -> None:
        suffix = "" if number is None else f"-{number}"
        (self.folder / name / f"open{suffix}").touch()

    def started(self, number: int, name: str = "a") -> Callable[[], bool]:
        return (self.folder / name / f"started-{number}").exists

    @property
    def _scope(self) -> str:
        path = os.path.realpath(self.folder / "discovery.yaml")
        return path if self.is_file else "name:fleet"

    def store(self) -> closing[Registry]:
        return closing(open_registry(self.url))

    def job(self, name: str = "a") -> RefreshJob:
        with self.store() as store:
            [job] = [job for job in store.refresh_jobs(self._scope) if job.server == name]
        return job

    def tools(self) -> list[str]:
        with self.store() as store:
            snapshot = store.load(self._scope)
        return [str(entry.key) for entry in snapshot.catalog] if snapshot else []


@pytest.fixture(params=back_ends("sqlite", "postgresql"))
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    (tmp_path / "data").mkdir()
    made = Fleet(tmp_path, url_of(request.param, request, tmp_path / "data"))
    try:
        yield made
    finally:
        for worker in made.workers:
            worker.close()


@pytest.mark.requirement("FLT-3", "FLT-11")
@pytest.mark.parametrize(
    "fleet",
    ["sqlite", pytest.param("postgresql", marks=[pytest.mark.database, pytest.mark.landing])],
    indirect=True,
)
async def test_a_worker_that_is_killed_has_its_server_taken_over(fleet: Fleet) -> None:
    fleet.configure(a=fleet.numbered())
    first = fleet.start("--lease", SHORT)
    await eventually(fleet.started(1), within=_PATIENCE)

    first.process.kill()
    second = fleet.start()
    await eventually(fleet.started(2), within=_PATIENCE)
    fleet.let()
    await eventually(second.has("changed"), within=_PATIENCE)

    job = fleet.job()
    assert (job.state, job.fence, job.tool_count) == ("enabled", 2, 1)
    assert fleet.tools() == ["a:of_2"]
