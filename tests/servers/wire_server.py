"""A small MCP server over stdio that misbehaves on the wire, when one of its tools is called.

    python wire_server.py MODE [--era modern|legacy|both]

All else is as in `fault_server.py`, which stands beside it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # an isolated interpreter does not look there

from fault_server import (
    LISTS,
    TOOLS,
    Message,
    Server,
    answer,
    answer_text,
    content,
    notify,
    refuse,
    reply,
    serve,
    tool,
    write,
)

MODES = {
    "wrong_id": "answers a call under an id that nobody gave",
    "text_id": "answers with the id as text",
    "float_id": "answers with the id as a fraction",
    "whole_float_id": "answers with the id as a float, as some languages write every number",
    "strays": "sends two hundred answers to what nobody asked before its own",
    "batch": "answers with an array that holds the answer",
    "no_version": "leaves the protocol's version out",
    "text_result": "answers with a result that is no object",
    "both": "answers with a result and an error",
    "long_int": "answers with a number of 5,000 digits",
    "nul": "answers with NUL in its text",
    "crlf": "ends its lines as Windows does",
    "banner": "writes its answer behind a text on one line",
    "bom": "begins its line with a byte order mark",
    "two_on_a_line": "writes its answer behind another on one line",
    "drip": "writes its answer in three-byte pieces",
    "binary": "writes a kilobyte of every byte before its answer",
    "big_result": "answers with six mebibytes of text",
    "large": "answers with fifty megabytes of text",
    "many_objects": "answers with a mebibyte of small objects",
    "endless_line": "begins a line and never ends it",
    "garbage_flood": "writes 20,000 lines of garbage before its answer",
    "notice_flood": "writes 5,000 notifications before its answer",
    "request_flood": "asks 20,000 things before its answer",
    "request_storm": "asks without end",
    "stderr_storm": "writes short lines to stderr without end",
    "strange_progress": "tells of progress that makes no sense, then answers",
    "closes_output": "closes its output and runs on",
    "stops_reading": "never reads again, and never answers",
    "late": "answers a call once it is cancelled",
    "freezes": "stops itself with SIGSTOP",
    "kills_itself": "ends itself with SIGKILL",
    "lists_file": "lists the pages in the file $TOOLS; one that is null fails",
    "obeys": "notes its calls in $EFFECTS; `crash`, `fail`, `hang` do so, all else is echoed",
    "slow_start": "takes half a second to start",
}

LISTS["obeys"] = {"tools": [*TOOLS, *map(tool, ("crash", "fail", "hang"))]}
TWISTS: dict[str, Message] = {
    "wrong_id": {"id": 999_999},
    "text_result": {"result": "text"},
    "both": {"error": {"code": 1, "message": "both"}},
}


class WireServer(Server):
    hanging: Message | None = None

    def handle(self, message: Message) -> None:
        super().handle(message)
        if self.hanging and message.get("method") == "notifications/cancelled":
            self.send(self.usual(self.hanging))
            self.hanging = None

    def list_tools(self, message: Message) -> None:
        if self.mode == "lists_file":
            self.list_page(message)
        else:
            super().list_tools(message)

    def list_page(self, message: Message) -> None:
        pages = json.loads(Path(os.environ["TOOLS"]).read_text("utf-8"))
        number = int(message.get("params", {}).get("cursor", 0))
        if pages[number] is None:
            refuse(message, -32603, "no such page")
            return
        more = {"nextCursor": str(number + 1)} if number + 1 < len(pages) else {}
        answer(message, {"tools": pages[number], **more})

    def call(self, message: Message) -> None:
        if handler := getattr(self, f"call_{self.mode}", None):
            handler(message)
        elif self.mode in TWISTS:
            self.send(self.usual(message) | TWISTS[self.mode])
        else:
            super().call(message)

    def usual(self, message: Message) -> Message:
        text = json.dumps(message["params"].get("arguments", {}))
        return reply(message, content(text))

    def send(self, value: Any) -> None:
        write(json.dumps(value).encode() + b"\n")

    def call_text_id(self, message: Message) -> None:
        self.send(self.usual(message) | {"id": str(message["id"])})

    def call_float_id(self, message: Message) -> None:
        self.send(self.usual(message) | {"id": message["id"] + 0.5})

    def call_whole_float_id(self, message: Message) -> None:
        self.send(self.usual(message) | {"id": float(message["id"])})

    def call_strays(self, message: Message) -> None:
        for number in range(200):
            self.send(self.usual(message) | {"id": 1_000_000 + number})
        self.send(self.usual(message))

    def call_batch(self, message: Message) -> None:
        self.send([self.usual(message)])

    def call_no_version(self, message: Message) -> None:
        line = self.usual(message)
        del line["jsonrpc"]
        self.send(line)

    def call_long_int(self, message: Message) -> None:
        self.raw(message, b"9" * 5000)

    def raw(self, message: Message, value: bytes) -> None:
        line = json.dumps(reply(message, {"content": [], "value": "#"})).encode()
        write(line.replace(b'"#"', value) + b"\n")

    def call_nul(self, message: Message) -> None:
        answer_text(message, "a\0b")

    def call_crlf(self, message: Message) -> None:
        write(json.dumps(self.usual(message)).encode() + b"\r\n")

    def call_banner(self, message: Message) -> None:
        write(b"Starting {...} " + json.dumps(self.usual(message)).encode() + b"\n")

    def call_bom(self, message: Message) -> None:
        write(b"\xef\xbb\xbf" + json.dumps(self.usual(message)).encode() + b"\n")

    def call_two_on_a_line(self, message: Message) -> None:
        one = json.dumps(self.usual(message)).encode()
        write(one + one + b"\n")

    def call_drip(self, message: Message) -> None:
        line = json.dumps(self.usual(message)).encode() + b"\n"
        for start in range(0, len(line), 3):
            write(line[start : start + 3])

    def call_binary(self, message: Message) -> None:
        write(bytes(range(256)) * 4 + b"\n")
        self.send(self.usual(message))

    def call_big_result(self, message: Message) -> None:
        answer_text(message, "x" * (6 * 1024 * 1024))

    def call_large(self, message: Message) -> None:
        answer_text(message, "x" * 50_000_000)

    def call_many_objects(self, message: Message) -> None:
        items = [{"number": number, "name": f"n{number}"} for number in range(35_000)]
        self.send(reply(message, content("many") | {"structuredContent": {"items": items}}))

    def call_endless_line(self, message: Message) -> None:
        write(b'{"jsonrpc":"2.0","id":%d,"result":{"x":"' % message["id"])
        while True:
            write(b"x" * 65536)

    def call_garbage_flood(self, message: Message) -> None:
        write(b"this is not JSON\n" * 20_000)
        self.send(self.usual(message))

    def call_notice_flood(self, message: Message) -> None:
        for number in range(5000):
            notify("notifications/message", {"level": "info", "data": number})
        self.send(self.usual(message))

    def call_request_flood(self, message: Message) -> None:
        self.ask(20_000)
        self.send(self.usual(message))

    def call_request_storm(self, message: Message) -> None:
        while True:
            self.ask(1000)

    def ask(self, count: int) -> None:
        for number in range(count):
            line = {"jsonrpc": "2.0", "id": f"r{number}", "method": "ping"}
            sys.stdout.buffer.write(json.dumps(line).encode() + b"\n")
        sys.stdout.buffer.flush()

    def call_stderr_storm(self, message: Message) -> None:
        while True:
            os.write(2, b"a\n" * 32_768)

    def call_strange_progress(self, message: Message) -> None:
        for value in ("half", None, [1], -1, True, 10**400):
            self.tell(message, value)
        notify("notifications/progress", {"progressToken": "nobody", "progress": 1})
        self.send(self.usual(message))

    def tell(self, message: Message, progress: Any) -> None:
        token = message["params"].get("_meta", {}).get("progressToken", "none")
        notify("notifications/progress", {"progressToken": token, "progress": progress})

    def call_closes_output(self, message: Message) -> None:
        os.close(1)
        time.sleep(600)

    def call_stops_reading(self, message: Message) -> None:
        time.sleep(600)

    def call_late(self, message: Message) -> None:
        self.hanging = message

    def call_freezes(self, message: Message) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    def call_kills_itself(self, message: Message) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def call_obeys(self, message: Message) -> None:
        if effects := os.environ.get("EFFECTS"):
            with Path(effects).open("a", encoding="utf-8") as file:
                file.write(json.dumps(message["params"]["arguments"]) + "\n")
        match message["params"]["name"]:
            case "crash":
                os._exit(7)
            case "fail":
                refuse(message, -32603, "it did half of it")
            case "hang":
                pass
            case _:
                self.send(self.usual(message))


if __name__ == "__main__":
    if "slow_start" in sys.argv:
        time.sleep(0.5)
    serve(WireServer, MODES)
