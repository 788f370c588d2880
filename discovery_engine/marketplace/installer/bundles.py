"""Bundles (`mcpb`): downloads them, checks their hash, reads their manifest, and unpacks them.

A manifest may start `node`, `python` or a file of the bundle; anything else is refused. Its
`${user_config.…}` are values of the owner, and `${__dirname}` is the folder that it is unpacked to.
The members of an archive are checked before the first is written, and written bytes are counted.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, BinaryIO, Literal, TypeAlias
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from discovery_engine._util.address_classes import AddressClass, reachable_classes
from discovery_engine._util.fetch.fetch_error import FetchError
from discovery_engine._util.fetch.fetcher import open_fetcher
from discovery_engine._util.text import one_line, quoted
from discovery_engine.errors import InstallFailedError, InstallRefusedError, PackageChangedError
from discovery_engine.marketplace.entry import Input, InputFormat, PackageOffer
from discovery_engine.marketplace.installer.offered_inputs import (
    InputValues,
    environment,
    server_arguments,
)
from discovery_engine.marketplace.installer.packages import ResolvedPackage
from discovery_engine.marketplace.package_names import checked_name
from discovery_engine.store.server_records import PackagePin

_LARGEST_DOWNLOAD = 512 * 1024 * 1024  # bytes; bundles with a whole runtime have 150 MB
_DOWNLOAD_WITHIN = 600.0  # seconds
_PLANNED_BUNDLE_TTL = 3600.0  # seconds for a person to read the plan
_HASH = re.compile(r"(?:sha256[:-])?([0-9a-fA-F]{64})")
_OK = 200


class BundleDownloads:
    """The downloads of one data folder, only from addresses of the allowed classes."""

    def __init__(
        self,
        folder: Path,
        *,
        allowed: frozenset[AddressClass] = frozenset({"public"}),
        limit: int = _LARGEST_DOWNLOAD,
    ) -> None:
        self._folder = folder
        self._allowed = allowed
        self._limit = limit

    async def fetch(
        self, url: str, integrity: str, on_progress: Callable[[str], None] = lambda _: None
    ) -> Path:
        """Return the file at a URL, downloaded unless a file with its hash is here already.

        Raises:
            InstallRefusedError: If the URL is not on the internet, or `integrity` is no SHA-256.
            InstallFailedError: If it cannot be downloaded or written, or is too large.
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
            if (actual_digest := await anyio.to_thread.run_sync(_digest_of, part)) != digest:
                raise PackageChangedError(url, f"sha256:{digest}", f"sha256:{actual_digest}")
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
                await anyio.to_thread.run_sync(partial(part.unlink, missing_ok=True))
        return path

    def _require_allowed(self, url: str) -> None:
        host = urlsplit(url).hostname or ""
        classes = reachable_classes(host, is_private=False)
        if not classes or not classes <= self._allowed:
            raise InstallRefusedError(f"{quoted(url)} is no address of the internet")

    async def _download(self, url: str, part: Path) -> None:
        make_folder = partial(self._folder.mkdir, mode=0o700, parents=True, exist_ok=True)
        await anyio.to_thread.run_sync(make_folder)
        async with (
            open_fetcher(url) as fetcher,
            fetcher.stream(url, limit=self._limit, within=_DOWNLOAD_WITHIN, follows=True) as answer,
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
        """Delete downloads older than an hour: not installed, or interrupted."""
        oldest = time.time() - _PLANNED_BUNDLE_TTL
        for path in self._folder.glob("*"):
            try:
                if path.stat().st_mtime < oldest:
                    path.unlink()
            except OSError:  # another process was faster
                continue


def _create(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


def _digest_of(path: Path) -> str:
    """Return the SHA-256 of a file; empty if it does not exist."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ""


# Unpacking an untrusted archive: only files and folders, all below one folder.

LARGEST = 1024 * 1024 * 1024
"""Bytes of all files together; a bundle with its node_modules has some 100 MB."""
_MEMBERS = 50_000
_RATIO = 200
"""The most that a whole archive may grow; texts grow tenfold."""
_ALWAYS = 16 * 1024 * 1024  # bytes that are unpacked at any ratio
_DEPTH = 40
_NAME = 255  # bytes of each step of a path
_PIECE = 1 << 20
_ODD = re.compile(r"[\x00-\x1f\x7f\\:]")
_DEVICES = re.compile(r"(?i:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?")
_ENCRYPTED = 0x1


@contextmanager
def open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Yield an archive whose members are all safe to unpack.

    Raises:
        InstallRefusedError: If one is not, or if it is no archive.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            _check(archive, path.stat().st_size)
            yield archive
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError) as error:
        raise InstallRefusedError(f"the bundle is no usable archive: {error}") from error


def read_member(archive: zipfile.ZipFile, name: str, *, limit: int) -> bytes | None:
    """Return the content of a small member; None if there is none.

    Raises:
        InstallRefusedError: If it is longer than `limit`.
    """
    try:
        member = archive.getinfo(name)
    except KeyError:
        return None
    with archive.open(member) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise InstallRefusedError(f"{quoted(name)} in the bundle is longer than {limit:,} bytes")
    return content


def unpack(archive: zipfile.ZipFile, folder: Path) -> None:
    """Write all members below an empty folder, for the owner only; executables stay executable.

    Raises:
        InstallRefusedError: If a member is longer than declared.
        InstallFailedError: If the disk is full, or the folder cannot be written.
    """
    left = LARGEST
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for member in archive.infolist():
            place = folder / member.filename
            if member.is_dir():
                place.mkdir(parents=True, exist_ok=True)
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            left -= _write(archive, member, place, min(left, member.file_size))
    except OSError as error:
        raise InstallFailedError(
            f"the bundle cannot be unpacked: {error.strerror or error}",
            hint="check the space on the disk of the data folder",
        ) from error


def unpack_bundle(path: Path, folder: Path, pin: PackagePin) -> None:
    """Unpack a downloaded bundle atomically; no-op if the folder exists.

    Raises:
        PackageChangedError: If its hash is not the pinned one.
        InstallRefusedError, InstallFailedError: See `unpack`.
    """
    with path.open("rb") as file:
        digest = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    if digest != pin.integrity:
        raise PackageChangedError(str(pin), pin.integrity, digest)
    if folder.exists():
        return
    part = folder.with_name(f".deleted-{os.getpid()}-{folder.name}")
    try:
        with open_archive(path) as archive:
            unpack(archive, part)
        part.replace(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _write(archive: zipfile.ZipFile, member: zipfile.ZipInfo, place: Path, limit: int) -> int:
    """Write a member of at most `limit` bytes; return its size."""
    mode = 0o700 if (member.external_attr >> 16) & stat.S_IXUSR else 0o600
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    size = 0
    with archive.open(member) as packed, os.fdopen(os.open(place, flags, mode), "wb") as file:
        while piece := packed.read(_PIECE):
            size += len(piece)
            if size > limit:
                raise InstallRefusedError(f"{quoted(member.filename)} is longer than it claims")
            file.write(piece)
    return size


def _check(archive: zipfile.ZipFile, packed_size: int) -> None:
    members = archive.infolist()
    if len(members) > _MEMBERS:
        raise InstallRefusedError(f"the bundle has {len(members):,} files; {_MEMBERS:,} may be")
    size = sum(member.file_size for member in members)
    if size > LARGEST or size > max(_ALWAYS, _RATIO * packed_size):
        raise InstallRefusedError(
            f"the bundle would grow from {packed_size:,} to {size:,} bytes, which is refused"
        )
    seen: set[str] = set()
    for member in members:
        if reason := _refusal(member):
            raise InstallRefusedError(f"the bundle holds {quoted(member.filename)}, {reason}")
        name = member.filename.rstrip("/").casefold()
        if name in seen:
            raise InstallRefusedError(f"the bundle holds {quoted(member.filename)} twice")
        seen.add(name)


def _refusal(member: zipfile.ZipInfo) -> str:
    """Return why a member is not unpacked; empty if it is."""
    name = member.orig_filename
    steps = PurePosixPath(name).parts
    kind = stat.S_IFMT(member.external_attr >> 16)
    if not steps or name.startswith("/") or ".." in steps or _ODD.search(name):
        return "which leads out of its folder"
    if len(steps) > _DEPTH or any(len(os.fsencode(step)) > _NAME for step in steps):
        return "whose path is too long"
    if any(_DEVICES.fullmatch(step) for step in steps):
        return "which is the name of a device on Windows"
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "which is a link or a device"
    if member.flag_bits & _ENCRYPTED:
        return "which is encrypted"
    return ""


# The manifest.

_MAX_MANIFEST_BYTES = 1024 * 1024  # bytes of a manifest
_INPUTS = 100
_MAX_ARGUMENT_LENGTH = 8192  # characters of an argument
_PLACE = re.compile(r"\$\{([^{}]*)\}")
_CONFIG = "user_config."
_FORMATS: Mapping[str, InputFormat] = {
    "number": "number",
    "boolean": "boolean",
    "directory": "filepath",
    "file": "filepath",
}
_PROGRAMS = {"node": ("node",), "python": ("python3", "python")}
_HOMES = {
    "HOME": "~",
    "DESKTOP": "~/Desktop",
    "DOCUMENTS": "~/Documents",
    "DOWNLOADS": "~/Downloads",
}


class BundleServer(Struct, frozen=True):
    """The command of a bundle's server."""

    program: str
    """`node` or `python3`, or the path of a file in the unpacked bundle."""
    script: str
    """The path of the file that the program runs; empty if the program is in the bundle."""
    arguments: tuple[Input, ...]
    environment: tuple[Input, ...]
    python_path: str = ""
    """The folder of the bundle with Python modules; empty for none."""
    version: str = ""


def read_bundle(archive: Path, folder: Path) -> BundleServer:
    """Return the server of a bundle that will be unpacked to `folder`.

    Raises:
        InstallRefusedError: If it is no bundle, or starts anything but its own files.
    """
    with open_archive(archive) as opened:
        content = read_member(opened, "manifest.json", limit=_MAX_MANIFEST_BYTES)
        names = set(opened.namelist())
    if content is None:
        raise InstallRefusedError("the bundle has no manifest.json")
    try:
        manifest = msgspec.json.decode(content, type=_Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InstallRefusedError(
            f"the manifest.json of the bundle is malformed: {error}"
        ) from error
    return _BundleReader(manifest, folder, names).server()


_Word: TypeAlias = Annotated[str, Meta(max_length=_MAX_ARGUMENT_LENGTH)] | int | float | bool


class _Command(Struct, frozen=True):
    command: str | None = None
    args: Annotated[list[_Word], Meta(max_length=_INPUTS)] | None = None
    env: Annotated[dict[str, _Word], Meta(max_length=_INPUTS)] | None = None


class _Configuration(_Command, frozen=True):
    platform_overrides: Mapping[str, _Command] = {}


class _Server(Struct, frozen=True):
    type: Literal["node", "python", "binary"]
    entry_point: str
    mcp_config: _Configuration = _Configuration()


class _Option(Struct, frozen=True):
    type: str = "string"
    title: str = ""
    description: str = ""
    default: Any = None
    required: bool = False
    sensitive: bool = False
    multiple: bool = False


class _Manifest(Struct, frozen=True):
    server: _Server
    version: str = ""
    user_config: Annotated[dict[str, _Option], Meta(max_length=_INPUTS)] = {}


class _BundleReader:
    def __init__(self, manifest: _Manifest, folder: Path, files: set[str]) -> None:
        self._manifest = manifest
        self._folder = folder
        self._files = files
        self._asked = {name: _asked(name, each) for name, each in manifest.user_config.items()}

    def server(self) -> BundleServer:
        server = self._manifest.server
        entry_point = self._file(server.entry_point)
        usual = server.mcp_config
        override = usual.platform_overrides.get(sys.platform, usual)
        command = (usual.command if override.command is None else override.command) or ""
        args = usual.args if override.args is None else override.args
        env = usual.env if override.env is None else override.env
        arguments, variables = list(map(str, args or ())), dict(env or {})
        if server.type == "binary":
            program = str(self._folder / self._file(_inside(command) if command else entry_point))
            script = ""
        else:
            program = _PROGRAMS[server.type][0]
            if command not in ("", *_PROGRAMS[server.type]):
                raise _starts(command)
            first = arguments.pop(0) if arguments else f"${{__dirname}}/{entry_point}"
            script = str(self._folder / self._file(_inside(first)))
        modules = str(variables.pop("PYTHONPATH", ""))
        return BundleServer(
            program,
            script,
            arguments=tuple(self._input(word, "positional", word) for word in arguments),
            environment=tuple(
                self._input(name, "environment", str(value)) for name, value in variables.items()
            ),
            python_path=str(self._folder / _inside(modules)) if modules else "",
            version=one_line(self._manifest.version)[:128],
        )

    def _input(self, name: str, kind: Any, text: str) -> Input:
        """Return a text of the manifest as an input, with the owner's values as variables."""
        alone = re.fullmatch(r"\$\{user_config\.([^{}]+)\}", text)
        if alone and kind == "positional" and alone[1] in self._asked:
            return replace(self._asked[alone[1]], kind="positional")
        variables: dict[str, Input] = {}

        def filled(place: re.Match[str]) -> str:
            inner = place[1]
            if inner.startswith(_CONFIG) and inner.removeprefix(_CONFIG) in self._asked:
                key = inner.removeprefix(_CONFIG)
                variables[key] = self._asked[key]
                return f"{{{key}}}"
            if inner == "__dirname":
                return str(self._folder)
            return os.sep if inner in ("/", "pathSeparator") else _homes(place[0])

        value = _PLACE.sub(filled, text)
        return Input(name, kind, value=value, variables=tuple(variables.values()))

    def _file(self, path: str) -> str:
        if path.removeprefix("./") not in self._files:
            raise InstallRefusedError(f"the bundle has no file {quoted(path)} to start")
        return path.removeprefix("./")


def _inside(text: str) -> str:
    """Return the path in the bundle that a text of the manifest names.

    Raises:
        InstallRefusedError: If the text names no path in the bundle.
    """
    path = text.removeprefix("${__dirname}").lstrip("/") if "${__dirname}" in text else ""
    steps = PurePosixPath(path).parts
    if not steps or ".." in steps or "${" in path or "\\" in path:
        raise _starts(text)
    return path


def _starts(text: str) -> InstallRefusedError:
    return InstallRefusedError(
        f"the bundle would start {quoted(text)}, which is no file of its own"
    )


def _homes(text: str) -> str:
    return _PLACE.sub(lambda place: _HOMES.get(place[1], place[0]), text)


def _asked(name: str, option: _Option) -> Input:
    default = "" if isinstance(option.default, (list, dict, type(None))) else str(option.default)
    return Input(
        name,
        "variable",
        description=one_line(option.description or option.title),
        default=_homes(default.lower() if isinstance(option.default, bool) else default),
        format=_FORMATS.get(option.type, "string"),
        is_required=option.required,
        is_secret=option.sensitive,
        is_repeated=option.multiple,
    )


# A bundle as a package.
_FOLDER_DIGEST_LENGTH = 12  # digits of a hash in the name of a folder


class BundleResolver:
    """Resolves bundles; `data` is the data folder."""

    def __init__(self, data: Path) -> None:
        packages = data / "packages"
        self._folder = packages / "bundles"
        self._downloads = BundleDownloads(packages / "downloads")

    async def resolve(
        self, offer: PackageOffer, values: InputValues, arguments: Sequence[str], *, server: str
    ) -> ResolvedPackage:
        """Download the bundle of an offer, without unpacking it, and return its package.

        Raises:
            InvalidPackageNameError: If its URL is invalid.
            InstallRefusedError: If it has no hash or version, or starts foreign files.
            InstallFailedError: If it cannot be downloaded.
            PackageChangedError: If its hash differs from the entry's.
        """
        checked_name("mcpb", offer.identifier)
        archive = await self._downloads.fetch(offer.identifier, offer.integrity)
        digest = archive.stem
        folder = self._folder / f"{server}-{digest[:_FOLDER_DIGEST_LENGTH]}"
        bundle = await anyio.to_thread.run_sync(read_bundle, archive, folder)
        variables = environment(bundle.environment, values)
        own = {"PYTHONPATH": bundle.python_path} if bundle.python_path else {}
        before = (bundle.script,) if bundle.script else ()
        words = server_arguments(bundle.arguments, values)
        runtime = bundle.program if bundle.script else ""
        version = offer.version or bundle.version
        if not version:
            raise InstallRefusedError(
                f"neither the entry nor the bundle {offer.identifier} has a version"
            )
        return ResolvedPackage(
            PackagePin("mcpb", offer.identifier, version, f"sha256:{digest}", runtime),
            (bundle.program, *before, *words, *arguments),
            variables.warnings,
            environment={**own, **variables.variables},
            folders=(folder,),
            archive=archive,
        )
