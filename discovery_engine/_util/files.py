"""Reads files that are no pipes, and replaces files atomically.

No reader gets half of a file that is replaced, and no power cut undoes it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from discovery_engine._util.folder_sync import sync_folder

_PRIVATE = 0o600


def read_regular(path: str | Path, *, limit: int) -> bytes:
    """Return the content of a regular file.

    Raises:
        OSError: If it cannot be read, is no regular file, or is larger than `limit` bytes.
    """
    require_regular(path)
    with Path(path).open("rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit:,} bytes", str(path))
    return content


def require_regular(path: str | Path) -> None:
    """Raise `OSError` for what is no regular file."""
    # A pipe or a device would keep the reader waiting for ever.
    mode = Path(path).stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "a folder, not a file", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


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
    import tempfile  # noqa: PLC0415 - readers need none of what it loads

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
