"""Records of servers installed from the marketplace, one small file for each in the data folder.

    packages/installed/DIGEST.json     a server, with all that is needed to plan its update
    packages/begun/DIGEST.json         an installation or removal in progress
    packages/lock                      locked by the one process that installs

A file in `begun` that exists while the lock is free belongs to a process that was killed. Keep this
module light to import, as `discovery list` needs it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from discovery_engine._util.file_lock import open_locked
from discovery_engine._util.files import replace_file
from discovery_engine._util.json import JSONObject
from discovery_engine.config.files.location import decision_scope, scope_of
from discovery_engine.config.settings import (
    OWN_SOURCE,
    RemoteTransport,
    ServerSettings,
    StdioTransport,
)
from discovery_engine.errors import InstallBusyError, InstallFailedError
from discovery_engine.store.server_records import PackagePin

if TYPE_CHECKING:
    from discovery_engine.config.settings import Settings
    from discovery_engine.tools.model import ServerName

T = TypeVar("T", bound=Struct)
Place: TypeAlias = Literal["file", "registry"]

_MAX_INSTALL_RECORD_BYTES = 4 * 1024 * 1024  # bytes of a record
_INSTALL_TIMEOUT = 10.0  # seconds to wait for another process that installs


class Grants(Struct, frozen=True):
    """The access that the owner grants a server, in addition to that of every sandbox."""

    network: bool = True
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()


class InstalledVersion(Struct, frozen=True, omit_defaults=True):
    """An installed version of a server."""

    pin: PackagePin
    server_entry: JSONObject
    values: Mapping[str, tuple[str, ...]] = {}
    """The owner's values that are not secret, by the keys of the package's inputs."""
    grants: Grants = Grants()
    folders: tuple[str, ...] = ()
    """The folders of an unpacked bundle, which are deleted with the server."""

    def is_run_by(self, server: ServerSettings) -> bool:
        """Return whether a configured server runs this package; its entry may have been edited.

        The answer is True for a server without a transport, as in a snapshot, which stores none.
        """
        match server.transport:
            case StdioTransport(command, args, _, cwd):
                words = (command, *args)
                own = tuple(f"{folder}{os.sep}" for folder in self.folders)
                return any(map(self._names_package, words)) or any(
                    f"{word}{os.sep}".startswith(own) for word in (*words, cwd or "")
                )
            case RemoteTransport(url):
                return _host(url) == _host(str(self.server_entry.get("url", "")))
        return True

    def require_folders(self) -> None:
        """Check that the folders of this version exist; this blocks.

        Raises:
            InstallFailedError: If one is missing.
        """
        for folder in self.folders:
            if not Path(folder).is_dir():
                raise InstallFailedError(
                    f"{self.pin} is not there any more: {folder} is missing",
                    hint="`discovery marketplace install --version` installs an earlier version"
                    " anew",
                )

    def _names_package(self, word: str) -> bool:
        """Return whether a word of a command names the package to npx, uvx, docker or dnx."""
        name = self.pin.identifier
        spelled = word.removeprefix("--package=")
        return spelled == name or spelled.startswith((f"{name}@", f"{name}==", f"{name}:"))


class InstalledServer(Struct, frozen=True, omit_defaults=True):
    """A server that was installed from the marketplace."""

    name: str
    where: Place
    entry_name: str
    """Its name in the marketplace."""
    marketplace_id: str
    """The identifier of its entry in the marketplace."""
    offer: str
    """The identifier of the offer that was installed."""
    current: InstalledVersion
    previous: InstalledVersion | None = None

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of the current and of the previous version."""
        return (*self.current.folders, *(self.previous.folders if self.previous else ()))


class BegunWork(Struct, frozen=True, omit_defaults=True):
    """Work in progress, with the secrets and folders to delete if it is cut off.

    They stay if the server exists nevertheless.
    """

    scope: str
    where: Place
    name: str
    secrets: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


