"""Python packages, looked up with the user's own pip and uv; no code of a package is run.

PyPI has no search, so a package is looked up by its exact name. pip lists versions, and reports the
metadata and the hash of the wheel that it would install; uv adds the date of upload. Only wheels
count, because installing a source distribution runs its build script.
"""

from __future__ import annotations

import configparser
import json
import re
import sys
import tomllib
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parseaddr
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from msgspec.structs import replace
from packaging.utils import canonicalize_name

from discovery_engine._util.install_hints import INSTALL_HINTS
from discovery_engine._util.json import object_of, text_of
from discovery_engine._util.tasks import open_task_group
from discovery_engine.errors import PackageManagerError, PackageNotFoundError, ProgramMissingError
from discovery_engine.marketplace.package_managers.manager_command import (
    Environ,
    ManagerOutput,
    PackageProgram,
    PublishedPackage,
    empty_folder,
    find_program,
    reason_of,
    texts_of,
    unix_time,
    without_credentials,
)
from discovery_engine.marketplace.package_names import checked_name, checked_version

_INDEX_TIMEOUT = 20.0  # seconds; each command takes 0.5 s with a near index
_DOWNLOAD_TIMEOUT = 300.0
_PIP_OPTIONS = (
    *("--disable-pip-version-check", "--no-input", "--no-color", "--retries=1"),
    "--only-binary=:all:",
)
_ANY_PYTHON = "--ignore-requires-python"
"""uvx fetches the Python that a package needs, so the version of this Python is irrelevant."""
_USAGE = 2  # pip's exit code for an unknown option
_REPOSITORY = ("repository", "source", "sourcecode", "github", "gitlab", "code")


class PythonPackages:
    """Looks up packages with the user's pip and uv, as far as they exist."""

    def __init__(self, environ: Environ, *, timeout: float = _INDEX_TIMEOUT) -> None:
        self._environ = environ
        self._timeout = timeout

    async def versions(self, name: str) -> tuple[str, ...]:
        """Return the versions with a wheel that are not yanked, the newest first.

        With uv only, this is just the newest, because uv does not list versions.

        Raises:
            InvalidPackageNameError: If the name is invalid.
            PackageNotFoundError: If there is no such package, or no wheel of it.
            PackageManagerError: If pip and uv are missing, or fail.
        """
        checked_name("pypi", name)
        if (pip := pip_program(self._environ)) is None:
            return (
                text_of((await self._locked(needed_uv(self._environ), name, "")).get("version")),
            )
        return await self._listed(pip, name)

    async def view(self, name: str, version: str = "") -> PublishedPackage:
        """Return one version of a package, by default the newest.

        Raises:
            InvalidPackageNameError: If the name or the version is invalid.
            PackageNotFoundError: If there is no such package or version, or no wheel of it.
            PackageManagerError: If pip and uv are missing, or fail.
        """
        checked_name("pypi", name)
        if version:
            checked_version("pypi", version)
        pip, uv = pip_program(self._environ), uv_program(self._environ)
        if pip is None:
            return _from_lock(await self._locked(needed_uv(self._environ), name, version))
        versions: tuple[str, ...] = ()
        try:
            versions = await self._listed(pip, name)
        except PackageNotFoundError:
            if not version:  # a requested version may exist if all are yanked
                raise
        version = version or versions[0]
        dates: list[float] = []

        async def add_date(uv: PackageProgram) -> None:
            with suppress(PackageManagerError, PackageNotFoundError):  # only the date is missing
                dates.append(uploaded_at(await self._locked(uv, name, version)))

        async with open_task_group() as tasks:
            if uv is not None:
                tasks.start_soon(add_date, uv)
            package = await self._reported(pip, name, version, versions)
        return replace(package, published={package.version: dates[0]}) if dates else package

    async def programs(self, name: str, version: str) -> tuple[str, ...]:
        """Return the programs of a version, read from its wheel, which is downloaded and deleted.

        Raises:
            InvalidPackageNameError: If the name or the version is invalid.
            PackageNotFoundError: If there is no wheel of it.
            PackageManagerError: If pip is missing or fails, or the wheel cannot be read.
        """
        requirement = f"{checked_name('pypi', name)}=={checked_version('pypi', version)}"
        pip = pip_program(self._environ)
        if pip is None:
            raise ProgramMissingError(
                "pip", purpose="to read which programs a wheel has", hint=INSTALL_HINTS["uv"]
            )
        with empty_folder() as folder:
            output = await pip.run(
                *("download", *_PIP_OPTIONS, _ANY_PYTHON, "--quiet", "--no-deps"),
                *("--dest", str(folder), "--", requirement),
                timeout=_DOWNLOAD_TIMEOUT,
            )
            if output.exit_code:
                raise _pip_failure(name, version, output)
            return await anyio.to_thread.run_sync(programs_of_wheel, folder)

    async def _listed(self, pip: PackageProgram, name: str) -> tuple[str, ...]:
        # pip prints JSON only since 25.
        output = await pip.run(
            *("index", "versions", *_PIP_OPTIONS, _ANY_PYTHON, "--", name), timeout=self._timeout
        )
        match = re.search(
            r"^Available versions: (.*)$", output.stdout.decode("utf-8", "replace"), re.MULTILINE
        )
        if output.exit_code or not match:
            raise _pip_failure(name, "", output)
        return tuple(version.strip() for version in match[1].split(","))

    async def _reported(
        self, pip: PackageProgram, name: str, version: str, versions: tuple[str, ...]
    ) -> PublishedPackage:
        options = (
            *("install", *_PIP_OPTIONS, _ANY_PYTHON, "--dry-run", "--no-deps"),
            *("--ignore-installed", "--quiet", "--report", "-"),
        )
        words = ("--", f"{name}=={version}")
        # With this feature, pip reads the metadata by a range of bytes, not the whole wheel.
        output = await pip.run(*options, "--use-feature=fast-deps", *words, timeout=self._timeout)
        if output.exit_code == _USAGE:  # a pip without that feature
            output = await pip.run(*options, *words, timeout=self._timeout)
        if output.exit_code:  # without any version, the package is missing
            raise _pip_failure(name, version if versions else "", output)
        return _from_report(name, output, versions)

    async def _locked(self, uv: PackageProgram, name: str, version: str) -> Mapping[str, Any]:
        """Return the entry that uv would write into a lock file."""
        output = await uv.run(
            *("pip", "compile", "--quiet", "--no-deps", "--only-binary", ":all:", "--no-header"),
            *("--no-python-downloads", "--python", sys.executable, "--format", "pylock.toml", "-"),
            timeout=self._timeout,
            stdin=f"{name}=={version}\n".encode() if version else f"{name}\n".encode(),
        )
        if output.exit_code:
            raise _uv_failure(name, version, output)
        try:
            packages = tomllib.loads(output.stdout.decode()).get("packages")
        except (ValueError, RecursionError):
            raise PackageManagerError("uv returned what is not TOML") from None
        listed = packages if isinstance(packages, list) else []
        for package in map(object_of, listed):
            if canonicalize_name(text_of(package.get("name"))) == canonicalize_name(name):
                return package
        raise PackageManagerError(f"uv returned nothing about {name!r}")


