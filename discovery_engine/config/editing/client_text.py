"""Adds or removes one server in the text of a client's file: JSON with comments, TOML or YAML.

Every other byte stays: comments, order, indentation, line ends. A new entry comes first in JSON,
where no comma has to move, and last in TOML and YAML.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import yaml
from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.config.editing import yaml_text
from discovery_engine.config.sources.client_table import Pointer
from discovery_engine.config.sources.formats import Format, UnreadableError, parse, without_comments

_BLANKS = re.compile(r"\s*")
_OWN_COMMA = re.compile(r"\s*,")
_INDENT = re.compile(r"[ \t]*")
_FIRST_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)
_TABLE = re.compile(r"^[ \t]*\[.*$", re.MULTILINE)
_DECODER = json.JSONDecoder()


class FileShape(Struct, frozen=True):
    """The place and form of servers in a file."""

    kind: Format
    pointer: Pointer
    """The keys that lead to the servers."""
    is_list: bool = False
    """True if a new file has a list of servers, each with a `name`."""


def with_entry(text: str, shape: FileShape, name: str, entry: JSONObject) -> str:
    """Return the text with one more entry; the file may be empty, or have no servers yet.

    Raises:
        UnreadableError: If the text is invalid, or has a form that cannot be edited.
    """
    _servers(text, shape)
    return _checked(text, _WITH[shape.kind](text, shape, name, entry), shape, name)


def without_entry(text: str, shape: FileShape, name: str) -> str:
    """Return the text without one entry; it must have the entry.

    Raises:
        UnreadableError: See `with_entry`.
    """
    _servers(text, shape)
    return _checked(text, _WITHOUT[shape.kind](text, shape, name), shape, name)


def servers_of(text: str, shape: FileShape) -> dict[str, JSONValue]:
    """Return the entries of a text by their names.

    Raises:
        UnreadableError: If the text is invalid, or the place of the servers has another value.
    """
    return _servers(text, shape)[1]


def _servers(text: str, shape: FileShape) -> tuple[JSONValue, dict[str, JSONValue]]:
    """Return the document without servers, and the servers; empty containers are removed, too."""
    if shape.kind == "json":
        _validate(text)
    document: Any = parse(text.encode(), shape.kind)
    document = {} if document is None else document  # YAML with only comments
    way: list[Any] = [document]
    for key in shape.pointer:
        inner = way[-1].get(key) if isinstance(way[-1], dict) else way[-1]
        way.append({} if inner is None else inner)
    entries = way.pop()
    if not all(isinstance(node, dict) for node in way) or not isinstance(entries, dict | list):
        raise UnreadableError(f"{'.'.join(shape.pointer)} must be a map or a list of servers")
    for parent, key in zip(reversed(way), reversed(shape.pointer), strict=True):
        parent.pop(key, None)
        if parent:
            break
    named = entries.items() if isinstance(entries, dict) else _named(entries)
    return document, dict(named)


def _named(entries: Sequence[JSONValue]) -> Iterator[tuple[str, JSONValue]]:
    for number, entry in enumerate(entries):
        name = entry.get("name") if isinstance(entry, dict) else None
        yield (name if isinstance(name, str) else f"\0{number}"), entry


def _checked(before: str, after: str, shape: FileShape, name: str) -> str:
    """Return the text `after` if only this entry was added or removed; else raise."""
    reason = "it is written in a way that cannot be edited here"
    try:
        (rest_before, old), (rest_after, new) = _servers(before, shape), _servers(after, shape)
    except UnreadableError:
        raise UnreadableError(reason) from None
    is_changed = (name in old) != (name in new)
    others = [list(_without(servers, name).values()) for servers in (old, new)]
    if not is_changed or rest_before != rest_after or others[0] != others[1]:
        raise UnreadableError(reason)
    return after


def _without(servers: dict[str, JSONValue], name: str) -> dict[str, JSONValue]:
    return {key: entry for key, entry in servers.items() if key != name}


def _item(name: str, entry: JSONObject) -> JSONObject:
    return {"name": name, **entry}


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


class _Member(Struct, frozen=True):
    name: str
    """The key, or the `name` of a list's item."""
    start: int
    value: int
    """The start of the value."""
    end: int