class InstallRecords:
    """The records of one data folder.

    Methods block; those that write raise InstallFailedError if the disk cannot be written.
    """

    def __init__(self, data: Path) -> None:
        self._folder = data / "packages"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock, so that no other process installs.

        Raises:
            InstallBusyError: If another process holds it for ten seconds.
        """
        with _disk_errors(self._folder):
            try:
                descriptor = open_locked(self._folder / "lock", at_most=_INSTALL_TIMEOUT)
            except BlockingIOError:
                raise InstallBusyError from None
        try:
            yield
        finally:
            os.close(descriptor)

    def start_folder(self) -> Path:
        """Return the empty folder in which npx and uvx start, away from any project's settings."""
        return self._folder / "start"

    def make_start_folder(self) -> None:
        folder = self.start_folder()
        with _disk_errors(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Without these files npm and uv would search the parent folders for them.
            (folder / "package.json").write_text("{}", "utf-8")
            (folder / "uv.toml").touch()

    def find(self, scopes: Sequence[str], name: str) -> InstalledServer | None:
        """Return the record of that name in the first of these scopes; None if there is none."""
        files = (self._file("installed", scope, name) for scope in scopes)
        return next(filter(None, (_read(file, InstalledServer) for file in files)), None)

    def record_of(self, scopes: Sequence[str], server: ServerSettings) -> InstalledServer | None:
        """Return the record of a configured server; None if this entry was not installed."""
        record = self.find(scopes, server.renamed_from or server.name)
        is_here = record and record.where == place_of(server) and record.current.is_run_by(server)
        return record if is_here else None

    @property
    def is_empty(self) -> bool:
        """True if no server was ever installed, in any configuration."""
        return not (self._folder / "installed").is_dir()

    def all(self) -> tuple[InstalledServer, ...]:
        """Return the installed servers of all configurations."""
        return self._all("installed", InstalledServer)

    def of(self, scopes: Sequence[str]) -> tuple[InstalledServer, ...]:
        """Return the installed servers of one configuration, sorted by name."""
        names = sorted({record.name for record in self.all()})
        return tuple(filter(None, (self.find(scopes, name) for name in names)))

    def save(self, scope: str, server: InstalledServer) -> None:
        self._write("installed", scope, server.name, server)

    def delete(self, scopes: Sequence[str], name: str) -> None:
        for scope in scopes:
            with suppress(OSError):
                self._file("installed", scope, name).unlink()

    def begin(self, work: BegunWork) -> None:
        self._write("begun", work.scope, work.name, work)

    def end(self, work: BegunWork) -> None:
        with suppress(OSError):
            self._file("begun", work.scope, work.name).unlink()

    def begun(self) -> tuple[BegunWork, ...]:
        """Return the work that is in progress, or that was cut off."""
        return self._all("begun", BegunWork)

    def _all(self, kind: str, form: type[T]) -> tuple[T, ...]:
        files = sorted((self._folder / kind).glob("*.json"))
        return tuple(filter(None, (_read(file, form) for file in files)))

    def _write(self, kind: str, scope: str, name: str, record: Struct) -> None:
        path = self._file(kind, scope, name)
        with _disk_errors(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(path, msgspec.json.encode(record), follows_link=False)

    def _file(self, kind: str, scope: str, name: str) -> Path:
        import hashlib  # noqa: PLC0415 - a list where nothing was installed loads nothing for it

        digest = hashlib.sha256(f"{scope}\0{name.casefold()}".encode(errors="surrogatepass"))
        return self._folder / kind / f"{digest.hexdigest()[:32]}.json"


def place_of(server: ServerSettings) -> Place | None:
    """Return the place of a server's entry; None for a server that a source provides."""
    if server.is_registered:
        return "registry"
    return "file" if server.source == OWN_SOURCE else None


def record_scopes(settings: Settings) -> tuple[str, str]:
    """Return the scopes of a configuration's records; new ones are saved under the first.

    The second one finds records from before the configuration had a `name`.
    """
    return decision_scope(settings), scope_of(settings.path)


def installed_packages(settings: Settings, data: Path) -> Mapping[ServerName, PackagePin]:
    """Return the packages of installed servers by the servers' names; this blocks.

    For servers in the file only these records have the package; the registry has it for others.
    """
    records = InstallRecords(data)
    if records.is_empty:
        return {}
    scopes = record_scopes(settings)
    pairs = ((server.name, records.record_of(scopes, server)) for server in settings.servers)
    return {name: record.current.pin for name, record in pairs if record}


def remove_folder(folder: Path) -> None:
    """Delete a folder with its content; a symbolic link is deleted without following it."""
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        aside = folder.with_name(f".deleted-{os.getpid()}-{folder.name}")
        folder.replace(aside)  # atomic, so that no process sees a half-deleted folder
        shutil.rmtree(aside, ignore_errors=True)
    for left in folder.parent.glob(".deleted-*"):  # left by a process that was killed
        shutil.rmtree(left, ignore_errors=True)


def _host(url: str) -> str:
    from urllib.parse import urlsplit  # noqa: PLC0415 - a list loads nothing for it

    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""


def _read(path: Path, form: type[T]) -> T | None:
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(_MAX_INSTALL_RECORD_BYTES), type=form)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


@contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InstallFailedError(
            f"{path} cannot be written: {error.strerror or error}",
            hint="check the space and the permissions of the data folder",
        ) from error
