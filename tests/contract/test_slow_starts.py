"""A server that takes its time to start: the answers go out, and what was begun is used."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from discovery_engine import CallbackClient, Engine, ServerReport, ServerState
from discovery_engine.errors import ServerStartingError
from discovery_engine.events import ServerFailed
from tests.agents import ask
from tests.contract.discovery import Discovery
from tests.engines import Folder, good, summary
from tests.forked import Preloaded
from tests.servers.programs import eventually, fault_server, text_of

ALICE = CallbackClient(id="alice")

pytestmark = pytest.mark.anyio

WORDS = "Resolving packages\nDownloading 40 %"
SCRIPT = (
    'echo started >> "$0.starts"; printf "%s\\n" "$1" >&2; shift;'
    ' until [ -e "$0" ]; do sleep 0.01; done; exec "$@"'
)


@dataclass(frozen=True)
class Download:
    """What a server waits for before it answers; it writes how often it was started."""

    path: Path

    def before(self, server: Any) -> Any:
        transport = server.transport
        args = ("-c", SCRIPT, str(self.path), WORDS, transport.command, *transport.args)
        return replace(server, transport=replace(transport, command="/bin/sh", args=args))

    def end(self) -> None:
        self.path.touch()

    @property
    def starts(self) -> int:
        file = Path(f"{self.path}.starts")
        return len(file.read_text("utf-8").split()) if file.exists() else 0


@pytest.fixture
def download(tmp_path: Path) -> Download:
    return Download(tmp_path / "downloaded")


async def under_way(engine: Engine, server: str) -> ServerReport:
    """A server that is starting, once its program has written something."""
    await eventually(lambda: bool(summary(engine.view, server).progress))
    return summary(engine.view, server)


@pytest.mark.requirement("LIB-37")
async def test_an_answer_goes_out_and_the_start_that_was_begun_is_used(
    folder: Folder, download: Download
) -> None:
    folder.write(download.before(good("slow")), good("quick"))

    async with folder.open() as engine:
        with engine.subscribe() as events:
            await engine.list_tools("quick")
            report = await engine.refresh(max_wait=1.5)
            seen = await under_way(engine, "slow")
            answer = await engine.search("echo")
            download.end()
            await engine.list_tools("slow")
            await engine.execute("slow", "echo", {})
        told = events.drain()

    assert report.starting == ("slow",)
    assert seen.state is ServerState.STARTING
    assert seen.progress == "Downloading 40 %"
    assert seen.starting_for is not None
    assert [str(hit.entry.key) for hit in answer.hits] == ["quick:echo"]
    [notice] = [n for n in answer.notices if n.server == "slow"]
    assert notice.code == "SERVER_STARTING"
    assert notice.message.startswith("slow: starting, ")
    assert not any(isinstance(event, ServerFailed) for event in told)
    assert download.starts == 1


@pytest.mark.requirement("MET-12")
async def test_agents_read_that_it_is_starting_and_nothing_that_its_program_wrote(
    folder: Folder, download: Download
) -> None:
    folder.write(download.before(good("slow")))

    async with folder.open() as engine:
        await engine.refresh(max_wait=0.1)
        await under_way(engine, "slow")
        answers = [
            await ask(engine, "search_tools", query="echo"),
            await ask(engine, "list_tools", server="slow"),
            await ask(engine, "get_tool_details", tool="slow:echo"),
            await ask(engine, "list_mcp_servers"),
        ]
        download.end()
        result = await ask(engine, "execute_tool", tool="slow:echo", arguments={"text": "hi"})

    searched, listed, described, servers = map(text_of, answers)
    assert searched.startswith("No tool is known yet.\nNote: slow: starting, ")
    assert "Note: slow: starting, " in listed
    assert described.startswith("SERVER_STARTING: server 'slow' is starting, ")
    assert servers == "slow (0 tools) starting"
    for word in ("Downloading", "Resolving", "no enabled tool", "fail"):
        assert not any(word in str(answer) for answer in answers)
    assert not result.get("isError")
    assert download.starts == 1


@pytest.mark.requirement("MET-12")
async def test_a_first_answer_waits_for_a_server_that_takes_its_time(
    folder: Folder,
) -> None:
    folder.write(fault_server("slow_start", program="wire_server.py", name="slow"))

    async with folder.open() as engine:
        answer = await ask(engine, "search_tools", query="echo")

    assert text_of(answer).startswith("Match: sure.\nslow:echo")


@pytest.mark.requirement("LIB-37")
async def test_who_calls_a_tool_of_a_starting_server_may_try_again(
    folder: Folder, download: Download
) -> None:
    folder.write(download.before(good("slow", session="per_client")))

    async with folder.open() as engine:
        with pytest.raises(ServerStartingError):
            await engine.execute("slow", "echo", {}, caller=ALICE, max_wait=0.05)
        download.end()
        result = await engine.execute("slow", "echo", {"text": "hi"}, caller=ALICE)

    assert "hi" in text_of(result)
    assert download.starts == 1


@pytest.mark.thorough
@pytest.mark.requirement("CLI-28")
@pytest.mark.skipif(sys.platform == "win32", reason="terminals are a matter of POSIX")
def test_ctrl_c_answers_with_what_is_known(
    tmp_path: Path, forked: Preloaded, download: Download
) -> None:
    discovery = Discovery(tmp_path, forked)
    slow = download.before(good("slow")).transport
    discovery.configure(slow={"command": slow.command, "args": list(slow.args)})
    discovery("refresh", "demo")
    terminal, stderr = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "discovery_cli", "search", "echo"],
        cwd=discovery.home,
        env=discovery.environ | {"TERM": "xterm"},
        stdout=subprocess.PIPE,
        stderr=stderr,
    )
    os.close(stderr)
    shown = b""

    with process:
        while b"Downloading 40 %" not in shown:
            shown += os.read(terminal, 4096)
        process.send_signal(signal.SIGINT)
        out = _read_to_the_end(terminal)
        found = process.stdout.read() if process.stdout else b""
        code = process.wait(timeout=60)

    assert b"starting, " in shown
    assert b"demo:echo" in found
    assert b"slow: starting, " in out
    assert code == 130


def _read_to_the_end(terminal: int) -> bytes:
    read = b""
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # how Linux tells the end
            piece = b""
        if not piece:
            os.close(terminal)
            return read
        read += piece
