"""One conversation, held by our client and by the SDK's, with the same scripted server.

Both have real pipes towards the server, which records every line that it gets.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import mcp_types as types
from mcp import ClientSession, MCPError
from mcp.client._probe import negotiate_auto
from mcp.client.stdio import _parse_line
from mcp.client.subscriptions import listen
from mcp.shared.message import SessionMessage

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.framing import Framer, Overlong
from discovery_engine.rpc.peer import (
    ConnectionClosedError,
    OnProgress,
    RequestTimeoutError,
    RpcError,
)
from discovery_engine.rpc.scheduling import FairScheduler
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.call import Call, QuestionSettings
from discovery_engine.upstream.calls_in_flight import CallsInFlight
from discovery_engine.upstream.handshake import initialize, negotiate
from discovery_engine.upstream.rpc_client import RpcClient, UpstreamRequest
from discovery_engine.upstream.stdio.pipe_transport import PipeTransport, StdioCallbacks
from discovery_engine.upstream.stdio.pipes import PipeReader, PipeWriter
from discovery_engine.upstream.stdio.process import ChildProcess
from discovery_engine.version import __version__

LIMIT = 1024 * 1024
CLOSED, TIMED_OUT = -32000, -32001  # the SDK's codes for what is no answer

Script = Callable[[JSONObject], Iterable[JSONObject | bytes]]
"""What the server writes when it gets a message."""
Talk = Callable[["Client", "Held"], Awaitable[None]]


Outcome = tuple[str, Any]
"""A result with its JSON, an error with its code, a timeout, or a closed connection."""


class Client(ABC):
    """What both clients can do."""

    @abstractmethod
    async def connect(self, *, is_legacy: bool = False) -> str:
        """The version in use; a server that is not known to be of the older era is probed."""

    @abstractmethod
    async def list_tools(self, cursor: str | None = None) -> JSONObject: ...

    @abstractmethod
    async def call(
        self, tool: str = "t", *, seconds: float = 30.0, on_progress: OnProgress | None = None
    ) -> Outcome: ...

    @abstractmethod
    async def listen(self) -> None: ...


@dataclass
class Held:
    """A conversation that has been held."""

    lines: list[bytes] = field(default_factory=list)
    """Every line that the server got."""
    _arrived: anyio.Event = field(default_factory=anyio.Event)

    def add(self, line: bytes) -> None:
        self.lines.append(line)
        self._arrived.set()
        self._arrived = anyio.Event()

    async def wait_for(self, method: str, count: int = 1) -> None:
        while sum(message.get("method") == method for message in self.messages) < count:
            await self._arrived.wait()

    @property
    def messages(self) -> list[JSONObject]:
        return [json.loads(line) for line in self.lines]


class OurClient(Client):
    def __init__(self, transport: PipeTransport) -> None:
        self._transport = transport
        self._rpc: RpcClient | None = None

    @property
    def rpc(self) -> RpcClient:
        assert self._rpc is not None, "connected"
        return self._rpc

    async def connect(self, *, is_legacy: bool = False) -> str:
        info = await (initialize if is_legacy else negotiate)(self._transport)
        self._rpc = RpcClient(self._transport, info, is_stored=False, on_proven=lambda: None)
        return info.version

    async def list_tools(self, cursor: str | None = None) -> JSONObject:
        return await self.rpc.list_page("tools/list", {"cursor": cursor} if cursor else {})

    async def call(
        self, tool: str = "t", *, seconds: float = 30.0, on_progress: OnProgress | None = None
    ) -> Outcome:
        try:
            result = await self.rpc.send(
                UpstreamRequest.call(tool, {"a": 1}),
                call=Call(ServerName("s"), None, lambda _: QuestionSettings(), FairScheduler()),
                seconds=seconds,
                on_progress=on_progress,
            )
        except RequestTimeoutError:
            return "timeout", None
        except ConnectionClosedError:
            return "closed", None
        except RpcError as error:
            return "error", error.code
        return "result", result

    async def listen(self) -> None:
        await self.rpc.listen({"toolsListChanged": True})


class SdkClient(Client):
    def __init__(self, session: ClientSession) -> None:
        self._session = session

    async def connect(self, *, is_legacy: bool = False) -> str:
        if is_legacy:
            await self._session.initialize()
        else:
            await negotiate_auto(self._session)
        assert self._session.protocol_version is not None
        return self._session.protocol_version

    async def list_tools(self, cursor: str | None = None) -> JSONObject:
        params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
        page = await self._session.list_tools(params=params)
        return page.model_dump(by_alias=True, mode="json", exclude_unset=True)

    async def call(
        self, tool: str = "t", *, seconds: float = 30.0, on_progress: OnProgress | None = None
    ) -> Outcome:
        request = types.CallToolRequest(
            params=types.CallToolRequestParams(name=tool, arguments={"a": 1})
        )
        data = request.model_dump(by_alias=True, mode="json", exclude_none=True)
        options: Any = {"timeout": seconds}
        self._session._stamp(data, options)  # as `send_request`, which would parse the result
        if on_progress:
            options["on_progress"] = on_progress
        try:
            send = self._session._dispatcher.send_raw_request
            return "result", await send(data["method"], data["params"], options)
        except MCPError as error:
            if error.code == TIMED_OUT and "timed out" in error.message:
                return "timeout", None
            return ("closed", None) if error.code == CLOSED else ("error", error.code)

    async def listen(self) -> None:
        async with listen(self._session, tools_list_changed=True):
            await anyio.sleep_forever()


class PipesOnly:
    """A program of which there are only the pipes."""

    pid = 0
    returncode = 0

    def __init__(self, stdin: PipeWriter, stdout: PipeReader) -> None:
        self.stdin, self.stdout, self.stderr = stdin, stdout, stdout

    async def wait(self) -> int:
        return 0

    def terminate(self) -> None: ...

    async def aclose(self) -> None: ...


@asynccontextmanager
async def our_client(writer: PipeWriter, reader: PipeReader) -> AsyncIterator[OurClient]:
    child = ChildProcess(PipesOnly(writer, reader), lambda _: None, anyio.lowlevel.checkpoint)
    callbacks = StdioCallbacks(
        lambda: None,
        lambda *_: None,
        lambda _: None,
        CallsInFlight(ServerName("s"), lambda _: QuestionSettings(), FairScheduler()).answer,
        lambda _: None,
    )
    transport = PipeTransport(
        ServerName("s"), child, FairScheduler(), limit=LIMIT, callbacks=callbacks
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(transport.receive)
        tasks.start_soon(transport.answer_requests)
        yield OurClient(transport)
        transport.peer.close()
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def sdk_client(writer: PipeWriter, reader: PipeReader) -> AsyncIterator[SdkClient]:
    """The SDK's client with the loops of `mcp.client.stdio`, on pipes instead of a process."""
    received, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, sent = anyio.create_memory_object_stream[SessionMessage](0)

    async def receive() -> None:
        async with received:
            # A session that is closed; and text that is not UTF-8, which ends the SDK's session.
            with suppress(anyio.BrokenResourceError, UnicodeDecodeError):
                async for line in lines_of(reader):
                    await received.send(_parse_line(line.decode()))

    async def send() -> None:
        async with sent:
            async for item in sent:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                writer.write(text.encode() + b"\n")

    info = types.Implementation(name="discovery", version=__version__)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive)
        tasks.start_soon(send)
        async with ClientSession(read, write, client_info=info) as session:
            yield SdkClient(session)
        tasks.cancel_scope.cancel()


