"""A small file beside the registry: the lock for decisions, and a marker that decisions exist.

Its lock is held while a decision is written and while a damaged registry is replaced or restored.
It contains the number of the newest decision and the scopes that have decisions. That is not a
third copy, but it shows whether both copies were lost or are older than the newest decision.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from discovery_engine._util.digests import blake2b
from discovery_engine._util.file_lock import lock_file
from discovery_engine.registry.sqlite.busy_handler import BusyHandler

_PRIVATE = 0o600
_DIGEST = 8  # bytes
_LIMIT = 1 << 20  # bytes that are read of it
# Nanoseconds: within them a file may change twice, and show one time of change.
_COARSEST_CLOCK = 2_000_000_000


class DecisionMarker(Struct, frozen=True):
    number: int
    """Of the newest decision."""
    scopes: frozenset[str] | None
    """The scopes that have decisions; None if unknown."""
    journal: tuple[int, ...] | None = None
    """The stamp of the journal when every line of it held; None if that was not written."""
    is_settled: bool = False
    """Whether a later change of the journal must show in its stamp."""


_UNREADABLE = DecisionMarker(1, None)  # the file exists, so there was a decision


class DecisionMarkerFile:
    """Its lock belongs to this object and is reentrant within one thread."""

    def __init__(self, path: Path, busy: BusyHandler) -> None:
        self.path = path
        self._busy = busy
        self._depth = 0

    def read(self) -> DecisionMarker | None:
        """None if there was no decision yet."""
        try:
            with self.path.open("rb") as file:
                content = file.read(_LIMIT)
                written = os.fstat(file.fileno()).st_mtime_ns
        except FileNotFoundError:
            return None
        except OSError:
            return _UNREADABLE
        return _mark(content, written) if content else None

    def write(
        self, number: int, scopes: Iterable[str], journal: tuple[int, ...] | None = None
    ) -> None:
        """Not synced: after a power cut an older marker is incomplete, but not wrong.

        One that is torn between two shows by its checksum.

        Args:
            number: Of the newest decision.
            scopes: Those in which something was decided.
            journal: The stamp of the journal, if every line of it holds.
        """
        named = sorted(scopes)
        fields = {"number": number, "scopes": named, "journal": journal}
        fields["checksum"] = _checksum(number, named, journal)
        content = json.dumps(fields).encode("ascii")
        with os.fdopen(self._opened(), "r+b", buffering=0) as file:
            file.write(content + b"\n")
            file.truncate()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock among processes; the lock of a process that ends is released.

        Raises:
            OSError: On timeout, or if the file cannot be written.
        """
        if self._depth:
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
            return
        with self._busy.writing():
            descriptor = self._opened()
            try:
                self._busy.retry(lambda: lock_file(descriptor))
                self._depth = 1
                yield
            finally:
                self._depth = 0
                os.close(descriptor)

    def _opened(self) -> int:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(self.path, os.O_RDWR | os.O_CREAT, _PRIVATE)


def _mark(content: bytes, written: int) -> DecisionMarker:
    """The mark of a file that was `written` then, in Unix nanoseconds."""
    try:
        match json.loads(content):
            case {"number": int(number), "scopes": list(scopes), **rest}:
                stamp = rest.get("journal")
                # An older version of the program writes none.
                if rest.get("checksum") not in (None, _checksum(number, scopes, stamp)):
                    return _UNREADABLE
                named = frozenset(map(str, scopes))
                match stamp:
                    case [int(size), int(changed), int(file)]:
                        is_settled = written - changed > _COARSEST_CLOCK
                        return DecisionMarker(number, named, (size, changed, file), is_settled)
                return DecisionMarker(number, named)
    except (ValueError, RecursionError):
        pass
    return _UNREADABLE


def _checksum(*fields: object) -> str:
    return blake2b(json.dumps(fields).encode("ascii"), digest_size=_DIGEST).hexdigest()
