"""Files are replaced atomically: no reader gets half of one, and no power cut undoes it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from discovery_engine._util.folder_sync import sync_folder

_PRIVATE = 0o600


def replace_file(
    path: Path, content: str | bytes, *, like: Path | None = None, follows_link: bool = True
) -> None:
    """Put `content` in place of a file, or of what it is a link to.

    Who may read it stays the same, or is as for the file `like`; a new one is its owner's alone.
    A file that a project may have put there must not lead elsewhere: without `follows_link` the
    link itself is replaced.

    Raises:
        OSError: If it cannot be written; it is then as it was.
    """
    target = path.resolve() if follows_link else path
    target.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    model = like or (None if target.is_symlink() else target)
    mode = model.stat().st_mode & 0o777 if model and model.exists() else _PRIVATE
    descriptor, name = tempfile.mkstemp(prefix=".discovery-", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(target)
        sync_folder(target.parent)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()
        raise
