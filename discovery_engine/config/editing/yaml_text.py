"""Adds, removes and changes entries in the text of a `discovery.yaml`.

Every other byte of the owner's text stays: new entries follow the last one of their section, and
removing an entry deletes only its lines. A library that parses and rewrites the whole file keeps
comments, but neither bytes, nor JSON, nor its trailing commas.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import yaml

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.config.serialization import serialize, serialize_server
from discovery_engine.config.settings import ServerSettings, Settings
from discovery_engine.rules.rule import Rule

Entries: TypeAlias = "JSONObject | list[JSONObject]"

_STEP = 2  # columns of indentation
_NULL = "tag:yaml.org,2002:null"
_STR = "tag:yaml.org,2002:str"
# What may follow the last line of a member in brackets if no other member is on that line.
_OWN_LINE_END = re.compile(r"(?P<comma>[ \t]*,?)[ \t]*(?:#[^\n]*)?\n")
# Blanks and comments before a comma.
_COMMA = re.compile(r"((?:\s|#[^\n]*\n)*),")


class _Dumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002
        """Indent lists deeper than their key, as people do."""
        super().increase_indent(flow=flow, indentless=False)


# YAML 1.2 reads `1e3` as a number; PyYAML (1.1) would write such a text without quotes.
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\.[0-9]+|[0-9]+\.?[0-9]*)[eE][-+]?[0-9]+"),
    list("-+.0123456789"),
)


class _PlaceLoader(yaml.SafeLoader):
    """Reads an alias as text: its own entry is broken, but others can still be edited."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if not self.check_event(yaml.AliasEvent):
            return super().compose_node(parent, index)
        event = self.get_event()  # type: ignore[no-untyped-call]
        return yaml.ScalarNode(_STR, event.anchor, event.start_mark, event.end_mark)


def with_servers(text: str, servers: Iterable[ServerSettings], rules: Iterable[Rule]) -> str:
    """Return the text of a configuration with servers and tool rules added after its own.

    Here and below, `text` must be a valid configuration. If all of its lines end with CRLF, new
    lines do, too.
    """
    entries = {str(server.name): serialize_server(server) for server in servers}
    added = serialize(Settings(tool_rules=tuple(rules)))["toolRules"]
    text, end = with_unix_lines(text)
    if entries:
        text = with_entries(text, ("servers",), entries)
    if added:
        text = with_entries(text, ("toolRules", "tool_rules"), added)
    return text.replace("\n", end)


def block(entries: Entries | list[JSONValue], *, column: int = 0) -> str:
    """Return entries as YAML lines that start at a column."""
    lines = dump(entries).splitlines(keepends=True)
    return "".join(" " * column + line for line in lines)


def dump(value: JSONValue, *, style: str | None = None, width: int = 4096) -> str:
    """Return a value as YAML; with a style, texts are quoted in it."""
    return str(
        yaml.dump(
            value,
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=True,
            default_style=style,
            width=width,
        )
    )


def without_server(text: str, name: str) -> str | None:
    """Return the text without an entry of `servers`; None if it has no such entry.

    Comments above the entry stay.
    """
    text, end = with_unix_lines(text)
    place = _server(text, name)
    if place is None:
        return None
    return without(text, *place).replace("\n", end)


def without_item(text: str, spellings: tuple[str, ...], index: int) -> str:
    """Return the text without one item of a list; the list must have it."""
    text, end = with_unix_lines(text)
    items: Any = None
    if member := find_member(configuration_node(text), spellings):
        _, items = member
    return without(text, items, items.value[index]).replace("\n", end)


def with_new_entry(text: str, server: ServerSettings) -> str | None:
    """Return the text with a server's entry replaced; None if `servers` has none of its name.

    The entry keeps its place unless it is in brackets, and loses the comments in it.

    Args:
        text: The text, with Unix line ends.
        server: The new state of the server.
    """
    place = _server(text, server.name)
    if place is None:
        return None
    servers, member = place
    if is_flow(servers):
        shorter = without_server(text, server.name)
        return None if shorter is None else with_servers(shorter, [server], ())
    entry = serialize_server(server)
    is_list = isinstance(servers, yaml.SequenceNode)
    new: Entries = [{"name": server.name, **entry}] if is_list else {str(server.name): entry}
    start = first_line(text, servers, member)
    after = text[line_after(text, end_of(member)) :]
    return text[:start] + block(new, column=servers.start_mark.column) + after


