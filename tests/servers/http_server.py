"""A small MCP server over HTTP that can misbehave in one chosen way.

    python http_server.py MODE...

Prints the port of each mode, then serves. Standard library only.
"""

from __future__ import annotations

import base64
import json
import queue
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

Message = dict[str, Any]

MODES = {
    "modern": "speaks the newer era",
    "legacy": "speaks the older era, with a session",
    "counts_sessions": "as legacy; answers calls with how many sessions it has given out",
    "events": "speaks the newer era and answers calls with event streams",
    "mirrors": "speaks the newer era and insists that an argument is mirrored in a header",
    "bad_mirror": "lists a tool that wants an impossible header, beside a good one",
    "surrogate": "answers calls with half a surrogate pair",
    "hang": "accepts and stays silent",
    "hang_call": "answers everything but calls",
    "reset_call": "closes the connection in the middle of the answer to a call",
    "cut_events": "closes an event stream before the answer to a call",
    "fail_call": "answers calls with status 502",
    "unavailable_call": "answers calls with status 503",
    "html": "is a web page",
    "not_json": "answers with JSON that is none",
    "status_401": "wants a login",
    "status_403": "refuses the login",
    "status_404": "has nothing there",
    "status_500": "fails",
    "redirect STATUS LOCATION": "redirects every request",
    "sse": "speaks only the transport with an event stream",
    "sse_fails": "as sse; answers what is posted with status 500 from the first call on",
    "sse_ends": "as sse; ends the stream at the first call",
    "sse_elsewhere": "as sse; names an endpoint on another host",
    "sse_silent": "as sse; never names an endpoint",
    "sse_hangs": "as sse; leaves what is posted to its address unanswered",
}

