"""The entry of this gateway in the file of another MCP client: planned, written and taken out.

    place = find_place(locator, client, in_project=False)
    connection = plan_connection(place, entry_of, records)
    connection.apply()

The file as it was before is kept in the data folder, so that it can be restored byte for byte.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util import digests, files
from discovery_engine._util.json import JSONObject
from discovery_engine.config.editing.client_text import (
    FileShape,
    servers_of,
    with_entry,
    without_entry,
)
from discovery_engine.config.editing.edit import Edit, read_file
from discovery_engine.config.entry_secrets import secrets_of
from discovery_engine.config.files.data_folder import data_folder
from discovery_engine.config.own_entry import is_own_entry
from discovery_engine.config.settings import ServerSettings, Source
from discovery_engine.config.sources.client_table import (
    ClientRow,
    FileCandidate,
    FileLocator,
    FileSpec,
    is_file,
    layout_of,
    load_table,
)
from discovery_engine.config.sources.entries import SkippedEntryError
from discovery_engine.config.sources.formats import UnreadableError, format_of
from discovery_engine.config.sources.source_reader import SourceReader, normalized_name
from discovery_engine.engine.owner.gateway_command import GatewayCommand
from discovery_engine.engine.owner.server_export import shape_of
from discovery_engine.errors import ConfigurationError
from discovery_engine.errors.diagnostic import Diagnostic, Origin
from discovery_engine.secrets.redactor import Redactor
from discovery_engine.secrets.resolver import EnvironmentResolver
from discovery_engine.tools.model import ServerName

NAMES = ("discovery", "mcp-discovery-engine")
"""The name of an entry of this gateway, and the one for where another server has that name."""

_LONGEST_LINE = 2000  # characters of a file's line that are shown
_PRIVATE = 0o700


class ClientPlace(Struct, frozen=True):
    """The file of a client that an entry goes into."""

    client: ClientRow
    path: Path
    spec: FileSpec
    exists: bool
    is_here: bool
    """False if nothing of the client is on this machine."""
    looked: tuple[Path, ...]
    """The files that were looked for."""

    @property
    def shape(self) -> FileShape:
        shape = shape_of(self.client, self.spec.containers[0])
        return replace(shape, kind=format_of(self.path.suffix, shape.kind))

    @property
    def source(self) -> Source:
        return Source(self.client.id, str(self.path))


def connectable(locator: FileLocator) -> Iterator[ClientRow]:
    """The clients whose files can get an entry."""
    for client in load_table().clients.values():
        if client.reader == "entries" and any(_places(locator, client, in_project=False)):
            yield client


def find_place(locator: FileLocator, client: ClientRow, *, in_project: bool) -> ClientPlace | None:
    """The file for an entry: the strongest that is there, else the one that the client would read.

    None if the client has no file for a project.
    """
    places = [*_places(locator, client, in_project=in_project)]
    if not places:
        return None
    existing = (place for place in places if is_file(place[0]))
    in_folder = (place for place in places if _is_own_folder(locator, place[0].parent))
    has_folder = bool(client.folder) and locator.path(client.folder).is_dir()
    first = places[0] if in_project or has_folder else None
    chosen = next(existing, None) or next(in_folder, None) or first
    path, spec = chosen or places[0]
    looked = tuple(dict.fromkeys(path for path, _ in places))
    return ClientPlace(client, path, spec, is_file(path), chosen is not None, looked)


def _is_own_folder(locator: FileLocator, folder: Path) -> bool:
    return folder.is_dir() and folder != locator.home


def _places(
    locator: FileLocator, client: ClientRow, *, in_project: bool
) -> Iterator[tuple[Path, FileSpec]]:
    scope = "project" if in_project else "user"
    for spec in client.files:
        if spec.scope != scope or not spec.containers or "{project}" in spec.containers[0]:
            continue
        templates = [path for path in spec.paths.get(locator.layout, ()) if "*" not in path]
        if in_project:
            there = (folder for folder in locator.projects if _has_any(folder, templates))
            folder = next(there, locator.projects[-1])
            yield from ((folder / template, spec) for template in templates)
        else:
            yield from ((locator.path(template), spec) for template in templates)


def _has_any(folder: Path, templates: Collection[str]) -> bool:
    return any(is_file(folder / template) for template in templates)


class Record(Struct, frozen=True):
    """What an entry was written over."""

    after: str
    """The digest of the file with the entry."""
    is_created: bool
    """True if the file was not there before."""


class Records(Struct, frozen=True):
    """The files of clients as they were before, in the data folder."""

    folder: Path

    def original(self, path: Path) -> Path:
        """Where the file of before is kept."""
        name = digests.digest(str(path.resolve()).encode()).hex()[:16]
        return self.folder / f"{name}{path.suffix}"

    def find(self, path: Path) -> Record | None:
        with suppress(OSError, ValueError, TypeError, KeyError):
            form = json.loads(self._form(path).read_bytes())
            return Record(str(form["after"]), bool(form["is_created"]))
        return None

    def keep(self, path: Path, content: bytes | None) -> None:
        """Keep a file as it was; None if it was not there."""
        self.folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        files.replace_file(self.original(path), content or b"", follows_link=False)

    def save(self, path: Path, record: Record) -> None:
        form = {"path": str(path), "after": record.after, "is_created": record.is_created}
        files.replace_file(self._form(path), json.dumps(form), follows_link=False)

    def forget(self, path: Path) -> None:
        self._form(path).unlink(missing_ok=True)
        self.original(path).unlink(missing_ok=True)

    def _form(self, path: Path) -> Path:
        return self.original(path).with_suffix(".record")


class Connection(Struct, frozen=True):
    """A planned change of a client's file; nothing is written before `apply`."""

    place: ClientPlace
    edit: Edit
    records: Records
    name: str
    """The name of the entry; empty if there is none to take out."""
    secrets: frozenset[str] = frozenset()
    """Those that stand in the file."""
    original: bytes | None = None
    """The file that can be restored later; None if it is not there."""
    is_undo: bool = False
    is_restored: bool = False
    """True if the file is as it was before, to the byte."""
    is_deleted: bool = False
    """True if there was no file before, and there is none again."""
    moved: tuple[str, ...] = ()
    """The servers that are taken out of the file, or are back in it, by its own names."""

    @property
    def is_empty(self) -> bool:
        return self.edit.is_empty and not self.is_deleted

    def diff(self) -> str:
        """The lines that differ, without the secrets of the file; long ones are cut."""
        text = Redactor(self.secrets).redact(self.edit.diff(context=0))
        return "\n".join(
            line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…"
            for line in text.splitlines()
        )

    def apply(self) -> None:
        """Write the file in one step, and what an undo needs.

        Raises:
            ConfigurationError: If the file has changed since the plan, or cannot be written.
        """
        path = self.place.path
        try:
            if not self.is_undo:
                self.records.keep(path, self.original)
        except OSError as error:
            raise _error(self.records.folder, f"cannot be written: {error.strerror}") from error
        if self.is_deleted:
            self._delete()
        else:
            self.edit.apply()
        if self.is_undo:
            if self.is_restored:
                self.records.forget(path)
            return
        self.records.save(path, Record(_digest(self.edit.after.encode()), self.original is None))

    def _delete(self) -> None:
        path = self.place.path
        try:
            if path.read_bytes() != self.edit.before:
                raise _error(path, "has changed in the meantime", "try again")
            path.unlink()
        except OSError as error:
            raise _error(path, f"cannot be removed: {error.strerror}") from error


