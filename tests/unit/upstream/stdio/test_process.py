from __future__ import annotations

import os
import sys

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.upstream.stdio.process import StderrBuffer, start_program, supervise
from tests.rows import rows
from tests.servers.programs import eventually, is_running

pytestmark = pytest.mark.anyio


@given(st.lists(st.binary(max_size=40), max_size=40))
def test_the_last_lines_are_shown_without_terminal_controls(chunks: list[bytes]) -> None:
    errors = StderrBuffer()

    for chunk in chunks:
        errors.add(chunk)

    assert len(errors.tail.split("\n")) <= 20
    assert all(c.isprintable() or c in "\n\t" or ord(c) > 159 for c in errors.tail)


def test_lines_may_arrive_in_pieces() -> None:
    errors = StderrBuffer()

    for chunk in (b"fir", b"st\nsec", b"ond\n", b"\x1b[31mthird"):
        errors.add(chunk)

    assert errors.tail == "first\nsecond\n\\x1b[31mthird"


@given(st.text(max_size=60), st.integers(min_value=1, max_value=7))
def test_characters_may_arrive_in_pieces(text: str, size: int) -> None:
    whole, pieces = StderrBuffer(), StderrBuffer()
    written = text.encode()

    whole.add(written)
    for start in range(0, len(written), size):
        pieces.add(written[start : start + size])

    assert pieces.tail == whole.tail


def test_a_character_that_breaks_off_is_shown_as_such() -> None:
    lines: list[str] = []
    errors = StderrBuffer(lines.extend)

    errors.add("caf\u00e9".encode()[:-1])
    errors.end()

    assert (lines, errors.tail) == (["caf\ufffd"], "caf\ufffd")


@pytest.mark.requirement("UPS-25")
async def test_every_line_is_told_and_the_last_one_without_its_end() -> None:
    code = "import sys; sys.stderr.write('first\\nsecond\\nthird')"
    lines: list[str] = []

    process = await start_program([sys.executable, "-c", code], env=dict(os.environ), cwd=None)
    async with supervise(process, on_lines=lines.extend) as child:
        with anyio.fail_after(60):
            await child.exit_reason(within=20)

    assert lines == ["first", "second", "third"]


@pytest.mark.requirement("UPS-34")
async def test_a_flood_of_complaints_is_read_with_rests_in_between() -> None:
    code = "import os; [os.write(2, b'\\n' * 65536) for _ in range(8)]"
    lines: list[str] = []
    longest = rests = 0

    async def pause() -> None:
        nonlocal longest, rests
        longest = max(longest, len(lines))
        rests += 1
        lines.clear()

    process = await start_program([sys.executable, "-c", code], env=dict(os.environ), cwd=None)
    async with supervise(process, on_lines=lines.extend, pause=pause) as child:
        with anyio.fail_after(60):
            await child.exit_reason(within=20)

    assert rests >= 8 * 65536 // (5 * 16 * 1024)
    assert longest <= 5 * 16 * 1024


def test_memory_is_bounded_in_lines_and_in_one_line() -> None:
    errors = StderrBuffer()

    errors.add(b"x" * 1_000_000)
    errors.add(b"\n")
    cut = len(errors.tail)
    for _ in range(1000):
        errors.add(b"y" * 5000 + b"\n")

    assert cut == 8 * 1024
    assert sum(map(len, errors._lines)) <= 256 * 1024


async def run(code: str) -> tuple[str, str]:
    command = [sys.executable, "-I", "-S", "-c", code]
    process = await start_program(command, env=dict(os.environ), cwd=None)
    async with supervise(process) as child:
        with anyio.fail_after(60):
            return await child.exit_reason(within=20), child.stderr.tail


@rows(
    ("code", "reason"),
    [
        pytest.param("raise SystemExit(4)", "exited with status 4", id="status"),
        pytest.param("import os; os.kill(os.getpid(), 15)", "was ended by SIGTERM", id="signal"),
        pytest.param("import os; os.kill(os.getpid(), 40)", "was ended by signal 40", id="unnamed"),
    ],
)
async def test_how_a_program_ended_is_told_in_words(code: str, reason: str) -> None:
    assert (await run(code))[0] == reason


async def test_a_program_that_closed_its_output_and_runs_on_is_told_as_such() -> None:
    command = [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"]
    process = await start_program(command, env={}, cwd=None)

    async with supervise(process) as child:
        reason = await child.exit_reason(within=0.01)

    assert reason == "closed its output and still runs"
    assert not is_running(process.pid)


async def test_a_program_is_ended_when_its_task_is_cancelled() -> None:
    process = await start_program(["sleep", "600"], env=dict(os.environ), cwd=None)

    async def look_after() -> None:
        async with supervise(process):
            await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(look_after)
        await eventually(lambda: is_running(process.pid))
        tasks.cancel_scope.cancel()

    assert not is_running(process.pid)