async def lines_of(reader: PipeReader) -> AsyncIterator[bytes]:
    framer = Framer(64 * LIMIT)
    async for chunk in reader:
        for line in framer.feed(chunk):
            assert not isinstance(line, Overlong)
            yield line


async def hold(client_of: Any, script: Script, talk: Talk) -> Held:
    """Let a client talk with the server; ends when the server has got everything."""
    held = Held()
    (their_in, our_out), (our_in, their_out) = os.pipe(), os.pipe()
    writer = await PipeWriter.from_descriptor(our_out)
    reader = await PipeReader.from_descriptor(our_in)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(serve, their_in, their_out, script, held))
            try:
                async with client_of(writer, reader) as client:
                    await talk(client, held)
                await writer.aclose()
            except BaseException:
                writer.abort()
                raise
            finally:
                await closed(reader)
    return held


async def serve(reading: int, writing: int, script: Script, held: Held) -> None:
    reader, writer = (
        await PipeReader.from_descriptor(reading),
        await PipeWriter.from_descriptor(writing),
    )
    try:
        async for line in lines_of(reader):
            held.add(line)
            for answer in script(json.loads(line)):
                writer.write(answer if isinstance(answer, bytes) else encoded(answer))
    finally:
        writer.abort()
        await closed(reader)


async def closed(reader: PipeReader) -> None:
    with anyio.CancelScope(shield=True):
        await reader.aclose()


def encoded(message: JSONObject) -> bytes:
    return json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n"


async def held_by_both(script: Callable[[], Script], talk: Talk) -> tuple[Held, Held]:
    """Ours and the SDK's; `script` makes a new server for each."""
    ours = await hold(our_client, script(), talk)
    return ours, await hold(sdk_client, script(), talk)
