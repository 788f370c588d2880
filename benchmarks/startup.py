"""What it costs to start: CPU time of whole processes, as ratios within one run.

    python benchmarks/startup.py

The command line stands beside `import click`, the server beside importing the SDK's low-level
server. Each figure is the least of several child processes, user and system time together; the
catalog is known and every upstream asleep.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROUNDS = 9
FEW, MANY = 100, 10_000  # tools
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "benchmark", "version": "1"},
    },
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
# A server without dependencies, listing as many tools as it is told to in the older era.
UPSTREAM = """
import json, sys
from itertools import islice, product
verbs = [f"{verb}{how}" for verb in ("get", "list", "make", "drop", "find", "send", "read", "copy")
         for how in ("", "_all", "_one", "_new", "_old")]
things = [f"{thing}_{what}" for thing in
          ("file", "user", "order", "page", "mail", "note", "task", "team", "host", "disk", "card",
           "bank", "song", "film", "road", "tree", "shop", "ship", "cell", "gene", "star", "text",
           "font", "grid", "lamp")
          for what in ("item", "list", "box", "info", "state", "plan", "log", "key", "map", "set")]
tools = [
    {"name": f"{verb}_{thing}", "description": f"Thing number {n}: {verb} its {thing}.",
     "inputSchema": {"type": "object", "properties": {"size": {"type": "integer"}}}}
    for n, (thing, verb) in enumerate(islice(product(things, verbs), int(sys.argv[1])))
]
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] == "initialize":
        answer["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                            "serverInfo": {"name": "things", "version": "1"}}
    elif asked["method"] == "tools/list":
        answer["result"] = {"tools": tools}
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(answer), flush=True)
"""


@dataclass(frozen=True)
class Measured:
    name: str
    words: list[str]
    against: str
    limit: float
    """The ratio that is promised."""
    stdin: bytes = b""
    tools: int = FEW


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        worlds = {tools: prepared(Path(folder) / str(tools), tools) for tools in (FEW, MANY)}
        environ = worlds[FEW]
        python = [sys.executable, "-c"]
        discovery = [sys.executable, "-m", "discovery_cli"]
        talk = b"".join(json.dumps(m).encode() + b"\n" for m in (HELLO, INITIALIZED, LIST))
        floors = {
            "import click": cpu([*python, "import click"], environ),
            "import mcp.server.lowlevel": cpu([*python, "import mcp.server.lowlevel"], environ),
        }
        for name, seconds in floors.items():
            print(f"{name:<40} {seconds * 1000:6.0f} ms")
        click, sdk = floors
        for one in (
            Measured("discovery --help", [*discovery, "--help"], click, 3.0),
            Measured("discovery --version", [*discovery, "--version"], click, 3.0),
            *(
                Measured(
                    f"discovery {words[0]} --json, {tools:,} tools",
                    [*discovery, *words, "--json"],
                    click,
                    3.0,
                    tools=tools,
                )
                for tools in (FEW, MANY)
                for words in (["list"], ["search", "get file box"])
            ),
            Measured("discovery serve, first answers", [*discovery, "serve"], sdk, 1.2, talk),
        ):
            seconds = cpu(one.words, worlds[one.tools], one.stdin)
            ratio = seconds / floors[one.against]
            print(
                f"{one.name:<40} {seconds * 1000:6.0f} ms"
                f"  {ratio:5.2f} x {one.against} (at most {one.limit:g})"
            )


def prepared(folder: Path, tools: int) -> dict[str, str]:
    """An environment in which so many tools of one server are remembered."""
    folder.mkdir()
    upstream = folder / "upstream.py"
    upstream.write_text(UPSTREAM)
    config = folder / "discovery.yaml"
    entry = {"command": sys.executable, "args": [str(upstream), str(tools)]}
    config.write_text(json.dumps({"servers": {"things": entry}}))
    environ = os.environ | {"DISCOVERY_CONFIG": str(config), "DISCOVERY_DATA_DIR": str(folder)}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed is compiled once
    words = [sys.executable, "-m", "discovery_cli", "refresh"]
    subprocess.run(words, env=environ, check=True, capture_output=True)
    return environ


def cpu(words: list[str], environ: dict[str, str], stdin: bytes = b"") -> float:
    """The least CPU seconds that a process takes, with its children."""
    return min(_once(words, environ, stdin) for _ in range(ROUNDS))


def _once(words: list[str], environ: dict[str, str], stdin: bytes) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, input=stdin, env=environ, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
