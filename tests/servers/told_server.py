"""An MCP server over stdio that says of itself whatever a file holds, read again each time.

    python told_server.py FILE

FILE holds a JSON object with `instructions` and `pages`, each page a list of tools, and `results`
of tools that do not answer with their name. Every start adds a line to FILE.started and every call
of a tool one with its arguments to FILE.called. Standard library only, so that it starts at once.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

Message = dict[str, Any]


def main(file: Path) -> None:
    note(file, "started")
    for line in sys.stdin.buffer:
        message: Message = json.loads(line)
        if "id" in message:
            send({"id": message["id"], **answer(message, file)})


def answer(message: Message, file: Path) -> Message:
    told = json.loads(file.read_text("utf-8"))
    match message:
        case {"method": "initialize"}:
            greeting = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "told", "version": "1"},
                "instructions": told["instructions"],
            }
            return {"result": greeting}
        case {"method": "tools/list"}:
            cursor = (message.get("params") or {}).get("cursor", "0")
            return {"result": page(told["pages"], int(cursor))}
        case {"method": "tools/call", "params": {"name": name, **params}}:
            note(file, "called", json.dumps(params.get("arguments")))
            usual = {"content": [{"type": "text", "text": name}]}
            return {"result": told.get("results", {}).get(name, usual)}
        case _:
            return {"error": {"code": -32601, "message": "Method not found"}}


def page(pages: list[list[Message]], number: int) -> Message:
    following = {"nextCursor": str(number + 1)} if number + 1 < len(pages) else {}
    return {"tools": pages[number], **following}


def note(file: Path, what: str, line: str = "") -> None:
    with file.with_suffix(f".{what}").open("a", encoding="utf-8") as log:
        log.write(f"{line or what}\n")


def send(message: Message) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
