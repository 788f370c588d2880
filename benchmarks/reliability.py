"""What servers that misbehave cost those that do not, and what gets past guards.

    python benchmarks/reliability.py [ROW...] [--full] [--seed 1]

Each row is printed with its goal and with what the same run measured without the trouble. A busy
machine moves both. `--full` takes the numbers of kills and crashes that the goals speak of.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from mcp_types import ListToolsResult
from pydantic import ValidationError

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.faulty_servers import WIRE, Clock, Row, healthy, list_all, sick  # noqa: E402
from benchmarks.http_access import access  # noqa: E402
from benchmarks.isolation import isolation  # noqa: E402
from benchmarks.safety import (  # noqa: E402
    exchanged_content,
    first_start,
    forged_lines,
    leaks,
    lost_decisions,
)
from benchmarks.soak import soak  # noqa: E402
from discovery_engine.config.settings import ServerSettings  # noqa: E402
from discovery_engine.errors import OutcomeUnknownError, UpstreamError  # noqa: E402
from discovery_engine.upstream.history import Policy  # noqa: E402
from tests.servers.programs import (  # noqa: E402
    TestedUpstreams,
    descendants,
    fault_server,
    is_running,
    text_of,
    upstreams,
)

# --- starting and stopping --------------------------------------------------------------------


async def first_list(*, full: bool) -> AsyncIterator[Row]:
    arms: dict[str, list[tuple[float, float]]] = {"all": [], "dead": []}
    for _ in range(3 if full else 1):
        for arm, last in (("all", fault_server(name="last")), ("dead", sick("hang_start"))):
            async with upstreams(max_connecting=8) as opened:
                took = await list_until(opened, [last, *healthy(99)], count=99)
                arms[arm].append((took[0], took[98]))
    for position, what in ((0, "first answer"), (1, "99 answers")):
        base, dead = (statistics.median(t[position] for t in arms[a]) for a in ("all", "dead"))
        yield Row(
            f"{what} of 100 servers that start together, one of them dead",
            "<= 1.10x",
            f"{dead:.2f} s ({dead / base:.2f}x)",
            f"{base:.2f} s",
            is_met=dead / base <= 1.1,
        )


async def list_until(
    opened: TestedUpstreams, servers: list[ServerSettings], *, count: int
) -> list[float]:
    began, took = time.perf_counter(), []

    async def ask(server: ServerSettings) -> None:
        await opened.list_tools(server)
        took.append(time.perf_counter() - began)
        if len(took) >= count:
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for server in servers:
            tasks.start_soon(ask, server)
    return took


async def stopping(*, full: bool) -> AsyncIterator[Row]:  # noqa: ARG001 - as the others
    for stubborn in (0, 10):
        servers = healthy(100 - stubborn) + [sick("stubborn", n) for n in range(stubborn)]
        before = descendants()
        async with upstreams() as opened:
            await list_all(opened, servers)
            started = descendants() - before
            began = time.perf_counter()
        took = time.perf_counter() - began
        left = sum(map(is_running, started))
        yield Row(
            f"stopping 100 servers, {stubborn} of them stubborn; left over",
            "<= 5 s; 0",
            f"{took:.1f} s; {left} of {len(started)}",
            is_met=took <= 5 and not left,
        )


async def kills(*, full: bool) -> AsyncIterator[Row]:
    rounds, started, alive = (200 if full else 5), 0, 0
    for _ in range(rounds):
        with gateway() as process:
            mine = descendants(process.pid)
            process.kill()
            await anyio.sleep(2)
            started += len(mine)
            alive += sum(map(is_running, mine))
    yield Row(
        f"programs alive 2 s after {rounds} SIGKILLs of the gateway",
        "0",
        f"{alive} of {started}",
        is_met=not alive,
    )


DEAF = "trap '' TERM HUP INT PIPE; while :; do sleep 600; done"
FORKED = f"""
import os
if not os.fork():
    os.setsid()
    os.fork() and os._exit(0)
