"""Values that programs write: `${command:["pass", "show", "github"]}`.

A command is run when a session needs its value, and never to show or check something. What it
writes is held in memory alone. It gets no stdin and no terminal, so it can ask nothing, and its
stderr is dropped: a password manager may write there what it was asked for.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from discovery_engine.secrets.references import Reference, UnsetReference

_COMMAND_TIMEOUT = 5.0  # seconds
_MAX_COMMAND_OUTPUT_BYTES = 64 * 1024  # bytes, as of a file that a reference names
_WITHHELD = ("DISCOVERY_SECRET", "DISCOVERY_STATE_KEY", "DISCOVERY_TOKEN")
"""How names of variables begin that hold what only this program needs."""


class CommandOutputs:
    """The outputs of commands when this process last ran them."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._found: dict[tuple[Reference, str | None], str | _CommandError] = {}

    def value(self, reference: Reference, base_dir: str | None) -> str:
        """Return what the command wrote.

        Raises:
            UnsetReference: If it failed, or was not run.
        """
        output = self._found.get((reference, base_dir), _NOT_RUN)
        if isinstance(output, _CommandError):
            raise UnsetReference(reference.redacted()[2:-1], str(output))
        return output

    def run(self, reference: Reference, base_dir: str | None) -> None:
        """Run the command, in the folder `base_dir`."""
        try:
            output: str | _CommandError = self._output(reference.argv, base_dir)
        except _CommandError as failure:
            output = failure
        self._found[reference, base_dir] = output

    def _output(self, argv: tuple[str, ...], base_dir: str | None) -> str:
        environ = {k: v for k, v in self._environ.items() if not k.startswith(_WITHHELD)}
        program = _program(argv[0], environ, base_dir)
        try:
            process = subprocess.Popen(
                [program, *argv[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=base_dir,
                env=environ,
                start_new_session=True,  # without a terminal, and ended with all that it starts
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "its words cannot be used"
            raise _CommandError(f"cannot be run: {reason}") from None
        with process:
            try:
                return _line(process, _COMMAND_TIMEOUT)
            except _CommandError:
                _end(process)
                raise


class _CommandError(Exception):
    """Why a command has no output; the reason quotes nothing of it."""


_NOT_RUN = _CommandError("has not been run")


def _program(word: str, environ: Mapping[str, str], base_dir: str | None) -> str:
    program = os.path.expanduser(word)  # noqa: PTH111 - a bare name must stay one
    if os.path.dirname(program):  # noqa: PTH120 - `./get` is a path, `get` is a name
        program = str(Path(base_dir or ".").absolute() / program)
    if executable := shutil.which(program, path=environ.get("PATH", os.defpath)):
        return executable
    raise _CommandError("cannot be run: there is no such program")


def _line(process: subprocess.Popen[bytes], timeout: float) -> str:
    """The one line that a program writes before it exits with 0."""
    deadline = time.monotonic() + timeout
    output = bytearray()
    # A thread, as pipes cannot be polled everywhere. It has a descriptor of its own, which it may
    # read for as long as a daemon that the program left behind holds on to its stdout.
    descriptor = os.dup(process.stdout.fileno()) if process.stdout else -1
    reader = threading.Thread(target=_read, args=(descriptor, output), daemon=True)
    reader.start()
    reader.join(timeout)
    if reader.is_alive():
        raise _CommandError(f"took more than {timeout:g} seconds")
    if len(output) > _MAX_COMMAND_OUTPUT_BYTES:
        raise _CommandError(f"wrote more than {_MAX_COMMAND_OUTPUT_BYTES // 1024} KiB")
    try:
        status = process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise _CommandError(f"took more than {timeout:g} seconds") from None
    if status:
        how = f"exited with status {status}" if status > 0 else f"was ended by signal {-status}"
        raise _CommandError(f"{how}; run it in a terminal to see why")
    return _checked(bytes(output))


def _read(descriptor: int, output: bytearray) -> None:
    """Read to the end, or one byte more than may be written; closes the descriptor."""
    with suppress(OSError):
        while len(output) <= _MAX_COMMAND_OUTPUT_BYTES and (
            chunk := os.read(descriptor, _MAX_COMMAND_OUTPUT_BYTES)
        ):
            output += chunk
    os.close(descriptor)


def _checked(output: bytes) -> str:
    try:
        text = output.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:  # its message would show a byte of the secret
        raise _CommandError("wrote what is not UTF-8 text") from None
    if not text:
        raise _CommandError("wrote nothing")
    if {"\n", "\r", "\0"} & set(text):
        raise _CommandError("wrote more than one line")
    return text


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program that failed, and what it started; an agent that it left behind may stay."""
    if sys.platform != "win32":
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