def _validate(text: str) -> str:
    """Return the text as JSON, with blanks in place of comments and trailing commas."""
    plain = without_comments(text)
    if plain.strip():
        try:
            _DECODER.decode(plain)
        except json.JSONDecodeError as error:
            raise UnreadableError(error.msg, error.lineno, error.colno) from None
        except RecursionError:
            raise UnreadableError("it is nested too deeply") from None
    return plain


def _members(plain: str, opening: int) -> tuple[list[_Member], int]:
    """Return the members of the container that opens at a place, and where it closes."""
    is_map = plain[opening] == "{"
    members: list[_Member] = []
    at = _past_blanks(plain, opening + 1)
    while plain[at] not in "}]":
        start, name = at, ""
        if is_map:
            name, at = _DECODER.raw_decode(plain, at)
            at = _past_blanks(plain, _past_blanks(plain, at) + 1)
        value, end = _DECODER.raw_decode(plain, at)
        if not is_map and isinstance(value, dict):
            name = value.get("name", "")
        members.append(_Member(name, start, at, end))
        at = _past_blanks(plain, end)
        at = _past_blanks(plain, at + 1) if plain[at] == "," else at
    return members, at


def _past_blanks(text: str, at: int) -> int:
    return _BLANKS.match(text, at).end()  # type: ignore[union-attr]


def _way_into(plain: str, pointer: Pointer) -> tuple[int, list[str]]:
    """Return where the innermost existing container of a pointer opens, and the missing keys."""
    opening, keys = _past_blanks(plain, 0), list(pointer)
    while keys:
        members, _ = _members(plain, opening)
        inner = next((m.value for m in reversed(members) if m.name == keys[0]), None)
        if inner is None or plain[inner] not in "{[":
            break
        opening = inner
        keys.pop(0)
    return opening, keys


def _with_json(text: str, shape: FileShape, name: str, entry: JSONObject) -> str:
    plain = _validate(text)
    key, value = name, entry
    if not plain.strip():
        text = plain = f"{text}{{}}{_line_end(text)}"
    opening, missing = _way_into(plain, shape.pointer)
    if missing:
        inner: JSONValue = [_item(name, entry)] if shape.is_list else {name: entry}
        for step in reversed(missing[1:]):
            inner = {step: inner}
        key, value = missing[0], inner
    elif plain[opening] == "[":
        key, value = "", _item(name, entry)
    return _with_first(text, plain, opening, f"{json.dumps(key)}: " if key else "", value)


def _with_first(text: str, plain: str, opening: int, head: str, value: JSONValue) -> str:
    """Return the text with a new first member, on its own lines if the others have theirs."""
    members, closing = _members(plain, opening)
    first = members[0].start if members else closing
    inside = text[opening + 1 : first]
    if members and "\n" not in inside:
        return f"{text[:first]}{head}{json.dumps(value, ensure_ascii=False)}, {text[first:]}"
    unit = (match := _FIRST_INDENT.search(plain)) and match[1]
    outer = _indent_at(text, opening)
    indent = _indent_at(text, first) if members else outer + (unit or "  ")
    end = _line_end(text)
    lines = json.dumps(value, indent=unit or 2, ensure_ascii=False).split("\n")
    added = end + indent + head + f"{end}{indent}".join(lines)
    at = opening + 1
    if "\n" in inside and "/*" not in inside.partition("\n")[0]:
        at = text.index("\n", opening)
        at -= text[at - 1] == "\r"
    if members:
        return f"{text[:at]}{added},{text[at:]}"
    if not inside.strip():
        return f"{text[: opening + 1]}{added}{end}{outer}{text[closing:]}"
    tail = "" if "\n" in text[at:closing] else end + outer
    return f"{text[:at]}{added}{text[at:closing]}{tail}{text[closing:]}"


def _indent_at(text: str, at: int) -> str:
    """Return the indentation of the line at a place."""
    return _INDENT.match(text, text.rfind("\n", 0, at) + 1)[0]  # type: ignore[index]


