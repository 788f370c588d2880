"""Adds the entry of this gateway to the files of other MCP clients, and removes it.

    place = find_place(locator, client, in_project=False)
    connection = plan_connection(place, entry_of, records)
    connection.apply()

The original file is saved in the data folder, so that it can be restored byte for byte.
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
from discovery_engine.config.editing.edit import Edit, not_edited, read_file
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
"""The name of the entry of this gateway, and an alternative if another server has that name."""

_LONGEST_LINE = 2000  # characters of a line in a diff
_PRIVATE = 0o700


class ClientPlace(Struct, frozen=True):
    """The file of a client that receives the entry."""

    client: ClientRow
    path: Path
    spec: FileSpec
    exists: bool
    is_here: bool
    """False if the client does not seem to be installed on this machine."""
    looked: tuple[Path, ...]
    """The paths that were checked."""

    @property
    def shape(self) -> FileShape:
        shape = shape_of(self.client, self.spec.containers[0])
        return replace(shape, kind=format_of(self.path.suffix, shape.kind))

    @property
    def source(self) -> Source:
        return Source(self.client.id, str(self.path))


def connectable(locator: FileLocator) -> Iterator[ClientRow]:
    """Yield the clients to whose files the entry can be added."""
    for client in load_table().clients.values():
        if client.reader == "entries" and any(_places(locator, client, in_project=False)):
            yield client


def find_place(locator: FileLocator, client: ClientRow, *, in_project: bool) -> ClientPlace | None:
    """Return the file for an entry: the existing one of highest precedence, else a new one.

    A new file is placed in a folder that exists already, if the client has one. Returns None if the
    client has no file of that scope.
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
    """The state of a file after the entry was written, for undoing it."""

    after: str
    """The hex digest of the file with the entry."""
    is_created: bool
    """True if the file did not exist before."""


class Records(Struct, frozen=True):
    """The original files of clients and their records, stored in the data folder."""

    folder: Path

    def original(self, path: Path) -> Path:
        """Return the path of the saved original of a file."""
        name = digests.digest(str(path.resolve()).encode()).hex()[:16]
        return self.folder / f"{name}{path.suffix}"

    def find(self, path: Path) -> Record | None:
        with suppress(OSError, ValueError, TypeError, KeyError):
            form = json.loads(self._form(path).read_bytes())
            return Record(str(form["after"]), bool(form["is_created"]))
        return None

    def keep(self, path: Path, content: bytes | None) -> None:
        """Save the original content of a file; None if the file did not exist."""
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
    """The name of the entry; empty if there is none to remove."""
    secrets: frozenset[str] = frozenset()
    """The secrets in the file, which `diff` redacts."""
    original: bytes | None = None
    """The content that an undo will restore; None if the file did not exist."""
    is_undo: bool = False
    """True if this removes the entry."""
    is_restored: bool = False
    """True if the file is restored byte for byte."""
    is_deleted: bool = False
    """True if the file is deleted, because it did not exist before."""
    moved: tuple[str, ...] = ()
    """The servers that are removed from the file, or restored by an undo, by its names."""

    @property
    def is_empty(self) -> bool:
        return self.edit.is_empty and not self.is_deleted

    def diff(self) -> str:
        """Return the changed lines, with secrets redacted and long lines truncated."""
        text = Redactor(self.secrets).redact(self.edit.diff(context=0))
        return "\n".join(
            line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…"
            for line in text.splitlines()
        )

    def apply(self) -> None:
        """Write the file atomically, and save what an undo needs.

        Raises:
            ConfigurationError: If the file has changed since the plan, or cannot be written.
        """
        path = self.place.path
        try:
            if not self.is_undo:
                self.records.keep(path, self.original)
        except OSError as error:
            raise not_edited(self.records.folder, f"cannot be written: {error.strerror}") from error
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
                raise not_edited(path, "has changed in the meantime", "try again")
            path.unlink()
        except OSError as error:
            raise not_edited(path, f"cannot be removed: {error.strerror}") from error


