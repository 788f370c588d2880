"""Planted secrets: no byte of the log, an export, the metrics or a span has a part of one.

The servers of `tests.canaries` are given secrets of every kind. Here they are also what a caller
sends, what a tool answers, what a program writes to stderr, and what a server asks and notifies.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import anyio
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from discovery_engine import CallbackClient, Engine, LogFilter, open_engine
from tests.canaries import CANARIES, ENV, REFERRED, leaks
from tests.contract.test_spans import exported
from tests.engines import Folder

__all__ = ["exported"]

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(600),
    pytest.mark.requirement("LOG-3", "MTR-14"),
]

# Echoes what it is called with, in its answer, on stderr, as a log message, as progress, and as a
# question to the client.
ECHO = r"""
import json, os, sys
def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    method = asked.get("method")
    if "id" not in asked or method is None:
        continue
    if method == "initialize":
        say({"id": asked["id"], "result": {"protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}, "logging": {}},
            "serverInfo": {"name": "e", "version": "1"}}})
    elif method == "tools/list":
        say({"id": asked["id"], "result": {"tools": [
            {"name": "echo", "inputSchema": {"type": "object"}},
            {"name": "own", "inputSchema": {"type": "object"}}]}})
    elif method == "tools/call":
        given = asked["params"].get("arguments") or {}
        if asked["params"]["name"] == "own":
            given = dict(os.environ)
        token = asked["params"].get("_meta", {}).get("progressToken")
        print(json.dumps(given), file=sys.stderr, flush=True)
        say({"method": "notifications/message", "params": {"level": "error", "data": given}})
        if token is not None:
            say({"method": "notifications/progress", "params": {
                "progressToken": token, "progress": 1, "message": json.dumps(given)}})
        say({"id": "q", "method": "elicitation/create", "params": {
            "message": json.dumps(given), "requestedSchema": {"type": "object", "properties": {}}}})
        answer = sys.stdin.readline()
        say({"id": asked["id"], "result": {
            "content": [{"type": "text", "text": text} for text in (json.dumps(given), answer)],
            "structuredContent": given}})
    else:
        say({"id": asked["id"], "error": {"code": -32601, "message": "no such method"}})
"""


@asynccontextmanager
async def opened(folder: Folder, mode: str) -> AsyncIterator[Engine]:
    (folder.path / "token.txt").write_text("in-a-file-" + CANARIES[0], "utf-8")
    env = {name: value for name, value in ENV.items() if "secret:" not in value}
    server = {"command": sys.executable, "args": ["-I", "-c", ECHO], "env": env}
    content = {"servers": {"echo": server}, "trust": "open", "log": {"calls": mode}}
    folder.config.write_text(json.dumps(content), "utf-8")
    environ = {**REFERRED, "PATH": "/usr/bin:/bin"}
    async with open_engine(folder.config, environ=environ, data_dir=folder.data) as engine:
        yield engine


def planted() -> Iterator[dict[str, Any]]:
    """Arguments with each secret, in several places and forms."""
    values = [value for value in ENV.values() if "${" not in value]
    values += [REFERRED["REFERRED"], REFERRED["REFERRED_TOO"]]
    for number, value in enumerate(values):
        yield {"text": value}
        yield {"text": f"{'x' * (2040 - number % 30)}{value}"}
        yield {
            "deep": [{"in": {"a": [value, {value[:40]: 1}]}}],
            "url": f"https://h/{quote(value)}",
        }
        yield {
            "encoded": base64.b64encode(f"a{value}".encode()).decode(),
            "json": json.dumps(value),
        }


async def agreed(_: str, __: dict[str, Any]) -> dict[str, Any]:
    return {"action": "accept", "content": {"typed": CANARIES[0]}}


@dataclass
class Written:
    folder: Folder
    outputs: dict[str, bytes] = field(default_factory=dict)

    def add_files(self) -> None:
        for file in self.folder.data.glob("calls.*"):
            self.outputs[file.name] = file.read_bytes()


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["redacted", "full"])
async def test_no_byte_that_is_logged_exported_or_traced_has_a_part_of_a_known_secret(
    folder: Folder, mode: str, exported: InMemorySpanExporter
) -> None:
    written = Written(folder)
    client = CallbackClient(
        agreed, capabilities={"elicitation": {"form": {}}}, log_level="debug", id=CANARIES[1]
    )

    async def on_progress(*_: object) -> None:
        """Wanted, so that progress is sent."""

    with anyio.fail_after(500):
        async with opened(folder, mode) as engine:
            await engine.execute("echo", "own", {}, caller=client, on_progress=on_progress)
            for arguments in planted():
                await engine.execute("echo", "echo", arguments, caller=client)
            await engine.call_log.flush()
            written.add_files()
            log = engine.call_log
            written.outputs["ndjson"] = (await log.export(form="ndjson")).encode()
            written.outputs["csv"] = (await log.export(form="csv")).encode()
            written.outputs["stored metrics"] = repr(await engine.metrics()).encode()
            kinds = {one.kind for one in await log.entries(limit=10_000)}
            calls = await log.entries(LogFilter(kinds=("call",)), limit=10_000)
    written.outputs["files at the end"] = b"".join(
        file.read_bytes() for file in folder.data.glob("calls.*")
    )
    spans = exported.get_finished_spans()
    written.outputs["spans"] = "".join(span.to_json() for span in spans).encode()

    assert kinds == {"call", "progress", "question", "notification", "stderr"}
    assert len(calls) == len(spans) > 100
    assert leaks(written.outputs) == []
    assert all("••••" in json.dumps(one.arguments, ensure_ascii=False) for one in calls[1:2])
