"""Pauses of Python's garbage collector where it would find nothing.

It looks through all that lives whenever much was made, and an index or a large answer is much; but
making one leaves no cycle behind, so that there is nothing to find.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Pause:
    """Entered by several threads at once, it lasts until the last of them has left."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._inside = 0
        self._resumes = False

    def begin(self) -> None:
        with self._turn:
            if not self._inside:
                self._resumes = gc.isenabled()
                gc.disable()
            self._inside += 1

    def end(self) -> None:
        with self._turn:
            self._inside -= 1
            if not self._inside and self._resumes:
                gc.enable()


_pause = _Pause()


@contextmanager
def paused() -> Iterator[None]:
    """Collect nothing meanwhile, in no thread; keep it short. A collector that is off stays off."""
    _pause.begin()
    try:
        yield
    finally:
        _pause.end()


@contextmanager
def frozen() -> Iterator[None]:
    """Leave what lives already out of the collections in the block.

    A full collection of a gateway held its event loop for 54 ms, nearly all of it for modules. What
    is in a cycle when this begins stays for as long as the block, so that nothing big may be.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
