"""What one client's hostile input, or one tool's hostile schema, costs the calls of another client.

    python benchmarks/hostile_input.py [KIND...] [--rounds 6] [--pause 0.1]

A neighbour calls a tool through `serve --http` without pause, in windows of a second that take
turns: alone; while a second client sends, ten times a second, as many bytes that mean nothing (a
text for a tool that is called with it); and while that client sends what is hostile. Told are p99
and the longest call of each, and how often the third p99 is the first: the goal is 1.5 times. The
second shows how much of that is the price of reading so many bytes at all.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.faulty_servers import p99  # noqa: E402
from benchmarks.http_limits import KeptConnection  # noqa: E402
from tests.e2e.serving import Home, listening_at  # noqa: E402
from tests.factories import (  # noqa: E402
    chain,
    expression,
    make_definition,
    tree,
)
from tests.told import Told  # noqa: E402

GOAL = 1.5
WINDOW = 1.0  # seconds


def called(meta_tool: str, **arguments: Any) -> bytes:
    params = {"name": meta_tool, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return json.dumps(message, ensure_ascii=False).encode()


def executed(tool: str, **arguments: Any) -> bytes:
    return called("execute_tool", server="told", tool=tool, arguments=arguments)


TOOLS = [
    make_definition("plain", "Does plain things."),
    make_definition("chain", inputSchema=chain("allOf", links=27)),
    make_definition("choices", inputSchema=chain("oneOf", links=22)),
    make_definition("tree", inputSchema=tree("add", "subtract", "multiply", "divide")),
    make_definition(
        "texts",
        inputSchema={"type": "object", "properties": {"x": {"items": {"type": "string"}}}},
    ),
    make_definition("closed", inputSchema={"type": "object", "additionalProperties": False}),
]
NEIGHBOUR = executed("plain")
KINDS = {
    "schema: a chain of 27, valid": executed("chain", n="text"),
    "schema: a chain of 27, wrong": executed("chain", n=5),
    "schema: choices of 22": executed("choices", n=5),
    "schema: a tree of 20 levels, wrong": executed("tree", **expression("x", levels=20)),
    "schema: a tree of 100 levels, wrong": executed("tree", **expression("x", levels=100)),
    "schema: 20,000 elements, the last wrong": executed("texts", x=[*["x"] * 20_000, 1]),
    "schema: 100,000 wrong elements": executed("texts", x=[1] * 100_000),
    "input: a query of 8 kB": called("search_tools", query="create an issue in a file " * 310),
    "input: a query of 50,000 words": called("search_tools", query="word " * 50_000),
    "input: a query of 260,000 words": called("search_tools", query="word " * 260_000),
    "input: one word of 1 MB": called("search_tools", query="x" * 1_000_000),
    "input: Chinese of 900 kB": called("search_tools", query="\u641c\u7d22" * 150_000),
    "input: the name of a tool of 1 MB": called("get_tool_details", tool="x" * 1_000_000),
    "input: 100,000 unknown arguments": executed("closed", **{f"k{n}": n for n in range(100_000)}),
    "input: 40,000 arguments, one level deeper": executed(
        "plain", x={f"k{n}": n for n in range(40_000)}
    ),
    "input: 2,000,000 nested arrays": executed(
        "plain", x=[json.loads("[" * 150 + "]" * 150)] * 13_700
    ),
    "input: 4 MB for a query": called("search_tools", query="word " * 830_000),
}


@contextmanager
def gateway() -> Iterator[tuple[int, dict[str, str]]]:
    with tempfile.TemporaryDirectory() as folder:
        command, *args = Told.beside(Path(folder), *TOOLS).command
        home = Home(Path(folder))
        home.write({"told": {"command": command, "args": args}})
        with home.process("--http", "127.0.0.1:0") as process:
            port = int(listening_at(process).partition("127.0.0.1:")[2].partition("/")[0])
            yield port, home.authorization
            process.send_signal(signal.SIGTERM)
            process.wait(30)


@contextmanager
def sending(client: KeptConnection, message: bytes, pause: float) -> Iterator[None]:
    """Send one message again and again, until the block ends and the last is answered."""
    is_over = threading.Event()

    def send() -> None:
        while not is_over.wait(pause):
            client.post(message)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        is_over.set()
        sender.join()


def latencies(client: KeptConnection) -> list[float]:
    """Milliseconds of calls, one after the other, for a window."""
    taken, ends = [], time.perf_counter() + WINDOW
    while time.perf_counter() < ends:
        began = time.perf_counter()
        client.post(NEIGHBOUR)
        taken.append((time.perf_counter() - began) * 1000)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", help="words of their names; all if none is given")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--pause", type=float, default=0.1, help="seconds between two messages")
    options = parser.parse_args()
    print("p99 and longest call of the neighbour in ms;             as many   hostile      times")
    print(
        f"goal: {GOAL} times calm                         kB      calm     bytes   or long   calm"
    )
    with gateway() as (port, headers):
        good = KeptConnection(port, headers).open()
        bad = KeptConnection(port, headers).open()
        good.post(NEIGHBOUR)
        for kind, message in KINDS.items():
            if not options.kinds or any(word in kind for word in options.kinds):
                measure(kind, message, good, bad, options.rounds, options.pause)


def measure(
    kind: str,
    message: bytes,
    good: KeptConnection,
    bad: KeptConnection,
    rounds: int,
    pause: float,
) -> None:
    as_many = executed("plain", text="x" * len(message))
    calm: list[list[float]] = []
    bytes_alone: list[list[float]] = []
    hostile: list[list[float]] = []
    bad.post(message)  # what is made once for each tool
    for _ in range(rounds):
        calm.append(latencies(good))
        with sending(bad, as_many, pause):
            bytes_alone.append(latencies(good))
        with sending(bad, message, pause):
            hostile.append(latencies(good))
    figures = [
        f"{statistics.median(map(p99, windows)):4.0f}{max(map(max, windows)):5.0f}"
        for windows in (calm, bytes_alone, hostile)
    ]
    ratio = statistics.median(
        p99(one) / p99(other) for one, other in zip(hostile, calm, strict=True)
    )
    print(f"{kind:41}{len(message) / 1000:6,.0f} {' '.join(figures)} {ratio:6.1f}", flush=True)


if __name__ == "__main__":
    main()
