"""Every promise of specs/ has a test, and every test that names a promise names a real one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROMISE = re.compile(r"^- \*\*([A-Z]{2,4}-\d+)\*\*", re.MULTILINE)


def promised() -> list[str]:
    pages = sorted((ROOT / "specs").glob("*.md"))
    return [found for page in pages for found in PROMISE.findall(page.read_text("utf-8"))]


def proved() -> set[str]:
    files = (ROOT / "tests").rglob("test_*.py")
    trees = (ast.parse(file.read_text("utf-8")) for file in files)
    return {found for tree in trees for node in ast.walk(tree) for found in _named(node)}


def _named(node: ast.AST) -> list[str]:
    match node:
        case ast.Call(func=ast.Attribute(attr="requirement"), args=arguments):
            return [
                str(argument.value) for argument in arguments if isinstance(argument, ast.Constant)
            ]
    return []


def test_no_two_promises_share_an_id() -> None:
    ids = promised()

    assert sorted(ids) == sorted(set(ids))


def test_every_promise_has_a_test() -> None:
    assert sorted(set(promised()) - proved()) == []


def test_every_test_that_names_a_promise_names_a_real_one() -> None:
    assert sorted(proved() - set(promised())) == []
