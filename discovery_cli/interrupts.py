"""Ctrl-C: ends the command at any moment, with every server that it started.

The first SIGINT closes everything in order. The second one ends the process at once; the reaper
then ends its servers.

Python alone can lose a SIGINT: in a destructor or a callback the exception is only printed, and
between an event loop's last check and its sleep, it waits until something else wakes the loop. So
every SIGINT is recorded, and the signal itself wakes the loop.

Until this module is loaded, Python handles SIGINT. It therefore imports little: `typing` alone
takes longer than all of its imports.
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

    Python remembers a plain KeyboardInterrupt that passed through `eval`, as it may during imports,
    and then ends itself by the signal, whatever the exit code.
    """


class Interrupts:
    """The handling of SIGINT in one run; Python handles it before `heed`."""

    def __init__(self) -> None:
        self._are_heeded = False
        self._is_pressed = False
        self._has_cut_short = False
        self._has_hung_up = False
        self._ask: Callable[[], object] = _wait

    def heed(self) -> None:
        """Handle SIGINT from now on; no-op if it is ignored already, as with nohup."""
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._are_heeded = True
            signal.signal(signal.SIGINT, self._press)
            sys.unraisablehook = _tell_unless_pressed
            # Python restores the default handlers before its own clean-up is finished.
            atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)

    @contextmanager
    def raised(self) -> Iterator[None]:
        """Raise `Interruption` at a SIGINT in the block, in place of what the block raises."""
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
        """Return the result of `main`, run in a new event loop; a SIGINT cancels it.

        Raises:
            Interruption: After a SIGINT, once `main` has been closed.
        """
        import anyio

        # An event loop may run for a long time. Each collection of 700 objects, as is usual,
        # traversed all requests in flight; and among the modules of a start it took 4 % of it.
        gc.set_threshold(10_000, *gc.get_threshold()[1:])
        gc.enable()
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
        """Call `wait` at a SIGINT in the block, within `run`, and let the command continue.

        The exit code is that of an interruption anyway. With `hangs_up`, SIGHUP acts like SIGINT.
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
        """Exit as interrupted, since the terminal is gone; a SIGHUP is ignored from now on."""
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
        """Call `ask` at a SIGINT in the block; at once if one arrived before."""
        before, self._ask = self._ask, ask
        try:
            if self._is_pressed:
                ask()
            yield
        finally:
            self._ask = before

    @contextmanager
    def _noting_hang_up(self) -> Iterator[None]:
        """Treat a SIGHUP in the block as a SIGINT; no-op if SIGHUP has a handler or is ignored."""
        if not _HANG_UP or signal.getsignal(_HANG_UP) is not signal.SIG_DFL:
            yield
            return
        signal.signal(_HANG_UP, self._note_hang_up)
        try:
            yield
        finally:  # a terminal that closes may send two
            signal.signal(_HANG_UP, signal.SIG_IGN if self._has_hung_up else signal.SIG_DFL)

    def _note_hang_up(self, *_: object) -> None:
        self._has_hung_up = True
        self._press()

    @contextmanager
    def _waking(self, cancel: Callable[[], object]) -> Iterator[None]:
        """Wake the running loop at a SIGINT in the block, and call `cancel` in it."""
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
    """Wake the loop at every signal in the block, in whatever thread it arrives."""
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
    """Do nothing: the handler of a SIGINT that is deferred."""


def _interrupt() -> NoReturn:
    raise Interruption


def _tell_unless_pressed(unraisable: sys.UnraisableHookArgs) -> None:
    if not isinstance(unraisable.exc_value, Interruption):
        sys.__unraisablehook__(unraisable)
