"""An MCP server of the standard library alone, with synthetic tools: the other end of a benchmark.

    python benchmarks/raw_server.py NAME TOOLS

TOOLS is a number, of tools with some 700 bytes each of words that are distributed as in English
(Zipf), or a file with the definitions of a real server. `echo` comes before them.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
from typing import Any

WORDS = 4000
SYLLABLES = (
    "ba",
    "co",
    "di",
    "fu",
    "ge",
    "ha",
    "ki",
    "lo",
    "mu",
    "ne",
    "po",
    "ra",
    "si",
    "tu",
    "ve",
)


def vocabulary() -> list[str]:
    chance = random.Random(1)
    return ["".join(chance.choices(SYLLABLES, k=chance.randint(2, 4))) for _ in range(WORDS)]


def tools(name: str, listed: str) -> list[dict[str, Any]]:
    echo = {
        "name": "echo",
        "description": "Return the text",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
        },
    }
    if not listed.isdecimal():
        with open(listed, encoding="utf-8") as file:  # noqa: PTH123 - pathlib takes 20 ms
            return [echo, *json.load(file)]
    return [echo, *made_up(name, int(listed) - 1)]


def made_up(name: str, count: int) -> list[dict[str, Any]]:
    chance, words = random.Random(name), vocabulary()
    sums = list(itertools.accumulate(1 / rank for rank in range(1, WORDS + 1)))

    def text(length: int) -> str:
        return " ".join(chance.choices(words, cum_weights=sums, k=length))

    def tool(number: int) -> dict[str, Any]:
        fields = chance.sample(words, 4)
        properties = {field: {"type": "string", "description": text(8)} for field in fields}
        return {
            "name": f"{chance.choice(words)}_{chance.choice(words)}_{number}",
            "description": text(chance.randint(10, 60)),
            "inputSchema": {"type": "object", "properties": properties},
        }

    return [*map(tool, range(count))]


def result(method: str, params: dict[str, Any], name: str, listed: str) -> dict[str, Any] | None:
    if method == "initialize":
        info = {"name": name, "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": tools(name, listed)}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": params["arguments"]["text"]}]}
    return None


def main() -> None:
    name, listed = sys.argv[1:3]
    out = sys.stdout.buffer
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" not in message:
            continue
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        found = result(message["method"], message.get("params", {}), name, listed)
        if found is None:
            answer["error"] = {"code": -32601, "message": "Method not found"}
        else:
            answer["result"] = found
        out.write(json.dumps(answer).encode() + b"\n")
        out.flush()


if __name__ == "__main__":
    main()
