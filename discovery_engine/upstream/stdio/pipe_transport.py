"""Messages over the pipes of a child process.

Each task reads and writes its own messages: there are no relay tasks and no queues, so a slow
server applies back-pressure to its callers. The SDK's own reader takes quadratic time on long
lines and fails on one invalid byte.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from textwrap import shorten
from typing import NamedTuple

import anyio
from anyio.abc import ByteSendStream
from mcp import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp_types import CONNECTION_CLOSED, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest

from discovery_engine._util.tasks import open_task_group
from discovery_engine._util.text import one_line, quoted
from discovery_engine.config.settings import StdioTransport
from discovery_engine.errors import FailureKind, UnavailableError
from discovery_engine.rpc.json_codec import encode
from discovery_engine.rpc.scheduling import FairScheduler
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.sdk_messages import as_json
from discovery_engine.upstream.stdio.executable import child_environment, find_program
from discovery_engine.upstream.stdio.message_reader import MessageReader, OnFault
from discovery_engine.upstream.stdio.process import ChildProcess, OnLines, supervise
from discovery_engine.upstream.stdio.reaper import Reaper
from discovery_engine.upstream.stdio.replies import Replies
from discovery_engine.upstream.stdio.request_ids import RequestIds
from discovery_engine.upstream.transport import (
    ForeignOutput,
    Stream,
    Transport,
    handshake_error,
    is_resource_exhausted,
    resources_exhausted,
    timed_out,
)

_LAST_OUTPUT = 1.0  # seconds for the output of a program that has exited
_SAMPLE_LENGTH = 80  # characters
_BROKEN = (anyio.BrokenResourceError, anyio.ClosedResourceError)


class MessageWriter(Stream):
    """Writes one message at a time; a server that does not read blocks its callers."""

    def __init__(
        self,
        sink: ByteSendStream,
        ids: RequestIds,
        *,
        on_end: Callable[[], None],
    ) -> None:
        self._sink = sink
        self._ids = ids
        self._on_end = on_end
        self._turn = anyio.Lock()

    async def send(self, item: SessionMessage, /) -> None:
        line = encode(as_json(item.message))
        self._track(item.message)
        await self.write(line)

    async def write(self, line: bytes) -> None:
        async with self._turn:
            try:
                await self._sink.send(line)
            except _BROKEN:
                self._on_end()  # a broken stdin may be noticed before the end of stdout
                raise

    def _track(self, message: JSONRPCMessage) -> None:
        match message:
            case JSONRPCRequest(id=id_):
                self._ids.add(id_)
            case JSONRPCNotification(method="notifications/cancelled", params={"requestId": id_}):
                self._ids.cancel(id_)


class StdioCallbacks(NamedTuple):
    """Callbacks of a stdio session."""

    on_lost: Callable[[], None]
    on_fault: OnFault
    on_stderr: OnLines
    """Called with the stderr lines of the program."""


class PipeTransport(Transport):
    kind = "stdio"

    def __init__(
        self,
        server: ServerName,
        child: ChildProcess,
        scheduler: FairScheduler,
        *,
        limit: int,
        callbacks: StdioCallbacks,
    ) -> None:
        super().__init__(server)
        self.child = child
        self.ids = RequestIds()
        self._on_lost = callbacks.on_lost
        self._replies = Replies()
        self._writer = MessageWriter(child.stdin, self.ids, on_end=self._lose)
        self.reader = MessageReader(
            child.stdout,
            self.ids,
            scheduler,
            on_end=self._lose,
            on_request=self._replies.enqueue,
            on_fault=callbacks.on_fault,
            limit=limit,
        )

    def dispatcher(self) -> JSONRPCDispatcher:
        return JSONRPCDispatcher(self.reader, self._writer)

    async def send_replies(self) -> None:
        """Answer the requests of the server until it closes."""
        await self._replies.drain(self._writer.write)

    @property
    def stderr(self) -> str:
        return self.child.stderr.tail

    async def connect_error(self, error: Exception) -> UnavailableError:
        if not self.is_lost:
            return handshake_error(self.server, error, stderr=self.stderr)
        reason = f"it {await self.child.exit_reason()} before the handshake was done"
        # A broken stdin may be noticed first, while the last output is still to be read.
        with anyio.move_on_after(_LAST_OUTPUT):
            await self.reader.wait_ended()
        output = self._foreign_output()
        reason = "; ".join(filter(None, (reason, output.reason)))
        return UnavailableError(
            self.server, FailureKind.EXITED, reason, stderr=self.stderr, detail=output.detail
        )

    def timeout_error(self, seconds: float) -> UnavailableError:
        return timed_out(self.server, seconds, output=self._foreign_output(), stderr=self.stderr)

    async def exit_reason(self) -> str:
        return f"it {await self.child.exit_reason()}"

    async def describe_loss(self, error: MCPError) -> str | None:
        return (
            await self.exit_reason() if self.is_lost and error.code == CONNECTION_CLOSED else None
        )

    def refusal_error(self, error: MCPError) -> None:  # noqa: ARG002 - never on a pipe
        return None

    def wants_new_session(self, error: MCPError) -> bool:  # noqa: ARG002 - never on a pipe
        return False

    def _foreign_output(self) -> ForeignOutput:
        """What it wrote to stdout that is not MCP.

        An unfinished line comes first: it may be a prompt that waits for input. It is cut between
        words, so that the redactor still recognizes a secret in it.
        """
        unfinished = self.reader.unfinished
        line = one_line(unfinished or self.reader.garbage.foreign)
        sample = shorten(line, _SAMPLE_LENGTH, placeholder=" …")
        if not sample:
            return ForeignOutput()
        what = "a line without an end" if unfinished else "a line"
        return ForeignOutput(
            f"it wrote {what} to stdout that is not MCP", f"it wrote {quoted(sample)}"
        )

    def _lose(self) -> None:
        self.is_lost = True
        self._on_lost()


def _not_started(
    server: ServerName, program: str, error: OSError | ValueError, kind: FailureKind
) -> UnavailableError:
    if is_resource_exhausted(error):
        return resources_exhausted(server, error)
    why = error.strerror if isinstance(error, OSError) else error  # str(OSError) names the file
    failure = UnavailableError(server, kind, f"its program cannot be started: {why}")
    failure.detail = f"it is {program}"
    return failure


@asynccontextmanager
async def open_pipe_transport(
    server: ServerName,
    stdio: StdioTransport,
    environ: Mapping[str, str],
    reaper: Reaper,
    scheduler: FairScheduler,
    *,
    limit: int,
    callbacks: StdioCallbacks,
) -> AsyncIterator[PipeTransport]:
    """Start the program.

    `stdio` has its references resolved; `limit` is the longest message in bytes.

    Raises:
        UnavailableError: If there is no such program, or it cannot be started.
    """
    env = child_environment(environ, stdio.env)
    command = [find_program(server, stdio, env), *stdio.args]
    try:
        process = await reaper.start_program(command, env=env, cwd=stdio.cwd)
    except PermissionError as error:
        raise _not_started(server, command[0], error, FailureKind.PERMISSION) from error
    except (OSError, ValueError) as error:
        raise _not_started(server, command[0], error, FailureKind.OTHER) from error
    async with (
        supervise(process, on_lines=callbacks.on_stderr, pause=scheduler.pause) as child,
        open_task_group() as tasks,
    ):
        transport = PipeTransport(server, child, scheduler, limit=limit, callbacks=callbacks)
        tasks.start_soon(transport.send_replies)
        yield transport
        tasks.cancel_scope.cancel()
