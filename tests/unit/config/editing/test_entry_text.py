"""Another entry for a server: only what differs is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.config.editing.edit import lost_comments, with_server
from discovery_engine.config.loading.parsing import parse_settings
from discovery_engine.config.serialization import deserialize_server, serialize_server
from discovery_engine.config.settings import ServerSettings
from tests.rows import rows

TEXT = """\
# ours
servers:
  first: {command: "one"}   # short
  mail:
    # the program of the team
    command: mail-server   # not the old one
    args:
      # folders
      - --folder
      - inbox   # the first one
      - --quiet
    env:
      # ask Ana for it
      TOKEN: ${MAIL_TOKEN}
      LEVEL: 'debug'   # louder
    working_directory_is_no_key: 1
    tags: [work, mail]   # as in the wiki
    visible_to: [team:ana]
    # end of mail
  last:
    command: two
""".replace("    working_directory_is_no_key: 1\n", "")


def server_of(text: str, name: str = "mail") -> ServerSettings:
    return parse_settings(text.encode(), file="f").by_name[name]  # type: ignore[index]


def form(server: ServerSettings) -> dict[str, Any]:
    return json.loads(json.dumps(serialize_server(server)))


def changed(text: str, **changes: Any) -> str:
    before = server_of(text)
    entry = {**form(before), **changes}
    entry = {key: value for key, value in entry.items() if value is not None}
    after = with_server(text, before, deserialize_server("mail", entry))
    assert after is not None
    assert form(server_of(after)) == entry
    return after


def lines(before: str, after: str) -> tuple[list[str], list[str]]:
    """The lines that went, and those that came."""
    some, others = before.splitlines(), after.splitlines()
    gone = [one for one in some if one not in others]
    return gone, [one for one in others if one not in some]


@pytest.mark.requirement("CFG-50")
@rows(
    ("changes", "gone", "came"),
    [
        pytest.param(
            {"command": "other"},
            ["    command: mail-server   # not the old one"],
            ["    command: other   # not the old one"],
            id="a text, with the comment behind it",
        ),
        pytest.param(
            {"args": ["--folder", "sent", "--quiet"]},
            ["      - inbox   # the first one"],
            ["      - sent   # the first one"],
            id="an item",
        ),
        pytest.param(
            {"args": ["--folder", "inbox", "--all", "--quiet", "--fast"]},
            [],
            ["      - --all", "      - --fast"],
            id="items that are added",
        ),
        pytest.param({"args": ["--folder", "inbox"]}, ["      - --quiet"], [], id="an item less"),
        pytest.param(
            {"env": {"TOKEN": "${MAIL_TOKEN}", "LEVEL": "a: b", "MODE": "x"}},
            ["      LEVEL: 'debug'   # louder"],
            ["      LEVEL: 'a: b'   # louder", "      MODE: x"],
            id="variables",
        ),
        pytest.param(
            {"tags": ["work"]},
            ["    tags: [work, mail]   # as in the wiki"],
            ['    tags: ["work"]   # as in the wiki'],
            id="a list in brackets",
        ),
        pytest.param(
            {"visibleTo": ["team:bob"]},
            ["    visible_to: [team:ana]"],
            ['    visible_to: ["team:bob"]'],
            id="a key in its other spelling",
        ),
        pytest.param({"visibleTo": None}, ["    visible_to: [team:ana]"], [], id="a key less"),
        pytest.param(
            {"description": "two\nlines", "enabled": False},
            [],
            ["    description: |-", "      two", "      lines", "    enabled: false"],
            id="new keys",
        ),
    ],
)
def test_only_the_lines_that_differ_are_written(
    changes: dict[str, Any], gone: list[str], came: list[str]
) -> None:
    after = changed(TEXT, **changes)

    found_gone, found_came = lines(TEXT, after)
    assert found_gone == gone
    if "description" not in changes:  # YAML has several ways to write two lines
        assert found_came == came
    assert lost_comments(TEXT, after) == []


@pytest.mark.requirement("CFG-50")
def test_comments_that_go_with_what_they_stand_in_are_named() -> None:
    after = changed(TEXT, env=None, args=["--quiet"])

    assert lost_comments(TEXT, after) == ["# the first one", "# ask Ana for it", "# louder"]


@pytest.mark.requirement("CFG-50")
def test_windows_lines_lists_of_servers_and_files_without_a_last_line_end() -> None:
    windows = TEXT.replace("\n", "\r\n")
    listed = "servers:\n- name: mail\n  command: x  # mine\n  args:\n  - a"

    after = changed(windows, command="other")
    assert after == windows.replace("mail-server", "other")
    assert changed(listed, args=["a", "b"]) == f"{listed}\n  - b\n"
    assert changed(listed, command="y") == listed.replace("x  #", "y  #")


WORDS = st.text(alphabet="ab:#'\"é\N{GRINNING FACE} \n-{}[],&*!|>%@`\\1", max_size=8)
ENTRIES = st.fixed_dictionaries(
    {"command": st.sampled_from(["x", "y z", "1", "#a"])},
    optional={
        "args": st.lists(WORDS, max_size=4),
        "env": st.dictionaries(st.sampled_from(["A", "B", "C"]), WORDS, max_size=3),
        "description": WORDS.filter(str.strip),
        "enabled": st.just(False),
        "tags": st.lists(st.sampled_from(["t", "u", "v"]), unique=True, max_size=3),
        "timeouts": st.fixed_dictionaries({}, optional={"call": st.just(9), "list": st.just(8)}),
    },
)
STYLES = st.sampled_from(
    [
        json.dumps,
        partial(json.dumps, indent=2),
        partial(yaml.safe_dump, sort_keys=False, allow_unicode=True),
        partial(yaml.safe_dump, default_flow_style=None, width=20, indent=4),
        partial(yaml.safe_dump, default_flow_style=True, width=20),
    ]
)


@pytest.mark.thorough
@pytest.mark.requirement("CFG-50")
@given(before=ENTRIES, after=ENTRIES, style=STYLES)
def test_the_text_describes_the_new_entry_and_the_others_stay(
    before: dict[str, Any], after: dict[str, Any], style: Callable[[Any], str]
) -> None:
    servers = {"a": {"command": "a"}, "mail": before, "z": {"command": "z", "args": ["1"]}}
    text = style({"servers": servers, "log": {"level": "info"}})
    wanted = server_of(json.dumps({"servers": {"mail": after}}))

    written = with_server(text, server_of(text), wanted)

    assert written is not None
    assert serialize_server(server_of(written)) == serialize_server(wanted)
    assert parse_settings(written.encode(), file="f").by_name["a"] == server_of(text, "a")
    assert server_of(written, "z").transport == server_of(text, "z").transport
