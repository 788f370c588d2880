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
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeAlias

import anyio
import anyio.to_thread

# The public `awatch` has no way to say when it begins to watch, nor how to stop it at once.
from watchfiles._rust_notify import RustNotify

from discovery_engine.config.files.inputs import observe
from discovery_engine.config.settings import InputFile

logger = logging.getLogger(__name__)

_QUIET = 100  # milliseconds without an event after which a file is taken as written
_LONGEST_BUSTLE = 800  # milliseconds after which nobody waits for quiet any more
_MOST_LOOKS = 10  # while one file that does not stop changing holds up the others
_LOOK_EVERY = 5.0  # seconds between two looks, for places that tell of nothing (network, some VMs)
_LOOK_UNTOLD = 1.0  # the same, where nothing can be watched at all

Identity: TypeAlias = tuple[int, int]
Stamp: TypeAlias = tuple[int, int, int]


async def changed_files(
    inputs: Callable[[], Iterable[InputFile]], *, look_every: float = _LOOK_EVERY
) -> AsyncGenerator[tuple[str, ...]]:
    """Yield the paths of changed, new and removed files, for ever, some at a time.

    Args:
        inputs: The files to watch and how they were read; asked again after each change. A file
            that has changed since it was read is told first of all.
        look_every: Seconds after which the files are looked at although nothing was heard.
    """
    seen = _Seen()
    bell = _Bell()
    try:
        while True:
            files = tuple(inputs())
            bell.listen_in(await anyio.to_thread.run_sync(_folders, files))
            if changed := await _written(seen, files, bell):
                yield changed
            else:
                await bell.wait(look_every)
    finally:
        bell.close()


async def _written(seen: _Seen, files: tuple[InputFile, ...], bell: _Bell) -> tuple[str, ...]:
    """What has changed, once it stays as it is: half a file may be good YAML, too."""
    changed: dict[str, None] = {}
    for looks in itertools.count():
        news = await anyio.to_thread.run_sync(seen.look, files, changed.keys())
        is_waited_for = looks >= _MOST_LOOKS and changed.keys() - set(news)
        if not news or is_waited_for:
            break
        changed |= dict.fromkeys(news)
        await bell.wait(_QUIET / 1000)
    return tuple(changed)


class _Seen:
    """What the files were at the last look."""

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
        """Whether a file's content is another one, and whether it was written at all."""
        path = read.path
        if self._read.get(path) != read:  # it was read since the last look
            self._read[path] = self._now[path] = read
        before, stamp = self._now[path], self._stamps.get(path)
        self._stamps[path] = _stamp(path)  # before its content: what comes between is seen later
        self._now[path] = observe(path)
        return self._now[path] != before, self._stamps[path] != stamp


class _Bell:
    """Wakes one who waits when something happens in the folders in question."""

    def __init__(self) -> None:
        self._folders: Mapping[str, Identity] = {}
        self._notify: RustNotify | None = None
        # A thread of its own: the ones that all share must not run out.
        self._limiter = anyio.CapacityLimiter(1)

    def listen_in(self, folders: Mapping[str, Identity]) -> None:
        """Watch these folders from now on; one that was replaced is another one."""
        if folders == self._folders and self._notify:
            return
        self.close()
        self._folders = folders
        try:
            self._notify = RustNotify(
                list(folders),
                debug=False,
                force_polling=False,
                poll_delay_ms=0,
                recursive=False,
                ignore_permission_denied=True,
            )
        except (OSError, RuntimeError) as error:  # the system's limit of watches, say
            logger.info("Files are looked at every %g s: %s", _LOOK_UNTOLD, error)

    async def wait(self, seconds: float) -> None:
        """Until something happened and it is quiet again, or so many seconds have passed."""
        if self._notify is None:
            await anyio.sleep(min(seconds, _LOOK_UNTOLD))
            return
        stop = threading.Event()
        listen = partial(self._notify.watch, _LONGEST_BUSTLE, _QUIET, int(seconds * 1000), stop)
        try:
            await anyio.to_thread.run_sync(listen, abandon_on_cancel=True, limiter=self._limiter)
        except RuntimeError as error:
            logger.info("Watching files failed and is begun anew: %s", error)
            self.close()
        finally:
            stop.set()

    def close(self) -> None:
        if self._notify:
            self._notify.close()
        self._notify = None


def _stamp(path: str) -> Stamp | None:
    """What every writing of a file changes; None if it is not there."""
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
        if (found := _nearest(place))
        for folder, identity in [found]
    }


def _places(path: Path) -> Iterator[Path]:
    yield path.parent
    with suppress(OSError, RuntimeError):  # links that go round in a circle
        yield path.resolve().parent


def _nearest(place: Path) -> tuple[Path, Identity] | None:
    """A folder, or the nearest above it that exists: the rest of the way may come later."""
    for folder in (place, *place.parents):
        with suppress(OSError):
            status = folder.stat()
            if folder.is_dir():
                return folder, (status.st_dev, status.st_ino)
    return None
