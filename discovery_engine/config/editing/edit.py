"""Edits of a `discovery.yaml`: each is planned on a copy of the text, then applied as a whole.

    edit = switch_server(path, "github", is_on=False)
    print(edit.diff())
    edit.apply()

An edit whose result would not load, or whose server does not exist, is refused before anything is
written.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import SequenceMatcher, unified_diff
from pathlib import Path
from typing import Any, TypeAlias

import yaml
from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.file_lock import lock_file
from discovery_engine._util.files import replace_file
from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.suggestions import did_you_mean
from discovery_engine.config.document.yaml_reader import SIZE_LIMIT
from discovery_engine.config.editing import yaml_text
from discovery_engine.config.editing.yaml_text import block
from discovery_engine.config.files.inputs import read_input
from discovery_engine.config.loading.parsing import parse_settings
from discovery_engine.config.model.config_file import MODELINE, SCHEMA_FILE, json_schema
from discovery_engine.config.serialization import serialize, serialize_server
from discovery_engine.config.serve_settings import ServeMode
from discovery_engine.config.settings import ServerSettings, Settings, Source
from discovery_engine.errors import ConfigurationError, Origin
from discovery_engine.rules.rule import Rule
from discovery_engine.tools.model import ServerName

BACKUP_SUFFIX = ".bak"
KEPT_BACKUPS = 4
"""The number of backups: `.bak` is from before the last edit, `.bak.1` to `.bak.3` are older."""


class Edit(Struct, frozen=True):
    """A planned change of a file; nothing is written before `apply`."""

    path: Path
    before: bytes | None
    """The present content; None if the file does not exist."""
    after: str
    """The new text."""
    has_schema: bool = False
    """True to write the JSON Schema that the file refers to beside it."""
    has_backup: bool = True
    """True to save the present content as a backup."""
    limit: int = SIZE_LIMIT
    """The most bytes of the present file."""

    @property
    def is_empty(self) -> bool:
        return self.before == self.after.encode()

    @property
    def backup(self) -> Path:
        """The path of the newest backup."""
        return self.path.with_name(self.path.name + BACKUP_SUFFIX)

    def diff(self, context: int = 3) -> str:
        """Return a unified diff with `context` lines around each change.

        It shows the text of the file, including any secrets in it.
        """
        before = (self.before or b"").decode(errors="replace").splitlines(keepends=True)
        after = self.after.splitlines(keepends=True)
        return _headed_diff(before, after, str(self.path), context)

    def lost_comments(self) -> list[str]:
        """Return the comments that the edit removes, in order."""
        return lost_comments((self.before or b"").decode(errors="replace"), self.after)

    def apply(self) -> None:
        """Back up the present file, and replace it atomically.

        Raises:
            ConfigurationError: If the file has changed since the plan, or cannot be written; it
                then stays unchanged.
        """
        if self.is_empty:
            return
        with _only_editor(self.path):
            self._replace()

    def _replace(self) -> None:
        if _content(self.path, self.limit) != self.before:
            raise not_edited(self.path, "has changed in the meantime", "plan the edit again")
        if self.before is not None and self.has_backup:
            _keep_backups(self.backup)
            _write(self.backup, self.before, like=self.path, follows_link=False)
        _write(self.path, self.after.encode())
        if self.has_schema:
            schema = json.dumps(json_schema(), indent=2) + "\n"
            _write(self.path.parent / SCHEMA_FILE, schema.encode(), follows_link=False)


class FileText(Struct, frozen=True):
    """The present content of a file to edit."""

    path: Path
    content: bytes | None
    """The bytes of the file; None if it does not exist."""
    text: str
    """The decoded text; empty if the file does not exist."""


def read_file(path: Path, limit: int = SIZE_LIMIT) -> FileText:
    """Read a file of at most `limit` bytes, which need not exist.

    Raises:
        ConfigurationError: If it cannot be read, is too large, or is not UTF-8.
    """
    content = _content(path, limit)
    return FileText(path, content, "" if content is None else _decoded(path, content))


def existing_file(path: Path) -> FileText:
    """Read a file that must exist.

    Raises:
        ConfigurationError: If it does not exist, cannot be read, is too large, or is not UTF-8.
    """
    file = read_file(path)
    if file.content is None:
        raise not_edited(path, "there is no such file", "`discovery init` writes one")
    return file


def new_file(path: Path, text: str) -> Edit:
    """Plan to write a file with this text, whether or not it exists.

    Raises:
        ConfigurationError: If the text would not load.
    """
    return _edit(path, _content(path), text, has_schema=True)


def add_servers(path: Path, servers: Sequence[ServerSettings], rules: Iterable[Rule] = ()) -> Edit:
    """Plan to append servers and tool rules to a file, which is created if it does not exist.

    Raises:
        ConfigurationError: If the file has a server of one of these names, or does not load.
    """
    before = _content(path)
    text = MODELINE + "\n" if before is None else _decoded(path, before)
    settings = _settings(path, text)
    there = {server.name.casefold() for server in settings.servers}
    for server in servers:
        if server.name.casefold() in there:
            raise not_edited(path, f"there is a server {server.name!r} already", "remove it first")
        there.add(server.name.casefold())
    after = yaml_text.with_servers(text, servers, _new_rules(settings, rules))
    return _edit(path, before, after, has_schema=before is None)


def replace_server(path: Path, server: ServerSettings) -> Edit:
    """Plan to change the entry of a server; equal parts of it keep their text.

    Raises:
        ConfigurationError: If the file has no entry of that name, or does not load.
    """
    return _edit_entry(path, server.name, lambda text, old: with_server(text, old, server))


def remove_server(path: Path, name: str) -> Edit:
    """Plan to remove the entry of a server.

    Raises:
        ConfigurationError: If the file has no entry of that name, or does not load.
    """
    return _edit_entry(path, name, lambda text, old: yaml_text.without_server(text, old.name))


def switch_server(path: Path, name: str, *, is_on: bool) -> Edit:
    """Plan to enable or disable a server; rules may still disable an enabled one.

    Raises:
        ConfigurationError: If the file has no entry of that name, or does not load.
    """
    return _edit_entry(path, name, lambda text, old: yaml_text.with_enabled(text, old.name, is_on))


def set_serve_mode(path: Path, mode: ServeMode) -> Edit:
    """Plan to set `server.mode`.

    Raises:
        ConfigurationError: If there is no file, or it does not load.
    """
    file = existing_file(path)
    text, end = yaml_text.with_unix_lines(file.text)
    _, server = _member(yaml_text.configuration_node(text), "server")
    _, value = _member(server, "mode")
    if value is None:
        after = yaml_text.with_entries(text, ("server",), {"mode": mode})
    else:
        after = _instead(text, value, mode)
    return _edit(path, file.content, after.replace("\n", end))


def _new_rules(settings: Settings, rules: Iterable[Rule]) -> list[Rule]:
    """Return the rules that the file does not contain, without duplicates."""
    there = [replace(rule, origin=Origin("")) for rule in settings.tool_rules]
    new: list[Rule] = []
    for rule in (replace(candidate, origin=Origin("")) for candidate in rules):
        if rule not in there and rule not in new:
            new.append(rule)
    return new


def _edit_entry(path: Path, name: str, change: Callable[[str, ServerSettings], str | None]) -> Edit:
    file = existing_file(path)
    servers = {server.name: server for server in _settings(path, file.text).servers}
    after = change(file.text, servers[ServerName(name)]) if name in servers else None
    if after is None:
        hint = did_you_mean(name, servers, otherwise="servers of a source stand in its own file")
        raise not_edited(path, f"there is no server {name!r} in this file", hint)
    return _edit(path, file.content, after)


def _edit(path: Path, before: bytes | None, after: str, *, has_schema: bool = False) -> Edit:
    _settings(path, after)
    return Edit(path, before, after, has_schema)


def _settings(path: Path, text: str) -> Settings:
    return parse_settings(text.encode(), file=str(path))


def _content(path: Path, limit: int = SIZE_LIMIT) -> bytes | None:
    """Return the content of a file; None if it does not exist."""
    try:
        return read_input(str(path), limit=limit)[0]
    except FileNotFoundError:
        return None
    except OSError as error:
        raise not_edited(path, f"cannot be read: {error.strerror or error}") from error


def _decoded(path: Path, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise not_edited(path, "is not UTF-8 text", "save it as UTF-8") from error


@contextmanager
def _only_editor(path: Path) -> Iterator[None]:
    """Lock the folder of a file, so that no other process applies an edit in it.

    On Windows, and if the folder does not exist, nothing is locked.

    Raises:
        ConfigurationError: If another process holds the lock.
    """
    try:
        folder = os.open(path.resolve().parent, os.O_RDONLY)
    except OSError:  # on Windows, and if the folder is created together with the file
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
        raise not_edited(path, "is being edited by another process", "try again") from error
    except OSError:  # a file system without locks
        return


def _keep_backups(newest: Path) -> None:
    """Rotate the backups: each gets the next number, and the oldest is replaced.

    A link or a folder of that name, which a project may contain, is no backup and stays.
    """
    backups = [newest, *(Path(f"{newest}.{age}") for age in range(1, KEPT_BACKUPS))]
    for older, newer in reversed([*zip(backups[1:], backups, strict=False)]):
        if newer.is_symlink() or not newer.is_file():
            continue
        try:
            newer.replace(older)
        except OSError as error:
            raise not_edited(older, f"cannot be written: {error.strerror or error}") from error


def _write(
    path: Path, content: bytes, *, like: Path | None = None, follows_link: bool = True
) -> None:
    try:
        replace_file(path, content, like=like, follows_link=follows_link)
    except OSError as error:
        hint = "make it writable for this user, or change it where it is made"
        raise not_edited(path, f"cannot be written: {error.strerror or error}", hint) from error


def not_edited(place: object, message: str, hint: str = "") -> ConfigurationError:
    """Return the error for a file, or another place of settings, that stays as it is."""
    return ConfigurationError.of_file("CONFIG_NOT_EDITED", place, message, hint)


# Changes of an entry in the text of a `discovery.yaml`; only differences are written.
#
# Unchanged keys keep their lines, with their order, quotes and comments. A changed key gets its new
# value in place, and the line of a removed item of a list is deleted. An entry that cannot be
# changed in this way is rewritten as a whole.

_Change: TypeAlias = tuple[tuple[str, ...], JSONValue]
"""The path of keys to a value, and the new value; None to remove it."""

_ONE_LINE = 10**9  # columns: texts longer than this are folded, and a value must stay on one line


def with_server(text: str, before: ServerSettings, server: ServerSettings) -> str | None:
    """Change the entry of a server in a text; return None if `servers` has none of its name.

    Args:
        text: A configuration that loads.
        before: The server that the text describes.
        server: The server of the same name that the new text must describe.
    """
    plain, end = yaml_text.with_unix_lines(text)
    after: str | None = plain
    for keys, value in _changes(_form(before), _form(server)):
        after = after and _with_value(after, server.name, keys, value)
    if after is None or not _describes(after, server):
        after = yaml_text.with_new_entry(plain, server)
    return after and after.replace("\n", end)


def lost_comments(before: str, after: str) -> list[str]:
    """Return the comments of one YAML text that another lacks, in order."""
    counts = Counter(_comments(after))
    lost: list[str] = []
    for comment in _comments(before):
        if counts[comment] > 0:
            counts[comment] -= 1
        else:
            lost.append(comment)
    return lost


def _comments(text: str) -> Iterator[str]:
    """Yield the comments of a YAML text, which are found between its tokens."""
    plain, at = text.replace("\t", " "), 0
    for token in yaml.scan(plain, Loader=yaml.SafeLoader):
        yield from _comments_between(text[at : token.start_mark.index])
        at = max(at, token.end_mark.index)
    yield from _comments_between(text[at:])


def _comments_between(text: str) -> Iterator[str]:
    lines = (line.partition("#") for line in text.splitlines())
    return (f"#{comment}".rstrip() for _, mark, comment in lines if mark)


def _changes(before: JSONObject, after: JSONObject, way: tuple[str, ...] = ()) -> Iterator[_Change]:
    """Yield the differences of two entries, removals last, so that no mapping is ever empty."""
    for key, value in after.items():
        old_value = before.get(key)
        if isinstance(value, dict) and isinstance(old_value, dict) and value and old_value:
            yield from _changes(old_value, value, (*way, key))
        elif value != old_value:
            yield (*way, key), value
    yield from (((*way, key), None) for key in before if key not in after)


def _with_value(text: str, name: str, keys: tuple[str, ...], value: JSONValue) -> str | None:
    """Set or remove the value at a path of keys in an entry; return None if the path is missing."""
    parent = yaml_text.entry_node(text, name)
    *above, key = keys
    for step in above:
        _, parent = _member(parent, step)
    if not isinstance(parent, yaml.MappingNode):
        return None
    key_node, node = member = _member(parent, key)
    if node is None:
        return None if value is None else yaml_text.behind(text, parent, {key: value})
    if value is None:
        return yaml_text.without(
            text, parent, next(pair for pair in parent.value if pair == member)
        )
    edited = _with_items(text, node, value) if isinstance(value, list) else None
    if edited is not None:
        return edited
    if yaml_text.is_flow(parent) or yaml_text.is_flow(node) or _is_in_line(node, value):
        return _instead(text, node, _inline(value, is_flow=yaml_text.is_flow(parent)))
    start = text.rfind("\n", 0, key_node.start_mark.index) + 1
    stop = yaml_text.line_after(text, yaml_text.end_of(node))
    lines = yaml_text.block({key_node.value: value}, column=key_node.start_mark.column)
    dash = text[start : key_node.start_mark.index]  # the dash, before the first key of an item
    return text[:start] + dash + lines[len(dash) :] + text[stop:]


def _member(node: Any, key: str) -> tuple[Any, Any]:
    return yaml_text.find_member(node, yaml_text.spellings_of(key)) or (None, None)


def _with_items(text: str, node: Any, value: list[JSONValue]) -> str | None:
    """Change a list of texts line by line; return None unless each has a line of its own."""
    items = node.value if isinstance(node, yaml.SequenceNode) else []
    are_texts = all(isinstance(item, yaml.ScalarNode) for item in items)
    if yaml_text.is_flow(node) or not (items and value and are_texts):
        return None
    steps = SequenceMatcher(None, [item.value for item in items], list(map(str, value)), False)
    for kind, start, stop, new, last in reversed(steps.get_opcodes()):
        if kind != "equal":
            text = _with_run(text, node, (start, stop), value[new:last])
    return text


def _with_run(text: str, node: Any, run: tuple[int, int], new: list[JSONValue]) -> str:
    """Replace the adjacent items `run[0]` to `run[1]` (exclusive) of a list, or insert there."""
    (start, stop), items = run, node.value
    if stop - start == len(new):  # in place, so that comments behind the items stay
        for item, value in reversed([*zip(items[start:stop], new, strict=True)]):
            text = _instead(text, item, _inline(value, is_flow=False))
        return text
    if start < len(items):
        at = yaml_text.first_line(text, node, items[start])
    else:
        at = yaml_text.line_after(text, yaml_text.end_of(items[-1]))
    end = yaml_text.line_after(text, yaml_text.end_of(items[stop - 1])) if stop > start else at
    gap = "" if text[at - 1] == "\n" else "\n"  # the last line of a file may have no end
    lines = yaml_text.block(new, column=node.start_mark.column) if new else ""
    return text[:at] + gap + lines + text[end:]


def _is_in_line(node: Any, value: JSONValue) -> bool:
    """Return whether a value can replace `node` on the line of its key."""
    is_scalar = isinstance(node, yaml.ScalarNode) and node.style not in ("|", ">")
    return is_scalar and bool(node.value) and not isinstance(value, dict | list)


def _inline(value: JSONValue, *, is_flow: bool) -> str:
    if is_flow or not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    style = '"' if "\n" in value else None
    text = yaml_text.dump(value, style=style, width=_ONE_LINE)
    return text.removesuffix("...\n").rstrip("\n")


def _instead(text: str, node: Any, replacement: str) -> str:
    start, end = node.start_mark.index, node.end_mark.index
    ending = "\n" if text[start:end].endswith("\n") else ""  # a block scalar ends with one
    return text[:start] + replacement + ending + text[end:]


def _describes(text: str, server: ServerSettings) -> bool:
    """Return whether a configuration contains exactly this server under its name."""
    try:
        servers = parse_settings(text.encode(), file="").servers
    except ConfigurationError:
        return False
    forms = [
        _form(candidate)
        for candidate in servers
        if candidate.name == server.name and not candidate.problem
    ]
    return forms == [_form(server)]


def _form(server: ServerSettings) -> JSONObject:
    """Return the entry of a server as plain JSON, with lists in place of tuples."""
    form: JSONObject = json.loads(json.dumps(serialize_server(server)))
    return form


# Headings of the hunks of a diff: the keys above the first line, as in `diff -p`:
# `@@ -12,7 +12,7 @@ servers: mail: env:`.

_PART = re.compile(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")
_KEY = re.compile(r"""\s*(["']?)([^\s"'#{}\[\],:-][^"'#:]*)\1\s*:(?=\s|$)""")


def _headed_diff(before: Sequence[str], after: Sequence[str], name: str, context: int) -> str:
    """Return a unified diff with headings; the last lines may lack a newline."""
    lines = (
        _headed(line, before) if line.startswith("@@") else line
        for line in unified_diff(before, after, name, name, n=context)
    )
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def keys_above(lines: Sequence[str], at: int) -> str:
    """Return the keys above a line of YAML or JSON by its indentation, the outermost first.

    An item of a list is represented by its first line.
    """
    keys: list[str] = []
    limit = next((_column(line) for line in lines[at:] if _has_content(line)), 0.0)
    for line in reversed(lines[:at]):
        if limit and _has_content(line) and _column(line) < limit:
            limit = _column(line)
            key = _KEY.match(line)
            if key or line.lstrip().startswith("- "):
                keys.append(f"{key[2]}:" if key else line.strip())
    return " ".join(reversed(keys))


def _headed(line: str, before: Sequence[str]) -> str:
    part = _PART.match(line)
    heading = keys_above(before, max(0, int(part[1]) - 1)) if part else ""
    return f"{line.rstrip()} {heading}\n" if heading else line


def _column(line: str) -> float:
    """Return the column of a line's first character; a dash counts as half a column deeper.

    A dash may be in the column of its key, but belongs below it.
    """
    plain = line.lstrip(" \t")
    return len(line) - len(plain) + (0.5 if plain.startswith("- ") else 0)


def _has_content(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


_HEAD = f"""\
{MODELINE}
# The MCP servers, and what agents may use of them. See `discovery --help` for what to do with it.

"""
_SOURCES = """\
# Servers from the files of other clients; what changes there changes here.
"""
_SERVERS = """\
# Servers of your own. Refer to secrets, do not write them: ${NAME} is an environment variable.
servers: {}
#  time:
#    command: uvx
#    args: [mcp-server-time]
"""
_SAFE_RULES = """\

# The first rule that matches and has `enabled` decides; tags add up.
toolRules:
  # What may destroy something is off; put a rule that enables it before these.
  - pattern: ["*delete*", "*remove*", "*destroy*", "*drop*"]
    enabled: false
    tags: [dangerous]
  - annotations: {destructiveHint: true}
    enabled: false
    tags: [dangerous]
  - annotations: {readOnlyHint: true}
    tags: [read-only]
"""


def first_configuration(sources: Sequence[Source], *, with_rules: bool) -> str:
    """Return the text of a new configuration with these sources, and with rules if wanted."""
    text = _HEAD
    if sources:
        entries = serialize(Settings(sources=tuple(sources)))["sources"]
        text += _SOURCES + block({"sources": entries}) + "\n"
    return text + _SERVERS + (_SAFE_RULES if with_rules else "")
