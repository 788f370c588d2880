"""The text of a `discovery.yaml` with another entry for a server: only what differs is written.

Keys that stay the same keep their lines, with their order, quotes and comments. A key that differs
gets another value in its place; an item of a list that goes takes its line along. An entry that
cannot be changed in this way is written anew as a whole.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any, TypeAlias

import yaml

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.config.editing import yaml_text
from discovery_engine.config.loading.parsing import parse_settings
from discovery_engine.config.serialization import serialize_server
from discovery_engine.config.settings import ServerSettings
from discovery_engine.errors import ConfigurationError

_Change: TypeAlias = tuple[tuple[str, ...], JSONValue]
"""The keys that lead to a value, and the value; None if it goes."""

_ONE_LINE = 10**9  # columns: YAML folds longer texts, and these stand behind their key


def with_server(text: str, before: ServerSettings, server: ServerSettings) -> str | None:
    """The text with another entry for a server of `servers`; None if it has none of its name.

    Args:
        text: A configuration that loads.
        before: The server as the text describes it.
        server: The same one, as the text is to describe it.
    """
    plain, end = yaml_text.with_unix_lines(text)
    after: str | None = plain
    for keys, value in _changes(_form(before), _form(server)):
        after = after and _with_value(after, server.name, keys, value)
    if after is None or not _describes(after, server):
        after = yaml_text.with_new_entry(plain, server)
    return after and after.replace("\n", end)


def lost_comments(before: str, after: str) -> list[str]:
    """The comments of a YAML text that another one lacks, in their order."""
    kept = Counter(_comments(after))
    lost: list[str] = []
    for comment in _comments(before):
        if kept[comment] > 0:
            kept[comment] -= 1
        else:
            lost.append(comment)
    return lost


def _comments(text: str) -> Iterator[str]:
    """Comments are what stands between tokens; line ends and blanks alone are none."""
    plain, at = text.replace("\t", " "), 0
    for token in yaml.scan(plain, Loader=yaml.SafeLoader):
        yield from _comments_between(text[at : token.start_mark.index])
        at = max(at, token.end_mark.index)
    yield from _comments_between(text[at:])


def _comments_between(text: str) -> Iterator[str]:
    lines = (line.partition("#") for line in text.splitlines())
    return (f"#{comment}".rstrip() for _, mark, comment in lines if mark)


def _changes(before: JSONObject, after: JSONObject, way: tuple[str, ...] = ()) -> Iterator[_Change]:
    """What differs; what goes comes last, so that no mapping is empty in between."""
    for key, value in after.items():
        known = before.get(key)
        if isinstance(value, dict) and isinstance(known, dict) and value and known:
            yield from _changes(known, value, (*way, key))
        elif value != known:
            yield (*way, key), value
    yield from (((*way, key), None) for key in before if key not in after)


def _with_value(text: str, name: str, keys: tuple[str, ...], value: JSONValue) -> str | None:
    """The text with another value at a place of an entry; None if the entry lacks the way there."""
    parent = yaml_text.entry_node(text, name)
    *above, key = keys
    for one in above:
        _, parent = _member(parent, one)
    if not isinstance(parent, yaml.MappingNode):
        return None
    written, node = member = _member(parent, key)
    if node is None:
        return None if value is None else yaml_text.behind(text, parent, {key: value})
    if value is None:
        return yaml_text.without(text, parent, next(one for one in parent.value if one == member))
    edited = _with_items(text, node, value) if isinstance(value, list) else None
    if edited is not None:
        return edited
    if yaml_text.is_flow(parent) or yaml_text.is_flow(node) or _is_in_line(node, value):
        return _instead(text, node, _inline(value, is_flow=yaml_text.is_flow(parent)))
    start = text.rfind("\n", 0, written.start_mark.index) + 1
    stop = yaml_text.line_after(text, yaml_text.end_of(node))
    lines = yaml_text.block({written.value: value}, column=written.start_mark.column)
    dash = text[start : written.start_mark.index]  # of the first key of an item, if it has one
    return text[:start] + dash + lines[len(dash) :] + text[stop:]


def _member(node: Any, key: str) -> tuple[Any, Any]:
    return yaml_text.find_member(node, yaml_text.spellings_of(key)) or (None, None)


def _with_items(text: str, node: Any, value: list[JSONValue]) -> str | None:
    """The text with another list of texts, if each has a line of its own; else None."""
    items = node.value if isinstance(node, yaml.SequenceNode) else []
    are_texts = all(isinstance(one, yaml.ScalarNode) for one in items)
    if yaml_text.is_flow(node) or not (items and value and are_texts):
        return None
    steps = SequenceMatcher(None, [one.value for one in items], list(map(str, value)), False)
    for kind, start, stop, new, last in reversed(steps.get_opcodes()):
        if kind != "equal":
            text = _with_run(text, node, (start, stop), value[new:last])
    return text


def _with_run(text: str, node: Any, run: tuple[int, int], new: list[JSONValue]) -> str:
    """The text with other items in place of some that stand beside each other, or of none."""
    (start, stop), items = run, node.value
    if stop - start == len(new):  # in their places, with what stands behind them
        for item, one in reversed([*zip(items[start:stop], new, strict=True)]):
            text = _instead(text, item, _inline(one, is_flow=False))
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
    """Whether a value can stand where another one stands behind its key."""
    is_scalar = isinstance(node, yaml.ScalarNode) and node.style not in ("|", ">")
    return is_scalar and bool(node.value) and not isinstance(value, dict | list)


def _inline(value: JSONValue, *, is_flow: bool) -> str:
    if is_flow or not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    style = '"' if "\n" in value else None
    written = yaml_text.dump(value, style=style, width=_ONE_LINE)
    return written.removesuffix("...\n").rstrip("\n")


def _instead(text: str, node: Any, written: str) -> str:
    start, end = node.start_mark.index, node.end_mark.index
    ending = "\n" if text[start:end].endswith("\n") else ""  # as a text in a block has one
    return text[:start] + written + ending + text[end:]


def _describes(text: str, server: ServerSettings) -> bool:
    """Whether this server is what a configuration has under its name."""
    try:
        found = parse_settings(text.encode(), file="").servers
    except ConfigurationError:
        return False
    forms = [_form(one) for one in found if one.name == server.name and not one.problem]
    return forms == [_form(server)]


def _form(server: ServerSettings) -> JSONObject:
    """Its entry, with lists as JSON has them."""
    form: JSONObject = json.loads(json.dumps(serialize_server(server)))
    return form