def plan_connection(
    place: ClientPlace,
    entry_of: Callable[[str], JSONObject],
    records: Records,
    locator: FileLocator,
    *,
    without: Collection[str] = (),
) -> Connection:
    """The file with the entry of this gateway, in place of one that it has.

    Args:
        place: The file.
        entry_of: The entry for a name.
        records: Where the file as it is now is kept.
        locator: The folders of this machine.
        without: The servers to take out, by the names of the file.

    Raises:
        ConfigurationError: If the file cannot be read or edited; with line and column.
    """
    if place.spec.scope == "project" and place.path.is_symlink():
        # A stranger's project may have put it there, to have another file written.
        raise _error(place.path, "is a link", "name the file of your user, without --project")
    file = read_file(place.path, place.client.bytes)
    with _editing(place):
        bom, text = _parted(file.text)
        entries = servers_of(text, place.shape)
        own = [name for name in entries if _is_own(place, name, entries[name], records, locator)]
        free = next((name for name in NAMES if name not in entries), f"{NAMES[0]}-gateway")
        name = own[0] if own else free
        base = text
        for gone in (*own, *without):
            base = without_entry(base, place.shape, gone)
        after = with_entry(base, place.shape, name, entry_of(name))
        wanted = servers_of(after, place.shape)[name]
        if own == [name] and not without and _has_all(entries[name], wanted):
            after = text
        others = {key: entries[key] for key in entries if key not in own}
        secrets = frozenset(_secrets(place, others, locator))
    return Connection(
        place,
        Edit(place.path, file.content, bom + after, has_backup=False, limit=place.client.bytes),
        records,
        name,
        secrets,
        _original(place, file.content, bom + base, records) if not without else file.content,
        moved=tuple(without),
    )