os.execv("/bin/sh", ["sh", "-c", {DEAF!r}])
"""
LEAVERS = [
    ["sh", "-c", DEAF],
    ["sh", "-c", f"({DEAF}) & {DEAF}"],
    [sys.executable, "-I", "-S", "-c", FORKED],
]
"""Programs that ignore what they can; one has a child, one leaves a child in another session."""


async def startup_kills(*, full: bool, count: int = 0) -> AsyncIterator[Row]:
    """Gateways killed while they start their first servers, at a random moment."""
    count = count or (1000 if full else 40)
    numbers = iter(range(count))
    left: list[int] = []
    seen = 0

    async def kill_some(forked: Callable[[list[list[str]]], int]) -> None:
        nonlocal seen
        for number in numbers:
            mark = f"KILL_MARK={os.getpid()}-{number}"
            pid = forked([["env", mark, *command] for command in LEAVERS])
            while not descendants(pid) and is_running(pid):  # noqa: ASYNC110
                await anyio.sleep(0.005)
            await anyio.sleep(random.uniform(0, 0.5))
            seen += len(marked(mark))
            os.kill(pid, signal.SIGKILL)
            await anyio.sleep(2)
            left.extend(alive := marked(mark))
            for one in alive:
                os.kill(one, signal.SIGKILL)

    with forking_gateway() as forked:
        async with anyio.create_task_group() as tasks:
            for _ in range(8):  # most of a round is waiting
                tasks.start_soon(kill_some, forked)
    yield Row(
        f"programs alive 2 s after {count} SIGKILLs within 500 ms of a gateway's first start",
        "0",
        f"{len(left)}; {seen} were seen at the kills",
        is_met=not left,
    )


@contextmanager
def forking_gateway() -> Iterator[Callable[[list[list[str]]], int]]:
    """Starts a gateway with servers of these commands, and returns its number."""
    command = [sys.executable, "-m", "tests.servers.gateway", "--forks"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, **pipes) as process:

        def forked(commands: list[list[str]]) -> int:
            process.stdin.write(json.dumps(commands) + "\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        yield forked
        process.kill()


def marked(mark: str) -> list[int]:
    """The processes that run with a variable in their environment, or are about to."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "environ").read_bytes() + (folder / "cmdline").read_bytes()
            if f"{mark}\0".encode() in words and is_running(int(folder.name)):
                found.append(int(folder.name))
    return found


@contextmanager
def gateway() -> Iterator[subprocess.Popen[bytes]]:
    plain, stubborn = fault_server().transport, sick("stubborn").transport
    commands = [[t.command, *t.args] for t in (plain, stubborn) if t]
    commands.append(["sh", "-c", '"$@"; true', "sh", *commands[1]])
    arguments = [json.dumps(command) for command in commands]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.servers.gateway", *arguments],
        stdout=subprocess.PIPE,
        cwd=ROOT,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


# --- large results ----------------------------------------------------------------------------


async def large_results(*, full: bool) -> AsyncIterator[Row]:  # noqa: ARG001 - as the others
    server = fault_server("large", program=WIRE)
    async with upstreams() as opened:
        await opened.list_tools(server)
        async with stalls() as calm:
            await anyio.sleep(2)
        before = peak()
        async with stalls() as busy:
            for _ in range(10):
                with suppress(UpstreamError):
                    await opened.call(server, "echo", {})
        extra = (peak() - before) / 1024
    worst = max(busy) * 1000
    yield Row(
        "ten results of 50 MB: extra memory",
        "<= 64 MiB",
        f"{extra:.0f} MiB",
        is_met=extra <= 64,
    )
    yield Row(
        "ten results of 50 MB: longest stall of the loop",
        "<= 50 ms",
        f"{worst:.0f} ms",
        f"{max(calm) * 1000:.0f} ms",
        is_met=worst <= 50,
    )


@asynccontextmanager
async def stalls() -> AsyncIterator[list[float]]:
    """How late a task woke that sleeps for a millisecond at a time, in seconds."""
    found: list[float] = [0.0]

    async def watch() -> None:
        while True:
            began = time.perf_counter()
            await anyio.sleep(0.001)
            found.append(time.perf_counter() - began - 0.001)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        yield found
        tasks.cancel_scope.cancel()


