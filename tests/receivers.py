"""Receivers of webhooks on this machine: real HTTP, which answers as a test wants."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

SECRET = "whsec_" + base64.b64encode(b"a key of thirty-two bytes length").decode()


class Received(NamedTuple):
    headers: dict[str, str]
    """By names in lower case."""
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def message(self) -> dict[str, Any]:
        return dict(json.loads(self.body))

    def is_signed_with(self, secret: str) -> bool:
        """As a receiver would find out, by the specification alone."""
        key = base64.b64decode(secret[len("whsec_") :])
        content = f"{self.id}.{self.headers['webhook-timestamp']}.".encode() + self.body
        digest = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
        return f"v1,{digest}" in self.headers["webhook-signature"].split(" ")


class Receiver:
    """Answers with the next of `statuses`, and with the last one from then on."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.statuses = [200]
        self.location = ""
        self.body = b"ok"
        self.received: list[Received] = []
        self.answers = threading.Event()
        """Cleared, nothing is answered."""
        self.answers.set()

    @property
    def types(self) -> list[str]:
        return [one.message["type"] for one in list(self.received)]

    @property
    def ids(self) -> list[str]:
        return [one.id for one in list(self.received)]


@contextmanager
def receiving() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            headers = {name.lower(): value for name, value in self.headers.items()}
            found = Received(headers, self.rfile.read(length))
            if len(found.body) < length:  # the sender was killed
                return
            receiver.received.append(found)
            receiver.answers.wait(600)
            status = receiver.statuses[0]
            del receiver.statuses[: len(receiver.statuses) > 1]
            with suppress(OSError):  # the sender may be gone, or has read enough
                self.send_response(status)
                if receiver.location:
                    self.send_header("location", receiver.location)
                self.send_header("content-length", str(len(receiver.body)))
                self.end_headers()
                self.wfile.write(receiver.body)

        def log_message(self, *_: object) -> None: ...

        do_GET = do_POST  # noqa: N815 - the name that `http.server` looks for

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver = Receiver(f"http://127.0.0.1:{server.server_port}/hook")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.answers.set()
        server.shutdown()
        server.server_close()
        thread.join()
