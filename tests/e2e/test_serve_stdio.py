"""`discovery serve` on stdio as a program: how it begins, ends, reloads and logs."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import IO, Any

import anyio
import anyio.to_thread
import pytest

from tests.e2e.serving import Home, fault_entry
from tests.servers.programs import eventually, is_running
from tests.unit.server.wire import INITIALIZE, INITIALIZED, call

pytestmark = [pytest.mark.anyio, pytest.mark.e2e]


def tell(process: subprocess.Popen[bytes], *messages: Any) -> None:
    assert process.stdin is not None
    process.stdin.write(b"".join(json.dumps(m).encode() + b"\n" for m in messages))
    process.stdin.flush()


def hear(process: subprocess.Popen[bytes]) -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def shake_hands(process: subprocess.Popen[bytes]) -> None:
    tell(process, INITIALIZE)
    assert hear(process)["id"] == INITIALIZE["id"]
    tell(process, INITIALIZED)


def text_told(process: subprocess.Popen[bytes], name: str, /, **arguments: Any) -> str:
    tell(process, call(9, name, **arguments))
    return hear(process)["result"]["content"][0]["text"]


def close_stdin(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()


@pytest.mark.requirement("SRV-2", "SRV-3")
@pytest.mark.parametrize(
    "end", ["EOF", "SIGTERM", pytest.param("SIGINT", marks=pytest.mark.matrix)]
)
async def test_its_first_answer_waits_for_no_server_and_its_end_is_that_of_its_children(
    home: Home, end: str
) -> None:
    home.write({"good": fault_entry(), "hanging": fault_entry("hang_start")})
    with home.process() as process:
        shake_hands(process)
        child = int(text_told(process, "execute_tool", tool="good:pid"))

        if end == "EOF":
            close_stdin(process)
        else:
            process.send_signal(signal.Signals[end])

        assert process.wait(60) == 0
    await eventually(lambda: not is_running(child))


@pytest.mark.requirement("SRV-3")
async def test_a_second_signal_ends_it_at_once_and_its_children_soon(home: Home) -> None:
    home.write({"stubborn": fault_entry("stubborn")})
    with home.process() as process:
        shake_hands(process)
        child = int(text_told(process, "execute_tool", tool="stubborn:pid"))

        process.send_signal(signal.SIGTERM)
        while process.poll() is None:  # the first may still be on its way
            process.send_signal(signal.SIGTERM)

        assert process.wait(60) == -signal.SIGTERM
    await eventually(lambda: not is_running(child))


@pytest.mark.requirement("SRV-4")
async def test_hangup_reads_the_configuration_again(home: Home) -> None:
    home.write({"good": fault_entry()})
    with home.process() as process:
        shake_hands(process)
        text_told(process, "list_mcp_servers")

        home.config.write_text("servers: [", encoding="utf-8")
        process.send_signal(signal.SIGHUP)
        await told_on_stderr(process, "The configuration was not reloaded")
        before = text_told(process, "list_mcp_servers")
        home.write({"good": fault_entry(), "new": fault_entry()})
        process.send_signal(signal.SIGHUP)
        await told_on_stderr(process, "The configuration was reloaded")
        after = text_told(process, "list_mcp_servers")

    assert "new" not in before
    assert "new" in after


async def told_on_stderr(process: subprocess.Popen[bytes], what: str) -> None:
    """Wait for a line on stderr that says so."""

    def look(stream: IO[bytes]) -> None:
        for line in stream:
            if what in line.decode():
                return
        raise AssertionError(f"{what!r} was never said")

    assert process.stderr is not None
    with anyio.fail_after(60):
        await anyio.to_thread.run_sync(look, process.stderr)


@pytest.mark.requirement("SRV-6")
async def test_stdout_carries_messages_only(home: Home) -> None:
    home.write({"noisy": fault_entry("noise"), "loud": fault_entry("stderr_flood")})
    with home.process() as process:
        shake_hands(process)
        text_told(process, "search_tools", query="echo")
        text_told(process, "execute_tool", tool="loud:echo", arguments={"text": "x"})
        close_stdin(process)

        assert process.stdout is not None
        assert process.stdout.read() == b""
        assert process.wait(60) == 0
