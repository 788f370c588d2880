"""Small MCP servers as the content of packages: in JavaScript and in Python, without libraries.

Each has the tool `environment`, which returns its arguments, its working folder and its variables.
"""

from __future__ import annotations

import textwrap

NODE = textwrap.dedent(
    """
    const lines = require("readline").createInterface({input: process.stdin});
    const seen = () => JSON.stringify({
      args: process.argv.slice(2), cwd: process.cwd(), env: process.env, version: VERSION});
    const results = {
      "initialize": (p) => ({protocolVersion: p.protocolVersion, capabilities: {tools: {}},
        serverInfo: {name: "packaged", version: VERSION}}),
      "tools/list": () => ({tools: [{name: "environment", description: "Show the environment.",
        inputSchema: {type: "object"}}]}),
      "tools/call": () => ({content: [{type: "text", text: seen()}]}),
      "ping": () => ({}),
    };
    lines.on("line", (line) => {
      const message = JSON.parse(line);
      if (message.id === undefined) return;
      const make = results[message.method];
      const answer = make ? {result: make(message.params || {})}
        : {error: {code: -32601, message: "no such method"}};
      process.stdout.write(JSON.stringify({jsonrpc: "2.0", id: message.id, ...answer}) + "\\n");
    });
    """
)
PYTHON = textwrap.dedent(
    """
    import json, os, sys

    def seen():
        return json.dumps({"args": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ),
                           "version": VERSION, "prefix": sys.prefix})

    def result(method, params):
        if method == "initialize":
            return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                    "serverInfo": {"name": "packaged", "version": VERSION}}
        if method == "tools/list":
            return {"tools": [{"name": "environment", "description": "Show the environment.",
                               "inputSchema": {"type": "object"}}]}
        if method == "tools/call":
            return {"content": [{"type": "text", "text": seen()}]}
        return {} if method == "ping" else None

    def main():
        for line in sys.stdin:
            message = json.loads(line)
            if "id" not in message:
                continue
            found = result(message["method"], message.get("params") or {})
            answer = {"result": found} if found is not None else {
                "error": {"code": -32601, "message": "no such method"}}
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
    """
)


def node_server(version: str) -> str:
    return f"const VERSION = {version!r};\n{NODE}"


def python_server(version: str) -> str:
    return f"VERSION = {version!r}\n{PYTHON}"
