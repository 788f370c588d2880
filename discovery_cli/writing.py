"""Writing `discovery.yaml`: a new one, or more in one that is there.

What an owner wrote stays as it is, to the byte: entries are put behind the last one of their
section. A file is replaced in one step, so that nobody ever reads half of one.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import yaml

from discovery_engine.config.settings import Settings
from discovery_engine.config.shown import dump, dump_server
from discovery_engine.tools import JSONObject

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
    if entries := {str(server.name): dump_server(server) for server in servers}:
        text = _with_entries(text, ("servers",), entries)
    if added := dump(Settings(tool_rules=tuple(rules)))["toolRules"]:
        text = _with_entries(text, ("toolRules", "tool_rules"), added)
    return text.replace("\n", "\r\n") if is_of_windows else text


def block(entries: Entries, *, column: int = 0) -> str:
    """Entries as YAML lines that start at a column."""
    text = yaml.dump(entries, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=4096)
    return "".join(" " * column + line for line in text.splitlines(keepends=True))


def replace_file(path: Path, text: str) -> None:
    """Put `text` in place of a file in one step; a new one is its owner's alone."""
    target = path.resolve()
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
    root = _root(yaml.compose(text, Loader=yaml.SafeLoader))
    if not isinstance(root, yaml.MappingNode):
        return _ended(text) + block({spellings[0]: entries})
    pair = next((pair for pair in root.value if pair[0].value in spellings), None)
    if pair is None:
        return _behind(text, root, {spellings[0]: entries})
    key, section = pair
    if section.tag == _NULL or not section.value:
        return _instead_of(text, section, entries, key.start_mark.column + _STEP)
    if isinstance(section, yaml.SequenceNode) and isinstance(entries, dict):
        entries = [{"name": name, **entry} for name, entry in entries.items()]
    return _behind(text, section, entries)


def _root(document: Any) -> Any:
    """The mapping that holds the sections; it may stand under a `discovery:` key."""
    if isinstance(document, yaml.MappingNode):
        for key, value in document.value:
            if key.value == "discovery" and isinstance(value, yaml.MappingNode):
                return value
    return document


def _instead_of(text: str, section: Any, entries: Entries, column: int) -> str:
    """An empty section replaced by one with entries."""
    before, after = text[: section.start_mark.index], text[section.end_mark.index :]
    return f"{before.rstrip(' ')}\n{block(entries, column=column).rstrip()}{after or chr(10)}"


def _behind(text: str, node: Any, entries: Entries) -> str:
    """Entries behind the last one of a mapping or a list that has some."""
    if node.flow_style:
        closing = node.end_mark.index - 1
        return f"{text[:closing].rstrip(' ,')}, {json.dumps(entries)[1:-1]}{text[closing:]}"
    end = _end(node)
    at = end.index if end.column == 0 else text.find("\n", end.index) + 1
    if at == 0:  # the last line has no end
        text = _ended(text)
        at = len(text)
    return text[:at] + block(entries, column=node.start_mark.column) + text[at:]


def _end(node: Any) -> Any:
    """Where the last thing in a node ends; its own mark is where the next one begins."""
    if isinstance(node, yaml.CollectionNode) and node.value and not node.flow_style:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    return node.end_mark


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"
