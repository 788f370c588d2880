"""What an MCP client is given to start `discovery serve`, whatever folder and PATH it starts in."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from discovery_engine.tools import JSONObject

_NAME = "discovery"


def client_entry(config: Path, environ: Mapping[str, str]) -> JSONObject:
    """The entry of a client that starts `discovery serve` with this configuration.

    Clients start programs in any folder and with a short PATH: so every path is absolute, and the
    PATH of this moment goes along, for the servers are looked up on it.
    """
    command, *args = _command(environ)
    args += ["--config", str(config.absolute()), "serve"]
    return {"command": command, "args": args, "env": {"PATH": environ.get("PATH", os.defpath)}}


def connecting_lines(config: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """How to connect each kind of client, ready to be pasted."""
    entry = client_entry(config, environ)
    yield "to connect Claude Desktop, Cursor, Windsurf and most others, put this into their file:"
    yield from _json({"mcpServers": {_NAME: entry}})
    yield "VS Code (`.vscode/mcp.json`):"
    yield from _json({"servers": {_NAME: {"type": "stdio", **entry}}})
    words = ["claude", "mcp", "add", "--scope", "user", _NAME]
    words += ["-e", f"PATH={entry['env']['PATH']}", "--", entry["command"], *entry["args"]]
    yield f"Claude Code: {shlex.join(words)}"


def _json(entry: JSONObject) -> Iterator[str]:
    yield from (f"  {line}" for line in json.dumps(entry, indent=2).splitlines())


def _command(environ: Mapping[str, str]) -> list[str]:
    """How to start this very program from anywhere."""
    started = Path(sys.argv[0]).absolute()
    beside = Path(sys.executable).parent / _NAME
    for program in (started, beside):
        if program.stem == _NAME and os.access(program, os.X_OK) and program.is_file():
            return [str(program)]
    found = shutil.which(_NAME, path=environ.get("PATH"))
    return [found] if found else [sys.executable, "-m", "discovery_cli"]
