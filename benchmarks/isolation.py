"""What sick servers cost the calls of healthy ones that share a gateway with them.

    python benchmarks/isolation.py [KIND...] [--rounds 8]

Eighteen healthy servers are called some 400 times in a second, in windows of a second that take
turns: alone, while two sick servers do their worst behind another gateway, and while they do it
behind this one. Sick servers, and whoever reads them, need the same cores as everybody else, so
that the second is the baseline of the third: as much is done by the machine, by others. Told are
medians over the windows, how often each p99 is that of the baseline, and of calm, and the part of
a core that the sick servers cost this gateway.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from msgspec.structs import replace

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.faulty_servers import Row, again_and_again, healthy, list_all, p99, sick  # noqa: E402
from discovery_engine.config.settings import (  # noqa: E402
    ServerSettings,
    StdioTransport,
    Timeouts,
)
from tests.engines import Folder  # noqa: E402
from tests.servers.programs import (  # noqa: E402
    TestedUpstreams,
    fault_server,
    http_server,
    remote_server,
    text_of,
    upstreams,
)

KINDS = {
    "huge": "huge",
    "garbage_flood": "huge",
    "notice_flood": "huge",
    "request_storm": "huge",
    "stderr_storm": "huge",
    "many_objects": "huge",
    "many_events": "echo",
    "event_storm": "echo",
    "comments": "echo",
    "tiny_chunks": "echo",
    "obeys": "crash",
    "hang_call": "hang",
}
"""Modes of the servers of the tests, and the tool that sets them off."""
OVER_HTTP = ("many_events", "event_storm", "comments", "tiny_chunks")
STDERR = ("stderr_once", "stderr_storm")
"""What servers write to stderr beside the calls of an engine: twenty long lines, or without end."""
GOAL = 1.1
ARMS = ("calm", "apart", "beside")


async def isolation(*, full: bool) -> AsyncIterator[Row]:
    for kind in (*STDERR, *KINDS):
        yield await measured(kind, rounds=20 if full else 6)


async def measured(kind: str, *, rounds: int) -> Row:
    if kind in STDERR:
        return await beside_stderr(kind, rounds=rounds)
    windows: dict[str, list[list[float]]] = {arm: [] for arm in ARMS}
    cpu = dict.fromkeys(ARMS, 0.0)
    with ill(kind) as patients:
        async with elsewhere(kind) as there, upstreams() as opened:
            well = healthy(18)
            await list_all(opened, [*well, *patients])
            for number in range(rounds * len(ARMS)):
                # each arm comes first, second and third as often as the others
                arm = ARMS[(number + number // len(ARMS)) % len(ARMS)]
                scopes = {"apart": there.fit(), "beside": fit(opened, kind, patients)}
                async with scopes.get(arm, nullcontext()):
                    await anyio.sleep(0.2)
                    before = time.process_time()
                    windows[arm].append(await latencies(opened, well, seconds=1))
                    cpu[arm] += (time.process_time() - before) / rounds
                await anyio.sleep(0.2)
    return row(kind, windows, cpu["beside"] - cpu["calm"])


async def beside_stderr(kind: str, *, rounds: int) -> Row:
    """Calls through an engine whose other servers wrote to stderr, and through one without them.

    Both are in this process, so that both pay for reading what is written.
    """
    script = 'head -c 160000 /dev/zero | tr \'\\0\' x | fold -w 8000 >&2; exec "$0" "$@"'
    others = [
        sick("stderr_storm", number)
        if kind == "stderr_storm"
        else wrapped(fault_server(name=f"verbose{number}"), script)
        for number in range(3)
    ]
    well = fault_server(name="healthy")
    took: dict[str, list[float]] = {"apart": [], "beside": []}
    with tempfile.TemporaryDirectory() as folder:
        for arm, servers in (("apart", [well]), ("beside", [well, *others])):
            Path(folder, arm).mkdir()  # noqa: ASYNC240 - nothing else is under way
            Folder(Path(folder, arm)).write(*servers)
        async with (
            Folder(Path(folder, "apart")).open() as apart,
            Folder(Path(folder, "beside")).open() as beside,
            anyio.create_task_group() as tasks,
        ):
            engines = {"apart": apart, "beside": beside}
            for engine in engines.values():
                await engine.refresh()
            for server in others if kind == "stderr_storm" else []:
                ask = partial(beside.execute, server.name, "echo", {"text": "x"})
                tasks.start_soon(again_and_again, ask)
            for number in range(100 * rounds):
                for arm in sorted(engines, reverse=bool(number % 2)):
                    engine = engines[arm]
                    began = time.perf_counter()
                    await engine.execute("healthy", "echo", {"text": "x"})
                    took[arm].append((time.perf_counter() - began) * 1000)
            tasks.cancel_scope.cancel()
    base, value = (statistics.median(took[arm]) for arm in ("apart", "beside"))
    return Row(
        f"p50 of a call through an engine beside 3 servers of {kind!r} (n={100 * rounds})",
        f"<= {GOAL:.2f}x",
        f"{value:.2f} ms ({value / base:.2f}x)",
        f"{base:.2f} ms",
        is_met=value / base <= GOAL,
    )


def wrapped(server: ServerSettings, script: str) -> ServerSettings:
    """The same server, started by a shell script that is given its command."""
    transport = server.transport
    assert isinstance(transport, StdioTransport)
    args = ("-c", script, transport.command, *transport.args)
    return replace(server, transport=StdioTransport("/bin/sh", args))


def row(kind: str, windows: dict[str, list[list[float]]], cpu: float) -> Row:
    calm, apart, beside = (statistics.median(map(p99, windows[arm])) for arm in ARMS)
    count = sum(map(len, windows["beside"]))
    return Row(
        f"p99 of 18 healthy servers beside 2 of {kind!r} (n={count})",
        f"<= {GOAL:.2f}x",
        f"{beside:.1f} ms ({beside / apart:.2f}x, {beside / calm:.2f}x of calm; {cpu:.0%} CPU)",
        f"{apart:.1f} ms (calm: {calm:.1f} ms)",
        is_met=beside / apart <= GOAL,
    )


@asynccontextmanager
async def fit(
    opened: TestedUpstreams, kind: str, patients: list[ServerSettings]
) -> AsyncIterator[None]:
    """The time in which the sick servers are called, one call after the other to each."""
    async with anyio.create_task_group() as tasks:
        for server in patients:
            tasks.start_soon(again_and_again, lambda s=server: opened.call(s, KINDS[kind], {}))
        yield
        tasks.cancel_scope.cancel()


async def latencies(
    opened: TestedUpstreams, servers: list[ServerSettings], *, seconds: float
) -> list[float]:
    """Milliseconds of calls, some 400 in a second over all servers."""
    took: list[float] = []

    async def work(server: ServerSettings) -> None:
        for nonce in itertools.count():
            began = time.perf_counter()
            answer = text_of(await opened.call(server, "echo", {"nonce": nonce}))
            took.append((time.perf_counter() - began) * 1000)
            assert json.loads(answer) == {"nonce": nonce}
            await anyio.sleep(len(servers) / 400)

    with anyio.move_on_after(seconds):
        async with anyio.create_task_group() as tasks:
            for server in servers:
                tasks.start_soon(work, server)
    return took


@contextmanager
def ill(kind: str) -> Iterator[list[ServerSettings]]:
    """Two sick servers of a kind."""
    timeouts = Timeouts(call=2)
    if kind not in OVER_HTTP:
        yield [sick(kind, number, timeouts=timeouts) for number in range(2)]
        return
    with ExitStack() as running:
        urls = [
            running.enter_context(http_server(kind, program="wire_http_server.py"))
            for _ in range(2)
        ]
        yield [
            remote_server(url, name=f"{kind}{number}", kind="http", timeouts=timeouts)
            for number, url in enumerate(urls)
        ]


# --- another gateway, with sick servers of its own -----------------------------------------------


class Elsewhere:
    def __init__(self, process: Process) -> None:
        assert process.stdin
        assert process.stdout
        self._stdin = process.stdin
        self._told = BufferedByteReceiveStream(process.stdout)

    async def say(self, word: bytes) -> None:
        await self._stdin.send(word + b"\n")
        await self.heard()

    async def heard(self) -> None:
        await self._told.receive_until(b"\n", 100)

    @asynccontextmanager
    async def fit(self) -> AsyncIterator[None]:
        await self.say(b"begin")
        yield
        await self.say(b"end")


@asynccontextmanager
async def elsewhere(kind: str) -> AsyncIterator[Elsewhere]:
    command = [sys.executable, __file__, "--apart", kind]
    async with await anyio.open_process(command, stderr=None) as process:
        there = Elsewhere(process)
        await there.heard()
        yield there
        await process.stdin.aclose()  # type: ignore[union-attr] # started with a pipe
        await process.wait()


async def apart(kind: str) -> None:
    """What the other gateway does: `begin` and `end` are read, and answered when it is so."""
    lines = anyio.wrap_file(sys.stdin)
    with ill(kind) as patients:
        async with upstreams() as opened:
            await list_all(opened, patients)
            print("ready", flush=True)
            while await lines.readline():
                async with fit(opened, kind, patients):
                    print("begun", flush=True)
                    await lines.readline()
                print("ended", flush=True)


async def run(kinds: list[str], rounds: int) -> None:
    print("| what | apart | beside | goal | met |\n|---|--:|--:|--:|---|")
    for kind in kinds or (*STDERR, *KINDS):
        (await measured(kind, rounds=rounds)).print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", choices=[*STDERR, *KINDS, []])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--apart", choices=list(KINDS), help=argparse.SUPPRESS)
    options: Any = parser.parse_args()
    logging.disable()  # what sick servers do is told at length
    if options.apart:
        anyio.run(apart, options.apart)
    else:
        anyio.run(run, options.kinds, options.rounds)


if __name__ == "__main__":
    main()
