"""Decisions that other processes make, followed: the folder of the database is watched."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import anyio.to_thread

from discovery_engine._util.folder_watch import FolderWatch, nearest_folder
from discovery_engine.errors import RegistryError

logger = logging.getLogger(__name__)

_LOOK_EVERY = 30.0  # seconds between two looks, for disks that report nothing (network, some VMs)


async def decision_changes(
    path: Path, newest: Callable[[], object], *, look_every: float = _LOOK_EVERY
) -> AsyncGenerator[None]:
    """Yield once at first, and then soon after each decision; see `Registry.changes`.

    Args:
        path: Of the database.
        newest: Reads the number and the checksum of the newest decision, and the mark of written
            requests; it may block.
        look_every: Seconds after which it is read although nothing was written in the folder.
    """
    # Not `PRAGMA data_version`: that changes with every listing that another process saves, and
    # then all decisions would be read again. The newest one is a row and 80 bytes of a file.
    mark: object = None
    watch = FolderWatch()
    try:
        while True:
            # The watch comes before the look, so that nothing is missed between them.
            folder = await anyio.to_thread.run_sync(nearest_folder, path.parent)
            watch.watch({str(folder[0]): folder[1]} if folder else {})
            now = await anyio.to_thread.run_sync(_newest, newest)
            if now != mark:
                mark = now
                yield
            else:
                await watch.wait(look_every)
    finally:
        watch.close()


def _newest(read: Callable[[], object]) -> object:
    """Return what was read, or the error as text; the reader of the decisions reports it, once."""
    try:
        return read()
    except RegistryError as error:
        logger.debug("The newest decision cannot be read: %s", error)
        return str(error)
