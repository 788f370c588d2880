"""Input from the terminal: lines without blocking the event loop, and questions of commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Protocol

import click

if TYPE_CHECKING:
    from discovery_cli.output import Output

_MAX_TERMINAL_LINE_BYTES = 4096  # bytes; the longest line that a terminal delivers


class TerminalClosedError(Exception):
    """Ctrl-D was pressed, or the terminal is gone."""

    def __init__(self, *, is_gone: bool) -> None:
        super().__init__("the terminal was closed")
        self.is_gone = is_gone
        """True if the terminal can be neither read nor written any more."""


class TerminalInput:
    """Prompts on stderr, and reads lines from stdin, which must be a terminal."""

    async def line(self, prompt: str, *, is_hidden: bool = False) -> str:
        """Return a line without its end.

        Raises:
            TerminalClosedError: If no further line will come.
        """
        # Hidden before the prompt: text that is pasted at once would be shown otherwise.
        with _hidden() if is_hidden else nullcontext():
            self.write(prompt, end="")
            text = await _read_line()
        if is_hidden:
            self.write("")
        return text

    def write(self, text: str, *, end: str = "\n") -> None:
        with suppress(OSError):  # the terminal is gone, which the next read reports
            sys.stderr.write(text + end)
            sys.stderr.flush()


async def _read_line() -> str:
    import anyio
    import anyio.to_thread

    if sys.platform == "win32":
        text = await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
        if not text:
            raise TerminalClosedError(is_gone=False)
        return text.rstrip("\r\n")
    # A terminal becomes readable with a whole line or Ctrl-D. Reading in a thread could not be
    # interrupted, and `readline` here would block the event loop.
    line = b""
    while not line.endswith(b"\n"):
        await anyio.wait_readable(sys.stdin)
        try:
            part = os.read(sys.stdin.fileno(), _MAX_TERMINAL_LINE_BYTES)
        except OSError:
            part = b""
        if not part:
            raise TerminalClosedError(is_gone=not sys.stdin.isatty())
        line += part
    return line.decode(sys.stdin.encoding or "utf-8", "replace").rstrip("\r\n")


@contextmanager
def _hidden() -> Iterator[None]:
    """Turn off the terminal's echo in the block."""
    try:
        import termios
    except ImportError:
        yield
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    quiet = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
    try:
        termios.tcsetattr(terminal, termios.TCSADRAIN, quiet)
        yield
    finally:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)


class Movement(Protocol):
    """A display that repaints the terminal by itself."""

    def pause(self) -> None:
        """Remove it from the terminal, and stop repainting."""

    def resume(self) -> None: ...


class Screen:
    def __init__(self) -> None:
        self._movement: Movement | None = None

    @contextmanager
    def moving(self, movement: Movement) -> Iterator[None]:
        """Register `movement` as the display that repaints the terminal in the block."""
        self._movement = movement
        try:
            yield
        finally:
            self._movement = None

    @contextmanager
    def still(self) -> Iterator[None]:
        """Pause the display in the block, if there is one."""
        movement = self._movement
        if movement:
            movement.pause()
        try:
            yield
        finally:
            if movement:
                movement.resume()


# Questions to the person who runs a command, before its event loop or beside it.


def may_ask() -> bool:
    """Return whether questions can be asked on a terminal."""
    return sys.stdin.isatty() and not os.environ.get("DISCOVERY_NO_PROMPT")


def is_agreed(output: Output, question: str, *, yes: bool = False) -> bool:
    """Return whether the owner agrees; False with `--json` or without a terminal to ask on."""
    return yes or (not output.as_json and may_ask() and click.confirm(question, err=True))


def confirm(question: str, *, yes: bool) -> bool:
    """Ask a yes-or-no question; with `yes` return True without asking.

    Raises:
        UsageError: If there is no terminal to ask on.
    """
    if yes:
        return True
    if not may_ask():
        raise click.UsageError(
            "there is no terminal to ask on; use --yes to do it, or --dry-run to preview it"
        )
    return click.confirm(question, default=True, err=True)


def typed_value(question: str) -> str:
    """Prompt for a value without echoing it; empty if the user enters nothing."""
    value: str = click.prompt(question, hide_input=True, err=True, default="", show_default=False)
    return value
