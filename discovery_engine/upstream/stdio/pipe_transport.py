"""Messages over the pipes of a child process.

One task reads; requests are written by their callers, without queues or relay tasks between them
and the pipe. A server that does not read blocks its callers before anything of theirs is buffered.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from textwrap import shorten
from typing import NamedTuple, TypeAlias

import anyio
import anyio.to_thread

from discovery_engine._util.tasks import open_task_group
from discovery_engine._util.text import one_line, quoted
from discovery_engine.config.settings import StdioTransport
from discovery_engine.errors import FailureKind, UnavailableError
from discovery_engine.rpc.in_flight import IncomingRequests
from discovery_engine.rpc.messages import (
    ConnectionClosedError,
    ErrorResponse,
    Notification,
    Request,
    Response,
    RpcError,
)
from discovery_engine.rpc.scheduling import FairScheduler
from discovery_engine.rpc.stream_peer import LineSink, StreamPeer
from discovery_engine.secrets.known_secrets import KNOWN_SECRETS
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.stdio.environment import (
    child_environment,
    environment_hint,
    is_harmless,
)
from discovery_engine.upstream.stdio.executable import on_this_machine
from discovery_engine.upstream.stdio.pipes import MessageReader, OnFault
from discovery_engine.upstream.stdio.process import ChildProcess, OnLines, supervise
from discovery_engine.upstream.stdio.reaper import Reaper
from discovery_engine.upstream.stdio.sandbox.launch import Launch
from discovery_engine.upstream.transport import (
    ForeignOutput,
    OnNotification,
    OnRequest,
    Transport,
    answer_request,
    encoded_answer,
    handshake_error,
    is_resource_exhausted,
    resources_exhausted,
    timed_out,
)

_LAST_OUTPUT = 1.0  # seconds for the output of a program that has exited
_LAST_ANSWERS = 30.0  # seconds, if that output takes long to parse
_SAMPLE_LENGTH = 80  # characters
_WAY_OUT = (
    "see its stderr; it runs in a sandbox ({sandbox}): if it lacks a file or the network, grant"
    " that with `read`, `write` or `network` under `sandbox`"
)


Confine: TypeAlias = Callable[[StdioTransport, Sequence[str], Mapping[str, str]], Launch]
"""The launch of a program, with its arguments and its variables, in its sandbox."""


class StdioCallbacks(NamedTuple):
    """Callbacks of a stdio session."""

    on_lost: Callable[[], None]
    on_fault: OnFault
    on_notification: OnNotification
    on_request: OnRequest
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
        self.peer: StreamPeer
        super().__init__(
            server, StreamPeer(child.stdin, on_request=_ignore, on_notification=self._notify)
        )
        self.child = child
        self.sandbox = ""
        """The sandbox that confines the program, described for people; empty without one."""
        self.hint_of: Callable[[str], str] = lambda _stderr: ""
        """The next step that its stderr shows, after a failed start; may be empty."""
        self._on_lost = callbacks.on_lost
        self._on_notification = callbacks.on_notification
        self._requests = ServerRequests(callbacks.on_request)
        self.reader = MessageReader(
            child.stdout,
            self.peer.pending,
            scheduler,
            on_end=self._lose,
            on_request=self._requests.accept,
            on_fault=callbacks.on_fault,
            limit=limit,
        )
        child.stdin.on_broken = self._lose_input

    async def receive(self) -> None:
        """Process the messages of the server until it closes."""
        async for message in self.reader:
            self.peer.deliver(message)
            del message  # as the reader drops it

    async def answer_requests(self) -> None:
        """Answer the requests of the server until cancelled."""
        try:
            await self._requests.write_answers(self.child.stdin)
        finally:
            await self._requests.working.close()

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
            self.server,
            FailureKind.EXITED,
            reason,
            hint=self._way_out,
            stderr=self.stderr,
            detail=output.detail,
        )

    def timeout_error(self, seconds: float) -> UnavailableError:
        return timed_out(self.server, seconds, output=self._foreign_output(), stderr=self.stderr)

    async def exit_reason(self) -> str:
        return f"it {await self.child.exit_reason()}"

    async def describe_loss(self, error: RpcError) -> str | None:
        is_loss = self.is_lost and isinstance(error, ConnectionClosedError)
        return await self.exit_reason() if is_loss else None

    def refusal_error(self, error: RpcError) -> None:  # noqa: ARG002 - never on a pipe
        return None

    def wants_new_session(self, error: RpcError) -> bool:  # noqa: ARG002 - never on a pipe
        return False

    @property
    def _way_out(self) -> str:
        """Advice for a program that exited; empty if nothing shows why."""
        if hint := self.hint_of(self.stderr):
            return hint
        if self.sandbox.partition(" ")[0] in ("", "none"):
            return ""
        return _WAY_OUT.format(sandbox=self.sandbox)

    def _foreign_output(self) -> ForeignOutput:
        """Return the text that it wrote to stdout and that is not MCP.

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

    def _lose_input(self) -> None:
        """Its stdin is broken, which may be noticed before its last answers are read."""
        if not self.is_lost:
            self._note_loss()
            loop = asyncio.get_running_loop()
            loop.call_later(_LAST_OUTPUT, self._close_if_idle, loop.time() + _LAST_ANSWERS)

    def _close_if_idle(self, latest: float) -> None:
        """Fail the requests in flight; while an answer is parsed, only at the time `latest`."""
        loop = asyncio.get_running_loop()
        if self.reader.is_idle or self.peer.is_closed or loop.time() >= latest:
            self.peer.close()
        else:
            loop.call_later(_LAST_OUTPUT, self._close_if_idle, latest)

    def _lose(self) -> None:
        self._note_loss()
        self.peer.close()

    def _notify(self, notification: Notification) -> None:
        if notification.method == "notifications/cancelled":
            self._requests.working.cancel(notification.params)
        else:
            self._on_notification(notification)

    def _note_loss(self) -> None:
        if not self.is_lost:
            self.is_lost = True
            self._on_lost()


