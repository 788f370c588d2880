"""Downloads a bundle from the address that an entry names, and compares it with its hash.

It is kept by its hash until it is unpacked, so the plan that is shown and the installation that
follows read the same bytes.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from discovery_engine._util.address_classes import AddressClass, reachable_classes
from discovery_engine._util.text import quoted
from discovery_engine.errors import InstallFailedError, InstallRefusedError, PackageChangedError
from discovery_engine.fetch.fetch_error import FetchError
from discovery_engine.fetch.fetcher import open_fetcher

LARGEST = 512 * 1024 * 1024  # bytes; bundles with a whole runtime have 150 MB
_WITHIN = 600.0  # seconds
_KEPT = 3600.0  # seconds, for the person who reads the plan
_HASH = re.compile(r"(?:sha256[:-])?([0-9a-fA-F]{64})")
_OK = 200


class BundleDownloads:
    """The downloads of one data folder; only addresses of the allowed classes are read."""

    def __init__(
        self,
        folder: Path,
        *,
        allowed: frozenset[AddressClass] = frozenset({"public"}),
        limit: int = LARGEST,
    ) -> None:
        self._folder = folder
        self._allowed = allowed
        self._limit = limit

    async def fetch(
        self, url: str, integrity: str, on_progress: Callable[[str], None] = lambda _: None
    ) -> Path:
        """The file at an address, whose content is the expected one.

        Raises:
            InstallRefusedError: If the address is not one of the internet, or there is no hash.
            InstallFailedError: If it cannot be downloaded, or is too long.
            PackageChangedError: If it has another hash.
        """
        expected = _HASH.fullmatch(integrity)
        if expected is None:
            raise InstallRefusedError(
                f"the entry gives no SHA-256 of {quoted(url)}, so its content cannot be checked"
            )
        digest = expected[1].lower()
        path = self._folder / f"{digest}.mcpb"
        await anyio.to_thread.run_sync(self._delete_old)
        if await anyio.to_thread.run_sync(_digest_of, path) == digest:
            return path
        self._require_allowed(url)
        on_progress(f"downloading {url}")
        part = path.with_suffix(f".{os.getpid()}.part")
        try:
            await self._download(url, part)
            if (found := await anyio.to_thread.run_sync(_digest_of, part)) != digest:
                raise PackageChangedError(url, f"sha256:{digest}", f"sha256:{found}")
            await anyio.to_thread.run_sync(part.replace, path)
        except FetchError as error:
            reason = f"{quoted(url)} cannot be downloaded: {error.reason}"
            raise InstallFailedError(reason, hint=error.hint) from error
        except OSError as error:
            raise InstallFailedError(
                f"the download cannot be written: {error.strerror or error}",
                hint="check the space on the disk of the data folder",
            ) from error
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(_delete, part)
        return path

    def _require_allowed(self, url: str) -> None:
        host = urlsplit(url).hostname or ""
        classes = reachable_classes(host, is_private=False)
        if not classes or not classes <= self._allowed:
            raise InstallRefusedError(f"{quoted(url)} is no address of the internet")

    async def _download(self, url: str, part: Path) -> None:
        await anyio.to_thread.run_sync(_make_folder, self._folder)
        async with (
            open_fetcher(url) as fetcher,
            fetcher.stream(url, limit=self._limit, within=_WITHIN, follows=True) as answer,
        ):
            if answer.status != _OK:
                raise FetchError("broken", f"the answer is HTTP {answer.status}")
            file = await anyio.to_thread.run_sync(_create, part)
            try:
                async for piece in answer.pieces:
                    await anyio.to_thread.run_sync(file.write, piece)
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(file.close)

    def _delete_old(self) -> None:
        """Delete what was planned and not installed, and what was cut off."""
        oldest = time.time() - _KEPT
        for path in self._folder.glob("*"):
            try:
                if path.stat().st_mtime < oldest:
                    path.unlink()
            except OSError:  # another process was faster
                continue


def _make_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _create(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


def _digest_of(path: Path) -> str:
    """The SHA-256 of a file; empty if it is not there."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ""


def _delete(path: Path) -> None:
    path.unlink(missing_ok=True)
