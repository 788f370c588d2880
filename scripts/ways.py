"""Count the files of the product that a search and a call pass through, in `discovery serve`.

`python scripts/ways.py` prints them. `python scripts/ways.py serve FOLDER` is the server that is
counted: SIGUSR1 writes the files that ran since the last signal to FOLDER.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SERVERS = ROOT / ".tools" / "servers"
PROGRAMS = {
    "time": SERVERS / "time" / "bin" / "mcp-server-time",
    "git": SERVERS / "git" / "bin" / "mcp-server-git",
}
QUERIES = (
    "create a branch",
    "show the commits of a file",
    "convert 12:00 from Berlin to Tokyo",
    "add files to the index",
)
CALL = {
    "server": "time",
    "tool": "convert_time",
    "arguments": {
        "source_timezone": "Europe/Berlin",
        "time": "12:00",
        "target_timezone": "Asia/Tokyo",
    },
}


def ways() -> dict[str, list[str]]:
    """The files on each way, once everything is warm; needs `make servers`.

    A file is on the way of a search if most searches pass it, of a call if every call does: what
    runs beside them, such as watching files and writing to the registry, is not counted.
    """
    with tempfile.TemporaryDirectory() as name, _gateway(Path(name)) as gateway:
        searches = [{"query": query} for query in QUERIES]
        gateway.files_of("search_tools", searches[0])
        gateway.files_of("execute_tool", CALL)
        searched = [gateway.files_of("search_tools", search) for search in searches]
        called = [gateway.files_of("execute_tool", CALL) for _ in searches]
    return {
        "files-of-a-search": _in_at_least(len(searches) - 1, searched),
        "files-of-a-call": _in_at_least(len(called), called),
    }


def _in_at_least(number: int, traces: list[list[str]]) -> list[str]:
    counts = Counter(file for trace in traces for file in trace)
    return sorted(file for file, count in counts.items() if count >= number)


class _Gateway:
    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process, self._folder, self._requests, self._traces = process, folder, 0, 0

    def send(self, method: str, params: dict[str, Any], **members: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params, **members}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._requests += 1
        self.send(method, params, id=self._requests)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            if message.get("id") == self._requests:
                return dict(message["result"])
        raise RuntimeError("the gateway has ended")

    def files_of(self, tool: str, arguments: dict[str, Any]) -> list[str]:
        result = self.answer("tools/call", {"name": tool, "arguments": arguments})
        assert not result.get("isError"), result
        self._process.send_signal(signal.SIGUSR1)
        trace = self._folder / f"{self._traces}.json"
        self._traces += 1
        while not trace.exists():
            time.sleep(0.05)
        return list(json.loads(trace.read_text("utf-8")))


@contextmanager
def _gateway(folder: Path) -> Iterator[_Gateway]:
    config = folder / "discovery.yaml"
    servers = {name: {"command": str(path)} for name, path in PROGRAMS.items()}
    config.write_text(json.dumps({"servers": servers}), "utf-8")
    command = [sys.executable, __file__, "serve", str(folder), "--config", str(config), "serve"]
    environment = os.environ | {"DISCOVERY_DATA_DIR": str(folder / "data")}
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    ) as process:
        gateway = _Gateway(process, folder)
        client = {"name": "ways", "version": "1"}
        handshake = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        gateway.answer("initialize", handshake)
        gateway.send("notifications/initialized", {})
        yield gateway
        process.terminate()


def _serve(folder: Path, arguments: list[str]) -> None:
    from discovery_cli.main import main  # noqa: PLC0415 - before this nothing is counted

    files: set[str] = set()
    traces = itertools.count()

    def profile(frame: FrameType, _event: str, _argument: object) -> None:
        files.add(frame.f_code.co_filename)

    def write(_signal: int, _frame: FrameType | None) -> None:
        ours = [
            str(Path(file).relative_to(ROOT))
            for file in sorted(files.copy())
            if file.startswith(f"{ROOT}{os.sep}discovery_")
        ]
        files.clear()
        part = folder / "part"
        part.write_text(json.dumps(ours), "utf-8")
        part.rename(folder / f"{next(traces)}.json")

    signal.signal(signal.SIGUSR1, write)
    threading.setprofile(profile)
    sys.setprofile(profile)
    sys.argv = ["discovery", *arguments]
    main()


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        _serve(Path(sys.argv[2]), sys.argv[3:])
    else:
        for way, way_files in ways().items():
            print(way, len(way_files), *way_files, sep="\n  ")