def with_enabled(text: str, name: str, enabled: bool) -> str | None:  # noqa: FBT001 - what it is for
    """Return the text with an entry of `servers` enabled or disabled; None if there is none."""
    text, end = with_unix_lines(text)
    place = _server(text, name)
    if place is None:
        return None
    _, member = place
    entry = member[1] if isinstance(member, tuple) else member
    if setting := find_member(entry, ("enabled",)):
        _, value = setting
        at, after = value.start_mark.index, value.end_mark.index
        text = f"{text[:at]}{json.dumps(enabled)}{text[after:]}"
    elif not enabled:
        text = behind(text, entry, {"enabled": False})
    return text.replace("\n", end)


def with_unix_lines(text: str) -> tuple[str, str]:
    """Return the text with Unix line ends, and its own line end."""
    if 0 < text.count("\r\n") == text.count("\n"):
        return text.replace("\r\n", "\n"), "\r\n"
    return text, "\n"


def with_entries(
    text: str,
    spellings: tuple[str, ...],
    entries: Entries,
    *,
    above: Sequence[tuple[str, ...]] = (),
) -> str:
    """Return the text with entries after those of a section, which is created if it is missing.

    Args:
        text: The text, with Unix line ends.
        spellings: The spellings of the section's key; a new key gets the first.
        entries: The entries as plain values.
        above: The spellings of the keys above the section, which must exist.
    """
    document = composed(text)
    if document is None:
        return _ended(text) + block({spellings[0]: entries})
    parent, (key, node) = document, find_member(document, ("discovery",)) or (None, document)
    for key_spellings in above:
        parent, (key, node) = node, find_member(node, key_spellings) or (None, None)
    if section := find_member(node, spellings):
        parent, (key, node) = node, section
    else:
        entries = {spellings[0]: entries}
    if node.tag == _NULL or not node.value:
        if is_flow(parent):
            return _instead_of_in_flow(text, node, entries)
        return _instead_of(text, node, entries, key.start_mark.column + _STEP if key else 0)
    if isinstance(node, yaml.SequenceNode) and isinstance(entries, dict):
        entries = [{"name": name, **entry} for name, entry in entries.items()]
    return behind(text, node, entries)


def composed(text: str) -> Any:
    """Return the nodes of a YAML text, for their positions; None for an empty text."""
    # Tabs are replaced because, unlike the reader in C, this one fails on them.
    return yaml.compose(text.replace("\t", " "), Loader=_PlaceLoader)


def configuration_node(text: str) -> Any:
    """Return the node with the keys of a configuration: the root, or the one below `discovery`."""
    root = composed(text)
    _, below = find_member(root, ("discovery",)) or (None, root)
    return below


def spellings_of(key: str) -> tuple[str, ...]:
    """Return the spellings of a key: `toolRules`, `tool_rules`."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)
    return (key,) if snake == key else (key, snake)


def entry_node(text: str, name: str) -> Any:
    """Return the node with the keys of a server's entry; None if it has none.

    Args:
        text: The text, with Unix line ends.
        name: The name of the server.
    """
    _, member = _server(text, name) or (None, None)
    return member[1] if isinstance(member, tuple) else member


def _server(text: str, name: str) -> tuple[Any, Any] | None:
    """Return the section `servers`, and a server's member (key, value) or item in it."""
    _, servers = find_member(configuration_node(text), ("servers",)) or (None, None)
    for member in getattr(servers, "value", ()) if servers is not None else ():
        if isinstance(member, tuple):
            called = member[0].value
        else:
            _, name_node = find_member(member, ("name",)) or (None, None)
            called = name_node.value if name_node else None
        if called == name:
            return servers, member
    return None


def without(text: str, section: Any, member: Any) -> str:
    """Return the text without a member or an item."""
    if is_flow(section):
        return _without_in_flow(text, section, member)
    start = first_line(text, section, member)
    return text[:start] + text[line_after(text, end_of(member)) :]