def _original(
    place: ClientPlace, content: bytes | None, base: str, records: Records
) -> bytes | None:
    """The file that an undo restores: before the first entry, or as others have changed it."""
    record = records.find(place.path)
    if record is None or content is None:
        return content
    if record.after == _digest(content):
        return None if record.is_created else records.original(place.path).read_bytes()
    return base.encode()


def plan_undo(place: ClientPlace, records: Records, locator: FileLocator) -> Connection:
    """The file as it was before; if others have changed it since, only the entry is taken out.

    Raises:
        ConfigurationError: As `plan_connection`.
    """
    file, record = read_file(place.path, place.client.bytes), records.find(place.path)
    edit = Edit(place.path, file.content, file.text, has_backup=False, limit=place.client.bytes)
    undo = Connection(place, edit, records, "", is_undo=True)
    if file.content is None:
        return undo
    with _editing(place):
        bom, text = _parted(file.text)
        entries = servers_of(text, place.shape)
        own = [name for name in entries if _is_own(place, name, entries[name], records, locator)]
        secrets = frozenset(_secrets(place, entries, locator))
        undo = replace(undo, name=own[0] if own else "", secrets=secrets)
        if record and record.after == _digest(file.content):
            if record.is_created:
                edit = replace(edit, after="")
                return replace(undo, edit=edit, is_restored=True, is_deleted=True)
            original = records.original(place.path).read_bytes().decode()
            again = servers_of(_parted(original)[1], place.shape)
            moved = tuple(name for name in again if name not in entries)
            edit = replace(edit, after=original)
            return replace(undo, edit=edit, is_restored=True, moved=moved)
        base = text
        for name in own:
            base = without_entry(base, place.shape, name)
    return replace(undo, edit=replace(edit, after=bom + base))


def own_entries(place: ClientPlace, records: Records, locator: FileLocator) -> tuple[int, bool]:
    """How many other servers a file has, and whether it has an entry of this gateway.

    Raises:
        ConfigurationError: As `plan_connection`.
    """
    file = read_file(place.path, place.client.bytes)
    with _editing(place):
        entries = servers_of(_parted(file.text)[1], place.shape)
        own = [name for name in entries if _is_own(place, name, entries[name], records, locator)]
    return len(entries) - len(own), bool(own)


