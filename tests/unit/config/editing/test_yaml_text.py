from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.config.editing.yaml_text import with_servers
from discovery_engine.config.loading.parsing import parse_settings
from discovery_engine.config.settings import StdioTransport
from discovery_engine.rules.rule import Rule
from tests.factories import make_server
from tests.rows import rows

NEW = make_server("new", transport=StdioTransport("new", args=("no", "12:30")))
RULE = Rule(("delete_*",), servers=("new",), enabled=False)


@rows(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("# only words", id="comment"),
        pytest.param("servers:\n", id="null"),
        pytest.param("servers:  # none yet\nlog: {}\n", id="null with a comment"),
        pytest.param("servers: {} # none\ntoolRules: []", id="empty collections"),
        pytest.param("servers: {a: {command: b}}\ntoolRules: [{tags: [x]}]\n", id="flow"),
        pytest.param('{"servers": {"a": {"command": "b"}}}\n', id="JSON"),
        pytest.param(
            '{\n  "servers": {\n    "a": {"command": "b"}, # c\n  },\n}\n',
            id="JSON, trailing commas",
        ),
        pytest.param('{"servers": {}, "toolRules": []}', id="JSON with empty collections"),
        pytest.param('{"servers": null}', id="JSON with null"),
        pytest.param('{\n\t"servers": {\n\t\t"a": {"command": "b"}\n\t}\n}', id="JSON with tabs"),
        pytest.param("---\n{}\n", id="JSON without anything"),
        pytest.param("discovery: {}\n", id="nothing under a key"),
        pytest.param("discovery:\n", id="a key alone"),
        pytest.param("# ours\nnull\n", id="nothing, as a word"),
        pytest.param("log: {}", id="other sections"),
        pytest.param(
            "discovery:\n    # ours\n    servers:\n        a:  # first\n            command: b\n"
            "            args:\n            - c\n\n    # rules\n    tool_rules:\n"
            "    - tags: [x]\n# end",
            id="under a key, wide, with comments",
        ),
        pytest.param(
            "servers:\n- name: a\n  command: b\n  description: |\n    two\n    lines\n\nlog: {}\n",
            id="a list, ending in a block",
        ),
        pytest.param("servers:\n  a:\n    command: b\n    env:\n", id="ending in null"),
    ],
)
def test_entries_are_added_and_what_stands_there_stays(text: str) -> None:
    written = with_servers(text, [NEW], [RULE])

    before, after = (yaml.safe_load(one.replace("\t", " ")) or {} for one in (text, written))
    before, after = (one.get("discovery", one) or {} for one in (before, after))
    assert before.keys() <= after.keys()
    servers = after["servers"]
    new = servers["new"] if isinstance(servers, dict) else servers[-1]
    assert (new["command"], new["args"]) == ("new", ["no", "12:30"])
    assert len(servers) == len(before.get("servers") or ()) + 1
    rules = after.get("toolRules") or after["tool_rules"]
    assert rules[-1] == {"pattern": "delete_*", "server": "new", "enabled": False}
    position = 0
    for character in re.sub(r"servers: {}|toolRules: \[\]|discovery: {}|null|\s", "", text):
        position = written.index(character, position) + 1


NAMES = st.sampled_from(["a", "b1", "x.y"])
TEXT = st.text(alphabet="ab:#'\"é\N{GRINNING FACE} \n-{}[],&*!|>%@`\\", max_size=12)
ENTRIES = st.fixed_dictionaries(
    {"command": st.just("x")}, optional={"description": TEXT, "args": st.lists(TEXT, max_size=3)}
)
SECTIONS = st.fixed_dictionaries(
    {},
    optional={
        "servers": st.none() | st.dictionaries(NAMES, ENTRIES, max_size=2),
        "toolRules": st.none() | st.just([{"pattern": ["a", "!b"], "enabled": False}]),
        "enabled": st.booleans(),
    },
)
STYLES = st.sampled_from(
    [
        json.dumps,
        partial(json.dumps, indent="\t"),
        partial(json.dumps, indent=2, ensure_ascii=False),
        partial(yaml.safe_dump, sort_keys=False),
        partial(yaml.safe_dump, default_flow_style=None, width=20, allow_unicode=True, indent=4),
        partial(yaml.safe_dump, default_flow_style=True, width=20, explicit_start=True),
    ]
)


@pytest.mark.requirement("CLI-21")
@given(sections=SECTIONS, style=STYLES, is_wrapped=st.booleans())
def test_whatever_stands_there_stays_and_the_new_ones_come_last(
    sections: dict[str, Any], style: Callable[[Any], str], is_wrapped: bool
) -> None:
    text = style({"discovery": sections} if is_wrapped else sections)

    before = parse_settings(text.encode(), file="f")
    after = parse_settings(with_servers(text, [NEW], [RULE]).encode(), file="f")

    assert [s.transport for s in after.servers[:-1]] == [s.transport for s in before.servers]
    assert (after.servers[-1].name, after.servers[-1].transport) == ("new", NEW.transport)
    assert [rule.patterns for rule in after.tool_rules] == [
        *(rule.patterns for rule in before.tool_rules),
        RULE.patterns,
    ]


@pytest.mark.requirement("CLI-21")
def test_line_ends_stay_and_those_of_windows_are_taken_up() -> None:
    windows = with_servers("# ours\r\nservers:\r\n  a: {command: b}\r\n", [NEW], [])
    mixed = with_servers("# ours\r\nservers:\n  a: {command: b}\n", [NEW], [])

    assert windows.startswith("# ours\r\nservers:\r\n  a: {command: b}\r\n  new:\r\n")
    assert windows.count("\n") == windows.count("\r\n")
    assert mixed.startswith("# ours\r\nservers:\n  a: {command: b}\n  new:\n")