def _without_in_flow(text: str, section: Any, member: Any) -> str:
    """Return the text without a member in brackets and one comma beside it.

    If the member has its own lines, exactly these are removed, so comments on others stay.
    """
    members = section.value
    at = next(i for i, candidate in enumerate(members) if candidate is member)
    start, end = _start(member).index, end_of(member).index
    line, rest = text.rfind("\n", 0, start) + 1, _OWN_LINE_END.match(text, end)
    if not text[line:start].strip() and rest:
        is_last_comma = at + 1 == len(members) and at > 0 and "," not in rest["comma"]
        before = _without_comma(text, end_of(members[at - 1]).index, line) if is_last_comma else ""
        return (before or text[:line]) + text[rest.end() :]
    if len(members) == 1:
        return text[: section.start_mark.index + 1] + text[section.end_mark.index - 1 :]
    if at + 1 < len(members):
        return text[:start] + text[_start(members[at + 1]).index :]
    return text[: end_of(members[at - 1]).index] + text[end:]


def _without_comma(text: str, start: int, end: int) -> str:
    """Return the text up to `end`, without the comma that follows `start`."""
    between = _COMMA.sub(r"\1", text[start:end], count=1)
    return text[:start] + between


def first_line(text: str, section: Any, member: Any) -> int:
    """Return the start of the line with the key of a block's member, or the dash of an item."""
    start = text.rfind("\n", 0, _start(member).index) + 1
    if isinstance(member, tuple):
        return int(start)
    column = section.start_mark.column
    while start and text[start + column : start + column + 1] != "-":
        start = text.rfind("\n", 0, start - 1) + 1
    return int(start)


def line_after(text: str, end: Any) -> int:
    """Return the start of the line after a node's end; the end of a block is there already."""
    if end.column == 0:
        return int(end.index)
    return (text.find("\n", end.index) + 1) or len(text)


def _start(member: Any) -> Any:
    """Return the start of an item, or of a member's key."""
    return (member[0] if isinstance(member, tuple) else member).start_mark


def find_member(node: Any, spellings: tuple[str, ...]) -> tuple[Any, Any] | None:
    """Return key and value of a mapping's member; None if it has none, or is no mapping."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((pair for pair in pairs if pair[0].value in spellings), None)


def is_flow(node: Any) -> bool:
    """Return whether a collection is written in brackets, as all are in JSON."""
    return isinstance(node, yaml.CollectionNode) and bool(node.flow_style)


def _instead_of(text: str, node: Any, entries: Entries, column: int) -> str:
    """Return the text with entries in place of an empty section."""
    before, after = text[: node.start_mark.index], text[node.end_mark.index :]
    return f"{_ended(before.rstrip(' '))}{block(entries, column=column).rstrip()}{after or chr(10)}"


def _instead_of_in_flow(text: str, node: Any, entries: Entries) -> str:
    before, after = text[: node.start_mark.index], text[node.end_mark.index :]
    gap = " " if before.endswith(":") else ""
    return f"{before}{gap}{json.dumps(entries)}{after}"


def behind(text: str, node: Any, entries: Entries) -> str:
    """Return the text with entries after the last one of a mapping or a list that has some."""
    if is_flow(node):
        return _behind_in_flow(text, node, entries)
    end = end_of(node)
    at = end.index if end.column == 0 else text.find("\n", end.index) + 1
    if at == 0:  # the last line has no end
        text = _ended(text)
        at = len(text)
    return text[:at] + block(entries, column=node.start_mark.column) + text[at:]


def _behind_in_flow(text: str, node: Any, entries: Entries) -> str:
    """Add entries, on their own lines if the last one is; a trailing comma stays behind them."""
    last = node.value[-1]
    start = _start(last)
    gap = f"\n{' ' * start.column}" if start.line > node.start_mark.line else " "
    items = entries.items() if isinstance(entries, dict) else None
    ones = [{key: value} for key, value in items] if items else [[entry] for entry in entries]
    added = "".join(f",{gap}{json.dumps(single)[1:-1]}" for single in ones)
    at = end_of(last).index
    return text[:at] + added + text[at:]


def end_of(node: Any) -> Any:
    """Return the end of the last thing in a node; a block's mark is the start of what follows."""
    if isinstance(node, tuple):
        return end_of(node[1])
    if isinstance(node, yaml.CollectionNode) and node.value and not is_flow(node):
        return end_of(node.value[-1])
    return node.end_mark


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"