class Machine(Struct, frozen=True):
    """Where the files of clients are on this machine, and those of before."""

    locator: FileLocator
    records: Records

    @classmethod
    def here(cls, data_dir: str | None) -> Machine:
        """Return this machine as it is seen from the working directory."""
        locator = FileLocator(os.environ, Path.home(), Path.cwd(), layout_of(sys.platform))
        return cls(locator, Records(Path(data_folder(data_dir, os.environ)) / "clients"))

    @property
    def clients(self) -> dict[str, ClientRow]:
        """The clients whose files can get an entry, by id."""
        return {client.id: client for client in connectable(self.locator)}

    def here_now(self) -> list[ClientPlace]:
        """The files of the clients on this machine, and of this project."""
        places = []
        for client in self.clients.values():
            user = find_place(self.locator, client, in_project=False)
            project = find_place(self.locator, client, in_project=True)
            if user and user.is_here:
                places.append(user)
            is_other = project and project.exists and not (user and _is_same(user, project))
            if project and is_other:
                places.append(project)
        return places

    def forms(self) -> list[JSONObject]:
        """Describe these: the file of each, its servers, and whether it is connected."""
        forms = []
        for place in self.here_now():
            count, is_connected, problem = 0, False, ""
            try:
                if place.exists:
                    count, is_connected = own_entries(place, self.records, self.locator)
            except ConfigurationError as error:
                problem = str(error)
            forms.append(
                {
                    "client": place.client.id,
                    "label": place.client.label,
                    "scope": place.spec.scope,
                    "path": str(place.path),
                    "exists": place.exists,
                    "connected": is_connected,
                    "servers": count,
                    "problem": problem or None,
                }
            )
        return forms


def _is_same(left: ClientPlace, right: ClientPlace) -> bool:
    return left.path.resolve() == right.path.resolve()


def links_of(command: GatewayCommand) -> dict[str, str]:
    """Make the addresses that open a client with the entry, which it then asks about."""
    entry = {"command": command.words[0], "args": list(command.words[1:]), "env": {**command.env}}
    text = quote(base64.b64encode(json.dumps(entry).encode()), safe="")
    named = json.dumps({"name": NAMES[0], "type": "stdio", **entry})
    return {
        "cursor": f"cursor://anysphere.cursor-deeplink/mcp/install?name={NAMES[0]}&config={text}",
        "vscode": f"vscode:mcp/install?{quote(named, safe='')}",
    }


def names_in(place: ClientPlace, wanted: Collection[str]) -> list[str]:
    """The file's own names of servers that are called so here."""
    entries = servers_of(_parted(read_file(place.path, place.client.bytes).text)[1], place.shape)
    return [name for name in entries if normalized_name(name) in wanted]


def _has_all(entry: object, wanted: object) -> bool:
    """Return whether an entry has what it should; its owner may have added to it."""
    if not (isinstance(entry, dict) and isinstance(wanted, dict)):
        return False
    return all(entry.get(key) == value for key, value in wanted.items())


def _server(place: ClientPlace, name: str, entry: object, locator: FileLocator) -> ServerSettings:
    """The server that an entry of the file describes, whatever state it is in."""
    candidate = FileCandidate(place.path, place.spec, locator.cwd)
    reader = SourceReader(place.client, locator).entry_reader(candidate, "")
    with suppress(SkippedEntryError):
        return reader.read(ServerName(name), entry, key=name).server
    return ServerSettings(ServerName(name), None)


def _is_own(
    place: ClientPlace, name: str, entry: object, records: Records, locator: FileLocator
) -> bool:
    return is_own_entry(_server(place, name, entry, locator).transport, records.folder.parent)


def _secrets(place: ClientPlace, entries: dict[str, object], locator: FileLocator) -> Iterator[str]:
    for name, entry in entries.items():
        server = _server(place, name, entry, locator)
        yield from (secret.text for secret in secrets_of(server, EnvironmentResolver({})))


def _parted(text: str) -> tuple[str, str]:
    """A mark of the byte order, which Windows programs write, and the text after it."""
    return ("\ufeff", text[1:]) if text.startswith("\ufeff") else ("", text)


def _digest(content: bytes) -> str:
    return digests.digest(content).hex()


@contextmanager
def _editing(place: ClientPlace) -> Iterator[None]:
    """A block in which an unreadable file becomes an error with its line and column."""
    try:
        yield
    except UnreadableError as error:
        origin = Origin(str(place.path), error.line, error.column)
        message, hint = f"cannot be edited: {error.reason}", "mend the file, and try again"
        problem = Diagnostic("CONFIG_NOT_EDITED", message, hint, origin=origin)
        raise ConfigurationError([problem]) from None


def _error(path: Path, message: str, hint: str = "") -> ConfigurationError:
    return ConfigurationError.of_file("CONFIG_NOT_EDITED", path, message, hint)
