"""Folders, watched: waits until something happens in one of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import anyio
import anyio.to_thread

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

logger = logging.getLogger(__name__)

_QUIET = 200  # milliseconds between two looks, and without an event after a change
_LONGEST_CHANGE = 800  # milliseconds after which the debounce ends
_POLL = 1.0  # seconds between two looks where nothing can be watched

Identity: TypeAlias = tuple[int, int]
"""Device and inode of a folder."""


class FolderWatch:
    """Whatever happens after `watch` ends the next `wait`, also if none was running."""

    def __init__(self) -> None:
        self._folders: Mapping[str, Identity] = {}
        self._notify: RustNotify | None = None
        # A thread of its own: the ones that all share must not run out.
        self._limiter = anyio.CapacityLimiter(1)

    def watch(self, folders: Mapping[str, Identity]) -> None:
        """Watch these folders from now on; one that was replaced is another one."""
        if folders == self._folders and self._notify:
            return
        self.close()
        # The public `awatch` neither reports when it begins to watch nor stops at once. Loading it
        # takes longer than loading the engine, and commands that read watch nothing.
        from watchfiles._rust_notify import RustNotify  # noqa: PLC0415

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
        except (OSError, RuntimeError) as error:  # for example the system's limit of watches
            logger.info(
                "Folders are polled every %g s, as they cannot be watched: %s", _POLL, error
            )

    async def wait(self, seconds: float) -> None:
        """Until something happened and it is quiet again, or so many seconds have passed."""
        if self._notify is None:
            await anyio.sleep(min(seconds, _POLL))
            return
        stop = threading.Event()
        listen = partial(self._notify.watch, _LONGEST_CHANGE, _QUIET, int(seconds * 1000), stop)
        try:
            await anyio.to_thread.run_sync(listen, abandon_on_cancel=True, limiter=self._limiter)
        except RuntimeError as error:
            logger.info("Watching folders failed and is started again: %s", error)
            self.close()
        finally:
            stop.set()

    def close(self) -> None:
        if self._notify:
            self._notify.close()
        self._notify = None


def nearest_folder(place: Path) -> tuple[Path, Identity] | None:
    """A folder, or the nearest above it that exists: the rest of the way may come later."""
    for folder in (place, *place.parents):
        with suppress(OSError):
            status = folder.stat()
            if folder.is_dir():
                return folder, (status.st_dev, status.st_ino)
    return None
