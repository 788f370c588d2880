"""A small MCP server over stdio that can misbehave in one chosen way.

    python fault_server.py MODE [--era modern|legacy|both]

Standard library only, so that it starts at once. `MODES` says what each mode does; whatever it
does not concern works as in an ordinary server with the tools `echo`, `pid`, `environment`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Message = dict[str, Any]

MODES = {
    "ok": "nothing is wrong",
    "hang_start": "never reads, never writes",
    "crash_start": "writes to stderr and exits with status 3",
    "exit_on_unknown": "exits when the first message is not `initialize`",
    "silent_on_discover": "leaves `server/discover` unanswered",
    "handshake_error": "answers the handshake with nonsense",
    "no_tools": "does not know `tools/list`",
    "crash_call": "exits with status 7 in the middle of a call",
    "partial_call": "writes half an answer to a call and exits",
    "orphan_call": "leaves a child that holds its pipes, and exits",
    "hang_call": "never answers a call to `hang`; `cancelled` tells which ids were cancelled",
    "die_after": "answers a call, then exits",
    "noise": "writes a banner, garbage, blank lines and bare values between its answers",
    "bad_utf8": "answers calls with bytes that are not UTF-8",
    "surrogate": "answers calls with half a surrogate pair",
    "nan": "answers calls with NaN",
    "deep": "answers calls with 100,000 nested arrays",
    "nested": "answers calls with 150 nested arrays",
    "huge": "answers calls with 9 MiB on one line, its id first",
    "bad_tools": "lists malformed tools among good ones",
    "listing_fails": "its second page is an error",
    "list_dies": "exits with status 6 when it is to list its tools",
    "listing_hangs": "its second page never comes",
    "listing_large": "its list takes seconds to read",
    "listing_nonsense": "answers `tools/list` without tools",
    "cursor_loop": "its pages go round in a circle",
    "endless_pages": "there is always one more page",
    "ten_pages": "lists its tools over ten pages",
    "ttl": "promises its list for five seconds",
    "stderr_flood": "writes a megabyte to stderr before every answer",
    "stubborn": "ignores the end of its input and SIGTERM",
    "list_changed": "a call says a hundred times that its tools have changed",
    "progress": "a call tells its progress three times, then logs a password",
    "awaits_file": "a call tells of its progress until the file that it names is there",
    "tool_error": "the tool itself fails",
    "refuses_call": "answers calls with a JSON-RPC error",
    "odd_error": "answers calls with an error that has neither code nor message",
    "asks_back": "a call asks the client four things and returns its answers",
    "input_required": "a call wants more input",
}

TEXT_SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}


def tool(name: str, **fields: Any) -> Message:
    return {"name": name, "description": f"The tool {name}", "inputSchema": TEXT_SCHEMA} | fields


TOOLS = [tool("echo"), tool("pid"), tool("environment")]
BAD_TOOLS = [
    tool("first"),
    tool("", title="nameless"),
    tool(17),  # type: ignore[arg-type]
    "not even an object",
    tool("odd_description", description=["text"]),
    tool("too_big", description="x" * 70_000),
    tool("first", description="the second of that name"),
    tool("last", vendor={"kept": True}),
]


LISTS: dict[str, Message] = {
    "hang_call": {"tools": [*TOOLS, tool("hang"), tool("cancelled")]},
    "bad_tools": {"tools": BAD_TOOLS},
    "listing_nonsense": {"tools": "none"},
    "listing_fails": {"tools": TOOLS, "nextCursor": "2"},
    "listing_hangs": {"tools": TOOLS, "nextCursor": "2"},
    "cursor_loop": {"tools": [tool("round")], "nextCursor": "again"},
    "ttl": {"tools": TOOLS, "ttlMs": 5000, "cacheScope": "private"},
}


class Server:
    def __init__(self, mode: str, era: str) -> None:
        self.mode = mode
        self.era = era
        self.cancelled: list[Any] = []
        self.answers: list[Message] = []

    def run(self) -> None:
        if self.mode == "noise":
            write(b"Welcome to the noisy server!\n\n\x1b[31mred\x1b[0m\n")
        for number, line in enumerate(sys.stdin.buffer):
            message = json.loads(line)
            if self.mode == "exit_on_unknown" and number == 0 and message["method"] != "initialize":
                sys.exit(9)
            self.handle(message)

    def handle(self, message: Message) -> None:
        if "method" not in message:
            self.answers.append(message)
            return
        if message["method"] == "notifications/cancelled":
            self.cancelled.append(message["params"]["requestId"])
        if "id" not in message:
            return
        if self.mode == "noise":
            write(b'42\n"text"\n[1]\n{"jsonrpc":"2.0"}\n{oops\n\n')
        if self.mode == "stderr_flood":
            os.write(2, (b"complaint " * 9 + b"\n") * 10_000)
        handlers: dict[str, Callable[[Message], None]] = {
            "server/discover": self.discover,
            "initialize": self.initialize,
            "tools/list": self.list_tools,
            "tools/call": self.call,
        }
        handler = handlers.get(message["method"])
        if handler:
            handler(message)
        else:
            refuse(message, -32601, "Method not found")

    def discover(self, message: Message) -> None:
        if self.mode == "silent_on_discover":
            return
        if self.mode == "handshake_error":
            answer(message, {"supportedVersions": "all of them"})
        elif self.era == "legacy":
            refuse(message, -32601, "Method not found")
        else:
            told = {"listChanged": self.mode == "list_changed"}
            result = {
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": told},
                "instructions": "modern instructions",
                "ttlMs": -1,
                "cacheScope": "private",
            }
            answer(message, result)

    def initialize(self, message: Message) -> None:
        if self.mode == "handshake_error":
            answer(message, {"protocolVersion": "1999-01-01"})
        elif self.era == "modern":
            supported = {"supported": ["2026-07-28"], "requested": "2025-11-25"}
            refuse(message, -32022, "Unsupported protocol version", supported)
        else:
            result = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "fault", "version": "1"},
                "instructions": "legacy instructions",
            }
            answer(message, result)

    def list_tools(self, message: Message) -> None:
        cursor = message.get("params", {}).get("cursor")
        match self.mode, cursor:
            case "no_tools", _:
                refuse(message, -32601, "not here")
            case "listing_fails", "2":
                refuse(message, -32603, "no such page")
            case "listing_hangs", "2":
                pass
            case "listing_large", _:
                tools = b'{"name": "a"}, {"name": "b", "inputSchema": [%b0]}' % (b"0," * 1_000_000)
                write(b'{"id": %d, "result": {"tools": [%b]}}\n' % (message["id"], tools))
            case "list_dies", _:
                os._exit(6)
            case (("endless_pages" | "ten_pages"), _):
                self.page(message, int(cursor or 0))
            case _:
                answer(message, LISTS.get(self.mode, {"tools": TOOLS}))

    def page(self, message: Message, number: int) -> None:
        page: Message = {"tools": [tool(f"tool_{number}")]}
        if self.mode == "endless_pages" or number < 9:
            page["nextCursor"] = str(number + 1)
        answer(message, page)

    def call(self, message: Message) -> None:
        name = message["params"]["name"]
        arguments = message["params"].get("arguments", {})
        if special := getattr(self, f"call_{self.mode}", None):
            special(message, name)
        elif name == "environment":
            answer_text(message, json.dumps(dict(os.environ)))
        elif name == "pid":
            answer_text(message, str(os.getpid()))
        elif name == "cwd":
            answer_text(message, str(Path.cwd()))
        else:
            answer_text(message, json.dumps(arguments))

    def call_crash_call(self, message: Message, name: str) -> None:
        os.write(2, b"about to crash\n")
        os._exit(7)

    def call_partial_call(self, message: Message, name: str) -> None:
        write(b'{"jsonrpc":"2.0","id":')
        os._exit(0)

    def call_orphan_call(self, message: Message, name: str) -> None:
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        os._exit(5)

    def call_hang_call(self, message: Message, name: str) -> None:
        if name == "cancelled":
            answer_text(message, json.dumps(self.cancelled))
        elif name == "die":
            os._exit(4)
        elif name != "hang":
            answer_text(message, name)

    def call_die_after(self, message: Message, name: str) -> None:
        answer_text(message, str(os.getpid()))
        os._exit(0)

    def call_bad_utf8(self, message: Message, name: str) -> None:
        text = json.dumps(reply(message, content("caf#"))).encode().replace(b"#", b"\xe9")
        write(text + b"\n")

    def call_surrogate(self, message: Message, name: str) -> None:
        answer_text(message, "half \ud83d a pair")

    def call_nan(self, message: Message, name: str) -> None:
        answer(message, {"content": [], "structuredContent": {"n": float("nan")}})

    def call_deep(self, message: Message, name: str) -> None:
        depth = 100_000
        line = reply(message, {"content": [], "deep": "#"})
        write(json.dumps(line).encode().replace(b'"#"', b"[" * depth + b"]" * depth) + b"\n")

    def call_nested(self, message: Message, name: str) -> None:
        deep: Any = []
        for _ in range(150):
            deep = [deep]
        answer(message, {"content": [], "deep": deep})

    def call_huge(self, message: Message, name: str) -> None:
        answer_text(message, "x" * (9 * 1024 * 1024))

    def call_list_changed(self, message: Message, name: str) -> None:
        for _ in range(100):
            notify("notifications/tools/list_changed", {})
        answer_text(message, "changed")

    def call_progress(self, message: Message, name: str) -> None:
        token = message["params"]["_meta"]["progressToken"]
        for step in range(1, 4):
            told = {"progressToken": token, "progress": step, "total": 3, "message": f"step {step}"}
            notify("notifications/progress", told)
        log = {"level": "warning", "logger": "steps", "data": "all done, password=hunter2-hunter2"}
        notify("notifications/message", log)
        answer_text(message, "done")

    def call_awaits_file(self, message: Message, name: str) -> None:
        token = message["params"]["_meta"]["progressToken"]
        step = 0
        while not Path(message["params"]["arguments"]["text"]).exists():
            step += 1
            notify("notifications/progress", {"progressToken": token, "progress": step})
            time.sleep(0.05)
        answer_text(message, "done")

    def call_tool_error(self, message: Message, name: str) -> None:
        answer(message, content("it did not work") | {"isError": True, "_meta": {"vendor": 1}})

    def call_refuses_call(self, message: Message, name: str) -> None:
        refuse(message, -32602, "Invalid arguments")

    def call_odd_error(self, message: Message, name: str) -> None:
        write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {}}).encode() + b"\n")

    def call_asks_back(self, message: Message, name: str) -> None:
        methods = ["ping", "sampling/createMessage", "elicitation/create", "roots/list"]
        for number, method in enumerate(methods):
            ask(f"ask-{number}", method)
        while len(self.answers) < len(methods):
            self.handle(json.loads(sys.stdin.buffer.readline()))
        answer_text(message, json.dumps(sorted(self.answers, key=lambda a: a["id"])))

    def call_input_required(self, message: Message, name: str) -> None:
        wanted = {"q": {"method": "elicitation/create", "params": {}}}
        answer(message, {"resultType": "input_required", "inputRequests": wanted})


def reply(message: Message, result: Message) -> Message:
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def content(text: str) -> Message:
    return {"content": [{"type": "text", "text": text}]}


def answer(message: Message, result: Message) -> None:
    write(json.dumps(reply(message, result)).encode() + b"\n")


def answer_text(message: Message, text: str) -> None:
    answer(message, content(text))


def refuse(message: Message, code: int, text: str, data: Any = None) -> None:
    error = {"code": code, "message": text, "data": data}
    write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode() + b"\n")


def notify(method: str, params: Message) -> None:
    write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode() + b"\n")


def ask(request_id: str, method: str) -> None:
    line = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": ASKED.get(method, {})}
    write(json.dumps(line).encode() + b"\n")


ASKED: dict[str, Message] = {
    "sampling/createMessage": {"messages": [], "maxTokens": 1},
    "elicitation/create": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}},
}


def write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def serve(kind: type[Server], modes: Message) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=modes)
    parser.add_argument("--era", choices=("modern", "legacy", "both"), default="both")
    options = parser.parse_args()
    if options.mode == "crash_start":
        os.write(2, b"reading the settings\nno licence found\n")
        sys.exit(3)
    if options.mode == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options.mode != "hang_start":
        kind(options.mode, options.era).run()
    while options.mode in {"hang_start", "stubborn"}:
        time.sleep(600)


if __name__ == "__main__":
    serve(Server, MODES)