LEGACY = {"legacy", "counts_sessions"}

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
ECHO = {"name": "echo", "description": "Echo", "inputSchema": SCHEMA}
MIRRORED = {"type": "object", "properties": {"text": {"type": "string", "x-mcp-header": "Text"}}}
IMPOSSIBLE = {"type": "object", "properties": {"text": {"type": "object", "x-mcp-header": "A b"}}}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    mode = "modern"
    sessions: ClassVar[set[str]] = set()
    made = 0
    outbox: ClassVar[queue.Queue[str | None]] = queue.Queue()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        if self.mode.startswith("redirect "):
            self.redirect()
        elif self.mode.startswith("sse"):
            self.stream()
        elif self.mode.startswith("status_"):
            self.status(int(self.mode.removeprefix("status_")))
        else:
            self.status(405)

    def do_DELETE(self) -> None:
        self.status(200)

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        is_endpoint = self.path == "/messages"
        if self.mode.startswith("redirect "):
            self.redirect()
        elif self.mode.startswith("status_"):
            self.status(int(self.mode.removeprefix("status_")))
        elif self.mode == "hang" or (self.mode == "sse_hangs" and not is_endpoint):
            threading.Event().wait()
        elif self.mode == "html":
            self.send(200, b"<html>", "text/html")
        elif self.mode == "not_json":
            self.send(200, b"{nope", "application/json")
        elif self.mode.startswith("sse") and not is_endpoint:
            self.status(405)
        elif "id" not in message:
            self.status(202)
        else:
            self.dispatch(message)

    def dispatch(self, message: Message) -> None:
        match message["method"]:
            case "server/discover" if self.is_legacy:
                self.refuse(message, -32601, "Method not found", status=400)
            case "server/discover":
                discovered = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
                kept = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
                self.answer(message, discovered | kept)
            case "initialize":
                self.initialize(message)
            case _ if self.is_legacy and not self.is_known:
                self.refuse(message, -32600, "No valid session", status=404)
            case "tools/list":
                self.answer(message, {"tools": self.tools(), "ttlMs": 0, "cacheScope": "private"})
            case "tools/call":
                self.call(message)
            case _:
                self.refuse(message, -32601, "Method not found", status=404)

    @property
    def is_legacy(self) -> bool:
        return self.mode in LEGACY or self.mode.startswith("sse")

    @property
    def is_known(self) -> bool:
        return self.mode.startswith("sse") or self.headers.get("mcp-session-id") in self.sessions

    def initialize(self, message: Message) -> None:
        type(self).made += 1
        session = f"session-{self.made}"
        self.sessions.add(session)
        result = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "http", "version": "1"},
        }
        self.answer(message, result, {"mcp-session-id": session})

    def tools(self) -> list[Message]:
        if self.mode == "mirrors":
            return [ECHO | {"inputSchema": MIRRORED}]
        if self.mode == "bad_mirror":
            return [{"name": "odd", "inputSchema": IMPOSSIBLE}, ECHO]
        return [ECHO]

    def call(self, message: Message) -> None:
        arguments = message["params"]["arguments"]
        if self.mode == "mirrors" and self.mirrored() != arguments.get("text"):
            self.refuse(message, -32020, "Header mismatch", status=400)
        elif self.mode == "hang_call":
            threading.Event().wait()
        elif self.mode == "reset_call":
            self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
            self.wfile.write(b"content-length: 1000\r\n\r\n{")
            self.close_connection = True
        elif self.mode in {"fail_call", "unavailable_call"}:
            self.status(502 if self.mode == "fail_call" else 503)
        elif self.mode in {"events", "cut_events"}:
            self.call_by_events(message, arguments)
        elif self.mode == "sse_fails":
            self.status(500)
        elif self.mode == "sse_ends":
            self.outbox.put(None)
            self.status(202)
        elif self.mode == "surrogate":
            self.answer(message, content("half \ud83d a pair"))
        else:
            is_counted = self.mode == "counts_sessions"
            self.answer(message, content(str(self.made) if is_counted else json.dumps(arguments)))

    def call_by_events(self, message: Message, arguments: Message) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        token = message["params"]["_meta"].get("progressToken")
        told = {"progressToken": token, "progress": 1, "message": "half way"}
        self.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": told})
        if self.mode == "events":
            self.event({"jsonrpc": "2.0", "id": message["id"], "result": content(str(arguments))})
        self.close_connection = True

    def mirrored(self) -> str | None:
        value = self.headers.get("mcp-param-text")
        if value and value.startswith("=?base64?"):
            return base64.b64decode(value[9:-2]).decode()
        return value

    def answer(self, message: Message, result: Message, headers: Message | None = None) -> None:
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        if self.mode.startswith("sse"):
            self.outbox.put(json.dumps(reply))
            self.status(202)
        else:
            self.send(200, json.dumps(reply).encode(), "application/json", headers)

    def refuse(self, message: Message, code: int, text: str, *, status: int) -> None:
        error = {"code": code, "message": text}
        reply = json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error})
        if self.mode.startswith("sse"):
            self.outbox.put(reply)
            self.status(202)
        else:
            self.send(status, reply.encode(), "application/json")

    def stream(self) -> None:
        type(self).outbox = outbox = queue.Queue()  # the newest stream is the one that is read
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        if self.mode == "sse_silent":
            threading.Event().wait()
        host = "http://elsewhere.example" if self.mode == "sse_elsewhere" else ""
        self.wfile.write(f"event: endpoint\ndata: {host}/messages\n\n".encode())
        while (data := outbox.get()) is not None:
            self.wfile.write(f"event: message\ndata: {data}\n\n".encode())
        self.close_connection = True

    def event(self, message: Message) -> None:
        self.wfile.write(f"event: message\ndata: {json.dumps(message)}\n\n".encode())

    def redirect(self) -> None:
        _, status, location = self.mode.split(" ", 2)
        self.send(int(status), b"{}", "application/json", {"location": location})

    def status(self, status: int) -> None:
        self.send(status, b"", "text/plain")

    def send(self, status: int, body: bytes, kind: str, headers: Message | None = None) -> None:
        self.send_response(status)
        for name, value in {"content-type": kind, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def content(text: str) -> Message:
    return {"content": [{"type": "text", "text": text}], "resultType": "complete"}


def serve(kind: type[Handler], modes: Message) -> None:
    servers = []
    for mode in sys.argv[1:]:
        if mode not in modes and not mode.startswith("redirect "):
            sys.exit(f"no mode {mode!r}; there are {', '.join(modes)}")
        own = {"mode": mode, "sessions": set(), "outbox": queue.Queue()}
        server = ThreadingHTTPServer(("127.0.0.1", 0), type(mode, (kind,), own))
        server.daemon_threads = True
        servers.append(server)
    print(*(server.server_address[1] for server in servers), flush=True)  # noqa: T201
    for server in servers[1:]:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    servers[0].serve_forever()


if __name__ == "__main__":
    serve(Handler, MODES)
