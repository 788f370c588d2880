"""An MCP server over stdio that lists the tools of a file, and calls none.

    python listing_server.py FILE

FILE is a JSON array of definitions, read at each `tools/list`. Standard library only.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

GREETING = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {"listChanged": True}},
    "serverInfo": {"name": "listing", "version": "1"},
}


def main(file: Path) -> None:
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" not in message:
            continue
        answer: dict[str, object] = {"error": {"code": -32601, "message": "Method not found"}}
        if message["method"] == "initialize":
            answer = {"result": GREETING}
        elif message["method"] == "tools/list":
            answer = {"result": {"tools": json.loads(file.read_text("utf-8"))}}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
