"""What was installed from the marketplace, and what was begun: small files in the data folder.

    packages/installed/DIGEST.json     one server: what an update needs to plan it again
    packages/begun/DIGEST.json         an installation or removal under way
    packages/lock                      held by the one process that installs

A file of `begun` that is found under the lock belongs to a process that was killed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from discovery_engine._util.file_lock import lock_file
from discovery_engine._util.files import replace_file
from discovery_engine._util.json import JSONObject
from discovery_engine.config.settings import OWN_SOURCE, RemoteTransport, StdioTransport
from discovery_engine.errors import InstallBusyError, InstallFailedError
from discovery_engine.installer.sandbox_grants import Grants
from discovery_engine.registry.server_records import PackagePin

if TYPE_CHECKING:
    from discovery_engine.config.settings import ServerSettings

T = TypeVar("T", bound=Struct)
Place: TypeAlias = Literal["file", "registry"]

_LARGEST = 4 * 1024 * 1024  # bytes of a record
_WAIT = 10.0  # seconds for another process that installs; then an error says so
_PAUSE = 0.05


class InstalledVersion(Struct, frozen=True, omit_defaults=True):
    """A version of a server as it was entered."""

    pin: PackagePin
    server_entry: JSONObject
    values: Mapping[str, tuple[str, ...]] = {}
    """What its owner gave that is not secret, by the keys that were asked for."""
    grants: Grants = Grants()
    folders: tuple[str, ...] = ()
    """Those of its own, which go with it."""

    def is_run_by(self, server: ServerSettings) -> bool:
        """Whether a configured server runs this package: its owner may have edited its entry.

        Without its transport, which is not remembered, it is taken to.
        """
        match server.transport:
            case StdioTransport(command, args, _, cwd):
                words = (command, *args)
                places = (*words, cwd or "")
                return any(map(self._names_package, words)) or any(
                    place == folder or place.startswith(f"{folder}{os.sep}")
                    for place in places
                    for folder in self.folders
                )
            case RemoteTransport(url):
                return _host(url) == _host(str(self.server_entry.get("url", "")))
        return True

    def require_copies(self) -> None:
        """Check that what this version is started from is there still. Blocks.

        Raises:
            InstallFailedError: If it is not.
        """
        for folder in self.folders:
            if not Path(folder).is_dir():
                raise InstallFailedError(
                    f"{self.pin} is not there any more: {folder} is missing",
                    hint="`discovery marketplace install --version` installs an earlier version"
                    " anew",
                )

    def _names_package(self, word: str) -> bool:
        """Whether a word of a command is the package, as npx, uvx, docker and dnx take it."""
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
    offer: str
    """The identifier of the offer that it was made from."""
    current: InstalledVersion
    previous: InstalledVersion | None = None
    installed_at: float = 0.0
    """Unix time in seconds, of this version."""

    @property
    def folders(self) -> tuple[str, ...]:
        """Those of both versions."""
        return (*self.current.folders, *(self.previous.folders if self.previous else ()))


class BegunWork(Struct, frozen=True, omit_defaults=True):
    """What is deleted if the work was cut off, unless the server is there after all."""

    scope: str
    where: Place
    name: str
    secrets: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


class InstallRecords:
    """The records of one data folder. Methods block."""

    def __init__(self, data: Path) -> None:
        self.folder = data / "packages"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """A block in which no other process installs.

        Raises:
            InstallBusyError: If another one does.
            InstallFailedError: If the folder cannot be written.
        """
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise _unwritable(self.folder, error) from error
        try:
            deadline = time.monotonic() + _WAIT
            while not _is_locked_now(descriptor):
                if time.monotonic() > deadline:
                    raise InstallBusyError
                time.sleep(_PAUSE)
            yield
        finally:
            os.close(descriptor)

    def find(self, scopes: Sequence[str], name: str) -> InstalledServer | None:
        """The installed server of that name; None if it was not installed."""
        for scope in scopes:
            if found := _read(self._file("installed", scope, name), InstalledServer):
                return found
        return None

    def record_of(self, scopes: Sequence[str], server: ServerSettings) -> InstalledServer | None:
        """The record of a configured server; None if it was not installed where it stands."""
        found = self.find(scopes, server.renamed_from or server.name)
        is_here = found and found.where == place_of(server) and found.current.is_run_by(server)
        return found if is_here else None

    @property
    def is_empty(self) -> bool:
        """Whether no server was ever installed, in any configuration."""
        return not (self.folder / "installed").is_dir()

    def all(self) -> tuple[InstalledServer, ...]:
        """The installed servers of all configurations."""
        files = sorted((self.folder / "installed").glob("*.json"))
        found = (_read(file, InstalledServer) for file in files)
        return tuple(server for server in found if server is not None)

    def of(self, scopes: Sequence[str]) -> tuple[InstalledServer, ...]:
        """The installed servers of one configuration."""
        files = {self._file("installed", scope, one.name) for scope in scopes for one in self.all()}
        found = (_read(file, InstalledServer) for file in sorted(files))
        return tuple(server for server in found if server is not None)

    def save(self, scope: str, server: InstalledServer) -> None:
        """Raises InstallFailedError if it cannot be written."""
        _write(self._file("installed", scope, server.name), msgspec.json.encode(server))

    def delete(self, scopes: Sequence[str], name: str) -> None:
        for scope in scopes:
            with suppress(OSError):
                self._file("installed", scope, name).unlink()

    def begin(self, work: BegunWork) -> None:
        """Raises InstallFailedError if it cannot be written."""
        _write(self._file("begun", work.scope, work.name), msgspec.json.encode(work))

    def end(self, work: BegunWork) -> None:
        with suppress(OSError):
            self._file("begun", work.scope, work.name).unlink()

    def begun(self) -> tuple[BegunWork, ...]:
        """What was begun, and neither ended nor undone."""
        files = sorted((self.folder / "begun").glob("*.json"))
        found = (_read(file, BegunWork) for file in files)
        return tuple(work for work in found if work is not None)

    def _file(self, kind: str, scope: str, name: str) -> Path:
        import hashlib  # noqa: PLC0415 - a list where nothing was installed loads nothing for it

        digest = hashlib.sha256(f"{scope}\0{name.casefold()}".encode(errors="surrogatepass"))
        return self.folder / kind / f"{digest.hexdigest()[:32]}.json"


def _host(url: str) -> str:
    from urllib.parse import urlsplit  # noqa: PLC0415 - a list loads nothing for it

    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""


def place_of(server: ServerSettings) -> Place | None:
    """Where a server stands that may have been installed; None for that of another source."""
    if server.is_registered:
        return "registry"
    return "file" if server.source == OWN_SOURCE else None


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(_LARGEST), type=kind)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, content, follows_link=False)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> InstallFailedError:
    return InstallFailedError(
        f"{path} cannot be written: {error.strerror or error}",
        hint="check the space and the permissions of the data folder",
    )


def _is_locked_now(descriptor: int) -> bool:
    try:
        lock_file(descriptor)
    except BlockingIOError:
        return False
    return True
