"""The data folder. This module imports little, because it is needed before anything else."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

TYPE_CHECKING = False  # `typing` is loaded later, if at all
if TYPE_CHECKING:
    from discovery_engine.errors import Diagnostic

VARIABLE = "DISCOVERY_DATA_DIR"
_APPLICATION_FOLDERS = {"darwin": "~/Library/Application Support", "win32": "~/AppData/Local"}


def data_folder(data_dir: str | os.PathLike[str] | None, environ: Mapping[str, str]) -> str:
    """Return `data_dir`, `$DISCOVERY_DATA_DIR`, or the user's data folder."""
    if folder := data_dir or environ.get(VARIABLE):
        return os.fspath(folder)
    return user_folder("XDG_DATA_HOME", "~/.local/share", environ)


def user_folder(variable: str, default: str, environ: Mapping[str, str]) -> str:
    """Return our folder below `$variable`, the application folder of a system, or `default`."""
    root = environ.get(variable, "")
    if not os.path.isabs(root):  # as the XDG specification demands  # noqa: PTH117 - `pathlib` is loaded later
        root = os.path.expanduser(_APPLICATION_FOLDERS.get(sys.platform, default))  # noqa: PTH111
    return os.path.join(root, "discovery")  # noqa: PTH118


def exposed_data(folder: str) -> Diagnostic | None:
    """Return the problem that others may write to a data folder, or replace it; None if not."""
    import shlex  # noqa: PLC0415 - as these, seldom needed

    from discovery_engine.config.files.permissions import writable_by_others  # noqa: PLC0415
    from discovery_engine.errors import Diagnostic  # noqa: PLC0415

    if not os.path.isdir(folder) or (place := writable_by_others(folder)) is None:  # noqa: PTH112
        return None
    quoted = shlex.quote(place)
    is_itself = os.path.realpath(place) == os.path.realpath(folder)
    hint = f"`chmod 700 {quoted}`" if is_itself else f"`chmod go-w {quoted}`, if it is yours"
    message = f"others may write to {place}, and so replace approvals, tokens and secrets of yours"
    return Diagnostic("DATA_EXPOSED", message, hint, "data")
