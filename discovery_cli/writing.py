"""Writing `discovery.yaml`: a new one, or more in one that is there.

What an owner wrote stays as it is, to the byte: entries are put behind the last one of their
section. A file is replaced in one step, so that nobody ever reads half of one.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click
import yaml

from discovery_engine._util.json import JSONObject
from discovery_engine.config.serialization import serialize, serialize_server
from discovery_engine.config.settings import Settings

if TYPE_CHECKING:
    from discovery_engine.config.settings import ServerSettings
    from discovery_engine.rules.rule import Rule

Entries: TypeAlias = "JSONObject | list[JSONObject]"

_PRIVATE = 0o600
_STEP = 2  # columns of indentation
_NULL = "tag:yaml.org,2002:null"


class _Dumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002
        """Lists stand deeper than their key, as people write them."""
        super().increase_indent(flow=flow, indentless=False)


def with_servers(text: str, servers: Iterable[ServerSettings], rules: Iterable[Rule]) -> str:
    """The text of a configuration with servers and tool rules added behind those it has.

    `text` must be a configuration that loads. Where all its lines end as on Windows, so do those
    that are added.
    """
    is_of_windows = 0 < text.count("\r\n") == text.count("\n")
    if is_of_windows:
        text = text.replace("\r\n", "\n")
    if entries := {str(server.name): serialize_server(server) for server in servers}:
        text = _with_entries(text, ("servers",), entries)
    if added := serialize(Settings(tool_rules=tuple(rules)))["toolRules"]:
        text = _with_entries(text, ("toolRules", "tool_rules"), added)
    return text.replace("\n", "\r\n") if is_of_windows else text


def block(entries: Entries, *, column: int = 0) -> str:
    """Entries as YAML lines that start at a column."""
    text = yaml.dump(entries, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=4096)
    return "".join(" " * column + line for line in text.splitlines(keepends=True))


def replace_file(path: Path, text: str) -> None:
    """Put `text` in place of a file in one step; a new one is its owner's alone.

    Raises:
        UsageError: If it cannot be written; it is then as it was.
    """
    with writing(path):
        _replace(path.resolve(), text)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """What the system has against writing a file, as an error of the person who named it."""
    try:
        yield
    except OSError as error:
        raise click.UsageError(f"{path} cannot be written: {error.strerror or error}") from error


def _replace(target: Path, text: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = target.stat().st_mode & 0o777 if target.exists() else _PRIVATE
    descriptor, name = tempfile.mkstemp(prefix=".discovery-", dir=target.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()
        raise


def _with_entries(text: str, spellings: tuple[str, ...], entries: Entries) -> str:
    # Only places are looked for, and this reader, unlike the one in C, stumbles over tabs.
    document = yaml.compose(text.replace("\t", " "), Loader=yaml.SafeLoader)
    if document is None:
        return _ended(text) + block({spellings[0]: entries})
    parent, (key, node) = document, _member(document, ("discovery",)) or (None, document)
    if section := _member(node, spellings):
        parent, (key, node) = node, section
    else:
        entries = {spellings[0]: entries}
    if node.tag == _NULL or not node.value:
        if _is_flow(parent):
            return _instead_of_in_flow(text, node, entries)
        return _instead_of(text, node, entries, key.start_mark.column + _STEP if key else 0)
    if isinstance(node, yaml.SequenceNode) and isinstance(entries, dict):
        entries = [{"name": name, **entry} for name, entry in entries.items()]
    return _behind(text, node, entries)


def _member(node: Any, spellings: tuple[str, ...]) -> tuple[Any, Any] | None:
    """The key and the value of a mapping's member; None if there is none, or no mapping."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((pair for pair in pairs if pair[0].value in spellings), None)


def _is_flow(node: Any) -> bool:
    """Whether a collection is written in brackets, as all of them are in JSON."""
    return isinstance(node, yaml.CollectionNode) and bool(node.flow_style)


def _instead_of(text: str, node: Any, entries: Entries, column: int) -> str:
    """Entries in place of an empty section."""
    before, after = text[: node.start_mark.index], text[node.end_mark.index :]
    return f"{_ended(before.rstrip(' '))}{block(entries, column=column).rstrip()}{after or chr(10)}"


def _instead_of_in_flow(text: str, node: Any, entries: Entries) -> str:
    before, after = text[: node.start_mark.index], text[node.end_mark.index :]
    gap = " " if before.endswith(":") else ""
    return f"{before}{gap}{json.dumps(entries)}{after}"


def _behind(text: str, node: Any, entries: Entries) -> str:
    """Entries behind the last one of a mapping or a list that has some."""
    if _is_flow(node):
        return _behind_in_flow(text, node, entries)
    end = _end(node)
    at = end.index if end.column == 0 else text.find("\n", end.index) + 1
    if at == 0:  # the last line has no end
        text = _ended(text)
        at = len(text)
    return text[:at] + block(entries, column=node.start_mark.column) + text[at:]


def _behind_in_flow(text: str, node: Any, entries: Entries) -> str:
    """On lines of their own, if those before them have some; a last comma stays the last."""
    last = node.value[-1]
    start = (last[0] if isinstance(last, tuple) else last).start_mark
    gap = f"\n{' ' * start.column}" if start.line > node.start_mark.line else " "
    items = entries.items() if isinstance(entries, dict) else None
    ones = [{key: value} for key, value in items] if items else [[entry] for entry in entries]
    added = "".join(f",{gap}{json.dumps(one)[1:-1]}" for one in ones)
    at = _end(last).index
    return text[:at] + added + text[at:]


def _end(node: Any) -> Any:
    """Where the last thing in a node ends; a block's own mark is where the next one begins."""
    if isinstance(node, tuple):
        return _end(node[1])
    if isinstance(node, yaml.CollectionNode) and node.value and not _is_flow(node):
        return _end(node.value[-1])
    return node.end_mark


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"
