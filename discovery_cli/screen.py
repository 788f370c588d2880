"""The terminal that a run writes to: it shows progress, or asks a person, never both at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


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
