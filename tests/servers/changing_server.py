"""An MCP server over stdio whose tools stand in a file, so that a test can change them.

    python changing_server.py FILE

FILE contains the names of its tools, one on each line; `name!argument` is a tool with a required
argument. Every `tools/list` that it answers adds a line to FILE.asked. Its tools answer with its
process id; `announce` first says that the tools are not what they were, and `hang` never answers,
but makes FILE.hanging. With a tool `restless` it says so at each start. Standard library only, so
that it starts at once.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

Message = dict[str, Any]

GREETING = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {"listChanged": True}},
    "serverInfo": {"name": "changing", "version": "1"},
}


def main(file: Path) -> None:
    for line in sys.stdin.buffer:
        message: Message = json.loads(line)
        match message:
            case {"id": _, "method": "initialize"}:
                answer(message, GREETING)
            case {"method": "notifications/initialized"} if "restless" in file.read_text():
                send({"method": "notifications/tools/list_changed"})
            case {"id": _, "method": "tools/list"}:
                answer(message, {"tools": [tool(line) for line in file.read_text().split()]})
                with file.with_suffix(".asked").open("a") as asked:
                    asked.write("asked\n")
            case {"id": _, "method": "tools/call", "params": {"name": name}}:
                if name == "announce":
                    send({"method": "notifications/tools/list_changed"})
                if name == "hang":
                    file.with_suffix(".hanging").touch()
                else:
                    answer(message, {"content": [{"type": "text", "text": str(os.getpid())}]})
            case {"id": number, "method": _}:
                send({"id": number, "error": {"code": -32601, "message": "Method not found"}})


def tool(line: str) -> Message:
    name, _, argument = line.partition("!")
    schema: Message = {"type": "object"}
    if argument:
        schema |= {"properties": {argument: {"type": "string"}}, "required": [argument]}
    return {"name": name, "description": f"The tool {name}", "inputSchema": schema}


def answer(message: Message, result: Message) -> None:
    send({"id": message["id"], "result": result})


def send(message: Message) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
