"""The command `discovery` in processes of its own that need not load it again.

    with preloaded() as run:
        run(["list"], cwd=..., environ=...)

One program loads what any command may need, then forks for each run: the fork has its own
folder, environment and streams, and runs `main` as a fresh start would. Beside a fresh start it
saves what loading costs, which is most of it. What a test has to say about loading itself, or
about Python's own variables, is not for it.

Coverage counts what a run does if it is `measured`, which makes it take twice as long: those are
that show what a command does, not those that show what many commands leave alone.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import pkgutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import discovery_cli
import discovery_engine
import discovery_server
from discovery_cli.main import main
from discovery_engine._util.text import one_line

ROOT = Path(__file__).parents[1]
_NOT_NEEDED = (
    "discovery_engine.integrations.",  # each needs its framework
    "discovery_engine.store.postgres.",  # needs its driver, which is an extra
    "discovery_engine.engine.vector_cache",  # as well
    "discovery_engine.upstream.http",
    "discovery_engine.search.arrays",  # is numpy
    "discovery_engine.search.embedders",
)
_WITHIN_FUNCTIONS = ("anyio._backends._asyncio", "difflib", "jellyfish")
"""What our modules import when they need it."""
_PATIENCE = 60.0  # seconds for the program to end
_MESSAGE = 1 << 20  # bytes of a request, at most


@dataclass(frozen=True)
class Finished:
    """How a run ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return json.loads(self.err)["error"]


class Preloaded:
    """Made by `preloaded`. One command runs at a time."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def __call__(
        self,
        words: Sequence[str],
        *,
        cwd: Path,
        environ: Mapping[str, str],
        stdin: bytes = b"",
        measured: bool = False,
    ) -> Finished:
        (inlet, feed), (out, outlet), (err, errlet) = (os.pipe() for _ in range(3))
        streams = (inlet, outlet, errlet)
        self.start(words, streams, cwd=cwd, environ=environ, measured=measured)
        with ThreadPoolExecutor(3) as pool:
            pool.submit(_feed, feed, stdin)
            readers = [pool.submit(drained, stream) for stream in (out, err)]
            written = [reader.result().decode() for reader in readers]
        return Finished(self.wait(), *written)

    def start(
        self,
        words: Sequence[str],
        streams: tuple[int, int, int],
        *,
        cwd: Path,
        environ: Mapping[str, str],
        measured: bool = False,
    ) -> None:
        """Start a command; its stdin, stdout and stderr are closed here, and `wait` must follow."""
        request = {"words": list(words), "cwd": str(cwd), "environ": dict(environ)}
        message = json.dumps({**request, "measured": measured}).encode()
        from tests import kinds  # of the process that tests; the other one has no pytest

        kinds.count("programs")
        socket.send_fds(self._channel, [message], streams)
        for stream in set(streams):
            os.close(stream)

    def wait(self) -> int:
        """The exit code of the command that was started."""
        return int(self._channel.recv(16))


@contextmanager
def preloaded(*modules: str, python: Path | None = None) -> Iterator[Preloaded]:
    """Yield what runs the command; it loads what it needs once, and further modules with it.

    `python` is the interpreter of another environment, whose command it is then.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    program = [python, "-P", __file__] if python else [sys.executable, "-m", "tests.forked"]
    command = [*program, str(theirs.fileno()), *modules]
    environ = {**os.environ, "PYTHONUTF8": "1"}
    with (
        ours,
        subprocess.Popen(command, cwd=ROOT, env=environ, pass_fds=[theirs.fileno()]) as program,
    ):
        theirs.close()
        yield Preloaded(ours)
        ours.close()  # whereupon it ends
        program.wait(_PATIENCE)


def _feed(stream: int, data: bytes) -> None:
    with open(stream, "wb") as pipe:
        pipe.write(data)


def drained(stream: int) -> bytes:
    with open(stream, "rb") as pipe:
        return pipe.read()


def _serve(channel: socket.socket, modules: Sequence[str]) -> None:
    _load(modules)
    if coverage := _coverage():
        coverage.save()  # else each fork would write what loading covered once more
    gc.freeze()
    while request := socket.recv_fds(channel, _MESSAGE, 3):
        asked, streams, _, _ = request
        if not asked:
            return
        pid = os.fork()
        if not pid:
            channel.close()
            _run(json.loads(asked), streams)
        for stream in streams:
            os.close(stream)
        _, status = os.waitpid(pid, 0)
        channel.send(str(os.waitstatus_to_exitcode(status)).encode())


def _load(modules: Sequence[str]) -> None:
    """All modules of our own, but those that no command needs, or few, and are slow to load.

    What is missing is loaded by each fork again: the parser of configurations takes 0.15 s.
    """
    for package in (discovery_cli, discovery_engine, discovery_server):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.startswith(_NOT_NEEDED) and not module.name.endswith("__main__"):
                import_module(module.name)
    for name in (*_WITHIN_FUNCTIONS, *modules):
        import_module(name)
    one_line("\u2713\x1b")  # whose patterns take 20 ms to compile


def _coverage() -> Any:
    """What measures coverage in this process, if anything does."""
    coverage = sys.modules.get("coverage")
    return coverage and coverage.Coverage.current()


def _run(asked: dict[str, Any], streams: Sequence[int]) -> NoReturn:
    """What a fresh start would do, in this fork."""
    if not asked["measured"] and (coverage := _coverage()):
        coverage.stop()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environ"])
    sys.argv = ["discovery", *asked["words"]]
    code: Any = 0
    try:
        main()
    except SystemExit as left:
        code = left.code
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    # Coverage is kept there; to take down all that is loaded would cost as much as loading it.
    atexit._run_exitfuncs()
    os._exit(code or 0)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        _serve(channel, sys.argv[2:])
