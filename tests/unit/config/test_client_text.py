"""One server more in another client's file, and one fewer: everything else stays, to the byte."""

from __future__ import annotations

import json
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.config.editing.client_text import (
    FileShape,
    servers_of,
    with_entry,
    without_entry,
)

ENTRY = {"command": "/opt/my discovery", "args": ["serve", 'a "b" \\ #'], "env": {"PATH": "/ü:/b"}}
MAP = FileShape("json", ("mcpServers",))

WORDS = st.text("abz-_ .é😀\"\\/#,:{}[]'", max_size=6)
SCALARS = st.one_of(WORDS, st.integers(-9, 9), st.booleans(), st.none())
ENTRIES = st.dictionaries(WORDS, st.one_of(SCALARS, st.lists(SCALARS, max_size=2)), max_size=3)
SERVERS = st.dictionaries(WORDS.filter(lambda name: name != "discovery"), ENTRIES, max_size=3)
OTHERS = st.dictionaries(WORDS.filter(lambda key: "mcp" not in key), SCALARS, max_size=2)
COMMENTS = ["", "", "", " ", ' /* { "mcpServers": [ */ ', " // }, it's \"this\n", "\n\n"]


@st.composite
def commented(draw: st.DrawFn, value: Any, indent: str | None, depth: int = 0) -> str:
    """A JSON text of a value with comments and trailing commas where they may stand."""
    comment = draw(st.sampled_from(COMMENTS))
    if not isinstance(value, dict | list):
        return comment + json.dumps(value, ensure_ascii=False)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    gap = "" if indent is None else "\n" + indent * (depth + 1)
    end = "" if indent is None else "\n" + indent * depth
    members = []
    for key in value:
        head = f"{json.dumps(key, ensure_ascii=False)}:" if isinstance(value, dict) else ""
        inner = value[key] if isinstance(value, dict) else key
        members.append(gap + head + draw(commented(inner, indent, depth + 1)))
    last = draw(st.sampled_from(["", ","])) if members else ""
    tail = draw(st.sampled_from(COMMENTS))
    inside = f"{draw(st.sampled_from(COMMENTS))},".join(members)
    return f"{comment}{opening}{inside}{last}{tail}{end}{closing}"


@st.composite
def json_files(draw: st.DrawFn) -> str:
    servers = draw(st.one_of(SERVERS, st.lists(ENTRIES, max_size=3)))
    document: dict[str, Any] = draw(OTHERS)
    if draw(st.booleans()):
        document["mcpServers"] = servers
    document |= draw(OTHERS)
    text = draw(commented(document, draw(st.sampled_from([None, "  ", "\t"]))))
    end = draw(st.sampled_from(["", "\n"]))
    return (text + end).replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


@st.composite
def yaml_files(draw: st.DrawFn) -> str:
    document: dict[str, Any] = draw(OTHERS)
    if draw(st.booleans()):
        document["mcpServers"] = draw(SERVERS)
    text = yaml.safe_dump(document, sort_keys=False, default_flow_style=draw(st.booleans()))
    comment = draw(st.sampled_from(["", "# one\n"]))
    return (comment + text + comment).replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


TOML_PARTS = [
    '[mcp_servers.a]\ncommand = "a" # mine\n',
    '[mcp_servers."b.c"]\nargs = [\n  "[x]",\n]\n\n[mcp_servers."b.c".env]\nX = "1"',
    "[tui]\ntheme = '''\n[mcp_servers.discovery]\n'''\n",
    "[[profiles]]\nname = 'discovery'\n",
]
TOML_ITEMS = [
    '[[mcp_servers]]\nname = "a"\ncommand = "a"\n',
    '[[mcp_servers]]\ncommand = "b"\n[mcp_servers.env]\nX = "1"',
    "[tui]\ntheme = 1\n",
]


def check(text: str, shape: FileShape) -> None:
    after = with_entry(text, shape, "discovery", ENTRY)
    before = servers_of(text, shape)
    entries = servers_of(after, shape)
    entry: Any = entries.pop("discovery")
    assert {key: entry[key] for key in ENTRY} == ENTRY
    assert list(entries.values()) == list(before.values())
    again = without_entry(after, shape, "discovery")
    assert servers_of(again, shape) == before
    if before:  # TOML and YAML get the end of their last line
        assert again in (text, f"{text}\n", f"{text}\r\n")
        assert again == text or shape.kind != "json"


@given(json_files())
def test_a_json_file_gets_one_entry_and_loses_it_again(text: str) -> None:
    check(text, MAP)


@given(yaml_files())
def test_a_yaml_file_gets_one_entry_and_loses_it_again(text: str) -> None:
    check(text, FileShape("yaml", ("mcpServers",)))


@given(st.lists(st.sampled_from(TOML_PARTS), unique=True), st.sampled_from(["\n", "\r\n"]))
def test_a_toml_file_gets_one_entry_and_loses_it_again(parts: list[str], end: str) -> None:
    text = "\n".join(["# Mine", 'model = "x"  # it', *parts]).replace("\n", end)
    check(text, FileShape("toml", ("mcp_servers",)))


@given(st.lists(st.sampled_from(TOML_ITEMS), unique=True), st.sampled_from(["\n", "\r\n"]))
def test_a_toml_file_with_a_list_gets_one_entry_and_loses_it_again(
    parts: list[str], end: str
) -> None:
    text = "\n".join(['model = "x"', *parts]).replace("\n", end)
    check(text, FileShape("toml", ("mcp_servers",), is_list=True))
