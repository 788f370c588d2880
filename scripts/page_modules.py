"""Bring the modules of other projects that the page uses beside its own, below `static/modules`.

    python scripts/page_modules.py

Run again it does nothing. `discovery_server/page/modules.json` pins name, version, integrity and
files; the user's own npm brings the packages, from wherever it is configured to look. Every package
and every file is compared with its hash before any is used. Nothing of a package is run.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent / "discovery_server" / "page"
MANIFEST = PAGE / "modules.json"
FOLDER = PAGE / "static" / "modules"
_TIME_LIMIT = 120  # seconds for one package


class PageModulesMissingError(Exception):
    """They are not there and cannot be brought; the message says why."""


def bring() -> None:
    """Install what is missing, all or nothing.

    Raises:
        PageModulesMissingError: If npm is missing or fails, or a package is not what is pinned.
    """
    packages = json.loads(MANIFEST.read_text(encoding="utf-8"))["packages"]
    if all(_is_there(file) for package in packages for file in package["files"]):
        return
    npm = shutil.which("npm")
    if npm is None:
        raise PageModulesMissingError("npm is not on the PATH; Node.js brings it")
    print("== bringing the modules of the page", file=sys.stderr, flush=True)
    found = {file["to"]: data for one in packages for file, data in _files(npm, one)}
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, data in found.items():
        (FOLDER / name).write_bytes(data)


def _is_there(file: dict[str, str]) -> bool:
    path = FOLDER / file["to"]
    return path.is_file() and _sha256(path.read_bytes()) == file["sha256"]


def _files(npm: str, package: dict[str, Any]) -> list[tuple[dict[str, str], bytes]]:
    name = f"{package['package']}@{package['version']}"
    archive = _packed(npm, name)
    digest = base64.b64encode(hashlib.sha512(archive).digest()).decode()
    if f"sha512-{digest}" != package["integrity"]:
        raise PageModulesMissingError(f"{name} is not the package that is pinned")
    found = []
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        for file in package["files"]:
            member = tar.extractfile(file["from"])
            data = member.read() if member else b""
            if _sha256(data) != file["sha256"]:
                raise PageModulesMissingError(f"{file['from']} of {name} is not what is pinned")
            found.append((file, data))
    return found


def _packed(npm: str, name: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", "--silent", "--ignore-scripts", "--pack-destination", folder, name]
        try:
            subprocess.run(command, check=True, timeout=_TIME_LIMIT, cwd=folder, stdout=sys.stderr)
        except (OSError, subprocess.SubprocessError) as error:
            raise PageModulesMissingError(f"npm could not bring {name}: {error}") from error
        [archive] = Path(folder).glob("*.tgz")
        return archive.read_bytes()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    try:
        bring()
    except PageModulesMissingError as error:
        print(f"   left out: the page needs modules of other projects: {error}", file=sys.stderr)
