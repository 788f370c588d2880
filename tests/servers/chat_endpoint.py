"""An endpoint that completes chats by OpenAI's protocol, as a test tells it to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKENS = 500  # that each answer is said to have taken


@dataclass(frozen=True)
class Answer:
    """`is_cut` ends the connection in the middle of it."""

    content: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    is_cut: bool = False


Reply = Callable[[dict[str, Any]], Answer]


@dataclass(frozen=True)
class Asked:
    path: str
    key: str | None
    body: dict[str, Any]

    @property
    def message(self) -> dict[str, Any]:
        """What was sent about a tool."""
        sent: dict[str, Any] = json.loads(self.body["messages"][1]["content"])
        return sent


def saying(text: str) -> Answer:
    """A completion whose text is that."""
    message = {"choices": [{"message": {"role": "assistant", "content": text}}]}
    return Answer(json.dumps(message | {"usage": {"total_tokens": TOKENS}}).encode())


def writing(*texts: str) -> Answer:
    """A completion with these requests, in English."""
    rows = [{"language": "en", "text": text} for text in texts]
    return saying(json.dumps({"requests": rows}))


def about_each_tool(request: dict[str, Any]) -> Answer:
    """Six requests with the name of the tool that is asked about."""
    name = json.loads(request["messages"][1]["content"])["tool"]["name"]
    word = name.replace("_", " ")
    return writing(*(f"{one} of {word}" for one in ("news", "some", "what", "which", "old", "new")))


@contextmanager
def chat_endpoint(reply: Reply) -> Iterator[tuple[str, list[Asked]]]:
    """The address of an endpoint, and what it was asked."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(Asked(self.path, self.headers.get("Authorization"), body))
            answer = reply(body)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            if answer.is_cut:
                self.wfile.write(answer.content[: len(answer.content) // 2])
                self.close_connection = True
            else:
                self.wfile.write(answer.content)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
