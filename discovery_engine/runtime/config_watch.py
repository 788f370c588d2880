"""The files of a configuration, watched: which of them are not what they were.

    async with aclosing(changed_files(lambda: engine.settings.inputs)) as changes:
        async for paths in changes:
            ...

Folders are watched, not files: an editor puts a new file in the old one's place, and a file that
is not there yet has nothing to watch. What counts is the content, so that a file which is merely
touched, or written as it was, is no change. Who decides what to do about it is elsewhere.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import anyio
import anyio.to_thread

from discovery_engine._util.folder_watch import FolderWatch, Identity, nearest_folder
from discovery_engine.config.files.inputs import observe
from discovery_engine.config.settings import InputFile

logger = logging.getLogger(__name__)

_QUIET = 0.1  # seconds without an event after which a file is taken as written
_MOST_LOOKS = 10  # while one file that does not stop changing holds up the others
_POLL_EVERY = 5.0  # seconds between checks, for file systems without events

Stamp: TypeAlias = tuple[int, int, int]


async def changed_files(
    inputs: Callable[[], Iterable[InputFile]], *, poll_every: float = _POLL_EVERY
) -> AsyncGenerator[tuple[str, ...]]:
    """Yield the paths of changed, new and removed files, for ever, some at a time.

    Args:
        inputs: The files to watch and how they were read; called again after each change. A file
            that has changed since it was read is yielded at once.
        poll_every: Seconds after which the files are checked without an event.
    """
    seen = _FileStates()
    watch = FolderWatch()
    try:
        while True:
            files = tuple(inputs())
            watch.watch(await anyio.to_thread.run_sync(_folders, files))
            if changed := await _written(seen, files, watch):
                yield changed
            else:
                await watch.wait(poll_every)
    finally:
        watch.close()


async def _written(
    seen: _FileStates, files: tuple[InputFile, ...], watch: FolderWatch
) -> tuple[str, ...]:
    """Return the changed files once they stay as they are: half a file may be valid YAML, too."""
    changed: dict[str, None] = {}
    for looks in itertools.count():
        news = await anyio.to_thread.run_sync(seen.look, files, changed.keys())
        is_waited_for = looks >= _MOST_LOOKS and changed.keys() - set(news)
        if not news or is_waited_for:
            break
        changed |= dict.fromkeys(news)
        await watch.wait(_QUIET)
    return tuple(changed)


class _FileStates:
    """The files as they were at the last look."""

    def __init__(self) -> None:
        self._read: dict[str, InputFile] = {}
        self._now: dict[str, InputFile] = {}
        self._stamps: dict[str, Stamp | None] = {}

    def look(self, files: Iterable[InputFile], changing: Collection[str]) -> tuple[str, ...]:
        """The paths of the files that have changed since the last look.

        One that is `changing` need only have been written: two looks may find it empty, while it
        is written from its beginning again and again.
        """
        looks = [(file.path, *self._look(file)) for file in files]
        return tuple(
            path
            for path, has_changed, was_written in looks
            if has_changed or (was_written and path in changing)
        )

    def _look(self, read: InputFile) -> tuple[bool, bool]:
        """Return whether a file's content has changed, and whether it was written at all."""
        path = read.path
        if self._read.get(path) != read:  # it was read since the last look
            self._read[path] = self._now[path] = read
        before, stamp = self._now[path], self._stamps.get(path)
        self._stamps[path] = _stamp(path)  # before its content: what comes between is seen later
        self._now[path] = observe(path)
        return self._now[path] != before, self._stamps[path] != stamp


def _stamp(path: str) -> Stamp | None:
    """Return a stamp that every writing of a file changes; None if the file is not there."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _folders(files: Iterable[InputFile]) -> dict[str, Identity]:
    """The folders to watch: those of the files and of what they link to, as far as they exist."""
    places = {place for file in files for place in _places(Path(file.path))}
    return {
        str(folder): identity
        for place in sorted(places)
        if (nearest := nearest_folder(place))
        for folder, identity in [nearest]
    }


def _places(path: Path) -> Iterator[Path]:
    yield path.parent
    with suppress(OSError, RuntimeError):  # links that go round in a circle
        yield path.resolve().parent
