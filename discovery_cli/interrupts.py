"""Ctrl-C: it ends the command at any moment, and with it every server that was started.

The first press asks, and all is closed. The second ends the process on the spot; the reaper then
ends its servers.

Left to Python, a press can be lost. One that falls into a destructor or a callback is reported
there and forgotten. One that falls between an event loop's last look and its sleep is not seen
before something else wakes the loop, be that half a minute. So every press is noted until it was
obeyed, and the signal itself wakes the loop.

Until this is loaded presses are Python's. So it loads little: `typing` alone takes longer than
what is loaded here.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from typing import NoReturn, TypeVar

    T = TypeVar("T")


_INTERRUPTED = 130  # exit code
_HANG_UP = getattr(signal, "SIGHUP", None)  # Windows has none


class Interruption(KeyboardInterrupt):
    """Ctrl-C was pressed.

    Of a plain KeyboardInterrupt the interpreter remembers if it passed through `eval`, as it may
    while modules are loaded; it then ends itself by the signal, whatever the exit code.
    """


class Interrupts:
    """The SIGINTs of one run; before `heed` Python handles them."""

    def __init__(self) -> None:
        self._are_heeded = False
        self._is_pressed = False
        self._has_cut_short = False
        self._has_hung_up = False
        self._ask: Callable[[], object] = _wait

    def heed(self) -> None:
        """Handle SIGINT from now on; no-op if it is ignored by inheritance (as with nohup)."""
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._are_heeded = True
            signal.signal(signal.SIGINT, self._press)
            sys.unraisablehook = _tell_unless_pressed
            # Python restores the default handlers before its own clean-up is finished.
            atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)

    @contextmanager
    def raised(self) -> Iterator[None]:
        """A block that a SIGINT ends with `Interruption`, whatever else it raises."""
        try:
            with self._asking(_interrupt):
                yield
        except BrokenPipeError:  # the reader has exited, too
            raise
        except BaseException:
            self._check()
            raise
        self._check()

    def run(self, main: Callable[[], Awaitable[T]]) -> T:
        """The result of `main` in an event loop of its own, in which a SIGINT cancels it.

        Raises:
            Interruption: After a press, once all is closed.
        """
        import anyio

        gc.enable()  # an event loop may run for a long time
        results: list[T] = []

        async def until_pressed() -> None:
            with anyio.CancelScope() as scope, self._waking(scope.cancel):
                results.append(await main())

        with self._asking(_wait):
            anyio.run(until_pressed)
        self._check()
        [result] = results
        return result

    @contextmanager
    def cutting_short(
        self, wait: Callable[[], object], *, hangs_up: bool = False
    ) -> Iterator[None]:
        """A block within `run` in which a SIGINT calls `wait`, and the command continues.

        It leaves as interrupted all the same. With `hangs_up` a SIGHUP is like a SIGINT.
        """
        import asyncio

        def cut_short() -> None:
            if self._is_pressed:
                self._is_pressed, self._has_cut_short = False, True
                wait()

        loop = asyncio.get_running_loop()
        asking = self._asking(partial(loop.call_soon_threadsafe, cut_short))
        with asking, self._noting_hang_up() if hangs_up else nullcontext():
            yield

    def hang_up(self) -> None:
        """Leave as interrupted, since the terminal is gone; a SIGHUP for that is ignored."""
        self._has_cut_short = self._has_hung_up = True
        if _HANG_UP and signal.getsignal(_HANG_UP) is not signal.SIG_IGN:
            signal.signal(_HANG_UP, signal.SIG_IGN)

    def leave(self, code: int) -> NoReturn:
        """Exit with a code; a SIGINT from now on ends the process at once."""
        code = _INTERRUPTED if self._has_cut_short else code
        self._ask = partial(os._exit, code)
        sys.exit(code)

    def _press(self, *_: object) -> None:
        self._is_pressed = True
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        self._ask()

    def _check(self) -> None:
        if self._is_pressed:
            raise Interruption

    @contextmanager
    def _asking(self, ask: Callable[[], object]) -> Iterator[None]:
        """A block in which a SIGINT calls `ask`; at once if one arrived before."""
        before, self._ask = self._ask, ask
        try:
            if self._is_pressed:
                ask()
            yield
        finally:
            self._ask = before

    @contextmanager
    def _noting_hang_up(self) -> Iterator[None]:
        """A block in which a SIGHUP is a press; no-op if it is ignored by inheritance."""
        if not _HANG_UP or signal.getsignal(_HANG_UP) is not signal.SIG_DFL:
            yield
            return
        signal.signal(_HANG_UP, self._note_hang_up)
        try:
            yield
        finally:  # of a terminal that is gone there may be two
            signal.signal(_HANG_UP, signal.SIG_IGN if self._has_hung_up else signal.SIG_DFL)

    def _note_hang_up(self, *_: object) -> None:
        self._has_hung_up = True
        self._press()

    @contextmanager
    def _waking(self, cancel: Callable[[], object]) -> Iterator[None]:
        """A block in which a SIGINT wakes the running loop, which then calls `cancel`."""
        import asyncio

        loop = asyncio.get_running_loop()
        with self._asking(partial(loop.call_soon_threadsafe, cancel)):
            if self._are_heeded and sys.platform != "win32":  # the Windows loop wakes itself
                with _woken_by_signals(loop):
                    yield
            else:
                yield


@contextmanager
def _woken_by_signals(loop: AbstractEventLoop) -> Iterator[None]:
    """A block in which every signal wakes the loop, in whatever thread it is delivered."""
    import socket

    bell, wire = socket.socketpair()
    with bell, wire:
        bell.setblocking(False)
        wire.setblocking(False)
        loop.add_reader(bell, bell.recv, 1024)
        before = signal.set_wakeup_fd(wire.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            loop.remove_reader(bell)


def _wait() -> None:
    """Placeholder while a SIGINT is deferred."""


def _interrupt() -> NoReturn:
    raise Interruption


def _tell_unless_pressed(unraisable: sys.UnraisableHookArgs) -> None:
    if not isinstance(unraisable.exc_value, Interruption):
        sys.__unraisablehook__(unraisable)
