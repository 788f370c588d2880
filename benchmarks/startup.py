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
TOOLS = 100
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
# A server without dependencies, listing TOOLS tools in the older era.
UPSTREAM = """
import json, sys
tools = [
    {"name": f"make_thing_{n}", "description": f"Make thing number {n} out of nothing.",
     "inputSchema": {"type": "object", "properties": {"size": {"type": "integer"}}}}
    for n in range(TOOLS)
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


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        environ = prepared(Path(folder))
        python = [sys.executable, "-c"]
        discovery = [sys.executable, "-m", "discovery_cli"]
        talk = b"".join(json.dumps(m).encode() + b"\n" for m in (HELLO, INITIALIZED, LIST))
        floors = {
            "import click": cpu([*python, "import click"], environ),
            "import mcp.server.lowlevel": cpu([*python, "import mcp.server.lowlevel"], environ),
        }
        for name, seconds in floors.items():
            print(f"{name:<36} {seconds * 1000:6.0f} ms")
        click, sdk = floors
        for one in (
            Measured("discovery --help", [*discovery, "--help"], click, 3.0),
            Measured("discovery version", [*discovery, "version"], click, 3.0),
            Measured("discovery list --json", [*discovery, "list", "--json"], click, 3.0),
            Measured(
                "discovery search --json", [*discovery, "search", "thing", "--json"], click, 3.0
            ),
            Measured("discovery serve, first answers", [*discovery, "serve"], sdk, 1.2, talk),
        ):
            seconds = cpu(one.words, environ, one.stdin)
            ratio = seconds / floors[one.against]
            print(
                f"{one.name:<36} {seconds * 1000:6.0f} ms"
                f"  {ratio:5.2f} x {one.against} (at most {one.limit:g})"
            )


def prepared(folder: Path) -> dict[str, str]:
    """An environment in which one server's tools are remembered."""
    upstream = folder / "upstream.py"
    upstream.write_text(UPSTREAM.replace("TOOLS", str(TOOLS)))
    config = folder / "discovery.yaml"
    entry = {"command": sys.executable, "args": [str(upstream)]}
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
