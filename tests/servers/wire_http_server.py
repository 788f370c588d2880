"""A small MCP server over HTTP that misbehaves on the wire, when its tool is called.

    python wire_http_server.py MODE

All else is as in `http_server.py`, which stands beside it.
"""

from __future__ import annotations

import json
import sys
import threading
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # an isolated interpreter does not look there

from http_server import Handler, Message, content, serve

MODES = {
    "ok": "nothing is wrong",
    "wrong_id": "answers a call under an id that nobody gave",
    "no_rpc": "answers a call with JSON that is no message",
    "empty": "answers a call with nothing",
    "text_type": "answers a call with JSON as a text",
    "html_call": "answers a call with a web page",
    "not_http": "answers a call with what is not HTTP",
    "cut_chunk": "breaks off in the middle of a chunk",
    "bad_gzip": "says that its answer is compressed, and it is not",
    "huge_body": "answers a call with 50 MB",
    "big_body": "answers a call with six mebibytes",
    "many_body": "answers a call with a mebibyte of small objects",
    "many_events": "the same, in an event",
    "nul_event": "answers a call with an event that has NUL in its text",
    "deep_body": "answers a call with 100,000 nested arrays",
    "nan_body": "answers a call with NaN",
    "comments": "answers a call with comments without end",
    "tiny_chunks": "answers a call with blanks without end, one at a time",
    "busy": "answers a call with status 429, and when to come back",
    "gone": "answers a call with status 410",
    "login": "answers a call with status 401",
    "drip": "sends a byte of its answer, and then nothing",
    "garbage_events": "answers with events that are no messages",
    "event_storm": "tells of things without end, and never answers",
    "strange_progress": "tells in events of progress that makes no sense, then answers",
    "huge_event": "answers with one event of 50 MB",
}

RAW = {
    "not_http": b"SSH-2.0-OpenSSH_9.6\r\n",
    "cut_chunk": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
    b"transfer-encoding: chunked\r\n\r\nff\r\n{",
}
MANY = content("many") | {
    "structuredContent": {"items": [{"number": n, "name": f"n{n}"} for n in range(35_000)]}
}
STATUS = {"busy": 429, "gone": 410, "login": 401}


class WireHandler(Handler):
    def call(self, message: Message) -> None:
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": content("hi")}
        if self.mode in RAW:
            self.wfile.write(RAW[self.mode])
            self.close_connection = True
        elif self.mode in STATUS:
            self.send(STATUS[self.mode], b"", "text/plain", {"retry-after": "7"})
        elif handler := getattr(self, f"call_{self.mode}", None):
            handler(message, reply)
        else:
            super().call(message)

    def json(self, body: bytes) -> None:
        self.send(200, body, "application/json")

    def call_wrong_id(self, message: Message, reply: Message) -> None:
        self.json(json.dumps(reply | {"id": 999_999}).encode())

    def call_no_rpc(self, message: Message, reply: Message) -> None:
        self.json(b'{"hello": "world"}')

    def call_empty(self, message: Message, reply: Message) -> None:
        self.json(b"")

    def call_text_type(self, message: Message, reply: Message) -> None:
        self.send(200, json.dumps(reply).encode(), "text/plain; charset=utf-8")

    def call_html_call(self, message: Message, reply: Message) -> None:
        self.send(200, b"<html>", "text/html")

    def call_bad_gzip(self, message: Message, reply: Message) -> None:
        self.send(200, json.dumps(reply).encode(), "application/json", {"content-encoding": "gzip"})

    def call_huge_body(self, message: Message, reply: Message) -> None:
        reply["result"] = content("x" * 50_000_000)
        self.json(json.dumps(reply).encode())

    def call_big_body(self, message: Message, reply: Message) -> None:
        reply["result"] = content("x" * (6 * 1024 * 1024))
        self.json(json.dumps(reply).encode())

    def call_many_body(self, message: Message, reply: Message) -> None:
        self.json(json.dumps(reply | {"result": MANY}).encode())

    def call_many_events(self, message: Message, reply: Message) -> None:
        self.begin_events()
        self.event(reply | {"result": MANY})

    def call_nul_event(self, message: Message, reply: Message) -> None:
        self.begin_events()
        self.event(reply | {"result": content("a\0b")})

    def call_deep_body(self, message: Message, reply: Message) -> None:
        reply["result"] = {"content": [], "deep": "#"}
        deep = b"[" * 100_000 + b"]" * 100_000
        self.json(json.dumps(reply).encode().replace(b'"#"', deep))

    def call_nan_body(self, message: Message, reply: Message) -> None:
        reply["result"] = content("hi") | {"structuredContent": {"n": float("nan")}}
        self.json(json.dumps(reply).encode())

    def call_drip(self, message: Message, reply: Message) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
        self.wfile.write(b"content-length: 1000\r\n\r\n{")
        threading.Event().wait()

    def call_garbage_events(self, message: Message, reply: Message) -> None:
        self.begin_events()
        for data in (b"42", b"{oops", b"\xff\xfe", b'{"jsonrpc":"2.0"}'):
            self.wfile.write(b"event: message\ndata: " + data + b"\n\n")
        self.event(reply)

    def call_event_storm(self, message: Message, reply: Message) -> None:
        told = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info"}}
        self.begin_events()
        with suppress(OSError):
            while True:
                self.wfile.write(f"event: message\ndata: {json.dumps(told)}\n\n".encode() * 100)

    def call_comments(self, message: Message, reply: Message) -> None:
        """Each in a chunk of its own, as servers send it that keep a connection open."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        with suppress(OSError):
            while True:
                self.wfile.write(b"8\r\n: ping\n\n\r\n" * 1000)

    def call_tiny_chunks(self, message: Message, reply: Message) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        with suppress(OSError):
            while True:
                self.wfile.write(b"1\r\n \r\n" * 1000)

    def call_strange_progress(self, message: Message, reply: Message) -> None:
        token = message["params"]["_meta"].get("progressToken")
        self.begin_events()
        for value in ("half", 10**400):
            told = {"progressToken": token, "progress": value, "total": value}
            self.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": told})
        self.event(reply)

    def call_huge_event(self, message: Message, reply: Message) -> None:
        self.begin_events()
        self.event(reply | {"result": content("x" * 50_000_000)})

    def begin_events(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True


if __name__ == "__main__":
    serve(WireHandler, MODES)
