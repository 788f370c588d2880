"""Edits of a `discovery.yaml`: each is planned on a copy of its text, then applied as a whole.

    edit = disable_server(path, "github")
    print(edit.diff())
    edit.apply()

A plan that would not load, or that asks for what is not there, is refused before anything is
written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.file_lock import lock_file
from discovery_engine._util.files import replace_file
from discovery_engine._util.suggestions import did_you_mean
from discovery_engine.config.document.yaml_reader import SIZE_LIMIT
from discovery_engine.config.editing import yaml_text
from discovery_engine.config.editing.diff_headings import headed_diff
from discovery_engine.config.editing.entry_text import lost_comments, with_server
from discovery_engine.config.files.inputs import read_input
from discovery_engine.config.loading.parsing import parse_settings
from discovery_engine.config.model.schema import MODELINE, SCHEMA_FILE, json_schema
from discovery_engine.config.settings import ServerSettings, Settings
from discovery_engine.diagnostics import Origin
from discovery_engine.errors import ConfigurationError
from discovery_engine.rules.rule import Rule
from discovery_engine.tools.model import ServerName

BACKUP_SUFFIX = ".bak"
KEPT_BACKUPS = 4
"""`.bak` is the file before the last edit; `.bak.1` to `.bak.3` are those before that."""


class Edit(Struct, frozen=True):
    """What a file becomes; nothing is written before `apply`."""

    path: Path
    before: bytes | None
    """None if there is no such file yet."""
    after: str
    has_schema: bool = False
    """Whether the schema that the file refers to is written beside it."""

    @property
    def is_empty(self) -> bool:
        return self.before == self.after.encode()

    @property
    def backup(self) -> Path:
        """Where the file of before is kept, if there was one."""
        return self.path.with_name(self.path.name + BACKUP_SUFFIX)

    def diff(self) -> str:
        """A unified diff; it shows the text as it is, with the secrets that stand in it."""
        before = (self.before or b"").decode(errors="replace").splitlines(keepends=True)
        after = self.after.splitlines(keepends=True)
        return headed_diff(before, after, str(self.path))

    def lost_comments(self) -> list[str]:
        """The comments that go, in their order."""
        return lost_comments((self.before or b"").decode(errors="replace"), self.after)

    def apply(self) -> None:
        """Write the file in one step, after a backup of the one that is there.

        Raises:
            ConfigurationError: If the file has changed since the plan, or cannot be written; it is
                then as it was.
        """
        if self.is_empty:
            return
        with _only_editor(self.path):
            self._replace()

    def _replace(self) -> None:
        if _content(self.path) != self.before:
            raise _error(self.path, "has changed in the meantime", "plan the edit again")
        if self.before is not None:
            _keep_backups(self.backup)
            _write(self.backup, self.before, like=self.path, follows_link=False)
        _write(self.path, self.after.encode())
        if self.has_schema:
            schema = json.dumps(json_schema(), indent=2) + "\n"
            _write(self.path.parent / SCHEMA_FILE, schema.encode(), follows_link=False)


class FileText(Struct, frozen=True):
    """A file as it is now, to be edited."""

    path: Path
    content: bytes | None
    """None if it is not there."""
    text: str


def read_file(path: Path) -> FileText:
    """A file as it is now; the text of one that is not there is empty.

    Raises:
        ConfigurationError: If it cannot be read, or is no text.
    """
    content = _content(path)
    return FileText(path, content, "" if content is None else _decoded(path, content))


def new_file(path: Path, text: str) -> Edit:
    """A file with this text, in place of the one that is there, if there is one.

    Raises:
        ConfigurationError: If the text would not load.
    """
    return _edit(path, _content(path), text, has_schema=True)


def add_servers(path: Path, servers: Sequence[ServerSettings], rules: Iterable[Rule] = ()) -> Edit:
    """Servers and tool rules behind those of the file, which is made if it is not there.

    Raises:
        ConfigurationError: If a server of that name is there, or the file does not load.
    """
    before = _content(path)
    text = MODELINE + "\n" if before is None else _decoded(path, before)
    known = _settings(path, text)
    there = {server.name.casefold() for server in known.servers}
    for server in servers:
        if server.name.casefold() in there:
            raise _error(path, f"there is a server {server.name!r} already", "remove it first")
        there.add(server.name.casefold())
    after = yaml_text.with_servers(text, servers, _new_rules(known, rules))
    return _edit(path, before, after, has_schema=before is None)


def replace_server(path: Path, server: ServerSettings) -> Edit:
    """The file with another entry for the server of that name; what stays the same is not touched.

    Raises:
        ConfigurationError: If it has no such entry, or does not load.
    """
    return _edit_entry(path, server.name, lambda text, old: with_server(text, old, server))


def remove_server(path: Path, name: str) -> Edit:
    """The file without the entry of a server.

    Raises:
        ConfigurationError: If it has no such entry, or does not load.
    """
    return _edit_entry(path, name, lambda text, old: yaml_text.without_server(text, old.name))


def enable_server(path: Path, name: str) -> Edit:
    """The file with a server enabled; rules may disable it still.

    Raises:
        ConfigurationError: If the file has no such entry, or does not load.
    """
    return _edit_entry(path, name, lambda text, old: yaml_text.with_enabled(text, old.name, True))


def disable_server(path: Path, name: str) -> Edit:
    """The file with a server disabled.

    Raises:
        ConfigurationError: If the file has no such entry, or does not load.
    """
    return _edit_entry(path, name, lambda text, old: yaml_text.with_enabled(text, old.name, False))


def _new_rules(known: Settings, rules: Iterable[Rule]) -> list[Rule]:
    """Those that the file does not have yet, each once."""
    there = [replace(one, origin=Origin("")) for one in known.tool_rules]
    new: list[Rule] = []
    for rule in (replace(one, origin=Origin("")) for one in rules):
        if rule not in there and rule not in new:
            new.append(rule)
    return new


def _edit_entry(path: Path, name: str, change: Callable[[str, ServerSettings], str | None]) -> Edit:
    before = _content(path)
    if before is None:
        raise _error(path, "there is no such file", "`discovery init` writes one")
    text = _decoded(path, before)
    known = {server.name: server for server in _settings(path, text).servers}
    after = change(text, known[ServerName(name)]) if name in known else None
    if after is None:
        hint = did_you_mean(name, known, otherwise="servers of a source stand in its own file")
        raise _error(path, f"there is no server {name!r} in this file", hint)
    return _edit(path, before, after)


def _edit(path: Path, before: bytes | None, after: str, *, has_schema: bool = False) -> Edit:
    _settings(path, after)
    return Edit(path, before, after, has_schema)


def _settings(path: Path, text: str) -> Settings:
    return parse_settings(text.encode(), file=str(path))


def _content(path: Path) -> bytes | None:
    """What a file holds; None if it is not there."""
    try:
        return read_input(str(path), limit=SIZE_LIMIT)[0]
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _error(path, f"cannot be read: {error.strerror or error}") from error


def _decoded(path: Path, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise _error(path, "is not UTF-8 text", "save it as UTF-8") from error


@contextmanager
def _only_editor(path: Path) -> Iterator[None]:
    """A block in which no other process applies an edit, and none is overwritten unseen.

    Raises:
        ConfigurationError: If another one does so at this moment.
    """
    try:
        folder = os.open(path.resolve().parent, os.O_RDONLY)
    except OSError:  # on Windows, and where the folder is made with the file
        yield
        return
    try:
        _lock(path, folder)
        yield
    finally:
        os.close(folder)


def _lock(path: Path, folder: int) -> None:
    try:
        lock_file(folder)
    except BlockingIOError as error:
        raise _error(path, "is being edited by another process", "try again") from error
    except OSError:  # a file system without locks
        return


def _keep_backups(newest: Path) -> None:
    """Make way for the next backup: each becomes the one before it, and the oldest goes.

    A link or a folder that a project may have put there is no backup, and stays.
    """
    kept = [newest, *(Path(f"{newest}.{age}") for age in range(1, KEPT_BACKUPS))]
    for older, newer in reversed([*zip(kept[1:], kept, strict=False)]):
        if newer.is_symlink() or not newer.is_file():
            continue
        try:
            newer.replace(older)
        except OSError as error:
            raise _error(older, f"cannot be written: {error.strerror or error}") from error


def _write(
    path: Path, content: bytes, *, like: Path | None = None, follows_link: bool = True
) -> None:
    try:
        replace_file(path, content, like=like, follows_link=follows_link)
    except OSError as error:
        raise _error(path, f"cannot be written: {error.strerror or error}") from error


def _error(path: Path, message: str, hint: str = "") -> ConfigurationError:
    return ConfigurationError.of_file("CONFIG_NOT_EDITED", path, message, hint)