def peak() -> int:
    """The most memory this process has ever held, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


# --- crashes under load -----------------------------------------------------------------------


async def crashes(*, full: bool) -> AsyncIterator[Row]:
    wanted = 500 if full else 50
    with tempfile.TemporaryDirectory() as folder:
        effects = Path(folder) / "effects"
        env = {"EFFECTS": str(effects)}
        dying = [sick("obeys", number, env=env) for number in range(10)]
        well = healthy(10)
        sent: list[int] = []
        told = collections.Counter[str]()
        async with upstreams(policy=Policy(clock=Clock())) as opened:
            await list_all(opened, [*well, *dying])
            async with anyio.create_task_group() as tasks:
                for server in well:
                    tasks.start_soon(echo_on, opened, server, told)
                nonces = iter(range(wanted))
                async with anyio.create_task_group() as crashing:
                    for server in dying:
                        crashing.start_soon(crash_on, opened, server, nonces, sent, told)
                tasks.cancel_scope.cancel()
        seen = collections.Counter(json.loads(line)["nonce"] for line in effects.open("rb"))
    doubled = sum(count > 1 for count in seen.values())
    bad = (told["failed"], told["wrong"], doubled)
    yield Row(
        f"{told['died']} crashes under load ({told['right']} calls beside them): "
        "failed calls on healthy servers; wrong answers; doubled effects",
        "0; 0; 0",
        "; ".join(map(str, bad)),
        is_met=not any(bad) and len(seen) == len(sent),
    )


async def echo_on(
    opened: TestedUpstreams, server: ServerSettings, told: collections.Counter[str]
) -> None:
    for nonce in itertools.count():
        try:
            answer = text_of(await opened.call(server, "echo", {"nonce": nonce}))
            told["right" if json.loads(answer) == {"nonce": nonce} else "wrong"] += 1
        except UpstreamError:
            told["failed"] += 1
        await anyio.sleep(0.01 * random.random())


async def crash_on(
    opened: TestedUpstreams,
    server: ServerSettings,
    nonces: Iterator[int],
    sent: list[int],
    told: collections.Counter[str],
) -> None:
    for nonce in nonces:
        sent.append(nonce)
        try:
            await opened.call(server, "crash", {"nonce": nonce})
        except OutcomeUnknownError:
            told["died"] += 1


# --- lists with malformed tools -----------------------------------------------------------------


async def kept_tools(*, full: bool) -> AsyncIterator[Row]:
    counts = collections.Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        async with upstreams() as opened:
            for number in range(100 if full else 20):
                pages, good = random_list(number)
                path = Path(folder) / f"{number}.json"
                path.write_text(json.dumps(pages), "utf-8")
                server = sick("lists_file", number, env={"TOOLS": str(path)})
                listing = await opened.list_tools(server)
                counts["kept"] += len(good & {tool["name"] for tool in listing.tools})
                counts["good"] += len(good)
                counts["malformed"] += len(listing.dropped)
                counts["typed"] += len(good) * is_valid(pages)
                await opened.close(server.name)
    yield Row(
        f"good tools kept beside {counts['malformed']} malformed ones and pages that fail",
        "100 %",
        f"{counts['kept']} of {counts['good']}",
        f"{counts['typed']} with the SDK's typed lists",
        is_met=counts["kept"] == counts["good"],
    )


def random_list(number: int) -> tuple[list[list[Any] | None], set[str]]:
    """Pages of tools, and the names of those that must be kept; None is a page that fails."""
    names = {f"tool-{number}-{n}" for n in range(random.randrange(1, 300))}
    good = [{"name": name, "inputSchema": {"type": "object"}, "x": [name]} for name in names]
    bad = [random.choice(MALFORMED) for _ in range(random.randrange(1, 300))]
    mixed = [*good, *bad]
    random.shuffle(mixed)
    size = random.randrange(20, 200)
    pages = [mixed[start : start + size] for start in range(0, len(mixed), size)]
    return [*pages, *random.choice([[], [None]])], names


MALFORMED: list[Any] = [
    {"name": "no-schema"},
    {"name": "text", "inputSchema": "object"},
    {"name": "array", "inputSchema": {"type": "array"}},
    {"name": "properties", "inputSchema": {"type": "object", "properties": []}},
    {"name": "", "inputSchema": {"type": "object"}},
    {"name": 17, "inputSchema": {"type": "object"}},
    {"name": "description", "description": ["text"], "inputSchema": {"type": "object"}},
    {"name": "big", "description": "x" * 70_000, "inputSchema": {"type": "object"}},
    {"inputSchema": {"type": "object"}},
    "tool",
    None,
    [],
]


def is_valid(pages: list[list[Any] | None]) -> bool:
    """Whether the SDK's own model takes the list; it takes all or nothing."""
    try:
        for page in pages:
            ListToolsResult.model_validate({"tools": page})
    except ValidationError:
        return False
    return True


ROWS: dict[str, Callable[..., AsyncIterator[Row]]] = {
    "isolation": isolation,
    "first_list": first_list,
    "stopping": stopping,
    "kills": kills,
    "startup_kills": startup_kills,
    "large_results": large_results,
    "crashes": crashes,
    "kept_tools": kept_tools,
    "soak": soak,
    "leaks": leaks,
    "forged_lines": forged_lines,
    "access": access,
    "exchanged_content": exchanged_content,
    "lost_decisions": lost_decisions,
    "first_start": first_start,
}


async def run(rows: list[str], *, full: bool) -> None:
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    print("| what | without | with | goal | met |\n|---|--:|--:|--:|---|")
    for name in rows or ROWS:
        async for row in ROWS[name](full=full):
            row.print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", choices=[*ROWS, []])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, help="of `startup_kills`, whatever --full says")
    options = parser.parse_args()
    if options.kills:
        ROWS["startup_kills"] = partial(startup_kills, count=options.kills)
    random.seed(options.seed)
    anyio.run(lambda: run(options.rows, full=options.full))


if __name__ == "__main__":
    main()
