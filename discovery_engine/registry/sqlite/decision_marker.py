"""A small file beside the registry: the lock for decisions, and the sign that there are some.

Whoever decides, sets a damaged registry aside or restores one holds its lock. It names the newest
decision and the scopes that have any. That is not a third copy, but enough to notice that both
copies were lost, or that both are older than what was decided last.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from discovery_engine.registry.sqlite.locking import Turns, lock_file

_PRIVATE = 0o600
_LIMIT = 1 << 20  # bytes that are read of it


class Mark(Struct, frozen=True):
    number: int
    """Of the newest decision."""
    scopes: frozenset[str] | None
    """Those in which something was decided; None if that cannot be told."""


_UNREADABLE = Mark(1, None)  # that it is there says that there was a decision


class MarkFile:
    """The lock is one of this object's; within one thread it may be taken again."""

    def __init__(self, path: Path, turns: Turns) -> None:
        self.path = path
        self._turns = turns
        self._depth = 0

    def read(self) -> Mark | None:
        """None where nothing was decided yet."""
        try:
            with self.path.open("rb") as file:
                content = file.read(_LIMIT)
        except FileNotFoundError:
            return None
        except OSError:
            return _UNREADABLE
        return _mark(content) if content else None

    def write(self, number: int, scopes: Iterable[str]) -> None:
        """Not synced: after a power cut an older one says less, and nothing that is wrong."""
        content = json.dumps({"number": number, "scopes": sorted(scopes)}).encode("ascii")
        with os.fdopen(self._opened(), "r+b", buffering=0) as file:
            file.write(content + b"\n")
            file.truncate()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock among processes; a process that ends lets go of it.

        Raises:
            OSError: If that takes too long, or the file cannot be written.
        """
        if self._depth:
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
            return
        with self._turns.writing():
            descriptor = self._opened()
            try:
                self._turns.wait_for(lambda: lock_file(descriptor))
                self._depth = 1
                yield
            finally:
                self._depth = 0
                os.close(descriptor)

    def _opened(self) -> int:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(self.path, os.O_RDWR | os.O_CREAT, _PRIVATE)


def _mark(content: bytes) -> Mark:
    try:
        match json.loads(content):
            case {"number": int(number), "scopes": list(scopes)}:
                return Mark(number, frozenset(map(str, scopes)))
    except (ValueError, RecursionError):
        pass
    return _UNREADABLE
