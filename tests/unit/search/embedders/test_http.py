"""The embedder over HTTP, against a real server that answers as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest

from discovery_engine.config.settings import EmbeddingsSettings
from discovery_engine.search.embedders import EmbeddingError, Vector
from discovery_engine.search.embedders.opening import open_embedder
from discovery_engine.secrets.resolver import EnvironmentResolver
from tests.rows import rows

pytestmark = pytest.mark.anyio

Reply = Callable[[dict[str, Any]], tuple[int, bytes]]

NO_SECRETS = EnvironmentResolver({})


@contextmanager
def served(reply: Reply) -> Iterator[tuple[str, list[tuple[str, dict[str, str], Any]]]]:
    """The address of a server, and what it was asked."""
    asked: list[tuple[str, dict[str, str], Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((self.path, dict(self.headers), request))
            status, content = reply(request)
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

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


def giving(*vectors: list[Any]) -> Reply:
    """The vectors, last first: only their index says which is whose."""
    rows = [{"index": i, "embedding": vector} for i, vector in enumerate(vectors)]
    return lambda _: (200, json.dumps({"data": rows[::-1]}).encode())


async def embedded(url: str, *texts: str, **fields: Any) -> list[Vector]:
    settings = EmbeddingsSettings("http", url=url, **fields)
    secrets = EnvironmentResolver({"KEY": "sesame"})
    with anyio.fail_after(60):
        opened = open_embedder(settings, secrets=secrets, base_dir=Path(), data=Path())
        async with opened as embedder:
            return await embedder.embed(texts)


async def test_the_name_of_the_model_holds_no_secret() -> None:
    settings = EmbeddingsSettings("http", url="http://user:word@localhost/v1?key=sesame", model="m")

    opened = open_embedder(settings, secrets=NO_SECRETS, base_dir=Path(), data=Path())
    async with opened as embedder:
        assert embedder.model == "http:http://localhost/v1:m:0"


@pytest.mark.requirement("EMB-11")
@rows(
    "reply",
    [
        pytest.param(lambda _: (500, b""), id="500"),
        pytest.param(lambda _: (401, b"who are you"), id="401"),
        pytest.param(lambda _: (429, b""), id="429"),
        pytest.param(lambda _: (200, b"<html>"), id="no JSON"),
        pytest.param(lambda _: (200, b"[" * 100_000), id="deep JSON"),
        pytest.param(lambda _: (200, b"{}"), id="no data"),
        pytest.param(lambda _: (200, b'{"data": [{"index": 0}]}'), id="no vector"),
        pytest.param(giving(), id="none"),
        pytest.param(giving([1, 0], [1, 0]), id="too many"),
        pytest.param(giving([float("nan"), 1]), id="not a number"),
        pytest.param(giving(["a", "b"]), id="text"),
        pytest.param(giving([0, 0]), id="zeros"),
        pytest.param(giving([10**400, 1]), id="a huge number"),
    ],
)
async def test_anything_but_vectors_is_an_error(reply: Reply) -> None:
    with served(reply) as (url, _), pytest.raises(EmbeddingError):
        await embedded(url, "x")


@pytest.mark.requirement("EMB-13")
async def test_what_is_for_this_machine_is_sent_to_no_proxy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    one = giving([1.0, 0.0])
    with served(one) as (proxy, stolen), served(one) as (url, asked), anyio.fail_after(60):
        monkeypatch.setenv("HTTP_PROXY", proxy.removesuffix("/v1"))
        settings = EmbeddingsSettings(provider="http", url=url, model="m")
        opened = open_embedder(settings, secrets=NO_SECRETS, base_dir=tmp_path, data=tmp_path)
        async with opened as embedder:
            await embedder.embed(["hello"])

    assert (len(asked), stolen) == (1, [])
