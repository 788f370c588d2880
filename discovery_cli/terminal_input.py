"""Lines that a person types at the terminal; the event loop runs meanwhile."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Protocol

_MAX_TERMINAL_LINE_BYTES = 4096  # bytes; a terminal gives at most one line of so many


class TerminalClosedError(Exception):
    """Ctrl-D was pressed, or the terminal is gone."""

    def __init__(self, *, is_gone: bool) -> None:
        super().__init__("the terminal was closed")
        self.is_gone = is_gone
        """The terminal is gone: it can neither be read nor written."""


class TerminalInput:
    """Asks on stderr, and reads stdin, which must be a terminal."""

    async def line(self, prompt: str, *, is_hidden: bool = False) -> str:
        """A line, without its end.

        Raises:
            TerminalClosedError: If there will be no more.
        """
        # Hidden before it is asked for: what is pasted at once would be shown otherwise.
        with _hidden() if is_hidden else nullcontext():
            self.write(prompt, end="")
            text = await _read_line()
        if is_hidden:
            self.write("")
        return text

    def write(self, text: str, *, end: str = "\n") -> None:
        with suppress(OSError):  # the terminal is gone, which reading reports
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
    # A terminal is readable once a whole line is there, or Ctrl-D was pressed. A thread could not
    # be interrupted, and `readline` would stop the event loop until the end of a line.
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
    """A block in which the terminal does not show what is typed."""
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
        """Remove it from the terminal, and repaint nothing."""

    def resume(self) -> None: ...


class Screen:
    def __init__(self) -> None:
        self._movement: Movement | None = None

    @contextmanager
    def moving(self, movement: Movement) -> Iterator[None]:
        """A block in which `movement` repaints the terminal."""
        self._movement = movement
        try:
            yield
        finally:
            self._movement = None

    @contextmanager
    def still(self) -> Iterator[None]:
        """A block in which nothing repaints the terminal."""
        movement = self._movement
        if movement:
            movement.pause()
        try:
            yield
        finally:
            if movement:
                movement.resume()
