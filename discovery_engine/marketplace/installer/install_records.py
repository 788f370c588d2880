"""Records of servers installed from the marketplace: small files in the data folder, one each.

    packages/installed/DIGEST.json     one server: what an update needs to plan it again
    packages/begun/DIGEST.json         an installation or removal under way
    packages/lock                      held by the one process that installs

A file of `begun` that is found under the lock belongs to a process that was killed. Light to
import: `discovery list` needs it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.file_lock import open_locked
from discovery_engine._util.files import replace_file
from discovery_engine._util.json import JSONObject
from discovery_engine.config.files.location import decision_scopes
from discovery_engine.config.settings import (
    OWN_SOURCE,
    RemoteTransport,
    ServerSettings,
    StdioTransport,
)
from discovery_engine.config.syntax import command_words, program_name
from discovery_engine.errors import InstallBusyError, InstallFailedError
from discovery_engine.store.server_records import PackagePin

if TYPE_CHECKING:
    from discovery_engine.config.settings import ServerSettings, Settings
    from discovery_engine.tools.model import ServerName
    from discovery_engine.view.status import ServerReport

T = TypeVar("T", bound=Struct)
Place: TypeAlias = Literal["file", "registry"]

_MAX_INSTALL_RECORD_BYTES = 4 * 1024 * 1024  # bytes of a record
_WAIT = 10.0  # seconds for another process that installs; then an error says so


class Grants(Struct, frozen=True):
    """The access that the owner grants a server, beyond what its sandbox gives to any server."""

    network: bool = True
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()


class InstalledVersion(Struct, frozen=True, omit_defaults=True):
    """A version of a server as it was entered."""

    pin: PackagePin
    server_entry: JSONObject
    values: Mapping[str, tuple[str, ...]] = {}
    """The values from its owner that are not secret, by the keys that were asked for."""
    grants: Grants = Grants()
    folders: tuple[str, ...] = ()
    """The server's own folders, removed with it: an unpacked bundle, or a copy made by 0.1."""

    def is_run_by(self, server: ServerSettings) -> bool:
        """Return whether a configured server runs this package; its entry may have been edited.

        A server whose transport is not known, because it is not remembered, is taken to run it.
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
        """Return whether a word of a command is the package, as npx, uvx, docker or dnx take it."""
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
        """The folders of the current and of the previous version."""
        return (*self.current.folders, *(self.previous.folders if self.previous else ()))


class BegunWork(Struct, frozen=True, omit_defaults=True):
    """Work under way, and what to delete if it was cut off, unless the server exists after all."""

    scope: str
    where: Place
    name: str
    secrets: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


class InstallRecords:
    """The records of one data folder. Methods block, and raise InstallFailedError on the disk."""

    def __init__(self, data: Path) -> None:
        self._folder = data / "packages"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """A block in which no other process installs.

        Raises:
            InstallBusyError: If another one does.
        """
        with _disk_errors(self._folder):
            try:
                descriptor = open_locked(self._folder / "lock", at_most=_WAIT)
            except BlockingIOError:
                raise InstallBusyError from None
        try:
            yield
        finally:
            os.close(descriptor)

    def start_folder(self) -> Path:
        """An empty folder to start npx and uvx in: a project's settings and packages count not."""
        return self._folder / "start"

    def make_start_folder(self) -> None:
        folder = self.start_folder()
        with _disk_errors(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # npm and uv look for these in the folders above, too.
            (folder / "package.json").write_text("{}", "utf-8")
            (folder / "uv.toml").touch()

    def find(self, scopes: Sequence[str], name: str) -> InstalledServer | None:
        """The installed server of that name; None if it was not installed."""
        files = (self._file("installed", scope, name) for scope in scopes)
        return next(filter(None, (_read(file, InstalledServer) for file in files)), None)

    def record_of(self, scopes: Sequence[str], server: ServerSettings) -> InstalledServer | None:
        """The record of a configured server; None if it was not installed where it stands."""
        record = self.find(scopes, server.renamed_from or server.name)
        is_here = record and record.where == place_of(server) and record.current.is_run_by(server)
        return record if is_here else None

    @property
    def is_empty(self) -> bool:
        """True if no server was ever installed, in any configuration."""
        return not (self._folder / "installed").is_dir()

    def all(self) -> tuple[InstalledServer, ...]:
        """The installed servers of all configurations."""
        return self._all("installed", InstalledServer)

    def of(self, scopes: Sequence[str]) -> tuple[InstalledServer, ...]:
        """The installed servers of one configuration."""
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
        """Return the work that was begun, and neither ended nor undone."""
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
    """Where a server stands that may have been installed; None for that of another source."""
    if server.is_registered:
        return "registry"
    return "file" if server.source == OWN_SOURCE else None


def installed_packages(settings: Settings, data: Path) -> Mapping[ServerName, PackagePin]:
    """The packages of installed servers, by the names by which these are addressed. Blocks.

    The registry keeps that of a registered server; of one in the file only its record has it.
    """
    records = InstallRecords(data)
    if records.is_empty:
        return {}
    scopes = decision_scopes(settings.path, settings.name)
    pairs = ((server.name, records.record_of(scopes, server)) for server in settings.servers)
    return {name: record.current.pin for name, record in pairs if record}


def with_packages(
    reports: Iterable[ServerReport], packages: Mapping[ServerName, PackagePin]
) -> list[ServerReport]:
    """The reports, those of installed servers with their package."""
    return [
        report
        if report.package or report.name not in packages
        else replace(report, package=str(packages[report.name]))
        for report in reports
    ]


def remove_folder(folder: Path) -> None:
    """Delete a folder with all in it; a link to one is deleted, and not followed."""
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        aside = folder.with_name(f".deleted-{os.getpid()}-{folder.name}")
        folder.replace(aside)  # in one step: no process finds half of it
        shutil.rmtree(aside, ignore_errors=True)
    for left in folder.parent.glob(".deleted-*"):  # of a process that was killed meanwhile
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


# The package that a command runs, as far as its words name one: `npx -y @acme/mail@1.2.3`.
#
# Only the runners of npm and PyPI are read. A word that may be anything else is no package: a path,
# an address, a reference, an option that is not known.


class _Runner(NamedTuple):
    form: re.Pattern[str]
    naming: str
    """Options that name the package, if it is not the first word."""
    valued: str
    """Options whose value is the next word."""
    bare: str
    """Options without a value."""


_NPM = _Runner(
    re.compile(r"((?:@[a-z0-9~-][\w.~-]*/)?[a-z0-9~-][\w.~-]*)(?:@([\w.+~^-]+))?"),
    "--package -p",
    "--registry --cache --prefix --userconfig --workspace -w --loglevel",
    "-y --yes -q --quiet --silent --no-install --prefer-online --bun --verbose",
)
_PYPI = _Runner(
    re.compile(r"([A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)(?:\[[\w,.\s-]*\])?(?:(?:==|@)([\w.+!-]+))?"),
    "--from --spec",
    "--with --with-editable --with-requirements --python -p --index -i --index-url --default-index"
    " --extra-index-url --cache-dir --env-file --directory --project --config-file"
    " --refresh-package --constraints -c",
    "--isolated --offline --no-cache -n --refresh --quiet -q --native-tls --no-config --no-progress"
    " --managed-python --no-env-file --verbose -v",
)
_RUNNERS: Mapping[str, _Runner] = {
    **dict.fromkeys(("npx", "npm exec", "npm x", "pnpx", "pnpm dlx", "yarn dlx"), _NPM),
    **dict.fromkeys(("bunx", "bun x"), _NPM),
    **dict.fromkeys(("uvx", "uv tool run", "uv x", "pipx run"), _PYPI),
}


def with_run_packages(
    reports: Iterable[ServerReport], servers: Mapping[ServerName, ServerSettings]
) -> list[ServerReport]:
    """The reports; one without a package has that of its command."""
    return [
        replace(report, package=run_package(servers[report.name]))
        if not report.package and report.name in servers
        else report
        for report in reports
    ]


def run_package(server: ServerSettings) -> str:
    """The package that its command names, with the version: `NAME@VERSION`; empty for none."""
    if not isinstance(server.transport, StdioTransport):
        return ""
    program, *arguments = command_words(server.transport.command, server.transport.args)
    words = [program_name(program), *arguments]
    for begin, runner in _RUNNERS.items():
        count = len(begin.split())
        if words[:count] == begin.split():
            return _named(words[count:], runner)
    return ""


def _named(words: Iterable[str], runner: _Runner) -> str:
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        if option in runner.naming.split():
            word = value if equals else next(rest, "")  # noqa: PLW2901
        elif word == "--" or option in runner.bare.split():
            continue
        elif option in runner.valued.split():
            if not equals:
                next(rest, None)
            continue
        elif word.startswith("-"):  # it may have a value, or not
            return ""
        package = runner.form.fullmatch(word)
        return "@".join(filter(None, package.groups())) if package else ""
    return ""