def pip_program(environ: Environ) -> PackageProgram | None:
    """Return the pip of this environment, else the one on the PATH; None if there is none."""
    if find_spec("pip") is not None:
        # -P: a pip.py in the working folder is not run.
        return PackageProgram("pip", (sys.executable, "-P", "-m", "pip"), environ)
    path = find_program("pip", environ) or find_program("pip3", environ)
    return PackageProgram("pip", (path,), environ) if path else None


def uv_program(environ: Environ) -> PackageProgram | None:
    path = find_program("uv", environ)
    return PackageProgram("uv", (path,), environ) if path else None


def needed_uv(environ: Environ) -> PackageProgram:
    """Return uv, which is needed if pip is missing.

    Raises:
        ProgramMissingError: If uv is missing, too.
    """
    if (uv := uv_program(environ)) is None:
        raise ProgramMissingError(
            "uv", purpose="to look up Python packages", hint=INSTALL_HINTS["uv"]
        )
    return uv


def _pip_failure(
    name: str, version: str, output: ManagerOutput
) -> PackageManagerError | PackageNotFoundError:
    stderr = output.stderr
    # Without a connection, pip finds no version; only its warnings tell the difference.
    if broken := re.search(r"connection broken by (.*?)(?:: /|$)", stderr, re.MULTILINE):
        return PackageManagerError(
            f"pip cannot reach its index: {without_credentials(broken[1])[:200]}",
            hint="check the network and pip's settings: `pip config list`",
        )
    if "No matching distribution found" in stderr:
        return _not_found(name, version)
    errors = [line for line in stderr.splitlines() if line.startswith("ERROR:")]
    reason = reason_of("\n".join(errors) or stderr).removeprefix("ERROR:").strip()
    return PackageManagerError(
        f"pip cannot look up {name!r}: {reason}", hint=f"try `pip index versions {name}`"
    )


def _uv_failure(
    name: str, version: str, output: ManagerOutput
) -> PackageManagerError | PackageNotFoundError:
    if "was not found in the" in output.stderr:
        return _not_found(name, "")
    if "there is no version of" in output.stderr:
        return _not_found(name, version)
    return PackageManagerError(f"uv cannot look up {name!r}: {reason_of(output.stderr)}")


def _not_found(name: str, version: str) -> PackageNotFoundError:
    if version:
        return PackageNotFoundError(
            f"the Python package {name!r} has no version {version} with a wheel",
            hint=f"`pip index versions {name}` lists them",
        )
    return PackageNotFoundError(
        f"there is no Python package {name!r}, or no wheel of it",
        hint="check the spelling in the server's own documentation",
    )


