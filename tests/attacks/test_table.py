"""The table of specs/threats.md names a test for every threat, and each of them exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
TABLE = (TESTS.parent / "specs" / "threats.md").read_text("utf-8")
ROWS = {
    found[1]: re.findall(r"`(\S+?)::(\w+)`", found[0])
    for found in re.finditer(r"^\| ([A-H]\d\d) .*$", TABLE, re.MULTILINE)
}


@cache
def names_in(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text("utf-8"))
    return {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("threat", ROWS)
def test_every_threat_has_a_test(threat: str) -> None:
    assert ROWS[threat]
    for file, name in ROWS[threat]:
        assert name in names_in(file)


def test_no_threat_is_left_out() -> None:
    many = {"A": 9, "B": 14, "C": 32, "D": 10, "E": 6, "F": 17, "G": 16, "H": 10}

    assert list(ROWS) == [f"{a}{n:02}" for a, count in many.items() for n in range(1, count + 1)]