def _ignore(request: Request) -> None:
    """Requests are answered by the reader, which bounds how many."""


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
async def open_pipe_transport(  # noqa: PLR0913 - each by its name
    server: ServerName,
    stdio: StdioTransport,
    environ: Mapping[str, str],
    reaper: Reaper,
    scheduler: FairScheduler,
    *,
    limit: int,
    callbacks: StdioCallbacks,
    confine: Confine | None = None,
    pass_env: Sequence[str] = (),
) -> AsyncIterator[PipeTransport]:
    """Start the program.

    `stdio` has its references resolved; `limit` is the longest message in bytes; `confine` puts
    the program into its sandbox, if it has one; `pass_env` is as `child_environment` takes it.

    Raises:
        UnavailableError: If there is no such program, it cannot be confined, or not be started.
    """
    env = child_environment(environ, stdio.env, pass_env)
    _redact_inherited(env, stdio.env)
    stdio = on_this_machine(server, stdio, env)
    command = [stdio.command, *stdio.args]
    launch = Launch(command, env, stdio.cwd)
    if confine is not None:  # it may try a program, and makes folders
        launch = await anyio.to_thread.run_sync(confine, stdio, command, env)
    try:
        async with _started(server, launch, reaper, scheduler, limit, callbacks) as transport:
            transport.hint_of = lambda stderr: environment_hint(server, stderr, environ, env)
            yield transport
    finally:
        if launch.temporary:
            with anyio.CancelScope(shield=True):
                delete = partial(shutil.rmtree, launch.temporary, ignore_errors=True)
                await anyio.to_thread.run_sync(delete)


def _redact_inherited(env: Mapping[str, str], declared: Mapping[str, str]) -> None:
    """Redact credentials in what a program inherits, such as the login of a proxy.

    Those of its entry are redacted anyway.
    """
    for name, value in env.items():
        if name not in declared and not is_harmless(name):
            KNOWN_SECRETS.add_certain(value, name)


@asynccontextmanager
async def _started(
    server: ServerName,
    launch: Launch,
    reaper: Reaper,
    scheduler: FairScheduler,
    limit: int,
    callbacks: StdioCallbacks,
) -> AsyncIterator[PipeTransport]:
    try:
        process = await reaper.start_program(
            launch.command, env=launch.env, cwd=launch.cwd, confinement=launch.confinement
        )
    except PermissionError as error:
        raise _not_started(server, launch.command[0], error, FailureKind.PERMISSION) from error
    except (OSError, ValueError) as error:
        raise _not_started(server, launch.command[0], error, FailureKind.OTHER) from error
    async with (
        supervise(process, on_lines=callbacks.on_stderr, pause=scheduler.pause) as child,
        open_task_group() as tasks,
    ):
        transport = PipeTransport(server, child, scheduler, limit=limit, callbacks=callbacks)
        transport.sandbox = launch.sandbox
        tasks.start_soon(transport.receive)
        tasks.start_soon(transport.answer_requests)
        try:
            yield transport
        finally:
            transport.peer.close()
        tasks.cancel_scope.cancel()


# The requests of a program: which are answered, and when their answers are written.
#
# Answers are queued until the program reads them. The queue is bounded: a program that sends
# requests and never reads gets no more answers.

_UNANSWERED = 1000  # requests in work, and answers that are not written yet
_WORKED_ON = 32  # requests
_ID_LENGTH = 200  # characters of an id that is sent back


class ServerRequests:
    def __init__(self, on_request: OnRequest) -> None:
        self._on_request = on_request
        self.working = IncomingRequests(most=_WORKED_ON)
        self._queue: list[bytes] = []
        self._arrived = anyio.Event()

    def accept(self, request: Request) -> bool:
        """Answer a request; False if its id is too long, or too many have no answer yet."""
        is_full = len(self._queue) + len(self.working) >= _UNANSWERED
        if is_full or len(str(request.id)) > _ID_LENGTH:
            return False
        answer_request(request, self._on_request, self.working, self._enqueue)
        return True

    async def write_answers(self, sink: LineSink) -> None:
        """Write the answers as fast as the program reads them, until cancelled."""
        while True:
            await self._arrived.wait()
            self._arrived = anyio.Event()
            lines, self._queue = self._queue, []
            sink.write(b"".join(lines))
            await sink.drain()

    def _enqueue(self, answer: Response | ErrorResponse | None) -> None:
        if answer is not None:  # otherwise the program has cancelled its request
            self._queue.append(encoded_answer(answer))
            self._arrived.set()
