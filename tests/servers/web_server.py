"""A web server on this machine that answers as a test tells it to, and keeps what it was asked."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class WebAnswer:
    content: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    is_cut: bool = False
    """The connection ends in the middle of the content."""
    is_endless: bool = False
    """The content comes again and again, without a length."""
    is_stuck: bool = False
    """Nothing comes after the headers, until the server ends."""


@dataclass(frozen=True)
class WebRequest:
    target: str
    headers: Mapping[str, str]
    method: str = "GET"
    body: bytes = b""

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        pairs = parse_qs(urlsplit(self.target).query, keep_blank_values=True)
        return {name: values[0] for name, values in pairs.items()}


Respond = Callable[[WebRequest], WebAnswer]


@dataclass(frozen=True)
class WebServer:
    url: str
    asked: list[WebRequest]

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


def json_answer(value: Any, status: int = 200, **headers: str) -> WebAnswer:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    content = json.dumps(value).encode()
    return WebAnswer(content, status, {"Content-Type": "application/json"} | named)


def zipped(answer: WebAnswer) -> WebAnswer:
    headers = {**answer.headers, "Content-Encoding": "gzip"}
    return WebAnswer(gzip.compress(answer.content), answer.status, headers)


@contextmanager
def web_server(respond: Respond) -> Iterator[WebServer]:
    asked: list[WebRequest] = []
    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            headers = {k.lower(): v for k, v in self.headers.items()}
            body = self.rfile.read(int(headers.get("content-length", "0")))
            request = WebRequest(self.path, headers, self.command, body)
            asked.append(request)
            with suppress(OSError):
                self._write(respond(request))

        do_POST = do_DELETE = do_GET  # noqa: N815 - the names of the library

        def _write(self, answer: WebAnswer) -> None:
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.is_endless or answer.is_stuck:
                self.close_connection = True
                self.end_headers()
                while answer.is_endless and not ended.is_set():
                    self.wfile.write(answer.content)
                ended.wait()
                return
            size = len(answer.content)
            if "Content-Length" not in answer.headers:
                self.send_header("Content-Length", str(size))
            self.end_headers()
            self.wfile.write(answer.content[: size // 2] if answer.is_cut else answer.content)
            self.close_connection = self.close_connection or answer.is_cut

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield WebServer(f"http://127.0.0.1:{server.server_address[1]}", asked)
    finally:
        ended.set()
        server.shutdown()
        server.server_close()
        thread.join()
