"""The command `discovery` in a process of its own, with a small server behind it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.forked import Finished, Preloaded

# One tool of each kind, spoken to in the older era; standard library only, so that it starts fast.
UPSTREAM = r"""
import json, os, pathlib, sys
pathlib.Path(os.environ["STARTS"]).open("a").write("started\n")
TEXT = {"type": "string"}
tools = [
    {"name": "echo", "description": "Say it again.\nIn \x1b]0;evil\x07full\u202e.",
     "annotations": {"readOnlyHint": True},
     "inputSchema": {"type": "object", "required": ["text"], "properties": {
         "text": {**TEXT, "description": "What to say"}, "times": {"type": "integer"},
         "loud": {"type": "boolean"}, "tags": {"type": "array"}}}},
    {"name": "boom", "description": "Always fails.", "inputSchema": {"type": "object"}},
    {"name": "delete_all", "description": "Delete all.", "inputSchema": {"type": "object"}},
    {"name": "slow", "description": "Tells how far it is.", "inputSchema": {"type": "object"}},
]
def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def call(asked):
    name, given = asked["params"]["name"], asked["params"].get("arguments") or {}
    if name == "boom":
        return {"content": [{"type": "text", "text": "it \x1b[31mbroke"}], "isError": True}
    token = asked["params"].get("_meta", {}).get("progressToken")
    if name == "slow" and token is not None:
        say({"method": "notifications/progress", "params": {
            "progressToken": token, "progress": 1, "total": 2, "message": "half way"}})
    if name == "slow":
        return {"content": [{"type": "image", "mimeType": "image/png", "data": "AAAA"}]}
    return {"content": [{"type": "text", "text": json.dumps(given, sort_keys=True)}]}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "initialize":
        say({"id": asked["id"], "result": {
            "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "demo", "version": "1"}}})
    elif asked["method"] == "tools/list":
        say({"id": asked["id"], "result": {"tools": tools}})
    elif asked["method"] == "tools/call":
        say({"id": asked["id"], "result": call(asked)})
    else:
        say({"id": asked["id"], "error": {"code": -32601, "message": "no such method"}})
"""


@dataclass(frozen=True)
class Typed:
    code: int
    shown: str


@dataclass(frozen=True)
class Discovery:
    """A home of its own: working folder, data folder, nothing of this machine's configuration."""

    home: Path
    forked: Preloaded

    @property
    def environ(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG") or "COV" in k}
        return kept | {
            "HOME": str(self.home),
            "DISCOVERY_CONFIG": str(self.home / "discovery.yaml"),
            "DISCOVERY_DATA_DIR": str(self.home / "data"),
            "STARTS": str(self.home / "starts"),
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "PYTHONUTF8": "1",
        }

    def configure(self, *, rules: str = "", **servers: Any) -> None:
        """Write discovery.yaml with `demo`, the server above, and others."""
        script = self.home / "upstream.py"
        script.write_text(UPSTREAM, encoding="utf-8")
        demo = {
            "command": sys.executable,
            "args": [str(script)],
            "env": {"STARTS": "${STARTS}"},
            "description": "Says things",
            "trust": "open",  # one of its tools writes to the terminal, to no avail
        }
        text = "servers: " + json.dumps({"demo": demo, **servers}) + "\n" + rules
        (self.home / "discovery.yaml").write_text(text, encoding="utf-8")

    @property
    def starts(self) -> int:
        """How often the server was started."""
        file = self.home / "starts"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def at_terminal(
        self,
        *words: str,
        typed: str = "",
        after: str = "",
        then: Mapping[str, str] = MappingProxyType({}),
        **environ: str,
    ) -> Typed:
        """A command whose stdin, stdout and stderr are a terminal, at which somebody types.

        `after` is what they wait for before they type; `then` has more to wait for and to type.
        """
        import pty

        controller, terminal = pty.openpty()
        environ = self.environ | environ
        self.forked.start(words, (terminal,) * 3, cwd=self.home, environ=environ, measured=True)
        chunks, shown = _chunks(controller), b""
        for awaited, text in {after: typed, **then}.items():
            while awaited.encode() not in shown:
                shown += next(chunks)
            os.write(controller, text.encode())
        shown += b"".join(chunks)
        os.close(controller)
        return Typed(self.forked.wait(), shown.decode().replace("\r\n", "\n"))

    def __call__(self, *words: str, stdin: str = "", **environ: str) -> Finished:
        environ = self.environ | environ
        return self.forked(
            words, cwd=self.home, environ=environ, stdin=stdin.encode(), measured=True
        )


def _chunks(controller: int) -> Iterator[bytes]:
    while True:
        try:
            chunk = os.read(controller, 65536)
        except OSError:  # how Linux says that nobody holds the terminal any more
            return
        if not chunk:
            return
        yield chunk
