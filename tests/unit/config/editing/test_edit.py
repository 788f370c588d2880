"""Edits of a configuration: planned, shown, applied."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine._util.file_lock import lock_file
from discovery_engine.config.editing.edit import add_servers, remove_server, switch_server
from discovery_engine.config.editing.yaml_text import with_enabled, without_server
from discovery_engine.config.loading.parsing import parse_settings
from discovery_engine.errors import ConfigurationError
from tests.factories import make_server
from tests.rows import rows

TEXT = """\
# ours
servers:
  # the first
  one:
    command: x  # why
    args: [a, "b"]

  # the second
  two: {command: y, enabled: false}
  three:
    command: z
    env:
      A: ${B}
log: {level: debug}  # last
"""


def enabled(text: str) -> dict[str, bool]:
    servers = parse_settings(text.encode(), file="f").servers
    return {server.name: server.enabled for server in servers}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "discovery.yaml"
    path.write_text(TEXT)
    path.chmod(0o640)
    return path


@pytest.mark.requirement("CFG-50")
@rows("target", ["gone", "shared"])
def test_beside_an_entry_that_an_alias_breaks_the_others_are_edited(
    file: Path, target: str
) -> None:
    broken = f"servers:\n  a: {{command: x, args: &shared [y]}}\n  b: {{args: *{target}}}\n"
    file.write_text(f"{broken}  c: {{command: x}}\n")

    disabled = broken + '  c: {command: x, "enabled": false}\n'
    assert switch_server(file, "c", is_on=False).after == disabled
    assert remove_server(file, "c").after == broken
    assert remove_server(file, "b").after == "".join(
        line for line in file.read_text().splitlines(keepends=True) if "b:" not in line
    )


@pytest.mark.requirement("CFG-50")
def test_a_file_that_has_changed_since_the_plan_is_left_alone(file: Path) -> None:
    edit = switch_server(file, "two", is_on=True)
    file.write_text(TEXT + "# mine\n")

    with pytest.raises(ConfigurationError, match="has changed in the meantime"):
        edit.apply()

    assert file.read_text() == TEXT + "# mine\n"


@pytest.mark.requirement("CFG-50")
def test_edits_that_are_applied_at_once_lose_nothing(file: Path) -> None:
    begin = threading.Barrier(4)

    def add(name: str) -> None:
        begin.wait()
        while True:
            with suppress(ConfigurationError):  # another one was applied meanwhile
                add_servers(file, [make_server(name)]).apply()
                return

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add, ("s1", "s2", "s3", "s4")))

    servers = parse_settings(file.read_bytes(), file="f").by_name
    assert servers.keys() >= {"s1", "s2", "s3", "s4"}


@pytest.mark.requirement("OWN-15")
def test_an_edit_beside_one_that_is_applied_is_refused(file: Path) -> None:
    edit, before = add_servers(file, [make_server("new")]), file.read_bytes()
    folder = os.open(file.parent, os.O_RDONLY)
    lock_file(folder)
    try:
        with pytest.raises(ConfigurationError, match="being edited by another process"):
            edit.apply()
    finally:
        os.close(folder)
    assert file.read_bytes() == before
    edit.apply()


@rows(
    ("text", "left"),
    [
        pytest.param("servers:\n  a: {command: x}\n", "servers:\n", id="the only one"),
        pytest.param("servers: {a: {command: x}}\n", "servers: {}\n", id="in braces"),
        pytest.param(
            '{"servers": {"a": {"command": "x"},}}', '{"servers": {}}', id="a trailing comma"
        ),
        pytest.param(
            "servers:\r\n  a:\r\n    command: x\r\nlog: {}\r\n",
            "servers:\r\nlog: {}\r\n",
            id="line ends of Windows",
        ),
        pytest.param(
            "servers:\n- name: b\n  command: y\n- name: a\n  command: x\n",
            "servers:\n- name: b\n  command: y\n",
            id="the last of a list",
        ),
        pytest.param("servers:\n  a: {command: x}", "servers:\n", id="without an end of the line"),
        pytest.param(
            "servers: {\n  # of a\n  a: {command: x},  # a, b\n  # of b\n  b: {command: y}\n}\n",
            "servers: {\n  # of a\n  # of b\n  b: {command: y}\n}\n",
            id="in braces, on a line of its own",
        ),
        pytest.param(
            "servers: {\n  b: {command: y}  # b, too\n  ,  # more\n  a: {command: x}\n  # end\n}\n",
            "servers: {\n  b: {command: y}  # b, too\n    # more\n  # end\n}\n",
            id="the last in braces",
        ),
        pytest.param(
            '{\n  "servers": {\n    "b": {"command": "y"},\n    "a": {\n      "command": "x"\n'
            "    }\n  }\n}\n",
            '{\n  "servers": {\n    "b": {"command": "y"}\n  }\n}\n',
            id="the last in JSON",
        ),
        pytest.param(
            "servers: {\n  b: {command: y},\n  a: {command: x},\n}\n",
            "servers: {\n  b: {command: y},\n}\n",
            id="the last in braces, with a comma",
        ),
        pytest.param(
            "servers:\n-\n  name: b\n  command: y\n- # - a\n\n  name: a\n  command: x\n# end\n",
            "servers:\n-\n  name: b\n  command: y\n# end\n",
            id="an item below its dash",
        ),
    ],
)
def test_only_the_lines_of_the_entry_go(text: str, left: str) -> None:
    assert without_server(text, "a") == left


NAMES = ("a", "b1", "x.y")
WORDS = st.text(alphabet="ab:#'\"\N{GRINNING FACE} \n-{}[],&*!|>%@`\\", max_size=12)
ENTRIES = st.fixed_dictionaries(
    {"command": st.just("x")},
    optional={
        "description": WORDS,
        "args": st.lists(WORDS, max_size=3),
        "enabled": st.booleans(),
        "env": st.none(),
    },
)
STYLES = st.sampled_from(
    [
        json.dumps,
        partial(json.dumps, indent=2, ensure_ascii=False),
        partial(yaml.safe_dump, sort_keys=False),
        partial(yaml.safe_dump, default_flow_style=None, width=20, allow_unicode=True, indent=4),
        partial(yaml.safe_dump, default_flow_style=True, width=20, explicit_start=True),
    ]
)


@pytest.mark.requirement("CFG-50")
@given(
    servers=st.dictionaries(st.sampled_from(NAMES), ENTRIES, min_size=1),
    style=STYLES,
    is_list=st.booleans(),
    is_wrapped=st.booleans(),
    wanted=st.booleans(),
    pick=st.integers(0, 2),
)
def test_nothing_but_the_entry_changes_in_whatever_style_it_is_written(
    servers: dict[str, Any],
    style: Callable[[Any], str],
    *,
    is_list: bool,
    is_wrapped: bool,
    wanted: bool,
    pick: int,
) -> None:
    listed = [{"name": name, **entry} for name, entry in servers.items()]
    sections = {"servers": listed if is_list else servers, "log": {"level": "debug"}}
    text = style({"discovery": sections} if is_wrapped else sections)
    name = list(servers)[pick % len(servers)]
    before = parse_settings(text.encode(), file="f")

    switched = with_enabled(text, name, wanted)
    removed = without_server(text, name)

    assert switched is not None
    assert removed is not None
    assert enabled(switched) == {s.name: s.enabled for s in before.servers} | {name: wanted}
    after = parse_settings(removed.encode(), file="f")
    assert [(s.name, s.transport, s.enabled) for s in after.servers] == [
        (s.name, s.transport, s.enabled) for s in before.servers if s.name != name
    ]
    assert after.log == before.log
