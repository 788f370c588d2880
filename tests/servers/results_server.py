"""A server with results of any size, which writes each call that reaches it to a file.

    python results_server.py LOG [strict]

With `strict` there is a tool whose output schema only a whole result matches.
It knows the handshake only, and no library.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

LOG = Path(sys.argv[1])
LOCK = threading.Lock()
ROW = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
}
TOOLS: dict[str, dict[str, Any]] = {
    "rows": {
        "inputSchema": {
            "type": "object",
            "properties": {"count": {"type": "integer"}, "token": {"type": "string"}},
            "required": ["count"],
        },
        "outputSchema": {
            "type": "object",
            "properties": {"items": {"type": "array", "items": ROW}, "next": {"type": "string"}},
        },
        "annotations": {"readOnlyHint": True},
    },
    "text": {"inputSchema": {"type": "object", "properties": {"lines": {"type": "integer"}}}},
    "json_text": {"inputSchema": {"type": "object", "properties": {"count": {"type": "integer"}}}},
    "image": {"inputSchema": {"type": "object", "properties": {"size": {"type": "integer"}}}},
    "echo": {"inputSchema": {"type": "object", "properties": {"value": {}}}},
    "fail": {"inputSchema": {"type": "object"}},
    "hold": {"inputSchema": {"type": "object", "properties": {"until": {"type": "string"}}}},
    "wait": {"inputSchema": {"type": "object", "properties": {"seconds": {"type": "number"}}}},
}

STRICT: dict[str, Any] = {
    "inputSchema": {"type": "object", "properties": {"count": {"type": "integer"}}},
    "outputSchema": {
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": {"$ref": "#/$defs/row"}, "minItems": 3},
            "end": {"type": "string", "pattern": "END$"},
            "details": {"type": "object"},
        },
        "required": ["items", "end", "details"],
        "additionalProperties": False,
        "$defs": {"row": {**ROW, "required": ["id", "name"]}},
    },
}
if sys.argv[2:] == ["strict"]:
    TOOLS["strict"] = STRICT


def rows(count: int) -> dict[str, Any]:
    return {"items": [{"id": n, "name": f"row {n}"} for n in range(count)], "next": "page 2"}


def strict(count: int) -> dict[str, Any]:
    details = {f"d{n}": "y" * 40 for n in range(count)}
    return {"items": rows(count)["items"], "end": "x" * count + "END", "details": details}


def answer(name: str, given: dict[str, Any]) -> dict[str, Any]:
    match name:
        case "rows" | "strict":
            found = rows(given["count"])
            if name == "strict":
                found = strict(given["count"])
            return {"content": [text(f"{len(found['items'])} rows")], "structuredContent": found}
        case "text":
            return {"content": [text("".join(f"line {n} of it\n" for n in range(given["lines"])))]}
        case "json_text":
            return {"content": [text(json.dumps(rows(given["count"])))]}
        case "image":
            block = {"type": "image", "mimeType": "image/png", "data": "iVBO" * given["size"]}
            return {"content": [text("A picture:"), block]}
        case "fail":
            return {"content": [text("It broke")], "isError": True}
        case "wait":
            time.sleep(given["seconds"])
    return {
        "content": [text(json.dumps(given))],
        "structuredContent": {"value": given.get("value"), "given": given},
    }


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def result_of(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "results", "version": "1"},
            }
        case "tools/list":
            described = {"description": "Give what is asked for."}
            return {"tools": [{"name": name, **described, **of} for name, of in TOOLS.items()]}
        case "tools/call":
            given = params.get("arguments") or {}
            note(params["name"], given)
            return answer(params["name"], given)
        case "ping":
            return {}
    return None


def hold(message: dict[str, Any]) -> None:
    """Answer once the file is there, beside other calls; the end is in the log, too."""
    given = message["params"]["arguments"]
    while not Path(given["until"]).exists():
        time.sleep(0.02)
    note("held", given)
    write({"id": message["id"], "result": answer("held", given)})


def note(tool: str, given: dict[str, Any]) -> None:
    with LOCK, LOG.open("a", encoding="utf-8") as log:
        log.write(json.dumps({"tool": tool, "arguments": given}) + "\n")


def write(message: dict[str, Any]) -> None:
    with LOCK:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        params = message.get("params") or {}
        if params.get("name") == "hold":
            note("hold", params["arguments"])
            threading.Thread(target=hold, args=(message,), daemon=True).start()
            continue
        found = result_of(message["method"], params)
        outcome = (
            {"error": {"code": -32601, "message": "Method not found"}}
            if found is None
            else {"result": found}
        )
        if error := (params.get("arguments") or {}).get("error"):
            outcome = {"error": error}
        write({"id": message["id"], **outcome})


if __name__ == "__main__":
    main()
