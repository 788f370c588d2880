"""Own copies of packages, each in a folder of its own, from which servers are started.

    packages/npm/NAME-VERSION       package.json, package-lock.json, node_modules
    packages/python/NAME-VERSION    tools of uv, or an environment

npx takes the copy that lies in the folder it is started in, and uvx the one in $UV_TOOL_DIR, if it
has the very version: neither asks a registry then. So the package that is started is the one that
was compared with the pin, with the dependencies of its installation; no network is needed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread

READY = ".ready"
"""In a folder that is complete; it is written last."""


def npm_folder(data: Path, server: str, version: str) -> Path:
    return data / "packages" / "npm" / f"{server}-{version}"


def python_folder(data: Path, server: str, version: str) -> Path:
    return data / "packages" / "python" / f"{server}-{version}"


def program_in(environment: Path, program: str) -> Path:
    """A program of a Python environment."""
    windows = environment / "Scripts"
    return windows / f"{program}.exe" if windows.is_dir() else environment / "bin" / program


def is_ready(folder: Path) -> bool:
    return (folder / READY).exists()


@asynccontextmanager
async def filling(folder: Path) -> AsyncGenerator[None]:
    """A block that fills a new folder; if it does not end well, the folder is deleted."""
    await anyio.to_thread.run_sync(_make_anew, folder)
    try:
        yield
        await anyio.to_thread.run_sync((folder / READY).touch)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(remove_folder, folder)
        raise


def make_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def remove_folder(folder: Path) -> None:
    """Delete a folder with all in it; a link to one is deleted, and not followed."""
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        aside = folder.with_name(f".deleted-{os.getpid()}-{folder.name}")
        folder.replace(aside)  # in one step: no process finds half of it
        shutil.rmtree(aside, ignore_errors=True)


def remove_remains(folder: Path) -> None:
    """Delete what `remove_folder` was killed in the middle of, among the folders of `folder`."""
    for kind in ("npm", "python", "bundles"):
        for left in (folder / kind).glob(".deleted-*"):
            shutil.rmtree(left, ignore_errors=True)


def _make_anew(folder: Path) -> None:
    remove_folder(folder)
    make_folder(folder)
