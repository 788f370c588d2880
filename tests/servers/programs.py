"""How tests reach the servers beside this file, and look after what is left of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from discovery_engine._util.json import JSONObject
from discovery_engine._util.tasks import open_task_group
from discovery_engine.config.settings import (
    RemoteTransport,
    ServerSettings,
    StdioTransport,
    Timeouts,
)
from discovery_engine.engine.upstreams import Upstreams
from discovery_engine.events import EventBus
from discovery_engine.secrets.resolver import EnvironmentResolver
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.call import QuestionSettings, QuestionsOf, UpstreamRequest
from discovery_engine.upstream.history import Policy
from discovery_engine.upstream.session_pool import open_sessions
from discovery_engine.upstream.transport_opening import SessionOptions

HERE = Path(__file__).parent


class Eras(dict[str, JSONObject]):
    """What servers speak, remembered in a dictionary."""

    def load_era(self, connection: str) -> JSONObject | None:
        return self.get(connection)

    def save_era(self, connection: str, era: JSONObject | None) -> None:
        if era is None:
            self.pop(connection, None)
        else:
            self[connection] = json.loads(json.dumps(era))


def fault_server(
    mode: str = "ok", *, era: str = "both", name: str = "faulty", **settings: Any
) -> ServerSettings:
    """A server that runs `fault_server.py` in a mode; it starts in some 50 ms.

    `program` names another file beside it, for instance `wire_server.py`.
    """
    program = settings.pop("program", "fault_server.py")
    arguments = ("-I", "-S", str(HERE / program), mode, "--era", era)
    transport = StdioTransport(sys.executable, arguments, env=settings.pop("env", {}))
    return ServerSettings(ServerName(name), transport, **settings)


@contextmanager
def http_server(mode: str, *more: str, program: str = "http_server.py") -> Iterator[str]:
    """The address of a program beside this file that serves HTTP, run in a mode."""
    with _serving(mode, *more, program=program) as [address]:
        yield address


@contextmanager
def http_servers(*modes: str, program: str = "http_server.py") -> Iterator[dict[str, str]]:
    """The address for each mode of one program that serves them all."""
    with _serving(*modes, program=program) as addresses:
        yield dict(zip(modes, addresses, strict=True))


@contextmanager
def _serving(*arguments: str, program: str) -> Iterator[list[str]]:
    command = [sys.executable, "-W", "ignore", str(HERE / program), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            ports = process.stdout.readline().split()
            yield [f"http://127.0.0.1:{int(port)}" for port in ports]
        finally:
            process.kill()


def remote_server(url: str, *, name: str = "remote", **settings: Any) -> ServerSettings:
    kind = settings.pop("kind", "auto")
    headers = settings.pop("headers", {})
    return ServerSettings(ServerName(name), RemoteTransport(url, headers, kind), **settings)


def program(command: str, *args: str, connect: float = 30.0, **fields: Any) -> ServerSettings:
    """A server that runs any program; `connect` is in seconds."""
    transport = StdioTransport(command, args, **fields)
    return ServerSettings(ServerName("broken"), transport, timeouts=Timeouts(connect=connect))


class TestedUpstreams(Upstreams):
    async def call(
        self, server: ServerSettings, tool: str, arguments: JSONObject, **options: Any
    ) -> JSONObject:
        """The result of a tool; `options` are those of `send`."""
        return await self.send(server, UpstreamRequest.call(tool, arguments), **options)


@asynccontextmanager
async def upstreams(
    *,
    events: EventBus | None = None,
    eras: Eras | None = None,
    environ: Mapping[str, str] = os.environ,
    idle_timeout: float = 300.0,
    max_connecting: int = 8,
    policy: Policy | None = None,
    questions: QuestionsOf | QuestionSettings | None = None,
    data: Path | None = None,
    pass_env: Callable[[], Sequence[str]] = tuple,
) -> AsyncIterator[TestedUpstreams]:
    secrets = EnvironmentResolver(environ)
    options = partial(
        SessionOptions,
        max_connecting=max_connecting,
        idle_timeout=idle_timeout,
        events=events or EventBus(),
        eras=Eras() if eras is None else eras,
        environ=environ,
        secrets=secrets,
        policy=policy or Policy(),
        questions_of=questions
        if callable(questions)
        else lambda _: questions or QuestionSettings(),
        admit=lambda server, transport: None,
        data=data,
        pass_env=pass_env,
        on_message=lambda _server, _method, _params: None,
    )
    async with open_task_group() as tasks:
        yield TestedUpstreams(
            tasks, lambda on_stderr: open_sessions(options(on_stderr=on_stderr)), secrets
        )
        tasks.cancel_scope.cancel()


async def call(
    opened: TestedUpstreams, server: ServerSettings, tool: str = "echo", **arguments: Any
) -> str:
    """The text that a tool answers."""
    with anyio.fail_after(60):
        return text_of(await opened.call(server, tool, arguments))


async def pid_of(opened: TestedUpstreams, server: ServerSettings) -> int:
    await opened.list_tools(server)
    stats = opened.states()[server.name].stats
    assert stats is not None
    assert stats.pid is not None
    return stats.pid


def text_of(result: JSONObject) -> str:
    text: str = result["content"][0]["text"]
    return text


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # gone before it was opened, or read
        return False
    return state != "Z"


def descendants(pid: int | None = None) -> set[int]:
    """The processes that a process started, and those that they started."""
    found: set[int] = set()
    waiting = [pid or os.getpid()]
    while waiting:
        tasks: list[Path] = []
        with suppress(FileNotFoundError, ProcessLookupError):  # so do processes
            tasks += Path(f"/proc/{waiting.pop()}/task").glob("*/children")
        for task in tasks:
            with suppress(FileNotFoundError, ProcessLookupError):  # threads come and go
                children = {int(child) for child in task.read_text("ascii").split()}
                waiting += children - found
                found |= children
    return found


@contextmanager
def none_left_running() -> Iterator[None]:
    """No program that was started inside runs on; one that was killed may take its time to end."""
    before = descendants()

    def left() -> set[int]:
        return {pid for pid in descendants() - before if is_running(pid)}

    yield
    if left():
        with suppress(TimeoutError):
            anyio.run(eventually, lambda: not left())
    assert left() == set()


def played(folder: Path, name: str, *, out: str = "", err: str = "", code: int = 0) -> Path:
    """A program that writes such output; its arguments are then in `NAME.argv` of the folder.

    Returns:
        The folder, which is its PATH.
    """
    answer = folder / f"{name}.json"
    answer.write_text(json.dumps([out, err, code]), "utf-8")
    program = folder / name
    program.write_text(
        f"#!{sys.executable} -S\n"
        "import json, os, pathlib, sys\n"
        f"own = pathlib.Path({str(folder / name)!r} + f'.{{os.getpid()}}')\n"
        "own.write_text(json.dumps(sys.argv[1:]))\n"
        f"own.replace({str(folder / name)!r} + '.argv')\n"  # two may run at once
        f"out, err, code = json.loads(pathlib.Path({str(answer)!r}).read_text())\n"
        "sys.stdout.write(out); sys.stderr.write(err); sys.exit(code)\n",
        "utf-8",
    )
    program.chmod(0o755)
    return folder


async def eventually(holds: Callable[[], bool], *, within: float = 60.0) -> None:
    """Wait for something that happens in another program, and of which nobody tells us."""
    with anyio.fail_after(within):
        while not holds():  # noqa: ASYNC110
            await anyio.sleep(0.01)
