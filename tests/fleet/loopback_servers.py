"""Many MCP servers in one process, each at a path of one port, which a test changes while they run.

    with open_servers(["a", "b"]) as servers:
        servers["a"].url                                # http://127.0.0.1:PORT/a/mcp
        servers["a"].tools = {"echo": "Repeat a text"}  # what the next listing has

They speak the era without sessions, so that five hundred of them cost one event loop and no state.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from http import HTTPStatus
from typing import Any, Literal

Message = dict[str, Any]

_VERSION = "2026-07-28"
_METHOD_NOT_FOUND = -32601


class LoopbackServer:
    """One of them; a change holds from the next request on."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.url = url
        self.tools: Mapping[str, str] = {"ping": f"Say whether {name} is well"}
        """Descriptions by names."""
        self.questions: Mapping[str, str] = {}
        """What tools ask their caller before they answer, by names."""
        self.texts: Mapping[str, str] = {}
        """What tools answer, by names; the others answer with their names."""
        self.state: Literal["well", "down", "silent"] = "well"
        """`down` answers with status 503, `silent` holds every answer until the state changes."""
        self.ttl_ms: int | None = None
        """How long it says that its list of tools holds; None says nothing about it."""
        self.listings = 0
        """Lists of tools that it was asked for."""
        self.calls = 0
        """Calls of its tools."""

    def answer(self, message: Message) -> Message:
        match message:
            case {"method": "server/discover"}:
                kept = {"ttlMs": 0, "cacheScope": "private"}
                known = {"supportedVersions": [_VERSION], "capabilities": {"tools": {}}}
                return self._result(message, known | kept)
            case {"method": "tools/list"}:
                return self._result(message, self._list())
            case {"method": "tools/call", "params": {"name": name} as params} if name in self.tools:
                return self._result(message, self._called(name, params))
        error = {"code": _METHOD_NOT_FOUND, "message": "Method not found"}
        return {"jsonrpc": "2.0", "id": message["id"], "error": error}

    def _called(self, name: str, params: Message) -> Message:
        text = self.texts.get(name, f"{self.name}: {name}")
        if question := self.questions.get(name):
            if params.get("requestState") != f"{name} asks":
                schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
                form = {"mode": "form", "message": question, "requestedSchema": schema}
                asked = {"question": {"method": "elicitation/create", "params": form}}
                state = f"{name} asks"
                return {
                    "resultType": "input_required",
                    "inputRequests": asked,
                    "requestState": state,
                }
            text = params["inputResponses"]["question"]["content"]["answer"]
        return {"content": [{"type": "text", "text": text}]}

    def _list(self) -> Message:
        tools = [
            {"name": name, "description": text, "inputSchema": {"type": "object"}}
            for name, text in self.tools.items()
        ]
        kept = {} if self.ttl_ms is None else {"ttlMs": self.ttl_ms, "cacheScope": "private"}
        return {"tools": tools, **kept}

    def _result(self, message: Message, result: Message) -> Message:
        whole = {"resultType": "complete", **result}
        return {"jsonrpc": "2.0", "id": message["id"], "result": whole}


class LoopbackServers(dict[str, LoopbackServer]):
    """All of them, by name."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        self._connections: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(tuple(names),), daemon=True)
        self._thread.start()
        self._is_up.wait()

    def entries(self) -> dict[str, Message]:
        """As they stand in a configuration."""
        return {name: {"url": server.url} for name, server in self.items()}

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self, names: Sequence[str]) -> None:
        asyncio.set_event_loop(self._loop)
        listening = self._loop.run_until_complete(
            asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=1024)
        )
        port = listening.sockets[0].getsockname()[1]
        for name in names:
            self[name] = LoopbackServer(name, f"http://127.0.0.1:{port}/{name}/mcp")
        self._is_up.set()
        self._loop.run_forever()
        listening.close()
        self._loop.run_until_complete(self._end())
        self._loop.close()

    async def _end(self) -> None:
        """Close every connection, also one that is being accepted."""
        accepting = asyncio.all_tasks() - {*self._connections.values(), asyncio.current_task()}
        await asyncio.gather(*accepting, return_exceptions=True)
        left = dict(self._connections)
        for writer, task in left.items():
            writer.transport.abort()
            task.cancel()
        await asyncio.gather(*left.values(), return_exceptions=True)
        await asyncio.sleep(0)  # sockets are closed in the turn after the one that closes them

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(self._serve(reader, writer))
        self._connections[writer] = task
        task.add_done_callback(lambda _: self._connections.pop(writer))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(OSError, asyncio.IncompleteReadError):
            while request := await _request(reader):
                method, path, body = request
                writer.write(await self._answer(method, path, body))
                await writer.drain()

    async def _answer(self, method: str, path: str, body: bytes) -> bytes:
        server = self.get(path.split("/")[1])
        if server is None:
            return _response(HTTPStatus.NOT_FOUND)
        if method != "POST":
            return _response(HTTPStatus.METHOD_NOT_ALLOWED)
        message = json.loads(body)
        if message.get("method") == "tools/list":
            server.listings += 1
        if message.get("method") == "tools/call":
            server.calls += 1
        while server.state == "silent":  # noqa: ASYNC110 - it is set from another thread
            await asyncio.sleep(0.02)
        if server.state == "down":
            return _response(HTTPStatus.SERVICE_UNAVAILABLE)
        if "id" not in message:
            return _response(HTTPStatus.ACCEPTED)
        return _response(HTTPStatus.OK, json.dumps(server.answer(message)).encode())


async def _request(reader: asyncio.StreamReader) -> tuple[str, str, bytes] | None:
    """Method, path and body of the next request; None when its client has left."""
    if not (line := await reader.readline()):
        return None
    method, path, _ = line.decode("latin-1").split(" ", 2)
    length = 0
    while (header := await reader.readline()).strip():
        name, _, value = header.decode("latin-1").partition(":")
        if name.lower() == "content-length":
            length = int(value)
    return method, path, await reader.readexactly(length)


def _response(status: HTTPStatus, body: bytes = b"") -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@contextmanager
def open_servers(names: Sequence[str]) -> Iterator[LoopbackServers]:
    servers = LoopbackServers(names)
    try:
        yield servers
    finally:
        servers.close()
