"""What `health`, `doctor` and `list` say of servers while gateways run: specs/health.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from discovery_engine._util.json import JSONObject
from discovery_engine._util.tasks import open_task_group
from discovery_engine.engine import open_engine
from discovery_engine.runtime.gateway_reports import observations, open_status_file
from discovery_engine.view.status import Observation
from discovery_server.api.feed_sources import follow_gateways
from tests.contract.discovery import Discovery
from tests.forked import Preloaded
from tests.rows import rows
from tests.servers.programs import HERE, eventually

pytestmark = pytest.mark.anyio

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}}


class Gateway:
    """A `discovery serve` that is spoken to on its standard streams."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._count = 0
        client = {"clientInfo": {"name": "test", "version": "1"}}
        self.ask("initialize", {**HELLO, **client})
        self._send(method="notifications/initialized")

    def ask(self, method: str, params: JSONObject) -> JSONObject:
        self._count += 1
        self._send(id=self._count, method=method, params=params)
        assert self.process.stdout
        for line in self.process.stdout:
            answer: JSONObject = json.loads(line)
            if answer.get("id") == self._count:
                return answer
        raise AssertionError("the gateway ended")

    def call(self, tool: str) -> JSONObject:
        return self.ask("tools/call", {"name": "execute_tool", "arguments": {"tool": tool}})

    def _send(self, **message: Any) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()


@contextmanager
def gateway(home: Discovery) -> Iterator[Gateway]:
    with subprocess.Popen(
        [sys.executable, "-m", "discovery_cli", "serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=home.home,
        env=home.environ,
    ) as process:
        try:
            yield Gateway(process)
        finally:
            process.kill()


def configured(folder: Path, forked: Preloaded, *words: str) -> Discovery:
    """A home with a server of this folder's, whose tools are known."""
    (folder / "tools.txt").write_text("hang pid")
    script, *rest = words
    args = ["-I", "-S", str(HERE / script), *rest]
    entry = {"command": sys.executable, "args": args, "timeouts": {"call": 1}}
    (folder / "discovery.yaml").write_text(json.dumps({"servers": {"sick": entry}}), "utf-8")
    home = Discovery(folder, forked)
    assert home("refresh").code == 0
    return home


async def until_said(home: Discovery, count: int, status: str) -> list[JSONObject]:
    """What the gateways say of the server, once so many do and the worst is that."""
    with anyio.fail_after(60):
        while True:
            [server] = (await anyio.to_thread.run_sync(home, "health", "--json")).json["servers"]
            said: list[JSONObject] = server["gateways"]
            if len(said) == count and said[0]["status"] == status:
                return said


@pytest.mark.thorough
@pytest.mark.requirement("HEA-30")
@pytest.mark.parametrize(
    ("words", "calls", "status", "code_after"),
    [
        pytest.param(["fault_server.py", "crash_call"], ["echo"] * 3, "failing", 7, id="it ends"),
        pytest.param(["changing_server.py", "tools.txt"], ["hang"], "degraded", 0, id="it hangs"),
    ],
)
async def test_what_a_running_gateway_calls_sick_is_never_told_as_well(
    tmp_path: Path,
    forked: Preloaded,
    words: list[str],
    calls: list[str],
    status: str,
    code_after: int,
) -> None:
    home = configured(tmp_path, forked, *words)
    config, data, announced = tmp_path / "discovery.yaml", tmp_path / "data", list[JSONObject]()

    async with open_engine(config, data_dir=data) as page, open_task_group() as tasks:
        tasks.start_soon(follow_gateways, page, announced.append, checkpoint)
        with gateway(home) as opened:
            for tool in calls:
                opened.call(f"sick:{tool}")
            [said] = await until_said(home, 1, status)
            await eventually(lambda: status in [one["state"] for one in announced])
            [shown] = await page.health(await page.elsewhere())
            health, doctor, listed = home("health"), home("doctor"), home("list", "--status")
            pid = opened.process.pid
        tasks.cancel_scope.cancel()
    after = home("health")

    assert said["pid"] == pid
    assert (shown.state.value, f"process {pid}" in shown.reason) == (status, True)
    for done in (health, doctor, listed):
        [line] = [line for line in done.out.splitlines() if "sick " in line]
        assert line.startswith("✗")
        assert f"process {pid}" in line
    assert (health.code, doctor.code) == (7, 7)
    assert after.code == code_after
    assert list((tmp_path / "data" / "gateways").iterdir()) == []


@pytest.mark.thorough
@pytest.mark.requirement("HEA-30", "HEA-31")
async def test_of_several_gateways_the_worst_word_counts_and_each_is_named(
    tmp_path: Path, forked: Preloaded
) -> None:
    home = configured(tmp_path, forked, "changing_server.py", "tools.txt")

    with gateway(home) as sick, gateway(home) as well:
        well.call("sick:pid")
        sick.call("sick:hang")
        said = await until_said(home, 2, "degraded")
        done = home("health")
        pids = sick.process.pid, well.process.pid

    assert [one["pid"] for one in said] == list(pids)
    assert f"process {pids[0]}; ready in process {pids[1]}" in done.out


def seen(server: str = "sick", status: str = "failing", connection: str = "c") -> Observation:
    return Observation(server, status, connection, reason="it is gone")


@pytest.mark.requirement("HEA-31")
def test_the_word_of_a_gateway_counts_for_as_long_as_it_lives(tmp_path: Path) -> None:
    with open_status_file(tmp_path, "scope") as file, open_status_file(tmp_path, "other"):
        before = observations(tmp_path, "scope")
        file.write([seen(), seen("well", "ready")])
        file.write([seen()])
        while_alive = observations(tmp_path, "scope")
        elsewhere = observations(tmp_path, "other")
        [mine] = [p for p in (tmp_path / "gateways").iterdir() if b"scope" in p.read_bytes()]
        left = mine.read_bytes()
    # A gateway that was killed leaves its file, without a lock; its process id may be another's.
    mine.write_bytes(left)

    assert before == elsewhere == {}
    assert [(one.gateway, one.reason) for one in while_alive["sick"]] == [
        (os.getpid(), "it is gone")
    ]
    assert observations(tmp_path, "scope") == {}
    assert list((tmp_path / "gateways").iterdir()) == []


@pytest.mark.requirement("HEA-31")
@rows(
    "content",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"00000000 {}\n", id="a wrong checksum"),
        pytest.param(b"\x00" * 99, id="zeros"),
        pytest.param(b"a3830348 {}\n", id="another shape"),
        pytest.param(b"2144df1c []\n", id="no object"),
    ],
)
def test_a_status_file_that_is_torn_says_nothing(tmp_path: Path, content: bytes) -> None:
    with open_status_file(tmp_path, "scope"):
        [path] = (tmp_path / "gateways").iterdir()
        path.write_bytes(content)

        assert observations(tmp_path, "scope") == {}


@pytest.mark.requirement("HEA-31")
@pytest.mark.skipif(os.name != "posix", reason="modes are a matter of POSIX")
def test_what_a_gateway_writes_is_its_owners_alone(tmp_path: Path) -> None:
    with open_status_file(tmp_path / "data", "scope"):
        [path] = (tmp_path / "data" / "gateways").iterdir()

        assert path.stat().st_mode & 0o77 == 0
        assert path.parent.stat().st_mode & 0o77 == 0
