"""Headings of the parts of a diff."""

from __future__ import annotations

import json

import pytest

from discovery_engine.config.editing.diff_headings import headed_diff, keys_above
from tests.rows import rows

YAML = """\
# ours
servers:
  mail:
    command: x

    # more
    env:
      A: "1"
      B: 2
    args:
    - a
    - b
toolRules:
  - pattern: "*"
    server: mail
    tags:
      - x
log: {level: debug}
"""


@pytest.mark.requirement("CFG-50")
@rows(
    ("line", "above"),
    [
        ("servers:", ""),
        ("  mail:", "servers:"),
        ("    # more", "servers: mail:"),
        ("      B: 2", "servers: mail: env:"),
        ("    - b", "servers: mail: args:"),
        ("    server: mail", 'toolRules: - pattern: "*"'),
        ("      - x", 'toolRules: - pattern: "*" tags:'),
        ("log: {level: debug}", ""),
    ],
)
def test_the_keys_that_a_line_stands_under(line: str, above: str) -> None:
    lines = YAML.splitlines()

    assert keys_above(lines, lines.index(line)) == above


@pytest.mark.requirement("CFG-50")
def test_a_part_of_a_diff_has_its_keys() -> None:
    entry = {"command": "x", "env": {f"V{n}": "1" for n in range(8)}}
    before = json.dumps({"servers": {"mail": entry}}, indent=2).splitlines(keepends=True)
    after = [line.replace('"V6": "1"', '"V6": "2"') for line in before]

    diff = headed_diff(before, after, "f").splitlines()

    assert diff[2].startswith("@@ -9,")
    assert diff[2].endswith("@@ servers: mail: env:")
    assert headed_diff(["a"], ["b"], "f").splitlines()[2:] == ["@@ -1 +1 @@", "-a", "+b"]
