"""What a client sees of the gateway: start, search, calls, memory; beside peers and the floor.

    python benchmarks/headline.py [--peers FILE] [--calls 1000] [--only start,search,call,...]

All are driven by one raw client over stdio, interleaved in one run, and started as a client starts
them. CPU is that of the gateway's process alone, as the kernel counts it. With `--tools real` the
servers list the tools of `everyday`, and the searches are its requests. *direct* is the server
without a gateway, *raw* a gateway that only passes calls on (`raw_gateway.py`). A file of
peers is JSON:

    {"NAME": {"command": [...], "search": {"name": ..., "arguments": {"query": "$query"}},
              "call": {"name": ..., "arguments": {...}}, "environ": {...}}}

A peer must know the same servers (`raw_server.py sN TOOLS`) from its own configuration; `call`
calls the tool `echo` of `s0` with the text "hello". Absolute figures are those of one machine on
one day: compare within a run.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SERVER = [sys.executable, "-I", "-S", str(HERE / "raw_server.py")]
SERVERS = 10
WITHHELD = 7  # the exit code where a definition looks poisoned, as one of the real ones does
ROUNDS = 3
EVERYDAY = HERE / "everyday"
SEARCHES = 100
WORDS = ("baco difu", "create geha", "list kilo mune", "pora situ vebaco", "hakilo and difuge")
MADE_UP = [f"{WORDS[number % len(WORDS)]} {number}" for number in range(SEARCHES)]
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}


class Client:
    """A blocking client over the pipes of a program."""

    def __init__(self, command: list[str], environ: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=environ,
        )  # fmt: skip
        self._numbers = itertools.count(1)
        self._rest = b""

    def send(self, *requests: tuple[str, dict[str, Any]]) -> None:
        lines = [
            {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": params}
            for method, params in requests
        ]
        assert self.process.stdin
        self.process.stdin.write(b"".join(json.dumps(one).encode() + b"\n" for one in lines))
        self.process.stdin.flush()

    def receive(self, count: int = 1, within: float = 120.0) -> list[dict[str, Any]]:
        assert self.process.stdout
        found: list[dict[str, Any]] = []
        while len(found) < count:
            ready, _, _ = select.select([self.process.stdout], [], [], within)
            chunk = os.read(self.process.stdout.fileno(), 1 << 20) if ready else b""
            if not chunk:
                raise RuntimeError("no answer")
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            found += [one for one in map(json.loads, lines) if "id" in one and "method" not in one]
        return found

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.send((method, params))
        return self.receive()[0]

    def tool(self, call: dict[str, Any]) -> dict[str, Any]:
        answer = self.ask("tools/call", call)
        assert not answer.get("error"), answer
        assert not answer["result"].get("isError"), answer
        return answer

    def initialize(self) -> None:
        self.ask("initialize", INITIALIZE)
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert self.process.stdin
        self.process.stdin.write(json.dumps(note).encode() + b"\n")

    def cpu(self) -> float:
        """Milliseconds of CPU of all its threads, without its children."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(one.read_text("ascii").split()[0]) for one in tasks) / 1e6

    def memory(self) -> float:
        """Megabytes of resident memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text("ascii")
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Contestant:
    def __init__(self, name: str, spec: dict[str, Any]) -> None:
        self.name = name
        self.spec = spec

    @contextmanager
    def started(self) -> Iterator[Client]:
        client = Client(self.spec["command"], {**os.environ, **self.spec.get("environ", {})})
        try:
            yield client
        finally:
            client.close()

    @property
    def call(self) -> dict[str, Any] | None:
        return self.spec.get("call")

    def search(self, query: str) -> dict[str, Any] | None:
        text = json.dumps(self.spec.get("search"))
        found: dict[str, Any] | None = json.loads(text.replace("$query", json.dumps(query)[1:-1]))
        return found


def made_up(tools: int, servers: int = SERVERS) -> dict[str, str]:
    """What servers of so many tools list, as `raw_server.py` takes it."""
    return {f"s{i}": str(tools // servers) for i in range(servers)}


def real(folder: Path) -> dict[str, str]:
    """The files with the tools of real servers; the first of them is called `s0`."""
    definitions: dict[str, list[dict[str, Any]]] = {}
    with gzip.open(EVERYDAY / "catalog.jsonl.gz", "rt", encoding="utf-8") as lines:
        for definition in map(json.loads, lines):
            definitions.setdefault(definition.pop("server"), []).append(definition)
    folder.mkdir()
    for name, listed in definitions.items():
        (folder / f"{name}.json").write_text(json.dumps(listed), "utf-8")
    names = ["s0", *list(definitions)[1:]]
    return {name: str(folder / f"{key}.json") for name, key in zip(names, definitions, strict=True)}


def requests() -> list[str]:
    lines = (EVERYDAY / "development.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line)["query"] for line in lines[:SEARCHES]]


def ours(folder: Path, listed: dict[str, str]) -> Contestant:
    """Our gateway, with the catalog of these servers remembered."""
    entries = {
        name: {"command": SERVER[0], "args": [*SERVER[1:], name, tools]}
        for name, tools in listed.items()
    }
    folder.mkdir(exist_ok=True)
    config = folder / "discovery.yaml"
    config.write_text(json.dumps({"servers": entries}), "utf-8")
    environ = {
        "DISCOVERY_CONFIG": str(config),
        "DISCOVERY_DATA_DIR": str(folder),
    }
    discovery = [sys.executable, "-m", "discovery_cli"]
    command = [*discovery, "refresh"]
    done = subprocess.run(
        command, env={**os.environ, **environ}, check=False, stdout=subprocess.DEVNULL
    )
    assert done.returncode in (0, WITHHELD), done
    spec = {
        "command": [*discovery, "serve"],
        "environ": environ,
        "search": {"name": "search_tools", "arguments": {"query": "$query"}},
        "call": {
            "name": "execute_tool",
            "arguments": {"tool": "s0:echo", "arguments": {"text": "hello"}},
        },
    }
    gateway = Contestant("ours", spec)
    with gateway.started() as client:  # remembers its first answer for the next start
        client.initialize()
        settle(client)
    return gateway


def floor(listed: str) -> list[Contestant]:
    server = [*SERVER, "s0", listed]
    call = {"name": "echo", "arguments": {"text": "hello"}}
    outer = {
        "name": "execute_tool",
        "arguments": {"tool": "s0:echo", "arguments": {"text": "hello"}},
    }
    raw = [sys.executable, "-I", "-S", str(HERE / "raw_gateway.py"), *server]
    return [
        Contestant("direct", {"command": server, "call": call}),
        Contestant("raw", {"command": raw, "call": outer}),
    ]


def start(one: Contestant) -> dict[str, float]:
    """What comes first after a start, each in a process of its own, from the start on."""
    row = {}
    firsts = {"answer": None, "search": one.search("create a branch"), "call": one.call}
    for name, request in firsts.items():
        if name != "answer" and request is None:
            continue
        began = time.perf_counter()
        with one.started() as client:
            client.initialize()
            if request is not None:
                client.tool(request)
            row[f"to 1st {name}: CPU ms"] = client.cpu()
            row[f"to 1st {name}: ms"] = (time.perf_counter() - began) * 1000
    return row


def search(one: Contestant, queries: Sequence[str]) -> dict[str, float]:
    if one.search("x") is None:
        return {}
    with one.started() as client:
        client.initialize()
        client.tool(one.search(queries[0]))
        settle(client)
        before, times = client.cpu(), []
        for query in queries:
            began = time.perf_counter()
            client.tool(one.search(query))
            times.append((time.perf_counter() - began) * 1000)
        spent = (client.cpu() - before) / len(queries)
        return {
            "search CPU ms": spent,
            "search p50 ms": statistics.median(times),
            "search p99 ms": sorted(times)[int(len(times) * 0.99)],
            "MB": client.memory(),
        }


def call(one: Contestant, calls: int) -> dict[str, float]:
    if one.call is None:
        return {}
    with one.started() as client:
        client.initialize()
        for _ in range(50):
            client.tool(one.call)
        settle(client)
        times: list[float] = []
        before = client.cpu()
        for _ in range(calls):
            began = time.perf_counter()
            client.tool(one.call)
            times.append((time.perf_counter() - began) * 1000)
        serial = (client.cpu() - before) / calls * 1000
        before, began = client.cpu(), time.perf_counter()
        in_flight(client, one.call, calls * 2)
        took = time.perf_counter() - began
        return {
            "call p50 ms": statistics.median(times),
            "p99 ms": sorted(times)[int(len(times) * 0.99)],
            "call CPU us": serial,
            "CPU us @64": (client.cpu() - before) / (calls * 2) * 1000,
            "calls/s @64": calls * 2 / took,
        }


def in_flight(client: Client, tool: dict[str, Any], calls: int, most: int = 64) -> None:
    """So many calls, `most` of them in flight at a time."""
    client.send(*[("tools/call", tool)] * most)
    sent = done = most
    done = 0
    while done < calls:
        answers = client.receive()
        done += len(answers)
        more = min(len(answers), calls - sent)
        if more > 0:
            client.send(*[("tools/call", tool)] * more)
            sent += more


def settle(client: Client, within: float = 60.0) -> None:
    """Wait until it does nothing in the background."""
    ends = time.monotonic() + within
    before = client.cpu()
    while time.monotonic() < ends:
        time.sleep(0.5)
        now = client.cpu()
        if now - before < 3:
            return
        before = now


def awake(folder: Path) -> dict[str, float]:
    """The cost of a call while all servers are awake, as a multiple of that with one awake."""
    one = ours(folder, made_up(1000, servers=100))
    with one.started() as client:
        client.initialize()

        def cost() -> float:
            settle(client)
            before = client.cpu()
            for _ in range(500):
                client.tool(one.call)
            return client.cpu() - before

        client.tool(one.call)
        alone = cost()
        for number in range(100):
            arguments = {"tool": f"s{number}:echo", "arguments": {"text": "x"}}
            client.tool({"name": "execute_tool", "arguments": arguments})
        return {"100 awake / 1": cost() / alone}


def fill(folder: Path, listed: dict[str, str]) -> dict[str, float]:
    """What the first refresh costs, without its servers."""
    one = ours(folder, listed)
    environ = {**os.environ, **one.spec["environ"], "DISCOVERY_DATA_DIR": str(folder / "empty")}
    command = [sys.executable, "-m", "discovery_cli", "refresh"]
    began = time.perf_counter()
    with subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL) as process:
        clock = Path(f"/proc/{process.pid}/stat")
        spent = 0.0
        while process.poll() is None:
            fields = clock.read_text("ascii").rpartition(")")[2].split()
            spent = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            time.sleep(0.02)
    return {"fill CPU s": spent, "fill s": time.perf_counter() - began}


def medians(measure: Callable[[], dict[str, float]], rounds: int = ROUNDS) -> dict[str, float]:
    found = [measure() for _ in range(rounds)]
    return {key: statistics.median(one[key] for one in found) for key in found[0]}


def show(title: str, rows: dict[str, dict[str, float]]) -> None:
    columns = list(dict.fromkeys(key for row in rows.values() for key in row))
    print(f"\n{title}\n\n| | {' | '.join(columns)} |\n|---|{'--:|' * len(columns)}")
    for name, row in rows.items():
        cells = [f"{row[key]:,.3g}" if key in row else "" for key in columns]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peers", type=Path, help="a JSON file with the commands of peers")
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--tools", default="1000,10000,real", help="sizes of catalogs, or `real`")
    parser.add_argument("--only", default="start,search,call,fill,awake,start-50000")
    options = parser.parse_args()
    parts = options.only.split(",")
    specs = json.loads(options.peers.read_text("utf-8")) if options.peers else {}
    peers = [Contestant(name, spec) for name, spec in specs.items()]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for size in options.tools.split(","):
            is_real = size == "real"
            listed = real(folder / "lists") if is_real else made_up(int(size))
            queries = requests() if is_real else MADE_UP
            gateway = ours(folder / size, listed)
            contestants = [*floor(listed["s0"]), gateway, *peers]
            rows: dict[str, dict[str, float]] = {one.name: {} for one in contestants}
            for part, measure in (
                ("start", start),
                ("search", lambda one, queries=queries: search(one, queries)),
                ("call", lambda one: call(one, options.calls)),
            ):
                for one in contestants if part in parts else ():
                    rows[one.name] |= medians(lambda one=one, measure=measure: measure(one))
            if "fill" in parts:
                rows["ours"] |= fill(folder / f"fill {size}", listed)
            show(f"{size} tools over {len(listed)} servers", rows)
        rest: dict[str, float] = {}
        if "start-50000" in parts:
            large = ours(folder / "50000", made_up(50_000))
            row = medians(lambda: start(large))
            rest |= {f"{key}, 50,000": value for key, value in row.items()}
        if "awake" in parts:
            rest |= awake(folder / "awake")
        if rest:
            show("Growth", {"ours": rest})


if __name__ == "__main__":
    main()
