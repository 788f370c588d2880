"""Waits for changes in folders."""

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

_QUIET = 200  # milliseconds without an event that end a change
_LONGEST_CHANGE = 800  # milliseconds after which the debounce ends
_POLL = 1.0  # seconds between two checks if folders cannot be watched

Identity: TypeAlias = tuple[int, int]
"""Device and inode of a folder."""


class FolderWatch:
    """Watches folders: a change after `watch` ends the next `wait`, even if none was running."""

    def __init__(self) -> None:
        self._folders: Mapping[str, Identity] = {}
        self._notify: RustNotify | None = None
        # A thread outside of anyio's shared pool, which long waits would exhaust.
        self._limiter = anyio.CapacityLimiter(1)

    def watch(self, folders: Mapping[str, Identity]) -> None:
        """Watch these folders from now on; a replaced folder counts as a new one."""
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
        """Wait until a change is over, for at most `seconds`.

        Without a watch, return after one polling interval.
        """
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
    """Return a folder or its nearest existing parent, with its identity; None without any."""
    for folder in (place, *place.parents):
        with suppress(OSError):
            status = folder.stat()
            if folder.is_dir():
                return folder, (status.st_dev, status.st_ino)
    return None