def _from_report(name: str, output: ManagerOutput, versions: tuple[str, ...]) -> PublishedPackage:
    try:
        installed = object_of(json.loads(output.stdout)).get("install")
    except (ValueError, RecursionError):
        raise PackageManagerError("pip returned what is not JSON") from None
    item = object_of(installed[0]) if isinstance(installed, list) and installed else {}
    metadata = object_of(item.get("metadata"))
    archive = object_of(object_of(item.get("download_info")).get("archive_info"))
    digest = text_of(object_of(archive.get("hashes")).get("sha256"))
    if not text_of(metadata.get("version")):
        raise PackageManagerError(f"pip returned nothing about {name!r}")
    links = _links(metadata)
    return PublishedPackage(
        name=text_of(metadata.get("name")) or name,
        version=text_of(metadata.get("version")),
        versions=versions,
        description=text_of(metadata.get("summary")),
        keywords=texts_of(metadata.get("keywords")),
        publisher=_publisher(metadata),
        repository=next((links[label] for label in _REPOSITORY if label in links), ""),
        homepage=links.get("homepage", "") or text_of(metadata.get("home_page")),
        withdrawn=_yanked(item, output.stderr),
        integrity=f"sha256:{digest}" if digest else "",
    )


def _links(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return links such as `Source Code, https://…` by their normalized labels."""
    pairs = (link.partition(",") for link in texts_of(metadata.get("project_url")))
    return {re.sub(r"[\W_]", "", label).lower(): url.strip() for label, _, url in pairs}


def _publisher(metadata: Mapping[str, Any]) -> str:
    for key in ("author", "maintainer"):
        if publisher := text_of(metadata.get(key)):
            return publisher
        if publisher := parseaddr(text_of(metadata.get(f"{key}_email")))[0]:
            return publisher
    return ""


def _yanked(item: Mapping[str, Any], stderr: str) -> str:
    if item.get("is_yanked") is not True:
        return ""
    reason = re.search(r"^Reason for being yanked: (.*)$", stderr, re.MULTILINE)
    return reason[1] if reason and reason[1] != "<none given>" else "no reason is given"


def _from_lock(locked: Mapping[str, Any]) -> PublishedPackage:
    wheels = _wheels(locked)
    version = text_of(locked.get("version"))
    # With several wheels, the one for this machine is unknown.
    digest = text_of(object_of(wheels[0].get("hashes")).get("sha256")) if len(wheels) == 1 else ""
    return PublishedPackage(
        name=text_of(locked.get("name")),
        version=version,
        versions=(version,),
        integrity=f"sha256:{digest}" if digest else "",
        published={version: at} if (at := uploaded_at(locked)) else {},
    )


def uploaded_at(locked: Mapping[str, Any]) -> float:
    """Return the Unix time in seconds of the first wheel's upload; 0 if unknown."""
    times = (unix_time(wheel.get("upload-time")) for wheel in _wheels(locked))
    return min(filter(None, times), default=0.0)


def _wheels(locked: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    wheels = locked.get("wheels")
    return [object_of(wheel) for wheel in wheels] if isinstance(wheels, list) else []


# The programs of a wheel, read from its archive; nothing is unpacked or run.

_MAX_ENTRY_POINTS_BYTES = 1 << 20  # bytes of `entry_points.txt`
_ENTRY_POINTS = re.compile(r"[^/]+\.dist-info/entry_points\.txt")


def programs_of_wheel(folder: Path) -> tuple[str, ...]:
    """Return the names of the programs in the only wheel of a folder.

    Raises:
        PackageManagerError: If there is no wheel, or it cannot be read.
    """
    wheel = next(folder.glob("*.whl"), None)
    if wheel is None:
        raise PackageManagerError("no wheel was downloaded")
    try:
        text = _entry_points(wheel)
        points = _CaseSensitive(delimiters=("=",), interpolation=None, strict=False)
        points.read_string(text)
    except (zipfile.BadZipFile, configparser.Error, NotImplementedError, RuntimeError) as error:
        raise PackageManagerError(f"{wheel.name} cannot be read: {error}") from error
    return tuple(points["console_scripts"]) if points.has_section("console_scripts") else ()


class _CaseSensitive(configparser.ConfigParser):
    def optionxform(self, optionstr: str) -> str:
        return optionstr


def _entry_points(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            if not _ENTRY_POINTS.fullmatch(member.filename):
                continue
            # Reading yields at most the declared size.
            if member.file_size > _MAX_ENTRY_POINTS_BYTES:
                raise PackageManagerError(f"the entry points of {wheel.name} are too large")
            return archive.read(member).decode("utf-8", "replace")
    return ""