def _without_json(text: str, shape: FileShape, name: str) -> str:
    plain = _validate(text)
    opening, _ = _way_into(plain, shape.pointer)
    members, closing = _members(plain, opening)
    index = next((i for i, member in enumerate(members) if member.name == name), None)
    if index is None:
        return text
    member = members[index]
    bare = without_comments(text, trailing_commas=True)
    comma = _OWN_COMMA.match(bare, member.end)
    end = comma.end() if comma else member.end
    start = member.start
    line, stop = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    if len(members) == 1 and not (text[opening + 1 : start] + text[end:closing]).strip():
        return text[: opening + 1] + text[closing:]
    has_lines = stop >= 0 and not (text[line:start] + text[end:stop]).strip()
    if has_lines:
        start, end = line, stop + 1
    elif comma:
        end = _INDENT.match(text, end).end()  # type: ignore[union-attr]
    if index and not comma:
        before = bare.index(",", members[index - 1].end)
        rest = text[before + 1 : start] if has_lines else ""
        return text[:before] + rest + text[end:]
    return text[:start] + text[end:]


def _with_toml(text: str, shape: FileShape, name: str, entry: JSONObject) -> str:
    table = ".".join(map(_toml_key, shape.pointer))
    # TOML forbids a table beside an empty list or inline table of that name, a client's default.
    empty = rf"^{re.escape(table)}[ \t]*=[ \t]*(?:\[[ \t]*\]|\{{[ \t]*\}})[ \t]*(?:\r?\n|\Z)"
    text = re.sub(empty, "", text, flags=re.MULTILINE)
    end = _line_end(text)
    gap = "" if not text.strip() else end if text.endswith("\n") else end * 2
    head = f"[[{table}]]" if shape.is_list else f"[{table}.{_toml_key(name)}]"
    members = _item(name, entry) if shape.is_list else entry
    lines = [head, *(f"{_toml_key(key)} = {_toml_value(value)}" for key, value in members.items())]
    return text + gap + end.join(lines) + end


def _without_toml(text: str, shape: FileShape, name: str) -> str:
    """Return the text without an entry's tables, from its header to the next other one."""
    heads = [match.start() for match in _TABLE.finditer(text)]
    ends = [*heads[1:], len(text)]
    for index, start in enumerate(heads):
        for end in ends[index:]:
            rest = text[:start].removesuffix("\n").removesuffix("\r") + text[end:]
            for shorter in (rest, text[:start] + text[end:]):
                with suppress(UnreadableError):
                    return _checked(text, shorter, shape, name)
            with suppress(tomllib.TOMLDecodeError):
                if not _is_within(text[start:end], shape.pointer):
                    break
    return text


def _is_within(tables: str, pointer: Pointer) -> bool:
    """Return whether all of some tables are below a key."""
    document = tomllib.loads(tables)
    return list(document) == [pointer[0]]


def _toml_value(value: object) -> str:
    match value:
        case dict():
            members = (f"{_toml_key(key)} = {_toml_value(member)}" for key, member in value.items())
            return f"{{ {', '.join(members)} }}"
        case list():
            return f"[{', '.join(map(_toml_value, value))}]"
        case bool() | int() | float():
            return json.dumps(value)
    # As in JSON, except for the one control character that JSON does not escape.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml_value(key)


def _with_yaml(text: str, shape: FileShape, name: str, entry: JSONObject) -> str:
    plain, end = yaml_text.with_unix_lines(text)
    entries: Any = [_item(name, entry)] if shape.is_list else {name: entry}
    with suppress(yaml.YAMLError):
        # Items of a list have their names already: only a map is converted to items.
        node = yaml_text.find_member(yaml_text.composed(plain), shape.pointer[-1:])
        if node and isinstance(node[1], yaml.MappingNode):
            entries = {name: entry}
        plain = yaml_text.with_entries(plain, shape.pointer[-1:], entries)
    return plain.replace("\n", end)


def _without_yaml(text: str, shape: FileShape, name: str) -> str:
    plain, end = yaml_text.with_unix_lines(text)
    root = yaml_text.composed(plain)
    pair = yaml_text.find_member(root, shape.pointer[-1:])
    for member in getattr(pair[1], "value", ()) if pair else ():
        is_pair = isinstance(member, tuple)
        called = (
            member[0] if is_pair else (yaml_text.find_member(member, ("name",)) or (None, None))[1]
        )
        if pair and called is not None and called.value == name:
            is_last = len(pair[1].value) == 1
            plain = yaml_text.without(plain, *((root, pair) if is_last else (pair[1], member)))
            break
    return plain.replace("\n", end)


_WITH = {"json": _with_json, "toml": _with_toml, "yaml": _with_yaml}
_WITHOUT = {"json": _without_json, "toml": _without_toml, "yaml": _without_yaml}