def plan_connection(
    place: ClientPlace,
    entry_of: Callable[[str], JSONObject],
    records: Records,
    locator: FileLocator,
    *,
    without: Collection[str] = (),
) -> Connection:
    """Plan adding the entry of this gateway to a file; an existing one is replaced.

    Args:
        place: The file.
        entry_of: Makes the entry for a name.
        records: The store for the original file.
        locator: The folders of this machine.
        without: The servers to remove, by their names in the file.

    Raises:
        ConfigurationError: If the file cannot be read or edited, with line and column; or if it is
            a symbolic link in a project.
    """
    if place.spec.scope == "project" and place.path.is_symlink():
        # An untrusted project may contain the link to have another file overwritten.
        raise not_edited(place.path, "is a link", "name the file of your user, without --project")
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
    """Return the content for an undo: the saved original, or `base` if others changed the file."""
    record = records.find(place.path)
    if record is None or content is None:
        return content
    if record.after == _digest(content):
        return None if record.is_created else records.original(place.path).read_bytes()
    return base.encode()


def plan_undo(place: ClientPlace, records: Records, locator: FileLocator) -> Connection:
    """Plan restoring the original file; if others changed it since, only the entry is removed.

    Raises:
        ConfigurationError: If the file cannot be read or edited, with line and column.
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
    """Return the number of other servers in a file, and whether it has the entry.

    Raises:
        ConfigurationError: If the file cannot be read, with line and column.
    """
    file = read_file(place.path, place.client.bytes)
    with _editing(place):
        entries = servers_of(_parted(file.text)[1], place.shape)
        own = [name for name in entries if _is_own(place, name, entries[name], records, locator)]
    return len(entries) - len(own), bool(own)


class Machine(Struct, frozen=True):
    """The files of clients on this machine, and their saved originals."""

    locator: FileLocator
    records: Records

    @classmethod
    def here(cls, data_dir: str | None) -> Machine:
        """Return this machine, with the working directory as the project."""
        locator = FileLocator(os.environ, Path.home(), Path.cwd(), layout_of(sys.platform))
        return cls(locator, Records(Path(data_folder(data_dir, os.environ)) / "clients"))

    @property
    def clients(self) -> dict[str, ClientRow]:
        """Return the clients to whose files the entry can be added, by id."""
        return {client.id: client for client in connectable(self.locator)}

    def here_now(self) -> list[ClientPlace]:
        """Return the files of the installed clients, and the existing ones of this project."""
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
        """Return the files of `here_now` as JSON, with their servers and connection states."""
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
    """Return deep links by client id; each opens the client, which offers to add the entry."""
    entry = {"command": command.words[0], "args": list(command.words[1:]), "env": {**command.env}}
    text = quote(base64.b64encode(json.dumps(entry).encode()), safe="")
    named = json.dumps({"name": NAMES[0], "type": "stdio", **entry})
    return {
        "cursor": f"cursor://anysphere.cursor-deeplink/mcp/install?name={NAMES[0]}&config={text}",
        "vscode": f"vscode:mcp/install?{quote(named, safe='')}",
    }


def names_in(place: ClientPlace, wanted: Collection[str]) -> list[str]:
    """Return the names in a file whose normalized form is among `wanted`."""
    entries = servers_of(_parted(read_file(place.path, place.client.bytes).text)[1], place.shape)
    return [name for name in entries if normalized_name(name) in wanted]


def _has_all(entry: object, wanted: object) -> bool:
    """Return whether an entry contains all members of `wanted`; it may have others."""
    if not (isinstance(entry, dict) and isinstance(wanted, dict)):
        return False
    return all(entry.get(key) == value for key, value in wanted.items())


def _server(place: ClientPlace, name: str, entry: object, locator: FileLocator) -> ServerSettings:
    """Return the server of an entry in the file; without a transport if the entry is invalid."""
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
    """Split off a byte order mark, which Windows programs write; return it and the rest."""
    return ("\ufeff", text[1:]) if text.startswith("\ufeff") else ("", text)


def _digest(content: bytes) -> str:
    return digests.digest(content).hex()


@contextmanager
def _editing(place: ClientPlace) -> Iterator[None]:
    """Convert an `UnreadableError` of the block to a `ConfigurationError` with line and column."""
    try:
        yield
    except UnreadableError as error:
        origin = Origin(str(place.path), error.line, error.column)
        message, hint = f"cannot be edited: {error.reason}", "mend the file, and try again"
        problem = Diagnostic("CONFIG_NOT_EDITED", message, hint, origin=origin)
        raise ConfigurationError([problem]) from None
